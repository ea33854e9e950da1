"""Reading from Milvus: one connection for many threads, aliases pinned to a version, errors in this project's words."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kubeflow_corpus.collections import CollectionSpec
from kubeflow_corpus.errors import CollectionNotFound, CorpusError, DeadlineExceeded, StoreError, StoreUnavailable
from kubeflow_corpus.milvus import abandon, check_embedded_path, disconnect, open_client, server_of, translated
from kubeflow_corpus.query.deadline import Deadline
from kubeflow_corpus.query.filters import visible
from kubeflow_corpus.query.fusion import Rows
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.schema import (
    DENSE_METRIC,
    SPARSE_FIELD,
    SPARSE_METRIC,
    VECTOR_FIELD,
    served_name,
)
from kubeflow_corpus.vocabulary import VOCABULARY_KEY, Vocabulary, recorded_vocabulary

if TYPE_CHECKING:
    from pymilvus import MilvusClient

Result = TypeVar("Result")

# How long a resolved alias is trusted. Searches go to the version that it named, whose model was checked: an alias
# that moves in between can never bring vectors of another model into a ranking.
TARGET_SECONDS: Final = 5.0
# Opening an embedded database, loading its collection and its first BM25 search: seconds, once a process.
WARM_UP_SECONDS: Final = 60.0
# Answers of a server that is busy moving an alias, balancing or loading.
_TRANSIENT: Final = (
    "failed to get delegator",
    "channel not available",
    "node not match",
    "no available shard",
    "fail to search on all shard leaders",
    "rate limit",
)
_NOT_LOADED: Final = ("not loaded", "not fully loaded", "collection not load", "call load()")
_PAUSE_SECONDS: Final = 0.05
# Calls under way at once: two lists for each search of a client, and those that a hanging server still holds.
_MOST_CALLS: Final = 32
# Whoever reads: rows that were deleted softly are not there.
_SHOWN: Final = visible(None)


@dataclass(frozen=True, slots=True)
class Target:
    """The version that an alias stands for.

    Attributes:
        spec: The collection.
        name: Physical name.
        properties: What was recorded when it was made.
        bm25: Whether it has the BM25 list.
        expires: When it is looked up again (monotonic seconds).
    """

    spec: CollectionSpec
    name: str
    properties: Mapping[str, Any]
    bm25: bool
    expires: float

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of the project that its rows are of."""
        return recorded_vocabulary(str(self.properties.get(VOCABULARY_KEY) or ""))


class Reader:
    """Reads one Milvus. Safe for many threads; opens at the first read and again after a failure.

    Args:
        settings: Where it is.
        collections: Physical names to read instead of the aliases, by alias: to evaluate a candidate.
        clock: Monotonic seconds, for tests.
        connect: Opens a connection within a number of seconds; a measurement wraps it.
    """

    def __init__(
        self,
        settings: Settings,
        collections: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        connect: Callable[[Settings, float], MilvusClient] = open_client,
    ) -> None:
        self._settings = settings
        self._collections = dict(collections or {})
        self._clock = clock
        self._open = connect
        self._lock = threading.Lock()
        self._connecting = threading.Lock()
        self._calls = ThreadPoolExecutor(_MOST_CALLS, thread_name_prefix="corpus-milvus")
        self._client: MilvusClient | None = None
        # Where a shared database was served when it was opened.
        self._server = ""
        self._targets: dict[str, Target] = {}
        self._warm: set[str] = set()

    @property
    def embedded(self) -> bool:
        """Whether the database is a path."""
        return self._settings.embedded_milvus

    def close(self) -> None:
        """Closes the connection."""
        with self._lock:
            client, self._client = self._client, None
            self._targets.clear()
            self._warm.clear()
        # A call that hangs ends by itself; it is not waited for.
        self._calls.shutdown(wait=False, cancel_futures=True)
        if client is not None:
            disconnect(client, self._settings)
            if self._settings.exclusive_milvus:
                gc.unfreeze()

    def target(self, spec: CollectionSpec, deadline: Deadline) -> Target:
        """Returns the version to read, looked up at most every `TARGET_SECONDS`.

        Raises:
            CollectionNotFound: There is no such alias.
            StoreError: Milvus does not answer.
        """
        known = self._targets.get(spec.alias)
        if known is not None and known.expires > self._clock():
            return known
        name = self._collections.get(spec.alias) or served_name(self._settings.collection_prefix, spec.alias)
        if self.embedded and self._client is None:
            # Opening an embedded database takes seconds, once a process.
            deadline = Deadline(max(WARM_UP_SECONDS, deadline.seconds))
        target = self._call(name, deadline, "connect", lambda client, _: self._resolve(client, spec, name, deadline))
        if target.name not in self._warm:
            self._warm_up(target, deadline)
        with self._lock:
            self._targets[spec.alias] = target
        return target

    def search(
        self,
        target: Target,
        data: Sequence[Any],
        *,
        sparse: bool,
        limit: int,
        expression: str,
        fields: Sequence[str],
        deadline: Deadline,
    ) -> list[Rows]:
        """Returns one list of rows for each text (BM25) or vector (dense), best first."""
        anns_field, metric = (SPARSE_FIELD, SPARSE_METRIC) if sparse else (VECTOR_FIELD, DENSE_METRIC)

        def search(client: MilvusClient, timeout: float) -> Any:
            return client.search(
                target.name,
                data=list(data),
                anns_field=anns_field,
                filter=_visible(expression),
                limit=limit,
                output_fields=list(fields),
                search_params={"metric_type": metric},
                timeout=timeout,
            )

        found = self._call(target.name, deadline, "bm25" if sparse else "dense", search)
        return [_rows(hits, sparse) for hits in found]

    def query(
        self, target: Target, expression: str, fields: Iterable[str], *, limit: int, deadline: Deadline
    ) -> list[dict[str, Any]]:
        """Returns the rows that an expression matches."""

        def query(client: MilvusClient, timeout: float) -> Any:
            return client.query(
                target.name, filter=_visible(expression), output_fields=list(fields), limit=limit, timeout=timeout
            )

        return [row for row in self._call(target.name, deadline, "fetch", query)]

    def distinct(self, target: Target, field: str, expression: str, deadline: Deadline) -> dict[str, int]:
        """Returns the values of a field among the rows that an expression matches, with their counts, most first."""

        def count(client: MilvusClient, timeout: float) -> dict[str, int]:
            counts: dict[str, int] = {}
            iterator = client.query_iterator(
                target.name, batch_size=4_000, filter=_visible(expression), output_fields=[field], timeout=timeout
            )
            try:
                while rows := iterator.next():
                    for row in rows:
                        value = row[field]
                        for item in [value] if isinstance(value, (str, int, bool)) else value or ():
                            counts[str(item)] = counts.get(str(item), 0) + 1
            finally:
                iterator.close()
            return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

        return self._call(target.name, deadline, "values", count)

    def every_row(
        self, target: Target, fields: Sequence[str], expression: str, deadline: Deadline
    ) -> list[dict[str, Any]]:
        """Returns fields of every row that an expression matches."""

        def read(client: MilvusClient, timeout: float) -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = []
            iterator = client.query_iterator(
                target.name, batch_size=1_000, filter=_visible(expression), output_fields=list(fields), timeout=timeout
            )
            try:
                while batch := iterator.next():
                    rows += batch
            finally:
                iterator.close()
            return rows

        return self._call(target.name, deadline, "rows", read)

    # ---- connection

    def _connection(self, deadline: Deadline, stage: str) -> MilvusClient:
        """Returns the connection. One thread opens it; the others wait, each until its own deadline."""
        if (client := self._client) is not None:
            if not self._lost_server():
                return client
            self._forget_connection(client)
        # Opening an embedded database, or starting its server again, is not part of a search.
        seconds = WARM_UP_SECONDS if self.embedded else deadline.left(stage)
        if not self._connecting.acquire(timeout=seconds):
            raise deadline.exceeded(stage)
        try:
            if (client := self._client) is None:
                client = self._connect(seconds)
                with self._lock:
                    self._client = client
            return client
        finally:
            self._connecting.release()

    def _connect(self, timeout: float) -> MilvusClient:
        settings = self._settings
        uri = settings.require_milvus_uri()
        if settings.embedded_milvus:
            # Opening a missing path would make an empty database and answer "not found".
            check_embedded_path(Path(uri), shared=settings.shared_milvus)
            if not Path(uri).exists():
                raise CollectionNotFound(
                    f"There is no database at {uri}", remedy="Run the ingestion first: kubeflow-corpus run", uri=uri
                )
        client = self._open(settings, timeout)
        self._server = server_of(settings)
        return client

    def _resolve(self, client: MilvusClient, spec: CollectionSpec, name: str, deadline: Deadline) -> Target:
        # Asking for a missing alias makes pymilvus log a traceback: look into the list first.
        aliases = client.list_aliases(timeout=deadline.left("connect"))["aliases"]
        if name in aliases:
            physical = str(client.describe_alias(name, timeout=deadline.left("connect"))["collection_name"])
        elif client.has_collection(name, timeout=deadline.left("connect")):
            physical = name
        else:
            raise CollectionNotFound(
                f"There is no alias {name}",
                remedy="Run the ingestion first (kubeflow-corpus run), or check MILVUS_URI, MILVUS_DATABASE and "
                "COLLECTION_PREFIX",
                collection=name,
            )
        described = client.describe_collection(physical, timeout=deadline.left("connect"))
        fields = {field["name"] for field in described["fields"]}
        return Target(
            spec=spec,
            name=physical,
            properties=described.get("properties") or {},
            bm25=SPARSE_FIELD in fields,
            expires=self._clock() + TARGET_SECONDS,
        )

    def _warm_up(self, target: Target, deadline: Deadline) -> None:
        if self.embedded:
            deadline = Deadline(max(WARM_UP_SECONDS, deadline.seconds))
        # A collection is not loaded after its database was opened again.
        self._call(target.name, deadline, "load", lambda client, timeout: _load(client, target.name, timeout))
        if target.bm25 and self.embedded:
            self.search(target, ["warm"], sparse=True, limit=1, expression="", fields=["unit_id"], deadline=deadline)
        if self._settings.exclusive_milvus:
            # The rows of an embedded database are objects of this process. A garbage collection that looks at all of
            # them, which searches cause every second or so, took .7 s among 20,000 rows; they are not garbage.
            gc.collect()
            gc.freeze()
        self._warm.add(target.name)

    def _call(self, what: str, deadline: Deadline, stage: str, call: Callable[[MilvusClient, float], Result]) -> Result:
        """Calls Milvus within the deadline, again where the failure passes by itself."""
        reloaded = reconnected = False
        while True:
            client: MilvusClient | None = None
            try:
                client = self._connection(deadline, stage)
                return self._wait(deadline, stage, partial(call, client))
            except DeadlineExceeded:
                # pymilvus waits for a server that was killed under a call until the time is over.
                if reconnected or not self._lost_server():
                    raise
                reconnected, deadline = True, Deadline(deadline.seconds)
            except CorpusError:
                raise
            except Exception as error:
                failure, message = self._translate(what, error, deadline, stage)
                if isinstance(failure, StoreUnavailable):
                    self._forget_connection(client)
                    # A connection that lay idle may be closed under a call; a new one tells whether the server is gone.
                    if reconnected or deadline.passed():
                        raise failure from error
                    reconnected = True
                    continue
                if isinstance(failure, CollectionNotFound):
                    self._targets.clear()
                if any(sign in message for sign in _NOT_LOADED) and not reloaded and client is not None:
                    reloaded = True
                    self._wait(deadline, stage, partial(_load, client, what))
                elif not any(sign in message for sign in _TRANSIENT):
                    raise failure from error
            time.sleep(min(_PAUSE_SECONDS, deadline.left(stage)))

    def _wait(self, deadline: Deadline, stage: str, call: Callable[[float], Result]) -> Result:
        """Waits for a call no longer than the deadline says: pymilvus tries again for seconds beyond its timeout."""
        timeout = deadline.left(stage)
        future = self._calls.submit(call, timeout)
        try:
            return future.result(timeout)
        except FutureTimeout:
            if future.done():
                raise
            future.cancel()
            raise deadline.exceeded(stage) from None

    def _translate(self, what: str, error: Exception, deadline: Deadline, stage: str) -> tuple[CorpusError, str]:
        from pymilvus.exceptions import MilvusException

        # gRPC's own errors reach a caller when a connection breaks in the middle of a call; its package has no types.
        if not isinstance(error, (MilvusException, OSError)) and type(error).__module__.partition(".")[0] != "grpc":
            # A closed channel is a ValueError: another thread dropped the connection.
            if not (isinstance(error, ValueError) and "closed channel" in str(error).lower()):
                raise error
            return StoreUnavailable(
                f"Milvus at {self._settings.milvus_uri} closed the connection", remedy="Try again"
            ), ""
        message = f"{getattr(error, 'message', '')} {error}".lower()
        if "deadline_exceeded" in message:
            return deadline.exceeded(stage), message
        if stage == "connect" and not isinstance(error, MilvusException):
            return translated(f"Milvus at {self._settings.milvus_uri}", error), message
        failure: CorpusError = translated(f"Milvus at {self._settings.milvus_uri} ({what})", error)
        if isinstance(failure, StoreUnavailable) and "deadline" in message and "connect" not in message:
            failure = deadline.exceeded(stage)
        return failure, message

    def _lost_server(self) -> bool:
        """Whether the process that served a shared database is gone; the next connection finds or starts another."""
        return server_of(self._settings) != self._server

    def _forget_connection(self, client: MilvusClient | None) -> None:
        """Forgets a connection that failed, without closing it: other threads may still use it."""
        if self._settings.exclusive_milvus:
            return
        with self._lock:
            if client is not None and self._client is client:
                self._client = None
                abandon(self._settings)
                self._targets.clear()
                # A server that was started again may not have loaded its collections.
                self._warm.clear()


def _visible(expression: str) -> str:
    """Returns an expression that also leaves out rows that were deleted softly, as every read does."""
    return f"{expression} and {_SHOWN}" if expression else _SHOWN


def _load(client: MilvusClient, name: str, timeout: float) -> None:
    client.load_collection(name, timeout=timeout)


def _rows(hits: Any, sparse: bool) -> Rows:
    # A hit is a dict whose own lookup runs Python code, and a search reads hundreds of hits (bench_query).
    fields = [dict.__getitem__(hit, "entity") for hit in hits]
    scores = [*map(abs, hits.distances)] if sparse else hits.distances
    return Rows(hits.ids, [row["unit_id"] for row in fields], scores, fields)


__all__ = ["DeadlineExceeded", "Reader", "StoreError", "Target"]
