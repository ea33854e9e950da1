"""Arguments as models send them: numbers as text, one value for a list, another word for the question.

What can mean one thing only is understood; what cannot is refused with the names that exist.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, Final

from kubeflow_corpus.errors import InvalidArgument

# Other names that models give to an argument, best known first.
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "query": ("question", "q", "search", "search_query", "user_query", "userquery", "text", "input", "prompt"),
    "limit": ("top_k", "topk", "k", "n", "max_results", "num_results", "count"),
    "token_budget": ("max_tokens", "tokens", "tokenbudget"),
    "product_area": ("product", "area", "productarea", "component"),
    "unit_id": ("unit", "id", "url", "uri", "address", "unitid", "citation_url"),
    "exclude": ("exclude_units", "exclude_ids"),
}
_SHOWN: Final = 100


def as_meant(tool: str, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a call by the names and with the types of a tool's schema.

    Args:
        tool: Its name, for the error.
        schema: Of its arguments.
        arguments: What the caller sent.

    Raises:
        InvalidArgument: An argument does not exist; the error says which do.
    """
    properties: Mapping[str, Any] = schema["properties"]
    meant: dict[str, Any] = {}
    for name, value in arguments.items():
        known = _name(name, properties, arguments)
        if known is None:
            raise _unknown(tool, name, properties)
        if value is None:
            # Models write null for "not given".
            continue
        meant[known] = _value(value, properties[known])
    return meant


def _name(name: str, properties: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    if name in properties:
        return name
    plain = name.lower().replace("-", "_")
    for known in properties:
        if known not in arguments and (plain == known or plain in ALIASES.get(known, ())):
            return known
    return None


def _unknown(tool: str, name: str, properties: Mapping[str, Any]) -> InvalidArgument:
    near = difflib.get_close_matches(name, properties, 1)
    remedy = f"Did you mean {near[0]!r}? " if near else ""
    return InvalidArgument(
        f"arguments: {tool} has no argument {name[:_SHOWN]!r}",
        remedy=f"{remedy}Its arguments are {', '.join(properties)}",
        argument=name[:_SHOWN],
    )


def _value(value: Any, schema: Mapping[str, Any]) -> Any:
    types = schema.get("type", ())
    types = (types,) if isinstance(types, str) else tuple(types)
    if "array" in types and "string" not in types:
        parsed = _parsed(value) if isinstance(value, str) else value
        if isinstance(parsed, list):
            return parsed
        return [value] if isinstance(value, str) and value.strip() else [] if value == "" else value
    if "string" in types and isinstance(value, list) and "array" not in types and len(value) == 1:
        return value[0]
    if "integer" in types:
        return _whole_number(value)
    return value


def _whole_number(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        parsed = _parsed(value.strip())
        return _whole_number(parsed) if isinstance(parsed, (int, float)) else value
    return value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text) if len(text) < 10_000 else text
    except (ValueError, RecursionError):
        return text
