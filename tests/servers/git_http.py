"""A real smart-HTTP git server on loopback: git's ``http-backend`` behind a CGI bridge, with faults to order."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class GitHttp:
    """What the server does, and what it saw.

    Attributes:
        root: Folder of the repositories; ``/name`` is ``root/name``.
        url: Address of the root.
        filters: Whether ``git fetch --filter`` is honoured.
        version_2: Whether protocol version 2 is spoken; version 0 gives no object by its id.
        authorization: The ``Authorization`` header that is wanted; empty lets everybody in.
        status: Answer every request with this status; 0 answers for real.
        redirects: First path segment to the address that it has moved to.
        hang: Accept requests and never answer.
        broken_answers: How many of the next pack answers end in the middle.
        requests: Lines ``METHOD path``.
        headers: ``Authorization`` header of each request, empty where there was none.
    """

    root: Path
    url: str = ""
    filters: bool = True
    version_2: bool = True
    authorization: str = ""
    status: int = 0
    redirects: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    broken_answers: int = 0
    requests: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serve_git(root: Path) -> Iterator[GitHttp]:
    """Serves the repositories below a folder until the block ends."""
    state = GitHttp(root)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(state: GitHttp) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self._body())

        def log_message(self, *_: Any) -> None:
            return

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", "0")))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def _answer(self, body: bytes) -> None:
            state.requests.append(f"{self.command} {self.path}")
            state.headers.append(self.headers.get("Authorization", ""))
            first = self.path.split("/")[1]
            if state.hang:
                state.stopping.wait()
                self.close_connection = True
            elif first in state.redirects:
                rest = self.path.removeprefix(f"/{first}")
                self._plain(301, b"", [("Location", state.redirects[first] + rest)])
            elif state.status:
                self._plain(state.status, b"no", [])
            elif state.authorization and self.headers.get("Authorization") != state.authorization:
                self._plain(401, b"", [("WWW-Authenticate", 'Basic realm="git"')])
            else:
                self._backend(body)

        def _backend(self, body: bytes) -> None:
            result = subprocess.run(
                ["git", "http-backend"], input=body, env=self._environment(), capture_output=True, check=False
            )
            head, _, answer = result.stdout.partition(b"\r\n\r\n")
            fields = [tuple(line.decode().split(": ", 1)) for line in head.split(b"\r\n") if b": " in line]
            status = next((int(value.split()[0]) for name, value in fields if name == "Status"), 200)
            headers = [(name, value) for name, value in fields if name != "Status"]
            if state.broken_answers and b"PACK" in answer:
                state.broken_answers -= 1
                self._plain(status, answer, headers, cut=len(answer) // 2)
            else:
                self._plain(status, answer, headers)

        def _environment(self) -> dict[str, str]:
            parts = urlsplit(self.path)
            switches = {
                "uploadpack.allowFilter": str(state.filters).lower(),
                "uploadpack.allowAnySHA1InWant": "false",
                "safe.directory": "*",
            }
            config = {f"GIT_CONFIG_KEY_{index}": key for index, key in enumerate(switches)}
            config |= {f"GIT_CONFIG_VALUE_{index}": value for index, value in enumerate(switches.values())}
            return {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(state.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CONFIG_GLOBAL": os.devnull,
                "GIT_CONFIG_COUNT": str(len(switches)),
                **config,
                "REQUEST_METHOD": self.command,
                "PATH_INFO": unquote(parts.path),
                "QUERY_STRING": parts.query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", "") if state.version_2 else "",
                "REMOTE_ADDR": "127.0.0.1",
            }

        def _plain(self, status: int, body: bytes, headers: list[tuple[str, ...]], cut: int | None = None) -> None:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:cut])
            self.close_connection = cut is not None

    return Handler
