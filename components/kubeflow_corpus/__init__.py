"""Kubeflow's documentation, issue threads and code as three searchable Milvus collections.

``from kubeflow_corpus import CorpusClient`` is all that an agent needs. The name is resolved lazily: pipeline steps
import this package too, in processes where neither the query library nor its start-up time is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubeflow_corpus.query.client import AsyncCorpusClient, CorpusClient

__all__ = ["AsyncCorpusClient", "CorpusClient"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from kubeflow_corpus.query import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
