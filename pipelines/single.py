"""The pipeline of one collection: its steps, then the report."""

from collections.abc import Callable
from typing import Any, Dict, List  # noqa: UP035

from kfp import dsl
from kfp.dsl import Dataset
from kubeflow_corpus.steps.component import report

from pipelines.graph import Options, collection_steps
from pipelines.placement import Placement


def single_pipeline(collection: str, title: str, placement: Placement, *, nested: bool = False) -> Any:
    """Returns the pipeline of a collection.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        title: What it does, for the KFP UI.
        placement: Where it will run.
        nested: As a part of `corpus`, which reports itself after all three: the result is how publishing went.
    """

    def nested_pipeline(
        catalogue: str = "",
        sources: List[str] = [],  # noqa: B006, UP006
        rebuild: bool = False,
        allow_deletions: List[str] = [],  # noqa: B006, UP006
        questions: str = "",
        floors: Dict[str, float] = {},  # noqa: B006, UP006
        wait_seconds: int = 0,
        build: str = "",
    ) -> Dataset:
        options = Options(catalogue, sources, rebuild, allow_deletions, questions, floors, wait_seconds, build)
        return collection_steps(collection, options, placement).outputs["published"]

    def whole_pipeline(
        catalogue: str = "",
        sources: List[str] = [],  # noqa: B006, UP006
        rebuild: bool = False,
        allow_deletions: List[str] = [],  # noqa: B006, UP006
        questions: str = "",
        floors: Dict[str, float] = {},  # noqa: B006, UP006
        wait_seconds: int = 0,
        build: str = "",
    ) -> None:
        options = Options(catalogue, sources, rebuild, allow_deletions, questions, floors, wait_seconds, build)
        published = collection_steps(collection, options, placement)
        placement.place(report(collection=collection, published=published.outputs["published"]))

    function: Callable[..., Any] = nested_pipeline if nested else whole_pipeline
    function.__doc__ = f"{title}\n\n{PARAMETERS}"
    return dsl.pipeline(name=collection, description=title)(function)


# KFP shows these beside the fields of its form.
PARAMETERS = """Args:
    catalogue: Path of the catalogue of sources inside the steps; empty is the packaged one.
    sources: Names of the sources to read; empty is all of them.
    rebuild: Fill a new version beside the one that is served, and serve it if its evaluation passes.
    allow_deletions: Names of the sources of which more may be deleted than the guard lets pass.
    questions: Path of a question set that is asked before a new version is served; empty asks nothing.
    floors: Metric of the evaluation to the least mean with which a new version is served, such as hit@5 to 0.9.
    wait_seconds: How long to wait for another run that writes the same collection.
    build: Which build of the program this is; empty where an image digest says so.
"""
