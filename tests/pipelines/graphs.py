"""Graphs of one step, which ends as its parameter says. Without postponed annotations: KFP reads them."""

from typing import Any, Dict  # noqa: UP035

from kfp import dsl
from kfp.dsl import Dataset, Output
from kubeflow_corpus.ingest.image import STEP_IMAGE


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def end(how: str, published: Output[Dataset]) -> None:
    """Ends well, with a failure in its result, or killed."""
    import os
    import signal

    from kubeflow_corpus.ingest.results import StepResult
    from kubeflow_corpus.ingest.step import fresh_folder, write_result

    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    result = StepResult(collection="docs", step="apply")
    if how == "failed":
        result = StepResult(
            collection="docs",
            step="apply",
            status="failed",
            problem="the disk is full",
            remedy="Free some space",
        )
    write_result(fresh_folder(published.path), result)


def ending_graph(name: str, how: str) -> Any:
    """Returns a graph that takes what the graph of a collection takes, and gives what it gives."""

    def graph(options: Dict[str, Any] = {}) -> Dataset:  # noqa: B006, UP006
        return end(how=how).outputs["published"]

    return dsl.pipeline(name=name)(graph)
