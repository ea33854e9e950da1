"""The optional second stage: a cross-encoder behind text-embeddings-inference's ``/rerank``.

Whatever goes wrong here costs the second stage and never the answer: a search then keeps its fused order and its trace
says why.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from kubeflow_corpus.errors import EmbedderRefused, EmbedderUnavailable
from kubeflow_corpus.settings import Secret, Settings

if TYPE_CHECKING:
    from kubeflow_corpus.embedding.service import HttpAnswer, HttpService

# A reranker reads a few hundred tokens of a text; the rest of a long one is not sent.
MAX_CHARACTERS: Final = 4_000
# TEI's own default of texts in one request; a service that takes fewer says so, and gets halves.
MAX_BATCH_TEXTS: Final = 32
# How long a failing service is left alone: the searches in between keep their fused order at once.
FAILURE_SECONDS: Final = 1.0
_CONNECTIONS: Final = 8
# An answer is an index and a number for each text.
_MOST_ANSWER_BYTES: Final = 1 << 20
_TOO_MANY: Final = frozenset({413, 422})
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_REMEDY: Final = "Check RERANK_URL, or unset it"
_REMEDIES: Final = {
    401: "Set RERANK_API_KEY to the key of the service",
    403: "Set RERANK_API_KEY to a key that may rerank",
    404: "Set RERANK_URL to the base URL of a text-embeddings-inference service",
}


class Reranker:
    """Scores texts against a question through TEI. Safe for many threads; connects at the first question.

    Args:
        url: Base address of the service.
        api_key: Bearer token; empty sends none.
        clock: Monotonic seconds, for tests.
    """

    def __init__(
        self,
        url: str,
        api_key: Secret = Secret(""),  # noqa: B008 - a frozen empty value
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._api_key = api_key
        self._clock = clock
        self._lock = threading.Lock()
        self._service: HttpService | None = None
        self._failure: tuple[float, EmbedderUnavailable] | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Reranker | None:
        """Returns the reranker of ``RERANK_URL``, or None if it is unset.

        Its token is ``RERANK_API_KEY``; that of the embedding service only where both run on one host.
        """
        if not settings.rerank_url:
            return None
        same_host = urlsplit(settings.rerank_url).hostname == urlsplit(settings.embeddings_url).hostname
        return cls(
            settings.rerank_url,
            settings.rerank_api_key or (settings.embeddings_api_key if same_host else Secret("")),
        )

    def scores(self, query: str, texts: Sequence[str], timeout: float) -> list[float]:
        """Returns the score of each text, in order.

        Args:
            query: The question.
            texts: At least one text.
            timeout: Seconds, whatever the service, the resolver or a proxy does.

        Raises:
            EmbedderUnavailable: The service does not answer in time, or did not a moment ago.
            EmbedderRefused: It does not take the request, or answers nonsense.
        """
        failure = self._failure
        if failure is not None and failure[0] > self._clock():
            raise failure[1]
        from kubeflow_corpus.embedding.service import NoAnswer

        outcome: Future[list[float]] = Future()
        deadline = time.monotonic() + timeout

        def run() -> None:
            try:
                outcome.set_result(self._scores(query, texts, deadline))
            except BaseException as error:
                outcome.set_exception(error)

        # A thread of its own: a slow answer or a name lookup that hangs must not delay the search.
        threading.Thread(target=run, name="rerank-deadline", daemon=True).start()
        try:
            return outcome.result(timeout)
        except (FutureTimeout, NoAnswer) as error:
            # At the deadline the wait here and the exchange itself end: whichever is first, it is the same failure.
            if isinstance(error, FutureTimeout) or time.monotonic() >= deadline:
                raise self._unavailable(f"did not answer within {timeout:.3g} s") from None
            raise self._unavailable(f"gave no answer: {error}") from error

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            service, self._service = self._service, None
        if service is not None:
            service.close()

    def _scores(self, query: str, texts: Sequence[str], deadline: float) -> list[float]:
        scores: list[float] = []
        most = MAX_BATCH_TEXTS
        while len(scores) < len(texts):
            batch = [text[:MAX_CHARACTERS].strip() or "-" for text in texts[len(scores) : len(scores) + most]]
            answer = self._exchange(query, batch, deadline)
            if answer.status in _TOO_MANY and len(batch) > 1:
                most = len(batch) // 2
                continue
            if answer.status != 200:
                raise self._refused(answer)
            scores += self._check_scores(answer.json(), len(batch))
        return scores

    def _exchange(self, query: str, batch: list[str], deadline: float) -> HttpAnswer:
        from kubeflow_corpus.embedding.service import NoAnswer

        data = {"query": query, "texts": batch, "truncate": True, "raw_scores": False, "return_text": False}
        body = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")
        service = self._connection()
        for last in (False, True):
            try:
                seconds = max(0.001, deadline - time.monotonic())
                return service.post("/rerank", body, timeout=seconds, limit=_MOST_ANSWER_BYTES)
            except NoAnswer as error:
                # A pooled connection may be closed by now, which is not a failure of the service: try once more.
                if last or not error.lost:
                    raise
        raise AssertionError("unreachable")

    def _connection(self) -> HttpService:
        from kubeflow_corpus.embedding.service import HttpService

        with self._lock:
            if self._service is None:
                self._service = HttpService(self._url, api_key=self._api_key, connections=_CONNECTIONS)
            return self._service

    def _check_scores(self, answer: Any, texts: int) -> list[float]:
        """Returns the scores of one answer in order of the texts, each given exactly once and a number."""
        if not isinstance(answer, list) or len(answer) != texts:
            raise self._nonsense(f"something else than the scores of {texts} texts")
        scores = [math.nan] * texts
        for item in answer:
            index, score = (item.get("index"), item.get("score")) if isinstance(item, dict) else (None, None)
            if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < texts:
                raise self._nonsense(f"the index {index!r:.40} for {texts} texts")
            if not isinstance(score, (int, float)) or isinstance(score, bool) or not math.isfinite(score):
                raise self._nonsense(f"a score that is not a number for the text at index {index}")
            scores[index] = float(score)
        if any(map(math.isnan, scores)):
            raise self._nonsense(f"two scores for one of {texts} texts, and none for another")
        return scores

    # ---- errors

    @property
    def _name(self) -> str:
        # What stands before an @ may be a password.
        return f"The reranker at {self._url.rpartition('@')[2]}"

    def _unavailable(self, problem: str) -> EmbedderUnavailable:
        error = EmbedderUnavailable(f"{self._name} {problem}", remedy=_REMEDY)
        self._failure = (self._clock() + FAILURE_SECONDS, error)
        return error

    def _refused(self, answer: HttpAnswer) -> EmbedderUnavailable | EmbedderRefused:
        outcome = f"answered {answer.status} {answer.message}".strip()
        if answer.status in _BUSY:
            return self._unavailable(outcome)
        remedy = _REMEDIES.get(answer.status, "Check that RERANK_URL serves a reranker model")
        return EmbedderRefused(f"{self._name} {outcome}", remedy=remedy, status=answer.status)

    def _nonsense(self, problem: str) -> EmbedderRefused:
        return EmbedderRefused(
            f"{self._name} answered {problem}", remedy="Check that RERANK_URL serves a reranker model"
        )
