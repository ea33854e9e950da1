"""What the server tells everybody: tool descriptions and the status are those of a corpus without any group's rows."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from kubeflow_corpus.collections import COLLECTIONS
from kubeflow_corpus.mcp_server.assembly import StatusReader, known_values
from kubeflow_corpus.mcp_server.server import STATUS_URI, build_server
from kubeflow_corpus.mcp_server.service import Caller, Service
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.mcp_server.tools.search import SEARCH_TOOLS
from kubeflow_corpus.milvus import connect, disconnect
from kubeflow_corpus.query.client import AsyncCorpusClient
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
            return Told(listed, status, answers)

    return asyncio.run(scenario())


async def answer(service: Service, tool: str, caller: Caller) -> tuple[str, Any]:
    result = await service.call(tool, QUESTION, caller)
    return text_of(result), result.structured_content


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
