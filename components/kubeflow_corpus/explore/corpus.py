"""What a corpus holds, as the page browses it: collections, sources, documents, rows and versions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kubeflow_corpus.collections import COLLECTIONS, CollectionSpec, find_collection
from kubeflow_corpus.errors import CollectionNotFound, CorpusError, InvalidArgument
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.schema import served_name
from kubeflow_corpus.store.versions import Version, list_versions

Result = TypeVar("Result")

# Entries on one page of a list.
PAGE: Final = 50
# Lists of documents that are kept: one of each source that somebody looks at, for each version.
_MOST_KEPT: Final = 64
_DOCUMENT_FIELDS: Final = ("document_id", "unit_id", "title", "file_path", "chunk_index")
_VERSION_FIELDS: Final = ("document_id", "source", "title", "id", "row_hash")


@dataclass(frozen=True, slots=True)
class Served:
    """One collection of a corpus.

    Attributes:
        spec: The collection.
        version: Physical name of what is served; empty where nothing is.
        problem: Why nothing is shown.
        properties: What the version records about itself.
        sources: Rows by source.
    """

    spec: CollectionSpec
    version: str = ""
    problem: str = ""
    properties: Mapping[str, str] | None = None
    sources: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """One document in a list.

    Attributes:
        document_id: Its key.
        title: Its title.
        path: Where it is in its repository.
        units: Sections, threads, symbols or objects in it.
        rows: Rows of all of them.
    """

    document_id: str
    title: str
    path: str
    units: int
    rows: int


@dataclass(frozen=True, slots=True)
class Change:
    """How one document differs between two versions.

    Attributes:
        document_id: Its key.
        title: Its title.
        before: Its rows in the first version.
        now: Its rows in the second.
        added: Rows that only the second has.
        changed: Rows of one key with other content, place or facts.
        lost: Rows that only the first has.
    """

    document_id: str
    title: str
    before: int
    now: int
    added: int
    changed: int
    lost: int

    @property
    def state(self) -> str:
        """Whether the document is added, changed or lost."""
        return "lost" if not self.now else "changed" if self.before else "added"


@dataclass(frozen=True, slots=True)
class Differences:
    """How two versions differ.

    Attributes:
        changes: Documents that differ, in order of their state and key.
        same: Documents that do not.
    """

    changes: tuple[Change, ...]
    same: int

    def counts(self) -> dict[str, int]:
        """Returns the number of documents by state."""
        counts = dict.fromkeys(("added", "changed", "lost"), 0)
        for change in self.changes:
            counts[change.state] += 1
        return counts | {"unchanged": self.same}


@dataclass(frozen=True, slots=True)
class Slice:
    """One page of a list.

    Attributes:
        items: What is on it.
        number: Of the page, from 1.
        pages: How many there are, at least 1.
        total: Entries of the whole list.
    """

    items: Sequence[Any]
    number: int
    pages: int
    total: int


def page_of(items: Sequence[Any], number: int, size: int = PAGE) -> Slice:
    """Returns one page of a list; a number beyond the last page is the last page."""
    pages = max(1, -(-len(items) // size))
    number = min(max(number, 1), pages)
    return Slice(items[(number - 1) * size : number * size], number, pages, len(items))


class Corpus:
    """Reads what a corpus holds. What it read of a version is kept: a version does not lose what it recorded.

    Args:
        client: Of the library.
        settings: Where the corpus is, for its versions.
    """

    def __init__(self, client: CorpusClient, settings: Settings) -> None:
        self.client = client
        self._settings = settings
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, ...], Future[Any]] = {}

    def served(self) -> list[Served]:
        """Returns every collection, with its sources where it is served."""
        return [self._served(spec) for spec in COLLECTIONS]

    def _served(self, spec: CollectionSpec) -> Served:
        try:
            version = self.client.served_version(spec.name)
            properties = self.client.properties(spec.name)
            counts = self._keep(
                ("sources", *_state(version, properties)), lambda: self.client.known_values(spec.name, "source")
            )
        except CollectionNotFound:
            return Served(spec, problem="Nothing is served")
        except CorpusError as error:
            return Served(spec, problem=str(error))
        return Served(spec, version, "", properties, counts)

    def documents(self, collection: str, source: str) -> tuple[DocumentLine, ...]:
        """Returns the documents of a source, in order of their paths.

        Raises:
            CorpusError: The collection is not served, or Milvus does not answer.
        """
        key = ("documents", source, *_state(self.client.served_version(collection), self.client.properties(collection)))
        return self._keep(key, lambda: self._read_documents(collection, source))

    def _read_documents(self, collection: str, source: str) -> tuple[DocumentLine, ...]:
        rows = self.client.every_row(collection, _DOCUMENT_FIELDS, only={"source": [source]})
        grouped: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            grouped.setdefault(str(row["document_id"]), []).append(row)
        lines = (
            DocumentLine(
                document_id=key,
                title=str(min(group, key=lambda row: row["chunk_index"])["title"]),
                path=str(group[0]["file_path"]),
                units=len({row["unit_id"] for row in group}),
                rows=len(group),
            )
            for key, group in grouped.items()
        )
        return tuple(sorted(lines, key=lambda line: (line.path, line.document_id)))

    def rows(self, collection: str, document_id: str, unit_id: str = "") -> list[dict[str, Any]]:
        """Returns the rows of a document in their order; none for an unknown key.

        Args:
            collection: Name of the collection.
            document_id: Key of the document; empty is the one that a unit is of.
            unit_id: Key of the unit.

        Raises:
            CorpusError: The collection is not served, or Milvus does not answer.
        """
        spec = find_collection(collection)
        if not document_id:
            found = self.client.every_row(collection, ("document_id",), only={"unit_id": [unit_id]})
            document_id = str(found[0]["document_id"]) if found else ""
        rows = self.client.every_row(collection, spec.output_fields, only={"document_id": [document_id]})
        return sorted(rows, key=lambda row: (row["chunk_index"], row["id"]))

    def units(self, collection: str, unit_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Returns the first row of each unit that is still there, by its key.

        Raises:
            CorpusError: The collection is not served, or Milvus does not answer.
        """
        if not unit_ids:
            return {}
        fields = find_collection(collection).output_fields
        rows = self.client.every_row(collection, fields, only={"unit_id": list(unit_ids)})
        return {str(row["unit_id"]): row for row in sorted(rows, key=lambda row: -int(row["chunk_index"]))}

    def versions(self, collection: str) -> list[Version]:
        """Returns the kept versions of a collection, the oldest first."""
        served = served_name(self._settings.collection_prefix, find_collection(collection).alias)
        with connected(self._settings) as milvus:
            return list_versions(milvus, served)

    def differences(self, collection: str, before: int, now: int) -> Differences:
        """Returns how two versions of a collection differ.

        Raises:
            InvalidArgument: A version is not kept.
            CorpusError: Milvus does not answer.
        """
        kept = {version.number: version for version in self.versions(collection)}
        for number in (before, now):
            if number not in kept:
                shown = ", ".join(map(str, kept)) or "none"
                raise InvalidArgument(f"There is no version {number}", remedy=f"Kept versions: {shown}")
        states = [_state(kept[number].name, kept[number].properties) for number in (before, now)]
        return self._keep(
            ("differences", *states[0], *states[1]),
            lambda: compare(*(self._read_version(collection, kept[number].name) for number in (before, now))),
        )

    def _read_version(self, collection: str, name: str) -> list[dict[str, Any]]:
        alias = find_collection(collection).alias
        with CorpusClient(settings=self._settings.unlogged(), collections={alias: name}) as client:
            return client.every_row(collection, _VERSION_FIELDS)

    def _keep(self, key: tuple[str, ...], read: Callable[[], Result]) -> Result:
        """Returns what was read before, or reads it; who asks meanwhile waits for the one that reads."""
        with self._lock:
            kept = self._kept.get(key)
            mine = kept is None
            if kept is None:
                if len(self._kept) >= _MOST_KEPT:
                    self._kept.pop(next(iter(self._kept)))
                kept = self._kept[key] = Future()
        if mine:
            try:
                kept.set_result(read())
            except BaseException as error:
                with self._lock:
                    self._kept.pop(key, None)
                kept.set_exception(error)
        result: Result = kept.result()
        return result


def compare(before: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]) -> Differences:
    """Returns how the documents of two lists of rows differ.

    Args:
        before: Rows with ``document_id``, ``title``, ``id`` and ``row_hash``.
        now: Rows to compare them with.
    """
    old, new = _by_document(before), _by_document(now)
    changes, same = [], 0
    for key in sorted(old.keys() | new.keys()):
        mine, others = old.get(key, {}), new.get(key, {})
        if mine == others:
            same += 1
            continue
        title = next(iter((others or mine).values()))[1]
        changed = sum(mine[row] != others[row] for row in mine.keys() & others.keys())
        changes.append(
            Change(
                key,
                title,
                len(mine),
                len(others),
                len(others.keys() - mine.keys()),
                changed,
                len(mine.keys() - others.keys()),
            )
        )
    order = {"lost": 0, "changed": 1, "added": 2}
    return Differences(tuple(sorted(changes, key=lambda change: (order[change.state], change.document_id))), same)


def _by_document(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, tuple[str, str]]]:
    documents: dict[str, dict[str, tuple[str, str]]] = {}
    for row in rows:
        documents.setdefault(str(row["document_id"]), {})[str(row["id"])] = (str(row["row_hash"]), str(row["title"]))
    return documents


def _state(version: str, properties: Mapping[str, str]) -> tuple[str, str]:
    """Returns a key of what a version holds: the record of its last run changes with its rows."""
    return version, str(hash(tuple(sorted(properties.items()))))
