"""Kubeflow's documentation, issue threads and code as three searchable Milvus collections.

``from kubeflow_corpus import CorpusClient`` is all that an agent needs. Names are resolved at first use: the steps of
the pipeline import this package too, in processes that need neither the query library nor its start-up time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kubeflow_corpus.errors import (
        CollectionNotFound,
        CorpusError,
        DeadlineExceeded,
        EmbedderMissing,
        EmbedderRefused,
        EmbedderUnavailable,
        EmbeddingError,
        InvalidArgument,
        InvalidVector,
        ModelMismatch,
        QueryError,
        SchemaMismatch,
        SettingsError,
        StoreError,
        StoreUnavailable,
        UnitNotFound,
    )
    from kubeflow_corpus.query.citations import Citation
    from kubeflow_corpus.query.client import AsyncCorpusClient, CorpusClient
    from kubeflow_corpus.query.evidence import Evidence
    from kubeflow_corpus.query.hit import Hit
    from kubeflow_corpus.query.options import (
        ClientOptions,
        CodeOptions,
        CollectionOptions,
        DocsOptions,
        IssuesOptions,
        SearchOptions,
    )
    from kubeflow_corpus.query.resolve import Resolved, resolve
    from kubeflow_corpus.query.results import SearchResult, SourceUnit
    from kubeflow_corpus.query.tuning import Tuning
    from kubeflow_corpus.settings import Settings

    __version__: str

__all__ = [
    "AsyncCorpusClient",
    "Citation",
    "ClientOptions",
    "CodeOptions",
    "CollectionNotFound",
    "CollectionOptions",
    "CorpusClient",
    "CorpusError",
    "DeadlineExceeded",
    "DocsOptions",
    "EmbedderMissing",
    "EmbedderRefused",
    "EmbedderUnavailable",
    "EmbeddingError",
    "Evidence",
    "Hit",
    "InvalidArgument",
    "InvalidVector",
    "IssuesOptions",
    "ModelMismatch",
    "QueryError",
    "Resolved",
    "SchemaMismatch",
    "SearchOptions",
    "SearchResult",
    "Settings",
    "SettingsError",
    "SourceUnit",
    "StoreError",
    "StoreUnavailable",
    "Tuning",
    "UnitNotFound",
    "__version__",
    "resolve",
]

# Where the names are, the cheapest to import first.
_MODULES: Final = (
    "errors",
    "settings",
    "query.tuning",
    "query.options",
    "query.results",
    "query.resolve",
    "query.client",
)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version

        return version("kubeflow-corpus")
    modules = (import_module(f"{__name__}.{module}") for module in _MODULES)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
