"""Graphs of one step, which ends as it is told. Without postponed annotations: KFP reads them."""

from typing import Any, Dict, List  # noqa: UP035

from kfp import dsl
from kfp.dsl import Dataset, Output
from kubeflow_corpus.ingest.image import STEP_IMAGE


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def end(how: str, published: Output[Dataset]) -> None:
    """Ends well, with a failure that is handed on, or killed."""
    import os
    import signal

    from kubeflow_corpus.ingest.outcomes import Outcome, fresh_folder, write_outcome

    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    outcome = Outcome("", "apply", facts={"collection": "docs"})
    if how == "failed":
        outcome = Outcome("", "apply", "failed", "the disk is full", "Free some space", facts=outcome.facts)
    write_outcome(fresh_folder(published.path), outcome)


def ending_graph(name: str, how: str) -> Any:
    """Returns a graph that takes what the graph of a collection takes, and gives what it gives."""

    def graph(
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
        return end(how=how).outputs["published"]

    return dsl.pipeline(name=name)(graph)
