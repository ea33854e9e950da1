"""Pasted errors find the thread that explains them: real BM25 and dense lists over the sample threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.threads.thread import chunk
from kubeflow_corpus.collections import ISSUES
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.tokens import wordpiece_counter

from tests.query.corpus import MODEL, fill
from tests.servers.sample_threads import pasted_errors, sample_documents

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CorpusClient]:
    uri = str(tmp_path_factory.mktemp("threads") / "threads.db")
    budget = Budget(wordpiece_counter(), MODEL.identity.max_tokens)
    rows = [row for document in sample_documents().values() for row in chunk(document, budget).chunks]
    fill(uri, [(ISSUES, rows)])
    with CorpusClient(milvus_uri=uri, embeddings=MODEL, timeout=60) as opened:
        yield opened


def test_thirty_pasted_errors_find_their_thread_in_the_first_three_hits(client: CorpusClient) -> None:
    errors = pasted_errors()
    places = {}
    for error in errors:
        found = [hit.file_path.removeprefix("issues/") for hit in client.search_issues(error.pasted, limit=10).hits]
        places[error.thread] = found.index(error.thread) + 1 if error.thread in found else 0
    assert len(errors) == 30
    assert {thread: place for thread, place in places.items() if not 1 <= place <= 3} == {}


def test_a_closed_thread_with_a_fix_comes_before_a_duplicate_that_is_shown_too(client: CorpusClient) -> None:
    hits = client.search_issues(
        "failed to save outputs: Error response from daemon: No such container: 77aa88bb99cc"
    ).hits
    found = [hit.fields["issue_number"] for hit in hits]
    assert found.index(109) < found.index(110)


def test_an_open_thread_is_found(client: CorpusClient) -> None:
    hits = client.search_issues("OOMKilled driver exit code 137 with a large ParallelFor").hits
    assert hits[0].fields["issue_number"] == 106
    assert hits[0].fields["state"] == "open"


def test_the_evidence_of_a_symptom_holds_the_resolution(client: CorpusClient) -> None:
    result = client.search_issues("Couldn't find any successful Trial")
    assert 'sidecar.istio.io/inject: "false"' in result.evidence()
