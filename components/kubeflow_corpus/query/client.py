"""The query library's face: `CorpusClient`, and `AsyncCorpusClient` for event loops.

::

    from kubeflow_corpus import CorpusClient

    with CorpusClient.from_env() as client:
        result = client.search_docs("how do I cache a step?", version="v2")
        print(result.evidence())       # for the model: labelled fragments without links
        print(result.citations)        # for the reader: what each label is
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kubeflow_corpus.embedding.embedder import Embedder
from kubeflow_corpus.errors import CollectionNotFound, CorpusError, DeadlineExceeded, QueryError, UnitNotFound
from kubeflow_corpus.milvus import load_pymilvus
from kubeflow_corpus.query.citations import citation
from kubeflow_corpus.query.deadline import Deadline
from kubeflow_corpus.query.evidence import HEADER, EvidenceBuilder, heading_of
from kubeflow_corpus.query.filters import expression, groups_of, validated
from kubeflow_corpus.query.intent import read
from kubeflow_corpus.query.reader import Reader, Target
from kubeflow_corpus.query.rerank import Reranker
from kubeflow_corpus.query.results import Hit, SearchResult
from kubeflow_corpus.query.search import Engine, Request
from kubeflow_corpus.query.trace import log_failure, log_unshown
from kubeflow_corpus.query.tuning import (
    DEFAULT_LIMIT,
    DEFAULT_TIMEOUT_SECONDS,
    DEFAULT_TOKEN_BUDGET,
    DEFAULT_TUNING,
    Fusion,
    Mode,
    Tuning,
)
from kubeflow_corpus.query.vectors import QueryVectors
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.schema import CODE, COLLECTIONS, DOCS, ISSUES, MAX_WINDOW, CollectionSpec, collection_spec
from kubeflow_corpus.store.schema import keys_filter as _keys_filter
from kubeflow_corpus.tokens import ApproximateCounter

__all__ = ["AsyncCorpusClient", "CorpusClient", "SearchResult", "SourceUnit"]

Result = TypeVar("Result")
Values = str | Sequence[str] | None

# Searches that run at once; others wait for their turn, and their deadline starts with it.
MAX_CONCURRENT: Final = 8
QUEUE_SECONDS: Final = 60.0
# What `get_unit` gives unless told otherwise: a whole section or thread, most of a CRD.
UNIT_TOKEN_BUDGET: Final = 8_000
# Known values are remembered by version, field and groups; callers of many groups must not fill the memory.
REMEMBERED_VALUES: Final = 256


@dataclass(frozen=True, slots=True)
class SourceUnit:
    """One unit as a whole.

    Attributes:
        hit: The unit.
        text: Its text without links, within the budget.
        citation: What it is, with the label c1.
        truncated: Whether lines are missing.
    """

    hit: Hit
    text: str
    citation: Mapping[str, Any]
    truncated: bool

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "unit": self.hit.to_dict(),
            "text": self.text,
            "citation": dict(self.citation),
            "truncated": self.truncated,
        }


@dataclass(slots=True)
class _Shared:
    """What a client and its scoped views have in common."""

    engine: Engine
    pool: ThreadPoolExecutor
    turns: threading.BoundedSemaphore
    values: dict[tuple[str, str, tuple[str, ...] | None], dict[str, int]] = field(default_factory=dict)
    owns_embedder: bool = True


class CorpusClient:
    """Searches the three collections. Safe for many threads; opens nothing before the first search.

    Args:
        milvus_uri: A ``.db`` path or an http(s) URL; empty takes ``MILVUS_URI``'s value from `settings`.
        embeddings: Address of a text-embeddings-inference service, or an `Embedder`; empty is the embedded model.
        settings: Everything else (credentials, database, prefix, reranker); None is nothing but the two above.
        collections: Physical names to read instead of the aliases, by alias: to evaluate a candidate.
        tuning: Every number that shapes a ranking.
        visibility: Groups whose rows may be seen beside the public ones; None sees every row.
        timeout: Seconds that one search may take.
        max_concurrent: Searches that run at once.
        reader: What reads Milvus; None makes one of the settings. It is closed with the client.
    """

    def __init__(
        self,
        *,
        milvus_uri: str = "",
        embeddings: str | Embedder = "",
        settings: Settings | None = None,
        collections: Mapping[str, str] | None = None,
        tuning: Tuning = DEFAULT_TUNING,
        visibility: Sequence[str] | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        max_concurrent: int = MAX_CONCURRENT,
        reader: Reader | None = None,
    ) -> None:
        # A wrong argument is refused before anything is opened.
        self._visibility = groups_of(visibility)
        given = settings or Settings()
        if milvus_uri:
            given = replace(given, milvus_uri=milvus_uri)
        if isinstance(embeddings, str) and embeddings:
            given = replace(given, embeddings_url=embeddings.rstrip("/"))
        given.require_milvus_uri()
        # An import of a second or two must not eat the deadline of the first search.
        load_pymilvus()
        embedder = None if isinstance(embeddings, str) else embeddings
        pool = ThreadPoolExecutor(max_workers=max_concurrent, thread_name_prefix="corpus-list")
        engine = Engine(
            reader=reader or Reader(given, collections),
            vectors=QueryVectors((lambda: embedder) if embedder is not None else (lambda: _embedder(given))),
            pool=pool,
            tuning=tuning,
            # The same evidence whatever is installed, at a tenth of the time that a tokenizer takes.
            counter=ApproximateCounter(),
            reranker=Reranker.from_settings(given),
            preload=embedder is None and not given.embeddings_url,
        )
        self._shared = _Shared(engine, pool, threading.BoundedSemaphore(max_concurrent), owns_embedder=embedder is None)
        self._timeout = timeout

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **options: Any) -> Self:
        """Makes a client of the environment (``MILVUS_URI``, ``EMBEDDINGS_URL``, ...).

        Args:
            environ: Instead of the process environment.
            **options: Further arguments of the class.

        Raises:
            SettingsError: A variable is missing or wrong.
        """
        return cls(settings=Settings.from_env(environ), **options)

    def scoped(self, visibility: Sequence[str]) -> CorpusClient:
        """Returns a view on this client that sees public rows and those of the given groups only.

        For servers: a caller of the view cannot widen it. It shares connections; closing the client closes it.

        Args:
            visibility: Groups; none at all is the public rows alone.

        Raises:
            TypeError: It is one text instead of a list of groups.
        """
        held, asked = self._visibility, groups_of(visibility) or ()
        return self._view(self._shared, asked if held is None else tuple(name for name in asked if name in held))

    def tuned(self, tuning: Tuning) -> CorpusClient:
        """Returns a view on this client that ranks by other numbers: to compare settings over one connection.

        It shares connections and vectors; closing the client closes it.
        """
        return self._view(replace(self._shared, engine=replace(self._shared.engine, tuning=tuning)), self._visibility)

    def _view(self, shared: _Shared, visibility: tuple[str, ...] | None) -> CorpusClient:
        view = object.__new__(type(self))
        view._shared, view._visibility, view._timeout = shared, visibility, self._timeout
        return view

    def search_docs(
        self, query: str, product_area: Values = None, version: Values = None, **options: Any
    ) -> SearchResult:
        """Searches the documentation: concepts, guides, settings, releases.

        Args:
            query: A question or keywords.
            product_area: Only these products (a name or several).
            version: Only these versions.
            **options: See `search`.

        Raises:
            CorpusError: The question could not be answered; `code` says why.
        """
        return self.search(DOCS.alias, query, product_area=product_area, version=version, **options)

    def search_issues(
        self, query: str, product_area: Values = None, state: Values = None, **options: Any
    ) -> SearchResult:
        """Searches issue threads: symptoms, errors, and how they were resolved.

        Args:
            query: A symptom, an error message or keywords.
            product_area: Only these products.
            state: ``open`` or ``closed``.
            **options: See `search`.

        Raises:
            CorpusError: The question could not be answered; `code` says why.
        """
        return self.search(ISSUES.alias, query, product_area=product_area, state=state, **options)

    def search_code(self, query: str, product_area: Values = None, kind: Values = None, **options: Any) -> SearchResult:
        """Searches source code by symbol, and CRDs, ConfigMaps and other manifests whole.

        Args:
            query: A name, a setting, an error constant or keywords.
            product_area: Only these products.
            kind: Only these kinds of object or symbol (``ConfigMap``, ``CustomResourceDefinition``, ``function``).
            **options: See `search`.

        Raises:
            CorpusError: The question could not be answered; `code` says why.
        """
        return self.search(CODE.alias, query, product_area=product_area, kind=kind, **options)

    def search(
        self,
        collection: str,
        query: str,
        *,
        limit: int = DEFAULT_LIMIT,
        mode: Mode | None = None,
        fusion: Fusion | None = None,
        token_budget: int = DEFAULT_TOKEN_BUDGET,
        exclude: Iterable[str] = (),
        infer_filters: bool = False,
        rerank: bool = True,
        min_score: float = 0.0,
        timeout: float | None = None,
        request_id: str = "",
        **filters: Any,
    ) -> SearchResult:
        """Searches one collection by its alias.

        Args:
            collection: ``kubeflow_docs``, ``issues_rag`` or ``code_rag``.
            query: A question or keywords.
            limit: Hits.
            mode: ``hybrid``, ``dense`` or ``bm25``; None lets the question decide.
            fusion: ``weighted`` or ``rrf``; None is the measured default.
            token_budget: Tokens of the evidence.
            exclude: Units that were shown already.
            infer_filters: Makes filters of the product and version that the question names; they are preferences
                otherwise.
            rerank: Whether the second stage runs, where ``RERANK_URL`` names one.
            min_score: Least score of a hit.
            timeout: Seconds; None is the client's.
            request_id: For trace and logs; made up where there is none.
            **filters: By name, see `kubeflow_corpus.query.filters.FILTERS`.

        Raises:
            InvalidArgument: An argument is wrong; the error names the known values.
            CollectionNotFound: There is no such alias.
            ModelMismatch: The collection was embedded with another model.
            StoreUnavailable: Milvus does not answer.
            EmbedderUnavailable: The dense list was asked for and the embedding service does not answer. A hybrid
                search then answers by words alone, and says so in `notes`, `intent.reason` and the trace.
            DeadlineExceeded: It took too long.
        """
        spec = collection_spec(collection)
        request = Request(
            spec=spec,
            query=query,
            filters=validated(spec, filters),
            visibility=self._visibility,
            limit=limit,
            mode=mode,
            fusion=fusion,
            token_budget=token_budget,
            exclude=frozenset([exclude] if isinstance(exclude, str) else exclude),
            infer_filters=infer_filters,
            rerank=rerank,
            min_score=min_score,
            timeout=self._timeout if timeout is None else timeout,
            request_id=request_id or uuid.uuid4().hex,
        )
        started = time.perf_counter()
        try:
            return self._in_turn(lambda: self._shared.engine.search(request))
        except CorpusError as error:
            log_failure(request.request_id, spec.alias, error.code, (time.perf_counter() - started) * 1000)
            raise

    def get_unit(self, unit_id: str, *, collection: str = "", token_budget: int = UNIT_TOKEN_BUDGET) -> SourceUnit:
        """Returns a whole section, thread, symbol or object.

        Args:
            unit_id: From a hit or a citation.
            collection: Alias; empty looks into all three.
            token_budget: Tokens of the text.

        Raises:
            UnitNotFound: There is no such unit, or it may not be seen.
            QueryError: This unit cannot be shown; others are not affected.
        """
        return self._in_turn(lambda: self._unit(unit_id, collection, token_budget))

    def neighbours(self, unit_id: str, *, before: int = 1, after: int = 1, collection: str = "") -> tuple[Hit, ...]:
        """Returns the units that stand before and after a unit in its document, in document order.

        Args:
            unit_id: From a hit or a citation.
            before: How many before it.
            after: How many after it.
            collection: Alias; empty looks into all three.

        Raises:
            UnitNotFound: There is no such unit, or it may not be seen.
        """
        return self._in_turn(lambda: self._neighbours(unit_id, before, after, collection))

    def known_values(self, collection: str, name: str, *, timeout: float = 30.0) -> dict[str, int]:
        """Returns the values of a field with their row counts, of the rows that this client or view may see.

        It is what a filter can ask for.

        Args:
            collection: Alias.
            name: Field, such as ``kind`` or ``version``.
            timeout: Seconds; the whole field is read once for each version of the collection and each set of groups.
        """
        spec = collection_spec(collection)
        validated(spec, {name: None})
        deadline = Deadline(timeout)
        reader = self._shared.engine.reader
        target = reader.target(spec, deadline)
        remembered, key = self._shared.values, (target.name, name, self._visibility)
        values = remembered.get(key)
        if values is None:
            values = reader.distinct(target, name, expression({}, self._visibility), deadline)
            if len(remembered) >= REMEMBERED_VALUES:
                remembered.clear()
            remembered[key] = values
        return dict(values)

    def properties(self, collection: str) -> dict[str, str]:
        """Returns what the served version records of itself: model, chunker, heads of its sources.

        Args:
            collection: Alias.

        Raises:
            CollectionNotFound: There is no such alias.
        """
        target = self._shared.engine.reader.target(collection_spec(collection), Deadline(max(self._timeout, 30.0)))
        return {str(name): str(value) for name, value in target.properties.items()}

    def warm_up(self, collections: Iterable[str] = ()) -> None:
        """Opens connections and loads the model now, so that the first search is as fast as the others.

        Args:
            collections: Aliases; empty is every one that exists.

        Raises:
            CorpusError: Milvus or the embedding service does not answer.
        """
        engine = self._shared.engine
        names = tuple(collections)
        for name in names or COLLECTIONS:
            try:
                engine.reader.target(collection_spec(name), Deadline(max(self._timeout, 30.0)))
            except CollectionNotFound:
                if names:
                    raise
        # The rules of the router are compiled by the first question.
        read("warm up")
        engine.vectors.identity()
        engine.vectors.embed(["warm up"], 30.0)

    def close(self) -> None:
        """Gives connections, threads and the model back."""
        self._shared.pool.shutdown(wait=True, cancel_futures=True)
        self._shared.engine.reader.close()
        if self._shared.engine.reranker is not None:
            self._shared.engine.reranker.close()
        if self._shared.owns_embedder:
            self._shared.engine.vectors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- units

    def _in_turn(self, work: Callable[[], Result]) -> Result:
        turns = self._shared.turns
        if not turns.acquire(timeout=QUEUE_SECONDS):
            raise DeadlineExceeded(
                f"No turn within {QUEUE_SECONDS:g} s: too many searches at once",
                remedy="Raise max_concurrent, or ask less at once",
                stage="queue",
            )
        try:
            return work()
        finally:
            turns.release()

    def _rows(self, where: str, collection: str) -> tuple[CollectionSpec, list[dict[str, Any]]]:
        """Returns the rows that an expression matches, from the first collection that has any."""
        where = " and ".join(filter(None, (where, expression({}, self._visibility))))
        specs = (collection_spec(collection),) if collection else tuple(COLLECTIONS.values())
        engine, missing = self._shared.engine, []
        for spec in specs:
            deadline = Deadline(self._timeout)
            try:
                target: Target = engine.reader.target(spec, deadline)
            except CollectionNotFound as error:
                missing.append(error)
                continue
            if engine.reader.embedded:
                deadline = Deadline(self._timeout)
            rows = engine.reader.query(target, where, spec.output_fields, limit=MAX_WINDOW, deadline=deadline)
            if rows:
                return spec, rows
        if len(missing) == len(specs):
            raise missing[0]
        return specs[-1], []

    def _unit(self, unit_id: str, collection: str, token_budget: int) -> SourceUnit:
        spec, rows = self._rows(_keys_filter("unit_id", [unit_id]), collection)
        if not rows:
            raise _no_unit(unit_id)
        try:
            return self._whole(_hit(spec, rows), token_budget)
        except Exception as error:
            # A text that we do not foresee is a defect of ours, and no reason for an error that names nothing.
            log_unshown(unit_id, error)
            raise QueryError(
                f"The unit {unit_id[:200]!r} is held, but it cannot be shown",
                remedy="Other units are not affected. Read it at the address of its citation; the log says why",
                unit_id=unit_id[:200],
            ) from error

    def _whole(self, hit: Hit, token_budget: int) -> SourceUnit:
        builder = EvidenceBuilder(counter=self._shared.engine.counter)
        passage = builder.passage(hit, token_budget)
        text = f"{HEADER}\n\n[c1] {heading_of(hit)}\n{passage.text}"
        return SourceUnit(hit, text, citation(hit, "c1", passage.links), passage.cut)

    def _neighbours(self, unit_id: str, before: int, after: int, collection: str) -> tuple[Hit, ...]:
        spec, rows = self._rows(_keys_filter("unit_id", [unit_id]), collection)
        if not rows:
            raise _no_unit(unit_id)
        _, all_rows = self._rows(_keys_filter("document_id", [str(rows[0]["document_id"])]), spec.alias)
        units: dict[str, list[dict[str, Any]]] = {}
        for row in sorted(all_rows, key=lambda row: (row["chunk_index"], row["id"])):
            units.setdefault(str(row["unit_id"]), []).append(row)
        order = [*units]
        place = order.index(unit_id)
        near = order[max(place - before, 0) : place] + order[place + 1 : place + 1 + after]
        return tuple(_hit(spec, units[unit]) for unit in near)


class AsyncCorpusClient:
    """`CorpusClient` for event loops: the same arguments, the same results, every call awaited.

    Searches run in a bounded pool of threads: embedding is arithmetic, which an event loop cannot interleave, and
    gRPC calls release the interpreter. So hundreds of coroutines may share one client; those beyond the bound wait,
    and the deadline of a search starts with its turn.
    """

    def __init__(self, **options: Any) -> None:
        """Takes the arguments of `CorpusClient`."""
        self._wrap(CorpusClient(**options), int(options.get("max_concurrent", MAX_CONCURRENT)))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **options: Any) -> Self:
        """Makes a client of the environment, as `CorpusClient.from_env` does."""
        return cls(settings=Settings.from_env(environ), **options)

    def scoped(self, visibility: Sequence[str]) -> AsyncCorpusClient:
        """Returns a view that sees public rows and those of the given groups only; see `CorpusClient.scoped`."""
        view = object.__new__(type(self))
        view._client, view._pool = self._client.scoped(visibility), self._pool
        return view

    async def search_docs(
        self, query: str, product_area: Values = None, version: Values = None, **options: Any
    ) -> SearchResult:
        """See `CorpusClient.search_docs`."""
        return await self._run(lambda: self._client.search_docs(query, product_area, version, **options))

    async def search_issues(
        self, query: str, product_area: Values = None, state: Values = None, **options: Any
    ) -> SearchResult:
        """See `CorpusClient.search_issues`."""
        return await self._run(lambda: self._client.search_issues(query, product_area, state, **options))

    async def search_code(
        self, query: str, product_area: Values = None, kind: Values = None, **options: Any
    ) -> SearchResult:
        """See `CorpusClient.search_code`."""
        return await self._run(lambda: self._client.search_code(query, product_area, kind, **options))

    async def search(self, collection: str, query: str, **options: Any) -> SearchResult:
        """See `CorpusClient.search`."""
        return await self._run(lambda: self._client.search(collection, query, **options))

    async def get_unit(self, unit_id: str, **options: Any) -> SourceUnit:
        """See `CorpusClient.get_unit`."""
        return await self._run(lambda: self._client.get_unit(unit_id, **options))

    async def neighbours(self, unit_id: str, **options: Any) -> tuple[Hit, ...]:
        """See `CorpusClient.neighbours`."""
        return await self._run(lambda: self._client.neighbours(unit_id, **options))

    async def known_values(self, collection: str, name: str, **options: Any) -> dict[str, int]:
        """See `CorpusClient.known_values`."""
        return await self._run(lambda: self._client.known_values(collection, name, **options))

    async def warm_up(self, collections: Iterable[str] = ()) -> None:
        """See `CorpusClient.warm_up`."""
        await self._run(lambda: self._client.warm_up(collections))

    async def close(self) -> None:
        """See `CorpusClient.close`."""
        await self._run(self._client.close)
        self._pool.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _wrap(self, client: CorpusClient, workers: int) -> None:
        self._client = client
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="corpus-search")

    async def _run(self, work: Callable[[], Result]) -> Result:
        from asyncio import get_running_loop

        return await get_running_loop().run_in_executor(self._pool, work)


def _embedder(settings: Settings) -> Embedder:
    from kubeflow_corpus.embedding.factory import embedder_from_settings

    return embedder_from_settings(settings)


def _hit(spec: CollectionSpec, rows: Sequence[Mapping[str, Any]]) -> Hit:
    own = tuple(field.name for field in spec.own_fields)
    return Hit.of(rows, own, score=1.0, mode="bm25", matched=[str(row["id"]) for row in rows])


def _no_unit(unit_id: str) -> UnitNotFound:
    return UnitNotFound(
        f"There is no unit {unit_id[:200]!r}",
        remedy="Take unit_id from a hit or a citation; after a rebuild a section may have moved",
        unit_id=unit_id[:200],
    )
