"""What the collections record about themselves, as metrics: runs on a cluster end, and nobody could scrape them.

Read from the properties of the collections only, which costs no search and no load. All rows are counted here, of every
group: metrics are for operators.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from kubeflow_corpus.collections import COLLECTIONS, CollectionSpec
from kubeflow_corpus.errors import CorpusError
from kubeflow_corpus.settings import Settings

if TYPE_CHECKING:
    from pymilvus import MilvusClient

    from kubeflow_corpus.store.versions import Version

LOGGER: Final = logging.getLogger("kubeflow_corpus.mcp")
# Runs come every few hours: a scrape in between shows what the last one read.
REFRESH_SECONDS: Final = 60.0
# A scrape waits this long for Milvus; then it shows what is known, and the age of that says so.
TIMEOUT_SECONDS: Final = 5.0
_NAMESPACE: Final = "kubeflow_corpus"


class Freshness:
    """Gauges of the collections, read again at a scrape when they are a minute old.

    Attributes:
        served: Whether the alias of each collection serves a version; empty until it was read.

    Args:
        settings: Where Milvus is.
        registry: Where the gauges are registered.
        clock: Seconds, monotonic.
    """

    def __init__(
        self, settings: Settings, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._client: MilvusClient | None = None
        self.served: dict[str, bool] = {}

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, _NAMESPACE, registry=registry)

        self._served = gauge("collection_served", "Whether an alias serves a version (1) or nothing (0).", "collection")
        self._version = gauge("collection_version", "Number of the served version.", "collection")
        self._rows = gauge("collection_rows", "Rows of the served version after its last run.", "collection")
        self._failed = gauge("collection_failed_sources", "Sources that failed in its last run.", "collection")
        self._published = gauge(
            "collection_published_timestamp_seconds", "When the served version was first served.", "collection"
        )
        self._completed = gauge(
            "collection_completed_timestamp_seconds", "When a run last wrote all that it wanted.", "collection"
        )
        self._state_at = gauge("collections_read_timestamp_seconds", "When these figures were read from Milvus.")
        self._failures = Counter(
            "collections_read_failures", "Times that they could not be read.", [], _NAMESPACE, registry=registry
        )

    async def refresh(self) -> None:
        """Reads the figures where they are old; what goes wrong is counted and logged."""
        async with self._reading:
            if self._clock() - self._read_at <= REFRESH_SECONDS:
                return
            self._read_at = self._clock()
            try:
                await asyncio.wait_for(asyncio.to_thread(self._read), TIMEOUT_SECONDS)
            except (CorpusError, TimeoutError) as error:
                self._failures.inc()
                LOGGER.warning("the state of the collections cannot be read: %s", error or type(error).__name__)

    def _read(self) -> None:
        from kubeflow_corpus.milvus import connect, store_errors
        from kubeflow_corpus.store.schema import served_name
        from kubeflow_corpus.store.versions import list_versions, live_version

        with store_errors("Milvus"):
            if self._client is None:
                self._client = connect(self._settings)
            for spec in COLLECTIONS:
                served = served_name(self._settings.collection_prefix, spec.alias)
                self._show(spec, live_version(list_versions(self._client, served)))
        self._state_at.set(time.time())

    def _show(self, spec: CollectionSpec, live: Version | None) -> None:
        from kubeflow_corpus.store import schema
        from kubeflow_corpus.store.status import run_of

        self.served[spec.name] = live is not None
        self._served.labels(spec.name).set(live is not None)
        if live is None:
            return
        self._version.labels(spec.name).set(live.number)
        for key, gauge in ((schema.PUBLISHED_AT_KEY, self._published), (schema.COMPLETED_AT_KEY, self._completed)):
            moment = _seconds(live.properties.get(key, ""))
            if moment is not None:
                gauge.labels(spec.name).set(moment)
        record = run_of(live)
        if record is not None:
            self._rows.labels(spec.name).set(record.get("rows", {}).get("rows_held", 0))
            self._failed.labels(spec.name).set(len(record.get("failed", ())))


def _seconds(timestamp: str) -> float | None:
    try:
        return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
