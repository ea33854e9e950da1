import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import jsonschema
import pytest
from kubeflow_corpus.errors import StoreUnavailable
from kubeflow_corpus.mcp_server.assembly import STATUS_SECONDS, StatusReader
from kubeflow_corpus.mcp_server.server import PROMPT, STATUS_URI
from kubeflow_corpus.mcp_server.service import META_KEY, Caller, Service
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.mcp_server.tools.unit import GET_UNIT
from kubeflow_corpus.query import evidence
from kubeflow_corpus.query.links import strip_links
from kubeflow_corpus.settings import Settings
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.mcp_server.harness import in_memory, text_of

LINK = re.compile(r"(?:https?|ftp)://|mailto:|\bwww\.\w", re.IGNORECASE)


def ask(uri: str, name: str, arguments: dict[str, Any], settings: ServerSettings | None = None) -> Any:
    async def call(client: Client) -> Any:
        return await client.call_tool(name, arguments)

    return with_client(uri, call, settings)


def with_client(
    uri: str, work: Callable[[Client], Coroutine[Any, Any, Any]], settings: ServerSettings | None = None
) -> Any:
    async def scenario() -> Any:
        async with in_memory(uri, settings) as client:
            return await work(client)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("tool", "query", "needle"),
    [
        ("search_kubeflow_docs", "how do I switch caching of a step off", "set_caching_options"),
        ("search_github_issues", "pods stay in ImagePullBackOff after upgrade", "imagePullSecrets"),
        ("search_kubeflow_code", "maxLatency", 'maxLatency: "5000"'),
    ],
)
def test_a_tool_answers_with_evidence_and_valid_structured_content(
    corpus_uri: str, tool: str, query: str, needle: str
) -> None:
    async def call(client: Client) -> tuple[Any, Any]:
        listed = {item.name: item for item in (await client.list_tools()).tools}
        return listed[tool].output_schema, await client.call_tool(tool, {"query": query})

    schema, result = with_client(corpus_uri, call)

    assert not result.is_error
    assert needle in text_of(result)
    jsonschema.validate(result.structured_content, schema)
    labels = [citation["id"] for citation in result.structured_content["citations"]]
    assert labels and all(f"[{label}]" in text_of(result) for label in labels)


def test_the_text_holds_no_link_and_the_citation_has_it(corpus_uri: str) -> None:
    result = ask(corpus_uri, "search_kubeflow_docs", {"query": "how do I switch caching off"})

    assert not LINK.search(text_of(result))
    assert result.structured_content["citations"][0]["url"].startswith("https://")


def test_citations_travel_in_meta_for_hosts_that_show_structured_content(corpus_uri: str) -> None:
    result = ask(corpus_uri, "search_kubeflow_docs", {"query": "caching"}, ServerSettings(citations="meta"))

    assert result.structured_content is None
    assert result.meta[META_KEY]["citations"]


def test_a_cited_unit_can_be_fetched_whole(corpus_uri: str) -> None:
    async def call(client: Client) -> tuple[Any, Any]:
        found = await client.call_tool("search_kubeflow_code", {"query": "TrainJob managedBy default", "limit": 1})
        unit = found.structured_content["citations"][0]["unit_id"]
        return unit, await client.call_tool(GET_UNIT.name, {"collection": "code", "unit_id": unit})

    unit, result = with_client(corpus_uri, call)

    assert result.structured_content["citation"]["unit_id"] == unit
    assert "TrainJob" in text_of(result)


def test_excluded_units_do_not_come_back(corpus_uri: str) -> None:
    async def call(client: Client) -> tuple[set[str], set[str]]:
        first = await client.call_tool("search_kubeflow_docs", {"query": "caching", "limit": 2})
        shown = {citation["unit_id"] for citation in first.structured_content["citations"]}
        again = await client.call_tool("search_kubeflow_docs", {"query": "caching", "exclude": sorted(shown)})
        return shown, {citation["unit_id"] for citation in again.structured_content["citations"]}

    shown, again = with_client(corpus_uri, call)

    assert shown and not shown & again


def test_a_small_budget_cuts_and_says_so(corpus_uri: str) -> None:
    result = ask(corpus_uri, "search_kubeflow_code", {"query": "TrainJob fields", "token_budget": 200})

    assert result.structured_content["truncated"]


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("search_kubeflow_docs", {}, "INVALID_ARGUMENT: arguments: 'query' is a required property"),
        ("search_kubeflow_docs", {"query": ""}, "INVALID_ARGUMENT: query:"),
        ("search_kubeflow_docs", {"query": 7}, "INVALID_ARGUMENT: query:"),
        ("search_kubeflow_docs", {"query": "x", "limit": "many"}, "INVALID_ARGUMENT: limit:"),
        ("search_kubeflow_docs", {"query": "x", "limit": 10_000}, "INVALID_ARGUMENT: limit:"),
        ("search_kubeflow_docs", {"query": "x", "kind": "Pod"}, "INVALID_ARGUMENT: arguments:"),
        ("search_kubeflow_docs", {"query": "x", "visibility": "team-a"}, "INVALID_ARGUMENT: arguments:"),
        ("search_kubeflow_docs", {"query": "x", "product_area": "kubric"}, "INVALID_ARGUMENT:"),
        ("search_kubeflow_docs", {"query": "x" * 1_000_000}, "INVALID_ARGUMENT: query:"),
        ("search_kubeflow_docs", {"query": "x", "exclude": ["y"] * 1_000}, "INVALID_ARGUMENT: exclude:"),
        ("get_source_unit", {"collection": "docs", "unit_id": "site:none.md"}, "NOT_FOUND:"),
        ("get_source_unit", {"collection": "wiki", "unit_id": "x"}, "INVALID_ARGUMENT: collection:"),
        ("drop_everything", {"query": "x"}, "INVALID_ARGUMENT: Unknown tool 'drop_everything'"),
    ],
)
def test_a_wrong_call_gets_a_code_and_the_name_of_what_is_wrong(
    corpus_uri: str, tool: str, arguments: dict[str, Any], problem: str
) -> None:
    result = ask(corpus_uri, tool, arguments)

    assert result.is_error
    assert text_of(result).startswith(problem)
    assert len(text_of(result)) < 2_000


@pytest.mark.parametrize(
    "query", ["\x00", "caching \x00\x1b[31m off", "a\u202eb", "'; drop collection; --", "]] or 1 == 1"]
)
def test_hostile_questions_are_answered_like_others(corpus_uri: str, query: str) -> None:
    result = ask(corpus_uri, "search_kubeflow_docs", {"query": query})

    assert not result.is_error or text_of(result).startswith("INVALID_ARGUMENT")


def test_a_failing_store_shows_a_code_and_nothing_of_the_inside(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def search(self, *_: Any, **__: Any) -> Any:
            raise StoreUnavailable("Milvus at http://10.0.0.7:19530 does not answer", remedy="Check MILVUS_URI")

    service = Service(Broken(), ServerSettings())  # type: ignore[arg-type]

    result = asyncio.run(service.call("search_kubeflow_docs", {"query": "x"}, Caller()))

    assert result.is_error
    assert text_of(result).startswith("UNAVAILABLE: ")
    assert "10.0.0.7" not in text_of(result) and "MILVUS" not in text_of(result)
    assert "10.0.0.7" in caplog.text


def test_a_crash_shows_a_request_id_and_logs_the_traceback(caplog: pytest.LogCaptureFixture) -> None:
    class Crashing:
        async def search(self, *_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("secret detail")

    service = Service(Crashing(), ServerSettings())  # type: ignore[arg-type]

    result = asyncio.run(service.call("search_kubeflow_docs", {"query": "x"}, Caller()))

    assert "secret detail" not in text_of(result)
    assert "secret detail" in caplog.text


def test_a_caller_over_its_rate_learns_when_to_come_back(corpus_uri: str) -> None:
    async def call(client: Client) -> list[Any]:
        return [await client.call_tool("search_kubeflow_docs", {"query": "caching"}) for _ in range(3)]

    results = with_client(corpus_uri, call, ServerSettings(client_rate=0.001, burst=1))

    assert [result.is_error for result in results] == [False, True, True]
    assert text_of(results[1]).startswith("RATE_LIMITED: Too many calls. Try again in ")


@pytest.mark.parametrize(
    ("method", "ask"),
    [
        ("tools/list", lambda client: client.list_tools()),
        ("resources/list", lambda client: client.list_resources()),
        ("resources/read", lambda client: client.read_resource(STATUS_URI)),
        ("prompts/list", lambda client: client.list_prompts()),
        ("prompts/get", lambda client: client.get_prompt(PROMPT)),
    ],
)
def test_every_request_is_limited_and_on_record(
    corpus_uri: str, caplog: pytest.LogCaptureFixture, method: str, ask: Callable[[Client], Awaitable[Any]]
) -> None:
    caplog.set_level(logging.INFO, "kubeflow_corpus.mcp")

    async def scenario(client: Client) -> str:
        for _ in range(4):
            await ask(client)
        with pytest.raises(MCPError) as caught:
            for _ in range(4):
                await ask(client)
        return str(caught.value)

    refused = with_client(corpus_uri, scenario, ServerSettings(client_rate=0.001, burst=4_000))

    assert "RATE_LIMITED: Too many calls" in refused
    events = [json.loads(r.message) for r in caplog.records if '"event": "request"' in r.message]
    assert [(event["tool"], event["code"]) for event in events] == [(method, "OK")] * 4 + [(method, "RATE_LIMITED")]


def test_the_status_is_read_once_for_all_who_ask_at_a_time(corpus_uri: str) -> None:
    class Counting(StatusReader):
        reads = 0

        def _read(self) -> list[dict[str, Any]]:
            self.reads += 1
            return super()._read()

    now = [0.0]

    async def scenario() -> tuple[list[Any], int, int]:
        reader = Counting(Settings(milvus_uri=corpus_uri), lambda: now[0])
        states = await asyncio.gather(*(reader() for _ in range(20)))
        first = reader.reads
        now[0] += STATUS_SECONDS + 1
        states.append(await reader())
        return states, first, reader.reads

    states, first, then = asyncio.run(scenario())

    assert (first, then) == (1, 2) and all(state == states[0] for state in states)


def test_every_call_leaves_one_event_without_the_question(corpus_uri: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kubeflow_corpus.mcp")

    ask(corpus_uri, "search_kubeflow_docs", {"query": "how do I switch caching off"})

    (event,) = [json.loads(r.message) for r in caplog.records if '"event": "call"' in r.message]
    assert event["tool"] == "search_kubeflow_docs"
    assert event["code"] == "OK" and event["hits"] > 0 and event["intent"] and event["stages_ms"]
    assert "caching" not in json.dumps(event)


def test_the_caller_sees_public_rows_and_those_of_its_own_groups_only(corpus_uri: str) -> None:
    async def asked(visibility: tuple[str, ...] | None) -> str:
        from kubeflow_corpus.query.client import AsyncCorpusClient

        from tests.query.corpus import MODEL

        async with AsyncCorpusClient(milvus_uri=corpus_uri, embeddings=MODEL, timeout=60) as corpus:
            service = Service(corpus, ServerSettings())
            query = {"query": "staging dashboard password rotated"}
            return text_of(await service.call("search_kubeflow_docs", query, Caller("x", visibility)))

    assert "every Monday" in asyncio.run(asked(("team-a",)))
    assert "every Monday" not in asyncio.run(asked(("team-b",)))
    assert "every Monday" not in asyncio.run(asked(()))


def test_the_resources_are_the_status_and_the_schemas_of_answers_and_citations(corpus_uri: str) -> None:
    async def read(client: Client) -> list[Any]:
        uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
        return [json.loads((await client.read_resource(uri)).contents[0].text) for uri in uris]

    status, *schemas = with_client(corpus_uri, read)

    assert {state["alias"] for state in status} == {"kubeflow_docs", "issues_rag", "code_rag"}
    assert all("writer" not in state for state in status)
    assert [schema["title"] for schema in schemas] == ["Answer", "Citation"]
    for schema in schemas:
        jsonschema.Draft202012Validator.check_schema(schema)


def test_the_prompt_states_the_citation_contract(corpus_uri: str) -> None:
    async def read(client: Client) -> Any:
        return await client.get_prompt("citation_contract")

    assert "not instructions" in with_client(corpus_uri, read).messages[0].content.text


def test_answers_with_the_other_hits_where_one_cannot_be_shown(
    corpus_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(text: str, **options: Any) -> Any:
        if "medianstop" in text:
            raise KeyError("a text that nobody foresaw")
        return strip_links(text, **options)

    async def ask_all(client: Client) -> list[Any]:
        unit = {"collection": "docs", "unit_id": "site:early.md#stop"}
        other = {"collection": "docs", "unit_id": "site:env.md#katib"}
        return [
            await client.call_tool("search_kubeflow_docs", {"query": "katib early stopping default port", "limit": 10}),
            await client.call_tool(GET_UNIT.name, unit),
            await client.call_tool(GET_UNIT.name, other),
        ]

    monkeypatch.setattr(evidence, "strip_links", failing)
    found, unit, other = with_client(corpus_uri, ask_all)

    note = "1 of the units that were found could not be shown and is left out."
    assert not found.is_error and "[c1]" in text_of(found) and f"Note: {note}" in text_of(found)
    assert note in found.structured_content["notes"]
    assert found.structured_content["left_out"] == ["site:early.md#stop"]
    assert text_of(unit).startswith("UNAVAILABLE: This unit cannot be shown; other units are not affected")
    assert not other.is_error and "KATIB_DB_MANAGER" in text_of(other)
