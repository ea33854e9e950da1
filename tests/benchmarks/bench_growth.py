"""A collection that grows, on `milvus-lite server`: what a row costs to write, to keep and to search at each size.

Its last lines are the capacity table of the documents: rows, memory and disk of the server, latency of a hybrid search.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.model import Recipe
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.plan import SourceResult
from kubeflow_corpus.store.sync import sync_collection

from tests.benchmarks.bench_query import RandomEmbedder
from tests.benchmarks.bench_sync import write_random_vectors
from tests.benchmarks.harness import Row, percentile
from tests.benchmarks.material import BUDGET, IDENTITY, REVISION, SOURCE, some_words, write_chunks
from tests.servers.milvus_lite import MilvusLiteServer, milvus_lite_server

SIZES = (1_000, 5_000, 20_000, 50_000)
SEARCHES = 40


@dataclass(frozen=True, slots=True)
class Size:
    """What was measured at one size.

    Attributes:
        rows: Rows that are stored.
        milliseconds: Of plan, apply and publish, for each row that was new.
        memory: Resident memory of the server in MB, after the searches.
        disk: Megabytes that it keeps.
        p50: Milliseconds of a hybrid search.
        p95: The same.
    """

    rows: int
    milliseconds: float
    memory: float
    disk: float
    p50: float
    p95: float


def measure(scale: float) -> Iterator[Row]:
    """Yields the rows of this benchmark."""
    sizes = [max(100, int(rows * scale) // 10 * 10) for rows in SIZES]
    with tempfile.TemporaryDirectory() as folder, milvus_lite_server(Path(folder) / "data") as server:
        measured = list(grow(server, Path(folder), sizes, max(10, int(SEARCHES * min(scale, 1)))))
    for at in measured:
        yield Row(f"hybrid search among {at.rows:,} rows, p50", at.p50, "ms", note=f"p95 {at.p95:.0f} ms")
        yield Row(f"memory of the server with {at.rows:,} rows", at.memory, "MB", note=f"{at.disk:.0f} MB on disk")
    curves = {
        "hybrid search, p50 by rows": ("ms", [(at.rows, at.p50) for at in measured]),
        "hybrid search, p95 by rows": ("ms", [(at.rows, at.p95) for at in measured]),
        "memory of the server by rows": ("MB", [(at.rows, at.memory) for at in measured]),
        "plan, apply and publish of a new row by rows": ("ms", [(at.rows, at.milliseconds) for at in measured]),
    }
    for name, (unit, points) in curves.items():
        yield Row(name, points[-1][1], unit, points[0][1], f"at {points[0][0]:,} rows", points=points)
    yield Row("capacity table", measured[-1].rows, "rows", note=capacity_table(measured))


def capacity_table(measured: list[Size]) -> str:
    """Returns the table of docs/how-to/cluster.md, as Markdown."""
    lines = [
        f"| {at.rows:,} | {at.memory:,.0f} MB | {at.disk:,.0f} MB | {at.milliseconds:.1f} ms "
        f"| {at.p50:.0f} ms | {at.p95:.0f} ms |"
        for at in measured
    ]
    head = ["| rows | memory | disk | sync of a new row | hybrid p50 | p95 |", "| --: | --: | --: | --: | --: | --: |"]
    return "\n".join([*head, *lines])


def grow(server: MilvusLiteServer, folder: Path, sizes: list[int], searches: int) -> Iterator[Size]:
    settings = Settings(milvus_uri=server.uri)
    held = 0
    for number, rows in enumerate(sizes):
        with connected(settings) as client:
            seconds = sync(client, folder, rows)
        latencies = search(settings, searches, number)
        yield Size(
            rows,
            seconds * 1000 / (rows - held),
            resident_mb(server.process.pid),
            sum(file.stat().st_size for file in server.folder.rglob("*") if file.is_file()) / 1e6,
            percentile(latencies, 0.5),
            percentile(latencies, 0.95),
        )
        held = rows


def sync(client: Any, folder: Path, rows: int) -> float:
    """Fills a collection up to a number of rows and returns the seconds of everything but the embedding."""
    results = [SourceResult(SOURCE, revision=REVISION, chunks=write_chunks(folder / "chunks.jsonl.zst", rows))]
    embedding = 0.0

    def embed(texts: Path, vectors: Path) -> None:
        nonlocal embedding
        started = time.perf_counter()
        write_random_vectors(texts, vectors)
        embedding += time.perf_counter() - started

    started = time.perf_counter()
    recipe = Recipe(IDENTITY, BUDGET.tokens)
    sync_collection(client, DOCS, results, embed, folder / "work", recipe=recipe, counter=BUDGET.counter)
    return time.perf_counter() - started - embedding


def search(settings: Settings, searches: int, seed: int) -> list[float]:
    """Returns the milliseconds of hybrid searches, after a first one that warms up."""
    generator = random.Random(seed)
    latencies = []
    with CorpusClient(settings=settings, embeddings=RandomEmbedder(), timeout=120) as client:
        client.warm_up([DOCS.alias])
        for _ in range(searches + 1):
            started = time.perf_counter()
            client.search_docs(f"how does {some_words(generator)} work")
            latencies.append((time.perf_counter() - started) * 1000)
    return latencies[1:]


def resident_mb(pid: int) -> float:
    """Returns the memory that a process holds; 0 where the system does not say."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS"))
