"""Chunks as rows, checked before anything is written; and stored rows, read back as streams."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kubeflow_corpus.collections import KEY_FIELD, CollectionSpec, FieldSpec
from kubeflow_corpus.errors import InvalidRow, InvalidVector
from kubeflow_corpus.milvus import detect_backend, read_with_retry
from kubeflow_corpus.records import Chunk
from kubeflow_corpus.store.schema import CONTROLS, VECTOR_FIELD, keys_filter, strip_controls, text_literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pymilvus import MilvusClient

Item = TypeVar("Item")

# Most hexadecimal digits that name a range of keys: 65,536 ranges.
_MOST_DIGITS: Final = 4
# Rows of one page of a scan: below the server's cap of 16,384, and few megabytes of keys and hashes.
SCAN_PAGE_ROWS: Final = 10_000
# With vectors, which the client hands over as lists of Python floats: some 30 MB of 384 dimensions.
SCAN_PAGE_VECTORS: Final = 2_000
# Keys of one `id in [...]`.
KEYS_PER_FILTER: Final = 500
# The client's iterator pages by `id > "<last key>"` without escaping, so a key may hold nothing that needs it.
_KEY: Final = re.compile(r"[0-9A-Za-z_.-]+")


def to_row(spec: CollectionSpec, chunk: Chunk) -> dict[str, Any]:
    """Returns a chunk as the row of its collection, without its vector.

    Args:
        spec: The collection.
        chunk: A sealed chunk.

    Raises:
        InvalidRow: A field breaks a limit; `fields` has ``id`` and ``field``.
    """
    if chunk.source_type not in spec.source_types:
        expected = " or ".join(spec.source_types)
        raise _invalid(chunk.id, "source_type", f"is {chunk.source_type!r}, {spec.alias} holds {expected}")
    if not _KEY.fullmatch(chunk.id):
        raise _invalid(chunk.id, KEY_FIELD, "is not a key: letters, digits, dots, dashes and underscores")
    getter, common, own = _fields(spec)
    unknown = chunk.fields.keys() - own.keys()
    if unknown:
        raise _invalid(chunk.id, min(unknown), f"is not a field of {spec.alias}")
    values = {
        **dict(zip(common, getter(chunk), strict=True)),
        **{name: chunk.fields.get(name) for name in own},
    }
    return {field.name: _valid_value(field, values[field.name], chunk.id) for field in spec.fields}


@cache
def _fields(spec: CollectionSpec) -> tuple[attrgetter[Any], tuple[str, ...], dict[str, FieldSpec]]:
    own = {field.name: field for field in spec.own_fields}
    common = tuple(field.name for field in spec.fields if field.name not in own)
    return attrgetter(*common), common, own


# `CONTROLS` as UTF-8: none of these bytes is part of another character, and half of a surrogate pair cannot be encoded.
_CONTROL_BYTES: Final = bytes(code for code in range(0x80) if CONTROLS.match(chr(code)))
_EMPTY: Final = {"text": "", "integer": 0, "boolean": False, "array": ()}
_TYPES: Final = {"text": str, "integer": int, "boolean": bool, "array": (tuple, list)}


def _valid_value(field: FieldSpec, value: Any, key: str) -> Any:
    value = _EMPTY[field.kind] if value is None else value
    wrong = not isinstance(value, _TYPES[field.kind]) or (field.kind == "integer" and isinstance(value, bool))  # type: ignore[arg-type]
    if wrong:
        raise _invalid(key, field.name, f"is {type(value).__name__}, not {field.kind}")
    if field.kind == "text":
        return _valid_text(field, value, key)
    if field.kind == "array":
        if len(value) > field.max_items:
            raise _invalid(key, field.name, f"has {len(value)} items, at most {field.max_items} fit")
        if not all(isinstance(item, str) for item in value):
            raise _invalid(key, field.name, "has an item that is not a text")
        return [_valid_text(field, item, key) for item in value]
    if field.kind == "integer" and not -(2**63) <= value < 2**63:
        raise _invalid(key, field.name, "does not fit into 64 bits")
    return value


def _valid_text(field: FieldSpec, text: str, key: str) -> str:
    # Encoded bytes tell both at once, and a look for control bytes is an order faster than one for characters: rows
    # are checked by the hundred thousand, and more than once in a run.
    try:
        data = text.encode()
    except UnicodeEncodeError:
        clean = False
    else:
        clean = len(data.translate(None, _CONTROL_BYTES)) == len(data)
    if not clean:
        if field.strict:
            raise _invalid(key, field.name, "holds control characters")
        text = strip_controls(text)
        data = text.encode()
    if len(data) <= field.max_bytes:
        return text
    if field.strict or field.name == "content_text":
        raise _invalid(key, field.name, f"has {len(data)} bytes, at most {field.max_bytes} fit")
    return data[: field.max_bytes].decode("utf-8", "ignore")


def _invalid(key: str, field: str, how: str) -> InvalidRow:
    return InvalidRow(
        f"Row {key[:80]!r}: field {field} {how}",
        remedy="Correct the chunker or the catalogue; nothing of this document was written",
        id=key,
        field=field,
    )


def check_vectors(hashes: Sequence[str], vectors: NDArray[np.float32], dimension: int) -> None:
    """Refuses vectors that a search could not rank.

    Args:
        hashes: Embedding hash of each vector.
        vectors: Array of shape (n, d).
        dimension: What d must be.

    Raises:
        InvalidVector: A vector holds NaN or infinity, is zero, or has another dimension.
    """
    import numpy as np

    remedy = "Check the embedding service; nothing was written"
    if vectors.ndim != 2 or vectors.shape != (len(hashes), dimension):
        raise InvalidVector(
            f"Vectors of shape {vectors.shape} for {len(hashes)} texts of a collection of dimension {dimension}",
            remedy=remedy,
        )
    for what, bad in (
        ("holds NaN or infinity", ~np.isfinite(vectors).all(axis=1)),
        ("is zero", ~vectors.any(axis=1)),
    ):
        if bad.any():
            first = hashes[int(bad.argmax())]
            raise InvalidVector(f"The vector of text {first} {what}", remedy=remedy, embedding_hash=first)


def scan(
    client: MilvusClient, collection: str, fields: Sequence[str], where: str = ""
) -> Iterator[list[dict[str, Any]]]:
    """Streams the rows of a collection, in pages.

    Args:
        client: The connection.
        collection: Physical name.
        fields: Fields to read; leave the vectors out unless the pages may be that large.
        where: A filter.

    Yields:
        Pages of rows.
    """
    rows = SCAN_PAGE_VECTORS if VECTOR_FIELD in fields else SCAN_PAGE_ROWS
    if detect_backend(client).lite:
        yield from _scan_by_iterator(client, collection, fields, where, rows)
    else:
        yield from _scan_by_range(client, collection, fields, where, rows)


def _scan_by_iterator(
    client: MilvusClient, collection: str, fields: Sequence[str], where: str, rows: int
) -> Iterator[list[dict[str, Any]]]:
    iterator = read_with_retry(
        lambda: client.query_iterator(collection, batch_size=rows, filter=where, output_fields=list(fields))
    )
    try:
        while page := read_with_retry(iterator.next):
            yield [dict(row) for row in page]
    finally:
        iterator.close()


def _scan_by_range(
    client: MilvusClient, collection: str, fields: Sequence[str], where: str, rows: int
) -> Iterator[list[dict[str, Any]]]:
    """Reads ranges of keys, each with the strongest consistency.

    The client's iterator drops the consistency level that it is given, so on a server it misses rows of the last
    seconds. A query without a limit returns everything that it matches; keys are digests, so they spread evenly.
    """
    total = count_rows(client, collection, where)
    digits = next(
        digits for digits in range(_MOST_DIGITS + 1) if 16**digits * rows >= 2 * total or digits == _MOST_DIGITS
    )
    bounds = [f"{number:0{digits}x}" for number in range(1, 16**digits)]
    for low, high in zip(["", *bounds], [*bounds, ""], strict=True):
        parts = [f"{KEY_FIELD} >= {text_literal(low)}", *([f"{KEY_FIELD} < {text_literal(high)}"] if high else [])]
        expression = " and ".join([*parts, *([f"({where})"] if where else [])])
        page = read_with_retry(lambda asked=expression: _query_strongly(client, collection, asked, fields))  # type: ignore[misc]
        if page:
            yield page


def _query_strongly(client: MilvusClient, collection: str, where: str, fields: Sequence[str]) -> list[dict[str, Any]]:
    found = client.query(collection, filter=where, output_fields=list(fields), consistency_level="Strong")
    return [dict(row) for row in found]


def rows_by_key(
    client: MilvusClient, collection: str, keys: Sequence[str], fields: Sequence[str]
) -> list[dict[str, Any]]:
    """Reads rows by key, with the strongest consistency.

    Args:
        client: The connection.
        collection: Physical name.
        keys: At most `KEYS_PER_FILTER` keys.
        fields: Fields to read.
    """
    if not keys:
        return []
    where = keys_filter(KEY_FIELD, keys)
    return read_with_retry(lambda: _query_strongly(client, collection, where, fields))


def count_rows(client: MilvusClient, collection: str, where: str = "") -> int:
    """Counts rows exactly (the collection's statistics are not exact)."""
    read = read_with_retry(
        lambda: client.query(collection, filter=where, output_fields=["count(*)"], consistency_level="Strong")
    )
    return int(read[0]["count(*)"])


def in_batches(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    """Yields lists of at most `size` items."""
    while batch := list(islice(items, size)):
        yield batch


def stored_row(spec: CollectionSpec, row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row that was read as one that can be written: with the fields of this schema, and no other."""
    values = {field.name: row.get(field.name, _EMPTY[field.kind]) for field in spec.fields}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
