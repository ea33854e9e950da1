"""Files between two steps: documents and chunks as JSONL.zst, vectors as Parquet. All of them are read as streams."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kubeflow_corpus.errors import ArtifactError, InvalidVector
from kubeflow_corpus.records import Chunk, Document

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

R = TypeVar("R")

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
                if not isinstance(row, dict):
                    raise ValueError("a line is not an object")
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
    """Streams documents.

    Raises:
        ArtifactError: The file is damaged, or another release of this package wrote it.
    """
    return _records(path, Document.from_dict)


def read_chunks(path: Path) -> Iterator[Chunk]:
    """Streams chunks.

    Raises:
        ArtifactError: The file is damaged, or another release of this package wrote it.
    """
    return _records(path, Chunk.from_dict)


def _records(path: Path, read: Callable[[dict[str, Any]], R]) -> Iterator[R]:
    for row in read_jsonl(path):
        try:
            yield read(row)
        except (AttributeError, KeyError, TypeError) as error:
            raise _damaged(path, f"a row has other fields than this release writes ({error})") from error


def write_vectors(path: Path, batches: Iterable[tuple[list[str], NDArray[np.float32]]], dimension: int) -> int:
    """Writes vectors with their embedding hashes, a row group a batch.

    Args:
        path: The Parquet file.
        batches: Pairs of n hashes and an array of shape (n, dimension).
        dimension: Length of each vector.

    Returns:
        The number of vectors written.

    Raises:
        InvalidVector: A batch has another shape.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    vector_type = pa.list_(pa.float32(), dimension)
    schema = pa.schema([("embedding_hash", pa.string()), ("vector", vector_type)])
    count = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    # Random floats do not compress: asking for it costs time and wins nothing.
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False, write_page_checksum=True) as writer:
        for hashes, vectors in batches:
            if vectors.shape != (len(hashes), dimension):
                raise InvalidVector(f"{len(hashes)} vectors of dimension {dimension} have the shape {vectors.shape}")
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
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(batch_size=_VECTOR_ROWS_PER_GROUP):
                column = batch.column("vector")
                vectors = column.flatten().to_numpy(zero_copy_only=True).reshape(-1, column.type.list_size)
                yield batch.column("embedding_hash").to_pylist(), vectors
    except (OSError, KeyError, AttributeError, pa.ArrowException) as error:
        raise _damaged(path, str(error)) from error
