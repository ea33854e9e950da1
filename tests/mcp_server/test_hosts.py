"""What hosts differ in: whether they show structured content, how their models spell arguments, what they ask for."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
from kubeflow_corpus.mcp_server.server import build_server
from kubeflow_corpus.mcp_server.service import Caller, Service
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.query.client import AsyncCorpusClient
from kubeflow_corpus.query.resolve import resolve
from kubeflow_corpus.vocabulary import default_vocabulary
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.mcp_server.harness import text_of
from tests.mcp_server.test_service import LINK, ask, with_client
from tests.query.corpus import MODEL

TEXT = ServerSettings(citations="text")
CACHING = {"query": "how do I switch caching of a step off", "limit": 2}


def test_over_stdio_citations_are_in_the_text_unless_the_operator_says_otherwise() -> None:
    assert ServerSettings.from_env({}, local=True).citations == "text"
    assert ServerSettings.from_env({}).citations == "structured"
    assert ServerSettings.from_env({"MCP_CITATIONS": "meta"}, local=True).citations == "meta"


def test_a_host_that_shows_text_only_gets_titles_addresses_and_units_of_all_sources(corpus_uri: str) -> None:
    result = ask(corpus_uri, "search_kubeflow_docs", CACHING, TEXT)

    text = text_of(result)
    assert result.structured_content is None
    evidence, _, sources = text.partition("\n\nSources:\n")
    assert not LINK.search(evidence)
    assert "[c1] Use Caching > How to use caching" in sources
    assert "https://docs.example.org/site:caching.md#use (unit_id site:caching.md#use)" in sources
    assert "{c1.1} https://kfp.example.org/ref" in sources and "{c1.1}" in evidence


def test_a_host_with_structured_content_gets_the_units_and_no_address_in_the_text(corpus_uri: str) -> None:
    result = ask(corpus_uri, "search_kubeflow_docs", CACHING)

    text, citations = text_of(result), result.structured_content["citations"]
    assert not LINK.search(text)
    assert all(f"[{citation['id']}] {citation['unit_id']}" in text for citation in citations)
    assert "https://kfp.example.org/ref" in resolve(text, citations).text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_kubeflow_docs", {"question": "caching"}),
        ("search_kubeflow_docs", {"q": "caching", "top_k": 2}),
        ("search_kubeflow_docs", {"Query": "caching", "limit": "3"}),
        ("search_kubeflow_docs", {"query": "caching", "limit": 5.0, "token_budget": "900"}),
        ("search_kubeflow_docs", {"query": ["caching"], "limit": None, "version": None}),
        ("search_kubeflow_docs", {"query": "caching", "product_area": ["pipelines", "katib"]}),
        ("search_kubeflow_docs", {"query": "caching", "exclude": "site:early.md#stop"}),
        ("search_kubeflow_docs", {"query": "caching", "exclude": '["site:early.md#stop"]'}),
        ("search_kubeflow_docs", {"query": "caching", "exclude": ""}),
        ("get_source_unit", {"id": "site:caching.md#use"}),
        ("get_source_unit", {"url": "https://docs.example.org/site:caching.md#use", "collection": "docs"}),
    ],
)
def test_arguments_are_taken_as_models_send_them(corpus_uri: str, tool: str, arguments: dict[str, Any]) -> None:
    result = ask(corpus_uri, tool, arguments)

    assert not result.is_error, text_of(result)
    assert "aching" in text_of(result)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"query": "x", "limt": 3}, "Did you mean 'limit'? Its arguments are query, product_area, version, limit"),
        ({"query": "x", "question": "y"}, "search_kubeflow_docs has no argument 'question'"),
        ({"query": "x", "limit": "3.5"}, "limit:"),
        ({"query": "x", "limit": True}, "limit:"),
        ({"query": "x", "limit": "1e999"}, "limit:"),
        ({"query": ["x", "y"]}, "query:"),
        ({"query": "x", "exclude": {"a": 1}}, "exclude:"),
    ],
)
def test_what_can_mean_two_things_is_refused_with_what_exists(
    corpus_uri: str, arguments: dict[str, Any], problem: str
) -> None:
    result = ask(corpus_uri, "search_kubeflow_docs", arguments)

    assert result.is_error and text_of(result).startswith("INVALID_ARGUMENT: ") and problem in text_of(result)


def test_a_long_unit_is_read_page_by_page_and_nothing_is_missing(corpus_uri: str) -> None:
    async def read(client: Client) -> list[Any]:
        found = await client.call_tool("search_github_issues", {"query": "ImagePullBackOff after upgrade"})
        unit = found.structured_content["citations"][0]["unit_id"]
        first = await client.call_tool("get_source_unit", {"unit_id": unit, "page": 1, "token_budget": 200})
        pages = first.structured_content["pages"]
        calls = [{"unit_id": unit, "page": page, "token_budget": 200} for page in range(1, pages + 2)]
        return [await client.call_tool("get_source_unit", call) for call in calls]

    *pages, beyond = with_client(corpus_uri, read)

    lines = [line for page in pages for line in text_of(page).split("\n")]
    assert [page.structured_content["page"] for page in pages] == [*range(1, len(pages) + 1)]
    assert any("imagePullSecrets" in line for line in lines)
    assert text_of(beyond).startswith(f"INVALID_ARGUMENT: There is no page {len(pages) + 1}")


def test_a_unit_names_its_neighbours(corpus_uri: str) -> None:
    result = ask(corpus_uri, "get_source_unit", {"unit_id": "site:caching.md#use"})

    content = result.structured_content
    near = {content["before"], content["after"]} - {None}
    assert near == {"site:caching.md#expire"}
    assert "site:caching.md#expire" in text_of(result)


def test_what_is_indexed_is_listed_and_hidden_rows_are_not_counted_for_others(corpus_uri: str) -> None:
    result = ask(corpus_uri, "list_sources", {})

    listed = {entry["collection"]: entry for entry in result.structured_content["collections"]}
    assert [*listed] == ["docs", "issues", "code"]
    assert "katib" in listed["docs"]["product_area"] and "1.10" in listed["docs"]["version"]
    assert listed["docs"]["newest"] == "2025-03-01"
    assert "docs (search_kubeflow_docs)" in text_of(result) and "katib" in text_of(result)


def test_resource_templates_answer_and_a_unit_can_be_read_by_them(corpus_uri: str) -> None:
    async def read(client: Client) -> tuple[str, str]:
        (template,) = (await client.list_resource_templates()).resource_templates
        uri = template.uri_template.replace("{unit_id}", quote("site:caching.md#use", safe=""))
        content = (await client.read_resource(uri)).contents[0].text
        with pytest.raises(MCPError, match="NOT_FOUND"):
            await client.read_resource(template.uri_template.replace("{unit_id}", "none"))
        return uri, content

    uri, content = with_client(corpus_uri, read)

    assert uri.startswith("corpus://unit/") and "set_caching_options" in content


@pytest.mark.parametrize("settings", [ServerSettings(), TEXT], ids=["structured", "text"])
def test_the_list_of_tools_is_under_nine_kilobytes_with_the_values_of_a_full_corpus(settings: ServerSettings) -> None:
    values = {
        "version": tuple(f"26.{number:02}.1" for number in range(24)),
        "kind": tuple(f"CustomResource{number}" for number in range(24)),
    }
    tools = ("search_kubeflow_docs", "search_github_issues", "search_kubeflow_code")
    service = Service(None, settings, dict.fromkeys(tools, values))  # type: ignore[arg-type]

    listed = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in service.list_tools()]

    assert len(json.dumps({"tools": listed}, separators=(",", ":")).encode()) < 9_000


@pytest.mark.parametrize(("settings", "words"), [(TEXT, "The sources at the end"), (ServerSettings(), "copy places")])
def test_prompt_and_instructions_say_what_the_host_does_with_labels(
    corpus_uri: str, settings: ServerSettings, words: str
) -> None:
    async def read(client: Client) -> tuple[Any, str]:
        return await client.get_prompt("citation_contract"), client.instructions or ""

    prompt, instructions = with_client(corpus_uri, read, settings)

    assert words in prompt.messages[0].content.text and words in instructions


def test_a_server_answers_before_its_corpus_is_open_and_calls_wait_for_it(corpus_uri: str) -> None:
    async def nothing() -> list[dict[str, Any]]:
        return []

    async def scenario() -> tuple[str, list[str], Any]:
        service = Service(None, TEXT)
        async with Client(build_server(service, nothing, local=True)) as client:
            call = asyncio.create_task(client.call_tool("search_kubeflow_docs", CACHING))
            prompt = await client.get_prompt("citation_contract")
            assert not call.done()
            async with AsyncCorpusClient(milvus_uri=corpus_uri, embeddings=MODEL, timeout=60) as corpus:
                service.open(corpus)
                service.learn({"search_kubeflow_docs": {"version": ("42.1",)}}, default_vocabulary())
                listed = (await client.list_tools()).tools
                return prompt.messages[0].content.text, [str(tool.input_schema) for tool in listed], await call

    prompt, schemas, result = asyncio.run(scenario())

    assert prompt and "42.1" in schemas[0]
    assert not result.is_error and "set_caching_options" in text_of(result)


def test_a_corpus_that_cannot_be_opened_is_said_by_every_call() -> None:
    service = Service(None, TEXT)
    service.open(None)

    result = asyncio.run(service.call("search_kubeflow_docs", {"query": "x"}, Caller()))

    assert result.is_error and text_of(result).startswith("UNAVAILABLE: ")
