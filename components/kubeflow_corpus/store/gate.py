"""The store's own gate: what must hold of a version before it is served, whatever its retrieval metrics say.

Counts per source within bounds, no product area that became empty, and for each source a stored row that a search for
its own words and its own vector finds. The evaluation adds its metrics through the same `GateReport`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.collections import KEY_FIELD, MANUAL_SOURCE, SEARCH_TEXT_FIELD
from kubeflow_corpus.milvus import read_with_retry, store_errors
from kubeflow_corpus.records import GateReport
from kubeflow_corpus.store.rows import rows_by_key, scan
from kubeflow_corpus.store.schema import DENSE_METRIC, SPARSE_FIELD, SPARSE_METRIC, VECTOR_FIELD, text_literal
from kubeflow_corpus.store.versions import ensure_loaded

if TYPE_CHECKING:
    from pymilvus import MilvusClient

# A source may lose this share of its documents against what is served, and grow by this factor.
MAX_LOST_SHARE: Final = 0.30
MAX_GROWTH: Final = 10.0
# Below this number of documents growth says nothing.
_GROWTH_FLOOR: Final = 20
# Rows of a source that are searched for; finding one is enough, because equal texts may rank before a row.
SELF_CHECKS: Final = 3
_SELF_CHECK_HITS: Final = 10
_QUERY_WORDS: Final = 32
# Cosine of a vector with itself, less what an approximate index may lose.
_SAME_VECTOR: Final = 0.999


@dataclass(slots=True)
class Figures:
    """What is stored in a version.

    Attributes:
        documents: Documents by source.
        rows: Rows by source.
        areas: Rows by product area; ``(none)`` for rows without one.
        area_documents: Documents by product area.
        samples: The first keys of each source.
        newest: The newest ``updated_at``.
    """

    documents: dict[str, int] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    areas: Counter[str] = field(default_factory=Counter)
    area_documents: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[str]] = field(default_factory=dict)
    newest: str = ""

    @property
    def total(self) -> int:
        """Rows."""
        return self.rows.total()


def collect_figures(client: MilvusClient, name: str) -> Figures:
    """Counts what is stored in a version, in one streamed pass over keys.

    Args:
        client: The connection.
        name: Physical collection or alias.
    """
    found = Figures()
    # Hashes of keys keep the sets small where a corpus has very many documents.
    by_source: dict[str, set[int]] = {}
    by_area: dict[str, set[int]] = {}
    fields = [KEY_FIELD, "source", "document_id", "product_area", "updated_at"]
    ensure_loaded(client, name)
    with store_errors(name):
        for page in scan(client, name, fields):
            for row in page:
                source, document = row["source"], hash(row["document_id"])
                areas = list(row["product_area"]) or ["(none)"]
                by_source.setdefault(source, set()).add(document)
                found.rows[source] += 1
                found.areas.update(areas)
                for area in areas:
                    by_area.setdefault(area, set()).add(document)
                found.newest = max(found.newest, row["updated_at"])
                samples = found.samples.setdefault(source, [])
                if len(samples) < SELF_CHECKS:
                    samples.append(row[KEY_FIELD])
    found.documents = {source: len(documents) for source, documents in sorted(by_source.items())}
    found.area_documents = {area: len(documents) for area, documents in sorted(by_area.items())}
    return found


def check_version(
    client: MilvusClient,
    name: str,
    served: str = "",
    *,
    bm25: bool = True,
    allow_deletions: Collection[str] = (),
    max_lost_share: float = MAX_LOST_SHARE,
) -> GateReport:
    """Checks whether a version may be served.

    Args:
        client: The connection.
        name: Physical name of the version.
        served: Physical name of the version that it replaces; "" if it replaces none, or itself.
        bm25: Whether there is a BM25 list to search.
        allow_deletions: Sources that may shrink.
        max_lost_share: Share of its documents that another source may lose.

    Returns:
        One line for each failure, and collect_figures by name.
    """
    after = collect_figures(client, name)
    before = collect_figures(client, served) if served and served != name else Figures()
    failures = [
        *([] if after.total else [f"{name} holds no row"]),
        *_count_failures(before, after, allow_deletions, max_lost_share),
        *_area_failures(before, after, allow_deletions),
        *_self_check_failures(client, name, after, bm25),
    ]
    metrics: dict[str, float] = {"rows": after.total, "documents": sum(after.documents.values())}
    metrics |= {f"documents:{source}": count for source, count in after.documents.items()}
    return GateReport(passed=not failures, failures=tuple(failures), metrics=metrics)


def _count_failures(before: Figures, after: Figures, allowed: Collection[str], max_lost_share: float) -> list[str]:
    lines = []
    for source, had in before.documents.items():
        if source == MANUAL_SOURCE:
            continue
        has = after.documents.get(source, 0)
        if has < had * (1 - max_lost_share) and source not in allowed:
            lines.append(f"source {source} has {has} documents where {had} are served")
        elif had >= _GROWTH_FLOOR and has > had * MAX_GROWTH:
            lines.append(f"source {source} grew from {had} to {has} documents")
    return lines


def _area_failures(before: Figures, after: Figures, allowed: Collection[str]) -> list[str]:
    if set(before.documents) & set(allowed):
        # An area may rightly go with its source.
        return []
    return [
        f"product area {area} has no row where {rows} are served"
        for area, rows in before.areas.items()
        if area != "(none)" and not after.areas.get(area)
    ]


def _self_check_failures(client: MilvusClient, name: str, after: Figures, bm25: bool) -> list[str]:
    lines = []
    for source, keys in after.samples.items():
        fields = [KEY_FIELD, "title", SEARCH_TEXT_FIELD, "embedding_hash", VECTOR_FIELD]
        with store_errors(name):
            rows = rows_by_key(client, name, keys, fields)
            if not any(_is_found_by(client, name, source, row, VECTOR_FIELD) for row in rows):
                lines.append(f"source {source}: no dense search finds the row whose vector it was given")
            if bm25 and not any(_is_found_by(client, name, source, row, SPARSE_FIELD) for row in rows):
                lines.append(f"source {source}: no BM25 search finds the row whose words it was given")
    return lines


def _is_found_by(client: MilvusClient, name: str, source: str, row: Mapping[str, Any], by: str) -> bool:
    words = " ".join(row[SEARCH_TEXT_FIELD].split()[:_QUERY_WORDS])
    query: Any = row[VECTOR_FIELD] if by == VECTOR_FIELD else words
    found = read_with_retry(
        lambda: client.search(
            name,
            data=[query],
            anns_field=by,
            limit=_SELF_CHECK_HITS,
            filter=f"source == {text_literal(source)}",
            output_fields=[KEY_FIELD, "embedding_hash", SEARCH_TEXT_FIELD],
            search_params={"metric_type": DENSE_METRIC if by == VECTOR_FIELD else SPARSE_METRIC},
            consistency_level="Strong",
        )
    )
    # Rows with the same text or vector are as good as the row itself: which of them comes first means nothing.
    if by == VECTOR_FIELD and any(hit["distance"] > _SAME_VECTOR for hit in found[0]):
        return True
    return any(
        hit["entity"]["embedding_hash"] == row["embedding_hash"]
        or hit["entity"][SEARCH_TEXT_FIELD] == row[SEARCH_TEXT_FIELD]
        for hit in found[0]
    )
