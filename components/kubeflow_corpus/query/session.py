"""What the clients and their views share: one engine, its limits, and the work behind every call."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kubeflow_corpus.collections import COLLECTIONS, FILTERS, CollectionSpec, find_collection
from kubeflow_corpus.embedding.embedder import Embedder
from kubeflow_corpus.errors import (
    CollectionNotFound,
    CorpusError,
    DeadlineExceeded,
    InvalidArgument,
    QueryError,
    UnitNotFound,
)
from kubeflow_corpus.milvus import load_pymilvus
from kubeflow_corpus.query.citations import citation
from kubeflow_corpus.query.deadline import Deadline
from kubeflow_corpus.query.evidence import HEADER, EvidenceBuilder
from kubeflow_corpus.query.filters import expression, groups_of, validated
from kubeflow_corpus.query.hit import Hit
from kubeflow_corpus.query.intent import read
from kubeflow_corpus.query.options import SearchRequest
from kubeflow_corpus.query.reader import Reader
from kubeflow_corpus.query.rerank import Reranker
from kubeflow_corpus.query.results import SearchResult, SourceUnit
from kubeflow_corpus.query.search import Engine
from kubeflow_corpus.query.trace import log_failure, log_unshown
from kubeflow_corpus.query.tuning import SETUP_TIMEOUT_SECONDS, Tuning
from kubeflow_corpus.query.vectors import QueryVectors
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.schema import MAX_WINDOW, PUBLIC_PROPERTIES, keys_filter
from kubeflow_corpus.tokens import ApproximateCounter
from kubeflow_corpus.vocabulary import Vocabulary

if TYPE_CHECKING:
    from kubeflow_corpus.query.question_log import QuestionLog

Result = TypeVar("Result")

# How long a call waits for its turn; its deadline starts with the turn.
QUEUE_SECONDS: Final = 60.0
# Known values are cached by version, field and groups; callers of many groups must not fill the memory.
CACHED_VALUES: Final = 256
# What a unit may be asked by, beside its key.
_ADDRESS: Final = re.compile(r"https?://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Session:
    """One open corpus as one client or view sees it. Views are copies with another visibility or tuning.

    Attributes:
        engine: Searches.
        pool: Runs the BM25 list of a search beside its embedding and its dense list.
        turns: Calls that run at once.
        visibility: Groups whose rows may be seen beside the public ones; None sees every row.
        timeout: Seconds of a search that names no other time.
        log: Keeps the questions; None keeps none.
        owns_embedder: Whether closing the session closes the embedder.
        values: Known values by version, field and groups.
    """

    engine: Engine
    pool: ThreadPoolExecutor
    turns: threading.BoundedSemaphore
    visibility: tuple[str, ...] | None
    timeout: float
    owns_embedder: bool
    log: QuestionLog | None = None
    values: dict[tuple[str, str, tuple[str, ...] | None], dict[str, int]] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        settings: Settings,
        embedder: Embedder | None,
        reader: Reader,
        *,
        tuning: Tuning,
        visibility: tuple[str, ...] | None,
        timeout: float,
        max_concurrent: int,
    ) -> Session:
        """Prepares a session; connections are opened by the first call.

        Args:
            settings: Where everything is.
            embedder: The caller's own; None makes one from the settings at first use.
            reader: Reads Milvus.
            tuning: Every number of a search.
            visibility: Groups whose rows may be seen; None sees every row.
            timeout: Seconds of a search.
            max_concurrent: Calls that run at once.
        """
        # An import of a second or two must not eat the deadline of the first search.
        load_pymilvus()
        pool = ThreadPoolExecutor(max_workers=max_concurrent, thread_name_prefix="corpus-list")
        engine = Engine(
            reader=reader,
            vectors=QueryVectors(lambda: _make_embedder(settings) if embedder is None else embedder),
            pool=pool,
            tuning=tuning,
            # The same evidence whatever is installed, at a tenth of the time that a tokenizer takes.
            counter=ApproximateCounter(),
            reranker=Reranker.from_settings(settings),
            preload=embedder is None and not settings.embeddings_url,
        )
        turns = threading.BoundedSemaphore(max_concurrent)
        log = _open_log(settings) if settings.question_log else None
        return cls(engine, pool, turns, visibility, timeout, owns_embedder=embedder is None, log=log)

    def scoped(self, visibility: Sequence[str]) -> Session:
        """Returns a session that sees the rows of these groups, as far as this one sees them."""
        own, asked = self.visibility, groups_of(visibility) or ()
        return replace(self, visibility=asked if own is None else tuple(name for name in asked if name in own))

    def tuned(self, tuning: Tuning) -> Session:
        """Returns a session that ranks by other numbers."""
        return replace(self, engine=replace(self.engine, tuning=tuning))

    def search(self, collection: str, query: str, options: Mapping[str, Any]) -> SearchResult:
        """Searches one collection; `options` are the keywords of `CollectionOptions`."""
        spec = find_collection(collection)
        request = SearchRequest.of(spec, query, options, visibility=self.visibility, timeout=self.timeout)
        started = time.perf_counter()
        try:
            result = self._in_turn(lambda: self.engine.search(request))
        except CorpusError as error:
            total_ms = (time.perf_counter() - started) * 1000
            log_failure(request.request_id, spec.alias, error.code, total_ms)
            if self.log is not None:
                self.log.record_failure(request.request_id, spec.name, query, error.code, total_ms)
            raise
        if self.log is not None:
            self.log.record(spec.name, query, result)
        return result

    def report_answer(self, request_id: str, helpful: bool, note: str) -> bool:
        """Keeps what somebody says of an answer; False where no log has its question."""
        return self.log is not None and self.log.report(request_id, helpful, note)

    def unit(self, unit_id: str, collection: str, token_budget: int, page: int) -> SourceUnit:
        """Returns a unit as a whole, or one page of it."""
        return self._in_turn(lambda: self._unit(unit_id, collection, token_budget, page))

    def neighbours(self, unit_id: str, before: int, after: int, collection: str) -> tuple[Hit, ...]:
        """Returns the units before and after a unit, in document order."""
        return self._in_turn(lambda: self._neighbours(unit_id, before, after, collection))

    def known_values(self, collection: str, name: str, timeout: float) -> dict[str, int]:
        """Returns the values of a field with their row counts, of the rows that may be seen."""
        spec = find_collection(collection)
        validated(spec, {name: None})
        deadline = Deadline(timeout)
        reader = self.engine.reader
        target = reader.target(spec, deadline)
        key = (target.name, name, self.visibility)
        values = self.values.get(key)
        if values is None:
            values = reader.distinct(
                target, FILTERS[name].field if name in FILTERS else name, expression({}, self.visibility), deadline
            )
            if len(self.values) >= CACHED_VALUES:
                self.values.clear()
            self.values[key] = values
        return dict(values)

    def every_row(
        self, collection: str, fields: Sequence[str], only: Mapping[str, Sequence[str]], timeout: float
    ) -> list[dict[str, Any]]:
        """Returns fields of every row that may be seen and has the given values."""
        deadline = Deadline(timeout)
        reader = self.engine.reader
        spec = find_collection(collection)
        texts = {field.name for field in spec.fields if field.kind == "text"}
        for name in only:
            if name not in texts:
                raise InvalidArgument(f"{spec.alias} has no field of texts {name!r}", argument="only")
        terms = [keys_filter(name, list(values)) for name, values in only.items()]
        where = " and ".join(filter(None, (*terms, expression({}, self.visibility))))
        return reader.every_row(reader.target(spec, deadline), fields, where, deadline)

    def served_version(self, collection: str) -> str:
        """Returns the physical name of the version that is read."""
        deadline = Deadline(max(self.timeout, SETUP_TIMEOUT_SECONDS))
        return self.engine.reader.target(find_collection(collection), deadline).name

    def properties(self, collection: str) -> dict[str, str]:
        """Returns what the served version records about itself; to groups, nothing that is about rows of all groups."""
        target = self.engine.reader.target(
            find_collection(collection), Deadline(max(self.timeout, SETUP_TIMEOUT_SECONDS))
        )
        every = self.visibility is None
        return {
            str(name): str(value) for name, value in target.properties.items() if every or name in PUBLIC_PROPERTIES
        }

    def vocabulary(self, collection: str) -> Vocabulary:
        """Returns the words of the project that a collection is of."""
        return self.engine.reader.target(
            find_collection(collection), Deadline(max(self.timeout, SETUP_TIMEOUT_SECONDS))
        ).vocabulary

    def warm_up(self, collections: Iterable[str]) -> None:
        """Opens what the first search would open; no names are all collections that exist."""
        names = tuple(collections)
        for spec in map(find_collection, names) if names else COLLECTIONS:
            try:
                # The rules of the router are compiled by the first question.
                read("warm up", self.vocabulary(spec.name))
            except CollectionNotFound:
                if names:
                    raise
        self.engine.vectors.identity()
        self.engine.vectors.embed(["warm up"], SETUP_TIMEOUT_SECONDS)

    def close(self) -> None:
        """Closes connections, threads and the model, of this session and of every copy."""
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.engine.reader.close()
        if self.engine.reranker is not None:
            self.engine.reranker.close()
        if self.owns_embedder:
            self.engine.vectors.close()
        if self.log is not None:
            self.log.close()

    # ---- units

    def _in_turn(self, work: Callable[[], Result]) -> Result:
        if not self.turns.acquire(timeout=QUEUE_SECONDS):
            raise DeadlineExceeded(
                f"No turn within {QUEUE_SECONDS:g} s: too many searches at once",
                remedy="Raise max_concurrent, or ask less at once",
                stage="queue",
            )
        try:
            return work()
        finally:
            self.turns.release()

    def _rows(self, where: str, collection: str) -> tuple[CollectionSpec, list[dict[str, Any]]]:
        """Returns the rows that an expression matches, from the first collection that has any."""
        where = " and ".join(filter(None, (where, expression({}, self.visibility))))
        specs = (find_collection(collection),) if collection else COLLECTIONS
        reader, missing = self.engine.reader, []
        for spec in specs:
            deadline = Deadline(self.timeout)
            try:
                target = reader.target(spec, deadline)
            except CollectionNotFound as error:
                missing.append(error)
                continue
            if reader.embedded:
                deadline = Deadline(self.timeout)
            rows = reader.query(target, where, spec.output_fields, limit=MAX_WINDOW, deadline=deadline)
            if rows:
                return spec, rows
        if len(missing) == len(specs):
            raise missing[0]
        return specs[-1], []

    def _unit_rows(self, unit_id: str, collection: str) -> tuple[CollectionSpec, list[dict[str, Any]]]:
        field = "citation_url" if _ADDRESS.match(unit_id) else "unit_id"
        spec, rows = self._rows(keys_filter(field, [unit_id]), collection)
        # Several objects of one file may share its address: the first of them is meant.
        rows.sort(key=lambda row: (row["chunk_index"], row["id"]))
        rows = [row for row in rows if row["unit_id"] == rows[0]["unit_id"]]
        if not rows:
            raise UnitNotFound(
                f"There is no unit {unit_id[:200]!r}",
                remedy="Take unit_id or url from a hit or a citation; after a rebuild a section may have moved",
                unit_id=unit_id[:200],
            )
        return spec, rows

    def _unit(self, unit_id: str, collection: str, token_budget: int, page: int) -> SourceUnit:
        spec, rows = self._unit_rows(unit_id, collection)
        try:
            return self._whole(_hit(spec, rows), token_budget, page)
        except InvalidArgument:
            raise
        except Exception as error:
            # A text that breaks us is our own defect; the error names the unit all the same.
            log_unshown(unit_id, error)
            raise QueryError(
                f"The unit {unit_id[:200]!r} is stored, but it cannot be shown",
                remedy="Other units are not affected. Read it at the address of its citation; the log says why",
                unit_id=unit_id[:200],
            ) from error

    def _whole(self, hit: Hit, token_budget: int, page: int) -> SourceUnit:
        builder = EvidenceBuilder(counter=self.engine.counter)
        passage = builder.labelled(hit, "c1", token_budget)
        pages = builder.pages(hit, "c1", token_budget) if passage.cut or page else [passage]
        if page > len(pages):
            raise InvalidArgument(
                f"There is no page {page}", remedy=f"The unit has {len(pages)} of this budget", argument="page"
            )
        passage = pages[page - 1] if page else passage
        cited = citation(hit, "c1", passage.links)
        return SourceUnit(hit, f"{HEADER}\n\n{passage.text}", cited, passage.cut, page, len(pages))

    def _neighbours(self, unit_id: str, before: int, after: int, collection: str) -> tuple[Hit, ...]:
        spec, rows = self._unit_rows(unit_id, collection)
        _, document = self._rows(keys_filter("document_id", [str(rows[0]["document_id"])]), spec.alias)
        units: dict[str, list[dict[str, Any]]] = {}
        for row in sorted(document, key=lambda row: (row["chunk_index"], row["id"])):
            units.setdefault(str(row["unit_id"]), []).append(row)
        order = [*units]
        place = order.index(str(rows[0]["unit_id"]))
        near = order[max(place - before, 0) : place] + order[place + 1 : place + 1 + after]
        return tuple(_hit(spec, units[unit]) for unit in near)


def _make_embedder(settings: Settings) -> Embedder:
    from kubeflow_corpus.embedding.factory import embedder_from_settings

    return embedder_from_settings(settings, for_queries=True)


def _open_log(settings: Settings) -> QuestionLog:
    # Few programs keep a log, and importing its database takes as long as a search.
    from kubeflow_corpus.query.question_log import QuestionLog

    return QuestionLog(Path(settings.question_log), settings.question_log_days)


def _hit(spec: CollectionSpec, rows: Sequence[Mapping[str, Any]]) -> Hit:
    return Hit.of(rows, spec.detail_fields, score=1.0, mode="bm25", matched=[str(row["id"]) for row in rows])
