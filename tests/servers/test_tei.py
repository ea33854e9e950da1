"""The test TEI refuses what TEI refuses: a client that passes here has kept every documented limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import requests

from tests.servers.tei import Limits, TeiServer, hash_vector


def post(server: TeiServer, inputs: Any, path: str = "/embed", **fields: Any) -> requests.Response:
    return requests.post(server.url + path, json={"inputs": inputs, **fields}, timeout=10)


@pytest.mark.parametrize(("version", "status"), [("1.8.3", 413), ("1.9.3", 422)])
def test_a_batch_or_an_input_over_a_limit_is_refused_as_that_release_does(version: str, status: int) -> None:
    with TeiServer(version=version) as server:
        assert post(server, ["a"] * 32).status_code == 200
        batch = post(server, ["a"] * 33)
        assert (batch.status_code, batch.json()["error_type"]) == (status, "Validation")
        assert batch.json()["error"] == "batch size 33 > maximum allowed batch size 32"
        length = post(server, "pod " * 400, truncate=False)
        assert (length.status_code, length.json()["error_type"]) == (status, "Validation")
        assert length.json()["error"] == "`inputs` must have less than 384 tokens. Given: 402"
        assert post(server, "pod " * 400, truncate=True).status_code == 200
        assert post(server, "pod " * 400).status_code == (200 if version == "1.9.3" else 413)


def test_a_body_over_the_limit_is_refused_in_plain_text() -> None:
    with TeiServer(limits=Limits(payload_limit=100)) as server:
        answer = post(server, "x" * 200)
        assert answer.status_code == 413
        assert answer.headers["content-type"].startswith("text/plain")


def test_one_empty_text_fails_the_whole_batch() -> None:
    with TeiServer() as server:
        answer = post(server, ["a", ""])
        assert (answer.status_code, answer.json()["error_type"]) == (400, "Empty")
        assert post(server, []).status_code == 400


def test_permits_count_inputs_and_not_requests() -> None:
    with TeiServer(limits=Limits(max_concurrent_requests=3)) as server:
        assert post(server, ["a", "b", "c"]).status_code == 200
        answer = post(server, ["a", "b", "c", "d"])
        assert (answer.status_code, answer.json()["error_type"]) == (429, "Overloaded")


def test_without_its_key_everything_but_health_and_metrics_is_refused_without_a_body() -> None:
    with TeiServer(api_key="s3cr3t") as server:
        refused = post(server, "a")
        assert (refused.status_code, refused.content) == (401, b"")
        for path, status in [("/health", 200), ("/metrics", 200), ("/info", 401)]:
            assert requests.get(server.url + path, timeout=10).status_code == status


def test_an_unhealthy_server_says_so() -> None:
    with TeiServer(healthy=False) as server:
        answer = requests.get(f"{server.url}/health", timeout=10)
        assert (answer.status_code, answer.json()["error_type"]) == (503, "Unhealthy")


def test_one_input_is_answered_with_a_list_and_a_hash_vector_can_be_checked_exactly() -> None:
    with TeiServer(dimension=768) as server:
        answer = np.array(post(server, "a").json(), np.float32)
        assert np.array_equal(answer, hash_vector("a", 768)[None])


def test_tokenize_does_not_truncate() -> None:
    with TeiServer() as server:
        tokens = post(server, ["pod " * 600, "a"], path="/tokenize").json()
        assert [len(row) for row in tokens] == [602, 3]
        assert tokens[1][0] == {"id": 101, "text": "[CLS]", "special": True, "start": None, "stop": None}


@pytest.mark.parametrize("body", [b"not json", b'{"texts": 1}', b'{"inputs": [1, "a"]}'])
def test_a_body_of_another_form_is_refused(body: bytes) -> None:
    with TeiServer() as server:
        assert requests.post(f"{server.url}/embed", data=body, timeout=10).status_code in (400, 422)
