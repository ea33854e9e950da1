"""Writing a collection: the whole `apply` step against bare pymilvus upserts of the very same rows in the same batches.

Everything that `apply` does counts: it compares with what is stored, brings the vectors to disk, writes, flushes,
counts what is there and records what the version holds. The bare side has its rows and vectors in memory and flushes
once.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubeflow_corpus.artifacts import read_jsonl, write_vectors
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.milvus import connected, detect_backend
from kubeflow_corpus.model import Recipe
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.apply import UPSERT_ROWS, apply_plan
from kubeflow_corpus.store.context import RunContext
from kubeflow_corpus.store.plan import Plan, SourceResult, plan_sync
from kubeflow_corpus.store.publish import publish
from kubeflow_corpus.store.rows import in_batches
from kubeflow_corpus.store.schema import VECTOR_FIELD, collection_schema, index_params
from kubeflow_corpus.store.sync import embed_plan
from kubeflow_corpus.store.wanted import wanted_rows

from tests.benchmarks.harness import Row
from tests.benchmarks.material import BUDGET, DIMENSION, IDENTITY, REVISION, SOURCE, random_vectors, write_chunks

RECIPE = Recipe(IDENTITY, BUDGET.tokens)
ROWS = 4_000
ROUNDS = 5
LEAST = 0.85


def measure(scale: float) -> Iterator[Row]:
    """Yields the rows of this benchmark."""
    rows = max(500, int(ROWS * scale))
    ours, bare, again = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        results = [SourceResult(SOURCE, revision=REVISION, chunks=write_chunks(root / "chunks.jsonl.zst", rows))]
        for number in range(ROUNDS):
            # In turns, each into a database of its own: what a collection holds already makes it slower.
            with connected(Settings(milvus_uri=f"{folder}/ours-{number}.db")) as client:
                ours.append(first_run(client, results, root / f"run-{number}"))
                again.append(second_run(client, results, root / f"run-{number}"))
            with connected(Settings(milvus_uri=f"{folder}/bare-{number}.db")) as client:
                bare.append(bare_upserts(client, results))
    what, against = f"apply of {rows:,} rows", "bare pymilvus upserts and one flush"
    fastest = min(ours, key=lambda timed: timed.wall)
    note = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in fastest.phases.items())
    yield Row(what, rows / fastest.wall, "rows/s", rows / min(timed.wall for timed in bare), against, LEAST, note=note)
    # Milvus Lite runs in this process: its work counts on both sides, that of others on neither.
    cpu, bare_cpu = min(timed.cpu for timed in ours), min(timed.cpu for timed in bare)
    yield Row(what, rows / cpu, "rows/CPU-s", rows / bare_cpu, against, LEAST)
    yield Row(f"plan and apply of {rows:,} rows that are stored", rows / min(timed.wall for timed in again), "rows/s")


@dataclass(slots=True)
class Timed:
    """Seconds that something took: on the clock, of all processors, and of its phases."""

    wall: float = 0.0
    cpu: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)


@contextmanager
def timed() -> Iterator[Timed]:
    """Times a `with` block."""
    taken = Timed()
    wall, cpu = time.perf_counter(), time.process_time()
    yield taken
    taken.wall, taken.cpu = time.perf_counter() - wall, time.process_time() - cpu


def first_run(client: Any, results: list[SourceResult], workdir: Path) -> Timed:
    """Times `apply` where nothing is stored yet."""
    plan = planned(client, results, workdir)
    files = embed_plan(plan, workdir, write_random_vectors)
    with timed() as taken:
        record = apply_plan(client, plan, results, files, workdir, embedded=True, counter=BUDGET.counter)
    publish(client, plan, record, embedded=True)
    taken.phases = record.seconds
    return taken


def second_run(client: Any, results: list[SourceResult], workdir: Path) -> Timed:
    """Times a run that compares every row and finds it as it wants it."""
    with timed() as taken:
        plan = planned(client, results, workdir)
        apply_plan(client, plan, results, [], workdir, embedded=True, counter=BUDGET.counter)
    return taken


def planned(client: Any, results: list[SourceResult], workdir: Path) -> Plan:
    """Returns the plan of a run."""
    return plan_sync(client, DOCS, results, recipe=RECIPE, counter=BUDGET.counter, workdir=workdir)


def write_random_vectors(texts: Path, vectors: Path) -> None:
    """Writes a vector for each text of a shard, others for other texts."""
    hashes = [row["embedding_hash"] for row in read_jsonl(texts)]
    seed = int(hashes[0][:8], 16) if hashes else 0
    write_vectors(vectors, [(hashes, random_vectors(len(hashes), seed))], DIMENSION)


def bare_upserts(client: Any, results: list[SourceResult]) -> Timed:
    """Times somebody who has every row and vector in memory, and trusts every answer."""
    backend = detect_backend(client)
    context = RunContext(client, DOCS, DOCS.alias, RECIPE, tuple(results))
    rows = [wanted.row for wanted in wanted_rows(context)]
    for row, vector in zip(rows, random_vectors(len(rows), 0), strict=True):
        row[VECTOR_FIELD] = vector
    client.create_collection(
        "bare", schema=collection_schema(DOCS, backend, DIMENSION), index_params=index_params(backend)
    )
    with timed() as taken:
        for batch in in_batches(iter(rows), UPSERT_ROWS):
            client.upsert("bare", batch)
        client.flush("bare")
    return taken
