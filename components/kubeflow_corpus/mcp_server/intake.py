"""What a connection may cost before anything is asked: slow and compressed bodies, and streams that stay open.

The protocol's own limits begin with a whole request. This comes before it, for callers known and unknown alike.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kubeflow_corpus.mcp_server.settings import ServerSettings

_CLOSE: Final = {"Connection": "close"}


@dataclass(slots=True)
class Intake:
    """Bounds the time of a body and the number and age of streams.

    Attributes:
        app: What answers.
        settings: The bounds.
        streams: Streams that are open now.
    """

    app: ASGIApp
    settings: ServerSettings
    streams: int = field(default=0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or refuses it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif Headers(scope=scope).get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            # A kilobyte of compressed blanks is a megabyte of JSON.
            await PlainTextResponse("Send the body as it is\n", 415, headers=_CLOSE)(scope, receive, send)
        elif scope["method"] == "GET" and scope["path"] == self.settings.path:
            await self._stream(scope, receive, send)
        elif scope["method"] == "POST":
            await self._with_body(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send)
        try:
            async with asyncio.timeout(self.settings.body_seconds) as limit:

                async def receive_in_time() -> Message:
                    message = await receive()
                    if message["type"] != "http.request" or not message.get("more_body"):
                        # The time of the answer is bounded elsewhere.
                        limit.reschedule(None)
                    return message

                await self.app(scope, receive_in_time, answer)
        except TimeoutError:
            if not limit.expired():
                raise
            await answer.end(PlainTextResponse("The body came too slowly\n", 408, headers=_CLOSE), scope, receive)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.streams >= self.settings.max_streams:
            refusal = PlainTextResponse("Too many open streams\n", 503, headers={**_CLOSE, "Retry-After": "5"})
            await refusal(scope, receive, send)
            return
        answer = _Answer(send)
        self.streams += 1
        try:
            async with asyncio.timeout(self.settings.stream_seconds) as limit:
                await self.app(scope, receive, answer)
        except TimeoutError:
            if not limit.expired():
                raise
            # A client that wants to go on listening opens another.
            await answer.end(Response(status_code=204), scope, receive)
        finally:
            self.streams -= 1


class _Answer:
    """Passes an answer on, and remembers how far it is."""

    __slots__ = ("_begun", "_over", "_send")

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = self._over = False

    async def __call__(self, message: Message) -> None:
        self._begun = True
        self._over = message["type"] == "http.response.body" and not message.get("more_body")
        await self._send(message)

    async def end(self, response: Response, scope: Scope, receive: Receive) -> None:
        """Ends the answer: with the response where nothing was sent yet."""
        if not self._begun:
            await response(scope, receive, self._send)
        elif not self._over:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
