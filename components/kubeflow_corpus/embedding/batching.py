"""Groups texts into batches: neighbours in length, so that little is padded, within every limit of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What one batch may hold.

    Attributes:
        inputs: Texts.
        tokens: Tokens after padding: the longest text of the batch times the number of texts.
        bytes: Bytes of the texts as they travel.
    """

    inputs: int
    tokens: int
    bytes: int


def plan_batches(tokens: Sequence[int], limits: BatchLimits, sizes: Sequence[int] | None = None) -> Iterator[list[int]]:
    """Groups texts into batches, the longest texts first: what runs last is then short and leaves no core waiting.

    Args:
        tokens: Tokens of each text, or an upper bound.
        limits: What a batch may hold. A text that breaks them by itself travels alone.
        sizes: Bytes of each text, which then also sort texts of equal tokens; None counts no bytes.

    Yields:
        Lists of positions; each position appears once.
    """
    order = sorted(range(len(tokens)), key=(tokens if sizes is None else sizes).__getitem__, reverse=True)
    order.sort(key=tokens.__getitem__, reverse=True)
    batch: list[int] = []
    longest = used = 0
    for position in order:
        size = sizes[position] if sizes is not None else 0
        full = len(batch) >= limits.inputs or longest * (len(batch) + 1) > limits.tokens or used + size > limits.bytes
        if batch and full:
            yield batch
            batch, used = [], 0
        if not batch:
            longest = tokens[position]
        batch.append(position)
        used += size
    if batch:
        yield batch


def windows(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yields lists of `size` consecutive items; the last may be shorter."""
    iterator = iter(items)
    while window := list(islice(iterator, size)):
        yield window
