"""The query library's face: `CorpusClient`, and `AsyncCorpusClient` for event loops.

::

    from kubeflow_corpus import CorpusClient

    with CorpusClient.from_env() as client:
        result = client.search_docs("how do I cache a step?", version="v2")
        print(result.evidence())       # for the model: labelled fragments without links
        print(result.citations)        # for the reader: what each label is
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack

from kubeflow_corpus.collections import CODE, DOCS, ISSUES, find_collection
from kubeflow_corpus.embedding.embedder import Embedder
from kubeflow_corpus.query.filters import groups_of
from kubeflow_corpus.query.hit import Hit
from kubeflow_corpus.query.options import (
    ClientOptions,
    CodeOptions,
    CollectionOptions,
    DocsOptions,
    IssuesOptions,
    Values,
)
from kubeflow_corpus.query.reader import Reader
from kubeflow_corpus.query.results import SearchResult, SourceUnit
from kubeflow_corpus.query.session import Session
from kubeflow_corpus.query.tuning import (
    DEFAULT_TIMEOUT_SECONDS,
    DEFAULT_TUNING,
    MAX_TIMEOUT_SECONDS,
    PROGRAM_LIMITS,
    SETUP_TIMEOUT_SECONDS,
    Tuning,
)
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.vocabulary import Vocabulary

__all__ = ["AsyncCorpusClient", "CorpusClient", "SearchResult", "SourceUnit"]

Result = TypeVar("Result")

# Calls that run at once; others wait for their turn.
MAX_CONCURRENT: Final = 8


class CorpusClient:
    """Searches the three collections. Safe for many threads; opens nothing before the first search.

    Args:
        milvus_uri: A ``.db`` path or an http(s) URL; empty takes ``MILVUS_URI``'s value from `settings`.
        embeddings: Address of a text-embeddings-inference service, or an `Embedder`; empty is the embedded model.
        settings: Everything else (credentials, database, prefix, reranker); None is nothing but the two above.
        collections: Physical names to read instead of the aliases, by collection: to evaluate a candidate.
        tuning: Every number that shapes a ranking.
        visibility: Groups whose rows may be seen beside the public ones; None sees every row.
        timeout: Seconds that one search may take.
        max_concurrent: Calls that run at once.
        reader: What reads Milvus; None makes one from the settings. It is closed with the client.
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
        groups = groups_of(visibility)
        given = settings or Settings()
        if milvus_uri:
            given = replace(given, milvus_uri=milvus_uri)
        if isinstance(embeddings, str) and embeddings:
            given = replace(given, embeddings_url=embeddings.rstrip("/"))
        given.require_milvus_uri()
        physical = {find_collection(name).alias: version for name, version in (collections or {}).items()}
        self._session = Session.open(
            given,
            None if isinstance(embeddings, str) else embeddings,
            reader or Reader(given, physical),
            tuning=tuning,
            visibility=groups,
            timeout=timeout,
            max_concurrent=max_concurrent,
        )

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **options: Unpack[ClientOptions]) -> Self:
        """Makes a client from the environment (``MILVUS_URI``, ``EMBEDDINGS_URL``, ...).

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
        return _View(self._session.scoped(visibility))

    def tuned(self, tuning: Tuning) -> CorpusClient:
        """Returns a view on this client that ranks by other numbers: to compare settings over one connection.

        It shares connections and vectors; closing the client closes it.

        Args:
            tuning: Every number that shapes a ranking.
        """
        return _View(self._session.tuned(tuning))

    def search_docs(
        self, query: str, product_area: Values = None, version: Values = None, **options: Unpack[DocsOptions]
    ) -> SearchResult:
        """Searches the documentation: concepts, guides, settings, releases.

        Args:
            query: A question or keywords.
            product_area: Only these products (a name or several).
            version: Only these versions.
            **options: ``limit``, ``mode``, ``token_budget``, ``timeout``, ... and further filters: see `DocsOptions`.

        Raises:
            CorpusError: The question could not be answered; see `search`.
        """
        return self.search(DOCS.alias, query, product_area=product_area, version=version, **options)

    def search_issues(
        self, query: str, product_area: Values = None, state: Values = None, **options: Unpack[IssuesOptions]
    ) -> SearchResult:
        """Searches issue threads: symptoms, errors, and how they were resolved.

        Args:
            query: A symptom, an error message or keywords.
            product_area: Only these products.
            state: ``open`` or ``closed``.
            **options: ``limit``, ``mode``, ``timeout``, ``labels``, ... and further filters: see `IssuesOptions`.

        Raises:
            CorpusError: The question could not be answered; see `search`.
        """
        return self.search(ISSUES.alias, query, product_area=product_area, state=state, **options)

    def search_code(
        self, query: str, product_area: Values = None, kind: Values = None, **options: Unpack[CodeOptions]
    ) -> SearchResult:
        """Searches source code by symbol, and CRDs, ConfigMaps and other manifests whole.

        Args:
            query: A name, a setting, an error constant or keywords.
            product_area: Only these products.
            kind: Only these kinds of object or symbol (``ConfigMap``, ``CustomResourceDefinition``, ``function``).
            **options: ``limit``, ``mode``, ``timeout``, ``language``, ... and further filters: see `CodeOptions`.

        Raises:
            CorpusError: The question could not be answered; see `search`.
        """
        return self.search(CODE.alias, query, product_area=product_area, kind=kind, **options)

    def search(self, collection: str, query: str, **options: Unpack[CollectionOptions]) -> SearchResult:
        """Searches one collection.

        Args:
            collection: ``docs``, ``issues`` or ``code``; its alias is understood too.
            query: A question or keywords.
            **options: See `CollectionOptions`.

        Raises:
            InvalidArgument: A value is wrong, or the collection does not know a filter; the error names the known ones.
            TypeError: A keyword is neither an option nor a filter.
            CollectionNotFound: There is no such alias.
            ModelMismatch: The collection was embedded with another model.
            StoreUnavailable: Milvus does not answer.
            EmbedderUnavailable: The dense list was asked for and the embedding service does not answer. A hybrid
                search then answers by words alone, and says so in `notes`, `intent.reason` and the trace.
            DeadlineExceeded: It took too long.
        """
        return self._session.search(collection, query, options)

    def get_unit(
        self, unit_id: str, *, collection: str = "", token_budget: int = PROGRAM_LIMITS.unit_token_budget, page: int = 0
    ) -> SourceUnit:
        """Returns a whole section, thread, symbol or object.

        Args:
            unit_id: From a hit or a citation; the address of a citation is understood too.
            collection: Any of its names; empty looks into all three.
            token_budget: Tokens of the text.
            page: Of a unit that is longer: this page of the whole, from 1; 0 is its best lines.

        Raises:
            InvalidArgument: The unit has no such page.
            UnitNotFound: There is no such unit, or it may not be seen.
            QueryError: This unit cannot be shown; others are not affected.
        """
        return self._session.unit(unit_id, collection, token_budget, page)

    def neighbours(self, unit_id: str, *, before: int = 1, after: int = 1, collection: str = "") -> tuple[Hit, ...]:
        """Returns the units before and after a unit in its document, in document order.

        Args:
            unit_id: From a hit or a citation.
            before: How many before it.
            after: How many after it.
            collection: Any of its names; empty looks into all three.

        Raises:
            UnitNotFound: There is no such unit, or it may not be seen.
        """
        return self._session.neighbours(unit_id, before, after, collection)

    def known_values(self, collection: str, name: str, *, timeout: float = SETUP_TIMEOUT_SECONDS) -> dict[str, int]:
        """Returns the values of a field with their row counts, of the rows that this client or view may see.

        It is what a filter can ask for.

        Args:
            collection: Any of its names.
            name: Field, such as ``kind`` or ``version``.
            timeout: Seconds; the whole field is read once for each version of the collection and each set of groups.
        """
        return self._session.known_values(collection, name, timeout)

    def every_row(
        self,
        collection: str,
        fields: Sequence[str],
        *,
        only: Mapping[str, Sequence[str]] | None = None,
        timeout: float = MAX_TIMEOUT_SECONDS,
    ) -> list[dict[str, Any]]:
        """Returns fields of every row that this client or view may see, in no order: to measure or inspect a corpus.

        Args:
            collection: Any of its names.
            fields: Names of stored fields.
            only: Only rows that have one of these values in a field (of texts), by field.
            timeout: Seconds.

        Raises:
            InvalidArgument: `only` names what is not a field of texts.
        """
        return self._session.every_row(collection, fields, only or {}, timeout)

    def served_version(self, collection: str) -> str:
        """Returns the physical name of the version that is read: whatever is cached of a collection is of this one.

        Args:
            collection: Any of its names.

        Raises:
            CollectionNotFound: Milvus does not have it.
        """
        return self._session.served_version(collection)

    def report_answer(self, request_id: str, helpful: bool, note: str = "") -> bool:
        """Keeps in the log of questions (``QUESTION_LOG``) whether an answer helped.

        Args:
            request_id: Of its search.
            helpful: Whether it did.
            note: Why; secrets and addresses in it are not kept.

        Returns:
            Whether it was kept: False without a log, and where the log does not have the question.
        """
        return self._session.report_answer(request_id, helpful, note)

    def properties(self, collection: str) -> dict[str, str]:
        """Returns what the served version records about itself: model, chunker, heads of its sources.

        Args:
            collection: Any of its names.

        Raises:
            CollectionNotFound: Milvus does not have it.
        """
        return self._session.properties(collection)

    def vocabulary(self, collection: str) -> Vocabulary:
        """Returns the words of the project that a collection is of: its products and how people write them.

        Args:
            collection: Alias.

        Raises:
            CollectionNotFound: There is no such alias.
        """
        return self._session.vocabulary(collection)

    def warm_up(self, collections: Iterable[str] = ()) -> None:
        """Opens connections and loads the model now, so that the first search is as fast as the others.

        Args:
            collections: Their names; empty is every one that exists.

        Raises:
            CorpusError: Milvus or the embedding service does not answer.
        """
        self._session.warm_up(collections)

    def close(self) -> None:
        """Closes connections, threads and the model."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _View(CorpusClient):
    """A client over a session that another client opened."""

    def __init__(self, session: Session) -> None:
        self._session = session


class AsyncCorpusClient:
    """`CorpusClient` for event loops: the same arguments, the same results, every call awaited.

    Searches run in a bounded pool of threads: embedding is arithmetic, which an event loop cannot interleave, and
    gRPC calls release the interpreter. So hundreds of coroutines may share one client; those beyond the bound wait,
    and the deadline of a search starts with its turn.
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
        """See `CorpusClient`."""
        self._client = CorpusClient(
            milvus_uri=milvus_uri,
            embeddings=embeddings,
            settings=settings,
            collections=collections,
            tuning=tuning,
            visibility=visibility,
            timeout=timeout,
            max_concurrent=max_concurrent,
            reader=reader,
        )
        self._pool = ThreadPoolExecutor(max_workers=max_concurrent, thread_name_prefix="corpus-search")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **options: Unpack[ClientOptions]) -> Self:
        """See `CorpusClient.from_env`."""
        return cls(settings=Settings.from_env(environ), **options)

    def scoped(self, visibility: Sequence[str]) -> AsyncCorpusClient:
        """See `CorpusClient.scoped`."""
        return _AsyncView(self._client.scoped(visibility), self._pool)

    def tuned(self, tuning: Tuning) -> AsyncCorpusClient:
        """See `CorpusClient.tuned`."""
        return _AsyncView(self._client.tuned(tuning), self._pool)

    async def search_docs(
        self, query: str, product_area: Values = None, version: Values = None, **options: Unpack[DocsOptions]
    ) -> SearchResult:
        """See `CorpusClient.search_docs`."""
        return await self._run(lambda: self._client.search_docs(query, product_area, version, **options))

    async def search_issues(
        self, query: str, product_area: Values = None, state: Values = None, **options: Unpack[IssuesOptions]
    ) -> SearchResult:
        """See `CorpusClient.search_issues`."""
        return await self._run(lambda: self._client.search_issues(query, product_area, state, **options))

    async def search_code(
        self, query: str, product_area: Values = None, kind: Values = None, **options: Unpack[CodeOptions]
    ) -> SearchResult:
        """See `CorpusClient.search_code`."""
        return await self._run(lambda: self._client.search_code(query, product_area, kind, **options))

    async def search(self, collection: str, query: str, **options: Unpack[CollectionOptions]) -> SearchResult:
        """See `CorpusClient.search`."""
        return await self._run(lambda: self._client.search(collection, query, **options))

    async def get_unit(
        self, unit_id: str, *, collection: str = "", token_budget: int = PROGRAM_LIMITS.unit_token_budget, page: int = 0
    ) -> SourceUnit:
        """See `CorpusClient.get_unit`."""
        return await self._run(
            lambda: self._client.get_unit(unit_id, collection=collection, token_budget=token_budget, page=page)
        )

    async def neighbours(
        self, unit_id: str, *, before: int = 1, after: int = 1, collection: str = ""
    ) -> tuple[Hit, ...]:
        """See `CorpusClient.neighbours`."""
        return await self._run(
            lambda: self._client.neighbours(unit_id, before=before, after=after, collection=collection)
        )

    async def known_values(
        self, collection: str, name: str, *, timeout: float = SETUP_TIMEOUT_SECONDS
    ) -> dict[str, int]:
        """See `CorpusClient.known_values`."""
        return await self._run(lambda: self._client.known_values(collection, name, timeout=timeout))

    async def every_row(
        self,
        collection: str,
        fields: Sequence[str],
        *,
        only: Mapping[str, Sequence[str]] | None = None,
        timeout: float = MAX_TIMEOUT_SECONDS,
    ) -> list[dict[str, Any]]:
        """Returns fields of every row: see `CorpusClient.every_row`."""
        return await self._run(lambda: self._client.every_row(collection, fields, only=only, timeout=timeout))

    async def served_version(self, collection: str) -> str:
        """See `CorpusClient.served_version`."""
        return await self._run(lambda: self._client.served_version(collection))

    async def report_answer(self, request_id: str, helpful: bool, note: str = "") -> bool:
        """See `CorpusClient.report_answer`."""
        return await self._run(lambda: self._client.report_answer(request_id, helpful, note))

    async def properties(self, collection: str) -> dict[str, str]:
        """See `CorpusClient.properties`."""
        return await self._run(lambda: self._client.properties(collection))

    async def vocabulary(self, collection: str) -> Vocabulary:
        """See `CorpusClient.vocabulary`."""
        return await self._run(lambda: self._client.vocabulary(collection))

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

    async def _run(self, work: Callable[[], Result]) -> Result:
        from asyncio import get_running_loop

        return await get_running_loop().run_in_executor(self._pool, work)


class _AsyncView(AsyncCorpusClient):
    """An async client over a view of another client, in the same threads."""

    def __init__(self, client: CorpusClient, pool: ThreadPoolExecutor) -> None:
        self._client = client
        self._pool = pool
