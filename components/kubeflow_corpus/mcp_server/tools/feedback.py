"""The tool with which a caller says whether an answer helped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.mcp_server.tools.base import CallRecord, KnownValues, ReportTool, ToolAnswer
from kubeflow_corpus.mcp_server.tools.schemas import object_schema
from kubeflow_corpus.query.tuning import MAX_NOTE_CHARACTERS

if TYPE_CHECKING:
    from kubeflow_corpus.query.client import AsyncCorpusClient

MAX_REQUEST_ID_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerReportTool(ReportTool):
    """Keeps a verdict beside the question in the log of questions."""

    def input_schema(self, known: KnownValues) -> dict[str, Any]:
        """Returns the JSON schema of the arguments."""
        return object_schema(
            {
                "request_id": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_REQUEST_ID_CHARACTERS,
                    "description": "Of the search that the answer was made from.",
                },
                "helpful": {"type": "boolean", "description": "Whether the person got what they needed."},
                "note": {
                    "type": "string",
                    "maxLength": MAX_NOTE_CHARACTERS,
                    "description": "What was missing or wrong, in a sentence, without names or secrets.",
                },
            },
            required=["request_id", "helpful"],
        )

    def output_schema(self) -> dict[str, Any]:
        """Returns the JSON schema of the structured content."""
        return {"type": "object", "properties": {"kept": {"type": "boolean"}}, "required": ["request_id", "kept"]}

    async def read(self, client: AsyncCorpusClient, arguments: Mapping[str, Any], record: CallRecord) -> ToolAnswer:
        """Keeps the verdict, and says whether the question of it is known."""
        kept = await client.report_answer(arguments["request_id"], arguments["helpful"], arguments.get("note", ""))
        text = "Kept." if kept else "Not kept: there is no such request in the log of questions."
        return ToolAnswer(text, {"request_id": record.request_id, "kept": kept})


REPORT: Final = AnswerReportTool(
    name="report_answer",
    title="Say whether an answer helped",
    description=(
        "Say whether an answer made from a search of {project} helped the person, by the request_id of that search. "
        "Use it once, after the person said so or it is plain. Not for anything else: it finds nothing."
    ),
)
