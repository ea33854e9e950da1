"""The HTTP service: ``POST /session``, the key set, health and readiness."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import jwt
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from kubeflow_corpus.errors import CorpusError
from kubeflow_corpus.issuer.keys import ALGORITHM, Key, key_set, made_at, read_keys, signing_key
from kubeflow_corpus.issuer.settings import IssuerSettings
from kubeflow_corpus.issuer.stores import FolderStore

SESSION_PATH: Final = "/session"
KEYS_PATH: Final = "/.well-known/jwks.json"
SCOPE: Final = "corpus:read"
# A mounted Secret changes at most every minute; the folder is read this often.
_READ_SECONDS: Final = 5.0
_KEY_SET_MAX_AGE: Final = 300


class Keyring:
    """The keys of a folder, read again every few seconds: a rotation needs no restart."""

    def __init__(self, store: FolderStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._keys: tuple[Key, ...] = ()

    def keys(self) -> tuple[Key, ...]:
        """Returns the keys, the oldest first.

        Raises:
            CorpusError: One cannot be read.
        """
        with self._lock:
            if self._clock() - self._read_at >= _READ_SECONDS:
                self._keys = read_keys(self._store.read())
                self._read_at = self._clock()
            return self._keys


def make_token(keys: tuple[Key, ...], settings: IssuerSettings, now: float) -> tuple[str, int]:
    """Returns a session's token and when it ends.

    Args:
        keys: At least one.
        settings: Whose token, for whom, for how long.
        now: Seconds since 1970.
    """
    key = signing_key(keys, now, settings.publish_seconds)
    end = int(now) + settings.session_seconds
    claims = {
        "iss": settings.url,
        "aud": settings.audience,
        # Nothing about the caller: who asked cannot be learned from a token.
        "sub": secrets.token_urlsafe(16),
        "iat": int(now),
        "exp": end,
        "scope": SCOPE,
    }
    return jwt.encode(claims, key.private, algorithm=ALGORITHM, headers={"kid": key.name}), end


def build_app(settings: IssuerSettings, keyring: Keyring, clock: Callable[[], float] = time.time) -> Starlette:
    """Returns the ASGI application."""

    def session(request: Request) -> Response:
        keys = keyring.keys()
        if not keys:
            return _no_keys()
        token, end = make_token(keys, settings, clock())
        body = {"access_token": token, "token_type": "Bearer", "expires_in": end - int(clock())}
        return JSONResponse(body, status_code=201, headers={"Cache-Control": "no-store"})

    def published(request: Request) -> Response:
        headers = {"Cache-Control": f"public, max-age={_KEY_SET_MAX_AGE}"}
        return JSONResponse(key_set(keyring.keys()), headers=headers)

    def healthz(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    def readyz(request: Request) -> Response:
        return JSONResponse({"ready": True}) if keyring.keys() else _no_keys()

    def metrics(request: Request) -> Response:
        keys = keyring.keys()
        lines = ["# TYPE kubeflow_corpus_session_keys gauge", f"kubeflow_corpus_session_keys {len(keys)}"]
        if keys:
            # A rotation that no longer runs is silent: sessions go on with the old key.
            name = "kubeflow_corpus_session_key_made_timestamp_seconds"
            lines += [f"# TYPE {name} gauge", f"{name} {made_at(keys[-1].name):.0f}"]
        return PlainTextResponse("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4; charset=utf-8")

    def failed(request: Request, error: Exception) -> Response:
        return _problem("UNAVAILABLE", "The session keys cannot be read")

    # These are functions, not coroutines: reading keys and signing must not hold up the event loop.
    return Starlette(
        routes=[
            Route(SESSION_PATH, session, methods=["POST"]),
            Route(KEYS_PATH, published, methods=["GET"]),
            Route("/healthz", healthz, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
        ],
        exception_handlers={CorpusError: failed},
    )


def _no_keys() -> Response:
    return _problem("FAILED_PRECONDITION", "There is no session key yet; the rotation job makes the first one")


def _problem(code: str, message: str) -> Response:
    body: dict[str, Any] = {"code": code, "message": message}
    return JSONResponse(body, status_code=503, headers={"Retry-After": "10"})
