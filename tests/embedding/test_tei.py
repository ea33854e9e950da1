"""The TEI client against a server that enforces TEI's contract: limits, order, truncation, identity, refusals."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kubeflow_corpus.embedding.tei import HANDSHAKE, WORK, TeiClient
from kubeflow_corpus.errors import EmbedderRefused, EmbedderUnavailable, InvalidVector, SettingsError
from kubeflow_corpus.retry import Backoff
from kubeflow_corpus.settings import Secret

from tests.servers.tei import Limits, TeiServer, at_random, hash_vector, script

QUICK = Backoff(attempts=16, base=0.001, cap=0.01)
VERSIONS = ["1.8.3", "1.9.3"]


def connect(server: TeiServer, **options: Any) -> TeiClient:
    return TeiClient(server.url, **{"work": QUICK, "handshake": Backoff(5, 0.001, 0.01), **options})


def expected(texts: list[str], dimension: int = 384) -> np.ndarray:
    return np.stack([hash_vector(text, dimension) for text in texts])


def sample(number: int) -> list[str]:
    return [f"text {index} " + "word " * (index * 7919 % 40) for index in range(number)]


# -- the handshake ---------------------------------------------------------------------------------------------------


def test_the_identity_is_what_info_says_and_the_dimension_what_a_probe_gives() -> None:
    with TeiServer(dimension=768) as server:
        client = connect(server)
        identity = client.identity
        assert identity.model == "sentence-transformers/all-mpnet-base-v2"
        assert identity.revision == "e8c3b32edf5434bc2275fc9bab85f82640a19130"
        assert (identity.dimension, identity.max_tokens, identity.dtype) == (768, 384, "float32")
        assert client.server.version == "1.9.3"
        assert [request.path for request in server.log.requests] == ["/info", "/embed"]
        assert client.identity is identity
        assert len(server.log.requests) == 2
        client.close()


def test_a_server_that_was_given_no_revision_has_an_empty_one() -> None:
    with TeiServer(model_sha=None) as server:
        assert connect(server).identity.revision == ""


def test_nothing_is_asked_before_it_is_needed() -> None:
    with TeiServer() as server:
        connect(server).close()
        assert server.log.requests == []


def test_a_reranker_is_refused_with_its_name() -> None:
    problem = "bge-reranker-base, which is not an embedding model"
    with (
        TeiServer(reranker=True, model_id="BAAI/bge-reranker-base") as server,
        pytest.raises(EmbedderRefused, match=problem),
    ):
        connect(server).embed(["a"])


def test_a_service_that_is_not_tei_is_refused() -> None:
    problem = "404.*base URL of a text-embeddings-inference"
    with TeiServer() as server, pytest.raises(EmbedderRefused, match=problem):
        TeiClient(f"{server.url}/v2").embed(["a"])


def test_an_unreachable_service_is_one_clear_error() -> None:
    with TeiServer() as server:
        url = server.url
    client = TeiClient(url, handshake=Backoff(3, 0.001, 0.01))
    with pytest.raises(EmbedderUnavailable, match=r"Connection refused.*3 tries.*EMBEDDINGS_URL"):
        client.embed(["a"])


@pytest.mark.parametrize("url", ["tei:8080", "http://", "http://[::1", "ftp://host", "http://host:99999"])
def test_a_url_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(SettingsError, match="not the URL of a service"):
        TeiClient(url)


def test_a_model_that_is_exchanged_while_texts_are_embedded_is_noticed() -> None:
    with TeiServer() as server:
        client = connect(server)
        client.embed(["a"])
        client.check_unchanged()
        server.model_id = "intfloat/e5-base"
        with pytest.raises(EmbedderRefused, match=r"changed its model .* to intfloat/e5-base"):
            client.check_unchanged()


# -- order and limits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_vectors_come_in_the_order_of_the_texts(version: str) -> None:
    texts = sample(700)
    with TeiServer(version=version, latency=0.005) as server:
        client = connect(server)
        vectors = client.embed(texts)
        assert vectors.dtype == np.float32
        assert np.allclose(vectors, expected(texts), atol=1e-6)
        assert server.log.statuses() == {200: len(server.log.batches())}
        assert server.log.connections <= 16
        client.close()


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.text(st.characters(), min_size=1, max_size=200).filter(str.strip), min_size=1, max_size=40),
    limits=st.builds(
        Limits,
        max_input_length=st.integers(16, 64),
        max_batch_tokens=st.integers(64, 400),
        max_client_batch_size=st.integers(1, 40),
        max_concurrent_requests=st.integers(1, 60),
    ),
)
def test_no_request_is_over_a_limit_whatever_the_server_allows(version: str, texts: list[str], limits: Limits) -> None:
    with TeiServer(version=version, limits=limits) as server:
        client = connect(server)
        vectors = client.embed(texts)
        clean = [text.encode("utf-8", "replace").decode() for text in texts]
        assert np.allclose(vectors, expected(clean), atol=1e-6)
        assert max(server.log.batches()) <= limits.max_client_batch_size
        assert server.log.peak_inputs <= limits.max_concurrent_requests
        assert 429 not in server.log.statuses()
        client.close()


def test_inputs_in_flight_are_counted_over_all_threads() -> None:
    limits = Limits(max_concurrent_requests=64)
    with TeiServer(latency=0.02, limits=limits) as server:
        client = connect(server)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda n: client.embed(sample(100 + n), timeout=30 if n % 2 else None), range(8)))
        for number, vectors in enumerate(found):
            assert np.allclose(vectors, expected(sample(100 + number)), atol=1e-6)
        assert 32 < server.log.peak_inputs <= 64
        assert set(server.log.statuses()) == {200}
        client.close()


def test_an_ingestion_can_leave_permits_to_live_queries() -> None:
    with TeiServer(latency=0.02) as server:
        client = connect(server, permits=48)
        client.embed(sample(300))
        assert server.log.peak_inputs <= 48
        client.close()


def test_a_body_stays_below_what_proxies_let_through() -> None:
    texts = [f"{number} " + 'é\n"' * 40_000 for number in range(20)]
    limits = Limits(max_input_length=10**6, max_batch_tokens=10**8)
    with TeiServer(limits=limits) as server:
        client = connect(server)
        assert np.allclose(client.embed(texts), expected(texts), atol=1e-6)
        assert max(request.size for request in server.log.requests if request.inputs > 1) <= 1_000_100
        client.close()


def test_texts_of_similar_length_travel_together() -> None:
    texts = [("long " * 50 if index % 2 else "short") + f" {index}" for index in range(64)]
    with TeiServer() as server:
        client = connect(server)
        client.embed(texts)
        client.close()
        bodies = [request.body["inputs"] for request in server.log.requests if request.inputs == 32]
        assert [{text.startswith("long") for text in body} for body in bodies] in ([{True}, {False}], [{False}, {True}])


def test_no_texts_give_no_rows() -> None:
    with TeiServer(dimension=768) as server:
        client = connect(server)
        assert client.embed([]).shape == (0, 768)
        assert client.embed([], timeout=5).shape == (0, 768)


def test_a_text_without_words_is_never_sent() -> None:
    with TeiServer() as server:
        client = connect(server)
        with pytest.raises(EmbedderRefused, match="index 1 is empty"):
            client.embed(["a", " "])
        with pytest.raises(EmbedderRefused, match="index 600 is empty"):
            list(client.embed_stream([(n, "a") for n in range(600)] + [(600, "")]))
        client.close()


# -- streaming -------------------------------------------------------------------------------------------------------


def test_a_stream_keeps_its_order_and_is_read_only_as_far_ahead_as_keeps_the_server_busy() -> None:
    read = 0

    def items() -> Iterator[tuple[str, str]]:
        nonlocal read
        for number in count():
            read = number
            yield f"key {number}", f"text {number}"

    with TeiServer() as server:
        client = connect(server)
        stream = client.embed_stream(items())
        seen = 0
        for keys, vectors in stream:
            assert keys == [f"key {number}" for number in range(seen, seen + len(keys))]
            assert np.allclose(
                vectors[::50], expected([f"text {n}" for n in range(seen, seen + len(keys), 50)]), atol=1e-6
            )
            seen += len(keys)
            assert read - seen <= 3 * 512
            if seen > 2000:
                break
        stream.close()
        client.close()


def test_a_stream_that_is_left_early_sends_nothing_more() -> None:
    with TeiServer(latency=0.05) as server:
        client = connect(server, permits=32)
        stream = client.embed_stream((n, f"text {n}") for n in count())
        next(stream)
        stream.close()
        client.close()
        sent = len(server.log.requests)
        time.sleep(0.15)
        assert len(server.log.requests) == sent


def test_an_error_of_the_source_reaches_the_reader() -> None:
    def items() -> Iterator[tuple[int, str]]:
        yield 1, "a"
        raise OSError("the disk went away")

    with TeiServer() as server:
        client = connect(server)
        with pytest.raises(OSError, match="went away"):
            list(client.embed_stream(items()))
        client.close()


# -- what is too long or too large -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_text_that_is_too_long_is_cut_by_the_server_on_request_and_counted(version: str) -> None:
    texts = sample(40)
    for position in (3, 4, 17, 39):
        texts[position] += " pod" * 500
    with TeiServer(version=version) as server:
        client = connect(server)
        assert np.allclose(client.embed(texts), expected(texts), atol=1e-6)
        assert client.truncated == 4
        assert all(isinstance(r.body["truncate"], bool) for r in server.log.requests if r.path == "/embed")
        cut = [r.body["inputs"] for r in server.log.requests if r.path == "/embed" and r.body["truncate"]]
        assert sorted(text for body in cut[1:] for text in body) == sorted(texts[n] for n in (3, 4, 17, 39))
        client.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_long_question_is_cut_within_its_deadline(version: str) -> None:
    with TeiServer(version=version) as server:
        client = connect(server)
        question = "why " * 1000
        assert np.allclose(client.embed([question], timeout=10), expected([question]), atol=1e-6)
        assert client.truncated == 1


def test_a_server_whose_limit_is_lower_than_it_says_gets_smaller_batches() -> None:
    with TeiServer() as server:
        client = connect(server)
        _ = client.identity
        server.limits = Limits(max_client_batch_size=5, payload_limit=400)
        texts = sample(60)
        assert np.allclose(client.embed(texts), expected(texts), atol=1e-6)
        statuses = server.log.statuses()
        assert statuses[413] and statuses[422]
        client.close()


@pytest.mark.parametrize(
    "error", [(424, "inference failed", "Backend"), (422, "tokenizer error", "Tokenizer"), (400, "odd", "Validation")]
)
def test_one_poisonous_text_is_named_by_index_and_hash_and_not_shown(error: tuple[int, str, str]) -> None:
    texts = sample(50)
    texts[23] = "the POISON pill " + "secret content " * 20
    with TeiServer(poison="POISON", poison_error=error) as server:
        client = connect(server)
        with pytest.raises(EmbedderRefused, match="index 23") as caught:
            client.embed(texts)
        assert caught.value.fields["index"] == 23
        assert caught.value.fields["sha256"][:16] in str(caught.value)
        assert "secret content" not in str(caught.value)
        texts[23] = "harmless"
        assert np.allclose(client.embed(texts), expected(texts), atol=1e-6)
        client.close()


def test_a_poisonous_text_in_a_stream_is_named_by_its_index_in_the_stream() -> None:
    with TeiServer(poison="POISON") as server:
        client = connect(server)
        items = ((n, "POISON" if n == 1500 else f"text {n}") for n in range(2000))
        with pytest.raises(EmbedderRefused, match="index 1500"):
            list(client.embed_stream(items))
        client.close()


# -- failures that pass ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", [1, 2])
def test_with_a_third_of_the_requests_failing_every_vector_is_right_and_in_order(version: str, seed: int) -> None:
    texts = sample(1500)
    faults = at_random(0.3, ("429", "503", "reset", "cut", "garbage", "502"), seed)
    with TeiServer(version=version, limits=Limits(max_client_batch_size=8)) as server:
        client = connect(server)
        _ = client.identity
        server.faults = faults
        assert np.allclose(client.embed(texts), expected(texts), atol=1e-6)
        failed = sum(1 for request in server.log.requests if request.fault)
        assert 0.2 < failed / len(server.log.batches()) < 0.4
        client.close()


@pytest.mark.parametrize("fault", ["429", "503", "502", "reset", "cut", "garbage"])
def test_a_failure_that_passes_is_tried_again(fault: str) -> None:
    with TeiServer() as server:
        client = connect(server)
        _ = client.identity
        server.faults = script([None, fault, fault])
        assert np.allclose(client.embed(["a"]), expected(["a"]), atol=1e-6)
        assert [request.fault for request in server.log.requests[2:]] == [fault, fault, None]
        client.close()


def test_retry_after_is_waited_for() -> None:
    with TeiServer() as server:
        client = connect(server)
        _ = client.identity
        server.faults = script([None, "429-retry-after"])
        started = time.monotonic()
        client.embed(["a"])
        assert time.monotonic() - started >= 1.0
        client.close()


def test_a_server_that_stays_overloaded_is_given_up_with_its_own_words() -> None:
    with TeiServer() as server:
        client = connect(server, work=Backoff(4, 0.001, 0.01))
        _ = client.identity
        server.faults = lambda _: "429"
        with pytest.raises(EmbedderUnavailable, match="429 Model is overloaded.*4 tries"):
            client.embed(["a"])
        client.close()


def test_a_server_that_does_not_answer_in_time_is_given_up() -> None:
    with TeiServer() as server:
        client = connect(server, work=Backoff(2, 0.001, 0.01), request_seconds=0.1)
        _ = client.identity
        server.latency = 5
        with pytest.raises(EmbedderUnavailable, match=r"no answer within 0\.1 s \(2 tries\)"):
            client.embed(["a"])
        client.close()


def test_the_pause_doubles_is_random_and_respects_both_the_cap_and_the_server() -> None:
    retries = Backoff(attempts=9, base=0.5, cap=4.0, jitter=True, longest_request=120.0)
    for attempt, most in [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (9, 4.0)]:
        pauses = [retries.pause(attempt, 0.0) for _ in range(200)]
        assert 0 <= min(pauses) < most / 4 and most * 3 / 4 < max(pauses) <= most
    assert 7.0 <= retries.pause(1, 7.0) <= 7.5
    assert retries.pause(1, 10**9) <= 120.5
    assert {WORK.jitter, HANDSHAKE.jitter} == {True}
    assert {WORK.longest_request, HANDSHAKE.longest_request} == {120.0}


# -- a caller with a deadline ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["429", "503", "502"])
def test_a_caller_with_a_deadline_gets_the_error_at_the_first_failure(fault: str) -> None:
    with TeiServer() as server:
        client = connect(server)
        _ = client.identity
        server.faults = script([None, fault])
        with pytest.raises(EmbedderUnavailable, match="EMBEDDINGS_URL"):
            client.embed(["a"], timeout=30)
        assert server.log.statuses()[200] + server.log.statuses()[int(fault)] == 2
        client.close()


def test_a_kept_connection_that_was_closed_meanwhile_does_not_fail_a_question() -> None:
    with TeiServer() as server:
        client = connect(server)
        _ = client.identity
        server.faults = script([None, "reset"])
        assert np.allclose(client.embed(["a"], timeout=30), expected(["a"]), atol=1e-6)
        client.close()


@pytest.mark.parametrize("timeout", [0.05, 0.3])
@pytest.mark.parametrize("slow", ["latency", "drip"])
def test_a_deadline_holds_even_where_an_answer_trickles(slow: str, timeout: float) -> None:
    with TeiServer() as server:
        client = connect(server)
        _ = client.identity
        if slow == "latency":
            server.latency = 60.0
        else:
            server.faults = lambda _: "drip"
        started = time.monotonic()
        with pytest.raises(EmbedderUnavailable, match=f"did not answer within {timeout:g} s"):
            client.embed(["a"], timeout=timeout)
        # Far from the minute that the answer takes; a busy machine may overrun the deadline itself.
        assert time.monotonic() - started < 30
        client.close()


# -- answers that are wrong ------------------------------------------------------------------------------------------

Spoil = Callable[[list[np.ndarray]], Any]


def _changed(position: int, value: float) -> Spoil:
    def spoil(rows: list[np.ndarray]) -> list[np.ndarray]:
        rows[-1] = rows[-1].copy()
        rows[-1][position] = value
        return rows

    return spoil


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (_changed(5, float("nan")), "holds NaN or infinity for the text at index"),
        (lambda rows: [[float("inf")] * 384 for _ in rows], "holds NaN or infinity"),
        (lambda rows: [[1e39] * 384 for _ in rows], "holds NaN or infinity"),
        (lambda rows: [row * 3 for row in rows], "has length 3 instead of 1"),
        (lambda rows: [row * 0 for row in rows], "has length 0 instead of 1"),
        (lambda rows: [row[:100] for row in rows], r"shape \(3, 100\) where \(3, 384\) was asked for"),
        (lambda rows: rows[:-1], r"shape \(2, 384\) where \(3, 384\)"),
        (lambda rows: [rows[0], rows[1][:7], rows[2]], "not an array of numbers"),
        (lambda rows: {"data": "something else"}, "not an array of numbers"),
        (lambda rows: [["a"] * 384] * 3, "not an array of numbers"),
        (lambda rows: [], r"shape \(0,\)"),
    ],
)
def test_what_is_not_a_unit_vector_of_the_model_is_refused(spoil: Spoil, problem: str) -> None:
    with TeiServer() as server:
        client = connect(server)
        _ = client.identity
        server.spoil = spoil
        with pytest.raises(InvalidVector, match=problem):
            client.embed(["a", "bb", "ccc"])
        client.close()


def test_float16_rounding_of_the_length_is_accepted() -> None:
    with TeiServer(dtype="float16", spoil=lambda rows: [row.astype(np.float16) for row in rows]) as server:
        client = connect(server)
        assert client.embed(["a", "b"]).shape == (2, 384)


# -- who may ask, and what is never told -----------------------------------------------------------------------------


def test_the_key_is_sent_as_a_bearer_token() -> None:
    with TeiServer(api_key="s3cr3t") as server:
        client = connect(server, api_key=Secret("s3cr3t"))
        client.embed(["a"])
        assert {request.authorization for request in server.log.requests} == {"Bearer s3cr3t"}
        client.close()


@pytest.mark.parametrize("key", ["", "wrong-key"])
def test_a_missing_or_wrong_key_is_one_clear_error_without_a_retry(key: str) -> None:
    with TeiServer(api_key="s3cr3t") as server:
        client = connect(server, api_key=Secret(key))
        with pytest.raises(EmbedderRefused, match=r"401.*EMBEDDINGS_API_KEY") as caught:
            client.embed(["a"])
        assert len(server.log.requests) == 1
        assert "wrong-key" not in str(caught.value)


def test_a_netrc_file_does_not_replace_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login someone password else")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with TeiServer(api_key="s3cr3t") as server:
        connect(server, api_key=Secret("s3cr3t")).embed(["a"])


def test_a_redirect_is_refused_and_the_key_does_not_follow_it() -> None:
    with TeiServer(api_key="s3cr3t") as server:
        client = connect(server, api_key=Secret("s3cr3t"))
        _ = client.identity
        server.faults = lambda _: "redirect"
        with pytest.raises(EmbedderRefused, match="redirects are not followed"):
            client.embed(["a"])
        assert server.log.statuses()[302] == 1
        client.close()


def test_a_password_in_the_url_is_used_and_never_shown() -> None:
    with TeiServer() as server:
        client = TeiClient(server.url.replace("//", "//reader:hunter2@"), work=Backoff(1, 0, 0))
        _ = client.identity
        assert server.log.requests[0].authorization.startswith("Basic ")
        server.faults = lambda _: "429"
        with pytest.raises(EmbedderUnavailable) as caught:
            client.embed(["a"])
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))
        client.close()


def test_an_answer_without_end_is_not_kept() -> None:
    with TeiServer() as server:
        client = connect(server, work=Backoff(1, 0, 0))
        _ = client.identity
        server.spoil = lambda rows: ["x" * 3_000_000]
        with pytest.raises(EmbedderUnavailable, match="an answer of more than"):
            client.embed(["a"])
        client.close()


def test_a_closed_client_opens_again() -> None:
    with TeiServer() as server:
        client = connect(server)
        client.embed(sample(40))
        client.close()
        client.close()
        assert client.embed(sample(40)).shape == (40, 384)
        client.close()
