"""A server over the made-up corpus, in memory or as a process, and tokens to call it with."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from kubeflow_corpus.mcp_server.assembly import StatusReader
from kubeflow_corpus.mcp_server.server import build_server
from kubeflow_corpus.mcp_server.service import Service
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.query.client import AsyncCorpusClient
from kubeflow_corpus.settings import Settings
from mcp import Client

from tests.query.corpus import MODEL

ISSUER = "https://issuer.example.org"
AUDIENCE = "kubeflow-corpus"


@asynccontextmanager
async def in_memory(uri: str, settings: ServerSettings | None = None) -> AsyncIterator[Client]:
    async with AsyncCorpusClient(milvus_uri=uri, embeddings=MODEL, timeout=60) as corpus:
        service = Service(corpus, settings or ServerSettings())
        async with Client(build_server(service, StatusReader(Settings(milvus_uri=uri)))) as client:
            yield client


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


@dataclass
class Running:
    process: subprocess.Popen[str]
    url: str
    events: list[dict[str, Any]]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def running(uri: str, **environ: str) -> Iterator[Running]:
    """Starts ``kubeflow-corpus mcp`` on a free port of the loopback interface."""
    command = [sys.executable, "-m", "kubeflow_corpus.cli.main", "mcp", "--transport", "streamable-http", "--port", "0"]
    process = subprocess.Popen(
        # The machine of a test run may be busy: deadlines have tests of their own.
        command,
        env={**os.environ, "MILVUS_URI": uri, "MCP_SEARCH_SECONDS": "60", **environ},
        stderr=subprocess.PIPE,
        text=True,
    )
    events: list[dict[str, Any]] = []
    try:
        port = _port(process, events)
        reader = threading.Thread(target=lambda: events.extend(map(_event, process.stderr or ())), daemon=True)
        reader.start()
        yield Running(process, f"http://127.0.0.1:{port}", events)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        reader.join(10)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stderr:
            process.stderr.close()


def _port(process: subprocess.Popen[str], events: list[dict[str, Any]]) -> int:
    assert process.stderr is not None
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        ready, _, _ = select.select([process.stderr], [], [], 1)
        line = process.stderr.readline() if ready else ""
        if not line and process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}: {events}")
        if line:
            events.append(_event(line))
            if events[-1].get("event") == "listening":
                return int(events[-1]["port"])
    raise AssertionError("the server did not start")


def _event(line: str) -> dict[str, Any]:
    # Native libraries write to stderr as they like; what they say is kept for a person who looks.
    return dict(json.loads(line)) if line.startswith("{") else {"line": line}


class Issuer:
    """Signs tokens and publishes its keys on loopback; keys can be rotated."""

    def __init__(self) -> None:
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.requests = 0
        self.rotate()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.requests += 1
                body = json.dumps(issuer.jwks()).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/jwks.json"

    def rotate(self) -> str:
        self.kid = f"key-{len(self.keys) + 1}"
        self.keys[self.kid] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        return self.kid

    def jwks(self) -> dict[str, Any]:
        algorithm = jwt.algorithms.RSAAlgorithm
        return {
            "keys": [
                {**json.loads(algorithm.to_jwk(key.public_key())), "kid": kid, "alg": "RS256", "use": "sig"}
                for kid, key in self.keys.items()
            ]
        }

    def token(self, *, key: rsa.RSAPrivateKey | None = None, **claims: Any) -> str:
        now = int(time.time())
        body = {"iss": ISSUER, "aud": AUDIENCE, "sub": "someone", "iat": now, "exp": now + 600, **claims}
        return jwt.encode(body, key or self.keys[self.kid], "RS256", headers={"kid": self.kid})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@contextmanager
def issuing() -> Iterator[Issuer]:
    issuer = Issuer()
    try:
        yield issuer
    finally:
        issuer.close()
