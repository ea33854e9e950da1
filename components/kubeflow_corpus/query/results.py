"""What a search returns: hits (units), evidence, citations, facets and the trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kubeflow_corpus.query.evidence import Evidence, EvidenceBuilder
from kubeflow_corpus.query.fusion import Row
from kubeflow_corpus.query.intent import Intent
from kubeflow_corpus.query.ranking import facets
from kubeflow_corpus.query.trace import Trace
from kubeflow_corpus.query.tuning import DEFAULT_TOKEN_BUDGET
from kubeflow_corpus.store.schema import collection_spec

# What a hit says of itself beside the fields of its collection.
_BASE: Final = (
    "unit_id",
    "document_id",
    "repo",
    "file_path",
    "citation_url",
    "title",
    "section_path",
    "content_text",
) + ("source", "source_type", "revision", "updated_at")


@dataclass(frozen=True, slots=True)
class Hit:
    """One unit that was found.

    Attributes:
        unit_id: Key of the unit.
        document_id: Key of its document.
        repo: ``owner/name``.
        file_path: Path in the repository.
        citation_url: Where a person reads it.
        title: Title of the document.
        section_path: Breadcrumb below the title.
        content_text: The stored text of the unit, all views, as it is (it may hold links; evidence does not).
        source: Name of the catalogue entry.
        source_type: docs, issue, code or manifest.
        product_area: Products that it speaks about.
        version: Versions that it speaks about.
        revision: Commit at which the document last changed in the index.
        updated_at: The source's time.
        score: Between 0 and 1 before preferences; comparable within one result only.
        mode: Lists that found it: dense, bm25 or both.
        also_at: ``repo:path`` of other places that say (nearly) the same.
        fields: The collection's own fields.
        rows: The stored rows of the unit, in document order.
        matched: Ids of the rows that the lists found, the best first.
    """

    unit_id: str
    document_id: str
    repo: str
    file_path: str
    citation_url: str
    title: str
    section_path: str
    content_text: str
    source: str
    source_type: str
    revision: str
    updated_at: str
    product_area: tuple[str, ...]
    version: tuple[str, ...]
    score: float
    mode: str
    also_at: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[Mapping[str, Any], ...] = ()
    matched: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, rows: Sequence[Mapping[str, Any]], own: Sequence[str], *, score: float, mode: str, matched: Sequence[str]
    ) -> Hit:
        """Makes the hit of a unit.

        Args:
            rows: The stored rows of the unit, at least one.
            own: Names of the collection's own fields.
            score: Of the unit.
            mode: Lists that found it.
            matched: Ids of the rows that were found, the best first.
        """
        ordered = sorted(rows, key=lambda row: (row["chunk_index"], row["id"]))
        main = ordered[0]
        base: dict[str, Any] = {name: str(main.get(name, "")) for name in _BASE}
        base["content_text"] = "\n".join(str(row["content_text"]) for row in ordered)
        return cls(
            **base,
            product_area=tuple(main.get("product_area") or ()),
            version=tuple(main.get("version") or ()),
            score=score,
            mode=mode,
            fields={name: _plain(main.get(name)) for name in own},
            rows=tuple(ordered),
            matched=tuple(matched),
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form: one flat object, own fields included where they say something."""
        data: dict[str, Any] = {name: getattr(self, name) for name in _BASE}
        data |= {"product_area": list(self.product_area), "version": list(self.version)}
        data |= {"score": round(self.score, 4), "mode": self.mode, "also_at": list(self.also_at)}
        return data | {name: value for name, value in self.fields.items() if value not in ("", None, [])}


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one question.

    Attributes:
        request_id: Given by the caller or made up; the same in trace, logs and answer.
        collection: Alias that was searched.
        intent: What the question wants, how it was searched and why.
        hits: Units, best first.
        find_further: Returns `further`.
        record: What `trace` is made of.
        total_ms: Milliseconds of the whole search.
        filters: Filters that were applied.
        filters_inferred: What the question itself named, as preference or (when asked) as filter.
        notes: What a reader should know: a relaxed filter, a missing list.
        token_budget: Of `evidence` where no other is given.
        candidates: What was fetched with the best row of every unit that was considered.
        lists: The rows of each list, as Milvus ranked them.
    """

    request_id: str
    collection: str
    intent: Intent
    hits: tuple[Hit, ...]
    record: Trace = field(repr=False)
    total_ms: float
    find_further: Callable[[], tuple[Hit, ...]] = field(default=tuple, repr=False, compare=False)
    filters: Mapping[str, Any] = field(default_factory=dict)
    filters_inferred: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    token_budget: int = DEFAULT_TOKEN_BUDGET
    builder: EvidenceBuilder = field(default_factory=EvidenceBuilder, repr=False)
    candidates: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    lists: Mapping[str, Sequence[Row]] = field(default_factory=dict, repr=False)
    built: dict[tuple[int, int], Evidence] = field(default_factory=dict, repr=False, compare=False)

    def evidence(self, token_budget: int | None = None, max_hits: int | None = None) -> str:
        """Returns the text that a model may read and quote: labelled fragments without any link.

        What the hits leave of the budget shows further sections of their documents, each with its own citation.

        Args:
            token_budget: Tokens of the whole text; None is the budget of the search.
            max_hits: Only the first so many hits.
        """
        return self.evidence_block(token_budget, max_hits).text

    def evidence_block(self, token_budget: int | None = None, max_hits: int | None = None) -> Evidence:
        """Returns the evidence with its citations and what was left out of it."""
        key = (token_budget or self.token_budget, len(self.hits) if max_hits is None else max_hits)
        if key not in self.built:
            shown = self.hits[: key[1]]
            documents = {hit.document_id for hit in shown}
            others = [hit for hit in (*self.hits[key[1] :], *self.further) if hit.document_id in documents]
            # At most one for each hit: a caller who asks for one hit wants little.
            self.built[key] = self.builder.build(shown, key[0], self.notes, others[: len(shown)])
        return self.built[key]

    @property
    def further(self) -> tuple[Hit, ...]:
        """Other units that were found in the documents of the hits: evidence shows them where there is room."""
        return self.find_further()

    @property
    def trace(self) -> dict[str, Any]:
        """Lists, fusion, filters, thresholds, drops and times."""
        return self.record.as_dict()

    @property
    def facets(self) -> dict[str, dict[str, int]]:
        """Counts over the candidates by field and value: what narrowing would leave."""
        return facets(collection_spec(self.collection), self.candidates)

    @property
    def citations(self) -> tuple[dict[str, Any], ...]:
        """The citations of the default evidence: ids match its labels exactly."""
        return self.evidence_block().citations

    @property
    def truncated(self) -> bool:
        """Whether the default evidence shows less than all hits in full."""
        return self.evidence_block().truncated

    @property
    def left_out(self) -> tuple[str, ...]:
        """Units that found no room in the default evidence, or that could not be shown."""
        return self.evidence_block().left_out

    def ranked_lists(self) -> dict[str, tuple[Row, ...]]:
        """Returns the rows of each list as Milvus ranked them."""
        return {name: tuple(rows) for name, rows in self.lists.items()}

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form of the design."""
        block = self.evidence_block()
        return {
            "request_id": self.request_id,
            "collection": self.collection,
            "intent": {"name": self.intent.name, "mode": self.intent.mode, "reason": self.intent.reason},
            "hits": [hit.to_dict() for hit in self.hits],
            "evidence": block.text,
            "citations": [dict(citation) for citation in block.citations],
            "truncated": block.truncated,
            "left_out": list(block.left_out),
            "facets": self.facets,
            "filters": dict(self.filters),
            "filters_inferred": dict(self.filters_inferred),
            "notes": list(block.notes),
            "trace": dict(self.trace),
            "total_ms": round(self.total_ms, 2),
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Returns `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)


def _plain(value: Any) -> Any:
    # Milvus hands arrays over as protobuf containers.
    return value if value is None or isinstance(value, (str, int, float, bool)) else list(value)
