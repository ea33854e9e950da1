"""The records that every step passes on: documents, chunks, and what was left out and why.

A *document* is one file or one issue thread. A *unit* is what is found, cited and counted: a section, a thread, a
symbol, a Kubernetes object. A *chunk* is one stored row; a unit needs several (its *views*) when it is longer than the
embedding model reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Final, Literal

SourceType = Literal["docs", "issue", "code", "manifest"]
Scalar = str | int | bool
FieldValue = Scalar | tuple[str, ...]

_REVISION_MASK: Final = "{revision}"
_KEY_JSON: Final = json.JSONEncoder(ensure_ascii=False)
# `id` and the hashes are derived, `embedding_text` is not stored, and the revision is provenance: see `row_hash`.
_NOT_IN_ROW_HASH: Final = frozenset({"id", "embedding_text", "revision"})


@dataclass(frozen=True, slots=True)
class Document:
    """One file or one issue thread as its source holds it.

    Attributes:
        document_id: ``<source>:<path or number>``, the stable key of the document.
        source: Name of the catalogue entry.
        source_type: What kind of collection it belongs to.
        repo: ``owner/name``.
        revision: Commit of the checkout (or a digest of a plain folder); empty for issue threads.
        path: Path in the repository, or ``issues/<owner>/<repo>/<number>``.
        url: Where a person finds the document at its source (the file at this commit, the thread).
        title: Title where the source knows one, else empty: chunkers find it.
        text: The text, decoded; an issue thread is one JSON object.
        metadata: ``product_area`` and ``version`` (lists of strings), ``updated_at`` (ISO 8601 UTC, the source's
            time), for docs ``site`` (generator, root, base_url, params), for code ``generated`` (bool).
    """

    document_id: str
    source: str
    source_type: SourceType
    repo: str
    revision: str
    path: str
    url: str
    title: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def row_fields(self) -> dict[str, Any]:
        """Returns what every row of the document has from it: arguments of `Chunk` that a chunker may replace."""
        metadata = self.metadata
        return {
            "document_id": self.document_id,
            "file_path": self.path,
            "repo": self.repo,
            "source": self.source,
            "source_type": self.source_type,
            "revision": self.revision,
            "product_area": tuple(metadata.get("product_area") or ()),
            "version": tuple(metadata.get("version") or ()),
            "updated_at": str(metadata.get("updated_at") or ""),
        }

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form; `from_dict` reads it back."""
        return {f.name: _json_value(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Document:
        """Reads what `to_dict` wrote."""
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One row of a collection, without its vectors.

    Attributes:
        document_id: Key of the document.
        unit_id: Key of the unit: ``document_id`` plus ``#anchor``, ``#symbol`` or group/kind/name.
        view: Which part of the unit: ``""`` for the only or main row, else a short name (``2``, ``field:spec.x``).
        chunk_index: Position of the row in its document, from 0.
        start_line: First line of the document that the row covers, from 1.
        end_line: Last line that it covers, inclusive.
        title: Title of the document.
        section_path: Breadcrumb below the title, ``A > B``.
        content_text: Clean evidence.
        search_text: What BM25 reads: title, section path, content, identifier parts.
        embedding_text: What the model reads: header and content within its token limit. Not stored.
        citation_url: Where a person reads the unit.
        file_path: Path in the repository.
        repo: ``owner/name``.
        source: Name of the catalogue entry.
        source_type: Kind of source.
        product_area: Products that it speaks about, from the closed list.
        version: Versions that it speaks about, at every precision.
        revision: Commit at which the document's content last changed in the index.
        updated_at: The source's time, ISO 8601 UTC.
        visibility: Who may see it; empty is everybody.
        fields: The collection's own fields (``doc_type``, ``symbol``, ``state``, ...).
        id: Key of the row; set by `seal`.
    """

    document_id: str
    unit_id: str
    view: str
    chunk_index: int
    start_line: int
    end_line: int
    title: str
    section_path: str
    content_text: str
    search_text: str
    embedding_text: str
    citation_url: str
    file_path: str
    repo: str
    source: str
    source_type: SourceType
    product_area: tuple[str, ...] = ()
    version: tuple[str, ...] = ()
    revision: str = ""
    updated_at: str = ""
    visibility: str = ""
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    id: str = ""

    @property
    def embedding_hash(self) -> str:
        """sha256 of the embedding text: the key by which vectors are reused."""
        return _sha256(self.embedding_text)

    @property
    def row_hash(self) -> str:
        """sha256 of every stored field but the vectors and the provenance.

        A new commit that does not touch a document changes its revision, the commit in its address and the time of
        that commit, and nothing that a reader would see: those three stay out, so such a commit writes no row.
        """
        data = dict(zip(_HASHED_FIELDS, _HASHED_VALUES(self), strict=True))
        data["fields"] = {name: self.fields[name] for name in sorted(self.fields)}
        if self.revision:
            data["citation_url"] = self.citation_url.replace(self.revision, _REVISION_MASK)
            del data["updated_at"]
        return _sha256(_KEY_JSON.encode(data))

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form; `from_dict` reads it back."""
        own = {key: list(value) if isinstance(value, tuple) else value for key, value in self.fields.items()}
        arrays = {"product_area": list(self.product_area), "version": list(self.version)}
        return {**self._values(), **arrays, "fields": own}

    def __reduce__(self) -> tuple[type[Chunk], tuple[Any, ...]]:
        # Rows travel between processes by the hundred thousand; a dataclass with slots looks its fields up each time.
        return Chunk, _CHUNK_VALUES(self)

    def _values(self) -> dict[str, Any]:
        return dict(zip(_CHUNK_FIELDS, _CHUNK_VALUES(self), strict=True))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Chunk:
        """Reads what `to_dict` wrote."""
        own = {key: _field_value(value) for key, value in data["fields"].items()}
        arrays = {"product_area": tuple(data["product_area"]), "version": tuple(data["version"])}
        return cls(**{**data, **arrays, "fields": own})


_CHUNK_FIELDS: Final = tuple(f.name for f in fields(Chunk))
_CHUNK_VALUES: Final = attrgetter(*_CHUNK_FIELDS)
# In alphabetical order: the order of the keys is part of a digest.
_HASHED_FIELDS: Final = tuple(sorted(set(_CHUNK_FIELDS) - _NOT_IN_ROW_HASH))
_HASHED_VALUES: Final = attrgetter(*_HASHED_FIELDS)


@dataclass(frozen=True, slots=True)
class Removed:
    """Lines of a document that no chunk carries, and the rule that removed them (1-based, inclusive)."""

    reason: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Skip:
    """A document that gives no chunk, and why: counted, never silent."""

    document_id: str
    path: str
    reason: str
    detail: str = ""

    def to_dict(self) -> dict[str, str]:
        """Returns the JSON form."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """A document that a step could not deal with: it costs itself only, and what is stored of it stays.

    Attributes:
        document_id: Key of the document.
        path: Path in the repository.
        reason: What happened, one of few words: ``defect``, ``time limit``, ``memory limit``, ``not read``, ...
        detail: What a person needs to find the cause, in one line.
    """

    document_id: str
    path: str
    reason: str
    detail: str = ""

    @property
    def source(self) -> str:
        """Name of the catalogue entry."""
        return self.document_id.partition(":")[0]

    def line(self) -> str:
        """Returns it as a person reads it."""
        return f"{self.path}: {self.reason}{f': {self.detail}' if self.detail else ''}"

    def to_dict(self) -> dict[str, str]:
        """Returns the JSON form."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class Chunked:
    """What a chunker makes of one document.

    Attributes:
        chunks: Sealed rows, in document order.
        removed: Lines that were left out, with the rule.
        skipped: Set when the document gives no chunk at all.
        counts: Further counts by reason, such as ``truncated`` embedding texts.
        failed: Set when the document could not be cut: nothing is known of its rows.
    """

    chunks: tuple[Chunk, ...] = ()
    removed: tuple[Removed, ...] = ()
    skipped: Skip | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    failed: FailedDocument | None = None


@dataclass(frozen=True, slots=True)
class GateReport:
    """Whether a collection may be served: the outcome of an evaluation.

    Attributes:
        passed: Whether it may.
        failures: One readable line for each check that failed.
        metrics: Figures by name.
    """

    passed: bool
    failures: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)


def seal(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Numbers the rows of one document and gives each its key.

    The key is sha256 of document, unit, view, content and an occurrence number: it does not depend on line numbers,
    so a line inserted at the top of a file re-keys nothing.

    Args:
        chunks: The rows of one document, in order.

    Yields:
        The same rows with `chunk_index` and `id` set.
    """
    seen: dict[tuple[str, str, str, str], int] = {}
    for index, chunk in enumerate(chunks):
        key = (chunk.document_id, chunk.unit_id, chunk.view, chunk.content_text)
        occurrence = seen[key] = seen.get(key, -1) + 1
        yield replace(chunk, chunk_index=index, id=row_id(*key, occurrence))


def row_id(document_id: str, unit_id: str, view: str, content_text: str, occurrence: int = 0) -> str:
    """Returns the key of a row, as `seal` sets it.

    Args:
        document_id: Key of the document.
        unit_id: Key of the unit.
        view: Which part of the unit.
        content_text: Clean evidence.
        occurrence: How many earlier rows of the document are the same in all of these.
    """
    return _sha256(_KEY_JSON.encode([document_id, unit_id, view, content_text, occurrence]))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _json_value(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return value


def _field_value(value: Any) -> FieldValue:
    return tuple(value) if isinstance(value, list) else value
