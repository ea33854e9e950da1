"""The rows that a run wants to be stored, as a stream that can be read again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kubeflow_corpus.artifacts import read_chunks
from kubeflow_corpus.budget import Budget
from kubeflow_corpus.collections import MANUAL_SOURCE
from kubeflow_corpus.errors import InvalidArgument, InvalidRow
from kubeflow_corpus.records import Chunk, Skip
from kubeflow_corpus.store.context import RunContext, SourceResult
from kubeflow_corpus.store.rows import scan, stored_row, to_row
from kubeflow_corpus.store.schema import text_literal
from kubeflow_corpus.store.versions import ensure_loaded


@dataclass(frozen=True, slots=True)
class WantedRow:
    """A row that the target shall hold, with the text of its vector."""

    row: dict[str, Any]
    embedding_text: str


def wanted_rows(context: RunContext, refused: list[Skip] | None = None) -> Iterator[WantedRow]:
    """Streams every row that this run wants, in a fixed order.

    Args:
        context: Where rows come from.
        refused: Gets the documents of which a row cannot be stored; None skips such rows silently, for the
            passes after the first.

    Raises:
        ArtifactError: A chunk file is damaged.
        InvalidArgument: A catalogue entry has the reserved name.
    """
    for result in context.results:
        if not result.ok or result.chunks is None:
            continue
        if result.source == MANUAL_SOURCE:
            raise InvalidArgument(
                f"A source cannot be named {MANUAL_SOURCE!r}", remedy="Rename it in the catalogue", argument="source"
            )
        for chunk in read_chunks(result.chunks):
            try:
                row = _row_of_source(context, result, chunk)
            except InvalidRow as error:
                if refused is not None:
                    reason = f"invalid_row:{error.fields.get('field', '')}"
                    refused.append(Skip(chunk.document_id, chunk.file_path, reason, error.problem))
                continue
            yield WantedRow(row, chunk.embedding_text)
    if context.moves_manual_rows:
        yield from _manual_rows(context)


def _row_of_source(context: RunContext, result: SourceResult, chunk: Chunk) -> dict[str, Any]:
    if chunk.source != result.source:
        raise InvalidRow(f"Row {chunk.id!r} is of source {chunk.source!r}, not {result.source!r}", field="source")
    return to_row(context.spec, chunk)


def _manual_rows(context: RunContext) -> Iterator[WantedRow]:
    assert context.live is not None
    if context.counter is None:
        raise InvalidArgument("Rows written by people need a token counter to be embedded again", argument="counter")
    budget = Budget(context.counter, context.recipe.token_budget)
    fields = [field.name for field in context.spec.fields]
    where = f"source == {text_literal(MANUAL_SOURCE)}"
    ensure_loaded(context.client, context.live.name)
    for page in scan(context.client, context.live.name, fields, where):
        for found in page:
            row = stored_row(context.spec, found)
            header = budget.header(row["title"], row["section_path"])
            text, _ = budget.embedding_text(header, row["content_text"])
            yield WantedRow({**row, "embedding_hash": hashlib.sha256(text.encode()).hexdigest()}, text)
