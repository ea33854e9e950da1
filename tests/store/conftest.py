from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.milvus import connect, disconnect
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.schema import served_name

from tests.store.synthetic import Run, result

_PREFIXES = (f"t{os.getpid()}x{number}" for number in itertools.count())


@dataclass
class Store:
    """A Milvus of one kind, with a prefix that no other test uses."""

    client: Any
    settings: Settings
    folder: Path

    @property
    def prefix(self) -> str:
        return self.settings.collection_prefix

    @property
    def served(self) -> str:
        return served_name(self.prefix, DOCS.alias)

    def run(self, pages: Any = (), *, source: str = "site", results: Any = None, **values: Any) -> Run:
        """A run over one source, or over given results."""
        fetched = [result(self.folder, source, pages)] if results is None else results
        embedded = self.settings.embedded_milvus
        return Run(self.client, self.folder / "work", fetched, prefix=self.prefix, embedded=embedded, **values)


@pytest.fixture(scope="session")
def embedded_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("embedded") / "corpus.db")


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[[str], Store]]:
    opened: list[Store] = []

    def open_at(uri: str) -> Store:
        settings = Settings(milvus_uri=uri, collection_prefix=next(_PREFIXES))
        opened.append(Store(connect(settings), settings, tmp_path))
        return opened[-1]

    yield open_at
    for store in opened:
        for alias in store.client.list_aliases()["aliases"]:
            if alias.startswith(store.served):
                store.client.drop_alias(alias)
        for name in store.client.list_collections():
            if name.startswith(store.served):
                store.client.drop_collection(name)
        store.client.close()


# A real server that somebody runs, or that `tests.servers.milvus_server` started around this process.
REAL_URI = os.environ.get("MILVUS_CONTRACT_URI", "")


@pytest.fixture(params=["embedded", "server", *(["real"] if REAL_URI else [])])
def store(request: pytest.FixtureRequest, open_store: Callable[[str], Store]) -> Store:
    """The same test on an embedded database, on a served one, and where there is one on a real server."""
    if request.param == "real":
        return open_store(REAL_URI)
    if request.param == "embedded":
        return open_store(request.getfixturevalue("embedded_uri"))
    return open_store(request.getfixturevalue("lite_server").uri)


@pytest.fixture
def embedded(open_store: Callable[[str], Store], embedded_uri: str) -> Store:
    """For what does not depend on the backend."""
    return open_store(embedded_uri)


@pytest.fixture(scope="session", autouse=True)
def _released(embedded_uri: str) -> Iterator[None]:
    yield
    settings = Settings(milvus_uri=embedded_uri)
    disconnect(connect(settings), settings)
