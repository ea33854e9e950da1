"""What the tools do: check the arguments, search, and turn the result into evidence and structured content."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from jsonschema import Draft202012Validator
from mcp import types

from kubeflow_corpus.errors import CorpusError, InvalidArgument, PermissionDenied, Unauthenticated
from kubeflow_corpus.mcp_server import tools
from kubeflow_corpus.mcp_server.failures import public_code, public_text
from kubeflow_corpus.mcp_server.limits import Admission, RateLimiter
from kubeflow_corpus.mcp_server.metrics import Metrics
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.mcp_server.writing import DocumentWriter, Outcome
from kubeflow_corpus.query.citations import citation_schema
from kubeflow_corpus.store.schema import CODE, DOCS, ISSUES

if TYPE_CHECKING:
    from kubeflow_corpus.query.client import AsyncCorpusClient, SearchResult

LOGGER: Final = logging.getLogger("kubeflow_corpus.mcp")
ALIASES: Final = {"docs": DOCS.alias, "issues": ISSUES.alias, "code": CODE.alias}
META_KEY: Final = "kubeflow-corpus/citations"
# A message about a wrong argument repeats at most so much of it.
SHOWN_CHARACTERS: Final = 200
# Writes wait for each other, and searches never wait for them.
MAX_WAITING_WRITES: Final = 4


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls.

    Attributes:
        name: For rate limits and logs: the token's subject, or the address.
        visibility: Groups whose rows the caller may see beside the public ones; None is every row.
        scopes: What the caller may do.
        known: Whether the caller showed who it is, or is the process that started this one.
    """

    name: str = "local"
    visibility: tuple[str, ...] | None = None
    scopes: frozenset[str] = frozenset()
    known: bool = False


@dataclass(slots=True)
class Call:
    """What one call leaves in log and metrics."""

    tool: str
    request_id: str
    code: str = "OK"
    intent: str = ""
    mode: str = ""
    hits: int = 0
    stages: Mapping[str, float] = field(default_factory=dict)


class Service:
    """The tools over one client of the query library.

    Args:
        client: Searches.
        settings: Limits and switches.
        known: Known values of filters by tool name; they stand in the argument descriptions.
        clock: Seconds, monotonic.
        writer: Writes documents; None offers no writing tool.
    """

    def __init__(
        self,
        client: AsyncCorpusClient,
        settings: ServerSettings,
        known: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        writer: DocumentWriter | None = None,
    ) -> None:
        self.client = client
        self.settings = settings
        self.metrics = Metrics()
        self.admission = Admission(settings.max_concurrency, settings.max_queue)
        self._writer = writer
        self._writes = Admission(1, MAX_WAITING_WRITES)
        self._limiter = RateLimiter(settings.global_rate, settings.client_rate, settings.burst, clock)
        self._searches = {tool.name: tool for tool in tools.SEARCH_TOOLS}
        defaults = tools.default_known_values()
        self._inputs = {
            tool.name: tools.search_input_schema(tool, {**defaults, **(known or {}).get(tool.name, {})})
            for tool in tools.SEARCH_TOOLS
        }
        self._inputs[tools.UNIT_TOOL] = tools.unit_input_schema()
        if writer is not None:
            self._inputs[tools.WRITE_TOOL] = tools.write_input_schema()
            self._inputs[tools.DELETE_TOOL] = tools.delete_input_schema()
        self._validators = {name: Draft202012Validator(schema) for name, schema in self._inputs.items()}

    def list_tools(self, caller: Caller | None = None) -> list[types.Tool]:
        """Returns the tools with their schemas; those that write only to a caller who may use them.

        Args:
            caller: Who asks; None is shown everything.
        """
        annotations = types.ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        )
        output = tools.output_schema(citation_schema())
        listed = [
            types.Tool(
                name=tool.name,
                title=tool.title,
                description=tool.description,
                input_schema=self._inputs[tool.name],
                # Where citations travel in `_meta` there is no structured content to describe.
                output_schema=None if self.settings.citations_in_meta else output,
                annotations=annotations,
            )
            for tool in tools.SEARCH_TOOLS
        ]
        unit = types.Tool(
            name=tools.UNIT_TOOL,
            title="Fetch a cited unit whole",
            description=tools.UNIT_DESCRIPTION,
            input_schema=self._inputs[tools.UNIT_TOOL],
            output_schema=None if self.settings.citations_in_meta else tools.unit_output_schema(citation_schema()),
            annotations=annotations,
        )
        if self._writer is None or (caller is not None and not self._may_write(caller)):
            return [*listed, unit]
        return [*listed, unit, *self._writing_tools()]

    def _writing_tools(self) -> list[types.Tool]:
        texts = {
            tools.WRITE_TOOL: ("Write a document", tools.WRITE_DESCRIPTION),
            tools.DELETE_TOOL: ("Hide a written document", tools.DELETE_DESCRIPTION),
        }
        annotations = types.ToolAnnotations(
            read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
        )
        return [
            types.Tool(
                name=name,
                title=title,
                description=description,
                input_schema=self._inputs[name],
                output_schema=tools.write_output_schema(),
                annotations=annotations,
            )
            for name, (title, description) in texts.items()
        ]

    def _may_write(self, caller: Caller) -> bool:
        return caller.known and self.settings.write_scope in caller.scopes

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> types.CallToolResult:
        """Runs one tool; whatever goes wrong is a result with `is_error`, never an exception."""
        call = Call(tool=name if name in self._inputs else "unknown", request_id=uuid.uuid4().hex)
        started = time.perf_counter()
        try:
            return await self._run(name, arguments, caller, call)
        except CorpusError as error:
            call.code = public_code(error)
            if call.code == "UNAVAILABLE":
                LOGGER.warning("call %s failed: %s", call.request_id, error)
            return _failed(public_text(error))
        except Exception:
            # The last line of defence: what we did not foresee is logged whole and shown to nobody.
            LOGGER.exception("call %s failed unexpectedly", call.request_id)
            call.code = "UNAVAILABLE"
            return _failed(f"UNAVAILABLE: The server failed. Tell its operator the request id {call.request_id}")
        finally:
            self._record(call, time.perf_counter() - started)

    async def _run(self, name: str, arguments: Mapping[str, Any], caller: Caller, call: Call) -> types.CallToolResult:
        validator = self._validators.get(name)
        if validator is None:
            known = ", ".join(self._inputs)
            raise InvalidArgument(f"Unknown tool {name[:SHOWN_CHARACTERS]!r}", remedy=f"Known tools are {known}")
        self._limiter.check(caller.name)
        if name in tools.WRITE_TOOLS:
            return await self._write(name, validator, arguments, caller, call)
        check_arguments(validator, arguments)
        async with self.admission.enter():
            self.metrics.inside.set(self.admission.inside)
            client = self.client if caller.visibility is None else self.client.scoped(caller.visibility)
            if name == tools.UNIT_TOOL:
                return await self._unit(client, arguments, call)
            return await self._search(client, self._searches[name], arguments, call)

    async def _search(
        self, client: AsyncCorpusClient, tool: tools.SearchTool, arguments: Mapping[str, Any], call: Call
    ) -> types.CallToolResult:
        result = await client.search(
            ALIASES[tool.collection],
            arguments["query"],
            limit=arguments.get("limit", tools.DEFAULT_LIMIT),
            exclude=arguments.get("exclude") or (),
            token_budget=arguments.get("token_budget", tools.DEFAULT_TOKEN_BUDGET),
            request_id=call.request_id,
            **{name: arguments[name] for name in tool.filters if name in arguments},
        )
        call.intent, call.mode, call.hits = result.intent.name, result.intent.mode, len(result.hits)
        call.stages = result.trace.get("stages_ms", {})
        # Evidence is arithmetic over texts: on the event loop it would hold up every other call, and the probes.
        evidence, structured = await asyncio.to_thread(lambda: (result.evidence(), _structured(result)))
        return self._answer(evidence, structured)

    async def _unit(self, client: AsyncCorpusClient, arguments: Mapping[str, Any], call: Call) -> types.CallToolResult:
        unit = await client.get_unit(
            arguments["unit_id"],
            collection=ALIASES[arguments["collection"]],
            token_budget=arguments.get("token_budget", tools.DEFAULT_TOKEN_BUDGET),
        )
        call.hits = 1
        structured = {
            "request_id": call.request_id,
            "citation": dict(unit.citation),
            "truncated": unit.truncated,
        }
        return self._answer(unit.text, structured)

    async def _write(
        self,
        name: str,
        validator: Draft202012Validator,
        arguments: Mapping[str, Any],
        caller: Caller,
        call: Call,
    ) -> types.CallToolResult:
        outcome: Outcome | None = None
        code = "UNAVAILABLE"
        try:
            self._check_writer(caller)
            check_arguments(validator, arguments)
            async with self._writes.enter():
                outcome = await asyncio.to_thread(self._written, name, arguments, caller, call.request_id)
            code = "OK"
        except CorpusError as error:
            code = public_code(error)
            raise
        finally:
            # Refused or done: every attempt to write is on record.
            self._audit(name, arguments, caller, call, outcome, code)
        structured = {
            "request_id": call.request_id,
            "collection": arguments["collection"],
            "document_id": outcome.document_id,
            "action": outcome.action,
            "sha256": outcome.sha256,
            "units": outcome.units,
            "rows_written": outcome.rows_written,
            "rows_deleted": outcome.rows_deleted,
        }
        text = f"{outcome.action}: {outcome.document_id} in {arguments['collection']}"
        text += f", {outcome.units} units" if name == tools.WRITE_TOOL else ""
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
        return types.CallToolResult(content=content, structured_content=structured)

    def _check_writer(self, caller: Caller) -> None:
        if not caller.known:
            raise Unauthenticated("Nobody knows who calls")
        if not self._may_write(caller):
            raise PermissionDenied(
                "This tool needs a right that your token does not have",
                remedy=f"Ask for a token with the scope {self.settings.write_scope}",
            )

    def _written(self, name: str, arguments: Mapping[str, Any], caller: Caller, request_id: str) -> Outcome:
        assert self._writer is not None
        alias = ALIASES[arguments["collection"]]
        if name == tools.WRITE_TOOL:
            return self._writer.upsert(alias, arguments, caller.visibility, request_id)
        return self._writer.delete(alias, arguments["document_id"], caller.visibility, request_id)

    def _audit(
        self,
        name: str,
        arguments: Mapping[str, Any],
        caller: Caller,
        call: Call,
        outcome: Outcome | None,
        code: str,
    ) -> None:
        """Records who wrote what: never the content, of which the digest tells what it was."""
        content = arguments.get("content")
        given = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest() if isinstance(content, str) else ""
        collection = arguments.get("collection")
        event = {
            "event": "write",
            "request_id": call.request_id,
            "caller": caller.name[:SHOWN_CHARACTERS],
            "tool": name,
            "collection": collection if collection in ALIASES else "",
            "document_id": outcome.document_id if outcome else "",
            "sha256": outcome.sha256 if outcome and outcome.sha256 else given,
            "action": outcome.action if outcome else "refused",
            "rows_written": outcome.rows_written if outcome else 0,
            "rows_deleted": outcome.rows_deleted if outcome else 0,
            "code": code,
        }
        LOGGER.info(json.dumps(event), extra={"event": event})

    async def close(self, seconds: float) -> bool:
        """Takes nothing new and waits for what runs; returns whether all of it finished in time."""
        finished = await asyncio.gather(self.admission.close(seconds), self._writes.close(seconds))
        if self._writer is not None:
            self._writer.close()
        return all(finished)

    def _answer(self, evidence: str, structured: dict[str, Any]) -> types.CallToolResult:
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=evidence)]
        if self.settings.citations_in_meta:
            return types.CallToolResult(content=content, _meta={META_KEY: structured})
        return types.CallToolResult(content=content, structured_content=structured)

    def _record(self, call: Call, seconds: float) -> None:
        self.metrics.inside.set(self.admission.inside)
        self.metrics.calls.labels(call.tool, call.code).inc()
        self.metrics.seconds.labels(call.tool).observe(seconds)
        for stage, milliseconds in call.stages.items():
            self.metrics.stages.labels(stage).observe(milliseconds / 1000)
        if call.intent:
            self.metrics.intents.labels(call.tool, call.intent, call.mode).inc()
        if call.code == "OK" and call.intent and not call.hits:
            self.metrics.empty.labels(call.tool).inc()
        event = {
            "event": "call",
            "request_id": call.request_id,
            "tool": call.tool,
            "code": call.code,
            "intent": call.intent,
            "mode": call.mode,
            "hits": call.hits,
            "stages_ms": dict(call.stages),
            "total_ms": round(seconds * 1000, 2),
        }
        LOGGER.info(json.dumps(event), extra={"event": event})


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


def _structured(result: SearchResult) -> dict[str, Any]:
    block = result.evidence_block()
    return {
        "request_id": result.request_id,
        "intent": {"name": result.intent.name, "mode": result.intent.mode, "reason": result.intent.reason},
        "citations": [dict(citation) for citation in block.citations],
        "facets": {name: dict(counts) for name, counts in result.facets.items()},
        "truncated": block.truncated,
        "left_out": list(block.left_out),
        "notes": list(block.notes),
    }


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
