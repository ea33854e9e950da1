"""The second stage over HTTP: the service's order is taken, and whatever goes wrong leaves the fused order."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
from kubeflow_corpus.errors import EmbedderRefused, EmbedderUnavailable
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.query.rerank import MAX_CHARACTERS, Reranker
from kubeflow_corpus.query.results import SearchResult
from kubeflow_corpus.settings import Secret, Settings

from tests.query.corpus import MODEL
from tests.servers.milvus_lite import free_port
from tests.servers.tei import Limits, TeiServer, script

QUESTION = "switch off caching of a task"
FIRST, OTHER = "site:caching.md#use", "site:caching.md#expire"
PATIENT = 30.0


def about_staleness(query: str, text: str) -> float:
    """Scores as no list does: what a search shows then comes from the service."""
    return 0.9 if "staleness" in text else 0.1


def search(uri: str, url: str, *, timeout: float = PATIENT, key: str = "", **options: Any) -> SearchResult:
    settings = Settings(milvus_uri=uri, rerank_url=url, rerank_api_key=Secret(key))
    with CorpusClient(settings=settings, embeddings=MODEL, timeout=timeout) as client:
        return client.search_docs(QUESTION, **options)


def test_the_service_decides_the_order_and_the_trace_shows_its_scores(corpus_uri: str) -> None:
    with TeiServer(reranker=True, relevance=about_staleness, api_key="s3cr3t") as server:
        result = search(corpus_uri, server.url, key="s3cr3t")
        fused = search(corpus_uri, server.url, key="s3cr3t", rerank=False)

    assert [hit.unit_id for hit in result.hits][0] == OTHER
    assert fused.hits[0].unit_id == FIRST and "rerank" not in fused.trace
    assert result.trace["rerank"][0] == {"unit_id": OTHER, "score": 0.9}
    (request,) = server.log.requests
    assert request.authorization == "Bearer s3cr3t"
    assert request.body["query"] == QUESTION and request.body["truncate"] is True
    assert all(0 < len(text) <= MAX_CHARACTERS + 200 for text in request.body["texts"])


@pytest.mark.parametrize("fault", ["429", "503", "502", "reset", "cut", "garbage", "redirect"])
def test_a_service_that_fails_leaves_the_fused_order_and_the_trace_says_why(corpus_uri: str, fault: str) -> None:
    with TeiServer(reranker=True, relevance=about_staleness, faults=script([fault] * 4)) as server:
        result = search(corpus_uri, server.url)

    assert result.hits[0].unit_id == FIRST and result.evidence()
    assert result.trace["rerank"].startswith(f"skipped: The reranker at {server.url}")


def test_a_slow_service_costs_its_share_of_the_deadline_and_not_the_answer(corpus_uri: str) -> None:
    with TeiServer(reranker=True, relevance=about_staleness, latency=60) as server:
        settings = Settings(milvus_uri=corpus_uri, rerank_url=server.url)
        with CorpusClient(settings=settings, embeddings=MODEL, timeout=PATIENT) as client:
            client.warm_up(["kubeflow_docs"])
            result = client.search_docs(QUESTION, timeout=8)

    assert result.hits[0].unit_id == FIRST
    assert "did not answer within" in result.trace["rerank"]
    # Far from the minute that the service takes; a busy machine may overrun the deadline itself.
    assert result.total_ms < 45_000


@pytest.mark.parametrize("timeout", [0.001, 0.05, 0.5])
def test_a_missed_deadline_reads_the_same_whether_the_wait_or_the_exchange_notices_it(timeout: float) -> None:
    with TeiServer(reranker=True, relevance=about_staleness, latency=60) as server:
        reranker = Reranker(server.url)
        with pytest.raises(EmbedderUnavailable, match=f"did not answer within {timeout:g} s"):
            reranker.scores("a question", ["one", "two"], timeout)
        reranker.close()


NONSENSE: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "a text without a score": lambda ranks: ranks[1:],
    "a score too many": lambda ranks: [*ranks, {"index": len(ranks), "score": 1.0}],
    "one text twice": lambda ranks: [ranks[0], *ranks[:-1]],
    "an index beyond the texts": lambda ranks: [{"index": 99, "score": 1.0}, *ranks[1:]],
    "an index below zero": lambda ranks: [{"index": -1, "score": 1.0}, *ranks[1:]],
    "an index that is not a number": lambda ranks: [{"index": True, "score": 1.0}, *ranks[1:]],
    "no index": lambda ranks: [{"score": 1.0}, *ranks[1:]],
    "a score that is NaN": lambda ranks: [{"index": 0, "score": math.nan}, *ranks[1:]],
    "a score that is null": lambda ranks: [{"index": 0, "score": None}, *ranks[1:]],
    "a score in words": lambda ranks: [{"index": 0, "score": "0.9"}, *ranks[1:]],
    "numbers alone": lambda ranks: [rank["score"] for rank in ranks],
    "an object": lambda ranks: {"ranks": ranks},
    "nothing": lambda ranks: None,
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_a_wrong_answer_is_refused(kind: str) -> None:
    with TeiServer(reranker=True, spoil_ranks=NONSENSE[kind]) as server:
        reranker = Reranker(server.url)
        with pytest.raises(EmbedderRefused, match="answered"):
            reranker.scores("a question", ["one", "two", "three"], PATIENT)
        reranker.close()


def test_a_search_keeps_its_order_where_the_answer_is_wrong(corpus_uri: str) -> None:
    with TeiServer(reranker=True, relevance=about_staleness, spoil_ranks=NONSENSE["a score that is NaN"]) as server:
        result = search(corpus_uri, server.url)

    assert result.hits[0].unit_id == FIRST and "not a number" in result.trace["rerank"]


@pytest.mark.parametrize("version", ["1.8.3", "1.9.3"])
def test_many_texts_are_sent_in_batches_that_the_service_takes(version: str) -> None:
    texts = [f"text {number}" for number in range(70)]

    def number(query: str, text: str) -> float:
        return float(text.removeprefix("text ")) / 100

    for most, batches in ((32, [32, 32, 6]), (10, [8] * 8 + [6])):
        with TeiServer(
            reranker=True, version=version, relevance=number, limits=Limits(max_client_batch_size=most)
        ) as server:
            reranker = Reranker(server.url)
            assert reranker.scores("q", texts, PATIENT) == [place / 100 for place in range(70)]
            reranker.close()
        assert [request.inputs for request in server.log.requests if request.status == 200] == batches


def test_empty_long_and_odd_texts_are_taken() -> None:
    with TeiServer(reranker=True) as server:
        reranker = Reranker(server.url)
        assert len(reranker.scores('"é" \ud800', ["", " \n ", "x" * 100_000, "\ud800", "ü日本"], PATIENT)) == 5
        reranker.close()
    assert max(len(text) for text in server.log.requests[0].body["texts"]) == MAX_CHARACTERS


def test_a_wrong_key_and_a_model_that_is_none_are_named() -> None:
    with TeiServer(reranker=True, api_key="right") as server:
        with pytest.raises(EmbedderRefused) as caught:
            Reranker(server.url, Secret("wrong")).scores("q", ["a", "b"], PATIENT)
        assert caught.value.fields["status"] == 401 and "RERANK_API_KEY" in str(caught.value.remedy)
        assert "wrong" not in str(caught.value)
    with TeiServer() as server, pytest.raises(EmbedderRefused, match="424 model is not a re-ranker model"):
        Reranker(server.url).scores("q", ["a", "b"], PATIENT)


def test_an_answer_that_drips_ends_with_the_deadline() -> None:
    with TeiServer(reranker=True, faults=script(["drip"])) as server:
        reranker = Reranker(server.url)
        started = time.monotonic()
        with pytest.raises(EmbedderUnavailable, match="did not answer within"):
            reranker.scores("q", [f"text {number}" for number in range(32)], 0.3)
        assert time.monotonic() - started < 30
        reranker.close()


def test_a_dead_service_is_left_alone_for_a_moment_and_then_asked_again() -> None:
    now = [0.0]
    url = f"http://127.0.0.1:{free_port()}"
    reranker = Reranker(url, clock=lambda: now[0])
    with pytest.raises(EmbedderUnavailable, match="gave no answer"):
        reranker.scores("q", ["a", "b"], PATIENT)
    with TeiServer(reranker=True, port=int(url.rpartition(":")[2])) as server:
        with pytest.raises(EmbedderUnavailable):
            reranker.scores("a", ["a", "b"], PATIENT)
        assert not server.log.requests
        now[0] += 2
        assert reranker.scores("a", ["a", "b"], PATIENT) == [1.0, 0.0]
        reranker.close()


@pytest.mark.parametrize(
    ("embeddings", "rerank", "key", "sent"),
    [
        ("http://tei:80", "http://tei:81", "", "embedding key"),
        ("http://tei:80", "http://other:80", "", ""),
        ("http://tei:80", "http://other:80", "own key", "own key"),
        ("http://tei:80", "http://tei:81", "own key", "own key"),
    ],
)
def test_the_key_of_the_embedding_service_goes_to_no_other_host(
    embeddings: str, rerank: str, key: str, sent: str
) -> None:
    settings = Settings.from_env(
        {
            "EMBEDDINGS_URL": embeddings,
            "EMBEDDINGS_API_KEY": "embedding key",
            "RERANK_URL": rerank,
            "RERANK_API_KEY": key,
        }
    )
    reranker = Reranker.from_settings(settings)
    assert reranker is not None and reranker._api_key.reveal() == sent
    assert Reranker.from_settings(Settings()) is None
