"""What the `embed` step does: the texts of one shard in, their vectors out, in memory that does not grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.artifacts import read_jsonl, write_vectors
from kubeflow_corpus.embedding.batching import windows
from kubeflow_corpus.embedding.cache import VectorCache
from kubeflow_corpus.embedding.embedder import StreamingEmbedder, text_digest
from kubeflow_corpus.errors import ArtifactError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Batches = Iterator[tuple[list[str], "NDArray[np.float32]"]]

# Texts that are looked up in the cache together.
_LOOKUP: Final = 512


@dataclass(frozen=True, slots=True)
class ShardReport:
    """What embedding a shard took.

    Attributes:
        vectors: Vectors written: one for each distinct text.
        embedded: How many of them the model made.
        cached: How many came from the cache.
        truncated: Texts that the model did not read whole.
        seconds: How long it took.
    """

    vectors: int
    embedded: int
    cached: int
    truncated: int
    seconds: float

    @property
    def rate(self) -> float:
        """Texts embedded per second."""
        return self.embedded / self.seconds if self.seconds else 0.0

    def counts(self) -> dict[str, int]:
        """Returns the counts by name, for the metadata of an artifact."""
        return {name: getattr(self, name) for name in ("vectors", "embedded", "cached", "truncated")}


def embed_shard(
    shard: Path,
    target: Path,
    embedder: StreamingEmbedder,
    *,
    cache: VectorCache | None = None,
    progress: Callable[[int], None] | None = None,
) -> ShardReport:
    """Writes the vectors of the texts of one shard as Parquet.

    Args:
        shard: JSONL.zst of rows with ``embedding_hash`` and ``embedding_text``. A text may appear twice.
        target: The Parquet file.
        embedder: The model.
        cache: Vectors of earlier runs of the same model.
        progress: Called with the number of vectors written so far.

    Raises:
        ArtifactError: The shard is damaged, or a hash is not that of its text.
        EmbeddingError: A text could not be embedded; it names the ``embedding_hash``.
    """
    started, before = time.monotonic(), embedder.truncated
    dimension = embedder.identity.dimension
    tally = {"embedded": 0, "cached": 0}

    def counted() -> Batches:
        done = 0
        for hashes, vectors in _batches(_texts(shard, read_jsonl(shard)), embedder, cache, tally):
            yield hashes, vectors
            done += len(hashes)
            if progress is not None:
                progress(done)

    written = write_vectors(target, counted(), dimension)
    check = getattr(embedder, "check_unchanged", None)
    if check is not None:
        check()
    return ShardReport(
        written, tally["embedded"], tally["cached"], embedder.truncated - before, time.monotonic() - started
    )


def _texts(shard: Path, rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yields each text once, with its hash."""
    seen: set[bytes] = set()
    for number, row in enumerate(rows, 1):
        name, text = row.get("embedding_hash"), row.get("embedding_text")
        if not isinstance(name, str) or not isinstance(text, str) or text_digest(text) != name:
            raise ArtifactError(
                f"{shard} is damaged: row {number} does not hold a text and its hash",
                remedy="Run the step that wrote it again",
                path=str(shard),
            )
        key = bytes.fromhex(name)
        if key not in seen:
            seen.add(key)
            yield name, text


def _batches(
    texts: Iterator[tuple[str, str]], embedder: StreamingEmbedder, cache: VectorCache | None, tally: dict[str, int]
) -> Batches:
    if cache is None:
        for hashes, vectors in embedder.embed_stream(texts):
            tally["embedded"] += len(hashes)
            yield hashes, vectors
        return
    for window in windows(texts, _LOOKUP):
        yield from _with_cache(window, embedder, cache, tally)


def _with_cache(
    window: list[tuple[str, str]], embedder: StreamingEmbedder, cache: VectorCache, tally: dict[str, int]
) -> Batches:
    import numpy as np

    found = cache.find([name for name, _ in window])
    if found:
        tally["cached"] += len(found)
        yield list(found), np.stack(list(found.values()))
    missing = [(name, text) for name, text in window if name not in found]
    for hashes, vectors in embedder.embed_stream(missing):
        # Kept before they are passed on: a killed run finds them at its next start.
        cache.keep(hashes, vectors)
        tally["embedded"] += len(hashes)
        yield hashes, vectors
