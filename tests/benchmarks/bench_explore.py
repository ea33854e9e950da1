"""The page of `explore` beside the library that answers it, and what the log of questions costs a search.

Both over as many rows as the real corpus has. A page of a search holds the hits, the evidence and why, of one
collection here; the library's own side is the search with its evidence.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.explore.app import Explorer
from kubeflow_corpus.explore.asked import AskedLog, Tests
from kubeflow_corpus.explore.corpus import Corpus
from kubeflow_corpus.explore.guard import WriteToken
from kubeflow_corpus.explore.originals import Originals
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.query.question_log import QuestionLog
from kubeflow_corpus.settings import Settings
from starlette.testclient import TestClient

from tests.benchmarks.bench_query import RandomEmbedder, fill
from tests.benchmarks.harness import Row, in_turns, percentile, seconds_of
from tests.benchmarks.material import some_words
from tests.servers.milvus_lite import milvus_lite_server

ROWS = 27_000
MOST_FIRST_PAGE_MS = 1_000.0
# A page may take 1.3 times as long as the library alone.
LEAST_OF_A_PAGE = 1 / 1.3
MOST_LOG_PERCENT = 2.0


def measure(scale: float) -> Iterator[Row]:
    """Yields the rows of this benchmark."""
    rows, searches = max(500, int(ROWS * scale)), max(20, int(100 * scale))
    with tempfile.TemporaryDirectory() as folder, milvus_lite_server(Path(folder) / "data") as server:
        settings = Settings(milvus_uri=server.uri)
        fill(settings, rows)
        with CorpusClient(settings=settings, embeddings=RandomEmbedder(), timeout=60) as client:
            client.warm_up([DOCS.alias])
            corpus = Corpus(client, settings)
            tests = Tests(client, None, WriteToken())
            page = TestClient(
                Explorer(corpus, Originals(Path(folder)), AskedLog(None), tests).app(), base_url="http://127.0.0.1"
            )
            with page:
                yield from pages(client, page, searches, rows)
            yield from log(client, Path(folder) / "questions.db", searches, rows)


def pages(client: CorpusClient, page: TestClient, searches: int, rows: int) -> Iterator[Row]:
    """Returns what pages take."""
    yield Row(f"first page, {rows:,} rows", seconds_of(lambda: page.get("/")) * 1000, "ms", most=MOST_FIRST_PAGE_MS)
    generator = random.Random(7)
    questions = [f"how do I set {some_words(generator)}" for _ in range(searches)]
    alone, shown = [], []
    for question in questions:
        # The shortest of three: a question that a busy moment hit says nothing of either side.
        times = in_turns(
            3,
            partial(_answer, client, question),
            partial(page.get, "/", params={"q": question, "in": DOCS.name}),
        )
        alone.append(times[0] * 1000)
        shown.append(times[1] * 1000)
    yield Row(
        f"search of the library beside the page that shows it, {rows:,} rows, p50",
        percentile(alone, 0.5),
        "ms",
        percentile(shown, 0.5),
        "the page",
        least=LEAST_OF_A_PAGE,
    )
    source = next(iter(client.known_values(DOCS.name, "source")))
    address = {"in": DOCS.name, "source": source}
    yield Row("documents of a source, first time", seconds_of(lambda: page.get("/source", params=address)) * 1000, "ms")
    again = seconds_of(lambda: page.get("/source", params={**address, "page": "2"})) * 1000
    yield Row("documents of a source, next page", again, "ms")


def _answer(client: CorpusClient, question: str) -> str:
    return client.search(DOCS.name, question).evidence()


def log(client: CorpusClient, path: Path, searches: int, rows: int) -> Iterator[Row]:
    """Returns what keeping a question costs, measured inside the same searches."""
    kept = QuestionLog(path, 90)
    generator = random.Random(11)
    searched, logged = [], []
    for _ in range(searches):
        question = f"how do I set {some_words(generator)}"
        started = time.perf_counter()
        result = client.search(DOCS.name, question)
        ended = time.perf_counter()
        kept.record(DOCS.name, question, result)
        searched.append(ended - started)
        logged.append(time.perf_counter() - ended)
    kept.close()
    share = 100 * percentile(logged, 0.5) / percentile(searched, 0.5)
    note = f"{percentile(logged, 0.5) * 1e6:.0f} us of {percentile(searched, 0.5) * 1000:.1f} ms"
    yield Row(f"log of a question in a search, {rows:,} rows, p50", share, "%", most=MOST_LOG_PERCENT, note=note)
