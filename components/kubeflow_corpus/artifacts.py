"""Files between two steps: documents and chunks as JSONL.zst, vectors as Parquet. All of them are read as streams."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.errors import ArtifactError
from kubeflow_corpus.records import Chunk, Document

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LEVEL: Final = 3
_VECTOR_ROWS_PER_GROUP: Final = 1024
_END: Final = "$rows"


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Writes rows as compressed JSON lines, replacing what a failed try left there.

    The last line holds the number of rows: a compressed stream that was cut ends without an error of its own.

    Returns:
        The number of rows written.
    """
    import zstandard

    count = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, zstandard.ZstdCompressor(level=_LEVEL).stream_writer(raw) as stream:
        for row in rows:
            stream.write(_line(row))
            count += 1
        stream.write(_line({_END: count}))
    return count


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Streams the rows that `write_jsonl` wrote.

    Raises:
        ArtifactError: The file is missing, cut or not JSON lines.
    """
    import zstandard

    count = 0
    try:
        with path.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw) as stream:
            for text in io.TextIOWrapper(stream, "utf-8", errors="surrogatepass"):
                row = json.loads(text)
                if row.get(_END) == count:
                    return
                count += 1
                yield row
    except (OSError, ValueError, zstandard.ZstdError) as error:
        raise _damaged(path, f"{error} after row {count}") from error
    raise _damaged(path, f"cut after row {count}")


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _damaged(path: Path, how: str) -> ArtifactError:
    return ArtifactError(f"{path} is damaged: {how}", remedy="Run the step that wrote it again", path=str(path))


def read_documents(path: Path) -> Iterator[Document]:
    """Streams documents."""
    return (Document.from_dict(row) for row in read_jsonl(path))


def read_chunks(path: Path) -> Iterator[Chunk]:
    """Streams chunks."""
    return (Chunk.from_dict(row) for row in read_jsonl(path))


def write_vectors(path: Path, batches: Iterable[tuple[list[str], NDArray[np.float32]]], dimension: int) -> int:
    """Writes vectors with their embedding hashes, a row group a batch.

    Args:
        path: The Parquet file.
        batches: Pairs of n hashes and an array of shape (n, dimension).
        dimension: Length of each vector.

    Returns:
        The number of vectors written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    vector_type = pa.list_(pa.float32(), dimension)
    schema = pa.schema([("embedding_hash", pa.string()), ("vector", vector_type)])
    count = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    # Random floats do not compress: asking for it costs time and wins nothing.
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for hashes, vectors in batches:
            flat = pa.array(vectors.reshape(-1), type=pa.float32())
            column = pa.FixedSizeListArray.from_arrays(flat, type=vector_type)
            writer.write_batch(pa.record_batch([pa.array(hashes, pa.string()), column], schema=schema))
            count += len(hashes)
    return count


def read_vectors(path: Path) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
    """Streams the batches that `write_vectors` wrote.

    Yields:
        Pairs of n hashes and an array of shape (n, dimension).

    Raises:
        ArtifactError: The file is missing or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_VECTOR_ROWS_PER_GROUP):
                column = batch.column("vector")
                vectors = column.flatten().to_numpy(zero_copy_only=True).reshape(-1, column.type.list_size)
                yield batch.column("embedding_hash").to_pylist(), vectors
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, str(error)) from error
