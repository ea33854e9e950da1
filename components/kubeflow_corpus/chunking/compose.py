"""The three texts of a row: what a reader sees, what BM25 reads and what the model reads."""

from __future__ import annotations

from typing import Final

from kubeflow_corpus.budget import HEADER_SHARE, SEPARATOR, SPECIAL_TOKENS, Budget, Header, framed
from kubeflow_corpus.terms import distinct_identifier_parts

# A chunker reads the budget of a text beside the texts that it makes.
__all__ = [
    "HEADER_SHARE",
    "MAX_TEXT_BYTES",
    "SEPARATOR",
    "SPECIAL_TOKENS",
    "Budget",
    "Header",
    "fit_bytes",
    "framed",
    "search_text",
]

# VARCHAR fields hold at most this many UTF-8 bytes.
MAX_TEXT_BYTES: Final = 65_535


def search_text(title: str, section_path: str, content: str, *, identifiers: bool = True) -> str:
    """Returns what BM25 reads.

    The title counts twice and the breadcrumb once: measured, leaving them out costs .084 MRR on documentation. The
    parts of identifiers are appended, so that ``min replicas`` finds ``minReplicas``.

    Args:
        title: Title of the document.
        section_path: Breadcrumb of the unit.
        content: Clean evidence.
        identifiers: Whether to append the parts of identifiers.
    """
    lines = [title, title, section_path, content]
    if identifiers:
        # Once each: the parts make an identifier findable and must not outweigh the words of the text.
        lines.append(" ".join(distinct_identifier_parts(f"{title}\n{section_path}\n{content}")))
    return fit_bytes("\n".join(line for line in lines if line), MAX_TEXT_BYTES)


def fit_bytes(text: str, limit: int) -> str:
    """Returns the longest prefix of a text that has at most `limit` UTF-8 bytes."""
    if len(text) * 4 <= limit:
        return text
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")
