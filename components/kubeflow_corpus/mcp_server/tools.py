"""The tools as data: what each is for, what it is not for, and the shapes of its arguments and of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubeflow_corpus.store.schema import MANUAL_SOURCE
from kubeflow_corpus.terms import PRODUCT_AREAS

# Argument limits: a question longer than this is a pasted document, and a page longer than this is no evidence.
MAX_QUERY_CHARACTERS: Final = 10_000
MAX_LIMIT: Final = 25
DEFAULT_LIMIT: Final = 5
MAX_EXCLUDED: Final = 200
MIN_TOKEN_BUDGET: Final = 200
MAX_TOKEN_BUDGET: Final = 20_000
DEFAULT_TOKEN_BUDGET: Final = 3_000
MAX_UNIT_ID_CHARACTERS: Final = 1_024

# What a writer may send: a page, a thread or a file that a person wrote, not a data set.
MAX_CONTENT_CHARACTERS: Final = 200_000
MAX_TITLE_CHARACTERS: Final = 300
MAX_ORIGIN_CHARACTERS: Final = 500
MAX_PATH_CHARACTERS: Final = 300
MAX_VALUES: Final = 16

STATES: Final = ("open", "closed")


@dataclass(frozen=True, slots=True)
class SearchTool:
    """One search tool.

    Attributes:
        name: Name of the tool.
        collection: What the query library calls it: ``docs``, ``issues`` or ``code``.
        title: Title for people.
        description: When to use it, when not, and what to use instead.
        filters: Argument name to its description; each is an optional string.
    """

    name: str
    collection: str
    title: str
    description: str
    filters: Mapping[str, str]


_AREA: Final = "Narrow to one product. Leave out when unsure: the product that the question names is preferred anyway."

SEARCH_TOOLS: Final = (
    SearchTool(
        name="search_kubeflow_docs",
        collection="docs",
        title="Search Kubeflow documentation",
        description=(
            "Search the official documentation and release notes of Kubeflow and KServe: concepts, how-to guides, "
            "installation, upgrades, release dates and the component versions of each release. "
            "Not for error messages or failing pods (use search_github_issues), and not for defaults, fields or "
            "constants of an API (use search_kubeflow_code). "
            "Returns text evidence labelled [c1], [c2], ... without links; cite by label."
        ),
        filters={
            "product_area": _AREA,
            "version": "Narrow to one release, such as 1.10 or 26.03, or to an API major, such as v1.",
        },
    ),
    SearchTool(
        name="search_github_issues",
        collection="issues",
        title="Search Kubeflow issue threads",
        description=(
            "Search GitHub issue threads of the Kubeflow projects, each with its symptom and its resolution: error "
            "messages, stack traces, pods that do not start, regressions, known bugs and their workarounds. Paste the "
            "error string as it is. "
            "Not for how a feature is meant to be used (use search_kubeflow_docs), and not for what the code does "
            "(use search_kubeflow_code). "
            "Returns text evidence labelled [c1], [c2], ... without links; cite by label."
        ),
        filters={
            "product_area": _AREA,
            "state": "Narrow to open or closed threads. Closed threads that hold a fix come first anyway.",
        },
    ),
    SearchTool(
        name="search_kubeflow_code",
        collection="code",
        title="Search Kubeflow code and manifests",
        description=(
            "Search source symbols (Go, Python, TypeScript), Kubernetes manifests, ConfigMaps and CRD schemas of the "
            "Kubeflow projects: default values, field names and their types, constants, environment variables, what "
            "a controller does and what a condition means. "
            "Not for guides (use search_kubeflow_docs), and not for reported failures (use search_github_issues). "
            "Returns text evidence labelled [c1], [c2], ... without links; cite by label."
        ),
        filters={
            "product_area": _AREA,
            "kind": "Narrow to a Kubernetes kind (InferenceService, ConfigMap) or a symbol kind (function, type).",
        },
    ),
)

# Arguments of the query library that no tool offers, and why: an agent should say what it wants to know, not how.
NOT_OFFERED: Final = {
    "mode": "the router chooses it by the question, and an agent cannot know better before it has seen the lists",
    "fusion": "a setting of the evaluation",
    "infer_filters": "named versions and products are preferences; an agent that wants a filter sets it",
    "rerank": "the operator's choice, by RERANK_URL",
    "min_score": "scores are comparable within one answer only",
    "timeout": "the operator's choice: a caller must not hold a slot for longer",
    "request_id": "made by the server, so that logs can be trusted",
    "labels": "agents invent label names; the router reads the question instead",
    "source": "an operator's name for a checkout, which no caller knows",
    "source_type": "one tool is one kind of source",
    "repo": "the product area says the same in words that a question uses",
    "file_path": "get_source_unit fetches what is known by name",
    "state_reason": "closed threads that hold a fix come first anyway",
    "resolved": "closed threads that hold a fix come first anyway",
    "doc_type": "the router tells release questions from the others",
    "symbol": "a symbol is what the query names",
    "language": "the kind says more, and questions rarely name a language",
    "api_version": "the query names it, and it is matched exactly",
    "resource_name": "the query names it, and it is matched exactly",
    **dict.fromkeys(
        ("updated_after", "updated_before", "released_after", "released_before")
        + ("created_after", "created_before", "closed_after", "closed_before"),
        "dates in a question are read by the router; agents get time zones and ranges wrong",
    ),
}

UNIT_TOOL: Final = "get_source_unit"
UNIT_DESCRIPTION: Final = (
    "Fetch one unit that a search cited, whole: the section, thread, symbol or CRD, within a token budget. Use it when "
    "the evidence of a hit was cut and the answer must be in the rest. Not for finding anything: search first."
)


WRITE_TOOL: Final = "upsert_document"
WRITE_DESCRIPTION: Final = (
    "Add a document to the corpus, or replace the one of the same origin: a runbook or page as Markdown (collection "
    "docs), a thread as Markdown with a heading Resolution, or as JSON (issues), a source file or manifest (code). It "
    "is cut into units here and found by the searches at once. Write only what a person asked to have written. "
    "Not for what the corpus fetches by itself: Kubeflow's own sites, issues and repositories."
)
DELETE_TOOL: Final = "delete_document"
DELETE_DESCRIPTION: Final = (
    "Hide a document that upsert_document wrote from every search and from get_source_unit. Writing it again brings it "
    "back. Not for documents that the corpus fetches by itself: those follow their source."
)
WRITE_TOOLS: Final = (WRITE_TOOL, DELETE_TOOL)
WRITE_ACTIONS: Final = ("created", "replaced", "restored", "unchanged", "deleted")


def write_input_schema() -> dict[str, Any]:
    """Returns the JSON schema of `upsert_document`'s arguments."""
    return _object(
        {
            "collection": _collection("Where it goes: docs, issues or code."),
            "source": {
                "type": "string",
                "enum": [MANUAL_SOURCE],
                "default": MANUAL_SOURCE,
                "description": "The reserved source of written documents. Every other source belongs to the ingestion.",
            },
            "content": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_CONTENT_CHARACTERS,
                "description": "The whole text. Front matter of a page is left out: title and metadata say it.",
            },
            "title": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_TITLE_CHARACTERS,
                "description": "Title of the document, one line.",
            },
            "metadata": _metadata(),
        },
        required=["collection", "content", "title", "metadata"],
    )


def _metadata() -> dict[str, Any]:
    return _object(
        {
            "origin": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_ORIGIN_CHARACTERS,
                "description": "Where it comes from: an http(s) address, or words that lead a person there. It is the "
                "address of the citations and the key: one origin is one document of a collection.",
            },
            "path": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_PATH_CHARACTERS,
                "description": "File name, with folders if you like. Needed for code, where its ending names the "
                "language (controller.go, service.yaml); of a page it ends in .md.",
            },
            "product_area": {
                "type": "array",
                "items": {"type": "string", "enum": list(PRODUCT_AREAS)},
                "maxItems": MAX_VALUES,
                "default": [],
                "description": "Products that it is about.",
            },
            "version": {
                "type": "array",
                "items": {"type": "string", "maxLength": 32, "pattern": r"^v?\d[\w.-]*$"},
                "maxItems": MAX_VALUES,
                "default": [],
                "description": "Releases that it is about, such as 1.10 or v1; none is all of them.",
            },
            "updated_at": {
                "type": "string",
                "maxLength": 40,
                "description": "When its author last changed it, ISO 8601. The time of the call by default.",
            },
            "state": {
                "type": "string",
                "enum": list(STATES),
                "description": "Of a thread. Closed by default where it has a resolution.",
            },
            "number": {
                "type": "integer",
                "minimum": 1,
                "maximum": 2**31,
                "description": "Of a thread, in its own tracker.",
            },
            "visibility": {
                "type": "string",
                "maxLength": 64,
                "pattern": r"^[\w.@/-]*$",
                "default": "",
                "description": "The only group that may find it; empty is everybody. You must be in the group.",
            },
        },
        required=["origin"],
    )


def delete_input_schema() -> dict[str, Any]:
    """Returns the JSON schema of `delete_document`'s arguments."""
    return _object(
        {
            "collection": _collection("Where it is: docs, issues or code."),
            "document_id": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_UNIT_ID_CHARACTERS,
                "description": "From upsert_document's answer; or the unit_id of a citation, which begins with it.",
            },
        },
        required=["collection", "document_id"],
    )


def write_output_schema() -> dict[str, Any]:
    """Returns the JSON schema of the structured content of both writing tools."""
    counts = {name: {"type": "integer", "minimum": 0} for name in ("units", "rows_written", "rows_deleted")}
    texts = {name: {"type": "string"} for name in ("request_id", "collection", "document_id", "sha256")}
    properties = {**texts, **counts, "action": {"enum": list(WRITE_ACTIONS)}}
    return _object(properties, required=sorted(properties))


def _collection(description: str) -> dict[str, Any]:
    return {"type": "string", "enum": [tool.collection for tool in SEARCH_TOOLS], "description": description}


def search_input_schema(tool: SearchTool, known: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Returns the JSON schema of a search tool's arguments.

    Args:
        tool: The tool.
        known: For each filter the values that the live corpus holds; they are named in its description.
    """
    properties: dict[str, Any] = {
        "query": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_QUERY_CHARACTERS,
            "description": "The question, the error string or the identifier, as the person wrote it.",
        }
    }
    for name, description in tool.filters.items():
        values = known.get(name, ())
        listed = f" Known values: {', '.join(values)}." if values else ""
        properties[name] = {"type": ["string", "null"], "default": None, "description": description + listed}
    properties |= {
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_LIMIT,
            "default": DEFAULT_LIMIT,
            "description": "How many units to return.",
        },
        "exclude": {
            "type": "array",
            "items": {"type": "string", "maxLength": MAX_UNIT_ID_CHARACTERS},
            "maxItems": MAX_EXCLUDED,
            "default": [],
            "description": "unit_id values that were already shown: ask again for further evidence without repeats.",
        },
        "token_budget": _token_budget("Upper bound of the evidence, in tokens."),
    }
    return _object(properties, required=["query"])


def unit_input_schema() -> dict[str, Any]:
    """Returns the JSON schema of `get_source_unit`'s arguments."""
    return _object(
        {
            "collection": {
                "type": "string",
                "enum": [tool.collection for tool in SEARCH_TOOLS],
                "description": "Which search cited it: docs, issues or code.",
            },
            "unit_id": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_UNIT_ID_CHARACTERS,
                "description": "The unit_id of a citation.",
            },
            "token_budget": _token_budget("Upper bound of the text, in tokens."),
        },
        required=["collection", "unit_id"],
    )


def output_schema(citation: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the JSON schema of a search's structured content.

    Args:
        citation: JSON schema of one citation, as the query library publishes it.
    """
    counts = {"type": "object", "additionalProperties": {"type": "integer"}}
    return _object(
        {
            "request_id": {"type": "string"},
            "intent": _object(
                {name: {"type": "string"} for name in ("name", "mode", "reason")}, required=["name", "mode", "reason"]
            ),
            "citations": {"type": "array", "items": dict(citation)},
            "facets": {"type": "object", "additionalProperties": counts},
            "truncated": {"type": "boolean", "description": "Whether the evidence was cut to the token budget."},
            "left_out": {
                "type": "array",
                "items": {"type": "string"},
                "description": "unit_id of the hits that did not fit.",
            },
            "notes": {
                "type": "array",
                "items": {"type": "string"},
                "description": "What a reader should know: a relaxed filter, a list that could not be asked.",
            },
        },
        required=["request_id", "intent", "citations", "facets", "truncated", "left_out", "notes"],
    )


def unit_output_schema(citation: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the JSON schema of `get_source_unit`'s structured content."""
    return _object(
        {"request_id": {"type": "string"}, "citation": dict(citation), "truncated": {"type": "boolean"}},
        required=["request_id", "citation", "truncated"],
    )


def default_known_values() -> dict[str, tuple[str, ...]]:
    """Returns the known values of each filter where no live corpus can be asked."""
    return {"product_area": PRODUCT_AREAS, "state": STATES}


def _token_budget(description: str) -> dict[str, Any]:
    return {
        "type": "integer",
        "minimum": MIN_TOKEN_BUDGET,
        "maximum": MAX_TOKEN_BUDGET,
        "default": DEFAULT_TOKEN_BUDGET,
        "description": description,
    }


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
