"""The optional second stage: a cross-encoder behind text-embeddings-inference's ``/rerank``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import requests

from kubeflow_corpus.errors import EmbedderRefused, EmbedderUnavailable

# A reranker reads a few hundred tokens of a text; the rest of a long one is not sent.
MAX_CHARACTERS: Final = 4_000


class Reranker:
    """Scores texts against a question through TEI.

    Args:
        url: Base address of the service.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._session = requests.Session()

    def scores(self, query: str, texts: Sequence[str], timeout: float) -> list[float]:
        """Returns the score of each text, in order.

        Args:
            query: The question.
            texts: At least one text.
            timeout: Seconds.

        Raises:
            EmbedderUnavailable: The service does not answer in time.
            EmbedderRefused: It does not take the request, or answers nonsense.
        """
        body = {"query": query, "texts": [text[:MAX_CHARACTERS] or " " for text in texts], "truncate": True}
        try:
            response = self._session.post(f"{self._url}/rerank", json=body, timeout=timeout)
        except requests.RequestException as error:
            raise EmbedderUnavailable(
                f"The reranker at {self._url} does not answer", remedy="Check RERANK_URL, or unset it"
            ) from error
        if response.status_code != 200:
            raise EmbedderRefused(
                f"The reranker at {self._url} answered {response.status_code}",
                remedy="Check that RERANK_URL serves a reranker model",
                status=response.status_code,
            )
        try:
            found = {int(item["index"]): float(item["score"]) for item in response.json()}
            return [found[index] for index in range(len(texts))]
        except (ValueError, KeyError, TypeError) as error:
            raise EmbedderRefused(
                f"The reranker at {self._url} answered something else than scores",
                remedy="Check that RERANK_URL serves a reranker model",
            ) from error

    def close(self) -> None:
        """Gives the connections back."""
        self._session.close()
