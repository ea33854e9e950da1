"""Files between two steps: what was written reads back, as a stream, and damage is reported and never passed on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kubeflow_corpus.artifacts import (
    read_chunks,
    read_documents,
    read_jsonl,
    read_vectors,
    write_jsonl,
    write_vectors,
)
from kubeflow_corpus.errors import ArtifactError, InvalidVector
from kubeflow_corpus.records import Document

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()), lambda inner: st.lists(inner, max_size=3)
)
ROWS = st.lists(st.dictionaries(st.text(st.characters(), max_size=8), JSON, max_size=4), max_size=10)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_rows_read_back_whatever_their_texts_hold(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    path = tmp_path / "deep" / "rows.jsonl.zst"
    assert write_jsonl(path, rows) == len(rows)
    assert list(read_jsonl(path)) == rows


def test_reading_starts_before_the_file_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    write_jsonl(path, ({"n": n} for n in range(50_000)))
    rows = read_jsonl(path)
    assert next(rows) == {"n": 0}
    assert sum(1 for _ in rows) == 49_999


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_a_cut_file_is_damaged_and_not_short(tmp_path: Path, share: float) -> None:
    path = tmp_path / "rows.jsonl.zst"
    write_jsonl(path, ({"n": n, "text": f"{n * 7919}"} for n in range(5000)))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ArtifactError, match="damaged") as caught:
        list(read_jsonl(path))
    assert caught.value.fields == {"path": str(path)}


def test_a_writer_that_failed_half_way_leaves_a_file_that_says_so(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, int]]:
        yield {"n": 1}
        raise OSError("the source went away")

    path = tmp_path / "rows.jsonl.zst"
    with pytest.raises(OSError, match="went away"):
        write_jsonl(path, rows())
    with pytest.raises(ArtifactError, match="cut after row 1"):
        list(read_jsonl(path))
    assert write_jsonl(path, [{"n": 2}]) == 1
    assert list(read_jsonl(path)) == [{"n": 2}]


@pytest.mark.parametrize("content", [b"not json\n", b"[1, 2]\n", b"7\n", b'{"a": "\xff"}\n', b""])
def test_what_is_not_a_json_line_is_damage(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.jsonl.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(content))
    with pytest.raises(ArtifactError, match="damaged"):
        list(read_jsonl(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"nowhere\.jsonl\.zst"):
        list(read_jsonl(tmp_path / "nowhere.jsonl.zst"))
    with pytest.raises(ArtifactError, match=r"nowhere\.parquet"):
        list(read_vectors(tmp_path / "nowhere.parquet"))


def test_documents_read_back_and_rows_of_another_release_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl.zst"
    document = Document("s:a", "s", "docs", "o/r", "abc", "a", "https://x", "T", "text\r\n\u2028", {"version": ["1.9"]})
    write_jsonl(path, [document.to_dict()])
    assert list(read_documents(path)) == [document]
    write_jsonl(path, [{**document.to_dict(), "colour": "blue"}])
    with pytest.raises(ArtifactError, match="another|other fields"):
        list(read_documents(path))
    write_jsonl(path, [{"fields": 3}])
    with pytest.raises(ArtifactError, match="other fields"):
        list(read_chunks(path))


def batches(sizes: list[int], dimension: int) -> list[tuple[list[str], np.ndarray]]:
    generator = np.random.default_rng(1)
    return [
        ([f"{number}-{row}" for row in range(size)], generator.standard_normal((size, dimension)).astype(np.float32))
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("sizes", [[], [0], [1], [3, 1, 2500, 7]])
def test_vectors_read_back_bit_for_bit_in_order(tmp_path: Path, sizes: list[int]) -> None:
    path = tmp_path / "deep" / "vectors.parquet"
    written = batches(sizes, 5)
    assert write_vectors(path, iter(written), 5) == sum(sizes)
    read = list(read_vectors(path))
    assert [name for names, _ in read for name in names] == [name for names, _ in written for name in names]
    if sum(sizes):
        assert np.array_equal(np.concatenate([v for _, v in read]), np.concatenate([v for _, v in written]))
    assert all(vectors.dtype == np.float32 for _, vectors in read)


def test_vectors_of_another_shape_are_never_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidVector, match=r"2 vectors of dimension 4 have the shape \(2, 5\)"):
        write_vectors(tmp_path / "vectors.parquet", [(["a", "b"], np.zeros((2, 5), np.float32))], 4)


def test_one_flipped_bit_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "vectors.parquet"
    write_vectors(path, batches([100], 16), 16)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match="damaged"):
        list(read_vectors(path))


def test_a_cut_parquet_file_and_one_of_something_else_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "vectors.parquet"
    write_vectors(path, batches([10], 4), 4)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ArtifactError, match="damaged"):
        list(read_vectors(path))
    pq.write_table(pa.table({"something": [1]}), path)
    with pytest.raises(ArtifactError, match="damaged"):
        list(read_vectors(path))


def test_the_json_of_an_artifact_is_readable_by_any_tool(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    write_jsonl(path, [{"title": "Größe"}])
    text = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read().decode()
    assert [json.loads(line) for line in text.splitlines()] == [{"title": "Größe"}, {"$rows": 1}]
