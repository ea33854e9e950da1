from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.explore.corpus import hostile_database, opened_page


@pytest.fixture(scope="session")
def hostile_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return hostile_database(tmp_path_factory.mktemp("explore"))


@pytest.fixture(scope="session")
def page(hostile_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened_page(hostile_uri, Path(tmp_path_factory.mktemp("local"))) as opened:
        yield opened
