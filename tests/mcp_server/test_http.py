"""The served process: official clients over both transports, headers, tokens, limits and an orderly end."""

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import requests
from mcp import Client, StdioServerParameters

from tests.mcp_server.harness import AUDIENCE, ISSUER, Issuer, Running, issuing, running, text_of

pytestmark = pytest.mark.slow

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
QUESTIONS = {
    "search_kubeflow_docs": "how do I switch caching off",
    "search_github_issues": "ImagePullBackOff after upgrade",
    "search_kubeflow_code": "maxLatency",
}


@pytest.fixture(scope="module")
def server(corpus_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(_own(corpus_uri, tmp_path_factory)) as started:
        yield started


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as running_issuer:
        yield running_issuer


@pytest.fixture(scope="module")
def guarded(corpus_uri: str, tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[Running]:
    environ = {
        "MCP_AUTH_JWKS_URL": issuer.url,
        "MCP_AUTH_ISSUER": ISSUER,
        "MCP_AUTH_AUDIENCE": AUDIENCE,
        "MCP_VISIBILITY_CLAIM": "groups",
        "MCP_ALLOWED_ORIGINS": "https://docs.example.org",
        "MCP_WRITE_ENABLED": "true",
    }
    with running(_own(corpus_uri, tmp_path_factory), **environ) as started:
        yield started


def _own(uri: str, factory: pytest.TempPathFactory) -> str:
    """Copies the database: an embedded one belongs to one process."""
    import shutil

    from kubeflow_corpus.milvus import connect, disconnect
    from kubeflow_corpus.settings import Settings

    settings = Settings(milvus_uri=uri)
    disconnect(connect(settings), settings)
    target = factory.mktemp("served") / "corpus.db"
    shutil.copytree(uri, target, ignore=shutil.ignore_patterns("LOCK"))
    return str(target)


def call(url: str, tool: str, query: str, **headers: str) -> requests.Response:
    return send(url, "tools/call", {"name": tool, "arguments": {"query": query}}, **headers)


def send(url: str, method: str, params: dict[str, Any], **headers: str) -> requests.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return requests.post(f"{url}/mcp", json=body, headers={**HEADERS, **headers}, timeout=60)


def answer(response: requests.Response) -> str:
    return str(response.json()["result"]["content"][0]["text"])


def test_the_official_client_runs_the_three_tools_over_http(server: Running) -> None:
    async def scenario() -> list[tuple[Any, Any]]:
        async with Client(f"{server.url}/mcp") as client:
            schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
            return [(schemas[tool], await client.call_tool(tool, {"query": q})) for tool, q in QUESTIONS.items()]

    for schema, result in asyncio.run(scenario()):
        assert not result.is_error
        jsonschema.validate(result.structured_content, schema)
        assert "[c1]" in text_of(result)


def test_the_official_client_runs_the_three_tools_over_stdio(
    corpus_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def scenario() -> list[Any]:
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "kubeflow_corpus.cli.main", "mcp"],
            env={
                **os.environ,
                "MILVUS_URI": _own(corpus_uri, tmp_path_factory),
                "MCP_SEARCH_SECONDS": "60",
                "MCP_WRITE_ENABLED": "true",
            },
        )
        async with Client(parameters) as client:
            found = [await client.call_tool(tool, {"query": query}) for tool, query in QUESTIONS.items()]
            return [{tool.name for tool in (await client.list_tools()).tools}, *found]

    names, *found = asyncio.run(scenario())
    assert all("[c1]" in text_of(result) and "\n\nSources:\n[c1] " in text_of(result) for result in found)
    # Whoever starts the process may use what it was started to offer.
    assert "upsert_document" in names


@pytest.mark.parametrize("more", [False, True])
def test_over_stdio_nothing_is_opened_before_the_host_has_its_first_answer(tmp_path: Path, more: bool) -> None:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
    messages = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}]
    if more:
        messages.append({"jsonrpc": "2.0", "method": "notifications/initialized"})
    command = [sys.executable, "-X", "importtime", "-m", "kubeflow_corpus.cli.main", "mcp"]

    ran = subprocess.run(
        command,
        input="".join(f"{json.dumps(message)}\n" for message in messages),
        env={**os.environ, "MILVUS_URI": str(tmp_path / "corpus.db")},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )

    assert json.loads(ran.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "kubeflow-corpus"
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if line.startswith("import time:")}
    assert ("kubeflow_corpus.query.client" in imported) is more
    assert more or not imported & {"pymilvus", "milvus_lite", "onnxruntime", "numpy", "tokenizers"}


def test_health_readiness_and_metrics(server: Running) -> None:
    call(server.url, "search_kubeflow_docs", "caching")

    assert requests.get(f"{server.url}/healthz", timeout=30).text == "ok\n"
    assert requests.get(f"{server.url}/readyz", timeout=30).json() == {
        "ready": True,
        "code": "OK",
        "collections": {"docs": True, "issues": True, "code": True},
    }
    metrics = requests.get(f"{server.url}/metrics", timeout=30).text
    assert 'kubeflow_corpus_tool_calls_total{code="OK",tool="search_kubeflow_docs"}' in metrics
    assert "caching" not in metrics
    assert "kubeflow_corpus_degraded_searches_total" in metrics
    figures = {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in metrics.splitlines())
        if "#" not in name
    }
    for collection in ("docs", "issues", "code"):
        named = f'{{collection="{collection}"}}'
        assert figures[f"kubeflow_corpus_collection_served{named}"] == 1
        assert time.time() - figures["kubeflow_corpus_collections_read_timestamp_seconds"] < 7200


def test_the_times_of_the_log_have_a_zone() -> None:
    record = logging.LogRecord("kubeflow_corpus.mcp", logging.INFO, "", 0, "a message", (), None)
    at = json.loads(log_format().format(record))["at"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", at)


def log_format() -> logging.Formatter:
    from kubeflow_corpus.cli.serve_mcp import LOGGER, log_to_stderr

    before = list(LOGGER.handlers)
    log_to_stderr()
    (added,) = (handler for handler in LOGGER.handlers if handler not in before)
    LOGGER.removeHandler(added)
    assert added.formatter
    return added.formatter


def test_the_log_is_json_lines_with_built_listening_and_calls(server: Running) -> None:
    call(server.url, "search_kubeflow_docs", "caching")

    events = [event["event"] for event in server.events if "event" in event]
    assert events[:2] == ["server_built", "listening"]
    assert "call" in events


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_another_host_or_origin_is_refused(server: Running, headers: dict[str, str], status: int) -> None:
    assert call(server.url, "search_kubeflow_docs", "caching", **headers).status_code == status


def test_browsers_get_no_cors_headers_unless_an_origin_is_listed(server: Running, guarded: Running) -> None:
    asked = {"Origin": "https://docs.example.org", "Access-Control-Request-Method": "POST"}

    assert "access-control-allow-origin" not in requests.options(f"{server.url}/mcp", headers=asked, timeout=30).headers
    allowed = requests.options(f"{guarded.url}/mcp", headers=asked, timeout=30).headers
    assert allowed["access-control-allow-origin"] == "https://docs.example.org"
    other = requests.options(f"{guarded.url}/mcp", headers={**asked, "Origin": "https://evil.example"}, timeout=30)
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"\x00\xff", b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', b"9" * 1000],
)
def test_a_malformed_body_is_refused_and_the_server_lives(server: Running, body: bytes) -> None:
    response = requests.post(f"{server.url}/mcp", data=body, headers=HEADERS, timeout=30)

    assert 400 <= response.status_code < 500 or "error" in response.json()
    assert requests.get(f"{server.url}/healthz", timeout=30).ok


def test_an_oversize_body_is_refused(server: Running) -> None:
    response = call(server.url, "search_kubeflow_docs", "x" * 1_000_000)

    assert response.status_code == 413
    assert requests.get(f"{server.url}/healthz", timeout=30).ok


@pytest.mark.parametrize("query", ["\x00", "\ud800", "a\udfffb"])
def test_nul_and_lone_surrogates_are_answered(server: Running, query: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search_kubeflow_docs"}}
    body["params"]["arguments"] = {"query": query}  # type: ignore[index]
    data = json.dumps(body).encode()

    response = requests.post(f"{server.url}/mcp", data=data, headers=HEADERS, timeout=60)

    assert response.status_code < 500
    assert requests.get(f"{server.url}/healthz", timeout=30).ok


def test_a_caller_needs_a_good_token(guarded: Running, issuer: Issuer) -> None:
    tokens = {
        "none": "",
        "wrong": "Bearer nonsense",
        "expired": f"Bearer {issuer.token(exp=1)}",
        "other audience": f"Bearer {issuer.token(aud='other')}",
        "other scheme": f"Basic {issuer.token()}",
    }

    statuses = {
        name: call(guarded.url, "search_kubeflow_docs", "caching", **({"Authorization": value} if value else {}))
        for name, value in tokens.items()
    }

    assert {name: response.status_code for name, response in statuses.items()} == dict.fromkeys(tokens, 401)
    assert all("WWW-Authenticate" in response.headers for response in statuses.values())
    good = call(guarded.url, "search_kubeflow_docs", "caching", Authorization=f"Bearer {issuer.token()}")
    assert "[c1]" in answer(good)


def test_the_claim_decides_what_a_caller_may_see(guarded: Running, issuer: Issuer) -> None:
    def asked(**claims: Any) -> str:
        token = issuer.token(**claims)
        return answer(
            call(guarded.url, "search_kubeflow_docs", "staging dashboard password", Authorization=f"Bearer {token}")
        )

    assert "every Monday" in asked(groups=["team-a"])
    assert "every Monday" in asked(groups="team-a")
    assert "every Monday" not in asked(groups=["team-b"])
    assert "every Monday" not in asked(groups=7)
    assert "every Monday" not in asked()


def test_only_a_token_with_the_scope_sees_the_writing_tool_and_writes(guarded: Running, issuer: Issuer) -> None:
    page = {
        "collection": "docs",
        "content": "The mooring mast of the zeppelin is `mast-7`.",
        "title": "Mooring",
        "metadata": {"origin": "https://runbooks.example.org/mooring"},
    }

    def asked(method: str, params: dict[str, Any], scope: str) -> dict[str, Any]:
        token = issuer.token(sub="ada", scope=scope)
        return dict(send(guarded.url, method, params, Authorization=f"Bearer {token}").json()["result"])

    def listed(scope: str) -> set[str]:
        return {tool["name"] for tool in asked("tools/list", {}, scope)["tools"]}

    write = {"name": "upsert_document", "arguments": page}
    refused = asked("tools/call", write, "corpus:read")
    written = asked("tools/call", write, "corpus:read corpus:write")
    found = asked("tools/call", {"name": "search_kubeflow_docs", "arguments": {"query": "zeppelin mast"}}, "")

    assert "upsert_document" not in listed("corpus:read") and "upsert_document" in listed("corpus:write")
    assert refused["isError"] and refused["content"][0]["text"].startswith("PERMISSION_DENIED: ")
    assert written["structuredContent"]["action"] == "created"
    assert "mast-7" in found["content"][0]["text"]
    audited = [(event["caller"], event["action"]) for event in guarded.events if event.get("event") == "write"]
    assert audited == [("ada", "refused"), ("ada", "created")]


def test_a_rotated_key_is_accepted_at_once(guarded: Running, issuer: Issuer) -> None:
    issuer.rotate()

    good = call(guarded.url, "search_kubeflow_docs", "caching", Authorization=f"Bearer {issuer.token()}")

    assert "[c1]" in answer(good)


def test_many_clients_at_once_see_no_error_but_the_rate_limit(
    corpus_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def client(url: str, answers: list[str]) -> None:
        with requests.Session() as session:
            for _ in range(5):
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
                params = {"name": "search_kubeflow_docs", "arguments": {"query": "caching"}}
                response = session.post(f"{url}/mcp", json={**body, "params": params}, headers=HEADERS, timeout=120)
                answers.append(answer(response))

    with running(_own(corpus_uri, tmp_path_factory), MCP_GLOBAL_RATE="20", MCP_MAX_QUEUE="200") as started:
        answers: list[str] = []
        threads = [threading.Thread(target=client, args=(started.url, answers)) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    refused = [text for text in answers if text.startswith("RATE_LIMITED: ")]
    served = [text for text in answers if "[c1]" in text]
    assert len(answers) == 64 * 5
    assert len(refused) + len(served) == len(answers)
    assert served and refused


def test_told_to_stop_it_finishes_what_runs_and_exits_with_zero(
    corpus_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outcomes: list[str] = []

    def client(url: str) -> None:
        while True:
            try:
                response = call(url, "search_kubeflow_docs", "caching")
            except requests.ConnectionError:
                outcomes.append("refused")
                return
            outcomes.append(answer(response)[:13] if response.ok else str(response.status_code))
            if not response.ok or outcomes[-1].startswith("UNAVAILABLE"):
                return

    with running(_own(corpus_uri, tmp_path_factory)) as started:
        threads = [threading.Thread(target=client, args=(started.url,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        while len(outcomes) < 16:
            threading.Event().wait(0.05)
        code = started.stop()
        for thread in threads:
            thread.join(60)

    assert code == 0
    # Nothing was cut off: every call was answered, refused at the door, or told that the server stops.
    assert all(not outcome.isdigit() or outcome == "503" for outcome in outcomes)
    assert [event for event in started.events if event.get("event") == "stopped"][0]["finished"] is True
