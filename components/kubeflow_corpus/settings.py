"""The environment as typed settings. Secrets come from here and from nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kubeflow_corpus.errors import SettingsError

DENSE_INDEXES: Final = ("FLAT", "HNSW")
DEFAULT_GITHUB_API_URL: Final = "https://api.github.com"


class Secret:
    """A string that does not show itself in a log, a traceback or a repr."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Returns the string itself, for the one call that needs it."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret('***')" if self._value else "Secret('')"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says.

    Attributes:
        milvus_uri: ``MILVUS_URI``: a ``.db`` path (embedded) or an http(s) URL.
        milvus_token: ``MILVUS_TOKEN``.
        milvus_user: ``MILVUS_USER``.
        milvus_password: ``MILVUS_PASSWORD``.
        milvus_database: ``MILVUS_DATABASE``.
        dense_index: ``DENSE_INDEX``: ``FLAT`` (exact, the default) or ``HNSW`` (for more than some 100,000 rows on a
            server), for versions that are created from now on.
        collection_prefix: ``COLLECTION_PREFIX``: separates environments in one Milvus.
        embeddings_url: ``EMBEDDINGS_URL``: a text-embeddings-inference service; empty is the embedded model.
        embeddings_api_key: ``EMBEDDINGS_API_KEY``.
        chunk_tokens: ``CHUNK_TOKENS``: tokens that a chunk may have; 0, the default, is what the model reads.
        embedding_cache: ``EMBEDDING_CACHE``: a folder that keeps vectors for later runs on this machine; empty is none.
        rerank_url: ``RERANK_URL``: a TEI reranker; empty is no second stage.
        rerank_api_key: ``RERANK_API_KEY``.
        github_token: ``GITHUB_TOKEN``.
        github_api_url: ``GITHUB_API_URL``.
        notify_webhook_url: ``NOTIFY_WEBHOOK_URL``: told of a run that failed; its path is often its password.
    """

    milvus_uri: str = ""
    milvus_token: Secret = Secret("")
    milvus_user: str = ""
    milvus_password: Secret = Secret("")
    milvus_database: str = ""
    dense_index: str = "FLAT"
    collection_prefix: str = ""
    embeddings_url: str = ""
    embeddings_api_key: Secret = Secret("")
    chunk_tokens: int = 0
    embedding_cache: str = ""
    rerank_url: str = ""
    rerank_api_key: Secret = Secret("")
    github_token: Secret = Secret("")
    github_api_url: str = DEFAULT_GITHUB_API_URL
    notify_webhook_url: Secret = Secret("")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Reads the settings.

        Args:
            environ: Instead of the process environment, for tests.

        Raises:
            SettingsError: A value cannot be what it is meant to be.
        """
        env = os.environ if environ is None else environ

        def text(name: str, default: str = "") -> str:
            return env.get(name, "").strip() or default

        settings = cls(
            milvus_uri=text("MILVUS_URI"),
            milvus_token=Secret(text("MILVUS_TOKEN")),
            milvus_user=text("MILVUS_USER"),
            milvus_password=Secret(text("MILVUS_PASSWORD")),
            milvus_database=text("MILVUS_DATABASE"),
            dense_index=text("DENSE_INDEX", "FLAT").upper(),
            collection_prefix=text("COLLECTION_PREFIX"),
            embeddings_url=text("EMBEDDINGS_URL").rstrip("/"),
            embeddings_api_key=Secret(text("EMBEDDINGS_API_KEY")),
            chunk_tokens=_whole("CHUNK_TOKENS", text("CHUNK_TOKENS", "0")),
            embedding_cache=text("EMBEDDING_CACHE"),
            rerank_url=text("RERANK_URL").rstrip("/"),
            rerank_api_key=Secret(text("RERANK_API_KEY")),
            github_token=Secret(text("GITHUB_TOKEN")),
            github_api_url=text("GITHUB_API_URL", DEFAULT_GITHUB_API_URL).rstrip("/"),
            notify_webhook_url=Secret(text("NOTIFY_WEBHOOK_URL")),
        )
        settings._check()
        return settings

    def _check(self) -> None:
        for name in ("embeddings_url", "rerank_url", "github_api_url"):
            value = getattr(self, name)
            if value and not value.startswith(("http://", "https://")):
                raise SettingsError(
                    # What stands before an @ may be a password.
                    f"{name.upper()} is not an http(s) URL: {value.rpartition('@')[2]!r}",
                    remedy=f"Set {name.upper()} to a URL such as http://host:8080, or unset it",
                    setting=name.upper(),
                )
        if self.dense_index not in DENSE_INDEXES:
            raise SettingsError(
                f"DENSE_INDEX {self.dense_index!r} is not one of {', '.join(DENSE_INDEXES)}",
                remedy="Unset it, or set one of these",
                setting="DENSE_INDEX",
            )
        prefix = self.collection_prefix
        if prefix and not (prefix.isascii() and prefix.isidentifier()):
            raise SettingsError(
                f"COLLECTION_PREFIX {prefix!r} is not a Milvus name",
                remedy="Use letters, digits and underscores, not starting with a digit",
                setting="COLLECTION_PREFIX",
            )

    @property
    def embedded_milvus(self) -> bool:
        """Whether `milvus_uri` is a path rather than a server."""
        return bool(self.milvus_uri) and "://" not in self.milvus_uri

    def require_milvus_uri(self) -> str:
        """Returns the Milvus URI.

        Raises:
            SettingsError: It is not set.
        """
        if not self.milvus_uri:
            raise SettingsError(
                "MILVUS_URI is not set",
                remedy="Set it to a .db path (embedded, extra 'local') or to the http(s) URL of a Milvus server",
                setting="MILVUS_URI",
            )
        return self.milvus_uri


def _whole(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise SettingsError(f"{name} {text!r} is not a whole number", remedy="Set a number, or unset it", setting=name)
    return int(text)
