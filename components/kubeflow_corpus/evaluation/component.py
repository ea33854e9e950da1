"""KFP face of the step that evaluates.

KFP reads the signatures at run time: no postponed annotations, no ``X | None``; an absent text is "".
"""

from kfp import dsl
from kfp.dsl import Dataset, Input, Output

from kubeflow_corpus.steps.image import STEP_IMAGE


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def evaluate(collection: str, applied: Input[Dataset], evaluated: Output[Dataset]) -> None:
    """Asks questions of what was written, before readers do.

    Args:
        collection: docs, issues or code.
        applied: What was written.
        evaluated: What the gate says, and how it went.
    """
    from kubeflow_corpus.steps.evaluation import evaluate_collection

    evaluated.metadata.update(evaluate_collection(collection, applied.path, evaluated.path))
