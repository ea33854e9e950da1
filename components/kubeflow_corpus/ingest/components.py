"""The KFP faces of the steps: each passes paths to the function of the same name, and its metadata to KFP.

KFP reads the signatures at run time: no postponed annotations, no ``X | None``; an absent text is "". It ships only
the source of each function, so every function imports what it calls.
"""

from typing import Any, Dict, List  # noqa: UP035

from kfp import dsl
from kfp.dsl import HTML, Dataset, Input, Markdown, Metrics, Output, PipelineTaskFinalStatus

from kubeflow_corpus.ingest.image import STEP_IMAGE


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def begin(
    collection: str,
    options: Dict[str, Any],  # noqa: UP006
    job_id: str,
    state: Output[Dataset],
) -> List[str]:  # noqa: UP006
    """Begins a run: reads its options, the model and the state of the collection, and finds where each source stands.

    The sources are the unnamed output: KFP's local runner loops over no other.

    Args:
        collection: docs, issues or code.
        options: What the run is asked for.
        job_id: Name of the run where the options have none.
        state: What the collection records, and how it went.

    Returns:
        Where each source stands (its commit, or for issue threads the point in time): the key by which fetching it is
        cached. At least one, which names no source if there is no source.
    """
    from kubeflow_corpus.ingest.begin import begin
    from kubeflow_corpus.ingest.step import read_result

    sources = begin(collection, options, job_id, state.path)
    state.metadata.update(read_result(state.path).metadata())
    return sources


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def fetch(resolved: str, documents: Output[Dataset]) -> None:
    """Fetches the documents of a source.

    Args:
        resolved: Where the source stands.
        documents: The documents, what was skipped, and how it went.
    """
    from kubeflow_corpus.ingest.sources import fetch

    documents.metadata.update(fetch(resolved, documents.path).metadata())


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def fetch_threads(resolved: str, state: Input[Dataset], documents: Output[Dataset]) -> None:
    """Fetches the issue threads of a source that changed since the last run.

    Args:
        resolved: Where the source stands.
        state: What the collection records: it has the cursors.
        documents: The threads, what was skipped, the next cursor, and how it went.
    """
    from kubeflow_corpus.ingest.sources import fetch_threads

    documents.metadata.update(fetch_threads(resolved, state.path, documents.path).metadata())


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def chunk(documents: Input[Dataset], chunks: Output[Dataset]) -> None:
    """Cuts the documents of a source into rows.

    Args:
        documents: The documents of a source.
        chunks: The rows, what was left out, and how it went.
    """
    from kubeflow_corpus.ingest.chunking import chunk

    chunks.metadata.update(chunk(documents.path, chunks.path).metadata())


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def plan(
    state: Input[Dataset],
    chunks: Input[List[Dataset]],  # noqa: UP006
    planned: Output[Dataset],
) -> List[str]:  # noqa: UP006
    """Compares what the sources have now with what is stored, and lists the texts that have no vector yet.

    Args:
        state: What the collection records.
        chunks: The rows of each source.
        planned: The plan, the texts to embed, and how it went.

    Returns:
        The shards of texts to embed, at least one, which is empty if there is none.
    """
    from kubeflow_corpus.ingest.store import plan

    result = plan(state.path, [item.path for item in chunks], planned.path)
    planned.metadata.update(result.metadata())
    return list(result.shards) or [""]


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def embed(shard: str, planned: Input[Dataset], vectors: Output[Dataset]) -> None:
    """Embeds the texts of one shard that have no vector yet.

    Args:
        shard: Name of the shard; empty where there is nothing to embed.
        planned: The plan, with its shards.
        vectors: The vectors, and how it went.
    """
    from kubeflow_corpus.ingest.embedding import embed

    vectors.metadata.update(embed(shard, planned.path, vectors.path).metadata())


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def apply(
    planned: Input[Dataset],
    chunks: Input[List[Dataset]],  # noqa: UP006
    vectors: Input[List[Dataset]],  # noqa: UP006
    applied: Output[Dataset],
) -> None:
    """Writes what the plan asks for. The only step that writes rows.

    Args:
        planned: The plan.
        chunks: The rows of each source.
        vectors: The vectors of each shard.
        applied: What was written, and how it went.
    """
    from kubeflow_corpus.ingest.store import apply

    result = apply(planned.path, [item.path for item in chunks], [item.path for item in vectors], applied.path)
    applied.metadata.update(result.metadata())


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def evaluate(applied: Input[Dataset], evaluated: Output[Dataset], metrics: Output[Metrics], page: Output[HTML]) -> None:
    """Asks questions of what was written, before readers do.

    Args:
        applied: What was written.
        evaluated: What was written, what the gate says, and how it went.
        metrics: The figures.
        page: Report of the evaluation.
    """
    from kubeflow_corpus.ingest.evaluation import evaluate

    result = evaluate(applied.path, evaluated.path, page.path)
    evaluated.metadata.update(result.metadata())
    for name, value in (result.gate.metrics if result.gate else {}).items():
        metrics.log_metric(name, value)


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def publish(
    evaluated: Input[Dataset], published: Output[Dataset], summary: Output[Markdown], page: Output[HTML]
) -> None:
    """Serves what was written, if the gates pass.

    Args:
        evaluated: What was written, and what the evaluation says of it.
        published: What is served now, and how it went.
        summary: How it went with each source.
        page: The same with everything that was left out, marked or changed.
    """
    from kubeflow_corpus.ingest.store import publish

    published.metadata.update(publish(evaluated.path, published.path, summary.path, page.path).metadata())


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def report(published: Input[Dataset]) -> None:
    """Says how it went with every source, and fails where one failed.

    Args:
        published: How publishing the collection went.
    """
    from kubeflow_corpus.ingest.report import report

    report([published.path])


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def report_corpus(docs: Input[Dataset], issues: Input[Dataset], code: Input[Dataset]) -> None:
    """Says how it went with every source of the three collections, and fails where one failed.

    Args:
        docs: How publishing the docs went.
        issues: How publishing the issue threads went.
        code: How publishing the code went.
    """
    from kubeflow_corpus.ingest.report import report

    report([docs.path, issues.path, code.path])


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def notify_crash(collection: str, run_name: str, run_id: str, status: PipelineTaskFinalStatus) -> None:
    """Notifies the webhook of steps that ended early, and there will not be a report.

    Args:
        collection: docs, issues or code.
        run_name: Name of the run.
        run_id: Its id.
        status: How the steps of the collection ended.
    """
    from kubeflow_corpus.ingest.report import notify_crash

    notify_crash(collection, f"{run_name} ({run_id})", status.state, status.error_message or "")
