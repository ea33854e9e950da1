"""The tools that write documents and hide them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.collections import MANUAL_SOURCE, common_limit
from kubeflow_corpus.mcp_server.arguments import MAX_CONTENT_CHARACTERS, MAX_THREAD_NUMBER, STATES
from kubeflow_corpus.mcp_server.tools.base import KnownValues, WriteTool
from kubeflow_corpus.mcp_server.tools.schemas import (
    MAX_UNIT_ID_CHARACTERS,
    collection_schema,
    object_schema,
)

if TYPE_CHECKING:
    from kubeflow_corpus.mcp_server.origins import Author
    from kubeflow_corpus.mcp_server.writing import DocumentWriter, WriteResult


MAX_TITLE_CHARACTERS: Final = 300
MAX_ORIGIN_CHARACTERS: Final = 500
MAX_PATH_CHARACTERS: Final = 300
MAX_VALUES: Final = 16
ACTIONS: Final = ("created", "replaced", "restored", "unchanged", "deleted")


@dataclass(frozen=True, slots=True, kw_only=True)
class _DocumentTool(WriteTool):
    def output_schema(self) -> dict[str, Any]:
        """Returns the JSON schema of the structured content."""
        counts = {name: {"type": "integer", "minimum": 0} for name in ("units", "rows_written", "rows_deleted")}
        texts = {name: {"type": "string"} for name in ("request_id", "collection", "document_id", "sha256")}
        properties = {**texts, **counts, "action": {"enum": list(ACTIONS)}}
        return object_schema(properties, required=sorted(properties))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertTool(_DocumentTool):
    """Writes a document, or replaces the one of the same origin."""

    def input_schema(self, known: KnownValues) -> dict[str, Any]:
        """Returns the JSON schema of the arguments."""
        return object_schema(
            {
                "collection": collection_schema("Where it goes: docs, issues or code."),
                "source": {
                    "type": "string",
                    "enum": [MANUAL_SOURCE],
                    "default": MANUAL_SOURCE,
                    "description": "The reserved source of written documents. Every other source belongs to the "
                    "ingestion.",
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
                "metadata": _metadata_schema(known.get("product_area", ())),
            },
            required=["collection", "content", "title", "metadata"],
        )

    def write(
        self, writer: DocumentWriter, arguments: Mapping[str, Any], author: Author, request_id: str
    ) -> WriteResult:
        """Writes the document."""
        return writer.upsert(arguments["collection"], arguments, author, request_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTool(_DocumentTool):
    """Hides a written document."""

    def input_schema(self, known: KnownValues) -> dict[str, Any]:
        """Returns the JSON schema of the arguments."""
        return object_schema(
            {
                "collection": collection_schema("Where it is: docs, issues or code."),
                "document_id": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_UNIT_ID_CHARACTERS,
                    "description": "From upsert_document's answer; or the unit_id of a citation, which begins with it.",
                },
            },
            required=["collection", "document_id"],
        )

    def write(
        self, writer: DocumentWriter, arguments: Mapping[str, Any], author: Author, request_id: str
    ) -> WriteResult:
        """Hides the document."""
        return writer.delete(arguments["collection"], arguments["document_id"], author, request_id)


def _metadata_schema(areas: Sequence[str]) -> dict[str, Any]:
    return object_schema(
        {
            "origin": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_ORIGIN_CHARACTERS,
                "description": "Where it comes from: an http(s) address, or words that lead a person there; not "
                "an address of what the corpus fetches by itself. It is the address of the citations and the key: one "
                "origin is one document of a group or, where everybody may find it, of its writer.",
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
                "items": {"type": "string", "enum": list(areas)} if areas else {"type": "string", "maxLength": 63},
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
                "maximum": MAX_THREAD_NUMBER,
                "description": "Of a thread, in its own tracker.",
            },
            "visibility": {
                "type": "string",
                "maxLength": common_limit("visibility"),
                "pattern": r"^[\w.@/-]*$",
                "default": "",
                "description": "The only group that may find it; empty is everybody. You must be in the group.",
            },
        },
        required=["origin"],
    )


UPSERT: Final = UpsertTool(
    name="upsert_document",
    title="Write a document",
    description=(
        "Add a document to the corpus, or replace the one of the same origin: a runbook or page as Markdown "
        "(collection docs), a thread as Markdown with a heading Resolution, or as JSON (issues), a source file or "
        "manifest (code). It is cut into units here and found by the searches at once. Write only what a person "
        "asked to have written. Not for what the corpus fetches by itself: {project}'s own sites, issues and "
        "repositories."
    ),
)
DELETE: Final = DeleteTool(
    name="delete_document",
    title="Hide a written document",
    description=(
        "Hide a document that upsert_document wrote from every search and from get_source_unit. Writing it again "
        "brings it back. Not for documents that the corpus fetches by itself: those follow their source."
    ),
)
