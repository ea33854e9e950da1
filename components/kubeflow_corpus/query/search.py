"""One search, from a question to a result: the stages of the trace in their order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, Final

from kubeflow_corpus.collections import DOCS, ISSUES
from kubeflow_corpus.errors import (
    DeadlineExceeded,
    EmbedderMissing,
    EmbedderUnavailable,
    EmbeddingError,
)
from kubeflow_corpus.query.deadline import Deadline
from kubeflow_corpus.query.evidence import EvidenceBuilder
from kubeflow_corpus.query.filters import FilterValue, check_areas, expression
from kubeflow_corpus.query.fusion import Rows, interleave, merge
from kubeflow_corpus.query.hit import Hit
from kubeflow_corpus.query.intent import Intent, Question, bm25_text, content_words, precisions, read
from kubeflow_corpus.query.options import SearchRequest
from kubeflow_corpus.query.ranking import Ranked, Wording, coverage, light_fields, match_score, rank, rank_by_texts
from kubeflow_corpus.query.reader import Reader, Target
from kubeflow_corpus.query.rerank import Reranker
from kubeflow_corpus.query.results import HitEvidence, SearchResult
from kubeflow_corpus.query.trace import Trace
from kubeflow_corpus.query.tuning import (
    EMBEDDING_SHARE,
    READ_QUERY_CHARACTERS,
    RERANK_SHARE,
    Mode,
    Policy,
    Tuning,
)
from kubeflow_corpus.query.vectors import QueryVectors
from kubeflow_corpus.store.schema import MAX_WINDOW, check_model, keys_filter, strip_controls
from kubeflow_corpus.symptoms import stable_text
from kubeflow_corpus.tokens import TokenCounter

# A unit with more rows than this (a CRD with thousands of fields) is read whole by `get_unit` only.
MAX_UNIT_ROWS: Final = 400
_DATED: Final = 'release_date != ""'


@dataclass(frozen=True, slots=True)
class Engine:
    """What every search of a client shares.

    Attributes:
        reader: Milvus.
        vectors: Vectors of questions.
        pool: Runs the BM25 list beside the embedding and the dense list.
        tuning: Every number.
        counter: Counts the tokens of evidence.
        reranker: The second stage, where there is one.
        preload: Whether the model is loaded in this process: loading it is not part of a search.
    """

    reader: Reader
    vectors: QueryVectors
    pool: Executor
    tuning: Tuning
    counter: TokenCounter
    reranker: Reranker | None = None
    preload: bool = False

    def search(self, request: SearchRequest) -> SearchResult:
        """Answers one question.

        Raises:
            CorpusError: It could not be answered; `code` says why.
        """
        started = time.perf_counter()
        target = self.reader.target(request.spec, Deadline(request.timeout))
        check_areas(request.filters, target.vocabulary)
        question = read(clean_query(request.query), target.vocabulary)
        if self.preload:
            self.vectors.embedder()
        return _Run(self, request, question, target, started).answer()


def clean_query(text: str) -> str:
    """Returns a question as it is searched: no control characters, the middle of a pasted log left out."""
    text = strip_controls(text).strip()
    if len(text) > READ_QUERY_CHARACTERS:
        half = READ_QUERY_CHARACTERS // 2
        text = f"{text[:half]} {text[-half:]}"
    return text


class _Run:
    """The state of one search."""

    def __init__(
        self, engine: Engine, request: SearchRequest, question: Question, target: Target, started: float
    ) -> None:
        self._engine = engine
        self._request = request
        self._question = question
        self._words = content_words(question.text)
        self._target = target
        self._started = started
        # Opening an embedded database and its model, once a process, is not part of a search.
        self._deadline = Deadline(request.timeout)
        if engine.reader.embedded is False:
            self._deadline = Deadline(max(request.timeout - (time.perf_counter() - started), 0.001))
        self._trace = Trace(request.request_id, target.name)
        self._trace.add_stage("open", started)
        self._notes: list[str] = []
        self._reasons: list[str] = [question.reason]
        # For each unit that a list found: its rows, best first, and which lists found it.
        self._found: dict[str, tuple[tuple[str, ...], str]] = {}
        self._cosines: dict[str, float] = {}
        # Of a unit that the dense list does not hold: that of the list's end.
        self._least_cosine: float | None = None
        self._last_lists: dict[str, list[Rows]] = {}
        self._find_further: Callable[[], tuple[Hit, ...]] = tuple
        self._wordings: dict[str, Wording] = {}
        self._policy = self._choose_policy()
        self._mode = self._choose_mode()

    # ---- the stages

    def answer(self) -> SearchResult:
        request = self._request
        inferred = self._infer_filters()
        filters = {**request.filters, **(inferred if request.infer_filters else {})}
        hits, rankings = self._attempt(filters)
        if not hits and self._mode == "bm25" and not request.mode and "degraded" not in self._trace.data:
            # A typo in a key, or words that nobody wrote: meaning is all that is left.
            self._mode = "hybrid"
            self._note_mode("no answer by words alone: hybrid instead")
            hits, rankings = self._attempt(filters)
        if not hits and filters:
            known = ", ".join(f"{name}={_shown(value)}" for name, value in filters.items())
            self._notes.append(f"Nothing matches the filter {known}; it was left out.")
            self._trace.data["relaxed"] = {name: _shown(value) for name, value in filters.items()}
            filters = {}
            hits, rankings = self._attempt(filters)
        return self._make_result(tuple(hits), rankings, filters, inferred)

    def _attempt(self, filters: Mapping[str, FilterValue]) -> tuple[list[Hit], list[Ranked]]:
        rankings = self._rank_sides(filters)
        return self._select_hits(rankings), rankings

    def _choose_policy(self) -> Policy:
        policies = self._engine.tuning.policies
        name = self._question.intent
        if name in ("temporal", "release_date") and self._request.spec is not DOCS:
            # Only pages about releases carry release dates; elsewhere such a question is one like any other.
            name = "general"
        return policies[name]

    def _choose_mode(self) -> Mode:
        mode = self._request.mode or self._policy.mode
        if self._request.mode:
            self._reasons.append("mode given by the caller")
        if not self._target.bm25 and mode != "dense":
            self._note_mode("the collection has no BM25 list: dense only")
            return "dense"
        return mode

    def _note_mode(self, reason: str) -> None:
        self._reasons.append(reason)
        self._trace.data["degraded"] = reason

    def _infer_filters(self) -> dict[str, FilterValue]:
        question = self._question
        releases = tuple(sorted(precisions(question.versions)))
        inferred: dict[str, FilterValue] = {}
        if question.areas:
            inferred["product_area"] = question.areas
        if releases:
            inferred["version"] = releases
        return inferred

    def _rank_sides(self, filters: Mapping[str, FilterValue]) -> list[Ranked]:
        """Searches the question, and each side of a comparison, and ranks each."""
        request, question = self._request, self._question
        where = expression(filters, request.visibility)
        texts = [self._search_text(text) for text in (question.text, *question.sides)]
        lists = self._search_lists(texts, where)
        started = time.perf_counter()
        self._last_lists = lists
        sides = [
            question,
            *(
                replace(read(side, self._target.vocabulary), areas=question.areas, intent=question.intent, sides=())
                for side in question.sides
            ),
        ]
        fusion = request.fusion or self._engine.tuning.fusion
        rankings = [
            rank(
                {name: found[index] for name, found in lists.items()},
                side,
                request.spec,
                self._policy,
                fusion,
                self._engine.tuning.preferences,
                request.limit * self._engine.tuning.candidates + len(request.exclude),
            )
            for index, side in enumerate(sides)
        ]
        self._trace.add_stage("rank", started)
        self._trace.record_lists(
            where, self._mode, fusion, self._policy, {name: found[0] for name, found in lists.items()}
        )
        return rankings

    def _keep_found(self, lists: Mapping[str, list[Rows]], units: Sequence[str]) -> None:
        """Keeps, for the units whose text is fetched, which rows and lists found them."""
        ranks: dict[str, dict[str, float]] = {unit: {} for unit in units}
        modes: dict[str, set[str]] = {unit: set() for unit in units}
        self._least_cosine = min((rows.scores[-1] for rows in lists.get("dense", ()) if rows), default=None)
        for name, found in lists.items():
            for rows in found:
                # Hundreds of rows, of which a dozen belong to these units (bench_query).
                for place, unit in [(place, unit) for place, unit in enumerate(rows.units) if unit in ranks]:
                    row = rows.ids[place]
                    ranks[unit][row] = ranks[unit].get(row, 0.0) + 1 / (10 + place)
                    modes[unit].add(name)
                    if name == "dense":
                        self._cosines[unit] = max(rows.scores[place], self._cosines.get(unit, -1.0))
        self._found = {
            unit: (
                tuple(sorted(rows, key=lambda row: (-rows[row], row))),
                "hybrid" if len(modes[unit]) > 1 else next(iter(modes[unit])),
            )
            for unit, rows in ranks.items()
        }

    def _search_text(self, text: str) -> str:
        """Returns a question as the index of its collection reads texts."""
        if self._request.spec is not ISSUES:
            return text
        # Pod names, hashes and times of the person who asks are in no thread. A question that has nothing else is kept.
        return stable_text(text).strip() or text

    def _search_lists(self, texts: Sequence[str], where: str) -> dict[str, list[Rows]]:
        if self._mode == "bm25":
            self._check_model()
            return {"bm25": self._search_bm25(texts, where)}
        if self._mode == "dense":
            return {"dense": self._search_dense(texts, where)}
        sparse: Future[list[Rows]] = self._engine.pool.submit(self._search_bm25, texts, where)
        try:
            dense = self._search_dense(texts, where)
        except EmbedderUnavailable as error:
            # Words alone answer most questions nearly as well; the answer says so.
            self._mode = "bm25"
            self._note_mode(f"the embedding service does not answer: BM25 only ({error.problem})")
            self._notes.append("The embedding service does not answer: found by words only.")
            return {"bm25": self._wait_for(sparse)}
        return {"dense": dense, "bm25": self._wait_for(sparse)}

    def _wait_for(self, future: Future[list[Rows]]) -> list[Rows]:
        try:
            return future.result(timeout=self._deadline.left("bm25"))
        except FutureTimeout as error:
            raise self._deadline.exceeded("bm25") from error

    def _search_bm25(self, texts: Sequence[str], where: str) -> list[Rows]:
        started = time.perf_counter()
        data = [bm25_text(text) for text in texts]
        found = self._search(data, sparse=True, where=where)
        if self._question.intent in ("release_date", "temporal") and self._request.spec is DOCS:
            # Dates are in short units that long pages outrank, so dated units are searched separately as well.
            dated = self._search(data, sparse=True, where=f"{where} and {_DATED}" if where else _DATED)
            found = [merge(pair) for pair in zip(found, dated, strict=True)]
        self._trace.add_stage("bm25", started)
        return found

    def _search_dense(self, texts: Sequence[str], where: str) -> list[Rows]:
        self._check_model(needed=True)
        started = time.perf_counter()
        vectors = self._engine.vectors.embed(texts, self._deadline.left("embedding", EMBEDDING_SHARE))
        self._trace.add_stage("embedding", started)
        started = time.perf_counter()
        found = self._search(vectors, sparse=False, where=where)
        self._trace.add_stage("dense", started)
        return found

    def _search(self, data: Sequence[Any], *, sparse: bool, where: str) -> list[Rows]:
        return self._engine.reader.search(
            self._target,
            data,
            sparse=sparse,
            limit=self._policy.pool,
            expression=where,
            fields=light_fields(self._request.spec),
            deadline=self._deadline,
        )

    def _check_model(self, *, needed: bool = False) -> None:
        """Refuses a collection of another model; a BM25 list alone does not need the model's name to be known."""
        if not needed and self._request.mode == "bm25":
            return
        try:
            identity = self._engine.vectors.identity()
        except (EmbedderUnavailable, EmbedderMissing) as error:
            if needed:
                raise
            self._trace.data["model_unchecked"] = error.problem
            return
        check_model(self._target.properties, identity, self._target.name)

    # ---- from units to hits

    def _select_hits(self, rankings: list[Ranked]) -> list[Hit]:
        request, tuning = self._request, self._engine.tuning
        # The sides of a comparison come before the question as a whole, which often finds what is on neither.
        order = interleave([[*ranking.scores] for ranking in (*rankings[1:], rankings[0])])
        if request.exclude:
            for unit in filter(request.exclude.__contains__, order):
                self._trace.add_drop(unit, "excluded by the caller")
            order = [unit for unit in order if unit not in request.exclude]
        wanted = order[: max(request.limit * tuning.candidates, request.limit + 5)]
        if request.spec is DOCS and self._question.intent == "definition":
            # How a text begins tells what no heading says, and what a product is stands on one page of hundreds.
            wanted = order[: max(len(wanted), tuning.definition_pool)]
        if request.rerank and self._engine.reranker is not None:
            wanted = order[: max(len(wanted), tuning.rerank_pool)]
        self._keep_found(self._last_lists, wanted)
        texts = self._fetch_rows(wanted)
        units = self._look_again([unit for unit in wanted if unit in texts], texts, rankings)
        made: dict[str, Hit] = {}
        if request.rerank and self._engine.reranker is not None:
            every = [self._make_hit(unit, texts[unit]) for unit in units]
            made = {hit.unit_id: hit for hit in self._rerank(self._engine.reranker, every)}
            units = [*made]
        # Hits are made one by one, only as many as needed; evidence makes the rest (bench_query).
        rest = iter(units)
        hits = self._select((made.get(unit) or self._make_hit(unit, texts[unit]) for unit in rest), request.limit)
        self._find_further = partial(self._further_hits, [*rest], texts, made, hits)
        return hits

    def _look_again(
        self, units: list[str], texts: Mapping[str, list[dict[str, Any]]], rankings: list[Ranked]
    ) -> list[str]:
        """Returns pages in the order that their texts ask for; sides that take turns and dates keep their own."""
        question = self._question
        if self._request.spec is not DOCS or len(rankings) > 1 or question.intent in ("release_date", "temporal"):
            return units
        openings = {
            unit: "\n".join(str(row["content_text"]) for row in sorted(texts[unit], key=itemgetter("chunk_index")))
            for unit in units
        }
        return [*rank_by_texts(rankings[0], openings, question, self._engine.tuning.preferences)]

    def _further_hits(
        self,
        units: Sequence[str],
        texts: Mapping[str, list[dict[str, Any]]],
        made: Mapping[str, Hit],
        hits: Sequence[Hit],
    ) -> tuple[Hit, ...]:
        """Returns other units that were found in the documents of the hits: they fill what is left of the budget."""
        documents = {hit.document_id for hit in hits}
        others = (
            made.get(unit) or self._make_hit(unit, texts[unit])
            for unit in units
            if str(texts[unit][0]["document_id"]) in documents
        )
        return tuple(self._select(others, 2 * len(hits), hits)[len(hits) :])

    def _fetch_rows(self, units: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        if not units:
            return {}
        started = time.perf_counter()
        where = keys_filter("unit_id", list(units))
        if self._request.visibility is not None:
            where = f"{where} and {expression({}, self._request.visibility)}"
        limit = min(MAX_WINDOW, len(units) * MAX_UNIT_ROWS)
        rows = self._engine.reader.query(
            self._target, where, self._request.spec.output_fields, limit=limit, deadline=self._deadline
        )
        grouped: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            grouped.setdefault(str(row["unit_id"]), []).append(row)
        self._trace.add_stage("fetch", started)
        return grouped

    def _make_hit(self, unit: str, rows: list[dict[str, Any]]) -> Hit:
        matched, mode = self._found[unit]
        hit = Hit.of(rows, self._request.spec.detail_fields, score=0.0, mode=mode, matched=matched)
        cosine = self._cosines.get(unit, self._least_cosine)
        return replace(hit, score=match_score(cosine, self._coverage(hit)))

    def _coverage(self, hit: Hit) -> float:
        return coverage(self._words, f"{hit.title} {hit.section_path} {hit.content_text}")

    def _rerank(self, reranker: Reranker, candidates: list[Hit]) -> list[Hit]:
        if len(candidates) < 2:
            return candidates
        started = time.perf_counter()
        texts = [f"{hit.title} > {hit.section_path}\n{hit.content_text}" for hit in candidates]
        try:
            scores = reranker.scores(self._question.text, texts, self._deadline.left("rerank", RERANK_SHARE))
        except (EmbeddingError, DeadlineExceeded) as error:
            # The texts are here: the fused order answers as well as without a second stage.
            self._trace.data["rerank"] = f"skipped: {error.problem}"
            return candidates
        self._trace.add_stage("rerank", started)
        ordered = sorted(zip(candidates, scores, strict=True), key=lambda pair: (-pair[1], pair[0].unit_id))
        self._trace.data["rerank"] = [{"unit_id": hit.unit_id, "score": round(score, 4)} for hit, score in ordered]
        return [hit for hit, _ in ordered]

    def _select(self, candidates: Iterator[Hit], limit: int, selected: Sequence[Hit] = ()) -> list[Hit]:
        """Adds candidates to the selected hits up to a limit; drops those that do not answer and near-duplicates."""
        request, tuning = self._request, self._engine.tuning
        threshold = tuning.thresholds[request.spec.alias]
        kept = list(selected)
        while len(kept) < limit and (hit := next(candidates, None)) is not None:
            cosine = self._cosines.get(hit.unit_id)
            if (cosine is None or cosine < threshold.cosine) and (covered := self._coverage(hit)) < threshold.coverage:
                shown = "none" if cosine is None else f"{cosine:.2f}"
                self._trace.add_drop(hit.unit_id, f"below the threshold: cosine {shown}, words {covered:.2f}")
                continue
            if hit.score < request.min_score:
                self._trace.add_drop(hit.unit_id, f"score {hit.score:.3f} below {request.min_score}")
                continue
            twin = next((place for place, other in enumerate(kept) if self._is_duplicate(other, hit)), None)
            if twin is None:
                kept.append(hit)
                continue
            self._trace.add_drop(hit.unit_id, f"says the same as {kept[twin].unit_id}")
            place = f"{hit.repo}:{hit.file_path}"
            if place not in (f"{kept[twin].repo}:{kept[twin].file_path}", *kept[twin].also_at):
                kept[twin] = replace(kept[twin], also_at=(*kept[twin].also_at, place))
        return kept

    def _is_duplicate(self, kept: Hit, hit: Hit) -> bool:
        if self._question.versions and kept.version != hit.version:
            # The same sentence about two releases is two answers to a question about one of them.
            return False
        return self._wording(kept).is_near_duplicate_of(self._wording(hit), self._engine.tuning.near_duplicate)

    def _wording(self, hit: Hit) -> Wording:
        if hit.unit_id not in self._wordings:
            self._wordings[hit.unit_id] = Wording(hit.content_text)
        return self._wordings[hit.unit_id]

    def _make_result(
        self,
        hits: tuple[Hit, ...],
        rankings: list[Ranked],
        filters: Mapping[str, FilterValue],
        inferred: Mapping[str, FilterValue],
    ) -> SearchResult:
        request, question, tuning = self._request, self._question, self._engine.tuning
        shown = {name: _shown(value) for name, value in filters.items()}
        self._trace.record_hits(hits, rankings, tuning.thresholds[request.spec.alias])
        total = (time.perf_counter() - self._started) * 1000
        self._trace.finish(total, self._mode, question, shown)
        builder = EvidenceBuilder(self._words, self._engine.counter, tuning.unit_tokens)
        return SearchResult(
            request_id=request.request_id,
            collection=request.spec.alias,
            intent=Intent(question.intent, self._mode, "; ".join(self._reasons)),
            hits=hits,
            filters=shown,
            filters_inferred={name: _shown(value) for name, value in inferred.items()},
            notes=tuple(self._notes),
            total_ms=total,
            stages=self._trace,
            hit_evidence=HitEvidence(builder, hits, self._find_further, self._notes, request.token_budget),
        )


def _shown(value: FilterValue) -> Any:
    return list(value) if isinstance(value, tuple) else value
