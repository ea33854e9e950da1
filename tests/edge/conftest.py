from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.issuer.keys import SUFFIX, make_key
from kubeflow_corpus.settings import Settings

from tests.edge.gateway import START_SECONDS, Gateway, running_gateway
from tests.edge.rendering import render
from tests.servers.milvus_lite import free_port

MCP = "mcp.kubeflow-corpus.svc.cluster.local:8000"
ISSUER = "issuer.corpus-edge.svc.cluster.local:8001"
HOST = "corpus.example.org"
ORIGIN = "https://www.kubeflow.org"
DAY = 86_400
# Small buckets that hardly fill: what a test counts does not depend on how fast it runs.
LIMITS: dict[str, Any] = {"session": {"perMinute": 1, "burst": 3}, "address": {"perMinute": 1, "burst": 12}}


@dataclass
class Edge:
    """What stands behind the gateway, and what a test changes there."""

    keys: Path
    services: dict[str, int]


@pytest.fixture(scope="session")
def mcp_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A real MCP server over a small real corpus, with the embedded model."""
    from kubeflow_corpus.embedding.embedded import EmbeddedModel
    from kubeflow_corpus.milvus import connected

    from tests.store.synthetic import Run, page, result

    folder = tmp_path_factory.mktemp("edge-corpus")
    uri = str(folder / "corpus.db")
    sections = [
        "Caching: A pipeline step with the same inputs is not run again. Call set_caching_options to change that.",
        "Secrets: A step reads a Secret of Kubernetes as an environment variable.",
    ]
    with connected(Settings(milvus_uri=uri)) as client:
        fetched = [result(folder, "site", [page("site", "docs/caching.md", sections)])]
        Run(client, folder / "work", fetched, embedder=EmbeddedModel()).all()
    yield from _serving(folder / "mcp.log", {"MILVUS_URI": uri}, "mcp", "--transport", "streamable-http")


@pytest.fixture(scope="session")
def edge(mcp_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """The MCP server and the issuer, both as their commands."""
    folder = tmp_path_factory.mktemp("edge")
    keys = folder / "keys"
    keys.mkdir()
    # A key in its best years: made long enough ago to sign, and due for a rotation.
    write_key(keys, time.time() - 40 * DAY)
    settings = {"ISSUER_URL": f"https://{HOST}", "ISSUER_KEYS_FOLDER": str(keys)}
    for port in _serving(folder / "issuer.log", settings, "issuer", "serve"):
        yield Edge(keys, {MCP: mcp_port, ISSUER: port})


@pytest.fixture(scope="session")
def gateway(edge: Edge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    objects = render({"limits": LIMITS, "gateway": {"trustedProxies": 1}})
    with running_gateway(objects, tmp_path_factory.mktemp("envoy"), edge.services) as running:
        yield running


def write_key(folder: Path, made: float) -> str:
    name, pem = make_key(made)
    (folder / f"{name}{SUFFIX}").write_bytes(pem)
    return name


def _serving(log: Path, settings: dict[str, str], *command: str) -> Iterator[int]:
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MCP_", "MILVUS_"))}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "kubeflow_corpus.cli.main", *command, "--host", "127.0.0.1", "--port", str(port)],
            env=environment | settings | {"MCP_ALLOWED_HOSTS": MCP},
            stdout=file,
            stderr=file,
        )
    try:
        _wait_ready(process, port, log)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _wait_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    import urllib3

    deadline = time.monotonic() + 4 * START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if urllib3.request("GET", f"http://127.0.0.1:{port}/readyz", retries=False, timeout=5).status == 200:
                return
        except urllib3.exceptions.HTTPError:
            pass
        threading.Event().wait(0.1)
    raise RuntimeError(f"The service did not become ready:\n{log.read_text(errors='replace')[-3000:]}")


def search(gateway: Gateway, token: str = "", **options: Any) -> Any:
    """Calls the search tool, as an agent does."""
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "search_kubeflow_docs", "arguments": {"query": "how do I turn off caching of a step?"}},
    }
    headers = {"mcp-protocol-version": "2025-06-18"} | options.pop("headers", {})
    if token:
        headers["authorization"] = f"Bearer {token}"
    return gateway.request("POST", "/mcp", body=call, headers=headers, **options)


def open_session(gateway: Gateway, address: str, **options: Any) -> str:
    answer = gateway.request("POST", "/session", address=address, **options)
    assert answer.status == 201, answer.data
    return str(json.loads(answer.data)["access_token"])
