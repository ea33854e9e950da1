"""Serves the page on this machine until somebody ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.applications import Starlette

from kubeflow_corpus.web_server import run_watched, take_signals, wait_for_port

HOST: Final = "127.0.0.1"
SHUTDOWN_SECONDS: Final = 2


def serve(app: Starlette, port: int, ready: Callable[[int], None]) -> None:
    """Serves until SIGINT or SIGTERM.

    Args:
        app: The application.
        port: Where; 0 takes a free one.
        ready: Called with the port as soon as the page answers.

    Raises:
        SystemExit: The port is taken.
    """
    config = uvicorn.Config(
        app,
        host=HOST,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = uvicorn.Server(config)

    async def announce() -> None:
        if port := await wait_for_port(server):
            ready(port)

    take_signals()
    asyncio.run(run_watched(server, announce))
