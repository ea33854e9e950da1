"""The search tools, one per collection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.collections import CODE, DOCS, ISSUES, CollectionName
from kubeflow_corpus.mcp_server.arguments import STATES
from kubeflow_corpus.mcp_server.tools.base import CallRecord, KnownValues, ReadTool, ToolAnswer
from kubeflow_corpus.mcp_server.tools.schemas import (
    MAX_UNIT_ID_CHARACTERS,
    cited_schema,
    object_schema,
    token_budget_schema,
)
from kubeflow_corpus.query.tuning import AGENT_LIMITS, DEFAULT_LIMIT, DEFAULT_TOKEN_BUDGET
from kubeflow_corpus.tracing import record_stages

if TYPE_CHECKING:
    from kubeflow_corpus.query.client import AsyncCorpusClient, SearchResult

MAX_EXCLUDED: Final = 200

# Known values of filters where no live corpus can be asked.
DEFAULT_KNOWN_VALUES: Final[KnownValues] = {"state": STATES}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTool(ReadTool):
    """Searches one collection.

    Attributes:
        collection: What the query library calls it: ``docs``, ``issues`` or ``code``.
        subject: What the collection holds, for the instructions of the server.
        choose_for: Which questions it is for, for the instructions of the server.
        filters: Argument name to its description; each is an optional string.
    """

    collection: CollectionName
    subject: str
    choose_for: str
    filters: Mapping[str, str]

    def input_schema(self, known: KnownValues) -> dict[str, Any]:
        """Returns the JSON schema of the arguments; descriptions of filters list their known values."""
        known = {**DEFAULT_KNOWN_VALUES, **known}
        properties: dict[str, Any] = {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": AGENT_LIMITS.max_query_characters,
                "description": "The question, the error string or the identifier, as the person wrote it.",
            }
        }
        for name, description in self.filters.items():
            values = known.get(name, ())
            listed = f" Known values: {', '.join(values)}." if values else ""
            properties[name] = {"type": ["string", "array", "null"], "items": {"type": "string"}} | {
                "description": description + listed
            }
        properties |= {
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": AGENT_LIMITS.max_limit,
                "default": DEFAULT_LIMIT,
                "description": "How many units to return.",
            },
            "exclude": {
                "type": "array",
                "items": {"type": "string", "maxLength": MAX_UNIT_ID_CHARACTERS},
                "maxItems": MAX_EXCLUDED,
                "description": "unit_id values that were already shown: ask again for further evidence without "
                "repeats.",
            },
            "token_budget": token_budget_schema("Upper bound of the evidence, in tokens.", DEFAULT_TOKEN_BUDGET),
        }
        return object_schema(properties, required=["query"])

    def output_schema(self) -> dict[str, Any]:
        """Returns the JSON schema of the structured content."""
        # Three tools repeat it in every list of tools: what its names say already is left out.
        properties = {"citations": {"type": "array", "items": cited_schema()}, "truncated": {"type": "boolean"}}
        return {"type": "object", "properties": properties, "required": [*properties]}

    async def read(self, client: AsyncCorpusClient, arguments: Mapping[str, Any], record: CallRecord) -> ToolAnswer:
        """Searches, and answers with evidence and its citations."""
        result = await client.search(
            self.collection,
            arguments["query"],
            limit=arguments.get("limit", DEFAULT_LIMIT),
            exclude=arguments.get("exclude") or (),
            token_budget=arguments.get("token_budget", DEFAULT_TOKEN_BUDGET),
            request_id=record.request_id,
            **{name: arguments[name] for name in self.filters if name in arguments},
        )
        record.intent, record.mode, record.hits = result.intent.name, result.intent.mode, len(result.hits)
        record.degraded = bool(result.trace.get("degraded"))
        record.stages = result.trace.get("stages_ms", {})
        record_stages(
            result.stages.stages,
            **{"corpus.request_id": record.request_id, "corpus.intent": record.intent, "corpus.mode": record.mode},
        )
        # Evidence is arithmetic over texts: on the event loop it would hold up every other call, and the probes.
        return await asyncio.to_thread(_answer, result)


def _answer(result: SearchResult) -> ToolAnswer:
    block = result.evidence_block()
    structured = {
        "request_id": result.request_id,
        "intent": {"name": result.intent.name, "mode": result.intent.mode, "reason": result.intent.reason},
        "citations": [dict(citation) for citation in block.citations],
        "facets": {name: dict(counts) for name, counts in result.facets.items()},
        "truncated": block.truncated,
        "left_out": list(block.left_out),
        "notes": list(block.notes),
    }
    return ToolAnswer(block.text, structured, block.citations)


_AREA: Final = "Narrow to one product. Leave out when unsure: the product that the question names is preferred anyway."

SEARCH_TOOLS: Final = (
    SearchTool(
        name=DOCS.tool,
        collection=DOCS.name,
        subject=DOCS.label,
        choose_for="how and what is meant to happen",
        title=f"Search {{project}} {DOCS.label}",
        description=(
            "Search the official documentation and release notes of {about}: concepts, how-to guides, "
            "installation, upgrades, release dates and the component versions of each release. "
            "Not for error messages or failing pods (use search_github_issues), and not for defaults, fields or "
            "constants of an API (use search_kubeflow_code)."
        ),
        filters={
            "product_area": _AREA,
            "version": "Narrow to one release, such as 1.10 or 26.03, or to an API major, such as v1.",
        },
    ),
    SearchTool(
        name=ISSUES.tool,
        collection=ISSUES.name,
        subject=ISSUES.label,
        choose_for="a failure or an error string",
        title=f"Search {{project}} {ISSUES.label}",
        description=(
            "Search GitHub issue threads of the {project} projects, each with its symptom and its resolution: error "
            "messages, stack traces, pods that do not start, regressions, known bugs and their workarounds. Paste the "
            "error string as it is. "
            "Not for how a feature is meant to be used (use search_kubeflow_docs), and not for what the code does "
            "(use search_kubeflow_code)."
        ),
        filters={
            "product_area": _AREA,
            "state": "Narrow to open or closed threads. Closed threads that hold a fix come first anyway.",
        },
    ),
    SearchTool(
        name=CODE.tool,
        collection=CODE.name,
        subject=CODE.label,
        choose_for="a default, a field or a behaviour of a controller",
        title=f"Search {{project}} {CODE.label}",
        description=(
            "Search source symbols (Go, Python, TypeScript), Kubernetes manifests, ConfigMaps and CRD schemas of the "
            "{project} projects: default values, field names and their types, constants, environment variables, what "
            "a controller does and what a condition means. "
            "Not for guides (use search_kubeflow_docs), and not for reported failures (use search_github_issues)."
        ),
        filters={
            "product_area": _AREA,
            "kind": "Narrow to a Kubernetes kind ({kind}, ConfigMap) or a symbol kind (function, type).",
        },
    ),
)
