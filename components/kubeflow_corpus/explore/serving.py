"""Serves the page on this machine until somebody ends it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.applications import Starlette

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
    # The server raises the signal again after its shutdown; with handlers of our own that does not kill the process.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    asyncio.run(_serve(uvicorn.Server(config), ready))


async def _serve(server: uvicorn.Server, ready: Callable[[int], None]) -> None:
    async def announce() -> None:
        while not server.started and not server.should_exit:
            await asyncio.sleep(0.02)
        if server.started:
            ready(server.servers[0].sockets[0].getsockname()[1])

    watcher = asyncio.create_task(announce())
    try:
        await server.serve()
    finally:
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await watcher
