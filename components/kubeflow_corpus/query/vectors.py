"""Vectors of questions: the embedder made at first use, a small cache, and a short memory of its failures."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kubeflow_corpus.embedding.embedder import Embedder
from kubeflow_corpus.errors import EmbedderUnavailable
from kubeflow_corpus.model import ModelIdentity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CACHED_VECTORS: Final = 512
# How long a failing service is left alone: the searches in between answer at once.
FAILURE_SECONDS: Final = 1.0


class QueryVectors:
    """Embeds questions. Safe for many threads.

    Args:
        make: Makes the embedder.
        clock: Monotonic seconds, for tests.
    """

    def __init__(self, make: Callable[[], Embedder], clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self._embedder: Embedder | None = None
        self._cache: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self._failure: tuple[float, EmbedderUnavailable] | None = None

    def embedder(self) -> Embedder:
        """Returns the embedder.

        Raises:
            EmbedderMissing: No service is configured and the embedded model is not installed.
        """
        with self._making:
            if self._embedder is None:
                self._embedder = self._make()
            return self._embedder

    def identity(self) -> ModelIdentity:
        """Returns the model; a service is asked for it on first use.

        Raises:
            EmbeddingError: It does not say.
        """
        self._refuse_early()
        try:
            return self.embedder().identity
        except EmbedderUnavailable as error:
            self._failure = (self._clock() + FAILURE_SECONDS, error)
            raise

    def embed(self, texts: Sequence[str], timeout: float) -> list[NDArray[np.float32]]:
        """Returns the vector of each text.

        Raises:
            EmbeddingError: The texts could not be embedded in time.
        """
        with self._lock:
            known = {text: self._cache[text] for text in texts if text in self._cache}
            for text in known:
                self._cache.move_to_end(text)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            self._refuse_early()
            try:
                vectors = self.embedder().embed(missing, timeout=timeout)
            except EmbedderUnavailable as error:
                self._failure = (self._clock() + FAILURE_SECONDS, error)
                raise
            known |= dict(zip(missing, vectors, strict=True))
            self._remember({text: known[text] for text in missing})
        return [known[text] for text in texts]

    def close(self) -> None:
        """Closes the embedder, where it was made here."""
        with self._making:
            embedder, self._embedder = self._embedder, None
        if embedder is not None:
            embedder.close()

    def _remember(self, vectors: dict[str, NDArray[np.float32]]) -> None:
        with self._lock:
            self._cache.update(vectors)
            while len(self._cache) > CACHED_VECTORS:
                self._cache.popitem(last=False)

    def _refuse_early(self) -> None:
        failure = self._failure
        if failure is not None and failure[0] > self._clock():
            raise failure[1]
