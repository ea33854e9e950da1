"""Only a browser on this machine is answered, and only for forms of the page itself."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.explore.corpus import HOST


@pytest.mark.parametrize("host", ["127.0.0.1:8090", "localhost:8090", "localhost", "[::1]:8090"])
def test_this_machine_is_answered(page: TestClient, host: str) -> None:
    assert page.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8090",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "user@evil.example",
        "127.0.0.1@evil.example",
        "0.0.0.0:8090",
        "[::1",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/", "/browse", "/static/explore.js", "/nowhere"])
def test_another_name_is_refused(page: TestClient, host: str, path: str) -> None:
    assert page.get(path, headers={"Host": host}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8090", f"{HOST}.evil.example"]
)
def test_a_form_of_another_page_is_refused(page: TestClient, origin: str) -> None:
    assert page.post("/", data={}, headers={"Origin": origin}).status_code == 403
    assert page.get("/", headers={"Origin": origin}).status_code == 403


def test_a_form_that_does_not_say_where_it_comes_from_is_refused(page: TestClient) -> None:
    assert page.post("/", data={}).status_code == 403


def test_a_form_has_a_length_and_a_limit(page: TestClient) -> None:
    headers = {"Origin": HOST}
    assert page.post("/", content=b"x" * 70_000, headers=headers).status_code == 403
    assert page.post("/", content=iter([b"x"]), headers=headers).status_code == 403


@pytest.mark.parametrize("path", ["/", "/?q=caching", "/browse", "/versions", "/static/explore.css", "/nowhere"])
def test_every_answer_forbids_what_is_not_of_the_page(page: TestClient, path: str) -> None:
    headers = page.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
