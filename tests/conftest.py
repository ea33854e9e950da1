"""What all tests share: the order in which they start."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.servers.milvus_lite import MilvusLiteServer, milvus_lite_server

# A database of a test is opened by the process that tests: hundreds of them would each start a server that stays for
# minutes. Tests of sharing switch it on.
os.environ.setdefault("MILVUS_SHARING", "false")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts first what waits for minutes, so that the other worker has something to do meanwhile."""
    items.sort(key=lambda item: item.get_closest_marker("lengthy") is None)


@pytest.fixture(scope="session")
def lite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusLiteServer]:
    with milvus_lite_server(tmp_path_factory.mktemp("served") / "data") as server:
        yield server
