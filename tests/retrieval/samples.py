"""The sample corpus, indexed by the steps of a real run: real chunkers, the real embedded model, Milvus Lite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from kubeflow_corpus.collections import COLLECTION_NAMES
from kubeflow_corpus.embedding.embedder import Embedder
from kubeflow_corpus.evaluation.questions import Question, load_questions
from kubeflow_corpus.evaluation.run import ClientSearcher, problems
from kubeflow_corpus.ingest.options import RunOptions
from kubeflow_corpus.ingest.results import StepResult
from kubeflow_corpus.ingest.runner import RunFolders, run_collection
from kubeflow_corpus.model import ModelIdentity
from kubeflow_corpus.query.client import CorpusClient
from numpy.typing import NDArray
from pytest import MonkeyPatch

from tests.servers.github import serve
from tests.servers.sample_threads import fill_samples

CATALOGUE = Path(__file__).parents[1] / "corpus" / "catalogue.yaml"
QUESTION_FILE = Path(__file__).with_name("questions.jsonl")
QUESTIONS = load_questions(QUESTION_FILE)
# Questions that were missed when they were written and are missed still: what is left to do.
OPEN_QUESTIONS = load_questions(Path(__file__).with_name("open.jsonl"))
COLLECTIONS = COLLECTION_NAMES


@contextmanager
def environment(uri: str, cache: Path) -> Iterator[None]:
    """What the steps read: where Milvus is, where vectors are kept, and a GitHub that has the sample threads."""
    with serve() as github, MonkeyPatch.context() as patch:
        fill_samples(github)
        patch.setenv("MILVUS_URI", uri)
        patch.setenv("EMBEDDING_CACHE", str(cache))
        patch.setenv("GITHUB_API_URL", github.url)
        for name in ("EMBEDDINGS_URL", "COLLECTION_PREFIX", "RERANK_URL", "GITHUB_TOKEN"):
            patch.delenv(name, raising=False)
        yield


def run(collection: str, place: Path, *, catalogue: Path = CATALOGUE, **options: Any) -> StepResult:
    """Runs all steps of a collection, below a folder of its own in `place`."""
    asked = RunOptions.from_dict({"catalogue": str(catalogue), "runner": "local", **options})
    return run_collection(collection, asked, RunFolders(place / collection))


class Remembered:
    """An embedder that computes each vector once: the same questions are asked of many broken searches."""

    def __init__(self, model: Embedder) -> None:
        self._model = model
        self._held: dict[str, NDArray[np.float32]] = {}

    @property
    def identity(self) -> ModelIdentity:
        return self._model.identity

    def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> NDArray[np.float32]:
        missing = [text for text in dict.fromkeys(texts) if text not in self._held]
        self._held.update(zip(missing, self._model.embed(missing, timeout=timeout), strict=True) if missing else ())
        return np.stack([self._held[text] for text in texts])

    def close(self) -> None:
        self._model.close()


@contextmanager
def opened(uri: str, model: Embedder, **options: Any) -> Iterator[CorpusClient]:
    """A client without a deadline: a test run may share its machine."""
    with CorpusClient(milvus_uri=uri, embeddings=model, timeout=120, **options) as client:
        yield client


def first_problem(client: CorpusClient, questions: Iterable[Question], options: Mapping[str, Any] | None = None) -> str:
    """What turns the gate red first; empty where every question is answered."""
    searcher = ClientSearcher(client, dict(options or {}))
    for question in questions:
        found = problems(searcher.answer(question))
        if found:
            return f"{question.id} {question.query!r}: {'; '.join(found)}"
    return ""
