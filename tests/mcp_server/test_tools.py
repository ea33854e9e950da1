import json
import os
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from kubeflow_corpus.mcp_server.tools.base import ReadTool, Tool, WriteTool, for_project
from kubeflow_corpus.mcp_server.tools.documents import DELETE, UPSERT
from kubeflow_corpus.mcp_server.tools.registry import TOOLS
from kubeflow_corpus.mcp_server.tools.search import SEARCH_TOOLS, SearchTool
from kubeflow_corpus.mcp_server.tools.unit import GET_UNIT
from kubeflow_corpus.query.options import CollectionOptions
from kubeflow_corpus.vocabulary import default_vocabulary

SNAPSHOT = Path(__file__).with_name("tools.snapshot.json")
# Apart from the other, which stays as it is whether writing is offered or not.
WRITING_SNAPSHOT = Path(__file__).with_name("writing.snapshot.json")
WORDS = default_vocabulary()


# Arguments of the query library that no tool offers, and why: an agent should say what it wants to know, not how.
NOT_OFFERED = {
    "mode": "the router chooses it by the question, and an agent cannot know better before it has seen the lists",
    "fusion": "a setting of the evaluation",
    "infer_filters": "named versions and products are preferences; an agent that wants a filter sets it",
    "rerank": "the operator's choice, by RERANK_URL",
    "min_score": "every citation says its score, and less evidence is not better evidence",
    "timeout": "the operator's choice: a caller must not hold a slot for longer",
    "request_id": "made by the server, so that logs can be trusted",
    "labels": "agents invent label names; the router reads the question instead",
    "source": "an operator's name for a checkout, which no caller knows",
    "source_type": "one tool is one kind of source",
    "repo": "the product area says the same in words that a question uses",
    "file_path": "get_source_unit fetches what is known by name",
    "state_reason": "closed threads that hold a fix come first anyway",
    "resolved": "closed threads that hold a fix come first anyway",
    "doc_type": "the router tells release questions from the others",
    "symbol": "a symbol is what the query names",
    "language": "the kind says more, and questions rarely name a language",
    "api_version": "the query names it, and it is matched exactly",
    "resource_name": "the query names it, and it is matched exactly",
    **dict.fromkeys(
        ("updated_after", "updated_before", "released_after", "released_before")
        + ("created_after", "created_before", "closed_after", "closed_before"),
        "dates in a question are read by the router; agents get time zones and ranges wrong",
    ),
}


def contract() -> dict[str, object]:
    return {
        **{tool.name: _texts(tool) for tool in (*SEARCH_TOOLS, GET_UNIT)},
        "search output": SEARCH_TOOLS[0].output_schema(),
        "unit output": GET_UNIT.output_schema(),
    }


def writing_contract() -> dict[str, object]:
    return {**{tool.name: _texts(tool) for tool in (UPSERT, DELETE)}, "write output": UPSERT.output_schema()}


def _texts(tool: Tool) -> dict[str, object]:
    worded = for_project(tool, WORDS)
    return {"description": worded.description, "input": worded.input_schema({"product_area": WORDS.areas})}


@pytest.mark.parametrize(
    ("published", "snapshot"), [(contract, SNAPSHOT), (writing_contract, WRITING_SNAPSHOT)], ids=["reading", "writing"]
)
def test_the_published_contract_is_the_recorded_one(published: Callable[[], dict[str, object]], snapshot: Path) -> None:
    """Clients are written against these schemas: a change must be seen in review.

    ``UPDATE_SNAPSHOTS=1`` records a wanted change.
    """
    text = json.dumps(published(), indent=1, sort_keys=True) + "\n"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        snapshot.write_text(text)

    assert text == snapshot.read_text()


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_schema_is_a_json_schema(tool: Tool) -> None:
    for schema in (tool.input_schema({}), tool.output_schema()):
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_tool_reads_or_writes_and_has_a_name_of_its_own() -> None:
    assert all(isinstance(tool, ReadTool | WriteTool) for tool in TOOLS)
    assert len({tool.name for tool in TOOLS}) == len(TOOLS)


def test_every_argument_of_the_library_has_a_tool_argument_or_a_written_reason() -> None:
    library = {"query", *CollectionOptions.__annotations__}
    offered = {name for tool in SEARCH_TOOLS for name in tool.input_schema({})["properties"]}

    assert library - offered == set(NOT_OFFERED)


def test_every_description_says_what_the_tool_is_not_for_and_names_the_others() -> None:
    names = {tool.name for tool in SEARCH_TOOLS}
    for tool in SEARCH_TOOLS:
        assert "Not for" in tool.description
        assert all(other in tool.description for other in names - {tool.name})


def test_known_values_of_the_live_corpus_are_in_the_descriptions() -> None:
    schema = SEARCH_TOOLS[2].input_schema({"kind": ("ConfigMap", "TrainJob")})

    assert "Known values: ConfigMap, TrainJob." in schema["properties"]["kind"]["description"]


@pytest.mark.parametrize("tool", SEARCH_TOOLS)
def test_a_call_with_the_question_alone_is_valid(tool: SearchTool) -> None:
    jsonschema.validate({"query": "why"}, tool.input_schema({}))
