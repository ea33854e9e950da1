"""Parts of the tools' JSON schemas that several tools share, and the limits of their arguments."""

from __future__ import annotations

from typing import Any, Final

from kubeflow_corpus.collections import COLLECTION_NAMES, FILTERS, common_limit

STATES: Final = FILTERS["state"].known

MIN_TOKEN_BUDGET: Final = 200
MAX_TOKEN_BUDGET: Final = 20_000
DEFAULT_TOKEN_BUDGET: Final = 3_000
MAX_UNIT_ID_CHARACTERS: Final = common_limit("unit_id")


def object_schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """Returns the schema of an object that has these properties and no others."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def collection_schema(description: str) -> dict[str, Any]:
    """Returns the schema of an argument that names a collection."""
    return {"type": "string", "enum": list(COLLECTION_NAMES), "description": description}


def token_budget_schema(description: str) -> dict[str, Any]:
    """Returns the schema of an argument that limits a text."""
    return {
        "type": "integer",
        "minimum": MIN_TOKEN_BUDGET,
        "maximum": MAX_TOKEN_BUDGET,
        "default": DEFAULT_TOKEN_BUDGET,
        "description": description,
    }
