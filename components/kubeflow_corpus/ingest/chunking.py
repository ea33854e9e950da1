"""The step of a run that cuts the documents of one source."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.artifacts import read_documents, write_jsonl
from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.run import chunk_documents
from kubeflow_corpus.ingest.model import recipe_of
from kubeflow_corpus.ingest.outcomes import (
    AROUND_FILE,
    LEFT_OUT,
    ROWS_FILE,
    SKIPS_FILE,
    THREADS_FILE,
    Outcome,
    fresh_folder,
    hand_on,
    read_outcome,
    skip_counts,
)
from kubeflow_corpus.ingest.progress import StepWatch, step
from kubeflow_corpus.records import Document, Skip
from kubeflow_corpus.tokens import wordpiece_counter

if TYPE_CHECKING:
    from kubeflow_corpus.chunking.manifests.crds import CodeContext

# Fewer documents are cut faster than worker processes start.
_DOCUMENTS_WORTH_WORKERS: Final = 100
_MOST_WORKERS: Final = 4
_CODE: Final = "code"


def chunk_source(documents: str, target: str, collection: str) -> dict[str, Any]:
    """Cuts the documents of a source into rows.

    Args:
        documents: Folder that `fetch` wrote.
        target: Folder for rows, skips and outcome.
        collection: ``docs``, ``issues`` or ``code``.

    Returns:
        Metadata for the artifact.
    """
    folder = fresh_folder(target)
    outcome = read_outcome(Path(documents)).begin("chunk")
    details: dict[str, int] = {}

    def work() -> Outcome:
        with step("chunk", collection=collection, item=outcome.source) as watch:
            tokens = recipe_of(outcome).token_budget
            total = int(outcome.counts["documents"])
            repos = [repo for repo in outcome.facts.get("repos", "").split(",") if repo]
            counts, found = _write_chunks(Path(documents), folder, tokens, total, watch, collection, repos)
            details.update(found)
            watch.count(**counts)
            threads = Path(documents) / THREADS_FILE
            if threads.exists():
                shutil.copyfile(threads, folder / THREADS_FILE)
            return outcome.add(counts)

    return {**details, **hand_on(folder, outcome, work).metadata()}


def _write_chunks(
    documents: Path, folder: Path, tokens: int, total: int, watch: StepWatch, collection: str, repos: Sequence[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the figures of a summary, and everything else that the chunkers counted."""
    details: Counter[str] = Counter()
    skips: list[Skip] = []
    removed_lines = 0
    workers = min(os.cpu_count() or 1, _MOST_WORKERS) if total >= _DOCUMENTS_WORTH_WORKERS else 1
    budget = Budget(wordpiece_counter(), tokens)

    def around() -> Iterator[Document]:
        return read_documents(documents / AROUND_FILE) if (documents / AROUND_FILE).exists() else iter(())

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal removed_lines
        # A first pass over a code source: Go types explain CRDs, and of several copies of a CRD one is shown.
        every = chain(read_documents(documents / ROWS_FILE), around())
        context = _code_context(every, repos) if collection == _CODE else None
        chunked_documents = chunk_documents(read_documents(documents / ROWS_FILE), budget, workers, context, around())
        for chunked in watch.track(chunked_documents, "documents", total):
            details.update(chunked.counts)
            removed_lines += sum(part.end_line - part.start_line + 1 for part in chunked.removed)
            if chunked.skipped:
                skips.append(chunked.skipped)
            yield from (chunk.to_dict() for chunk in chunked.chunks)

    written = write_jsonl(folder / ROWS_FILE, rows())
    write_jsonl(folder / SKIPS_FILE, (skip.to_dict() for skip in skips))
    counts = {"chunks": written, "removed lines": removed_lines, "truncated": details.pop("truncated", 0)}
    return {**counts, **skip_counts(skips, LEFT_OUT)}, details


def _code_context(documents: Iterator[Document], repos: Sequence[str]) -> CodeContext:
    # Imports a YAML parser and a Go parser, which pages and threads can do without.
    from kubeflow_corpus.chunking.manifests.crds import collect_context

    return collect_context(documents, repos)
