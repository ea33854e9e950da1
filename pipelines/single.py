"""The pipeline of one collection: its steps, then the report."""

from typing import Any, Dict, List  # noqa: UP035

from kfp import dsl
from kfp.dsl import Dataset

from pipelines.graph import Options, collection_steps
from pipelines.placement import Placement
from pipelines.reported import PARAMETERS, reported_pipeline


def single_pipeline(collection: str, title: str, placement: Placement, *, nested: bool = False) -> Any:
    """Returns the pipeline of a collection.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        title: What it does, for the KFP UI.
        placement: Where it will run.
        nested: As a part of `corpus`, which reports itself after all three: the result is how publishing went.
    """

    def steps_pipeline(
        catalogue: str = "",
        sources: List[str] = [],  # noqa: B006, UP006
        changed_paths: List[str] = [],  # noqa: B006, UP006
        rebuild: bool = False,
        allow_deletions: List[str] = [],  # noqa: B006, UP006
        questions: str = "",
        floors: Dict[str, float] = {},  # noqa: B006, UP006
        wait_seconds: int = 0,
        build: str = "",
    ) -> Dataset:
        options = Options(
            catalogue, sources, changed_paths, rebuild, allow_deletions, questions, floors, wait_seconds, build
        )
        return collection_steps(collection, options, placement).outputs["published"]

    steps_pipeline.__doc__ = f"{title}\n\n{PARAMETERS}"
    steps = dsl.pipeline(name=collection, description=title)(steps_pipeline)
    return steps if nested else reported_pipeline(collection, title, {collection: steps}, placement)
