"""``kubeflow-corpus mcp``: serves the tools over stdio or streamable HTTP."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.errors import CorpusError, SettingsError
from kubeflow_corpus.vocabulary import default_vocabulary

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.lowlevel import Server

    from kubeflow_corpus.mcp_server.service import Service
    from kubeflow_corpus.query.client import AsyncCorpusClient
    from kubeflow_corpus.vocabulary import Vocabulary

LOGGER: Final = logging.getLogger("kubeflow_corpus")
# How long a server that is not wanted any more waits for what it was opening.
CLOSE_SECONDS: Final = 5.0
TRANSPORTS: Final = ("stdio", "streamable-http")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments; every other setting is an environment variable (``MCP_...``)."""
    parser.add_argument("--transport", choices=TRANSPORTS, default="stdio", help="how clients reach it")
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default 8000)")


def run(args: argparse.Namespace) -> int:
    """Serves until the client disconnects (stdio) or the process gets a signal (HTTP)."""
    from kubeflow_corpus.embedding.factory import embedder_from_settings
    from kubeflow_corpus.mcp_server.assembly import StatusReader
    from kubeflow_corpus.mcp_server.server import build_server
    from kubeflow_corpus.mcp_server.service import Service
    from kubeflow_corpus.mcp_server.settings import ServerSettings
    from kubeflow_corpus.mcp_server.writing import DocumentWriter
    from kubeflow_corpus.settings import Settings
    from kubeflow_corpus.tracing import start_tracing

    log_to_stderr()
    start_tracing("kubeflow-corpus-mcp")
    settings = Settings.from_env()
    # Only the process that started it can reach a server on stdio.
    local = args.transport == "stdio"
    overrides = {"host": "127.0.0.1"} if local else {"host": args.host, "port": args.port}
    server_settings = ServerSettings.from_env(local=local, **overrides)
    writer = (
        DocumentWriter(settings, lambda: embedder_from_settings(settings)) if server_settings.write_enabled else None
    )
    settings.require_milvus_uri()
    if server_settings.feedback_enabled and not settings.question_log:
        raise SettingsError(
            "MCP_FEEDBACK_ENABLED is set without QUESTION_LOG", remedy="Name the file that keeps what callers say"
        )

    def open_client() -> AsyncCorpusClient:
        from kubeflow_corpus.query.client import AsyncCorpusClient

        return AsyncCorpusClient(
            settings=settings, max_concurrent=server_settings.max_concurrency, timeout=server_settings.search_seconds
        )

    if local:
        # A host waits for its servers when it starts: this one answers before it has opened anything.
        unknown = replace(default_vocabulary(), project="the indexed project", about="")
        service = Service(None, server_settings, writer=writer, vocabulary=unknown)
        _log_built(args.transport, service)
        asyncio.run(_stdio(build_server(service, StatusReader(settings), local=True), service, open_client))
        return 0
    from kubeflow_corpus.mcp_server.freshness import Freshness
    from kubeflow_corpus.mcp_server.http import Readiness, build_app, serve

    client = open_client()
    known, vocabulary = asyncio.run(_prepare(client))
    service = Service(client, server_settings, known, writer=writer, vocabulary=vocabulary)
    _log_built(args.transport, service)
    readiness = Readiness(client.warm_up)
    freshness = Freshness(settings, service.metrics.registry)
    app = build_app(build_server(service, StatusReader(settings)), service, readiness, freshness)
    serve(app, service, readiness)
    return 0


async def _prepare(client: AsyncCorpusClient) -> tuple[dict[str, dict[str, tuple[str, ...]]], Vocabulary]:
    """Opens connections, loads the model, and reads the known values of filters and the words of the project."""
    from kubeflow_corpus.mcp_server.assembly import known_values, served_vocabulary

    try:
        await client.warm_up()
    except CorpusError as error:
        # A server that starts before its database is up becomes ready when that is.
        LOGGER.warning("starting without a corpus: %s", error)
    return await known_values(client), await served_vocabulary(client)


async def _stdio(server: Server[Any], service: Service, open_client: Callable[[], AsyncCorpusClient]) -> None:
    from mcp.server.stdio import stdio_server

    wanted = asyncio.Event()

    async def notice(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        # What opening imports would hold up the answer to `initialize`; whatever comes next wants the corpus.
        if ctx.method != "initialize":
            wanted.set()
        return await call_next(ctx)

    server.middleware.append(notice)
    async with stdio_server() as (read, write):
        opening = asyncio.create_task(_open(service, open_client, wanted))
        try:
            await server.run(read, write, server.create_initialization_options())
        finally:
            if wanted.is_set():
                # What is still read when the interpreter ends fails with tracebacks of other libraries.
                await asyncio.wait({opening}, timeout=CLOSE_SECONDS)
            opening.cancel()
            if service.client is not None:
                await service.client.close()


async def _open(service: Service, open_client: Callable[[], AsyncCorpusClient], wanted: asyncio.Event) -> None:
    """Opens the corpus behind a server that answers already, as soon as it is wanted."""
    await wanted.wait()
    try:
        client = await asyncio.to_thread(open_client)
    except Exception:
        # The server lives on and says so: a host shows nothing of a process that ended.
        LOGGER.exception("the corpus could not be opened")
        service.open(None)
        return
    service.open(client)
    service.learn(*await _prepare(client))


def log_to_stderr() -> None:
    """Sends our events to stderr, one JSON object per line: stdout belongs to the protocol."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter())
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event = getattr(record, "event", None) or {"event": "log", "message": record.getMessage()}
        # RFC 3339, with the zone: what collectors of logs read as a time.
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": record.levelname, **event}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _log_built(transport: str, service: Service) -> None:
    names = [tool.name for tool in service.list_tools()]
    event = {"event": "server_built", "transport": transport, "tools": names}
    logging.getLogger("kubeflow_corpus.mcp").info(json.dumps(event), extra={"event": event})
