"""One exception tree. Each error names the thing, carries its fields and the remedy.

::

    CorpusError
    ├── SettingsError              a setting or an environment variable is missing or wrong
    ├── CatalogueError             the catalogue is wrong, at this file and line
    ├── SourceError                a source could not be read
    │   ├── RepositoryNotFound
    │   ├── UnknownRef
    │   ├── SourceUnreachable
    │   ├── SourceRefused          what it asks for is not safe
    │   ├── SourceUnauthenticated
    │   ├── SourceForbidden
    │   └── SourceRateLimited
    ├── ArtifactError              a file between two steps is damaged
    ├── EmbeddingError
    │   ├── EmbedderMissing        no service is configured and no embedded model is installed
    │   ├── EmbedderUnavailable
    │   ├── EmbedderRefused        the service will not take this input or this caller
    │   └── InvalidVector          NaN, zero or wrong dimension
    ├── StoreError
    │   ├── StoreUnavailable
    │   ├── StoreFull              no space left where the collections are
    │   ├── CollectionNotFound
    │   ├── ModelMismatch          the collection's vectors are of another model
    │   ├── SchemaMismatch
    │   ├── InvalidRow             a row breaks a limit of its collection
    │   ├── LeaseHeld              another writer is at work
    │   ├── DeletionGuard          a run would delete more than it may
    │   ├── GateFailed             a candidate is worse than what is served
    │   └── VersionInUse           an alias points to it
    ├── QueryError
    │   ├── InvalidArgument
    │   ├── UnitNotFound
    │   ├── DeadlineExceeded
    │   ├── RateLimited            more calls than are answered
    │   ├── ShuttingDown           the server takes nothing new
    │   ├── Unauthenticated        the caller is not authenticated
    │   └── PermissionDenied       the caller may not do this
    ├── EvaluationError
    ├── KeyStoreError              the keys of sessions could not be read or kept
    ├── ClusterError               Kubeflow Pipelines refused or failed a call
    └── RunFailed                  a run ended, and a source or a step of it failed
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

Code = Literal[
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "UNAVAILABLE",
    "MODEL_MISMATCH",
    "DEADLINE_EXCEEDED",
    "RATE_LIMITED",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "FAILED_PRECONDITION",
    "RESOURCE_EXHAUSTED",
    "DATA_LOSS",
    "INTERNAL",
]


class CorpusError(Exception):
    """Base of every error that this package raises on purpose.

    Args:
        problem: One line that names the thing and what is wrong with it. Never a secret.
        remedy: One line that says what to do.
        **fields: What a program would want to know (source, path, line, expected, ...).

    Attributes:
        code: The class of the error, shared with the MCP adapter.
    """

    code: ClassVar[Code] = "INTERNAL"

    def __init__(self, problem: str, *, remedy: str = "", **fields: Any) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.fields = fields

    def __str__(self) -> str:
        return f"{self.problem}. {self.remedy}" if self.remedy else self.problem

    # Errors cross process boundaries (worker pools), and keyword-only arguments do not survive default pickling.
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.problem, self.remedy, self.fields)


def _rebuild(cls: type[CorpusError], problem: str, remedy: str, fields: dict[str, Any]) -> CorpusError:
    return cls(problem, remedy=remedy, **fields)


class SettingsError(CorpusError):
    """A setting or an environment variable is missing or wrong."""

    code: ClassVar[Code] = "FAILED_PRECONDITION"


class CatalogueError(CorpusError):
    """The catalogue is wrong; `fields` has ``path`` and ``line``."""

    code: ClassVar[Code] = "INVALID_ARGUMENT"


class SourceError(CorpusError):
    """A source could not be read; `fields` has ``source``."""

    code: ClassVar[Code] = "UNAVAILABLE"


class RepositoryNotFound(SourceError):
    """There is no such repository, or the caller may not see it."""

    code: ClassVar[Code] = "NOT_FOUND"


class UnknownRef(SourceError):
    """The repository has no such branch, tag or commit."""

    code: ClassVar[Code] = "NOT_FOUND"


class SourceUnreachable(SourceError):
    """The host did not answer, or its answers ended early."""


class SourceRefused(SourceError):
    """What the source asks for is not safe: a path outside the tree, an option in a name, a transport."""

    code: ClassVar[Code] = "INVALID_ARGUMENT"


class SourceUnauthenticated(SourceError):
    """The host wants credentials, or refuses those it got."""

    code: ClassVar[Code] = "UNAUTHENTICATED"


class SourceForbidden(SourceError):
    """The credentials are known and do not suffice."""

    code: ClassVar[Code] = "PERMISSION_DENIED"


class SourceRateLimited(SourceError):
    """The host's limit is used up; what was read so far is kept. `fields` has ``reset_at``."""

    code: ClassVar[Code] = "RATE_LIMITED"


class ArtifactError(CorpusError):
    """A file that one step hands to the next is damaged; `fields` has ``path``."""

    code: ClassVar[Code] = "DATA_LOSS"


class EmbeddingError(CorpusError):
    """Texts could not be turned into vectors."""


class EmbedderMissing(EmbeddingError):
    """No embedding service is configured and no embedded model is installed."""

    code: ClassVar[Code] = "FAILED_PRECONDITION"


class EmbedderUnavailable(EmbeddingError):
    """The embedding service does not answer, or is overloaded beyond every retry."""

    code: ClassVar[Code] = "UNAVAILABLE"


class EmbedderRefused(EmbeddingError):
    """The embedding service will not take this input or this caller."""

    code: ClassVar[Code] = "INVALID_ARGUMENT"


class InvalidVector(EmbeddingError):
    """A vector holds NaN, is zero, or has the wrong dimension."""

    code: ClassVar[Code] = "DATA_LOSS"


class StoreError(CorpusError):
    """Milvus refused or failed an operation."""


class StoreUnavailable(StoreError):
    """Milvus does not answer, or its file is open in another process."""

    code: ClassVar[Code] = "UNAVAILABLE"


class StoreFull(StoreError):
    """No space is left where the collections are kept."""

    code: ClassVar[Code] = "RESOURCE_EXHAUSTED"


class CollectionNotFound(StoreError):
    """There is no such alias, collection or version."""

    code: ClassVar[Code] = "NOT_FOUND"


class ModelMismatch(StoreError):
    """The collection's vectors are of another model or dimension than the embedder's."""

    code: ClassVar[Code] = "MODEL_MISMATCH"


class SchemaMismatch(StoreError):
    """The collection has another schema than this release reads and writes."""

    code: ClassVar[Code] = "FAILED_PRECONDITION"


class InvalidRow(StoreError):
    """A row breaks a limit of its collection; `fields` has ``id`` and ``field``."""

    code: ClassVar[Code] = "INVALID_ARGUMENT"


class LeaseHeld(StoreError):
    """Another run is writing this collection; `fields` has ``owner`` and ``expires_at``."""

    code: ClassVar[Code] = "FAILED_PRECONDITION"


class DeletionGuard(StoreError):
    """A run would delete a larger share of a source than it may."""

    code: ClassVar[Code] = "FAILED_PRECONDITION"


class GateFailed(StoreError):
    """A candidate is worse than what is served; `fields` has ``failures``."""

    code: ClassVar[Code] = "FAILED_PRECONDITION"


class VersionInUse(StoreError):
    """An alias points to the version that was to be dropped."""

    code: ClassVar[Code] = "FAILED_PRECONDITION"


class QueryError(CorpusError):
    """A question could not be answered."""


class InvalidArgument(QueryError):
    """An argument of a search is wrong; `fields` has ``argument`` and where it helps ``known``."""

    code: ClassVar[Code] = "INVALID_ARGUMENT"


class UnitNotFound(QueryError):
    """There is no such unit."""

    code: ClassVar[Code] = "NOT_FOUND"


class DeadlineExceeded(QueryError):
    """The answer would come later than the caller wants to wait; `fields` has ``stage``."""

    code: ClassVar[Code] = "DEADLINE_EXCEEDED"


class RateLimited(QueryError):
    """The caller, or all callers together, ask more often than is answered."""

    code: ClassVar[Code] = "RATE_LIMITED"


class ShuttingDown(QueryError):
    """The server finishes what runs and takes nothing new."""

    code: ClassVar[Code] = "UNAVAILABLE"


class Unauthenticated(QueryError):
    """The caller is not authenticated."""

    code: ClassVar[Code] = "UNAUTHENTICATED"


class PermissionDenied(QueryError):
    """The caller is known and may not do this."""

    code: ClassVar[Code] = "PERMISSION_DENIED"


class EvaluationError(CorpusError):
    """A question set or a baseline is wrong or does not fit."""

    code: ClassVar[Code] = "INVALID_ARGUMENT"


class KeyStoreError(CorpusError):
    """The place where keys are kept refused or failed."""

    code: ClassVar[Code] = "UNAVAILABLE"


class ClusterError(CorpusError):
    """Kubeflow Pipelines refused or failed a call."""

    code: ClassVar[Code] = "UNAVAILABLE"


class RunFailed(CorpusError):
    """A run ended and a source or step of it failed; `fields` has ``failures`` (source, step, cause)."""
