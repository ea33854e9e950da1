"""The pipeline `corpus`: docs, issue threads and code, each a graph of its own, and one report after all three."""

from typing import Any, Dict, List  # noqa: UP035

from kfp import dsl
from kubeflow_corpus.steps.component import report_corpus

from pipelines.code import code
from pipelines.docs import docs
from pipelines.issues import issues
from pipelines.placement import Placement
from pipelines.single import PARAMETERS

TITLE = "Indexes the documentation, the issue threads and the code of the catalogue."


def corpus(placement: Placement) -> Any:
    """Returns the pipeline: no graph waits for another, and the report names what failed in any of them."""
    parts = {part.__name__: part(placement, nested=True) for part in (docs, issues, code)}

    def corpus_pipeline(
        catalogue: str = "",
        sources: List[str] = [],  # noqa: B006, UP006
        rebuild: bool = False,
        allow_deletions: List[str] = [],  # noqa: B006, UP006
        questions: str = "",
        floors: Dict[str, float] = {},  # noqa: B006, UP006
        wait_seconds: int = 0,
        build: str = "",
    ) -> None:
        published = {
            name: part(
                catalogue=catalogue,
                sources=sources,
                rebuild=rebuild,
                allow_deletions=allow_deletions,
                questions=questions,
                floors=floors,
                wait_seconds=wait_seconds,
                build=build,
            )
            for name, part in parts.items()
        }
        placement.place(report_corpus(**{name: task.output for name, task in published.items()}))

    corpus_pipeline.__doc__ = f"{TITLE}\n\n{PARAMETERS}"
    return dsl.pipeline(name="corpus", description=TITLE)(corpus_pipeline)
