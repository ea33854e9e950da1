"""The state of the collections as every caller may see it.

``kubeflow-corpus status`` is for operators and counts everything. This counts public rows only, and leaves out what a
run recorded over all rows, who writes and on which machine: a number or a name can reveal a document of another group.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.collections import COLLECTIONS, KEY_FIELD, CollectionSpec
from kubeflow_corpus.milvus import detect_backend, store_errors
from kubeflow_corpus.query.filters import visible
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.rows import scan
from kubeflow_corpus.store.schema import served_name
from kubeflow_corpus.store.status import age_days, run_of
from kubeflow_corpus.store.versions import Version, ensure_loaded, list_versions, live_version, summary

if TYPE_CHECKING:
    from pymilvus import MilvusClient

# How the last run ended; its counts and reasons are about all rows.
RUN_FIELDS: Final = ("mode", "outcome", "started_at", "finished_at")
_FIELDS: Final = ("source", "document_id", "product_area", "updated_at")


@dataclass(slots=True)
class _Counts:
    """Counts of the public rows of a version.

    Attributes:
        rows: Their number.
        documents: Keys of documents by source.
        areas: Rows by product area; ``(none)`` for rows without one.
        area_documents: Keys of documents by product area.
        newest: The newest ``updated_at``.
    """

    rows: int = 0
    documents: dict[str, set[int]] = field(default_factory=dict)
    areas: Counter[str] = field(default_factory=Counter)
    area_documents: dict[str, set[int]] = field(default_factory=dict)
    newest: str = ""

    def add(self, row: dict[str, Any]) -> None:
        """Counts a row."""
        # Hashes of keys keep the sets small where a corpus has very many documents.
        document, areas = hash(row["document_id"]), list(row["product_area"]) or ["(none)"]
        self.rows += 1
        self.documents.setdefault(row["source"], set()).add(document)
        self.areas.update(areas)
        for area in areas:
            self.area_documents.setdefault(area, set()).add(document)
        self.newest = max(self.newest, row["updated_at"])


def public_status(client: MilvusClient, prefix: str = "") -> list[dict[str, Any]]:
    """Returns the public state of each collection.

    Args:
        client: The connection.
        prefix: The environment's prefix.

    Raises:
        StoreError: Milvus failed.
    """
    backend = detect_backend(client).version
    return [_state(client, spec, served_name(prefix, spec.alias), backend) for spec in COLLECTIONS]


def _state(client: MilvusClient, spec: CollectionSpec, served: str, backend: str) -> dict[str, Any]:
    versions = list_versions(client, served)
    live = live_version(versions)
    state: dict[str, Any] = {
        "alias": spec.alias,
        "served_as": served,
        "backend": backend,
        "live": live.name if live else None,
        "versions": [_without_rows(version) for version in versions],
    }
    return state if live is None else state | _live_state(live, _counted(client, live.name))


def _live_state(live: Version, counts: _Counts) -> dict[str, Any]:
    facts = {key: value for key, value in summary(live, counts.rows).items() if key not in ("name", "version", "state")}
    return facts | {
        "documents": _sizes(counts.documents),
        "documents_by_area": _sizes(counts.area_documents),
        "rows_by_area": dict(sorted(counts.areas.items())),
        "sources": _sources(live, counts),
        "newest_data": counts.newest,
        "newest_data_age_days": age_days(counts.newest),
        "last_run": _last_run(live),
    }


def _without_rows(version: Version) -> dict[str, Any]:
    # The number that a version records is of all its rows, and counting one that is not served would load it.
    return {key: value for key, value in summary(version, 0).items() if key != "rows"}


def _counted(client: MilvusClient, name: str) -> _Counts:
    counts = _Counts()
    ensure_loaded(client, name)
    with store_errors(name):
        for page in scan(client, name, (KEY_FIELD, *_FIELDS), visible(())):
            for row in page:
                counts.add(row)
    return counts


def _sizes(keys: dict[str, set[int]]) -> dict[str, int]:
    return {name: len(found) for name, found in sorted(keys.items())}


def _sources(live: Version, counts: _Counts) -> dict[str, dict[str, str]]:
    heads, fetched, cursors = map(live.prefixed, (schema.HEAD_PREFIX, schema.FETCHED_PREFIX, schema.CURSOR_PREFIX))
    return {
        source: {"head": head, "fetched_at": fetched.get(source, ""), "cursor": cursors.get(source, "")}
        for source, head in sorted(heads.items())
        # A source without a public row is not named.
        if source in counts.documents
    }


def _last_run(live: Version) -> dict[str, Any] | None:
    record = run_of(live)
    return None if record is None else {name: record[name] for name in RUN_FIELDS if name in record}
