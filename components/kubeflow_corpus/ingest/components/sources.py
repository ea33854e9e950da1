"""KFP faces of the steps that read sources.

KFP reads the signatures at run time: no postponed annotations, no ``X | None``; an absent text is "".
"""

from typing import List  # noqa: UP035

from kfp import dsl
from kfp.dsl import Dataset, Input, Output

from kubeflow_corpus.ingest.image import STEP_IMAGE


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def list_sources(
    catalogue: str,
    collection: str,
    names: List[str],  # noqa: UP006
    changed_paths: List[str],  # noqa: UP006
    rebuild: bool,
    begun: Output[Dataset],
) -> List[str]:  # noqa: UP006
    """Lists the sources of a collection.

    The names are the unnamed output: KFP's local runner loops over no other.

    Args:
        catalogue: Path of the catalogue; empty is the packaged one.
        collection: docs, issues or code.
        names: Only these sources; empty is all of them.
        changed_paths: Only these documents, as source:path; empty is whole sources.
        rebuild: Whether a new version was asked for.
        begun: How reading the catalogue went.

    Returns:
        The names, at least one, which is empty where there is no source.
    """
    from kubeflow_corpus.ingest import sources as steps

    return steps.list_sources(catalogue, collection, names, begun.path, changed_paths, rebuild)


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def resolve_revision(
    catalogue: str,
    collection: str,
    source: str,
    changed_paths: List[str],  # noqa: UP006
    state: Input[Dataset],
) -> str:
    """Finds the commit (or, for issue threads, the point in time) from which a source is read.

    Args:
        catalogue: Path of the catalogue; empty is the packaged one.
        collection: docs, issues or code.
        source: Name of the source.
        changed_paths: Only these documents, as source:path; empty is whole sources.
        state: What the collection records.

    Returns:
        Where the source stands: the key by which fetching it is cached.
    """
    from kubeflow_corpus.ingest.sources import resolve_source

    return resolve_source(catalogue, collection, source, state.path, changed_paths)


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def fetch(catalogue: str, collection: str, resolved: str, build: str, documents: Output[Dataset]) -> None:
    """Reads the documents of a source.

    Args:
        catalogue: Path of the catalogue; empty is the packaged one.
        collection: docs, issues or code.
        resolved: Where the source stands.
        build: Which build of the program this is: part of the key of the cache where no image digest is.
        documents: The documents, what was skipped, and how it went.
    """
    from kubeflow_corpus.ingest.sources import fetch_source

    documents.metadata.update(fetch_source(catalogue, collection, resolved, documents.path))


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def fetch_threads(catalogue: str, resolved: str, state: Input[Dataset], documents: Output[Dataset]) -> None:
    """Reads the issue threads of a source that changed since the last run.

    Args:
        catalogue: Path of the catalogue; empty is the packaged one.
        resolved: Where the source stands.
        state: What the collection records: it holds the cursors.
        documents: The threads, what was skipped, the next cursor, and how it went.
    """
    from kubeflow_corpus.ingest.sources import fetch_source_threads

    documents.metadata.update(fetch_source_threads(catalogue, resolved, state.path, documents.path))
