"""The environment as typed settings. Secrets come from here and from nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from kubeflow_corpus.errors import SettingsError

# The value of a prefix that turns the preset of a model off.
NO_PREFIX: Final = "none"
DENSE_INDEXES: Final = ("FLAT", "HNSW")
DEFAULT_GITHUB_API_URL: Final = "https://api.github.com"


class Secret:
    """A string that does not show itself in a log, a traceback or a repr.

    Pydantic's `SecretStr` does the same, and the base install, which an agent imports, has no pydantic.
    """

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


# What a value must be, and what to do where it is not. Every message about a value is made of this table.
EXPECTED: Final = {
    "number": ("a number of 0 or more", "Set a number, or unset it"),
    "whole number": ("a whole number of 0 or more", "Set a number, or unset it"),
    "boolean": ("true or false", "Set true or false, or unset it"),
    "url": ("an http(s) URL", "Set a URL such as http://host:8080, or unset it"),
    "index": (f"one of {', '.join(DENSE_INDEXES)}", "Set one of these, or unset it"),
    "prefix": ("a Milvus name", "Use letters, digits and underscores, not starting with a digit"),
}


def wrong_value(variable: str, text: str, expected: str) -> SettingsError:
    """Returns the error for a variable whose value is not what it must be.

    Args:
        variable: Name of the environment variable.
        text: Its value; never the value of a secret.
        expected: What it must be, a key of `EXPECTED`.
    """
    what, remedy = EXPECTED[expected]
    # What stands before an @ may be a password.
    shown = text.rpartition("@")[2]
    return SettingsError(f"{variable} is not {what}: {shown!r}", remedy=remedy, setting=variable)


def missing_value(variable: str, remedy: str) -> SettingsError:
    """Returns the error for a variable that must be set and is not."""
    return SettingsError(f"{variable} is not set", remedy=remedy, setting=variable)


def parse_url(variable: str, text: str) -> str:
    """Returns an http(s) URL without its trailing slash.

    Raises:
        SettingsError: It is not one.
    """
    if not text.startswith(("http://", "https://")):
        raise wrong_value(variable, text, "url")
    return text.rstrip("/")


def _parse_text(variable: str, text: str) -> str:
    return text


def _parse_secret(variable: str, text: str) -> Secret:
    return Secret(text)


def _parse_whole_number(variable: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise wrong_value(variable, text, "whole number")
    return int(text)


def _parse_index(variable: str, text: str) -> str:
    if text.upper() not in DENSE_INDEXES:
        raise wrong_value(variable, text, "index")
    return text.upper()


def _parse_prefix(variable: str, text: str) -> str:
    if not (text.isascii() and text.isidentifier()):
        raise wrong_value(variable, text, "prefix")
    return text


def _parse_boolean(variable: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise wrong_value(variable, text, "boolean")
    return text.lower() == "true"


def _sharing_by_default() -> bool:
    """Settings that are made in code follow the variable, too: it is about every database that a process opens."""
    return _parse_boolean("MILVUS_SHARING", os.environ.get("MILVUS_SHARING", "").strip() or "true")


def _setting(description: str, parse: Callable[[str, str], Any] = _parse_text, default: Any = "") -> Any:
    return field(default=default, metadata={"description": description, "parse": parse})


def _verbatim(description: str) -> Any:
    made = _setting(description)
    return field(default=made.default, metadata={**made.metadata, "verbatim": True})


def _secret(description: str) -> Any:
    return _setting(description, _parse_secret, Secret(""))


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that every part of the package shares.

    Each is the environment variable of its name in capitals; a blank one counts as unset. The library of an agent reads
    them too, so they need nothing but the standard library.
    """

    milvus_uri: str = _setting("A .db path (embedded Milvus) or an http(s) URL.")
    milvus_token: Secret = _secret("Token of the Milvus user.")
    milvus_user: str = _setting("Name of the Milvus user.")
    milvus_password: Secret = _secret("Password of the Milvus user.")
    milvus_database: str = _setting("Database of the collections; empty is Milvus' default.")
    milvus_sharing: bool = field(
        default_factory=_sharing_by_default,
        metadata={
            "description": "Whether several programs may use a .db path at once, through a process that serves it; "
            "false opens it in this program alone.",
            "parse": _parse_boolean,
        },
    )
    dense_index: str = _setting(
        "FLAT (exact) or HNSW (for more than some 100,000 rows on a server), for versions created from now on.",
        _parse_index,
        "FLAT",
    )
    collection_prefix: str = _setting("Separates environments in one Milvus.", _parse_prefix)
    embeddings_url: str = _setting("A text-embeddings-inference service; empty is the embedded model.", parse_url)
    embeddings_api_key: Secret = _secret("API key of the embedding service.")
    embedding_query_prefix: str = _verbatim(
        "What the service's model reads before a question, blanks included; unset is the preset of the model (bge, e5, "
        "nomic, gte, Qwen3-Embedding and others), `none` is nothing. Recorded with the model: a change rebuilds."
    )
    embedding_document_prefix: str = _verbatim("The same before a text that is indexed.")
    chunk_tokens: int = _setting(
        "Tokens that a chunk may have; 0 is what the model reads.", _parse_whole_number, default=0
    )
    document_seconds: int = _setting(
        "Processor time of one document in the step that cuts documents, before it is given up.",
        _parse_whole_number,
        default=20,
    )
    document_memory_mb: int = _setting(
        "Memory (MiB) of one document in that step, before it is given up.", _parse_whole_number, default=1024
    )
    embedding_cache: str = _setting("Folder that keeps vectors for later runs on this machine; empty is none.")
    rerank_url: str = _setting("A text-embeddings-inference reranker; empty means no second stage.", parse_url)
    rerank_api_key: Secret = _secret("API key of the reranker.")
    question_log: str = _setting(
        "SQLite file that keeps questions and what was found, without secrets and without who asked; empty is none."
    )
    question_log_days: int = _setting("Days that a question is kept in it.", _parse_whole_number, default=90)
    github_token: Secret = _secret("Token for GitHub: private repositories, and 5,000 calls an hour instead of 60.")
    github_api_url: str = _setting(
        "API of GitHub, or of a GitHub Enterprise server.", parse_url, DEFAULT_GITHUB_API_URL
    )
    notify_webhook_url: Secret = _secret("Webhook to notify of failed runs; its path is often its password.")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Reads the settings.

        Args:
            environ: Instead of the process environment, for tests.

        Raises:
            SettingsError: A value is not what it must be.
        """
        env = os.environ if environ is None else environ
        given = {item: env.get(item.name.upper(), "") for item in fields(cls)}
        texts = {item: text if "verbatim" in item.metadata else text.strip() for item, text in given.items()}
        return cls(
            **{item.name: item.metadata["parse"](item.name.upper(), text) for item, text in texts.items() if text}
        )

    def unlogged(self) -> Settings:
        """Returns these settings without a log of questions: what a measurement asks, nobody asked."""
        return replace(self, question_log="")

    @property
    def embedded_milvus(self) -> bool:
        """Whether `milvus_uri` is a path rather than a server."""
        return bool(self.milvus_uri) and "://" not in self.milvus_uri

    @property
    def shared_milvus(self) -> bool:
        """Whether `milvus_uri` is a path that a process of its own serves to this program and others."""
        return self.embedded_milvus and self.milvus_sharing and os.name == "posix"

    @property
    def exclusive_milvus(self) -> bool:
        """Whether `milvus_uri` is a path that this process opens itself, so that no other one can."""
        return self.embedded_milvus and not self.shared_milvus

    def require_milvus_uri(self) -> str:
        """Returns the Milvus URI.

        Raises:
            SettingsError: It is not set.
        """
        if not self.milvus_uri:
            raise missing_value(
                "MILVUS_URI",
                "Set it to the .db file that `kubeflow-corpus run` filled (local/corpus.db, extra 'local'), or to the "
                "http(s) URL of a Milvus server",
            )
        return self.milvus_uri
