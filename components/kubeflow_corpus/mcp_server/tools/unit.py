"""The tool that fetches one unit whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.mcp_server.tools.base import CallRecord, KnownValues, ReadTool, ToolAnswer
from kubeflow_corpus.mcp_server.tools.schemas import (
    MAX_UNIT_ID_CHARACTERS,
    collection_schema,
    object_schema,
    token_budget_schema,
)
from kubeflow_corpus.query.citations import citation_schema
from kubeflow_corpus.query.tuning import AGENT_LIMITS

if TYPE_CHECKING:
    from kubeflow_corpus.query.client import AsyncCorpusClient


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTool(ReadTool):
    """Fetches a unit that a search cited."""

    def input_schema(self, known: KnownValues) -> dict[str, Any]:
        """Returns the JSON schema of the arguments."""
        return object_schema(
            {
                "collection": collection_schema("Which search cited it: docs, issues or code."),
                "unit_id": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_UNIT_ID_CHARACTERS,
                    "description": "The unit_id of a citation.",
                },
                "token_budget": token_budget_schema(
                    "Upper bound of the text, in tokens.", AGENT_LIMITS.unit_token_budget
                ),
            },
            required=["collection", "unit_id"],
        )

    def output_schema(self) -> dict[str, Any]:
        """Returns the JSON schema of the structured content."""
        return object_schema(
            {"request_id": {"type": "string"}, "citation": citation_schema(), "truncated": {"type": "boolean"}},
            required=["request_id", "citation", "truncated"],
        )

    async def read(self, client: AsyncCorpusClient, arguments: Mapping[str, Any], record: CallRecord) -> ToolAnswer:
        """Fetches the unit, and answers with its text and its citation."""
        unit = await client.get_unit(
            arguments["unit_id"],
            collection=arguments["collection"],
            token_budget=arguments.get("token_budget", AGENT_LIMITS.unit_token_budget),
        )
        record.hits = 1
        structured = {
            "request_id": record.request_id,
            "citation": dict(unit.citation),
            "truncated": unit.truncated,
        }
        return ToolAnswer(unit.text, structured)


GET_UNIT: Final = UnitTool(
    name="get_source_unit",
    title="Fetch a cited unit whole",
    description=(
        "Fetch one unit that a search cited, whole: the section, thread, symbol or CRD, within a token budget. "
        "Use it when the evidence of a hit was cut and the answer must be in the rest. Not for finding anything: "
        "search first."
    ),
)
