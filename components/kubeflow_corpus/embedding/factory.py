"""The embedder and the cache that the environment configures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kubeflow_corpus.embedding.embedder import StreamingEmbedder
from kubeflow_corpus.embedding.prompts import prompts_for
from kubeflow_corpus.model import ModelIdentity
from kubeflow_corpus.settings import Settings

if TYPE_CHECKING:
    from kubeflow_corpus.embedding.cache import VectorCache


def embedder_from_settings(settings: Settings, *, for_queries: bool = False) -> StreamingEmbedder:
    """Returns the configured embedder, without loading or requesting anything yet.

    Args:
        settings: With ``EMBEDDINGS_URL`` a text-embeddings-inference service is used, without it the embedded model.
        for_queries: Whether questions are embedded, before which a model may want other words than before documents.
    """
    # The other embedder's imports are not paid for.
    if settings.embeddings_url:
        from kubeflow_corpus.embedding.tei import TeiClient

        return TeiClient(
            settings.embeddings_url,
            api_key=settings.embeddings_api_key,
            prompts=lambda model: prompts_for(model, settings),
            for_queries=for_queries,
        )
    from kubeflow_corpus.embedding.embedded import EmbeddedModel

    return EmbeddedModel()


def cache_from_settings(settings: Settings, identity: ModelIdentity) -> VectorCache | None:
    """Returns the store of vectors on disk that ``EMBEDDING_CACHE`` names; None where it names none.

    Args:
        settings: The environment.
        identity: The model whose vectors are kept.

    Raises:
        ArtifactError: The store cannot be used.
    """
    if not settings.embedding_cache:
        return None
    from kubeflow_corpus.embedding.cache import VectorCache

    return VectorCache(Path(settings.embedding_cache), identity)
