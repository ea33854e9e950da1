from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubeflow_corpus.query.client import CorpusClient

from tests.query.corpus import MODEL, database


@pytest.fixture(scope="session")
def corpus_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return database(tmp_path_factory.mktemp("query"))


@pytest.fixture(scope="session")
def client(corpus_uri: str) -> Iterator[CorpusClient]:
    # The machine of a test run may be busy: deadlines have tests of their own.
    with CorpusClient(milvus_uri=corpus_uri, embeddings=MODEL, timeout=60) as opened:
        opened.warm_up()
        yield opened
