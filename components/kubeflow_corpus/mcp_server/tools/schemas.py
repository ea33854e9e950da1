"""Parts of the tools' JSON schemas that several tools share, and the limits of their arguments."""

from __future__ import annotations

from typing import Any, Final

from kubeflow_corpus.collections import COLLECTION_NAMES, common_limit
from kubeflow_corpus.query.tuning import AGENT_LIMITS

CITATION_REMARK: Final = "See corpus://citation.schema.json"
MAX_UNIT_ID_CHARACTERS: Final = common_limit("unit_id")


def object_schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """Returns the schema of an object that has these properties and no others."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def cited_schema() -> dict[str, Any]:
    """Returns the schema of a citation in an answer: the whole of it is a resource, so that no tool repeats it."""
    return {"type": "object", "description": CITATION_REMARK}


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
