"""The tool that fetches one unit whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.errors import CorpusError
from kubeflow_corpus.mcp_server.tools.base import CallRecord, KnownValues, ReadTool, ToolAnswer
from kubeflow_corpus.mcp_server.tools.schemas import (
    MAX_UNIT_ID_CHARACTERS,
    cited_schema,
    collection_schema,
    object_schema,
    token_budget_schema,
)
from kubeflow_corpus.query.evidence import one_line
from kubeflow_corpus.query.tuning import AGENT_LIMITS

if TYPE_CHECKING:
    from kubeflow_corpus.query.client import AsyncCorpusClient
    from kubeflow_corpus.query.results import SourceUnit

MAX_PAGES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTool(ReadTool):
    """Fetches a unit that a search cited, and names its neighbours."""

    def input_schema(self, known: KnownValues) -> dict[str, Any]:
        """Returns the JSON schema of the arguments."""
        return object_schema(
            {
                "unit_id": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_UNIT_ID_CHARACTERS,
                    "description": "The unit_id of a citation, or its url.",
                },
                "collection": collection_schema("Which search cited it; leave out when unsure."),
                "page": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_PAGES,
                    "description": "Read a long unit from its start, page by page. Left out: its best lines.",
                },
                "token_budget": token_budget_schema(
                    "Upper bound of the text, in tokens.", AGENT_LIMITS.unit_token_budget
                ),
            },
            required=["unit_id"],
        )

    def output_schema(self) -> dict[str, Any]:
        """Returns the JSON schema of the structured content."""
        number, key = {"type": "integer"}, {"type": ["string", "null"]}
        return {
            "type": "object",
            "properties": {"citation": cited_schema(), "page": number, "pages": number, "before": key, "after": key},
            "required": ["request_id", "citation", "truncated", "page", "pages", "before", "after"],
        }

    async def read(self, client: AsyncCorpusClient, arguments: Mapping[str, Any], record: CallRecord) -> ToolAnswer:
        """Fetches the unit, and answers with its text, its citation and the names of its neighbours."""
        collection = arguments.get("collection", "")
        unit = await client.get_unit(
            arguments["unit_id"],
            collection=collection,
            token_budget=arguments.get("token_budget", AGENT_LIMITS.unit_token_budget),
            page=arguments.get("page", 0),
        )
        record.hits = 1
        before, after = await _neighbours(client, unit, collection)
        structured = {
            "request_id": record.request_id,
            "citation": dict(unit.citation),
            "truncated": unit.truncated,
            "page": unit.page,
            "pages": unit.pages,
            "before": before,
            "after": after,
        }
        return ToolAnswer("\n\n".join((unit.text, *_remarks(unit, before, after))), structured, (unit.citation,))


async def _neighbours(client: AsyncCorpusClient, unit: SourceUnit, collection: str) -> tuple[str | None, str | None]:
    """Returns the keys of the units before and after a unit in its document."""
    try:
        near = await client.neighbours(unit.hit.unit_id, before=1, after=1, collection=collection)
    except CorpusError:
        # The unit itself was found and is the answer.
        return None, None
    start = unit.hit.rows[0]["chunk_index"]
    before = [hit.unit_id for hit in near if hit.rows[0]["chunk_index"] < start]
    after = [hit.unit_id for hit in near if hit.unit_id not in before]
    return (before[-1] if before else None, after[0] if after else None)


def _remarks(unit: SourceUnit, before: str | None, after: str | None) -> list[str]:
    """Returns what a reader must know to read on."""
    remarks = []
    if unit.page and unit.pages > 1:
        remarks.append(f"Page {unit.page} of {unit.pages}.")
    elif unit.truncated:
        remarks.append(f"Cut to its best lines; page=1 to page={unit.pages} is the whole unit.")
    named = [f"{place} {one_line(key)}" for place, key in (("before", before), ("after", after)) if key]
    if named:
        remarks.append(f"Neighbours in the document: {'; '.join(named)}")
    return ["\n".join(remarks)] if remarks else []


GET_UNIT: Final = UnitTool(
    name="get_source_unit",
    title="Fetch a cited unit whole",
    description=(
        "Fetch one unit that a search cited: the section, thread, symbol or CRD, within a token budget, page by page "
        "where it is long, with the units before and after it. Use it when the evidence of a hit was cut and the "
        "answer must be in the rest. Not for finding anything: search first."
    ),
)
