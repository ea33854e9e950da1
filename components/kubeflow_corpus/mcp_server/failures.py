"""Errors as a caller may see them: a code from a closed list and a line that reveals no internals."""

from __future__ import annotations

from typing import Final

from kubeflow_corpus.errors import CollectionNotFound, CorpusError, LeaseHeld, QueryError, UnitNotFound

# Codes of the contract. Further codes of the library are internal: the caller can only try later.
PUBLIC_CODES: Final = (
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "UNAVAILABLE",
    "MODEL_MISMATCH",
    "DEADLINE_EXCEEDED",
    "RATE_LIMITED",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
)
# These errors are about the caller's own words; every other text may name hosts, paths or settings.
_OWN_WORDS: Final = frozenset({"INVALID_ARGUMENT", "RATE_LIMITED", "PERMISSION_DENIED"})
_GENERIC: Final = {
    "NOT_FOUND": "There is no such thing in the corpus",
    "UNAVAILABLE": "The corpus does not answer right now. Try again later",
    "MODEL_MISMATCH": "The corpus was built with another embedding model. Its operator must rebuild it",
    "DEADLINE_EXCEEDED": "The search took too long. Try again, or ask a shorter question",
    "UNAUTHENTICATED": "A valid bearer token is required",
}
# Where the kind of error says more than its code.
_BY_KIND: Final[dict[type[CorpusError], str]] = {
    LeaseHeld: "An ingestion run, or another call, is writing this collection. Nothing was written: try again in some "
    "minutes",
    QueryError: "This unit cannot be shown; other units are not affected. Read it at the url of its citation, and tell "
    "the operator of the server its unit_id",
    CollectionNotFound: "This collection is not served yet. Its operator must run the ingestion",
}


def public_code(error: CorpusError) -> str:
    """Returns the code that a caller sees."""
    if error.code == "INVALID_ARGUMENT" and not isinstance(error, QueryError):
        # An argument of our own call, such as a text that the embedding service refuses.
        return "UNAVAILABLE"
    return error.code if error.code in PUBLIC_CODES else "UNAVAILABLE"


def public_text(error: CorpusError) -> str:
    """Returns the line ``code: message`` that a caller sees."""
    code = public_code(error)
    if isinstance(error, UnitNotFound) or (isinstance(error, QueryError) and error.code in _OWN_WORDS):
        return f"{code}: {error}"
    return f"{code}: {_BY_KIND.get(type(error)) or _GENERIC.get(code, code)}"
