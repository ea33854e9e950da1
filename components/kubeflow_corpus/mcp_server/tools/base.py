"""What a tool is: its texts, its schemas and its handler in one object."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from kubeflow_corpus.mcp_server.origins import Author
    from kubeflow_corpus.mcp_server.writing import DocumentWriter, WriteResult
    from kubeflow_corpus.query.citations import Citation
    from kubeflow_corpus.query.client import AsyncCorpusClient
    from kubeflow_corpus.vocabulary import Vocabulary

AnyTool = TypeVar("AnyTool", bound="Tool")

# Filter to the values that the live corpus holds.
KnownValues = Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class CallRecord:
    """What one call leaves in the log and the metrics.

    Attributes:
        tool: Name of the tool; ``unknown`` where no tool has the name that was called.
        request_id: Id of the call.
        code: How it ended: ``OK`` or the code of an error.
        intent: What the router took the question for.
        mode: How it was searched.
        hits: Units that were found.
        degraded: Whether one of the lists of a search was missing.
        stages: Milliseconds of each stage.
    """

    tool: str
    request_id: str
    code: str = "OK"
    intent: str = ""
    mode: str = ""
    hits: int = 0
    degraded: bool = False
    stages: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool answers.

    Attributes:
        text: What the model reads.
        structured: What the application reads, valid by the tool's output schema.
        citations: What the labels of the text are.
    """

    text: str
    structured: dict[str, Any]
    citations: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(ABC):
    """A tool. A new one is a module beside this one, and its line in `registry`.

    Its texts name the project by places in braces, which `for_project` fills in.

    Attributes:
        name: Name of the tool.
        title: Title for people.
        description: When to use it, when not, and what to use instead.
    """

    name: str
    title: str
    description: str

    @abstractmethod
    def input_schema(self, known: KnownValues) -> dict[str, Any]:
        """Returns the JSON schema of the arguments.

        Args:
            known: Values of filters that the descriptions list; ``product_area`` is there always.
        """

    @abstractmethod
    def output_schema(self) -> dict[str, Any]:
        """Returns the JSON schema of the structured content."""


def for_project(tool: AnyTool, vocabulary: Vocabulary) -> AnyTool:
    """Returns a tool whose texts name a project."""
    changes: dict[str, Any] = {}
    for item in fields(tool):
        value = getattr(tool, item.name)
        if isinstance(value, str):
            changes[item.name] = named(value, vocabulary)
        elif isinstance(value, Mapping):
            changes[item.name] = {name: named(text, vocabulary) for name, text in value.items()}
    return replace(tool, **changes)


def named(text: str, vocabulary: Vocabulary) -> str:
    """Returns a text with the names of a project in the places for them."""
    places = {
        "{project}": vocabulary.project,
        "{about}": vocabulary.about or vocabulary.project,
        "{kind}": vocabulary.example_kind or "Deployment",
    }
    for place, name in places.items():
        text = text.replace(place, name)
    return text


class ReadTool(Tool):
    """A tool that reads; every caller may use it."""

    __slots__ = ()

    @abstractmethod
    async def read(self, client: AsyncCorpusClient, arguments: Mapping[str, Any], record: CallRecord) -> ToolAnswer:
        """Answers a call.

        Args:
            client: Finds what the caller may see, and nothing else.
            arguments: Valid by the input schema.
            record: Of the call; the tool adds what it found.

        Raises:
            CorpusError: It could not be answered.
        """


class ReportTool(ReadTool):
    """A tool with which any caller says something of an answer; offered if ``MCP_FEEDBACK_ENABLED`` is set."""

    __slots__ = ()


class WriteTool(Tool):
    """A tool that writes; a caller needs the scope of writers, one call runs at a time, and each is audited."""

    __slots__ = ()

    @abstractmethod
    def write(
        self, writer: DocumentWriter, arguments: Mapping[str, Any], author: Author, request_id: str
    ) -> WriteResult:
        """Does the work, in a thread.

        Args:
            writer: Writes.
            arguments: Valid by the input schema.
            author: Who writes, and for which groups.
            request_id: Id of the call.

        Raises:
            CorpusError: Nothing was written.
        """
