"""KFP face of the step that evaluates.

KFP reads the signatures at run time: no postponed annotations, no ``X | None``; an absent text is "".
"""

from typing import Dict  # noqa: UP035

from kfp import dsl
from kfp.dsl import HTML, Dataset, Input, Metrics, Output

from kubeflow_corpus.ingest.image import STEP_IMAGE


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def evaluate(
    collection: str,
    applied: Input[Dataset],
    questions: str,
    floors: Dict[str, float],  # noqa: UP006
    evaluated: Output[Dataset],
    metrics: Output[Metrics],
    page: Output[HTML],
) -> None:
    """Asks questions of what was written, before readers do.

    Args:
        collection: docs, issues or code.
        applied: What was written.
        questions: Path of a question set; empty asks nothing.
        floors: Metric to the least mean with which a new version is served.
        evaluated: What was written, what the gate says, and how it went.
        metrics: The figures.
        page: Report of the evaluation.
    """
    from kubeflow_corpus.ingest.evaluation import evaluate_collection

    metadata, figures = evaluate_collection(collection, applied.path, questions, floors, evaluated.path, page.path)
    evaluated.metadata.update(metadata)
    for name, value in figures.items():
        metrics.log_metric(name, value)
