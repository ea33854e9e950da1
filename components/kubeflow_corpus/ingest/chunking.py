"""The step of a run that cuts the documents of one source."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

from kubeflow_corpus.artifacts import read_documents, write_jsonl
from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.isolation import Limits
from kubeflow_corpus.chunking.run import chunk_documents, scan_code
from kubeflow_corpus.ingest.failed import read_failed, with_failed, write_failed
from kubeflow_corpus.ingest.results import SourceState, by_reason
from kubeflow_corpus.ingest.run_report import with_examples
from kubeflow_corpus.ingest.step import AROUND_FILE, ROWS_FILE, SKIPS_FILE, Work, read_source, run_step
from kubeflow_corpus.ingest.words import read_vocabulary, write_vocabulary
from kubeflow_corpus.records import Chunked, Document, FailedDocument, Skip
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.tokens import wordpiece_counter
from kubeflow_corpus.vocabulary import default_vocabulary

# Fewer documents are cut faster by one process than others start.
_DOCUMENTS_WORTH_WORKERS: Final = 100
_MOST_WORKERS: Final = 4
_CODE: Final = "code"


def chunk(documents: str, target: str) -> SourceState:
    """Cuts the documents of a source into rows.

    Args:
        documents: Folder that `fetch` wrote.
        target: Folder for rows, skips and the result.
    """
    return run_step(read_source(documents).begin("chunk"), target, _chunk, Path(documents))


def _chunk(work: Work[SourceState], documents: Path) -> SourceState:
    before, tally = work.before, _Tally()
    total = before.counts["documents"]
    # At least one process besides this one: what a document does there costs the others nothing.
    workers = min(os.cpu_count() or 1, _MOST_WORKERS) if total >= _DOCUMENTS_WORTH_WORKERS else 1
    budget = Budget(wordpiece_counter(), before.made_of.recipe.token_budget)
    words = read_vocabulary([documents]) or default_vocabulary()
    write_vocabulary(work.folder, words)
    settings = Settings.from_env()
    limits = Limits(seconds=settings.document_seconds, memory_mb=settings.document_memory_mb)
    context = None
    if before.collection == _CODE:
        every = chain(read_documents(documents / ROWS_FILE), _around(documents))
        context, unread = scan_code(every, before.made_of.repos, words, workers, limits)
        tally.failed += unread
    lost = {document.document_id for document in tally.failed}
    wanted = (document for document in read_documents(documents / ROWS_FILE) if document.document_id not in lost)
    chunked = chunk_documents(wanted, budget, workers, context, _around(documents), words, limits)
    written = write_jsonl(work.folder / ROWS_FILE, tally.rows(work.watch.track(chunked, "documents", total)))
    write_jsonl(work.folder / SKIPS_FILE, (skip.to_dict() for skip in tally.skips))
    truncated = tally.details.pop("truncated", 0)
    counts = {**before.counts, "chunks": written, "removed lines": tally.removed_lines, "truncated": truncated}
    write_failed(work.folder, [*read_failed(documents), *tally.failed])
    after = replace(before, counts=counts, left_out=by_reason(tally.skips), details=dict(tally.details))
    after = with_failed(after, tally.failed)
    work.watch.count(**{name: count for name, count in after.figures.items() if name not in before.figures})
    return with_examples(after, tally.skips)


@dataclass(slots=True)
class _Tally:
    """What was counted while rows were written."""

    details: Counter[str] = field(default_factory=Counter)
    skips: list[Skip] = field(default_factory=list)
    failed: list[FailedDocument] = field(default_factory=list)
    removed_lines: int = 0

    def rows(self, documents: Iterable[Chunked]) -> Iterator[dict[str, Any]]:
        """Yields the rows of documents, and counts."""
        for chunked in documents:
            self.details.update(chunked.counts)
            self.removed_lines += sum(part.end_line - part.start_line + 1 for part in chunked.removed)
            if chunked.skipped:
                self.skips.append(chunked.skipped)
            if chunked.failed:
                self.failed.append(chunked.failed)
            yield from (row.to_dict() for row in chunked.chunks)


def _around(documents: Path) -> Iterator[Document]:
    return read_documents(documents / AROUND_FILE) if (documents / AROUND_FILE).exists() else iter(())
