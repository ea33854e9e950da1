"""What every embedder is: a model with a name, and texts to unit vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which model made a vector. Vectors of two identities never meet.

    Attributes:
        model: Name such as ``sentence-transformers/all-MiniLM-L6-v2``.
        revision: Commit or digest of the weights; empty where a service does not say.
        dimension: Length of the vectors.
        max_tokens: Tokens that the model reads, special tokens included.
    """

    model: str
    revision: str
    dimension: int
    max_tokens: int


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
        """Gives connections and memory back."""
        ...
