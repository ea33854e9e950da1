"""A project with three products and words of its own: indexed, filtered, routed and answered without Kubeflow's."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.errors import CatalogueError, EvaluationError, InvalidArgument
from kubeflow_corpus.evaluation.questions import load_questions
from kubeflow_corpus.ingest.options import RunOptions
from kubeflow_corpus.ingest.results import RowInputs, StepResult
from kubeflow_corpus.ingest.sources import resolve_revision
from kubeflow_corpus.ingest.step import fresh_folder, write_result
from kubeflow_corpus.mcp_server.assembly import StatusReader, known_values, served_vocabulary
from kubeflow_corpus.mcp_server.server import build_server
from kubeflow_corpus.mcp_server.service import Service
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.model import ModelIdentity, make_recipe
from kubeflow_corpus.query.client import AsyncCorpusClient, CorpusClient
from kubeflow_corpus.query.intent import read
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.sources.catalogue import load_catalogue
from mcp import Client

from tests.query.corpus import MODEL
from tests.retrieval.samples import environment, run

VOCABULARY = r"""project: Windmill
products:
  - name: sails
    asked: ['\bsails?\b', 'sail ?cloths?']
    listed: ['\bsails\b']
  - name: millstone
    asked: ['\bmillstones?\b', '\bquerns?\b']
    listed: ['\bmillstone\b']
  - name: granary
    asked: ['\bgranar(?:y|ies)\b']
latest: [sails]
concepts: [windmill]
releases: [windmill]
shortcodes:
  gust: '**Gust:** {speed|any} knots.'
own_crd_fields: [grain]
"""
CATALOGUE = """vocabulary: words/vocabulary.yaml
sources:
  - name: handbook
    type: docs
    repo: mills/handbook
    url: handbook
    product_area:
      content/sails/**: sails
      content/millstone/**: millstone
      "**": granary
    site: {generator: hugo, root: content, base_url: "https://mills.example/"}
  - {name: works, type: code, repo: mills/works, url: works, product_area: millstone}
"""
FILES = {
    "handbook/content/sails/reefing.md": """---
title: Reefing
---
Shorten a sail before the wind gets strong: a reefed sail turns the mill more slowly.

{{< gust speed="30" >}}

## How to reef

Stop the mill, untie the cloth and roll it around the frame of each sail.
""",
    "handbook/content/millstone/dressing.md": "---\ntitle: Dressing\n---\n"
    "A millstone is dressed when flour comes out warm.\n",
    "handbook/content/releases/notes-2.1.md": "---\ntitle: Windmill 2.1\n---\n\n| Part | Version |\n|---|---|\n"
    "| Sails | 2.1 |\n| Millstone | 1.4 |\n\nReleased on 2025-03-31.\n",
    "works/millstone.go": "package works\n\n"
    "// DefaultGap is the distance between the stones in millimetres.\nconst DefaultGap = 3\n",
}
KUBEFLOW = re.compile(r"kubeflow(?!_(?:docs|corpus|code)|-corpus)|katib|kserve|\bkfp\b|InferenceService|trainer", re.I)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("windmill")
    for path, text in {"words/vocabulary.yaml": VOCABULARY, "catalogue.yaml": CATALOGUE, **FILES}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture(scope="module")
def uri(project: Path) -> Iterator[str]:
    uri = str(project / "corpus.db")
    with environment(uri, project / "cache"):
        for collection in ("docs", "code"):
            outcome = run(collection, project / "run", catalogue=project / "catalogue.yaml")
            assert outcome.ok, outcome.error
        yield uri


@pytest.fixture(scope="module")
def client(uri: str) -> Iterator[CorpusClient]:
    with CorpusClient(milvus_uri=uri, embeddings=MODEL, timeout=60) as client:
        yield client


def test_the_collection_records_the_words_that_its_rows_were_cut_with(client: CorpusClient, project: Path) -> None:
    assert client.vocabulary("kubeflow_docs") == load_catalogue(project / "catalogue.yaml").vocabulary
    assert client.vocabulary("code_rag").project == "Windmill"


def test_questions_are_routed_and_rows_are_found_by_the_words_of_the_project(client: CorpusClient) -> None:
    words = client.vocabulary("kubeflow_docs")

    assert read("what are the sail cloths made of", words).areas == ("sails",)
    assert read("what is katib", words).areas == ()
    assert read("latest sails", words).intent == "temporal"
    result = client.search_docs("how do I reef a sail?", infer_filters=True)
    assert result.hits[0].file_path == "content/sails/reefing.md"
    assert result.hits[0].product_area == ("sails",)
    assert "Gust: 30 knots." in "\n".join(hit.content_text for hit in result.hits)
    assert client.search_code("DefaultGap").hits[0].file_path == "millstone.go"


def test_a_release_page_lists_the_products_of_the_project(client: CorpusClient) -> None:
    (hit,) = client.search_docs("Windmill 2.1", doc_type="release_notes").hits

    assert set(hit.product_area) == {"granary", "sails", "millstone"}


def test_filters_take_the_products_of_the_project_and_name_them(client: CorpusClient) -> None:
    found = client.search_docs("warm flour", product_area="Millstone", mode="bm25").hits
    assert {hit.file_path for hit in found} <= {"content/millstone/dressing.md", "content/releases/notes-2.1.md"}
    assert found
    with pytest.raises(InvalidArgument, match="sails, millstone, granary"):
        client.search_docs("warm flour", product_area="katib")


def test_tools_and_answers_have_no_word_of_kubeflow(uri: str) -> None:
    async def everything() -> list[Any]:
        async with AsyncCorpusClient(milvus_uri=uri, embeddings=MODEL, timeout=60) as corpus:
            words = await served_vocabulary(corpus)
            service = Service(corpus, ServerSettings(), await known_values(corpus), vocabulary=words)
            async with Client(build_server(service, StatusReader(Settings(milvus_uri=uri)))) as client:
                prompt = await client.get_prompt("citation_contract")
                said = [service.list_tools(), client.instructions, prompt.messages]
                for tool in ("search_kubeflow_docs", "search_kubeflow_code"):
                    said.append(await client.call_tool(tool, {"query": "what is a millstone?"}))
                    said.append(await client.call_tool(tool, {"query": "latest sails", "product_area": "sials"}))
                return said

    said = "\n".join(map(str, asyncio.run(everything())))

    assert "Search Windmill documentation" in said
    assert "Searches over Windmill" in said
    assert "dressed when flour" in said
    assert "There is no product_area 'sials'" in said
    assert [match.group() for match in KUBEFLOW.finditer(said)] == []


def test_a_misspelt_product_is_refused_with_file_and_line(project: Path, tmp_path: Path) -> None:
    file = project / "wrong.yaml"
    file.write_text(CATALOGUE.replace("content/millstone/**: millstone", "content/millstone/**: milstone"))
    with pytest.raises(CatalogueError, match=r"wrong\.yaml:9: .*'milstone'.*Did you mean millstone"):
        load_catalogue(file)

    questions = tmp_path / "questions.jsonl"
    asked = {"id": "1", "query": "?", "tool": "docs", "kind": "howto", "expected": ["a/b:c"], "product_area": "katib"}
    questions.write_text(json.dumps(asked) + "\n")
    with pytest.raises(EvaluationError, match=r"questions\.jsonl:1: .*sails, millstone, granary"):
        load_questions(questions, load_catalogue(project / "catalogue.yaml").vocabulary)


def test_changed_words_cut_the_sources_again(project: Path, tmp_path: Path) -> None:
    (project / "words" / "more.yaml").write_text(VOCABULARY + "bots: [miller]\n")
    (project / "more.yaml").write_text(CATALOGUE.replace("vocabulary.yaml", "more.yaml"))

    def made_of(catalogue: str) -> RowInputs:
        recipe = make_recipe(ModelIdentity("none", "1", 384, 256))
        options = RunOptions(catalogue=str(project / catalogue))
        state = StepResult(collection="docs", step="read_state", options=options, recipe=recipe)
        write_result(fresh_folder(str(tmp_path / "state")), state)
        return resolve_revision("handbook", str(tmp_path / "state")).made_of

    assert made_of("catalogue.yaml") == made_of("catalogue.yaml")
    assert made_of("more.yaml") != made_of("catalogue.yaml")
