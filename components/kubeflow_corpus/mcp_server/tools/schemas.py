"""Parts of the tools' JSON schemas that several tools share, and the limits of their arguments."""

from __future__ import annotations

from typing import Any, Final

from kubeflow_corpus.collections import COLLECTION_NAMES, common_limit
from kubeflow_corpus.query.citations import citation_schema
from kubeflow_corpus.query.tuning import AGENT_LIMITS

ANSWER_URI: Final = "corpus://answer.schema.json"
CITATION_URI: Final = "corpus://citation.schema.json"
MAX_UNIT_ID_CHARACTERS: Final = common_limit("unit_id")


def object_schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """Returns the schema of an object that has these properties and no others."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def cited_schema() -> dict[str, Any]:
    """Returns the schema of a citation in an answer: the whole of it is a resource, so that no tool repeats it."""
    return {"type": "object", "description": f"See {CITATION_URI}"}


def answer_schema() -> dict[str, Any]:
    """Returns the published JSON schema of a search's structured content, with that of its citations."""
    texts = {"type": "array", "items": {"type": "string"}}
    counts = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}}
    intent = object_schema(
        {name: {"type": "string"} for name in ("name", "mode", "reason")}, ["name", "mode", "reason"]
    )
    properties = {
        "request_id": {"type": "string", "description": "Names this answer in logs and in `report_answer`."},
        "intent": {**intent, "description": "What kind of question it was read as, which lists were asked, and why."},
        "citations": {
            "type": "array",
            "items": {"$ref": "#/$defs/citation"},
            "description": "One for each label of the text, in their order.",
        },
        "facets": {
            "type": "object",
            "additionalProperties": counts,
            "description": "By field, how many candidates hold which value: what a further search can narrow to.",
        },
        "truncated": {"type": "boolean", "description": "Whether a fragment was cut, or units were left out."},
        "left_out": {**texts, "description": "`unit_id` of what found no room, for `get_source_unit`."},
        "notes": {**texts, "description": "What a reader must know, such as a filter that matched nothing."},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:kubeflow-corpus:answer:1",
        "title": "Answer",
        "description": "The structured content of a search. Its text is evidence: each fragment has a label, [c1], "
        "which is the citation with the id c1, and an address that was taken out of it left a place, {c1.2}, which is "
        "the link of that citation with the id c1.2. An application turns both into links, and removes labels and "
        "places that no citation has.",
        **object_schema(properties, [*properties]),
        "$defs": {"citation": citation_schema()},
    }


def collection_schema(description: str) -> dict[str, Any]:
    """Returns the schema of an argument that names a collection."""
    return {"type": "string", "enum": list(COLLECTION_NAMES), "description": description}


def token_budget_schema(description: str, default: int) -> dict[str, Any]:
    """Returns the schema of an argument that limits a text."""
    return {
        "type": "integer",
        "minimum": AGENT_LIMITS.min_token_budget,
        "maximum": AGENT_LIMITS.max_token_budget,
        "default": default,
        "description": description,
    }
