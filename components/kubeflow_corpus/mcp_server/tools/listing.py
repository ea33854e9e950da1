"""The tool that says what is indexed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.collections import COLLECTIONS, CollectionSpec, find_collection
from kubeflow_corpus.errors import CollectionNotFound
from kubeflow_corpus.mcp_server.tools.base import CallRecord, KnownValues, ReadTool, ToolAnswer
from kubeflow_corpus.mcp_server.tools.schemas import collection_schema, object_schema
from kubeflow_corpus.query.evidence import one_line

if TYPE_CHECKING:
    from kubeflow_corpus.query.client import AsyncCorpusClient

# Fields whose values are listed, and how many of each.
LISTED: Final = ("source", "product_area", "version")
SHOWN: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTool(ReadTool):
    """Lists the sources, products and versions of the collections, with their newest dates."""

    def input_schema(self, known: KnownValues) -> dict[str, Any]:
        """Returns the JSON schema of the arguments."""
        return object_schema({"collection": collection_schema("Only this one.")}, required=[])

    def output_schema(self) -> dict[str, Any]:
        """Returns the JSON schema of the structured content."""
        return {"type": "object", "required": ["request_id", "collections"]}

    async def read(self, client: AsyncCorpusClient, arguments: Mapping[str, Any], record: CallRecord) -> ToolAnswer:
        """Reads the values of the fields, of the rows that the caller may see."""
        chosen = arguments.get("collection")
        specs = (find_collection(chosen),) if chosen else COLLECTIONS
        listed = [await _collection(client, spec) for spec in specs]
        record.hits = len(listed)
        text = "\n\n".join(map(_readable, listed))
        return ToolAnswer(text, {"request_id": record.request_id, "collections": listed})


async def _collection(client: AsyncCorpusClient, spec: CollectionSpec) -> dict[str, Any]:
    entry: dict[str, Any] = {"collection": spec.name, "tool": spec.tool, "rows": 0, "newest": ""}
    try:
        for field in LISTED:
            entry[field] = await client.known_values(spec.name, field)
        dates = await client.known_values(spec.name, "updated_at")
    except CollectionNotFound:
        return entry
    entry["rows"] = sum(entry["source"].values())
    entry["newest"] = max(dates, default="")[:10]
    return entry


def _readable(entry: Mapping[str, Any]) -> str:
    if not entry["rows"]:
        return f"{entry['collection']} ({entry['tool']}): nothing is indexed"
    lines = [f"{entry['collection']} ({entry['tool']}): {entry['rows']} rows, newest of {entry['newest']}"]
    for field in LISTED:
        values = [f"{one_line(value)} {count}" for value, count in entry[field].items() if value]
        more = f", and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
        lines.append(f"  {field}: {', '.join(values[:SHOWN]) or 'none'}{more}")
    return "\n".join(lines)


LIST_SOURCES: Final = ListTool(
    name="list_sources",
    title="List what is indexed",
    description=(
        "List what the corpus of {project} holds: its sources, products and versions with row counts, and the newest "
        "date of each collection. Use it to choose a filter, or to tell whether something can be found at all. Not "
        "for answers: search for those."
    ),
)
