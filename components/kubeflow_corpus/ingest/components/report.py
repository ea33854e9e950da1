"""KFP faces of the last step of a run, and of the one that tells of a run that has no last step.

KFP reads the signatures at run time: no postponed annotations, no ``X | None``; an absent text is "".
"""

from kfp import dsl
from kfp.dsl import Dataset, Input, PipelineTaskFinalStatus

from kubeflow_corpus.ingest.image import STEP_IMAGE


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def report(collection: str, published: Input[Dataset]) -> None:
    """Says what became of every source, and fails where one failed.

    Args:
        collection: docs, issues or code.
        published: How publishing the collection went.
    """
    from kubeflow_corpus.ingest.report import report_run

    report_run({collection: published.path})


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def report_corpus(docs: Input[Dataset], issues: Input[Dataset], code: Input[Dataset]) -> None:
    """Says what became of every source of the three collections, and fails where one failed.

    Args:
        docs: How publishing the docs went.
        issues: How publishing the issue threads went.
        code: How publishing the code went.
    """
    from kubeflow_corpus.ingest.report import report_run

    report_run({"docs": docs.path, "issues": issues.path, "code": code.path})


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def tell_of_crash(collection: str, run_name: str, run_id: str, status: PipelineTaskFinalStatus) -> None:
    """Tells the webhook of steps that broke off, so that no report will.

    Args:
        collection: docs, issues or code.
        run_name: Name of the run.
        run_id: Its id.
        status: How the steps of the collection ended.
    """
    from kubeflow_corpus.ingest import report as steps

    steps.tell_of_crash(collection, f"{run_name} ({run_id})", status.state, status.error_message or "")
