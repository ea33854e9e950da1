"""Runs tools for callers: limits, checks of arguments and rights, errors, the audit, log and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jsonschema import Draft202012Validator
from mcp import types
from mcp.shared.exceptions import MCPError

from kubeflow_corpus.collections import COLLECTION_NAMES
from kubeflow_corpus.errors import (
    CorpusError,
    InvalidArgument,
    PermissionDenied,
    QueryError,
    StoreUnavailable,
    Unauthenticated,
)
from kubeflow_corpus.mcp_server.failures import public_code, public_text
from kubeflow_corpus.mcp_server.limits import Admission, RateLimiter
from kubeflow_corpus.mcp_server.metrics import Metrics
from kubeflow_corpus.mcp_server.origins import Author
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.mcp_server.sources import with_sources
from kubeflow_corpus.mcp_server.tolerance import as_meant
from kubeflow_corpus.mcp_server.tools.base import (
    CallRecord,
    KnownValues,
    ReadTool,
    ReportTool,
    Tool,
    WriteTool,
    for_project,
)
from kubeflow_corpus.mcp_server.tools.registry import TOOLS
from kubeflow_corpus.mcp_server.writing import DocumentWriter, WriteResult
from kubeflow_corpus.vocabulary import Vocabulary, default_vocabulary

if TYPE_CHECKING:
    from kubeflow_corpus.query.client import AsyncCorpusClient

LOGGER: Final = logging.getLogger("kubeflow_corpus.mcp")
Answer = TypeVar("Answer")
META_KEY: Final = "kubeflow-corpus/citations"
# A message about a wrong argument repeats at most this much of it.
SHOWN_CHARACTERS: Final = 200
# Writes wait for each other, and searches never wait for them.
MAX_WAITING_WRITES: Final = 4
# How long a call waits for a server that has just been started.
OPEN_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls.

    Attributes:
        name: For rate limits and logs: the token's subject, or the address.
        visibility: Groups whose rows the caller may see beside the public ones; None is every row.
        scopes: What the caller may do.
        known: Whether the caller is authenticated, or is the process that started this one.
    """

    name: str = "local"
    visibility: tuple[str, ...] | None = None
    scopes: frozenset[str] = frozenset()
    known: bool = False


class Service:
    """The tools over one client of the query library.

    Args:
        client: Searches; None waits for `open`, so that a server can answer before a database is open.
        settings: Limits and switches.
        known: Known values of filters by tool name, for the argument descriptions.
        clock: Seconds, monotonic.
        writer: Writes documents; None offers no writing tool.
        vocabulary: The words of the project that the collections are of; None is the packaged one.
    """

    def __init__(
        self,
        client: AsyncCorpusClient | None,
        settings: ServerSettings,
        known: Mapping[str, KnownValues] | None = None,
        clock: Callable[[], float] = time.monotonic,
        writer: DocumentWriter | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self.client = client
        self._opened, self._learned = asyncio.Event(), asyncio.Event()
        if client is not None:
            self._opened.set()
            self._learned.set()
        self.vocabulary = vocabulary or default_vocabulary()
        self.settings = settings
        self.metrics = Metrics()
        self.admission = Admission(settings.max_concurrency, settings.max_queue)
        self._writer = writer
        self._writes = Admission(1, MAX_WAITING_WRITES)
        # A thread of its own: a write takes a minute, and nothing else may wait for it.
        self._writing = ThreadPoolExecutor(1, "writing")
        self._limiter = RateLimiter(settings.global_rate, settings.client_rate, settings.burst, clock)
        # Clients list before they call: that must not cost them a call.
        self._other_limiter = RateLimiter(settings.global_rate, settings.client_rate, settings.burst, clock)
        self._describe_tools(known or {})

    def open(self, client: AsyncCorpusClient | None) -> None:
        """Begins to answer calls.

        Args:
            client: Searches; None refuses every call, because it could not be opened.
        """
        self.client = client
        self._opened.set()

    def learn(self, known: Mapping[str, KnownValues], vocabulary: Vocabulary) -> None:
        """Describes the tools by what the live corpus holds.

        Args:
            known: Known values of filters by tool name.
            vocabulary: The words of the project that the collections are of.
        """
        self.vocabulary = vocabulary
        self._describe_tools(known)
        self._learned.set()

    async def learned(self, seconds: float) -> None:
        """Waits for what the live corpus holds, for a time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._learned.wait(), seconds)

    def _describe_tools(self, known: Mapping[str, KnownValues]) -> None:
        self._tools = {tool.name: for_project(tool, self.vocabulary) for tool in TOOLS if self._offers(tool)}
        areas = {"product_area": self.vocabulary.areas}
        self._inputs = {name: tool.input_schema({**areas, **known.get(name, {})}) for name, tool in self._tools.items()}
        self._validators = {name: Draft202012Validator(schema) for name, schema in self._inputs.items()}

    def _offers(self, tool: Tool) -> bool:
        if isinstance(tool, ReportTool):
            return self.settings.feedback_enabled
        return isinstance(tool, ReadTool) or self._writer is not None

    def list_tools(self, caller: Caller | None = None) -> list[types.Tool]:
        """Returns the tools with their schemas; those that write only to a caller who may use them.

        Args:
            caller: Who asks; None is shown everything.
        """
        writes = caller is None or self._may_write(caller)
        return [self._describe(tool) for tool in self._tools.values() if writes or isinstance(tool, ReadTool)]

    def _describe(self, tool: Tool) -> types.Tool:
        reads = isinstance(tool, ReadTool)
        return types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=self._inputs[tool.name],
            # Where citations are in the text or in `_meta`, there is no structured content to describe.
            output_schema=None if reads and self.settings.citations != "structured" else tool.output_schema(),
            annotations=types.ToolAnnotations(
                read_only_hint=reads and not isinstance(tool, ReportTool),
                destructive_hint=not reads,
                idempotent_hint=True,
                open_world_hint=False,
            ),
        )

    def _may_write(self, caller: Caller) -> bool:
        return caller.known and self.settings.write_scope in caller.scopes

    async def answer(self, method: str, caller: Caller, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Answers a request that is not a tool call, under the same limits, with its line in the log.

        Args:
            method: Its name in the protocol, such as ``resources/read``.
            caller: Who asks.
            work: Makes the answer.

        Raises:
            MCPError: It could not be answered; the message is fit for a caller.
        """
        record = CallRecord(tool=method, request_id=uuid.uuid4().hex)
        started = time.perf_counter()
        try:
            self._other_limiter.check(caller.name)
            async with self.admission.enter():
                return await work()
        except CorpusError as error:
            record.code = public_code(error)
            if record.code == "UNAVAILABLE":
                LOGGER.warning("request %s failed: %s", record.request_id, error)
            code = types.INVALID_PARAMS if isinstance(error, QueryError) else types.INTERNAL_ERROR
            raise MCPError(code=code, message=public_text(error)) from error
        except Exception as error:
            LOGGER.exception("request %s failed unexpectedly", record.request_id)
            record.code = "UNAVAILABLE"
            raise MCPError(code=types.INTERNAL_ERROR, message=_unforeseen(record)) from error
        finally:
            seconds = time.perf_counter() - started
            self.metrics.requests.labels(method, record.code).inc()
            self.metrics.request_seconds.labels(method).observe(seconds)
            _log_call("request", record, seconds)

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> types.CallToolResult:
        """Runs one tool; whatever goes wrong is a result with `is_error`, never an exception."""
        record = CallRecord(tool=name if name in self._tools else "unknown", request_id=uuid.uuid4().hex)
        started = time.perf_counter()
        try:
            return await self._run(name, arguments, caller, record)
        except CorpusError as error:
            record.code = public_code(error)
            if record.code == "UNAVAILABLE":
                LOGGER.warning("call %s failed: %s", record.request_id, error)
            return _failed(public_text(error))
        except Exception:
            # The last line of defence: what was not foreseen is logged whole and shown to nobody.
            LOGGER.exception("call %s failed unexpectedly", record.request_id)
            record.code = "UNAVAILABLE"
            return _failed(_unforeseen(record))
        finally:
            self._report(record, time.perf_counter() - started)

    async def _run(
        self, name: str, arguments: Mapping[str, Any], caller: Caller, record: CallRecord
    ) -> types.CallToolResult:
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools)
            raise InvalidArgument(f"Unknown tool {name[:SHOWN_CHARACTERS]!r}", remedy=f"Known tools are {known}")
        self._limiter.check(caller.name)
        if isinstance(tool, ReadTool):
            return await self._read(tool, arguments, caller, record)
        assert isinstance(tool, WriteTool)
        return await self._write(tool, arguments, caller, record)

    async def _read(
        self, tool: ReadTool, arguments: Mapping[str, Any], caller: Caller, record: CallRecord
    ) -> types.CallToolResult:
        arguments = as_meant(tool.name, self._inputs[tool.name], arguments)
        check_arguments(self._validators[tool.name], arguments)
        async with self.admission.enter():
            self.metrics.inside.set(self.admission.inside)
            client = await self._client(caller)
            answer = await tool.read(client, arguments, record)
        mode = self.settings.citations
        text = with_sources(answer.text, answer.citations, addresses=mode == "text")
        if record.intent and self.settings.feedback_enabled and mode == "text":
            # Hosts of this mode may show the model nothing but the text.
            text += f"\n\nrequest_id: {record.request_id}"
        content = _content(text)
        if mode == "structured":
            return types.CallToolResult(content=content, structured_content=answer.structured)
        return types.CallToolResult(content=content, _meta={META_KEY: answer.structured} if mode == "meta" else None)

    async def _client(self, caller: Caller) -> AsyncCorpusClient:
        """Returns what finds the rows that a caller may see, as soon as it is open."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._opened.wait(), OPEN_SECONDS)
        if self.client is None:
            raise StoreUnavailable("The corpus could not be opened", remedy="See the log of the server")
        return self.client if caller.visibility is None else self.client.scoped(caller.visibility)

    async def _write(
        self, tool: WriteTool, arguments: Mapping[str, Any], caller: Caller, record: CallRecord
    ) -> types.CallToolResult:
        assert self._writer is not None
        result: WriteResult | None = None
        code = "UNAVAILABLE"
        try:
            self._check_writer(caller)
            check_arguments(self._validators[tool.name], arguments)
            async with self._writes.enter():
                author = Author(caller.name, caller.visibility)
                result = await asyncio.get_running_loop().run_in_executor(
                    self._writing, tool.write, self._writer, arguments, author, record.request_id
                )
            code = "OK"
        except CorpusError as error:
            code = public_code(error)
            raise
        finally:
            # Refused or done: every attempt to write is on record.
            _audit(tool.name, arguments, caller, record.request_id, result, code)
        collection = arguments["collection"]
        text = f"{result.action}: {result.document_id} in {collection}"
        text += f", {result.units} units" if result.units else ""
        structured = {"request_id": record.request_id, "collection": collection, **asdict(result)}
        return types.CallToolResult(content=_content(text), structured_content=structured)

    def _check_writer(self, caller: Caller) -> None:
        if not caller.known:
            raise Unauthenticated("The caller is not authenticated", remedy="Send a bearer token")
        if not self._may_write(caller):
            raise PermissionDenied(
                "This tool needs a right that your token does not have",
                remedy=f"Ask for a token with the scope {self.settings.write_scope}",
            )

    async def close(self, seconds: float) -> bool:
        """Refuses new calls and waits for running ones; returns whether all of them finished in time."""
        finished = await asyncio.gather(self.admission.close(seconds), self._writes.close(seconds))
        self._writing.shutdown(wait=False)
        if self._writer is not None:
            self._writer.close()
        return all(finished)

    def _report(self, record: CallRecord, seconds: float) -> None:
        self.metrics.inside.set(self.admission.inside)
        self.metrics.calls.labels(record.tool, record.code).inc()
        self.metrics.seconds.labels(record.tool).observe(seconds)
        for stage, milliseconds in record.stages.items():
            self.metrics.stages.labels(stage).observe(milliseconds / 1000)
        if record.intent:
            self.metrics.intents.labels(record.tool, record.intent, record.mode).inc()
        if record.degraded:
            self.metrics.degraded.labels(record.tool).inc()
        if record.code == "OK" and record.intent and not record.hits:
            self.metrics.empty.labels(record.tool).inc()
        found = {"intent": record.intent, "mode": record.mode, "hits": record.hits, "stages_ms": dict(record.stages)}
        _log_call("call", record, seconds, **found)


def _log_call(name: str, record: CallRecord, seconds: float, **found: Any) -> None:
    about = {"request_id": record.request_id, "tool": record.tool, "code": record.code}
    event = {"event": name, **about, **found, "total_ms": round(seconds * 1000, 2)}
    LOGGER.info(json.dumps(event), extra={"event": event})


def _unforeseen(record: CallRecord) -> str:
    return f"UNAVAILABLE: The server failed. Tell its operator the request id {record.request_id}"


def check_arguments(validator: Draft202012Validator, arguments: Mapping[str, Any]) -> None:
    """Checks the arguments of a call against the tool's schema.

    Raises:
        InvalidArgument: The first argument that is wrong, by name, with the rule that it breaks.
    """
    error = next(iter(sorted(validator.iter_errors(dict(arguments)), key=lambda item: str(item.json_path))), None)
    if error is not None:
        where = ".".join(str(part) for part in error.absolute_path) or "arguments"
        # The library's own sentence repeats the value, which may be a megabyte.
        rule = f"{error.validator} {error.validator_value!r}"[:SHOWN_CHARACTERS]
        message = error.message if len(error.message) <= SHOWN_CHARACTERS else f"the value breaks the rule {rule}"
        raise InvalidArgument(f"{where}: {message}", remedy="See the tool's input schema", argument=where)


def _audit(
    tool: str,
    arguments: Mapping[str, Any],
    caller: Caller,
    request_id: str,
    result: WriteResult | None,
    code: str,
) -> None:
    """Records who wrote what: never the content, only its digest."""
    content = arguments.get("content")
    given = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest() if isinstance(content, str) else ""
    collection = arguments.get("collection")
    event = {
        "event": "write",
        "request_id": request_id,
        "caller": caller.name[:SHOWN_CHARACTERS],
        "tool": tool,
        "collection": collection if collection in COLLECTION_NAMES else "",
        "document_id": result.document_id if result else "",
        "sha256": result.sha256 if result and result.sha256 else given,
        "action": result.action if result else "refused",
        "rows_written": result.rows_written if result else 0,
        "rows_deleted": result.rows_deleted if result else 0,
        "code": code,
    }
    LOGGER.info(json.dumps(event), extra={"event": event})


def _content(text: str) -> list[types.ContentBlock]:
    return [types.TextContent(type="text", text=text)]


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=_content(text), is_error=True)
