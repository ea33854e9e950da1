"""No address in any text that a model reads: 500 questions over the real documentation, through the official client.

Every page of both sites is cut by the real chunker, and every unit goes through the evidence. The 500 questions are
asked of a real database that holds a share of the pages, because searches over all of them take Milvus Lite minutes;
NO_LINKS_EVERY=1 makes it all of them, and NO_LINKS_MODEL=1 the embedded model instead of vectors of hashed words, which
decide only which texts come. The questions are taken from all pages (headings, identifiers, lines of code, lines that
hold an address), so that answers with many addresses are asked for.
"""

from __future__ import annotations

import asyncio
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from kubeflow_corpus.chunking.docs.markdown import chunk
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.embedding.embedded import EmbeddedModel
from kubeflow_corpus.embedding.embedder import Embedder
from kubeflow_corpus.mcp_server.assembly import StatusReader
from kubeflow_corpus.mcp_server.server import build_server
from kubeflow_corpus.mcp_server.service import Service
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.mcp_server.tools.schemas import answer_schema
from kubeflow_corpus.milvus import connect, detect_backend, disconnect
from kubeflow_corpus.model import ModelIdentity, Recipe
from kubeflow_corpus.query.client import AsyncCorpusClient
from kubeflow_corpus.query.evidence import EvidenceBuilder
from kubeflow_corpus.query.hit import Hit
from kubeflow_corpus.query.links import strip_links
from kubeflow_corpus.query.resolve import resolve
from kubeflow_corpus.query.tuning import DEFAULT_TUNING
from kubeflow_corpus.records import Chunk
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.rows import to_row
from kubeflow_corpus.store.schema import physical_name
from kubeflow_corpus.store.versions import create_version, move_alias
from kubeflow_corpus.tokens import ApproximateCounter
from mcp import Client
from numpy.typing import NDArray

from tests.chunking.doc_samples import budget, needs_real_pages, real_pages
from tests.mcp_server.harness import text_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), needs_real_pages]

QUESTIONS = 500
EVERY = int(os.environ.get("NO_LINKS_EVERY", "8"))
REAL_MODEL = bool(os.environ.get("NO_LINKS_MODEL"))
DIMENSION = 16
# Short lists: Milvus Lite takes most of its time for rows that are ranked and not shown.
TUNING = replace(
    DEFAULT_TUNING, policies={name: replace(policy, pool=15) for name, policy in DEFAULT_TUNING.policies.items()}
)

# Apart from the detector of the contract: what a reader or a renderer would take for an address.
ADDRESS = re.compile(r"\b(?:https?|s?ftps?|wss?)://|\bmailto:\s*\S+@|\bwww\d?\.\w", re.IGNORECASE)
TARGET = re.compile(
    r"\]\(\s*<?\s*(?:[a-z][a-z0-9+.-]*:|//|/|\.{1,2}/|#|www\.)|^\s*\[[^\]\n]+\]:\s*\S*//", re.IGNORECASE | re.MULTILINE
)
TAG = re.compile(r"<(?:a|area|base|link|img|iframe|script)\b[^>]*\b(?:href|src)\s*=", re.IGNORECASE)
LABEL = re.compile(r"^\[(c\d+)\] ", re.MULTILINE)


class HashedWords:
    """Vectors at no cost, alike where texts share words."""

    identity = ModelIdentity("tests/hashed-words", "1", DIMENSION, 256)

    def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> NDArray[np.float32]:
        counts = np.full((len(texts), DIMENSION), 1e-3, np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.lower()):
                counts[row, zlib.crc32(word.encode()) % DIMENSION] += 1
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)

    def close(self) -> None: ...


@pytest.fixture(scope="module")
def pages() -> list[tuple[Chunk, ...]]:
    return [chunk(page, budget()).chunks for page in real_pages()]


@pytest.fixture(scope="module")
def rows(pages: list[tuple[Chunk, ...]]) -> list[Chunk]:
    return [row for page in pages[::EVERY] for row in page]


@pytest.fixture(scope="module")
def model() -> Iterator[Embedder]:
    made: Embedder = EmbeddedModel() if REAL_MODEL else HashedWords()
    yield made
    made.close()


@pytest.fixture(scope="module")
def served(rows: list[Chunk], model: Embedder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    settings = Settings(milvus_uri=str(tmp_path_factory.mktemp("links") / "corpus.db"))
    client = connect(settings)
    recipe = Recipe(model.identity, 256)
    version = create_version(client, DOCS, DOCS.alias, detect_backend(client), recipe, {})
    assert version.name == physical_name(DOCS.alias, 1)
    for start in range(0, len(rows), 500):
        batch = rows[start : start + 500]
        vectors = model.embed([row.embedding_text for row in batch])
        client.upsert(
            version.name,
            [{**to_row(DOCS, row), "vector": vector} for row, vector in zip(batch, vectors, strict=True)],
        )
    client.flush(version.name)
    move_alias(client, DOCS.alias, version.name, "")
    yield settings
    disconnect(client, settings)


def questions() -> list[str]:
    """Returns `QUESTIONS` questions of four kinds in turns, spread evenly over all pages."""
    kinds: tuple[dict[str, None], ...] = ({}, {}, {}, {})
    headings, identifiers, code, addresses = kinds
    for page in real_pages():
        fenced = False
        for line in page.text.split("\n"):
            text = line.strip()[:300]
            if text.startswith(("```", "~~~")):
                fenced = not fenced
            elif fenced:
                code.setdefault(text) if len(text) > 15 else None
            elif text.startswith("#"):
                headings.setdefault(text.lstrip("# "))
            elif "://" in text or "](" in text or "www." in text:
                addresses.setdefault(text)
            identifiers.update(dict.fromkeys(re.findall(r"`([\w./-]{6,60})`", text)))
    each = QUESTIONS // len(kinds)
    picked = [[*kind][:: max(1, len(kind) // each)][:each] for kind in kinds]
    assert all(len(kind) == each for kind in picked)
    return [question for group in zip(*picked, strict=True) for question in group]


def answers(settings: Settings, model: Embedder, asked: Sequence[str]) -> list[Any]:
    async def scenario() -> list[Any]:
        async with AsyncCorpusClient(settings=settings, embeddings=model, timeout=60, tuning=TUNING) as corpus:
            server = build_server(Service(corpus, ServerSettings()), StatusReader(settings))
            async with Client(server) as client:
                return [await client.call_tool("search_kubeflow_docs", {"query": question}) for question in asked]

    return asyncio.run(scenario())


def addresses_in(text: str) -> list[str]:
    """Returns what one of the two detectors takes for an address, with what stands around it."""
    found = [pattern.search(text) for pattern in (ADDRESS, TARGET, TAG)]
    return [text[max(0, hit.start() - 60) : hit.end() + 60] for hit in found if hit] + [*strip_links(text).links]


def commands_in(text: str) -> list[str]:
    """Returns the lines of code blocks that hold an address, without the blanks around them."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if mark and (not fence or mark.group(1).startswith(fence)):
            fence = "" if fence else mark.group(1)
        elif fence and ADDRESS.search(line):
            lines.append(line.strip())
    return lines


def test_every_command_of_any_page_comes_back_as_the_page_has_it(pages: list[tuple[Chunk, ...]]) -> None:
    builder = EvidenceBuilder(counter=ApproximateCounter(), unit_tokens=100_000)
    own = tuple(field.name for field in DOCS.own_fields)
    wrong: list[str] = []
    commands = 0
    for page in filter(None, pages):
        hits = [Hit.of([to_row(DOCS, row)], own, score=1.0, mode="bm25", matched=()) for row in page]
        block = builder.build(hits, 1_000_000)
        resolved = resolve(block.text, block)
        shown = {line.strip() for line in resolved.text.split("\n")}
        asked = [line for hit in hits for line in commands_in(hit.content_text)]
        commands += len(asked)
        wrong += [f"{page[0].document_id}: {line}" for line in asked if line not in shown]
        wrong += [f"{page[0].document_id}: {removed} removed" for removed in resolved.removed]

    assert wrong == []
    assert commands > 300


def test_no_unit_of_any_page_brings_an_address_into_the_evidence(pages: list[tuple[Chunk, ...]]) -> None:
    builder = EvidenceBuilder(counter=ApproximateCounter(), unit_tokens=100_000)
    wrong: list[str] = []
    links = 0
    for page in filter(None, pages):
        units: dict[str, list[dict[str, Any]]] = {}
        for row in page:
            units.setdefault(row.unit_id, []).append(to_row(DOCS, row))
        own = tuple(field.name for field in DOCS.own_fields)
        hits = [Hit.of(held, own, score=1.0, mode="bm25", matched=()) for held in units.values()]
        block = builder.build(hits, 1_000_000)
        wrong += [f"{page[0].document_id}: {found!r}" for found in addresses_in(block.text)]
        if LABEL.findall(block.text) != [citation["id"] for citation in block.citations]:
            wrong.append(page[0].document_id)
        links += sum(len(citation["links"]) for citation in block.citations)

    assert wrong == []
    assert links > 500


def test_no_answer_of_500_holds_an_address_and_every_label_has_its_citation(
    served: Settings, model: Embedder, rows: list[Chunk]
) -> None:
    asked = questions()
    results = answers(served, model, asked)
    published = Draft202012Validator(answer_schema())

    assert len(asked) == len(results) == QUESTIONS
    wrong: list[str] = []
    seen: set[str] = set()
    links = 0
    for question, result in zip(asked, results, strict=True):
        text = text_of(result)
        citations = result.structured_content["citations"]
        wrong += [f"{question}: {error.message}" for error in published.iter_errors(result.structured_content)]
        wrong += [f"{question}: {found!r}" for found in addresses_in(text)]
        ids, labels = [citation["id"] for citation in citations], LABEL.findall(text)
        # The fragments first; behind them the same labels may stand again, each with its unit.
        if result.is_error or labels[: len(ids)] != ids or labels[len(ids) :] not in ([], ids):
            wrong.append(f"{question}: {text[:200]!r}")
        seen |= {citation["unit_id"] for citation in citations}
        links += sum(len(citation["links"]) for citation in citations)
    assert wrong == []
    # The test sees a good part of what is served, and answers that had addresses.
    assert len(seen) > len({row.unit_id for row in rows}) / 4 and links > QUESTIONS / 4
    print(f"{len(rows)} rows, {len(seen)} units seen, {links} links taken out")
