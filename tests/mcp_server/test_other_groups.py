"""What the server tells everybody: tool descriptions and the status are those of a corpus without any group's rows."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from kubeflow_corpus.collections import COLLECTIONS
from kubeflow_corpus.errors import CorpusError
from kubeflow_corpus.mcp_server.assembly import StatusReader, known_values
from kubeflow_corpus.mcp_server.server import STATUS_URI, build_server
from kubeflow_corpus.mcp_server.service import Caller, Service
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.mcp_server.tools.search import SEARCH_TOOLS
from kubeflow_corpus.milvus import connect, disconnect
from kubeflow_corpus.query.client import AsyncCorpusClient, CorpusClient
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.schema import HEAD_PREFIX, HIDDEN, RUN_KEY, physical_name
from kubeflow_corpus.store.versions import set_properties
from mcp import Client

from tests.mcp_server.harness import text_of
from tests.query.corpus import MODEL, fill, public, with_rows_of

CALLERS = {"nobody": Caller("x", ()), "another group": Caller("x", ("team-c",)), "everything": Caller("x", None)}
QUESTION = {"query": "secret of the caching number", "limit": 20}


@dataclass(frozen=True)
class Told:
    """What a server tells."""

    tools: dict[str, list[dict[str, Any]]]
    status: Any
    answers: dict[str, list[tuple[str, Any]]]
    library: dict[str, Any]


def told(uri: str) -> Told:
    async def scenario() -> Told:
        async with AsyncCorpusClient(milvus_uri=uri, embeddings=MODEL, timeout=60) as corpus:
            service = Service(corpus, ServerSettings(), await known_values(corpus))
            listed = {
                name: [tool.model_dump() for tool in service.list_tools(caller)] for name, caller in CALLERS.items()
            }
            answers = {name: [await answer(service, tool.name, caller) for tool in SEARCH_TOOLS]
                       for name, caller in CALLERS.items()}  # fmt: skip
            async with Client(build_server(service, StatusReader(Settings(milvus_uri=uri)))) as client:
                status = json.loads((await client.read_resource(STATUS_URI)).contents[0].text)
            return Told(listed, status, answers, {})

    return replace(asyncio.run(scenario()), library=library(uri))


async def answer(service: Service, tool: str, caller: Caller) -> tuple[str, Any]:
    result = await service.call(tool, QUESTION, caller)
    return text_of(result), result.structured_content


def library(uri: str) -> dict[str, Any]:
    """Everything that the query library says to callers of some groups, by what was asked."""
    said: dict[str, Any] = {}
    units = sorted({chunk.unit_id for _, chunks in with_rows_of("team-b", HIDDEN) for chunk in chunks})
    with CorpusClient(milvus_uri=uri, embeddings=MODEL, timeout=60) as corpus:
        for groups in ((), ("team-c",), (HIDDEN,)):
            client = corpus.scoped(groups)
            for spec in COLLECTIONS:
                said[f"{groups} {spec.name} properties"] = client.properties(spec.name)
                said[f"{groups} {spec.name} words"] = client.vocabulary(spec.name).to_property()
                for rule in spec.filters:
                    said[f"{groups} {spec.name} values {rule.name}"] = client.known_values(spec.name, rule.name)
                # The dense list weighs a row by itself: what is asked of it is the same to the last digit.
                for options in ({}, {"product_area": "spark"}, {"version": "9.9"}, {"exclude": units[:3]}):
                    found = client.search(spec.name, QUESTION["query"], mode="dense", limit=20, **options).to_dict()
                    said[f"{groups} {spec.name} search {options}"] = _without_times(found)
                for unit in units:
                    said[f"{groups} {spec.name} unit {unit}"] = _unit(client, spec.name, unit)
    return said


def _unit(client: CorpusClient, collection: str, unit: str) -> Any:
    try:
        near = client.neighbours(unit, collection=collection, before=9, after=9)
        return client.get_unit(unit, collection=collection).to_dict(), [hit.to_dict() for hit in near]
    except CorpusError as error:
        return f"{error.code}: {error}"


def _without_times(found: dict[str, Any]) -> dict[str, Any]:
    trace = {
        name: value for name, value in found["trace"].items() if name not in ("stages_ms", "total_ms", "request_id")
    }
    return {**found, "trace": trace, "request_id": "", "total_ms": 0}


def recorded(uri: str, held: int, *sources: str) -> None:
    """Makes the corpus record a run as the ingestion does: over all rows, whoever may see them."""
    settings = Settings(milvus_uri=uri)
    run = {
        "mode": "incremental", "outcome": "published", "started_at": "2025-03-01", "finished_at": "2025-03-02",
        "rows": {"rows_held": held}, "areas": dict.fromkeys(sources, held), "orphans": list(sources),
        "documents": {source: {"held": held} for source in sources},
    }  # fmt: skip
    client = connect(settings)
    heads = {f"{HEAD_PREFIX}{source}": "0" * 40 for source in ("site", *sources)}
    for spec in COLLECTIONS:
        set_properties(client, physical_name(spec.alias, 1), {RUN_KEY: json.dumps(run), **heads})
    disconnect(client, settings)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Told:
    uri = str(tmp_path_factory.mktemp("shared") / "corpus.db")
    fill(uri, with_rows_of("team-b", HIDDEN))
    recorded(uri, 1_000, "manual-team-b")
    return told(uri)


@pytest.fixture(scope="module")
def never(tmp_path_factory: pytest.TempPathFactory) -> Told:
    uri = str(tmp_path_factory.mktemp("never") / "corpus.db")
    fill(uri, public())
    recorded(uri, 10)
    return told(uri)


@pytest.mark.parametrize("caller", CALLERS)
def test_describes_its_tools_by_public_rows_only(shared: Told, never: Told, caller: str) -> None:
    assert shared.tools[caller] == never.tools[caller]
    assert "Known values: CustomResourceDefinition" in json.dumps(shared.tools[caller])


def test_counts_and_names_public_rows_only_in_the_status(shared: Told, never: Told) -> None:
    assert shared.status == never.status
    (docs, *_) = shared.status
    assert docs["documents"] == {"site": 13} and docs["rows"] == 14 and docs["newest_data"] == "2025-03-01T00:00:00Z"
    assert docs["last_run"]["outcome"] == "published" and docs["sources"]["site"]["head"]


@pytest.mark.parametrize("caller", ["nobody", "another group"])
def test_answers_as_a_corpus_that_never_held_the_rows(shared: Told, never: Told, caller: str) -> None:
    def comparable(answers: list[tuple[str, Any]]) -> list[Any]:
        # Words are weighed by how many rows hold them, all rows of the collection: scores and what they let in differ.
        return [(data["notes"], data["facets"].keys(), data["intent"]["mode"]) for _, data in answers]

    assert comparable(shared.answers[caller]) == comparable(never.answers[caller])
    assert "team-b" not in json.dumps(shared.answers[caller])
    assert "team-b" in json.dumps(shared.answers["everything"])


def test_the_library_says_to_groups_what_it_says_of_a_corpus_without_the_rows_of_others(
    shared: Told, never: Told
) -> None:
    differing = {name: (said, never.library[name]) for name, said in shared.library.items()
                 if said != never.library[name]}  # fmt: skip

    assert not differing and shared.library.keys() == never.library.keys()
    assert any("search" in name and said["hits"] for name, said in shared.library.items() if "search" in name)
