"""A connection costs little before anything is asked: slow bodies, compressed bodies, streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn
from kubeflow_corpus.mcp_server.intake import Intake
from kubeflow_corpus.mcp_server.settings import ServerSettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

Scenario = Callable[[int], Awaitable[None]]


async def _echo(request: Request) -> Response:
    return PlainTextResponse(f"{len(await request.body())} bytes")


async def _listen(request: Request) -> Response:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b": still here\n\n"
            await asyncio.sleep(0.05)

    return StreamingResponse(endless(), media_type="text/event-stream")


@asynccontextmanager
async def _served(settings: ServerSettings) -> AsyncIterator[int]:
    app = Starlette(routes=[Route("/mcp", _echo, methods=["POST"]), Route("/mcp", _listen, methods=["GET"])])
    app.add_middleware(Intake, settings=settings)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=1))
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await running


def _serve(scenario: Scenario, **settings: float) -> None:
    async def whole() -> None:
        async with _served(ServerSettings(**settings)) as port:
            await scenario(port)

    asyncio.run(whole())


async def _sent(port: int, *parts: bytes, pause: float = 0.0) -> str:
    """Sends a request part by part, and returns everything that comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
        return (await asyncio.wait_for(reader.read(), 60)).decode()
    finally:
        writer.close()


def _post(headers: str, length: int) -> bytes:
    return f"POST /mcp HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n".encode()


GET = b"GET /mcp HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def test_a_body_that_comes_byte_by_byte_is_given_up() -> None:
    async def scenario(port: int) -> None:
        slow, whole = await asyncio.gather(
            _sent(port, _post("", 10), b"1", pause=0.1), _sent(port, _post("", 10), b"1234567890")
        )
        assert slow.startswith("HTTP/1.1 408 ")
        assert whole.startswith("HTTP/1.1 200 ") and whole.endswith("10 bytes")

    _serve(scenario, body_seconds=3.0)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity, gzip"])
def test_a_compressed_body_is_refused(encoding: str) -> None:
    async def scenario(port: int) -> None:
        refused = await _sent(port, _post(f"Content-Encoding: {encoding}\r\n", 2), b"{}")
        assert refused.startswith("HTTP/1.1 415 ")

    _serve(scenario)


def test_streams_are_bounded_in_number_and_in_time() -> None:
    async def scenario(port: int) -> None:
        answers = await asyncio.gather(*(_sent(port, GET) for _ in range(5)))
        assert sorted(answer.split()[1] for answer in answers) == ["200", "200", "503", "503", "503"]
        # Those that were open came to an orderly end, and made room.
        assert all(answer.endswith("0\r\n\r\n") for answer in answers if " 200 " in answer)
        assert (await _sent(port, GET)).startswith("HTTP/1.1 200 ")

    _serve(scenario, max_streams=2, stream_seconds=2.0)
