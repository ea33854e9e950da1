"""What the `embed` step does: the texts of one shard in, their vectors out, in memory that does not grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.artifacts import read_jsonl, write_vectors
from kubeflow_corpus.embedding.batching import windows
from kubeflow_corpus.embedding.cache import VectorCache
from kubeflow_corpus.embedding.embedder import StreamingEmbedder, check_texts, text_digest
from kubeflow_corpus.errors import ArtifactError, EmbedderRefused, EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Refuse = Callable[[str, EmbeddingError], None]
Batches = Iterator[tuple[list[str], "NDArray[np.float32]"]]

# Texts that are looked up in the cache together.
_LOOKUP: Final = 512
# Of one shard. With more it is not the texts that are wrong.
MOST_REFUSED: Final = 100


@dataclass(frozen=True, slots=True)
class ShardReport:
    """What embedding a shard took.

    Attributes:
        vectors: Vectors written: one for each distinct text.
        embedded: How many of them the model made.
        cached: How many came from the cache.
        truncated: Texts that the model did not read whole.
        seconds: How long it took.
        refused: Why texts have no vector, by ``embedding_hash``.
    """

    vectors: int
    embedded: int
    cached: int
    truncated: int
    seconds: float
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Texts embedded per second."""
        return self.embedded / self.seconds if self.seconds else 0.0

    def counts(self) -> dict[str, int]:
        """Returns the counts by name, for the metadata of an artifact."""
        counts = {name: getattr(self, name) for name in ("vectors", "embedded", "cached", "truncated")}
        return {**counts, "refused": len(self.refused)} if self.refused else counts


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
        EmbeddingError: Texts could not be embedded, and too many for the texts to be to blame.
    """
    started, before = time.monotonic(), embedder.truncated
    dimension = embedder.identity.dimension
    tally = {"embedded": 0, "cached": 0}
    refused: dict[str, str] = {}

    def refuse(name: str, error: EmbeddingError) -> None:
        refused[name] = error.problem
        if len(refused) > MOST_REFUSED:
            raise error

    def counted() -> Batches:
        done = 0
        texts = _with_words(_texts(shard, read_jsonl(shard)), refuse)
        for hashes, vectors in _batches(texts, embedder, cache, tally, refuse):
            yield hashes, vectors
            done += len(hashes)
            if progress is not None:
                progress(done)

    written = write_vectors(target, counted(), dimension)
    check = getattr(embedder, "check_unchanged", None)
    if check is not None:
        check()
    return ShardReport(
        written,
        tally["embedded"],
        tally["cached"],
        embedder.truncated - before,
        time.monotonic() - started,
        refused,
    )


def _with_words(texts: Iterator[tuple[str, str]], refuse: Refuse) -> Iterator[tuple[str, str]]:
    for name, text in texts:
        try:
            check_texts([text])
        except EmbedderRefused as error:
            refuse(name, error)
        else:
            yield name, text


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
    texts: Iterator[tuple[str, str]],
    embedder: StreamingEmbedder,
    cache: VectorCache | None,
    tally: dict[str, int],
    refuse: Refuse,
) -> Batches:
    if cache is None:
        for hashes, vectors in embedder.embed_stream(texts, refuse):
            tally["embedded"] += len(hashes)
            yield hashes, vectors
        return
    for window in windows(texts, _LOOKUP):
        yield from _with_cache(window, embedder, cache, tally, refuse)


def _with_cache(
    window: list[tuple[str, str]],
    embedder: StreamingEmbedder,
    cache: VectorCache,
    tally: dict[str, int],
    refuse: Refuse,
) -> Batches:
    import numpy as np

    found = cache.find([name for name, _ in window])
    if found:
        tally["cached"] += len(found)
        yield list(found), np.stack(list(found.values()))
    missing = [(name, text) for name, text in window if name not in found]
    for hashes, vectors in embedder.embed_stream(missing, refuse):
        # Kept before they are passed on: a killed run finds them at its next start.
        cache.keep(hashes, vectors)
        tally["embedded"] += len(hashes)
        yield hashes, vectors
