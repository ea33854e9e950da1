"""The interface of embedders: a model with a name that turns texts into unit vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from kubeflow_corpus.errors import EmbedderRefused, EmbeddingError
from kubeflow_corpus.model import ModelIdentity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K = TypeVar("K")


class Embedder(Protocol):
    """Texts to dense unit vectors of one model."""

    @property
    def identity(self) -> ModelIdentity:
        """The model; a service is asked for it on first use."""
        ...

    def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> NDArray[np.float32]:
        """Embeds texts, in order.

        Args:
            texts: Non-empty texts.
            timeout: Seconds for the whole call; None waits as long as retries allow.

        Returns:
            Array of shape (len(texts), dimension), rows of length 1.

        Raises:
            EmbeddingError: The texts could not be embedded.
        """
        ...

    def close(self) -> None:
        """Frees connections and memory."""
        ...


class StreamingEmbedder(Embedder, Protocol):
    """An embedder for whole corpora: memory does not grow with the number of texts."""

    @property
    def truncated(self) -> int:
        """How many texts were longer than the model reads, since this embedder was made."""
        ...

    def embed_stream(
        self, items: Iterable[tuple[K, str]], refused: Callable[[K, EmbeddingError], None] | None = None
    ) -> Iterator[tuple[list[K], NDArray[np.float32]]]:
        """Embeds a stream of texts.

        Args:
            items: Pairs of anything and a non-empty text. Read only as far ahead as keeps the model busy.
            refused: Told of each text that the model fails while it embeds others; such texts are left out. None
                raises for the first.

        Yields:
            Pairs of n keys and an array of shape (n, dimension), in the order of `items`.

        Raises:
            EmbeddingError: A text could not be embedded; `fields` has its ``index`` in the stream and its ``sha256``.
        """
        ...


def check_texts(texts: Sequence[str], first: int = 0) -> None:
    """Refuses a text without words: its vector would mean nothing, and a service fails the whole batch for it.

    Args:
        texts: The texts.
        first: Index of the first one in the caller's stream.

    Raises:
        EmbedderRefused: A text is empty or white space.
    """
    for index, text in enumerate(texts, first):
        if not text.strip():
            raise EmbedderRefused(
                f"The text at index {index} is empty",
                remedy="Embed texts that have at least one word",
                index=index,
                sha256=text_digest(text),
            )


def text_digest(text: str) -> str:
    """Returns the sha256 of a text: how an error names it without showing it. Equal to `Chunk.embedding_hash`."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
