"""What all tests share: the order in which they start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.milvus_lite import MilvusLiteServer, milvus_lite_server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts first what waits for minutes, so that the other worker has something to do meanwhile."""
    items.sort(key=lambda item: item.get_closest_marker("lengthy") is None)


@pytest.fixture(scope="session")
def lite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusLiteServer]:
    with milvus_lite_server(tmp_path_factory.mktemp("served") / "data") as server:
        yield server
