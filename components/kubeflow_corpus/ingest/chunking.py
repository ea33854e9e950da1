"""The step of a run that cuts the documents of one source."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.artifacts import read_documents, write_jsonl
from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.run import chunk_documents
from kubeflow_corpus.ingest.results import SourceState, by_reason
from kubeflow_corpus.ingest.run_report import with_examples
from kubeflow_corpus.ingest.step import AROUND_FILE, ROWS_FILE, SKIPS_FILE, Work, read_source, run_step
from kubeflow_corpus.ingest.words import read_vocabulary, write_vocabulary
from kubeflow_corpus.records import Chunked, Document, Skip
from kubeflow_corpus.tokens import wordpiece_counter
from kubeflow_corpus.vocabulary import Vocabulary, default_vocabulary

if TYPE_CHECKING:
    from kubeflow_corpus.chunking.manifests.crds import CodeContext

# Fewer documents are cut faster than worker processes start.
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
    workers = min(os.cpu_count() or 1, _MOST_WORKERS) if total >= _DOCUMENTS_WORTH_WORKERS else 1
    budget = Budget(wordpiece_counter(), before.made_of.recipe.token_budget)
    words = read_vocabulary([documents]) or default_vocabulary()
    write_vocabulary(work.folder, words)
    # A first pass over a code source: Go types explain CRDs, and of several copies of a CRD one is shown.
    every = chain(read_documents(documents / ROWS_FILE), _around(documents))
    context = _code_context(every, before.made_of.repos, words) if before.collection == _CODE else None
    chunked = chunk_documents(
        read_documents(documents / ROWS_FILE), budget, workers, context, _around(documents), words
    )
    written = write_jsonl(work.folder / ROWS_FILE, tally.rows(work.watch.track(chunked, "documents", total)))
    write_jsonl(work.folder / SKIPS_FILE, (skip.to_dict() for skip in tally.skips))
    truncated = tally.details.pop("truncated", 0)
    counts = {**before.counts, "chunks": written, "removed lines": tally.removed_lines, "truncated": truncated}
    after = replace(before, counts=counts, left_out=by_reason(tally.skips), details=dict(tally.details))
    work.watch.count(**{name: count for name, count in after.figures.items() if name not in before.figures})
    return with_examples(after, tally.skips)


@dataclass(slots=True)
class _Tally:
    """What was counted while rows were written."""

    details: Counter[str] = field(default_factory=Counter)
    skips: list[Skip] = field(default_factory=list)
    removed_lines: int = 0

    def rows(self, documents: Iterable[Chunked]) -> Iterator[dict[str, Any]]:
        """Yields the rows of documents, and counts."""
        for chunked in documents:
            self.details.update(chunked.counts)
            self.removed_lines += sum(part.end_line - part.start_line + 1 for part in chunked.removed)
            if chunked.skipped:
                self.skips.append(chunked.skipped)
            yield from (row.to_dict() for row in chunked.chunks)


def _around(documents: Path) -> Iterator[Document]:
    return read_documents(documents / AROUND_FILE) if (documents / AROUND_FILE).exists() else iter(())


def _code_context(documents: Iterator[Document], repos: Sequence[str], words: Vocabulary) -> CodeContext:
    # Imports a YAML parser and a Go parser, which pages and threads can do without.
    from kubeflow_corpus.chunking.manifests.crds import collect_context

    return collect_context(documents, repos, words)
