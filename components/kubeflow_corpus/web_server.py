"""Runs a web server in this process until SIGTERM or SIGINT; both end it in order, with exit code 0."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable

import uvicorn


def take_signals() -> None:
    """Takes SIGTERM and SIGINT: the server raises them again after its shutdown, which would kill the process."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)


async def run_watched(server: uvicorn.Server, watch: Callable[[], Awaitable[None]]) -> None:
    """Serves until the server is asked to end.

    Args:
        server: What serves.
        watch: Runs beside it, from before it starts; it has ended when this returns.
    """
    watcher = asyncio.ensure_future(watch())
    try:
        await server.serve()
    finally:
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await watcher


async def wait_for_port(server: uvicorn.Server) -> int:
    """Waits until a server answers; returns its port, or 0 where it ended before."""
    while not server.started and not server.should_exit:
        await asyncio.sleep(0.02)
    port: int = server.servers[0].sockets[0].getsockname()[1] if server.started else 0
    return port
