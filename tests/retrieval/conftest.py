from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from kubeflow_corpus.embedding.embedded import EmbeddedModel
from kubeflow_corpus.evaluation.metrics import Answer
from kubeflow_corpus.evaluation.run import ClientSearcher, ask
from kubeflow_corpus.query.client import CorpusClient

from tests.retrieval.samples import COLLECTIONS, QUESTIONS, Remembered, environment, opened, run


@dataclass(frozen=True)
class Indexed:
    """The sample corpus in a database, a copy for commands that open and close it, and the vectors of its texts."""

    uri: str
    copy: str
    cache: Path


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Indexed:
    """The three collections, indexed once by the steps of a run."""
    folder = tmp_path_factory.mktemp("retrieval")
    place = Indexed(str(folder / "corpus.db"), str(folder / "copy.db"), folder / "vectors")
    with environment(place.uri, place.cache):
        for collection in COLLECTIONS:
            outcome = run(collection, folder / "run")
            assert outcome.ok, outcome.error
            assert [part.source for part in outcome.sources if not part.ok] == []
    shutil.copytree(place.uri, place.copy)
    return place


@pytest.fixture(scope="session")
def model() -> Iterator[Remembered]:
    model = Remembered(EmbeddedModel())
    yield model
    model.close()


OpenClient = Callable[..., CorpusClient]


@pytest.fixture(scope="session")
def open_client(indexed: Indexed, model: Remembered) -> Iterator[OpenClient]:
    """Opens clients of the sample corpus; they share one embedded database, so all of them close at the end."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(opened(indexed.uri, model, **options))


@pytest.fixture(scope="session")
def client(open_client: OpenClient) -> CorpusClient:
    client = open_client()
    client.warm_up()
    return client


@pytest.fixture(scope="session")
def answers(client: CorpusClient) -> tuple[Answer, ...]:
    """What the search as it is says to every question of the gate."""
    return ask(ClientSearcher(client, {}), QUESTIONS)
