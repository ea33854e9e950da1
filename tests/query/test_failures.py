"""What can be down, missing or of another model: the right error in time, or the documented fallback, and recovery."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.errors import (
    CollectionNotFound,
    DeadlineExceeded,
    EmbedderUnavailable,
    ModelMismatch,
    SettingsError,
    StoreError,
    StoreUnavailable,
)
from kubeflow_corpus.milvus import connect, disconnect
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.query.deadline import Deadline
from kubeflow_corpus.query.reader import Reader
from kubeflow_corpus.settings import Settings

from tests.query.corpus import MODEL, docs_chunks, fill, sealed
from tests.servers.milvus_lite import MilvusLiteServer, free_port, milvus_lite_server, start_milvus_lite

QUESTION = "how do I switch the reuse of step results off"
DOCS_ONLY = [(DOCS, sealed(docs_chunks()))]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusLiteServer]:
    with milvus_lite_server(tmp_path_factory.mktemp("served") / "data") as running:
        fill(running.uri, DOCS_ONLY)
        yield running


@pytest.fixture
def dead_url() -> str:
    return f"http://127.0.0.1:{free_port()}"


def test_a_client_without_an_address_names_the_variable() -> None:
    with pytest.raises(SettingsError, match="MILVUS_URI"):
        CorpusClient.from_env({})


def test_a_missing_database_is_not_made(tmp_path: Path) -> None:
    client = CorpusClient(milvus_uri=str(tmp_path / "none.db"), embeddings=MODEL)
    with client, pytest.raises(CollectionNotFound, match="ingestion"):
        client.search_docs(QUESTION)
    assert not (tmp_path / "none.db").exists()


def test_milvus_that_is_down_is_said_within_the_timeout(dead_url: str) -> None:
    with CorpusClient(milvus_uri=dead_url, embeddings=MODEL, timeout=1) as client:
        assert seconds_until_said(client) < 30


def test_a_server_that_never_answers_costs_no_thread_more_than_its_timeout() -> None:
    # It takes connections and says nothing; of many searches that wait for a connection, none waits for another's.
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with CorpusClient(milvus_uri=uri, embeddings=MODEL, timeout=1) as client, ThreadPoolExecutor(8) as pool:
            assert max(pool.map(lambda _: seconds_until_said(client), range(8))) < 30


def test_a_server_that_stands_still_is_said_in_time_and_used_again_when_it_moves(server: MilvusLiteServer) -> None:
    with CorpusClient(milvus_uri=server.uri, embeddings=MODEL, timeout=30) as client:
        client.warm_up(["kubeflow_docs"])
        assert client.search_docs(QUESTION).hits
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            assert seconds_until_said(client, timeout=1) < 30
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
        assert client.search_docs(QUESTION).hits


def test_a_call_that_tries_again_beyond_its_timeout_is_not_waited_for(server: MilvusLiteServer) -> None:
    ended = threading.Event()
    reader = Reader(Settings(milvus_uri=server.uri))
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded, match="dense"):
        reader._call("kubeflow_docs", Deadline(1), "dense", lambda client, timeout: ended.wait(120))
    assert time.monotonic() - started < 60
    ended.set()
    reader.close()


def seconds_until_said(client: CorpusClient, **options: Any) -> float:
    started = time.monotonic()
    with pytest.raises((StoreUnavailable, DeadlineExceeded)) as caught:
        client.search_docs("KATIB_DB_MANAGER_SERVICE_PORT", **options)
    assert caught.value.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
    return time.monotonic() - started


def test_a_missing_alias_is_named(server: MilvusLiteServer) -> None:
    client = CorpusClient(milvus_uri=server.uri, embeddings=MODEL, timeout=30)
    with client, pytest.raises(CollectionNotFound, match="code_rag"):
        client.search_code("x")
    settings = Settings(milvus_uri=server.uri, collection_prefix="other")
    other = CorpusClient(settings=settings, embeddings=MODEL, timeout=30)
    with other, pytest.raises(CollectionNotFound, match="other_kubeflow_docs"):
        other.search_docs(QUESTION)


def test_a_collection_of_another_model_is_refused(server: MilvusLiteServer) -> None:
    class Other:
        identity = replace(MODEL.identity, model="acme/other-model")

        def embed(self, texts: Any, *, timeout: float | None = None) -> Any:
            raise AssertionError("vectors of another model must not even be made")

        def close(self) -> None: ...

    with CorpusClient(milvus_uri=server.uri, embeddings=Other(), timeout=30) as client:
        for question in (QUESTION, "KATIB_DB_MANAGER_SERVICE_PORT"):
            with pytest.raises(ModelMismatch, match="acme/other-model"):
                client.search_docs(question)
        # Words alone read no vector.
        assert client.search_docs(QUESTION, mode="bm25").hits


def test_a_collection_without_bm25_answers_by_vectors_and_says_so(tmp_path: Path) -> None:
    uri = str(tmp_path / "dense.db")
    fill(uri, DOCS_ONLY, bm25=False)
    with CorpusClient(milvus_uri=uri, embeddings=MODEL, timeout=60) as client:
        for question in (QUESTION, "KATIB_DB_MANAGER_SERVICE_PORT"):
            result = client.search_docs(question)
            assert result.hits and result.intent.mode == "dense"
            assert "no BM25 list" in result.intent.reason and "no BM25 list" in result.trace["degraded"]


def test_the_rows_of_an_embedded_database_are_kept_out_of_garbage_collection_while_it_is_open(tmp_path: Path) -> None:
    uri = str(tmp_path / "frozen.db")
    fill(uri, DOCS_ONLY)
    gc.unfreeze()
    with CorpusClient(milvus_uri=uri, embeddings=MODEL, timeout=60) as client:
        assert not gc.get_freeze_count(), "nothing is open yet"
        client.search_docs(QUESTION)
        assert gc.get_freeze_count()
    assert not gc.get_freeze_count()


def test_without_the_embedding_service_a_hybrid_question_is_answered_by_words_and_says_so(
    corpus_uri: str, dead_url: str
) -> None:
    with CorpusClient(milvus_uri=corpus_uri, embeddings=dead_url, timeout=5) as client:
        result = client.search_docs(QUESTION)
        assert result.hits[0].unit_id == "site:caching.md#use"
        assert result.intent.mode == "bm25" and "does not answer" in result.intent.reason
        assert "found by words only" in result.evidence()
        assert client.search_docs("KATIB_DB_MANAGER_SERVICE_PORT").hits
        with pytest.raises(EmbedderUnavailable):
            client.search_docs(QUESTION, mode="dense")


def test_an_embedding_service_that_comes_back_is_used_again(corpus_uri: str) -> None:
    class Shaky:
        identity = MODEL.identity
        down = True

        def embed(self, texts: Any, *, timeout: float | None = None) -> Any:
            if self.down:
                raise EmbedderUnavailable("no answer")
            return MODEL.embed(texts, timeout=timeout)

        def close(self) -> None: ...

    shaky = Shaky()
    with CorpusClient(milvus_uri=corpus_uri, embeddings=shaky, timeout=30) as client:
        assert client.search_docs(QUESTION).intent.mode == "bm25"
        shaky.down = False
        time.sleep(1.1)
        assert client.search_docs(QUESTION).intent.mode == "hybrid"


def test_the_deadline_names_the_stage(server: MilvusLiteServer) -> None:
    with CorpusClient(milvus_uri=server.uri, embeddings=MODEL, timeout=30) as client:
        client.warm_up(["kubeflow_docs"])
        with pytest.raises((DeadlineExceeded, StoreUnavailable)):
            client.search_docs(QUESTION, timeout=0.001)
        assert client.search_docs(QUESTION).hits
    now = [0.0]
    deadline = Deadline(2, clock=lambda: now[0])
    assert deadline.left("dense", 0.5) == 1
    now[0] = 3
    with pytest.raises(DeadlineExceeded, match="dense"):
        deadline.left("dense")


def test_one_database_serves_over_http_what_it_serves_embedded(server: MilvusLiteServer) -> None:
    with CorpusClient(milvus_uri=server.uri, embeddings=MODEL, timeout=30) as client:
        result = client.search_docs(QUESTION, product_area="pipelines", version="v2")
        assert result.hits[0].unit_id == "site:caching.md#use" and result.filters


@pytest.mark.slow
def test_a_client_recovers_when_the_server_is_back(tmp_path: Path) -> None:
    first = start_milvus_lite(tmp_path / "data")
    fill(first.uri, DOCS_ONLY)
    port = int(first.uri.rpartition(":")[2])
    try:
        with CorpusClient(milvus_uri=first.uri, embeddings=MODEL, timeout=3) as client:
            client.warm_up(["kubeflow_docs"])
            assert client.search_docs(QUESTION, timeout=30).hits
            first.kill()
            with pytest.raises((StoreUnavailable, DeadlineExceeded)):
                client.search_docs(QUESTION)
            again = _start_at(tmp_path / "data", port)
            try:
                deadline = time.monotonic() + 60
                while True:
                    try:
                        assert client.search_docs(QUESTION, timeout=10).hits
                        break
                    except (StoreError, DeadlineExceeded):
                        assert time.monotonic() < deadline
            finally:
                again.stop()
    finally:
        first.kill()


@pytest.mark.slow
def test_answers_come_from_one_version_while_the_alias_moves(tmp_path: Path) -> None:
    uri = str(tmp_path / "moving.db")
    fill(uri, DOCS_ONLY)
    settings = Settings(milvus_uri=uri)
    writer = connect(settings)
    writer.load_collection("kubeflow_docs_v1")
    rows = writer.query("kubeflow_docs_v1", filter='id != ""', output_fields=["*"], limit=1000)
    described = writer.describe_collection("kubeflow_docs_v1")
    from kubeflow_corpus.milvus import detect_backend
    from kubeflow_corpus.store.schema import collection_schema, index_params

    backend = detect_backend(writer)
    writer.create_collection(
        "kubeflow_docs_v2",
        schema=collection_schema(DOCS, backend, MODEL.identity.dimension),
        index_params=index_params(backend),
        properties=described["properties"],
    )
    for row in rows:
        row.pop("sparse_vector", None)
        row["revision"] = "2" * 40
    writer.upsert("kubeflow_docs_v2", rows)
    writer.flush("kubeflow_docs_v2")
    writer.load_collection("kubeflow_docs_v2")
    stop = threading.Event()

    def move() -> None:
        version = 1
        while not stop.is_set():
            version = 3 - version
            writer.alter_alias(f"kubeflow_docs_v{version}", "kubeflow_docs")
            time.sleep(0.01)

    mover = threading.Thread(target=move)
    with CorpusClient(milvus_uri=uri, embeddings=MODEL, timeout=60) as client:
        mover.start()
        try:
            seen = [{hit.revision for hit in client.search_docs(QUESTION).hits} for _ in range(40)]
        finally:
            stop.set()
            mover.join()
    assert all(len(revisions) == 1 for revisions in seen)
    disconnect(writer, settings)


def test_an_address_of_embeddings_is_asked_for_vectors(server: MilvusLiteServer, dead_url: str) -> None:
    with (
        CorpusClient(milvus_uri=server.uri, embeddings=dead_url, timeout=10) as client,
        pytest.raises(EmbedderUnavailable, match=dead_url),
    ):
        client.warm_up(["kubeflow_docs"])


def _start_at(folder: Path, port: int) -> MilvusLiteServer:
    import tests.servers.milvus_lite as servers

    original = servers.free_port
    servers.free_port = lambda: port
    try:
        return start_milvus_lite(folder)
    finally:
        servers.free_port = original
