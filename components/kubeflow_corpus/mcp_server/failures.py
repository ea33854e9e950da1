"""Errors as a caller may see them: a code from a closed list and a line that tells nothing of the inside."""

from __future__ import annotations

from typing import Final

from kubeflow_corpus.errors import CorpusError, UnitNotFound

# Codes of the contract. What the library knows beyond them is an inside matter: the caller can only try later.
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
    "UNAVAILABLE": "The corpus cannot be searched right now. Try again later",
    "MODEL_MISMATCH": "The corpus was built with another embedding model. Its operator must rebuild it",
    "DEADLINE_EXCEEDED": "The search took too long. Try again, or ask a shorter question",
    "UNAUTHENTICATED": "A valid bearer token is required",
}


def public_code(error: CorpusError) -> str:
    """Returns the code that a caller sees."""
    return error.code if error.code in PUBLIC_CODES else "UNAVAILABLE"


def public_text(error: CorpusError) -> str:
    """Returns the line ``code: message`` that a caller sees."""
    code = public_code(error)
    if error.code in _OWN_WORDS or isinstance(error, UnitNotFound):
        return f"{code}: {error}"
    return f"{code}: {_GENERIC[code]}"
