from __future__ import annotations

import pytest

from tests.query.corpus import database


@pytest.fixture(scope="session")
def corpus_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return database(tmp_path_factory.mktemp("mcp"))
