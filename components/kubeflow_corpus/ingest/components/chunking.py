"""KFP face of the step that cuts documents.

KFP reads the signatures at run time: no postponed annotations, no ``X | None``; an absent text is "".
"""

from kfp import dsl
from kfp.dsl import Dataset, Input, Output

from kubeflow_corpus.ingest.image import STEP_IMAGE


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def chunk(collection: str, build: str, documents: Input[Dataset], chunks: Output[Dataset]) -> None:
    """Cuts the documents of a source into rows.

    Args:
        collection: docs, issues or code.
        build: Which build of the program this is: part of the key of the cache where no image digest is.
        documents: The documents of a source.
        chunks: The rows, what was left out, and how it went.
    """
    from kubeflow_corpus.ingest.chunking import chunk_source

    chunks.metadata.update(chunk_source(documents.path, chunks.path, collection))
