"""What the server needs beside its client: the known values of filters, and the reader of the status resource.

Tool descriptions and the status are the same for every caller, so they are made of public rows only.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.collections import COLLECTIONS
from kubeflow_corpus.errors import CorpusError
from kubeflow_corpus.mcp_server.tools.search import SEARCH_TOOLS
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.vocabulary import Vocabulary, default_vocabulary

if TYPE_CHECKING:
    from pymilvus import MilvusClient

    from kubeflow_corpus.query.client import AsyncCorpusClient

LOGGER: Final = logging.getLogger("kubeflow_corpus.mcp")
# Models ignore a description that lists more values than this.
SHOWN_VALUES: Final = 24
# How old a status may be: what it tells changes with a run.
STATUS_SECONDS: Final = 10.0


async def known_values(client: AsyncCorpusClient) -> dict[str, dict[str, tuple[str, ...]]]:
    """Returns, for each tool and filter, the values that public rows of the live corpus hold, the most frequent first.

    The server starts without a reachable corpus, too: descriptions then list the values that the project knows.
    """
    known: dict[str, dict[str, tuple[str, ...]]] = {}
    public = client.scoped(())
    for tool in SEARCH_TOOLS:
        for name in tool.filters:
            try:
                counts = await public.known_values(tool.collection, name)
            except CorpusError as error:
                LOGGER.warning("the values of %s are not known: %s", name, error)
                break
            values = tuple(value for value in counts if value)
            if values:
                known.setdefault(tool.name, {})[name] = values[:SHOWN_VALUES]
    return known


async def served_vocabulary(client: AsyncCorpusClient) -> Vocabulary:
    """Returns the words of the project that the collections are of; the packaged ones where none can be asked."""
    for spec in COLLECTIONS:
        try:
            return await client.vocabulary(spec.name)
        except CorpusError as error:
            LOGGER.warning("the words of %s are not known: %s", spec.name, error)
    return default_vocabulary()


class StatusReader:
    """Reads the state of the collections over a connection of its own, opened at the first call.

    It reads every row, so it does so in a thread of its own, once for all who ask within some seconds.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._client: MilvusClient | None = None
        self._pool = ThreadPoolExecutor(1, "status")
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._state: list[dict[str, Any]] = []
        self._server = ""

    async def __call__(self) -> list[dict[str, Any]]:
        """Returns one object for each collection, as they were some seconds ago at most."""
        async with self._lock:
            if self._clock() - self._read_at > STATUS_SECONDS:
                self._state = await asyncio.get_running_loop().run_in_executor(self._pool, self._read)
                self._read_at = self._clock()
            return self._state

    def _read(self) -> list[dict[str, Any]]:
        from kubeflow_corpus.mcp_server.status import public_status
        from kubeflow_corpus.milvus import abandon, connect, server_of, store_errors

        with store_errors("Milvus"):
            if self._client is not None and server_of(self._settings) != self._server:
                # The process that served a shared database is gone; the next client starts another.
                self._client = None
                abandon(self._settings)
            if self._client is None:
                self._client = connect(self._settings)
                self._server = server_of(self._settings)
            return public_status(self._client, self._settings.collection_prefix)
