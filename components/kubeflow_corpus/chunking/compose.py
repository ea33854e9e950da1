"""Rows: what each takes from its document, and its texts for the reader, for BM25 and for the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubeflow_corpus.budget import HEADER_SHARE, SEPARATOR, SPECIAL_TOKENS, Budget, Header, framed
from kubeflow_corpus.collections import common_limit
from kubeflow_corpus.records import Chunk, Chunked, Document, FieldValue, Skip
from kubeflow_corpus.terms import distinct_identifier_parts

# A chunker reads the budget of a text beside the texts that it makes.
__all__ = [
    "HEADER_SHARE",
    "MAX_TEXT_BYTES",
    "SEPARATOR",
    "SPECIAL_TOKENS",
    "Budget",
    "Header",
    "compose_row",
    "fit_bytes",
    "framed",
    "search_text",
    "skip_document",
]

MAX_TEXT_BYTES: Final = common_limit("content_text")
MAX_SEARCH_TEXT_BYTES: Final = common_limit("search_text")


def compose_row(
    document: Document,
    *,
    title: str,
    content: str,
    embedding_text: str,
    citation_url: str,
    fields: Mapping[str, FieldValue],
    section_path: str = "",
    searched: str | None = None,
    unit_id: str = "",
    view: str = "",
    lines: tuple[int, int] = (1, 1),
    product_area: Sequence[str] | None = None,
    version: Sequence[str] | None = None,
) -> Chunk:
    """Returns a row of a document, with everything that it takes from the document; `seal` gives it place and key.

    Args:
        document: The document.
        title: Its title.
        content: Clean evidence.
        embedding_text: What the model reads.
        citation_url: Where a person reads the unit.
        fields: The collection's own fields.
        section_path: Breadcrumb below the title.
        searched: What BM25 reads; None is title, breadcrumb and content (`search_text`).
        unit_id: Key of the unit; empty where the document is one unit.
        view: Which part of the unit.
        lines: First and last line that the row covers, from 1.
        product_area: Products that the row speaks about; None is those of the document.
        version: Versions that it speaks about; None is those of the document.
    """
    common = document.row_fields()
    if product_area is not None:
        common["product_area"] = tuple(product_area)
    if version is not None:
        common["version"] = tuple(version)
    return Chunk(
        **common,
        unit_id=unit_id or document.document_id,
        view=view,
        chunk_index=0,
        start_line=lines[0],
        end_line=lines[1],
        title=title,
        section_path=section_path,
        content_text=content,
        search_text=search_text(title, section_path, content) if searched is None else searched,
        embedding_text=embedding_text,
        citation_url=citation_url,
        fields=fields,
    )


def skip_document(document: Document, reason: str, detail: str = "") -> Chunked:
    """Returns the result for a document that gives no row."""
    return Chunked(skipped=Skip(document.document_id, document.path, reason, detail))


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
    return fit_bytes("\n".join(line for line in lines if line), MAX_SEARCH_TEXT_BYTES)


def fit_bytes(text: str, limit: int) -> str:
    """Returns the longest prefix of a text that has at most `limit` UTF-8 bytes."""
    if len(text) * 4 <= limit:
        return text
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")
