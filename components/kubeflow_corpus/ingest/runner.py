"""The steps of a collection in their order, one after the other in this process.

KFP's graph has the same steps with the same edges (a test compares them), and runs each in a process or pod of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kubeflow_corpus.artifacts import read_chunks
from kubeflow_corpus.ingest.begin import begin
from kubeflow_corpus.ingest.chunking import chunk
from kubeflow_corpus.ingest.embedding import describe_model, embed
from kubeflow_corpus.ingest.evaluation import evaluate
from kubeflow_corpus.ingest.options import RunOptions
from kubeflow_corpus.ingest.results import NO_SOURCE, SourceState, StepResult, totals
from kubeflow_corpus.ingest.sources import fetch, fetch_threads, list_sources, resolve_revision
from kubeflow_corpus.ingest.step import ROWS_FILE, read_source
from kubeflow_corpus.ingest.store import apply, plan, publish


@dataclass(frozen=True, slots=True)
class RunFolders:
    """Where the steps of a run write.

    Attributes:
        root: Folder of the run.
    """

    root: Path

    def path(self, step: str, item: str | int = "") -> str:
        """Returns the folder of a step, or of its work on one source or shard."""
        return str(self.root / step / str(item)) if item != "" else str(self.root / step)

    def rows(self, source: str) -> Path:
        """Returns the file of the rows that `chunk` made of a source."""
        return self.root / "chunk" / source / ROWS_FILE


def run_collection(collection: str, options: RunOptions, folders: RunFolders) -> StepResult:
    """Runs all steps of a collection.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        options: What the run is asked for.
        folders: Where the steps write.

    Returns:
        How it went: nothing that a step understands is raised.
    """
    at = folders.path
    sources = begin(collection, options.to_dict(), f"run-{collection}", at("begin"))
    chunks = fetch_and_chunk(collection, sources, at("begin"), folders)
    shards = list(plan(at("begin"), chunks, at("plan")).shards) or [""]
    vectors = [at("embed", number) for number, _ in enumerate(shards)]
    for shard, target in zip(shards, vectors, strict=True):
        embed(shard, at("plan"), target)
    apply(at("plan"), chunks, vectors, at("apply"))
    evaluate(at("apply"), at("evaluate"), at("page.html"))
    return publish(at("evaluate"), at("publish"), at("summary.md"), at("run.html"))


def dry_run_collection(collection: str, options: RunOptions, folders: RunFolders) -> StepResult:
    """Runs the steps of a collection up to its rows.

    No collection is asked, so that a dry run needs no Milvus, and every source is read from its beginning.
    """
    listed, model = folders.path("list_sources"), folders.path("describe_model")
    names = list_sources(collection, options.to_dict(), f"run-{collection}", listed).names or (NO_SOURCE,)
    described = describe_model(listed, model)
    resolved = [resolve_revision(name, model).to_json() for name in names]
    chunks = fetch_and_chunk(collection, resolved, model, folders)
    sources = tuple(source for source in map(read_source, chunks) if source.source)
    return replace(described, sources=sources, counts=totals(sources))


def fetch_and_chunk(collection: str, sources: Sequence[str], state: str, folders: RunFolders) -> list[str]:
    """Runs the steps that are done once per source.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        sources: JSON of where each source stands.
        state: Folder of the result that has their cursors.
        folders: Where the steps write.

    Returns:
        The folders of the rows.
    """
    chunks = []
    for resolved in sources:
        name = SourceState.from_json(resolved).source or "none"
        documents, rows = folders.path("fetch", name), folders.path("chunk", name)
        if collection == "issues":
            fetch_threads(resolved, state, documents)
        else:
            fetch(resolved, documents)
        chunk(documents, rows)
        chunks.append(rows)
    return chunks


def row_digest(rows: Path) -> tuple[int, str]:
    """Returns how many rows a source has, and one digest of their ids and hashes: equal rows have equal digests."""
    if not rows.exists():
        return 0, hashlib.sha256().hexdigest()
    lines = sorted(f"{row.id} {row.row_hash} {row.embedding_hash}\n" for row in read_chunks(rows))
    return len(lines), hashlib.sha256("".join(lines).encode()).hexdigest()
