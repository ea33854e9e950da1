"""Which embedder the environment asks for."""

from __future__ import annotations

from kubeflow_corpus.embedding.embedder import StreamingEmbedder
from kubeflow_corpus.settings import Settings


def embedder_from_settings(settings: Settings) -> StreamingEmbedder:
    """Returns the embedder that the environment asks for, without loading or asking anything yet.

    Args:
        settings: With ``EMBEDDINGS_URL`` a text-embeddings-inference service is used, without it the embedded model.
    """
    # The other embedder's imports are not paid for.
    if settings.embeddings_url:
        from kubeflow_corpus.embedding.tei import TeiClient

        return TeiClient(settings.embeddings_url, api_key=settings.embeddings_api_key)
    from kubeflow_corpus.embedding.embedded import EmbeddedModel

    return EmbeddedModel()
