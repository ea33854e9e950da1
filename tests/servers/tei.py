"""A text-embeddings-inference server for tests: the documented contract of 1.8 and 1.9, with its limits and its errors.

It counts permits by input, refuses what TEI refuses with TEI's own status and body, and can be told to be slow, to be
overloaded, to die in the middle of an answer or to answer nonsense. Vectors come from the embedded model or from a
hash of the text (`hash_vector`), which costs nothing and can be checked exactly.

    with TeiServer(dimension=384, latency=0.05) as server:
        client = TeiClient(server.url)

`python -m tests.servers.tei --latency 0.05` serves in a process of its own and prints its URL: benchmarks must not
share an interpreter lock with what they measure.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np

Fault = str | None
Faults = Callable[[int], Fault]

FAULTS: Final = ("429", "429-retry-after", "503", "502", "reset", "cut", "garbage", "slow", "drip", "redirect")
REASONS: Final = {200: "OK", 302: "Found", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}


@dataclass(frozen=True, slots=True)
class Limits:
    """What TEI's command line sets; the defaults are those of TEI with all-mpnet-base-v2."""

    max_input_length: int = 384
    max_batch_tokens: int = 16_384
    max_client_batch_size: int = 32
    max_concurrent_requests: int = 512
    payload_limit: int = 2_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived, and how it was answered."""

    path: str
    inputs: int
    size: int
    status: int
    fault: Fault
    body: Any
    authorization: str


@dataclass(slots=True)
class Log:
    """What the server saw."""

    requests: list[Request] = field(default_factory=list)
    peak_inputs: int = 0
    connections: int = 0

    def statuses(self, path: str = "/embed") -> Counter[int]:
        """Returns how often each status was answered."""
        return Counter(request.status for request in self.requests if request.path == path)

    def batches(self) -> list[int]:
        """Returns the number of inputs of each /embed request."""
        return [request.inputs for request in self.requests if request.path == "/embed"]


class Refused(Exception):
    """An error answer of TEI."""

    def __init__(self, status: int, error: str = "", kind: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(error)
        self.status, self.error, self.kind, self.headers = status, error, kind, headers or {}

    def body(self) -> tuple[str, bytes]:
        if self.kind:
            return "application/json", json.dumps({"error": self.error, "error_type": self.kind}).encode()
        return "text/plain; charset=utf-8", self.error.encode()


class Dropped(Exception):
    """The connection ends without an answer."""


def hash_vector(text: str, dimension: int) -> np.ndarray:
    """Returns the unit vector of a text in a server with ``vectors="hash"``: float32 of shape (dimension,)."""
    seed = int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(dimension)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


@lru_cache(maxsize=8192)
def _hash_json(text: str, dimension: int) -> bytes:
    return _vector_json(hash_vector(text, dimension))


def _vector_json(vector: np.ndarray) -> bytes:
    if np.isfinite(vector).all():
        # Nine digits read back to the same float32.
        return (b"[" + b",".join([b"%.9g"] * len(vector)) + b"]") % tuple(vector.tolist())
    # What JSON has no word for is null, as serde_json writes it.
    return json.dumps([value if np.isfinite(value) else None for value in vector.tolist()]).encode()


def script(faults: Iterable[Fault]) -> Faults:
    """Returns faults for the first /embed requests, in order of arrival; afterwards all is well."""
    planned = list(faults)
    return lambda ordinal: planned[ordinal] if ordinal < len(planned) else None


def at_random(rate: float, kinds: Sequence[str], seed: int = 0) -> Faults:
    """Returns faults for a share of all /embed requests."""
    generator = random.Random(seed)
    return lambda _: generator.choice(kinds) if generator.random() < rate else None


@dataclass(slots=True)
class TeiServer:
    """One server on a loopback port, from ``__enter__`` to ``__exit__``.

    Attributes:
        vectors: ``hash`` or ``minilm``.
        dimension: Length of a hash vector.
        version: ``1.8.x`` answers 413 where ``1.9.x`` answers 422, and does not truncate by default.
        limits: As TEI's command line sets them.
        model_id: What /info says.
        model_sha: What /info says.
        dtype: What /info says.
        api_key: The Bearer token that is asked for.
        latency: Seconds that every batch takes.
        faults: What goes wrong with the n-th /embed or /rerank request.
        poison: An input that holds this string fails its whole batch.
        poison_error: Status, message and error type of that failure.
        spoil: Changes the vectors (a list of arrays) before they are sent; may return any JSON value instead.
        spoil_ranks: Changes the answer of /rerank (a list of objects) before it is sent; any JSON value.
        relevance: Scores a text for a query, in place of the share of the query's words that the text holds.
        reranker: Whether this is a reranker: /rerank answers and /embed does not.
        check: Called with (path, "request" | "response", JSON value): the contract test's hook.
    """

    vectors: str = "hash"
    dimension: int = 384
    version: str = "1.9.3"
    limits: Limits = Limits()
    model_id: str = "sentence-transformers/all-mpnet-base-v2"
    model_sha: str | None = "e8c3b32edf5434bc2275fc9bab85f82640a19130"
    dtype: str = "float32"
    api_key: str = ""
    latency: float = 0.0
    faults: Faults = lambda _: None
    poison: str = ""
    poison_error: tuple[int, str, str] = (424, "inference failed", "Backend")
    spoil: Callable[[list[np.ndarray]], Any] | None = None
    spoil_ranks: Callable[[list[dict[str, Any]]], Any] | None = None
    relevance: Callable[[str, str], float] | None = None
    reranker: bool = False
    healthy: bool = True
    check: Callable[[str, str, Any], None] | None = None
    port: int = 0
    log: Log = field(default_factory=Log)
    _loop: asyncio.AbstractEventLoop | None = None
    _thread: threading.Thread | None = None
    _in_flight: int = 0
    _ordinal: int = 0
    _failures: list[BaseException] = field(default_factory=list)
    _model: Any = None
    _tokenizer: Any = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> TeiServer:
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        self._thread.start()
        assert started.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None and self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        if self._model is not None:
            self._model.close()
        if self._failures:
            raise self._failures[0]

    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def _serve(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            await self._connection(reader, writer)

        server = await asyncio.start_server(connected, "127.0.0.1", self.port, limit=2**22, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.log.connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        except Dropped:
            # A linger of zero seconds makes the close a reset, as a killed container's kernel sends it.
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        except Exception as error:
            self._failures.append(error)
        finally:
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
        data = await reader.readexactly(int(headers.get("content-length", 0)))
        request, fault = _json(data), None
        if path in ("/embed", "/rerank"):
            fault = self.faults(self._ordinal)
            self._ordinal += 1
        status, kind, body, extra = 200, "application/json", b"", {}
        try:
            self._authorise(path, headers)
            if len(data) > self.limits.payload_limit:
                raise Refused(413, "Failed to buffer the request body: length limit exceeded")
            if method == "POST" and request is None:
                raise Refused(400, "Failed to parse the request body as JSON")
            self._checked(path, "request", request)
            kind, body = await self._answer(method, path, request, fault)
            if kind == "application/json":
                self._checked(path, "response", _json(body))
        except Refused as refused:
            status, extra, (kind, body) = refused.status, refused.headers, refused.body()
            if refused.kind:
                self._checked(path, "error", _json(body))
        finally:
            self.log.requests.append(
                Request(path, _count(request), len(data), status, fault, request, headers.get("authorization", ""))
            )
        await _send(writer, status, kind, body, extra, fault)
        return True

    def _authorise(self, path: str, headers: dict[str, str]) -> None:
        public = path in ("/health", "/metrics")
        if self.api_key and not public and headers.get("authorization") != f"Bearer {self.api_key}":
            raise Refused(401)

    def _checked(self, path: str, side: str, value: Any) -> None:
        if self.check is not None and value is not None:
            self.check(path, side, value)

    async def _answer(self, method: str, path: str, request: Any, fault: Fault) -> tuple[str, bytes]:
        match method, path:
            case "GET", "/health":
                if not self.healthy:
                    raise Refused(503, "unhealthy", "Unhealthy")
                return "text/plain", b""
            case "GET", "/info":
                return "application/json", json.dumps(self.info()).encode()
            case "GET", "/metrics":
                return "text/plain", b"# TYPE te_request_count counter\nte_request_count %d\n" % self._ordinal
            case "POST", "/tokenize":
                return "application/json", json.dumps(self._tokenize(request)).encode()
            case "POST", "/embed" if not self.reranker:
                return await self._embed(request, fault)
            case "POST", "/embed":
                raise Refused(424, "model is not an embedding model", "Backend")
            case "POST", "/rerank" if self.reranker:
                return await self._rerank(request, fault)
            case "POST", "/rerank":
                raise Refused(424, "model is not a re-ranker model", "Backend")
        raise Refused(404)

    def info(self) -> dict[str, Any]:
        """Returns the answer of /info."""
        model_type = {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}}
        return {
            "model_id": self.model_id,
            "model_sha": self.model_sha,
            "model_dtype": self.dtype,
            "served_model_name": self.model_id,
            "model_type": model_type if self.reranker else {"embedding": {"pooling": "mean"}},
            "max_concurrent_requests": self.limits.max_concurrent_requests,
            "max_input_length": self.limits.max_input_length,
            "max_batch_tokens": self.limits.max_batch_tokens,
            "max_batch_requests": None,
            "max_client_batch_size": self.limits.max_client_batch_size,
            "auto_truncate": self.new,
            "tokenization_workers": 2,
            "version": self.version,
            "sha": None,
            "docker_label": None,
        }

    @property
    def new(self) -> bool:
        """Whether this is 1.9 or later."""
        return tuple(map(int, self.version.split(".")[:2])) >= (1, 9)

    def _refuse(self, error: str, kind: str = "Validation") -> Refused:
        return Refused(422 if self.new or kind != "Validation" else 413, error, kind)

    async def _embed(self, request: Any, fault: Fault) -> tuple[str, bytes]:
        inputs = self._inputs(request)
        self._in_flight += len(inputs)
        self.log.peak_inputs = max(self.log.peak_inputs, self._in_flight)
        try:
            if self._in_flight > self.limits.max_concurrent_requests:
                raise Refused(429, "no permits available", "Overloaded")
            await self._go_wrong(fault)
            self._check_lengths(inputs, request)
            if self.latency:
                await asyncio.sleep(self.latency)
            if self.poison and any(self.poison in text for text in inputs):
                raise Refused(*self.poison_error)
            return "application/json", await self._vectors(inputs)
        finally:
            self._in_flight -= len(inputs)

    def _inputs(self, request: Any) -> list[str]:
        if not isinstance(request, dict) or "inputs" not in request:
            raise Refused(422, "Failed to deserialize the JSON body into the target type: missing field `inputs`")
        inputs = [request["inputs"]] if isinstance(request["inputs"], str) else request["inputs"]
        if not all(isinstance(text, str) for text in inputs):
            raise Refused(422, "Failed to deserialize the JSON body into the target type: inputs")
        if not inputs or "" in inputs:
            raise Refused(400, "`inputs` cannot be empty", "Empty")
        most = self.limits.max_client_batch_size
        if len(inputs) > most:
            raise self._refuse(f"batch size {len(inputs)} > maximum allowed batch size {most}")
        return inputs

    async def _go_wrong(self, fault: Fault) -> None:
        match fault:
            case "429":
                raise Refused(429, "Model is overloaded", "Overloaded")
            case "429-retry-after":
                raise Refused(429, "Model is overloaded", "Overloaded", {"Retry-After": "1"})
            case "503":
                raise Refused(503, "Service is unhealthy", "Unhealthy")
            case "502":
                raise Refused(502, "<html>bad gateway</html>")
            case "redirect":
                raise Refused(302, headers={"Location": "http://127.0.0.2:9/embed"})
            case "reset":
                raise Dropped
            case "slow":
                await asyncio.sleep(2.0)

    def _check_lengths(self, inputs: list[str], request: dict[str, Any]) -> None:
        truncate = request.get("truncate")
        if self.new if truncate is None else truncate:
            return
        most = self.limits.max_input_length
        for text in inputs:
            # A text has no more tokens than characters: only what may be too long is worth tokenizing.
            if len(text) + 2 > most and (tokens := _token_count(self, text)) > most:
                raise self._refuse(f"`inputs` must have less than {most} tokens. Given: {tokens}")

    def _encode(self, text: str) -> Any:
        if self._tokenizer is None:
            from kubeflow_corpus.tokens import load_tokenizer

            self._tokenizer = load_tokenizer()
        return self._tokenizer.encode(text)

    async def _vectors(self, inputs: list[str]) -> bytes:
        if self.vectors == "hash" and self.spoil is None:
            return b"[" + b",".join(_hash_json(text, self.dimension) for text in inputs) + b"]"
        if self.vectors == "hash":
            arrays = [hash_vector(text, self.dimension) for text in inputs]
        else:
            arrays = list(await asyncio.get_running_loop().run_in_executor(None, self._embedded, inputs))
        answer = self.spoil(arrays) if self.spoil is not None else arrays
        if isinstance(answer, list) and all(isinstance(row, np.ndarray) for row in answer):
            return b"[" + b",".join(map(_vector_json, answer)) + b"]"
        return json.dumps(answer).encode()

    def _embedded(self, inputs: list[str]) -> np.ndarray:
        if self._model is None:
            from kubeflow_corpus.embedding.embedded import EmbeddedModel

            self._model = EmbeddedModel()
        return self._model.embed(inputs)

    def _tokenize(self, request: Any) -> list[list[dict[str, Any]]]:
        inputs = self._inputs(request)
        answer = []
        for text in inputs:
            encoding = self._encode(text)
            rows = zip(encoding.ids, encoding.tokens, encoding.special_tokens_mask, encoding.offsets, strict=True)
            answer.append(
                [
                    {"id": id_, "text": token, "special": bool(special)}
                    | ({"start": None, "stop": None} if special else {"start": start, "stop": stop})
                    for id_, token, special, (start, stop) in rows
                ]
            )
        return answer

    async def _rerank(self, request: Any, fault: Fault) -> tuple[str, bytes]:
        query, texts = self._pairs(request)
        self._in_flight += len(texts)
        self.log.peak_inputs = max(self.log.peak_inputs, self._in_flight)
        try:
            if self._in_flight > self.limits.max_concurrent_requests:
                raise Refused(429, "no permits available", "Overloaded")
            await self._go_wrong(fault)
            self._check_lengths([f"{query} {text}" for text in texts], request)
            if self.latency:
                await asyncio.sleep(self.latency)
            ranks: Any = self._ranks(query, texts, request)
            if self.spoil_ranks is not None:
                ranks = self.spoil_ranks(ranks)
            return "application/json", json.dumps(ranks).encode()
        finally:
            self._in_flight -= len(texts)

    def _pairs(self, request: Any) -> tuple[str, list[str]]:
        known = {"query": str, "texts": list, "raw_scores": bool, "return_text": bool, "truncate": bool}
        for name, kind in known.items():
            if not isinstance(request, dict) or (name in ("query", "texts") and name not in request):
                raise Refused(422, f"Failed to deserialize the JSON body into the target type: missing field `{name}`")
            if request.get(name) is not None and not isinstance(request[name], kind):
                raise Refused(422, f"Failed to deserialize the JSON body into the target type: {name}")
        query, texts = request["query"], request["texts"]
        if not all(isinstance(text, str) for text in texts):
            raise Refused(422, "Failed to deserialize the JSON body into the target type: texts")
        if not texts:
            raise Refused(400, "`texts` cannot be empty", "Empty")
        most = self.limits.max_client_batch_size
        if len(texts) > most:
            raise self._refuse(f"batch size {len(texts)} > maximum allowed batch size {most}")
        return query, texts

    def _ranks(self, query: str, texts: list[str], request: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns the best text first. Scores are cheap, and right about which text is better."""
        words = set(query.casefold().split())

        def share(_: str, text: str) -> float:
            return len(words & set(text.casefold().split())) / max(len(words), 1)

        relevance = self.relevance or share
        ranks = [
            {"index": index, "score": relevance(query, text)} | ({"text": text} if request.get("return_text") else {})
            for index, text in enumerate(texts)
        ]
        return sorted(ranks, key=lambda rank: -rank["score"])


_counts: dict[str, int] = {}


def _token_count(server: TeiServer, text: str) -> int:
    """Counts a text once: a benchmark that sends it again measures the client and not this server."""
    if text not in _counts:
        if len(_counts) > 50_000:
            _counts.clear()
        _counts[text] = len(server._encode(text))
    return _counts[text]


async def _send(
    writer: asyncio.StreamWriter, status: int, kind: str, body: bytes, extra: dict[str, str], fault: Fault
) -> None:
    if fault == "garbage" and status == 200:
        body = body[: len(body) // 2]
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}", f"content-type: {kind}"]
    lines += [f"content-length: {len(body)}", *(f"{name}: {value}" for name, value in extra.items())]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode()
    if fault == "cut" and status == 200:
        writer.write(head + body[: len(body) // 2])
        await writer.drain()
        raise asyncio.IncompleteReadError(b"", None)
    if fault == "drip" and status == 200:
        writer.write(head)
        for start in range(0, len(body), 8):
            writer.write(body[start : start + 8])
            await writer.drain()
            await asyncio.sleep(0.05)
        return
    writer.write(head + body)
    await writer.drain()


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _count(request: Any) -> int:
    inputs = request.get("inputs", request.get("texts", ())) if isinstance(request, dict) else ()
    return len(inputs) if isinstance(inputs, (list, tuple)) else 1


@contextmanager
def tei_process(*arguments: str) -> Iterator[str]:
    """Serves in a process of its own; gives the URL."""
    import subprocess
    import sys

    command = [sys.executable, "-m", "tests.servers.tei", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def main() -> None:
    """Serves until it is terminated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--vectors", choices=("hash", "minilm"), default="hash")
    parser.add_argument("--version", default="1.9.3")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    with TeiServer(**vars(options)) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
