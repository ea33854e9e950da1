"""The HTTP service around the protocol: health, metrics, host and origin checks, limits and an orderly shutdown."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import uvicorn
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from kubeflow_corpus.errors import CorpusError
from kubeflow_corpus.mcp_server.auth import verifier
from kubeflow_corpus.mcp_server.freshness import Freshness
from kubeflow_corpus.mcp_server.intake import Intake
from kubeflow_corpus.mcp_server.service import Service
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.web_server import run_watched, take_signals, wait_for_port

LOGGER: Final = logging.getLogger("kubeflow_corpus.mcp")
LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
# Probes come every few seconds from every node; Milvus is asked at most this often.
READY_SECONDS: Final = 2.0
READY_TIMEOUT: Final = 2.5

Probe = Callable[[], Awaitable[None]]


class Readiness:
    """Whether the server can answer: probes Milvus and the embeddings, and caches the result for a moment."""

    def __init__(self, probe: Probe, clock: Callable[[], float] = time.monotonic) -> None:
        self._probe = probe
        self._clock = clock
        self._lock = asyncio.Lock()
        self._at = float("-inf")
        self._problem = ""
        self.stopping = False

    async def problem(self) -> str:
        """Returns why the server is not ready, as a code; empty when it is."""
        if self.stopping:
            return "UNAVAILABLE"
        async with self._lock:
            if self._clock() - self._at > READY_SECONDS:
                self._problem = await self._ask()
                self._at = self._clock()
        return self._problem

    async def _ask(self) -> str:
        try:
            await asyncio.wait_for(self._probe(), READY_TIMEOUT)
        except CorpusError as error:
            LOGGER.warning("not ready: %s", error)
            return error.code
        except TimeoutError:
            return "DEADLINE_EXCEEDED"
        return ""


def build_app(
    server: Server[Any], service: Service, readiness: Readiness, freshness: Freshness | None = None
) -> Starlette:
    """Returns the ASGI application: the MCP endpoint, ``/healthz``, ``/readyz`` and ``/metrics``.

    Args:
        server: The protocol.
        service: The tools.
        readiness: Whether they can answer.
        freshness: What the collections record; None leaves that out of ``/readyz`` and ``/metrics``.
    """
    settings = service.settings

    async def healthz(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        problem = await readiness.problem()
        # The code says what kind of problem it is; the log says where. A collection that is not served is shown and
        # makes no pod unready: every replica lacks it, and the others answer.
        body: dict[str, Any] = {"ready": not problem, "code": problem or "OK"}
        if freshness is not None and not problem:
            await freshness.refresh()
            body["collections"] = freshness.served
        return JSONResponse(body, status_code=503 if problem else 200)

    async def metrics(request: Request) -> Response:
        if freshness is not None:
            await freshness.refresh()
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    verify = verifier(settings)
    app = server.streamable_http_app(
        streamable_http_path=settings.path,
        json_response=True,
        stateless_http=settings.stateless,
        max_request_body_size=settings.max_body_bytes,
        transport_security=_security(settings),
        host=settings.host,
        auth=_auth(settings) if verify else None,
        token_verifier=verify,
        custom_starlette_routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
        ],
    )
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.allowed_origins),
            allow_methods=["POST", "GET", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Mcp-Session-Id", "Mcp-Protocol-Version"],
            expose_headers=["Mcp-Session-Id"],
        )
    # The outermost: added last.
    app.add_middleware(Intake, settings=settings)
    return app


def serve(app: Starlette, service: Service, readiness: Readiness) -> None:
    """Serves until SIGTERM or SIGINT: running calls finish, new ones are refused, and the exit code is 0."""
    settings = service.settings
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        # Idle and slow connections do not delay the shutdown.
        timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
    )
    take_signals()
    asyncio.run(_serve(uvicorn.Server(config), service, readiness))


async def _serve(server: uvicorn.Server, service: Service, readiness: Readiness) -> None:
    settings = service.settings

    async def watch() -> None:
        if port := await wait_for_port(server):
            _log("listening", host=settings.host, port=port, path=settings.path)
        while not server.should_exit:
            await asyncio.sleep(0.05)
        readiness.stopping = True
        finished = await service.close(settings.shutdown_seconds)
        _log("stopped", finished=finished)

    try:
        await run_watched(server, watch)
    finally:
        if service.client is not None:
            await service.client.close()


def _security(settings: ServerSettings) -> TransportSecuritySettings:
    hosts = [name for host in LOOPBACK_HOSTS for name in (host, f"{host}:*")]
    own = [settings.host, f"{settings.host}:*"] if settings.host not in ("0.0.0.0", "::") else []
    origins = [f"http://{host}:*" for host in LOOPBACK_HOSTS] if settings.loopback else []
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*hosts, *own, *settings.allowed_hosts],
        allowed_origins=[*origins, *settings.allowed_origins],
    )


def _auth(settings: ServerSettings) -> AuthSettings:
    public = settings.public_url or f"http://{settings.host}:{settings.port}{settings.path}"
    return AuthSettings(
        issuer_url=AnyHttpUrl(settings.auth_issuer or public),
        resource_server_url=AnyHttpUrl(public),
        # The verifier checks the audience itself.
        validate_token_resource=False,
        required_scopes=[settings.auth_scope] if settings.auth_scope else None,
    )


def _log(event: str, **fields: Any) -> None:
    data = {"event": event, **fields}
    LOGGER.info(json.dumps(data), extra={"event": data})
