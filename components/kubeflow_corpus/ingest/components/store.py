"""KFP faces of the steps that talk to Milvus.

KFP reads the signatures at run time: no postponed annotations, no ``X | None``; an absent text is "".
"""

from typing import List  # noqa: UP035

from kfp import dsl
from kfp.dsl import Dataset, Input, Markdown, Output

from kubeflow_corpus.ingest.image import STEP_IMAGE


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def read_state(
    collection: str,
    model: Input[Dataset],
    sources: List[str],  # noqa: UP006
    rebuild: bool,
    state: Output[Dataset],
) -> None:
    """Reads what a collection records of its sources.

    Args:
        collection: docs, issues or code.
        model: What the embedding model is.
        sources: Names of the sources of this run.
        rebuild: Whether a new version was asked for.
        state: The cursors, and how it went.
    """
    from kubeflow_corpus.ingest import store as steps

    state.metadata.update(steps.read_state(collection, model.path, sources, rebuild, state.path))


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def plan(
    collection: str,
    state: Input[Dataset],
    chunks: Input[List[Dataset]],  # noqa: UP006
    sources: List[str],  # noqa: UP006
    names: List[str],  # noqa: UP006
    rebuild: bool,
    allow_deletions: List[str],  # noqa: UP006
    job_id: str,
    planned: Output[Dataset],
) -> List[str]:  # noqa: UP006
    """Compares what the sources brought with what is held, and lists the texts that have no vector yet.

    Args:
        collection: docs, issues or code.
        state: What the collection records.
        chunks: The rows of each source.
        sources: Names of the sources of this run.
        names: Names that this run was restricted to; empty where it covers the catalogue.
        rebuild: Whether a new version was asked for.
        allow_deletions: Sources of which any number of documents may be deleted.
        job_id: Name of the run.
        planned: The plan, the texts to embed, and how it went.

    Returns:
        The shards of texts to embed, at least one.
    """
    from kubeflow_corpus.ingest.store import plan_collection

    paths = [item.path for item in chunks]
    shards, metadata = plan_collection(
        collection, state.path, paths, sources, names, rebuild, allow_deletions, job_id, planned.path
    )
    planned.metadata.update(metadata)
    return shards


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def apply(
    collection: str,
    planned: Input[Dataset],
    chunks: Input[List[Dataset]],  # noqa: UP006
    vectors: Input[List[Dataset]],  # noqa: UP006
    wait_seconds: int,
    applied: Output[Dataset],
) -> None:
    """Writes what the plan asks for. The only step that writes rows.

    Args:
        collection: docs, issues or code.
        planned: The plan.
        chunks: The rows of each source.
        vectors: The vectors of each shard.
        wait_seconds: How long to wait for another writer.
        applied: What was written, and how it went.
    """
    from kubeflow_corpus.ingest.store import apply_collection

    rows, parts = [item.path for item in chunks], [item.path for item in vectors]
    applied.metadata.update(apply_collection(collection, planned.path, rows, parts, wait_seconds, applied.path))


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def publish(
    collection: str,
    evaluated: Input[Dataset],
    wait_seconds: int,
    published: Output[Dataset],
    summary: Output[Markdown],
) -> None:
    """Serves what was written, if the gates pass.

    Args:
        collection: docs, issues or code.
        evaluated: What was written, and what the evaluation says of it.
        wait_seconds: How long to wait for another writer.
        published: What is served now, and how it went.
        summary: What became of each source.
    """
    from kubeflow_corpus.ingest.store import publish_collection

    published.metadata.update(
        publish_collection(collection, evaluated.path, wait_seconds, published.path, summary.path)
    )
