"""What stands between a browser and the page: only this machine may ask, and nothing foreign runs or is loaded."""

from __future__ import annotations

import hmac
import secrets
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})
# A page reads its own style and script and nothing else; no text of a source can add to either.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # An address that is opened from a page does not learn which question led there.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# A question with its fields.
MAX_BODY_BYTES: Final = 64 * 1024


class WriteToken:
    """The word that a person copies from the terminal into the page before anything is written.

    Args:
        text: The word; empty makes one up.
    """

    def __init__(self, text: str = "") -> None:
        self.text = text or secrets.token_urlsafe(12)

    def matches(self, given: str) -> bool:
        """Whether a form has the word."""
        return hmac.compare_digest(self.text.encode(), given.strip().encode("utf-8", "replace"))


class Guard:
    """Refuses requests of other hosts and pages, and adds the headers of `HEADERS` to every answer.

    A page of the web may lead a browser to this server under a name of its own (DNS rebinding), so the name in ``Host``
    counts; and it may send forms here, so ``Origin`` must be this server.

    Args:
        app: What answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        problem = _problem(scope["method"], Headers(scope=scope))
        app = PlainTextResponse(problem + "\n", status_code=403) if problem else self._app
        await app(scope, receive, guarded)


def _problem(method: str, headers: Headers) -> str:
    host = headers.get("host", "")
    if _name(f"//{host}") not in LOOPBACK_NAMES:
        return "This page answers under 127.0.0.1 and localhost only."
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return "This page answers its own forms only."
    if method not in ("GET", "HEAD"):
        if origin is None:
            return "A form says where it comes from (Origin)."
        length = headers.get("content-length", "")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            return f"A form has a length, of at most {MAX_BODY_BYTES} bytes."
    return ""


def _name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
