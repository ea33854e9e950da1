"""A client of text-embeddings-inference (TEI), written against the contract of 1.8 and 1.9.

What a service has to be handled for, and how:

| answer | what the client does |
| --- | --- |
| 429, 503, other 5xx, a lost connection, a broken answer | tries again, with jitter, not before Retry-After |
| 413, 422: the batch or its body is too large | halves the batch |
| 413, 422: an input is longer than the model reads | sends that input again to be cut, and counts it |
| an answer that cannot be vectors, such as nulls or too few | tries again a few times |
| any other failure of a batch | halves it, until the one input to blame is alone, and names that input |
| 401, 403, 404, a redirect | stops: no further try would help |

Permits of the server count inputs and not requests, so in-flight inputs are what is bounded here.
"""

from __future__ import annotations

import json
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from kubeflow_corpus.embedding.batching import BatchLimits, plan_batches, windows
from kubeflow_corpus.embedding.embedder import check_texts, text_digest
from kubeflow_corpus.embedding.prompts import Prompts, preset, with_prompts
from kubeflow_corpus.embedding.service import HttpAnswer, HttpService, NoAnswer
from kubeflow_corpus.errors import EmbedderRefused, EmbedderUnavailable, EmbeddingError, InvalidVector
from kubeflow_corpus.model import ModelIdentity
from kubeflow_corpus.retry import Backoff
from kubeflow_corpus.settings import Secret

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K = TypeVar("K")


# A service that never answered is more likely misspelt than busy: two seconds. One that did may be restarting: minutes.
HANDSHAKE: Final = Backoff(attempts=5, base=0.25, cap=2.0, jitter=True, longest_request=120.0)
WORK: Final = Backoff(attempts=16, base=0.25, cap=30.0, jitter=True, longest_request=120.0)
# An input that the backend fails alone is to blame, unless the backend fails everything for a moment.
BLAME: Final = 3

# A batch waits for its permits' turn in the server: 512 inputs on two cores of the cluster's model take minutes.
REQUEST_SECONDS: Final = 600.0
HANDSHAKE_SECONDS: Final = 30.0
# TEI's own defaults, for a service that reports none; the first also where it reports more.
MAX_BATCH_INPUTS: Final = 32
# Below the server's 2,000,000: proxies in front of it are often at 1 MiB.
MAX_BODY_BYTES: Final = 1_000_000
MAX_CONNECTIONS: Final = 64
MAX_DIMENSION: Final = 32_768
# The longest JSON that a number of a vector takes, and room for an error text.
_BYTES_PER_NUMBER: Final = 32
_ANSWER_ROOM: Final = 1 << 20
# /tokenize spells each token out as an object.
_BYTES_PER_TOKEN: Final = 256
_MAX_INFO_BYTES: Final = 1 << 20
# Windows of texts that a stream has in memory: the last answers of one are awaited while the next are on their way.
_WINDOWS_IN_FLIGHT: Final = 3
# float16 services answer vectors whose length is 1 to the third digit.
LENGTH_TOLERANCE: Final = 1e-2

# Stands for the status of an exchange that never came to one.
_NO_ANSWER: Final = 599
# What a service says that has too much to do: it would say so of any text.
_BUSY: Final = frozenset({429, 503})
_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_REFUSALS: Final = {
    401: "Set EMBEDDINGS_API_KEY to the key of the service",
    403: "Set EMBEDDINGS_API_KEY to a key that may embed",
    404: "Set EMBEDDINGS_URL to the base URL of a text-embeddings-inference service",
    405: "Set EMBEDDINGS_URL to the base URL of a text-embeddings-inference service",
}
_REMEDY_UNAVAILABLE: Final = "Check that the service at EMBEDDINGS_URL runs and is not overloaded, then run again"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What /info and a probe say about the server.

    Attributes:
        identity: Its model.
        version: Its release; empty where it does not say.
        permits: Inputs that it takes at a time.
        batch: What one request may hold.
    """

    identity: ModelIdentity
    version: str
    permits: int
    batch: BatchLimits


@dataclass(frozen=True, slots=True)
class _Input:
    """One text on its way: its place in the caller's sequence, itself, and itself as JSON."""

    index: int
    text: str
    data: bytes


@dataclass(frozen=True, slots=True)
class _Call:
    """What the requests of one call share: when it must end, whether it was given up, and what it goes on without.

    Attributes:
        deadline: When it must end.
        given_up: Set where nobody waits for it any more.
        refused: Gets the error of each text that fails alone, by index; None where the call ends at the first.
    """

    deadline: float = math.inf
    given_up: threading.Event = field(default_factory=threading.Event)
    refused: dict[int, EmbeddingError] | None = None

    @property
    def patient(self) -> bool:
        """Whether to try again: a caller with a deadline wants to know soon rather than succeed late."""
        return self.deadline == math.inf

    def seconds(self, most: float) -> float:
        """Returns the seconds that one exchange may take."""
        return max(0.001, min(most, self.deadline - time.monotonic()))


@dataclass(slots=True)
class _Window(Generic[K]):
    """Consecutive texts of a stream, and their vectors as they come in."""

    keys: list[K]
    vectors: NDArray[np.float32]
    missing: int
    first: int


class TeiClient:
    """Texts to unit vectors through a TEI service. May be used from many threads.

    Args:
        url: Base URL of the service.
        api_key: Bearer token; empty sends none.
        permits: Inputs to have in flight at most; None takes all that the server gives. Lower it where live queries
            share the server with an ingestion.
        work: How long to keep trying a batch.
        handshake: How long to keep trying to reach the server at first.
        request_seconds: How long one batch may take.
        prompts: Returns what a model reads before texts, by its name.
        for_queries: Whether the texts are questions.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: Secret = Secret(""),  # noqa: B008 - a frozen empty value
        permits: int | None = None,
        work: Backoff = WORK,
        handshake: Backoff = HANDSHAKE,
        request_seconds: float = REQUEST_SECONDS,
        prompts: Callable[[str], Prompts] = preset,
        for_queries: bool = False,
    ) -> None:
        self._service = HttpService(url, api_key=api_key, connections=MAX_CONNECTIONS)
        self._most_permits = permits
        self._work, self._handshake, self._request_seconds = work, handshake, request_seconds
        self._prompts, self._for_queries = prompts, for_queries
        self._lock = threading.Lock()
        self._server: ServerInfo | None = None
        self._permits: _Permits | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._truncated = 0

    @property
    def identity(self) -> ModelIdentity:
        """The model that /info names, with the dimension that a probe gave."""
        return self.server.identity

    @property
    def server(self) -> ServerInfo:
        """What the server says about itself; it is asked once."""
        return self._known_server(_Call())

    @property
    def truncated(self) -> int:
        """How many texts were longer than the model reads, since this client was made."""
        return self._truncated

    def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> NDArray[np.float32]:
        """Embeds texts, in order.

        Args:
            texts: Texts with at least one word.
            timeout: Seconds for the whole call, handshake included. With it, each request is tried once: a failure
                is raised at once rather than tried again. None tries again for minutes.

        Returns:
            Array of shape (len(texts), dimension), rows of length 1.

        Raises:
            EmbedderUnavailable: The server does not answer, is overloaded or is too slow.
            EmbedderRefused: The server will not take this caller or one of the texts; `fields` then has its ``index``
                and ``sha256``.
            InvalidVector: The server answered something that is not a unit vector of its model.
        """
        import numpy as np

        check_texts(texts)
        if timeout is not None:
            return self._embed_within(texts, timeout)
        call = _Call()
        dimension = self._known_server(call).identity.dimension
        parts = [vectors for _, vectors in self._stream(((None, text) for text in texts), call)]
        return np.concatenate(parts) if parts else np.zeros((0, dimension), np.float32)

    def embed_stream(
        self, items: Iterable[tuple[K, str]], refused: Callable[[K, EmbeddingError], None] | None = None
    ) -> Iterator[tuple[list[K], NDArray[np.float32]]]:
        """Embeds a stream of (key, text), in order, with a bounded number of texts and vectors in memory.

        Args:
            items: The stream.
            refused: Told of each text that the service fails alone while it embeds others; None raises for the first.

        Raises:
            EmbeddingError: As `embed`; ``index`` counts from the start of the stream.
        """
        return self._stream(items, _Call(refused=None if refused is None else {}), refused)

    def check_unchanged(self) -> None:
        """Asks the server again which model it serves.

        Raises:
            EmbedderRefused: It is another one than at first: vectors of two models would meet.
        """
        before = self.identity
        now = self._identity(self._info(_Call()), before.dimension)
        if now != before:
            raise EmbedderRefused(
                f"{self._service.shown_url} changed its model from {before.model} {before.revision} to {now.model} "
                f"{now.revision} while texts were being embedded",
                remedy="Run again: nothing that was embedded in this run may be kept",
            )

    def close(self) -> None:
        """Closes connections and threads; a later call opens them again."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)
        self._service.close()

    # -- the handshake ---------------------------------------------------------------------------------------------

    def _known_server(self, call: _Call) -> ServerInfo:
        server = self._server
        if server is not None:
            return server
        with self._lock:
            if self._server is None:
                self._server = self._ask_server(call)
                self._permits = _Permits(self._server.permits)
            return self._server

    def _ask_server(self, call: _Call) -> ServerInfo:
        info = self._info(call)
        probe = _request_body([_encoded(0, "dimension")], truncate=True)
        answer = self._request("/embed", probe, self._handshake, call, _ANSWER_ROOM)
        if answer.status != 200:
            raise self._refused(answer, [])
        vectors = self._array(answer)
        if vectors.ndim != 2 or len(vectors) != 1 or not 0 < vectors.shape[1] <= MAX_DIMENSION:
            raise self._invalid(f"answered one text with an array of shape {vectors.shape}")
        self._check_values(vectors, [_encoded(0, "dimension")])
        server = _server_info(info, self._identity(info, vectors.shape[1]))
        if self._most_permits is not None:
            permits = max(1, min(self._most_permits, server.permits))
            batch = BatchLimits(min(server.batch.inputs, permits), server.batch.tokens, server.batch.bytes)
            server = ServerInfo(server.identity, server.version, permits, batch)
        return server

    def _info(self, call: _Call) -> dict[str, Any]:
        answer = self._request("/info", None, self._handshake, call, _MAX_INFO_BYTES)
        if answer.status != 200:
            raise self._refused(answer, [])
        info = answer.json()
        if not isinstance(info, dict) or not isinstance(info.get("model_id"), str) or not info["model_id"]:
            raise EmbedderRefused(
                f"{self._service.shown_url}/info is not that of a text-embeddings-inference service",
                remedy=_REFUSALS[404],
            )
        if isinstance(info.get("model_type"), dict) and "embedding" not in info["model_type"]:
            raise EmbedderRefused(
                f"{self._service.shown_url} serves {info['model_id']}, which is not an embedding model",
                remedy="Set EMBEDDINGS_URL to a service with an embedding model, and RERANK_URL to the reranker",
            )
        return info

    def _identity(self, info: dict[str, Any], dimension: int) -> ModelIdentity:
        identity = _reported_identity(info, dimension)
        return with_prompts(identity, self._prompts(identity.model))

    def _prefix(self, server: ServerInfo) -> str:
        return server.identity.query_prefix if self._for_queries else server.identity.document_prefix

    # -- streaming -------------------------------------------------------------------------------------------------

    def _stream(
        self,
        items: Iterable[tuple[K, str]],
        call: _Call,
        refused: Callable[[K, EmbeddingError], None] | None = None,
    ) -> Iterator[tuple[list[K], NDArray[np.float32]]]:
        import numpy as np

        server = self._known_server(call)
        workers = self._workers(server)
        finished: queue.SimpleQueue[tuple[_Window[K], Future[None]]] = queue.SimpleQueue()
        in_flight: deque[_Window[K]] = deque()
        source = windows(items, workers * server.batch.inputs)
        running = done = 0
        more = True
        try:
            while True:
                # The next window starts while the last answers of the one before are awaited: no connection idles.
                while more and running < 2 * workers and len(in_flight) < _WINDOWS_IN_FLIGHT:
                    if (window := next(source, None)) is None:
                        more = False
                        break
                    texts = [text for _, text in window]
                    check_texts(texts, done)
                    vectors = np.empty((len(window), server.identity.dimension), np.float32)
                    in_flight.append(_Window([key for key, _ in window], vectors, 0, done))
                    running += self._submit(in_flight[-1], texts, done, server, call, finished)
                    done += len(window)
                if not in_flight:
                    return
                if not in_flight[0].missing:
                    ready = in_flight.popleft()
                    yield _without_refused(ready, call, refused)
                    continue
                owner, future = finished.get()
                future.result()
                owner.missing -= 1
                running -= 1
        finally:
            # Also where the reader stops early: what waits for a retry must not outlive the stream.
            call.given_up.set()

    def _submit(
        self,
        window: _Window[K],
        texts: list[str],
        first: int,
        server: ServerInfo,
        call: _Call,
        finished: queue.SimpleQueue[tuple[_Window[K], Future[None]]],
    ) -> int:
        prefix = self._prefix(server)
        inputs = [_encoded(first + offset, text, prefix) for offset, text in enumerate(texts)]
        pool = self._threads(server)

        def run(positions: list[int]) -> None:
            window.vectors[positions] = self._vectors([inputs[position] for position in positions], False, call)

        for positions in _batches(inputs, server):
            window.missing += 1
            future = pool.submit(run, positions)
            future.add_done_callback(lambda done: finished.put((window, done)))
        return window.missing

    def _embed_within(self, texts: Sequence[str], timeout: float) -> NDArray[np.float32]:
        """Embeds under a deadline that holds whatever the server, the resolver or a proxy does."""
        call = _Call(deadline=time.monotonic() + timeout)
        outcome: Future[NDArray[np.float32]] = Future()

        def run() -> None:
            try:
                outcome.set_result(self._embed_now(texts, call))
            except BaseException as error:
                outcome.set_exception(error)

        # A thread of its own: one that hangs in a name lookup must not hold a worker, nor the end of the process.
        threading.Thread(target=run, name="tei-deadline", daemon=True).start()
        try:
            return outcome.result(timeout)
        except (FutureTimeout, EmbedderUnavailable) as error:
            # At the deadline the wait here and the exchange itself end: whichever is first, it is the same failure.
            if (
                isinstance(error, EmbedderUnavailable)
                and call.deadline is not None
                and time.monotonic() < call.deadline
            ):
                raise
            raise self._unavailable(f"did not answer within {timeout:.3g} s") from None
        finally:
            call.given_up.set()

    def _embed_now(self, texts: Sequence[str], call: _Call) -> NDArray[np.float32]:
        import numpy as np

        server = self._known_server(call)
        prefix = self._prefix(server)
        inputs = [_encoded(index, text, prefix) for index, text in enumerate(texts)]
        vectors = np.empty((len(texts), server.identity.dimension), np.float32)
        for positions in _batches(inputs, server):
            vectors[positions] = self._vectors([inputs[position] for position in positions], False, call)
        return vectors

    def _workers(self, server: ServerInfo) -> int:
        return max(1, min(MAX_CONNECTIONS, server.permits // server.batch.inputs))

    def _threads(self, server: ServerInfo) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._workers(server), thread_name_prefix="tei")
            return self._pool

    # -- one batch -------------------------------------------------------------------------------------------------

    def _vectors(self, inputs: list[_Input], truncate: bool, call: _Call) -> NDArray[np.float32]:
        """Returns the vectors of one batch, in order, whatever has to be tried again, halved or cut for it."""
        import numpy as np

        room = _ANSWER_ROOM + len(inputs) * self.identity.dimension * _BYTES_PER_NUMBER
        body = _request_body(inputs, truncate)
        for attempt in count(1):
            answer = self._request("/embed", body, self._work, call, room, len(inputs))
            if answer.status != 200:
                break
            try:
                return self._checked_vectors(answer, inputs)
            except InvalidVector as error:
                # One broken answer says nothing about the texts; the same one again does.
                if call.patient and attempt < BLAME:
                    call.given_up.wait(self._work.pause(attempt, 0.0))
                elif call.refused is None:
                    raise
                elif len(inputs) == 1:
                    return self._left_out(error, inputs[0], call)
                else:
                    parts = _halves(inputs, truncate)
                    return np.concatenate([self._vectors(part, cut, call) for part, cut in parts])
        if answer.status in _REFUSALS or 300 <= answer.status < 400:
            raise self._refused(answer, [])
        parts = self._smaller_batches(inputs, truncate, answer, call)
        if not parts:
            return self._left_out(self._refused(answer, inputs), inputs[0], call)
        return np.concatenate([self._vectors(part, cut, call) for part, cut in parts])

    def _left_out(self, error: EmbeddingError, item: _Input, call: _Call) -> NDArray[np.float32]:
        """Notes that one text has no vector, and returns a row for it that is never used; or raises."""
        import numpy as np

        if call.refused is None:
            raise error
        call.refused[item.index] = error
        return np.zeros((1, self.identity.dimension), np.float32)

    def _smaller_batches(
        self, inputs: list[_Input], truncate: bool, answer: HttpAnswer, call: _Call
    ) -> list[tuple[list[_Input], bool]]:
        """Returns what to send instead of a batch that failed, each with its `truncate`; nothing for a lost cause."""
        if _is_too_long(answer) and not truncate:
            long = [True] if len(inputs) == 1 else self._too_long(inputs, call)
            if any(long):
                self._count_truncated(sum(long))
                pairs = groupby(zip(inputs, long, strict=True), key=itemgetter(1))
                return [([item for item, _ in run], cut) for cut, run in pairs]
        return [] if len(inputs) == 1 else _halves(inputs, truncate)

    def _too_long(self, inputs: list[_Input], call: _Call) -> list[bool]:
        """Asks the server's tokenizer which texts the model would not read whole; empty where it does not say."""
        body = b'{"inputs":[' + b",".join(item.data for item in inputs) + b"]}"
        answer = self._request("/tokenize", body, self._work, call, _ANSWER_ROOM + _BYTES_PER_TOKEN * len(body))
        tokens = answer.json() if answer.status == 200 else None
        if not isinstance(tokens, list) or len(tokens) != len(inputs):
            return []
        return [isinstance(row, list) and len(row) > self.identity.max_tokens for row in tokens]

    def _request(
        self, path: str, body: bytes | None, backoff: Backoff, call: _Call, room: int, inputs: int = 0
    ) -> HttpAnswer:
        """Exchanges until there is an answer that another try would not change."""
        for attempt in count(1):
            if call.given_up.is_set():
                raise self._unavailable("is no longer asked: the call was given up")
            lost, retry_after, answer = False, 0.0, None
            try:
                answer = self._exchange(path, body, call, room, inputs)
                blamed = answer.status == 424 and inputs == 1 and attempt < BLAME and call.patient
                if not (blamed or answer.status in _TRANSIENT or _is_broken(answer)):
                    return answer
                said = "something that is not JSON" if answer.status == 200 else answer.message
                problem, retry_after = f"answered {answer.status} {said}".strip(), answer.retry_after
            except NoAnswer as error:
                problem, lost = f"gave no answer: {error}", error.lost
            if not call.patient:
                # A kept connection that was closed meanwhile says nothing about the server: that one try is free.
                if lost and attempt == 1:
                    continue
                raise self._unavailable(problem)
            if self._is_to_blame(answer, inputs, attempt, call):
                return answer or HttpAnswer(_NO_ANSWER, problem.encode())
            if attempt >= backoff.attempts:
                raise self._unavailable(problem, attempt)
            call.given_up.wait(backoff.pause(attempt, retry_after))
        raise AssertionError("unreachable")

    def _is_to_blame(self, answer: HttpAnswer | None, inputs: int, attempt: int, call: _Call) -> bool:
        """Whether it is these texts that a service cannot deal with: it fails them each time and embeds another one."""
        if not inputs or call.refused is None or attempt < BLAME or (answer and answer.status in _BUSY):
            return False
        probe = _request_body([_encoded(0, "dimension")], truncate=True)
        try:
            return self._exchange("/embed", probe, call, _ANSWER_ROOM, 1).status == 200
        except NoAnswer:
            return False

    def _exchange(self, path: str, body: bytes | None, call: _Call, room: int, inputs: int) -> HttpAnswer:
        seconds = HANDSHAKE_SECONDS if path == "/info" else self._request_seconds
        if body is None:
            return self._service.get(path, timeout=call.seconds(seconds), limit=room)
        permits = self._permits
        if permits is None or not inputs:
            return self._service.post(path, body, timeout=call.seconds(seconds), limit=room)
        with permits.taken(inputs, call.seconds(seconds)):
            return self._service.post(path, body, timeout=call.seconds(seconds), limit=room)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _checked_vectors(self, answer: HttpAnswer, inputs: list[_Input]) -> NDArray[np.float32]:
        vectors = self._array(answer)
        expected = (len(inputs), self.identity.dimension)
        if vectors.shape != expected:
            raise self._invalid(f"answered an array of shape {vectors.shape} where {expected} was asked for")
        self._check_values(vectors, inputs)
        return vectors

    def _array(self, answer: HttpAnswer) -> NDArray[np.float32]:
        import numpy as np

        try:
            with np.errstate(over="ignore"):
                return np.array(answer.json(), np.float32)
        except (TypeError, ValueError) as error:
            raise self._invalid("answered something that is not an array of numbers") from error

    def _check_values(self, vectors: NDArray[np.float32], inputs: list[_Input]) -> None:
        import numpy as np

        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
            # NaN is not within any tolerance, so this one comparison finds it as well.
            wrong = ~(np.abs(lengths - 1) <= LENGTH_TOLERANCE)
        if not wrong.any():
            return
        position = int(wrong.argmax())
        item = inputs[position]
        finite = bool(np.isfinite(vectors[position]).all())
        kind = f"has length {lengths[position]:.4g} instead of 1" if finite else "holds NaN or infinity"
        raise self._invalid(
            f"answered a vector that {kind} for the text at index {item.index}",
            index=item.index,
            sha256=text_digest(item.text),
        )

    def _count_truncated(self, texts: int) -> None:
        with self._lock:
            self._truncated += texts

    # -- errors ----------------------------------------------------------------------------------------------------

    def _unavailable(self, problem: str, attempts: int = 1) -> EmbedderUnavailable:
        tries = f" ({attempts} tries)" if attempts > 1 else ""
        return EmbedderUnavailable(f"{self._service.shown_url} {problem}{tries}", remedy=_REMEDY_UNAVAILABLE)

    def _invalid(self, problem: str, **fields: Any) -> InvalidVector:
        return InvalidVector(
            f"{self._service.shown_url} {problem}",
            remedy="Check the model and the dtype of the service (float16 overflows on some models)",
            **fields,
        )

    def _refused(self, answer: HttpAnswer, inputs: list[_Input]) -> EmbeddingError:
        said = f"{answer.status} {answer.message}".strip()
        url = self._service.shown_url
        if inputs:
            item = inputs[0]
            digest = text_digest(item.text)
            return EmbedderRefused(
                f"{url} refuses the text at index {item.index} (sha256 {digest[:16]}, {len(item.text):,} characters): "
                f"{said}",
                remedy="Leave this text out or shorten it; all others are accepted",
                index=item.index,
                sha256=digest,
                status=answer.status,
            )
        if 300 <= answer.status < 400:
            remedy = "Set EMBEDDINGS_URL to the address that it redirects to: redirects are not followed"
        else:
            remedy = _REFUSALS.get(answer.status, "Check the service at EMBEDDINGS_URL and its log")
        return EmbedderRefused(f"{url} refuses to embed: {said}", remedy=remedy, status=answer.status)


class _Permits:
    """Inputs in flight, over all threads of a client."""

    def __init__(self, permits: int) -> None:
        self._free = permits
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, inputs: int, seconds: float) -> Iterator[None]:
        """Waits for permits, and gives them back at the end of the ``with`` block.

        Raises:
            NoAnswer: They did not come free in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._free >= inputs, seconds):
                raise NoAnswer("every permit is in use", lost=False)
            self._free -= inputs
        try:
            yield
        finally:
            with self._changed:
                self._free += inputs
                self._changed.notify_all()


def _encoded(index: int, text: str, prefix: str = "") -> _Input:
    # ensure_ascii=False: an escaped letter is six bytes. A lone surrogate has no UTF-8 form: it becomes a "?".
    return _Input(index, text, json.dumps(prefix + text, ensure_ascii=False).encode("utf-8", "replace"))


def _request_body(inputs: list[_Input], truncate: bool) -> bytes:
    flag = b"true" if truncate else b"false"
    texts = b",".join(item.data for item in inputs)
    return b'{"inputs":[' + texts + b'],"normalize":true,"truncate":' + flag + b"}"


def _batches(inputs: list[_Input], server: ServerInfo) -> Iterator[list[int]]:
    # A token holds at least one byte, so bytes bound tokens, and the model reads no more than its maximum. Counting
    # exactly would cost more than everything else that the client does, for a limit that is rarely the tightest.
    sizes = [len(item.data) + 1 for item in inputs]
    most = server.identity.max_tokens
    return plan_batches([min(most, size) for size in sizes], server.batch, sizes)


def _halves(inputs: list[_Input], truncate: bool) -> list[tuple[list[_Input], bool]]:
    middle = len(inputs) // 2
    return [(inputs[:middle], truncate), (inputs[middle:], truncate)]


def _without_refused(
    window: _Window[K], call: _Call, refused: Callable[[K, EmbeddingError], None] | None
) -> tuple[list[K], NDArray[np.float32]]:
    """Returns keys and vectors of a window, having told of the texts that have none."""
    if not call.refused or refused is None:
        return window.keys, window.vectors
    kept = []
    for position, key in enumerate(window.keys):
        error = call.refused.pop(window.first + position, None)
        if error is None:
            kept.append(position)
        else:
            refused(key, error)
    return [window.keys[position] for position in kept], window.vectors[kept]


def _is_too_long(answer: HttpAnswer) -> bool:
    """Whether an answer says that an input has more tokens than the model reads (413 in TEI 1.8, 422 in 1.9)."""
    return answer.status in (413, 422) and "tokens" in answer.message


def _is_broken(answer: HttpAnswer) -> bool:
    """Whether an answer claims success and is not JSON: cut on its way, or the page of a proxy."""
    return answer.status == 200 and answer.json() is None


def _number(info: dict[str, Any], name: str, default: int) -> int:
    value = info.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


def _pooling(info: dict[str, Any]) -> str:
    kind = info.get("model_type")
    embedding = kind.get("embedding") if isinstance(kind, dict) else None
    return str(embedding.get("pooling") or "") if isinstance(embedding, dict) else ""


def _reported_identity(info: dict[str, Any], dimension: int) -> ModelIdentity:
    return ModelIdentity(
        model=info["model_id"],
        revision=str(info.get("model_sha") or ""),
        dimension=dimension,
        max_tokens=_number(info, "max_input_length", 512),
        dtype=str(info.get("model_dtype") or ""),
        pooling=_pooling(info),
    )


def _server_info(info: dict[str, Any], identity: ModelIdentity) -> ServerInfo:
    permits = _number(info, "max_concurrent_requests", 512)
    inputs = min(MAX_BATCH_INPUTS, _number(info, "max_client_batch_size", MAX_BATCH_INPUTS), permits)
    tokens = _number(info, "max_batch_tokens", 16_384)
    limits = BatchLimits(inputs, tokens, MAX_BODY_BYTES)
    return ServerInfo(identity, str(info.get("version") or ""), permits, limits)
