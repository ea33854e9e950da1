"""The query library beside raw pymilvus calls: what routing, fusion, preferences, duplicates and the trace cost.

And what importing it costs beyond pymilvus, which every reader of Milvus imports. Comments in `query` that name
`bench_query` mark code that is written for the processor time measured here.

One hybrid search makes three calls (two lists and the texts of the best units). The overhead of a search is the time
in which none of its calls was under way and nothing was embedded; it is measured inside the same searches, so that a
busy machine disturbs both sides alike.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.milvus import connect, detect_backend, disconnect, open_client
from kubeflow_corpus.model import ModelIdentity
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.query.intent import bm25_text
from kubeflow_corpus.query.ranking import light_fields
from kubeflow_corpus.query.reader import Reader
from kubeflow_corpus.query.tuning import DEFAULT_LIMIT, DEFAULT_TUNING
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.schema import (
    DIMENSION_KEY,
    MODEL_KEY,
    collection_schema,
    index_params,
    keys_filter,
    physical_name,
)
from numpy.typing import NDArray

from tests.benchmarks.harness import Row
from tests.servers.milvus_lite import milvus_lite_server

ROWS = 10_000
DIMENSION = 384
MOST_OVERHEAD_MS = 3.0
MOST_IMPORT_MS = 150.0
# Units whose texts a search for five hits fetches.
FETCHED = DEFAULT_LIMIT * DEFAULT_TUNING.candidates
IDENTITY = ModelIdentity("benchmark/random", "", DIMENSION, 256)
VOCABULARY = [f"{stem}{number}" for stem in ("pod", "queue", "trial", "metric", "cache") for number in range(600)]


class RandomEmbedder:
    """Vectors at no cost: what the model takes is not part of this measurement."""

    identity = IDENTITY

    def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> NDArray[np.float32]:
        return unit_vectors(len(texts), hash(texts[0]) % 2**32)

    def close(self) -> None: ...


def unit_vectors(number: int, seed: int) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((number, DIMENSION)).astype(np.float32)
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def measure(scale: float) -> Iterator[Row]:
    """Yields the rows of this benchmark."""
    rows = max(500, int(ROWS * scale))
    searches = max(20, int(150 * scale))
    with tempfile.TemporaryDirectory() as folder, milvus_lite_server(Path(folder) / "data") as server:
        settings = Settings(milvus_uri=server.uri)
        fill(settings, rows)
        watch = Watch()
        reader = Reader(settings, connect=lambda *given: watch.over(open_client(*given)))
        embedder = watch.over(RandomEmbedder())
        with CorpusClient(settings=settings, embeddings=embedder, reader=reader, timeout=60) as client:
            client.warm_up([DOCS.alias])
            yield from compare(client, watch, settings, searches, rows)
    yield imports(max(3, int(9 * scale)))


def imports(times: int) -> Row:
    """Returns what importing the client costs a fresh interpreter that has imported pymilvus, the median of several."""
    code = (
        "import time, pymilvus\nstarted = time.perf_counter()\n"
        "import kubeflow_corpus.query\nfrom kubeflow_corpus.query.client import CorpusClient\n"
        "print((time.perf_counter() - started) * 1000)"
    )
    unwanted = ("MILVUS_URI", "PYTHONDONTWRITEBYTECODE")
    with tempfile.TemporaryDirectory() as bytecode:
        # As an installed package: compiled once, by the first of these interpreters.
        environment = {name: value for name, value in os.environ.items() if name not in unwanted}
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        command = [sys.executable, "-c", code]
        spent = [
            float(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
            for _ in range(times + 1)
        ]
    spent = spent[1:]
    return Row("import of the client beyond pymilvus, p50", percentile(spent, 50), "ms", most=MOST_IMPORT_MS)


def compare(client: CorpusClient, watch: Watch, settings: Settings, searches: int, rows: int) -> Iterator[Row]:
    raw = connect(settings)
    totals, raws, overheads, processor = [], [], [], []
    for question in questions(searches + 5):
        watch.clear()
        before, started = time.thread_time(), time.perf_counter()
        result = client.search_docs(question)
        ended = time.perf_counter()
        processor.append((time.thread_time() - before - sum(watch.computed)) * 1000)
        totals.append((ended - started) * 1000)
        overheads.append(totals[-1] - covered(watch.spans) * 1000)
        started = time.perf_counter()
        raw_search(raw, question, [entry["unit_id"] for entry in result.trace["fused"]][:FETCHED])
        raws.append((time.perf_counter() - started) * 1000)
        # Freeing the rows of an answer is not part of the next search.
        del result
    disconnect(raw, settings)
    for name in (50, 95, 99):
        value, baseline = percentile(totals[5:], name), percentile(raws[5:], name)
        yield Row(f"hybrid search, {rows:,} rows, p{name}", value, "ms", baseline, "the same three raw pymilvus calls")
    yield Row("library overhead, p50", percentile(overheads[5:], 50), "ms", most=MOST_OVERHEAD_MS)
    # What a busy machine does not inflate: processor time of the searching thread outside of pymilvus.
    yield Row("library processor time, p50", percentile(processor[5:], 50), "ms", most=MOST_OVERHEAD_MS)
    yield Row("library overhead, p95", percentile(overheads[5:], 95), "ms")
    yield Row("library overhead, p99", percentile(overheads[5:], 99), "ms")


class Watch:
    """Notes when calls to Milvus and embeddings begin and end, and their processor time in the searching thread."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []
        self.computed: list[float] = []
        self._searching = threading.get_ident()

    def clear(self) -> None:
        self.spans.clear()
        self.computed.clear()

    def over(self, watched: Any) -> Any:
        """Returns the same object with its methods watched."""
        return Watched(watched, self)

    def call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before, started = time.thread_time(), time.perf_counter()
        try:
            return method(*args, **kwargs)
        finally:
            self.spans.append((started, time.perf_counter()))
            if threading.get_ident() == self._searching:
                self.computed.append(time.thread_time() - before)


class Watched:
    def __init__(self, watched: Any, watch: Watch) -> None:
        self._watched = watched
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._watched, name)
        return partial(self._watch.call, value) if callable(value) else value


def covered(spans: Sequence[tuple[float, float]]) -> float:
    """Seconds in which at least one call was under way."""
    total, end = 0.0, 0.0
    for started, ended in sorted(spans):
        total += max(0.0, ended - max(started, end))
        end = max(end, ended)
    return total


def raw_search(milvus: Any, question: str, units: list[str]) -> None:
    policy = DEFAULT_TUNING.policies["general"]
    fields = list(light_fields(DOCS))
    name = DOCS.alias
    milvus.search(name, data=[bm25_text(question)], anns_field="sparse_vector", limit=policy.pool, output_fields=fields)
    milvus.search(name, data=unit_vectors(1, 3), anns_field="vector", limit=policy.pool, output_fields=fields)
    milvus.query(name, filter=keys_filter("unit_id", units), output_fields=list(DOCS.output_fields))


def questions(number: int) -> Iterator[str]:
    generator = random.Random(5)
    for _ in range(number):
        yield "some " + " ".join(generator.choices(VOCABULARY, k=6))


def fill(settings: Settings, number: int) -> None:
    client = connect(settings)
    backend = detect_backend(client)
    name = physical_name(DOCS.alias, 1)
    client.create_collection(
        name,
        schema=collection_schema(DOCS, backend, DIMENSION),
        index_params=index_params(backend),
        properties={MODEL_KEY: IDENTITY.model, DIMENSION_KEY: str(DIMENSION)},
    )
    generator = random.Random(1)
    empty: dict[str, Any] = {field.name: [] if field.kind == "array" else "" for field in DOCS.fields}
    vectors = unit_vectors(number, 1)
    for start in range(0, number, 1000):
        batch = []
        for index in range(start, min(start + 1000, number)):
            text = " ".join(generator.choices(VOCABULARY, k=180))
            row = {
                "id": f"r{index}",
                "unit_id": f"u{index // 2}",
                "document_id": f"d{index // 20}",
                "chunk_index": index,
            }
            row |= {
                "source_type": "docs",
                "start_line": 1,
                "end_line": 2,
                "title": f"Page {index // 20}",
                "content_text": text,
            }
            row |= {"search_text": text, "product_area": ["katib"], "version": ["1.9"], "vector": vectors[index]}
            batch.append(empty | row)
        client.upsert(name, batch)
    client.flush(name)
    client.create_alias(name, DOCS.alias)
    client.load_collection(name)
    disconnect(client, settings)


def percentile(values: Sequence[float], share: int) -> float:
    return float(np.percentile(values, share))
