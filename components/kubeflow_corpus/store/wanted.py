"""The rows that a run wants to be stored, as a stream that can be read again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from kubeflow_corpus.artifacts import read_chunks
from kubeflow_corpus.budget import Budget
from kubeflow_corpus.collections import MANUAL_SOURCE
from kubeflow_corpus.errors import InvalidArgument, InvalidRow
from kubeflow_corpus.records import Chunk, FailedDocument
from kubeflow_corpus.store.context import RunContext, SourceResult
from kubeflow_corpus.store.rows import KEYS_PER_FILTER, in_batches, scan, stored_row, to_row
from kubeflow_corpus.store.schema import keys_filter, text_literal
from kubeflow_corpus.store.versions import Version, ensure_loaded


@dataclass(frozen=True, slots=True)
class WantedRow:
    """A row that the target shall hold, with the text of its vector."""

    row: dict[str, Any]
    embedding_text: str


def wanted_rows(context: RunContext, refused: list[FailedDocument] | None = None) -> Iterator[WantedRow]:
    """Streams every row that this run wants, in a fixed order: of each document all rows, or none.

    A new version gets what is served of documents that failed, so that no reader loses one.

    Args:
        context: Where rows come from.
        refused: Gets the documents that cannot be stored; None leaves them out silently, for the passes after the
            first.

    Raises:
        ArtifactError: A chunk file is damaged.
        InvalidArgument: A catalogue entry has the reserved name.
    """
    failed = [key for result in context.results if result.ok for key in result.failed_documents]
    for result in context.results:
        if not result.ok or result.chunks is None:
            continue
        if result.source == MANUAL_SOURCE:
            raise InvalidArgument(
                f"A source cannot be named {MANUAL_SOURCE!r}", remedy="Rename it in the catalogue", argument="source"
            )
        for _, chunks in groupby(read_chunks(result.chunks), attrgetter("document_id")):
            rows = _rows_of_document(context, result, list(chunks))
            if not isinstance(rows, FailedDocument):
                yield from rows
                continue
            failed.append(rows.document_id)
            if refused is not None:
                refused.append(rows)
    if context.rebuilds and context.live is not None:
        for keys in in_batches(iter(dict.fromkeys(failed)), KEYS_PER_FILTER):
            yield from _served_rows(context, context.live, keys_filter("document_id", keys))
    if context.moves_manual_rows:
        assert context.live is not None
        yield from _served_rows(context, context.live, f"source == {text_literal(MANUAL_SOURCE)}")


def _rows_of_document(
    context: RunContext, result: SourceResult, chunks: Sequence[Chunk]
) -> list[WantedRow] | FailedDocument:
    rows = []
    for chunk in chunks:
        try:
            row = _row_of_source(context, result, chunk)
        except InvalidRow as error:
            reason = f"invalid_row:{error.fields.get('field', '')}"
            return FailedDocument(chunk.document_id, chunk.file_path, reason, error.problem)
        if cause := context.not_embedded.get(row["embedding_hash"]):
            return FailedDocument(chunk.document_id, chunk.file_path, "not_embedded", cause)
        rows.append(WantedRow(row, chunk.embedding_text))
    return rows


def _row_of_source(context: RunContext, result: SourceResult, chunk: Chunk) -> dict[str, Any]:
    if chunk.source != result.source:
        raise InvalidRow(f"Row {chunk.id!r} is of source {chunk.source!r}, not {result.source!r}", field="source")
    return to_row(context.spec, chunk)


def _served_rows(context: RunContext, live: Version, where: str) -> Iterator[WantedRow]:
    """Streams rows of the served version; those of another model with the text that is to be embedded again."""
    fields = [field.name for field in context.spec.fields]
    another_model = not live.same_model(context.recipe.identity)
    if another_model and context.counter is None:
        raise InvalidArgument("Rows that are embedded again need a token counter", argument="counter")
    ensure_loaded(context.client, live.name)
    for page in scan(context.client, live.name, fields, where):
        for found in page:
            row, text = stored_row(context.spec, found), ""
            if another_model and context.counter is not None:
                budget = Budget(context.counter, context.recipe.token_budget)
                text, _ = budget.embedding_text(budget.header(row["title"], row["section_path"]), row["content_text"])
                row = {**row, "embedding_hash": hashlib.sha256(text.encode()).hexdigest()}
            if row["embedding_hash"] not in context.not_embedded:
                yield WantedRow(row, text)
