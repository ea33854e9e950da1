"""The body of the embed step: each distinct text once, hash and text checked, counts that add up, memory bounded."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from kubeflow_corpus.artifacts import read_vectors, write_jsonl
from kubeflow_corpus.embedding.cache import VectorCache
from kubeflow_corpus.embedding.embedder import text_digest
from kubeflow_corpus.embedding.factory import cache_from_settings, embedder_from_settings
from kubeflow_corpus.embedding.shards import MOST_REFUSED, embed_shard
from kubeflow_corpus.embedding.tei import TeiClient
from kubeflow_corpus.errors import ArtifactError, EmbedderRefused
from kubeflow_corpus.model import ModelIdentity
from kubeflow_corpus.retry import Backoff
from kubeflow_corpus.settings import Secret, Settings

from tests.servers.tei import TeiServer, hash_vector

MODEL = ModelIdentity("m", "r", 384, 256)


@pytest.fixture
def server() -> Iterator[TeiServer]:
    with TeiServer() as server:
        yield server


@pytest.fixture
def client(server: TeiServer) -> Iterator[TeiClient]:
    client = TeiClient(server.url, work=Backoff(3, 0.001, 0.01))
    yield client
    client.close()


def shard_of(folder: Path, texts: list[str]) -> Path:
    path = folder / "shard.jsonl.zst"
    write_jsonl(path, ({"embedding_hash": text_digest(text), "embedding_text": text} for text in texts))
    return path


def vectors_of(path: Path) -> dict[str, np.ndarray]:
    return {name: vector for names, vectors in read_vectors(path) for name, vector in zip(names, vectors, strict=True)}


def test_every_distinct_text_gets_its_vector_once(tmp_path: Path, server: TeiServer, client: TeiClient) -> None:
    texts = [f"text {number % 900}" for number in range(1200)] + ["pod " * 600]
    seen: list[int] = []
    report = embed_shard(shard_of(tmp_path, texts), tmp_path / "v.parquet", client, progress=seen.append)
    found = vectors_of(tmp_path / "v.parquet")
    assert found.keys() == {text_digest(text) for text in texts}
    for text in set(texts):
        assert np.allclose(found[text_digest(text)], hash_vector(text, 384), atol=1e-6)
    assert report.counts() == {"vectors": 901, "embedded": 901, "cached": 0, "truncated": 1}
    assert report.rate > 0
    assert seen == sorted(seen) and seen[-1] == 901
    assert sum(request.inputs for request in server.log.requests if request.path == "/embed") < 901 + 200


def test_an_empty_shard_gives_an_empty_file(tmp_path: Path, client: TeiClient) -> None:
    report = embed_shard(shard_of(tmp_path, []), tmp_path / "v.parquet", client)
    assert report.vectors == 0 and report.rate == 0
    assert vectors_of(tmp_path / "v.parquet") == {}


@pytest.mark.parametrize(
    "row",
    [
        {"embedding_hash": text_digest("another text"), "embedding_text": "text"},
        {"embedding_hash": text_digest("text")},
        {"embedding_text": "text"},
        {"embedding_hash": 7, "embedding_text": ["text"]},
    ],
)
def test_a_text_that_is_not_that_of_its_hash_is_damage(
    tmp_path: Path, client: TeiClient, row: dict[str, object]
) -> None:
    good = {"embedding_hash": text_digest("a"), "embedding_text": "a"}
    write_jsonl(tmp_path / "shard.jsonl.zst", [good, row])
    with pytest.raises(ArtifactError, match="row 2 does not hold a text and its hash"):
        embed_shard(tmp_path / "shard.jsonl.zst", tmp_path / "v.parquet", client)


def test_a_model_that_changes_under_way_fails_the_shard(tmp_path: Path, server: TeiServer, client: TeiClient) -> None:
    def swap(_: int) -> None:
        server.model_sha = "another"

    with pytest.raises(EmbedderRefused, match="changed its model"):
        embed_shard(shard_of(tmp_path, ["a"]), tmp_path / "v.parquet", client, progress=swap)


def test_a_second_run_with_a_cache_embeds_only_what_is_new(
    tmp_path: Path, server: TeiServer, client: TeiClient
) -> None:
    cache = VectorCache(tmp_path / "cache", client.identity)
    first = embed_shard(shard_of(tmp_path, [f"t {n}" for n in range(700)]), tmp_path / "a.parquet", client, cache=cache)
    texts = [f"t {n}" for n in range(650, 750)]
    second = embed_shard(shard_of(tmp_path, texts), tmp_path / "b.parquet", client, cache=cache)
    assert first.counts() == {"vectors": 700, "embedded": 700, "cached": 0, "truncated": 0}
    assert second.counts() == {"vectors": 100, "embedded": 50, "cached": 50, "truncated": 0}
    found = vectors_of(tmp_path / "b.parquet")
    for text in texts:
        assert np.allclose(found[text_digest(text)], hash_vector(text, 384), atol=1e-6)


def test_a_killed_run_has_what_it_embedded_at_its_next_start(
    tmp_path: Path, server: TeiServer, client: TeiClient
) -> None:
    cache = VectorCache(tmp_path / "cache", client.identity)
    texts = [f"t {n}" for n in range(1000)] + [f"POISON {n}" for n in range(MOST_REFUSED + 1)]
    server.poison = "POISON"
    with pytest.raises(EmbedderRefused, match="refuses the text"):
        embed_shard(shard_of(tmp_path, texts), tmp_path / "v.parquet", client, cache=cache)
    server.poison = ""
    report = embed_shard(shard_of(tmp_path, texts), tmp_path / "v.parquet", client, cache=cache)
    assert report.cached >= 512
    assert report.vectors == 1001 + MOST_REFUSED


@pytest.mark.parametrize("cached", [False, True])
def test_texts_that_the_service_fails_are_named_and_cost_no_other(
    tmp_path: Path, server: TeiServer, client: TeiClient, cached: bool
) -> None:
    cache = VectorCache(tmp_path / "cache", client.identity) if cached else None
    texts = [f"t {n}" for n in range(300)]
    bad = ["POISON 1", "   ", "POISON 2"]
    server.poison = "POISON"
    shard = shard_of(tmp_path, [*texts[:100], bad[0], *texts[100:200], *bad[1:], *texts[200:]])
    report = embed_shard(shard, tmp_path / "v.parquet", client, cache=cache)
    assert set(report.refused) == set(map(text_digest, bad))
    assert "424 inference failed" in report.refused[text_digest("POISON 1")]
    assert report.counts()["refused"] == 3
    found = vectors_of(tmp_path / "v.parquet")
    assert set(found) == set(map(text_digest, texts))
    assert all(np.allclose(found[text_digest(text)], hash_vector(text, 384), atol=1e-6) for text in texts)


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_text_that_ends_each_request_is_not_taken_for_a_service_that_is_down(
    tmp_path: Path, server: TeiServer, client: TeiClient, status: int
) -> None:
    server.poison, server.poison_error = "POISON", (status, "the backend ended", "Backend")
    report = embed_shard(shard_of(tmp_path, ["a", "POISON", "b"]), tmp_path / "v.parquet", client)
    assert set(report.refused) == {text_digest("POISON")}


def test_a_vector_that_stays_broken_is_blamed_on_its_text(tmp_path: Path, server: TeiServer, client: TeiClient) -> None:
    wrong = hash_vector("b", 384)
    server.spoil = lambda vectors: [vector * (3 if np.allclose(vector, wrong, atol=1e-6) else 1) for vector in vectors]
    report = embed_shard(shard_of(tmp_path, ["a", "b", "c"]), tmp_path / "v.parquet", client)
    assert set(report.refused) == {text_digest("b")}
    assert set(vectors_of(tmp_path / "v.parquet")) == {text_digest("a"), text_digest("c")}


def test_one_broken_answer_is_asked_for_again(tmp_path: Path, server: TeiServer, client: TeiClient) -> None:
    broken: list[object] = [[None, None], [[1.0]]]
    assert client.identity.dimension == 384
    server.spoil = lambda vectors: broken.pop() if broken else vectors
    report = embed_shard(shard_of(tmp_path, ["a", "b"]), tmp_path / "v.parquet", client)
    assert report.vectors == 2 and not report.refused


def test_vectors_of_two_models_never_share_a_cache_file(tmp_path: Path) -> None:
    other = ModelIdentity("m", "another revision", 384, 256)
    one, two = VectorCache(tmp_path, MODEL), VectorCache(tmp_path, other)
    one.keep(["a"], np.ones((1, 384), np.float32))
    assert two.find(["a"]) == {}
    assert one.find(["a", "b"]).keys() == {"a"}
    assert VectorCache(tmp_path, MODEL).find([]) == {}


def test_a_cache_finds_more_than_one_statement_can_ask_for(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, MODEL)
    names = [f"n{number}" for number in range(2500)]
    cache.keep(names, np.arange(2500 * 384, dtype=np.float32).reshape(2500, 384))
    found = cache.find([*names, "absent"])
    assert len(found) == 2500
    assert found["n2499"][-1] == 2500 * 384 - 1


def test_a_damaged_cache_names_itself_and_the_way_out(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, MODEL)
    with sqlite3.connect(cache.path) as connection:
        connection.execute("INSERT INTO vectors VALUES ('a', X'0000')")
    connection.close()
    with pytest.raises(ArtifactError, match="Delete the file"):
        cache.find(["a"])
    cache.path.write_bytes(b"no database at all, whatever its name says" * 100)
    with pytest.raises(ArtifactError, match="vectors-"):
        VectorCache(tmp_path, MODEL)


def test_the_environment_chooses_the_embedder(server: TeiServer) -> None:
    assert embedder_from_settings(Settings()).identity.model == "sentence-transformers/all-MiniLM-L6-v2"
    server.api_key = "s3cr3t"
    settings = Settings(embeddings_url=server.url, embeddings_api_key=Secret("s3cr3t"))
    service = embedder_from_settings(settings)
    assert service.identity.model == "sentence-transformers/all-mpnet-base-v2"
    service.close()


def test_vectors_are_kept_on_disk_only_where_a_folder_is_named(tmp_path: Path) -> None:
    assert cache_from_settings(Settings(), MODEL) is None
    cache = cache_from_settings(Settings(embedding_cache=str(tmp_path / "vectors")), MODEL)
    assert cache is not None and cache.path.parent == tmp_path / "vectors"
