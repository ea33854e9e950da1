"""How one document is cut: what `kubeflow-corpus inspect` shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.run import chunk_document
from kubeflow_corpus.records import Document
from kubeflow_corpus.text_lines import split_lines
from kubeflow_corpus.vocabulary import Vocabulary


def inspect_document(document: Document, budget: Budget, vocabulary: Vocabulary | None = None) -> dict[str, Any]:
    """Cuts a document and says for every line which row carries it or which rule removed it.

    Args:
        document: Any document.
        budget: What the model reads.
        vocabulary: The words of the project; None is the packaged one.

    Returns:
        ``document_id``, ``path``, ``lines``, ``budget``, ``skipped`` (None or reason and detail), ``rows`` (each with
        its address, lines, tokens and texts), ``removed`` (lines and reason), ``removed_lines`` (by reason) and
        ``counts``.
    """
    chunked = chunk_document(document, budget, vocabulary=vocabulary)
    tokens = budget.counter.count_many([chunk.embedding_text for chunk in chunked.chunks])
    removed: Counter[str] = Counter()
    for gap in chunked.removed:
        removed[gap.reason] += gap.end_line - gap.start_line + 1
    return {
        "document_id": document.document_id,
        "path": document.path,
        "lines": len(split_lines(document.text)),
        "budget": budget.tokens,
        "skipped": chunked.skipped.to_dict() if chunked.skipped is not None else None,
        "rows": [{**chunk.to_dict(), "tokens": count} for chunk, count in zip(chunked.chunks, tokens, strict=True)],
        "removed": [asdict(gap) for gap in chunked.removed],
        "removed_lines": dict(removed.most_common()),
        "counts": dict(sorted(chunked.counts.items())),
    }


def readable(inspection: dict[str, Any]) -> Iterator[str]:
    """Yields an inspection as lines for a person."""
    yield f"{inspection['document_id']}  ({inspection['lines']} lines)"
    skipped = inspection["skipped"]
    if skipped is not None:
        yield f"skipped: {skipped['reason']}" + (f" ({skipped['detail']})" if skipped["detail"] else "")
        return
    rows = inspection["rows"]
    units = len({row["unit_id"] for row in rows})
    yield f"title: {rows[0]['title']}" if rows else "no rows"
    yield f"{units} units in {len(rows)} rows; a row is at most {inspection['budget']} tokens"
    for row in rows:
        yield ""
        yield from _row(row)
    yield ""
    for gap in inspection["removed"]:
        yield f"removed {_lines(gap)}: {gap['reason']}"
    if inspection["counts"]:
        yield "counts: " + ", ".join(f"{name} {count}" for name, count in inspection["counts"].items())


def _row(row: dict[str, Any]) -> Iterator[str]:
    place = row["section_path"] or "(lead)"
    view = f", view {row['view']}" if row["view"] else ""
    yield f"[{row['chunk_index']}] {_lines(row)}  {row['tokens']} tokens{view}  {place}"
    yield f"    {row['citation_url']}"
    facts = [*row["product_area"], *row["version"], *(str(value) for value in row["fields"].values() if value)]
    yield f"    {row['unit_id']}" + (f"  ({', '.join(facts)})" if facts else "")
    for line in row["content_text"].split("\n"):
        yield f"    | {line}" if line else "    |"


def _lines(span: dict[str, Any]) -> str:
    first, last = span["start_line"], span["end_line"]
    return f"line {first}" if first == last else f"lines {first}-{last}"
