import json
import os
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from kubeflow_corpus.mcp_server import tools
from kubeflow_corpus.query.citations import citation_schema
from kubeflow_corpus.query.options import CollectionOptions

SNAPSHOT = Path(__file__).with_name("tools.snapshot.json")
# Apart from the other, which stays as it is whether writing is offered or not.
WRITING_SNAPSHOT = Path(__file__).with_name("writing.snapshot.json")


def contract() -> dict[str, object]:
    defaults = tools.default_known_values()
    searches = {
        tool.name: {"description": tool.description, "input": tools.search_input_schema(tool, defaults)}
        for tool in tools.SEARCH_TOOLS
    }
    unit = {"description": tools.UNIT_DESCRIPTION, "input": tools.unit_input_schema()}
    return {
        **searches,
        tools.UNIT_TOOL: unit,
        "search output": tools.output_schema(citation_schema()),
        "unit output": tools.unit_output_schema(citation_schema()),
    }


def writing_contract() -> dict[str, object]:
    return {
        tools.WRITE_TOOL: {"description": tools.WRITE_DESCRIPTION, "input": tools.write_input_schema()},
        tools.DELETE_TOOL: {"description": tools.DELETE_DESCRIPTION, "input": tools.delete_input_schema()},
        "write output": tools.write_output_schema(),
    }


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


def test_every_schema_is_one() -> None:
    for tool in tools.SEARCH_TOOLS:
        jsonschema.Draft202012Validator.check_schema(tools.search_input_schema(tool, {}))
    jsonschema.Draft202012Validator.check_schema(tools.unit_input_schema())
    jsonschema.Draft202012Validator.check_schema(tools.output_schema(citation_schema()))
    for schema in (tools.write_input_schema(), tools.delete_input_schema(), tools.write_output_schema()):
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_argument_of_the_library_has_a_tool_argument_or_a_written_reason() -> None:
    library = {"query", *CollectionOptions.__annotations__}
    offered = {name for tool in tools.SEARCH_TOOLS for name in tools.search_input_schema(tool, {})["properties"]}

    assert library - offered == set(tools.NOT_OFFERED)
    assert all(tools.NOT_OFFERED.values())


def test_every_description_says_what_the_tool_is_not_for_and_names_the_others() -> None:
    names = {tool.name for tool in tools.SEARCH_TOOLS}
    for tool in tools.SEARCH_TOOLS:
        assert "Not for" in tool.description
        assert all(other in tool.description for other in names - {tool.name})


def test_known_values_of_the_live_corpus_stand_in_the_descriptions() -> None:
    schema = tools.search_input_schema(tools.SEARCH_TOOLS[2], {"kind": ("ConfigMap", "TrainJob")})

    assert "Known values: ConfigMap, TrainJob." in schema["properties"]["kind"]["description"]


@pytest.mark.parametrize("tool", tools.SEARCH_TOOLS)
def test_a_call_with_the_question_alone_is_valid(tool: tools.SearchTool) -> None:
    jsonschema.validate({"query": "why"}, tools.search_input_schema(tool, {}))
