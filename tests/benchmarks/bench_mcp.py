"""The MCP server under many clients, beside the query library that it serves.

A process serves streamable HTTP over `milvus-lite server`, as in production but for the model, whose vectors cost
nothing: what the protocol, the checks, the limits and the logs take is then not hidden behind it. The overhead over the
library is measured one call at a time: what a caller waits, less what the library took for the search and its evidence
inside of that very call, which the process says of each. Under load both the server and a `CorpusClient` with as many
threads as the server has slots share the machine with Milvus: there the ratio of the two says something.

``python -m tests.benchmarks.bench_mcp serve URI`` is the process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.query.client import AsyncCorpusClient, CorpusClient, SearchResult
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.tracing import record_stages
from mcp import Client, MCPError

from tests.benchmarks.bench_query import RandomEmbedder, fill, questions
from tests.benchmarks.harness import Row, percentile
from tests.servers.milvus_lite import milvus_lite_server

ROWS = 10_000
CLIENTS = 64
CALLS = 50
TOOL = "search_kubeflow_docs"
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
# Calls a second in all, for the run with a limit: below what any machine answers.
RATE = 2.0
MOST_OVERHEAD_MS = 15.0
MOST_TRACING_PERCENT = 1.0
INSIDE = "inside_the_library"


def measure(scale: float) -> Iterator[Row]:
    """Yields the rows of this benchmark."""
    rows, calls = max(500, int(ROWS * scale)), max(2, int(CALLS * scale))
    with tempfile.TemporaryDirectory() as folder, milvus_lite_server(Path(folder) / "data") as milvus:
        settings = Settings(milvus_uri=milvus.uri)
        fill(settings, rows)
        with CorpusClient(settings=settings, embeddings=RandomEmbedder(), timeout=300) as library:
            library.warm_up([DOCS.alias])
            with serving(milvus.uri) as (url, inside):
                yield from one_at_a_time(url, inside, max(20, int(100 * scale)))
                yield tracing_switched_off(library, max(20, int(200 * scale)))
                slots = ServerSettings().max_concurrency
                base = library_under_load(library, slots, CLIENTS * calls // 4)
                yield from under_load(url, calls, base)
        with serving(milvus.uri, MCP_GLOBAL_RATE=str(RATE)) as (url, _):
            yield from limited(url, max(2, calls // 10))


def tracing_switched_off(library: CorpusClient, number: int) -> Row:
    """What a search pays for traces that nobody collects, measured inside the same searches."""
    searched, traced = [], []
    for question in questions(number):
        started = time.perf_counter()
        result = library.search(DOCS.name, question)
        ended = time.perf_counter()
        record_stages(result.stages.stages, **{"corpus.request_id": "r", "corpus.intent": result.intent.name})
        traced.append(time.perf_counter() - ended)
        searched.append(ended - started)
    share = 100 * percentile(traced, 0.5) / percentile(searched, 0.5)
    note = f"{percentile(traced, 0.5) * 1e6:.1f} us of {percentile(searched, 0.5) * 1000:.1f} ms"
    return Row("traces that are switched off, share of a search, p50", share, "%", most=MOST_TRACING_PERCENT, note=note)


def one_at_a_time(url: str, inside: list[float], number: int) -> Iterator[Row]:
    """What a call takes beyond the library's own work in it."""
    calls: list[float] = []
    with requests.Session() as session:
        for question in questions(number + 5):
            started = time.perf_counter()
            answer = post(session, url, question)
            calls.append((time.perf_counter() - started) * 1000)
            assert not answer.get("isError"), answer
    while len(inside) < len(calls):
        time.sleep(0.01)
    searches = inside[: len(calls)]
    for share in (0.50, 0.95):
        yield Row(
            f"one call at a time, p{share * 100:.0f}",
            percentile(calls[5:], share),
            "ms",
            percentile(searches[5:], share),
            "the library in the same calls",
        )
    overheads = [call - search for call, search in zip(calls[5:], searches[5:], strict=True)]
    yield Row("overhead over the library, p50", percentile(overheads, 0.50), "ms", most=MOST_OVERHEAD_MS)
    yield Row("overhead over the library, p95", percentile(overheads, 0.95), "ms")


def library_under_load(library: CorpusClient, threads: int, number: int) -> float:
    """Returns searches a second, by as many threads as the server has slots."""
    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda question: library.search_docs(question).evidence_block(), questions(number)))
    return number / (time.perf_counter() - started)


def under_load(url: str, calls: int, base: float) -> Iterator[Row]:
    """Official clients at once, each its calls one after another."""
    started = time.perf_counter()
    times, codes = asyncio.run(crowd(url, calls))
    seconds = time.perf_counter() - started
    what = f"{CLIENTS} clients x {calls} calls"
    for share in (0.50, 0.95, 0.99):
        yield Row(f"{what}, p{share * 100:.0f}", percentile(times, share), "ms")
    yield Row(f"{what}, throughput", len(times) / seconds, "calls/s", base, "the library, as many threads as slots")
    yield Row(f"{what}, errors", len(times) - codes["OK"], "calls", most=0, note=json.dumps(dict(codes)))


def limited(url: str, calls: int) -> Iterator[Row]:
    """The same crowd where that many calls are not allowed."""
    times, codes = asyncio.run(crowd(url, calls))
    other = len(times) - codes["OK"] - codes["RATE_LIMITED"]
    what = f"{CLIENTS} clients x {calls} calls, limit {RATE:g}/s"
    yield Row(f"{what}, refused", codes["RATE_LIMITED"], "calls", note=json.dumps(dict(codes)))
    yield Row(f"{what}, errors but RATE_LIMITED", other, "calls", most=0)


async def crowd(url: str, calls: int) -> tuple[list[float], Counter[str]]:
    """Returns the milliseconds of every call, and how many ended with which code."""
    times: list[float] = []
    codes: Counter[str] = Counter()

    async def one(asked: Sequence[str]) -> None:
        async with Client(f"{url}/mcp") as client:
            for question in asked:
                started = time.perf_counter()
                try:
                    code = code_of(await client.call_tool(TOOL, {"query": question}))
                except MCPError as error:
                    # A client asks for the list of tools too, which stands under the same limits.
                    code = error.error.message.partition(":")[0]
                times.append((time.perf_counter() - started) * 1000)
                codes[code] += 1

    everything = list(questions(CLIENTS * calls))
    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(one(everything[number * calls : (number + 1) * calls]))
    return times, codes


def code_of(result: Any) -> str:
    """Returns OK, or the code that an error begins with."""
    return str(result.content[0].text).partition(":")[0] if result.is_error else "OK"


def post(session: requests.Session, url: str, question: str) -> dict[str, Any]:
    """Calls the tool with one request, without what a client of the protocol does."""
    params = {"name": TOOL, "arguments": {"query": question}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return dict(session.post(f"{url}/mcp", json=body, headers=HEADERS, timeout=600).json()["result"])


@contextmanager
def serving(uri: str, **environ: str) -> Iterator[tuple[str, list[float]]]:
    """Serves in a process of its own; yields its address, and the milliseconds of the library in each call so far."""
    limits = {"MCP_PORT": "0", "MCP_SEARCH_SECONDS": "300", "MCP_MAX_QUEUE": str(CLIENTS)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.bench_mcp", "serve", uri],
        env={**os.environ, **limits, **environ},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    inside: list[float] = []

    def read() -> None:
        for line in process.stderr or ():
            if f'"{INSIDE}"' in line:
                inside.append(json.loads(line)["ms"])

    reader = threading.Thread(target=read)
    try:
        port = next(json.loads(line)["port"] for line in process.stderr if '"listening"' in line)
        reader.start()
        yield f"http://127.0.0.1:{port}", inside
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        if reader.is_alive():
            reader.join()
        process.stderr.close()


class Timed(AsyncCorpusClient):
    """Says of each search what it took, with the evidence that every answer has."""

    async def search(self, collection: str, query: str, **options: Any) -> SearchResult:
        started = time.perf_counter()
        result = await super().search(collection, query, **options)
        await asyncio.to_thread(result.evidence_block)
        event = {"event": INSIDE, "ms": (time.perf_counter() - started) * 1000}
        logging.getLogger("kubeflow_corpus.mcp").info("", extra={"event": event})
        return result


def serve(uri: str) -> None:
    """The server process: `kubeflow-corpus mcp` with a model that costs nothing."""
    from kubeflow_corpus.cli.serve_mcp import log_to_stderr
    from kubeflow_corpus.mcp_server.assembly import StatusReader
    from kubeflow_corpus.mcp_server.http import Readiness, build_app
    from kubeflow_corpus.mcp_server.http import serve as serve_app
    from kubeflow_corpus.mcp_server.server import build_server
    from kubeflow_corpus.mcp_server.service import Service

    log_to_stderr()
    settings, server_settings = Settings(milvus_uri=uri), ServerSettings.from_env()
    client = Timed(
        settings=settings,
        embeddings=RandomEmbedder(),
        max_concurrent=server_settings.max_concurrency,
        timeout=server_settings.search_seconds,
    )
    service = Service(client, server_settings)
    readiness = Readiness(client.warm_up)
    serve_app(build_app(build_server(service, StatusReader(settings)), service, readiness), service, readiness)


if __name__ == "__main__" and sys.argv[1:2] == ["serve"]:
    serve(sys.argv[2])
