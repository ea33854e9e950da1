"""A chat service's webhook on loopback: it keeps what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


@dataclass
class Webhook:
    """What the server does, and what it saw.

    Attributes:
        url: Its address; the path is a secret.
        status: What it answers.
        told: The texts that it was sent.
    """

    url: str = ""
    status: int = 200
    told: list[str] = field(default_factory=list)


@contextmanager
def serve_webhook() -> Iterator[Webhook]:
    state = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # noqa: N802
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.told.append(body["text"])
            self.send_response(state.status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}/secret-path"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
