"""What the calls of a client return: hits with their evidence, citations, facets and trace, or one unit as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kubeflow_corpus.collections import find_collection
from kubeflow_corpus.query.citations import Citation
from kubeflow_corpus.query.evidence import Evidence, EvidenceBuilder
from kubeflow_corpus.query.fusion import Row
from kubeflow_corpus.query.hit import Hit
from kubeflow_corpus.query.intent import Intent
from kubeflow_corpus.query.ranking import facets
from kubeflow_corpus.query.trace import Trace


class HitEvidence:
    """Builds the evidence of one search when somebody reads it, once for each budget and number of hits.

    Args:
        builder: Writes the evidence.
        hits: Units, best first.
        find_further: Returns other units that were found in the documents of the hits.
        notes: What a reader must know.
        token_budget: Tokens of the text where the reader names no other budget.
    """

    def __init__(
        self,
        builder: EvidenceBuilder,
        hits: Sequence[Hit],
        find_further: Callable[[], tuple[Hit, ...]],
        notes: Sequence[str],
        token_budget: int,
    ) -> None:
        self._builder = builder
        self._hits = hits
        self._find_further = find_further
        self._notes = notes
        self._token_budget = token_budget
        self._built: dict[tuple[int, int], Evidence] = {}

    @cached_property
    def further(self) -> tuple[Hit, ...]:
        """Other units that were found in the documents of the hits."""
        return self._find_further()

    def build(self, token_budget: int | None = None, max_hits: int | None = None) -> Evidence:
        """Returns the evidence within a budget; None is the budget of the search, and every hit."""
        budget, count = key = (token_budget or self._token_budget, len(self._hits) if max_hits is None else max_hits)
        if key not in self._built:
            shown = self._hits[:count]
            documents = {hit.document_id for hit in shown}
            others = [hit for hit in (*self._hits[count:], *self.further) if hit.document_id in documents]
            # At most one for each hit: a caller who asks for one hit wants little.
            self._built[key] = self._builder.build(shown, budget, self._notes, others[: len(shown)])
        return self._built[key]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one question.

    Attributes:
        request_id: Given by the caller or made up; the same in trace, logs and answer.
        collection: Alias that was searched.
        intent: What the question wants, how it was searched and why.
        hits: Units, best first.
        filters: Filters that were applied.
        filters_inferred: What the question itself named, as preference or (when asked) as filter.
        notes: What a reader should know: a relaxed filter, a missing list.
        total_ms: Milliseconds of the whole search.
        stages: What every stage of the search recorded; `trace`, `facets` and `ranked_lists` read it.
        hit_evidence: Builds the evidence of the hits.
    """

    request_id: str
    collection: str
    intent: Intent
    hits: tuple[Hit, ...]
    filters: Mapping[str, Any]
    filters_inferred: Mapping[str, Any]
    notes: tuple[str, ...]
    total_ms: float
    stages: Trace = field(repr=False, compare=False)
    hit_evidence: HitEvidence = field(repr=False, compare=False)

    def evidence(self, token_budget: int | None = None, max_hits: int | None = None) -> str:
        """Returns the text that a model may read and quote: labelled fragments without any link.

        What the hits leave of the budget shows further sections of their documents, each with its own citation.

        Args:
            token_budget: Tokens of the whole text; None is the budget of the search.
            max_hits: Show only this many hits, the best ones; None shows all.
        """
        return self.evidence_block(token_budget, max_hits).text

    def evidence_block(self, token_budget: int | None = None, max_hits: int | None = None) -> Evidence:
        """Returns the evidence with its citations and what was left out of it; see `evidence`."""
        return self.hit_evidence.build(token_budget, max_hits)

    @property
    def further(self) -> tuple[Hit, ...]:
        """Other units that were found in the documents of the hits: evidence shows them where there is room."""
        return self.hit_evidence.further

    @property
    def trace(self) -> dict[str, Any]:
        """Lists, fusion, filters, thresholds, drops and times."""
        return self.stages.as_dict()

    @property
    def facets(self) -> dict[str, dict[str, int]]:
        """Counts over the candidates by field and value: what narrowing would leave."""
        return facets(find_collection(self.collection), self.stages.candidates())

    @property
    def citations(self) -> tuple[Citation, ...]:
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
        """Returns the rows of each list (``dense``, ``bm25``) as Milvus ranked them."""
        return {name: tuple(rows) for name, rows in self.stages.lists.items()}

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as one JSON object."""
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
            "trace": self.trace,
            "total_ms": round(self.total_ms, 2),
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Returns `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)


@dataclass(frozen=True, slots=True)
class SourceUnit:
    """One unit as a whole.

    Attributes:
        hit: The unit.
        text: Its text without links, within the budget.
        citation: What it is, with the label c1.
        truncated: Whether lines are missing.
        page: Number of the page; 0 is the best lines of the whole unit.
        pages: How many pages of this budget the unit has.
    """

    hit: Hit
    text: str
    citation: Citation
    truncated: bool
    page: int = 0
    pages: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "unit": self.hit.to_dict(),
            "text": self.text,
            "citation": dict(self.citation),
            "truncated": self.truncated,
            "page": self.page,
            "pages": self.pages,
        }
