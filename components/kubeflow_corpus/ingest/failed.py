"""Documents that failed on their way through a run: kept beside the rows, named in its result, tried again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from kubeflow_corpus.artifacts import read_jsonl, write_jsonl
from kubeflow_corpus.ingest.results import SourceState
from kubeflow_corpus.ingest.step import FAILED_FILE
from kubeflow_corpus.records import FailedDocument

# Failed documents that a result names for one source: a defect that concerns every document must not fill each result.
MOST_NAMED: Final = 100


def write_failed(folder: Path, failed: Iterable[FailedDocument]) -> None:
    """Keeps all documents that failed up to a step in its folder."""
    write_jsonl(folder / FAILED_FILE, (document.to_dict() for document in failed))


def read_failed(folder: Path) -> list[FailedDocument]:
    """Returns the documents that failed up to the step that wrote a folder."""
    if not (folder / FAILED_FILE).exists():
        return []
    return [FailedDocument(**row) for row in read_jsonl(folder / FAILED_FILE)]


def with_failed(state: SourceState, failed: Sequence[FailedDocument]) -> SourceState:
    """Returns a source of which further documents failed."""
    if not failed:
        return state
    counts = {**state.counts, "failed": state.counts.get("failed", 0) + len(failed)}
    return replace(state, counts=counts, failed_documents=(*state.failed_documents, *failed)[:MOST_NAMED])
