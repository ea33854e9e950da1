"""A small made-up corpus, an embedder that needs no model, and one whole run of a collection."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from kubeflow_corpus.artifacts import read_jsonl, write_jsonl, write_vectors
from kubeflow_corpus.chunking.compose import Budget, search_text
from kubeflow_corpus.collections import DOCS, CollectionSpec
from kubeflow_corpus.model import ModelIdentity, Recipe
from kubeflow_corpus.records import Chunk, GateReport, seal
from kubeflow_corpus.store.apply import RunRecord, apply_plan
from kubeflow_corpus.store.plan import Mode, Plan, SourceResult, plan_sync
from kubeflow_corpus.store.publish import publish
from kubeflow_corpus.store.rows import scan
from kubeflow_corpus.store.sync import embed_plan, sync_collection
from kubeflow_corpus.tokens import ApproximateCounter
from numpy.typing import NDArray

DIMENSION = 8
MODEL = ModelIdentity("tests/hash-vectors", "r1", DIMENSION, 256)
OTHER_MODEL = ModelIdentity("tests/other-vectors", "r1", DIMENSION, 256)
BUDGET = Budget(ApproximateCounter(), 256)


@dataclass
class HashEmbedder:
    """Unit vectors that depend on the text alone, so that equal texts have equal vectors."""

    identity: ModelIdentity = MODEL
    embedded: int = 0

    def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> NDArray[np.float32]:
        self.embedded += len(texts)
        if not texts:
            return np.zeros((0, self.identity.dimension), dtype=np.float32)
        return np.stack([unit_vector(text, self.identity) for text in texts])

    def close(self) -> None:
        pass


def unit_vector(text: str, identity: ModelIdentity = MODEL) -> NDArray[np.float32]:
    digest = hashlib.sha256(f"{identity.model}\0{text}".encode()).digest()
    values = np.random.default_rng(int.from_bytes(digest[:8], "big")).standard_normal(identity.dimension)
    return (values / np.linalg.norm(values)).astype(np.float32)


def page(source: str, name: str, sections: Iterable[str], *, revision: str = "c1", **changes: Any) -> list[Chunk]:
    """The rows of one documentation page: a section is a row."""
    title = changes.pop("title", f"Page {name}")
    document_id = f"{source}:{name}"
    chunks = []
    for number, text in enumerate(sections):
        heading = text.split(":")[0]
        chunks.append(
            Chunk(
                document_id=document_id,
                unit_id=f"{document_id}#{number}",
                view="",
                chunk_index=0,
                start_line=number * 10 + 1,
                end_line=number * 10 + 9,
                title=title,
                section_path=heading,
                content_text=text,
                search_text=search_text(title, heading, text),
                embedding_text=f"{title} > {heading}\n{text}",
                citation_url=f"https://example.org/{revision}/{name}#{number}",
                file_path=name,
                repo="example/docs",
                source=source,
                source_type="docs",
                product_area=("pipelines",),
                version=("1.9",),
                revision=revision,
                updated_at="2026-01-02T03:04:05Z",
                fields={"doc_type": "docs", "release_date": ""},
            )
        )
    return list(seal(replace(chunk, **changes) for chunk in chunks))


def corpus(source: str, pages: int, *, sections: int = 3, revision: str = "c1", edit: str = "") -> list[list[Chunk]]:
    """Pages that differ from each other; `edit` is appended to the second section of the first page."""
    made = []
    for number in range(pages):
        texts = [f"Part {part}: text {part} of page {number} in {source}" for part in range(sections)]
        if number == 0 and edit:
            texts[1] += edit
        made.append(page(source, f"docs/page-{number:05d}.md", texts, revision=revision))
    return made


def result(folder: Path, source: str, pages: Iterable[list[Chunk]], **values: Any) -> SourceResult:
    """What the steps before pass on for a source."""
    path = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:8]}.jsonl.zst"
    write_jsonl(path, (chunk.to_dict() for chunks in pages for chunk in chunks))
    return SourceResult(source, chunks=path, **{"revision": "c1", **values})


@dataclass
class Run:
    """One run of a collection, step by step or all at once."""

    client: Any
    workdir: Path
    results: list[SourceResult]
    embedder: HashEmbedder = field(default_factory=HashEmbedder)
    spec: CollectionSpec = DOCS
    mode: Mode = "incremental"
    chunker_version: str = "1"
    schema_version: str = "1"
    prefix: str = ""
    embedded: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def plan_options(self) -> dict[str, Any]:
        recipe = Recipe(self.embedder.identity, BUDGET.tokens, self.chunker_version, self.schema_version)
        return {"prefix": self.prefix, "recipe": recipe, "mode": self.mode, **self.options}

    def plan(self) -> Plan:
        return plan_sync(
            self.client, self.spec, self.results, counter=BUDGET.counter, workdir=self.workdir, **self.plan_options
        )

    def embed(self, plan: Plan) -> list[Path]:
        return embed_plan(plan, self.workdir, self._embed_shard)

    def _embed_shard(self, texts: Path, vectors: Path) -> None:
        rows = list(read_jsonl(texts))
        hashes = [row["embedding_hash"] for row in rows]
        embedded = self.embedder.embed([row["embedding_text"] for row in rows])
        write_vectors(vectors, [(hashes, embedded)], self.embedder.identity.dimension)

    def apply(self, plan: Plan, files: list[Path]) -> RunRecord:
        return apply_plan(
            self.client, plan, self.results, files, self.workdir, embedded=self.embedded, counter=BUDGET.counter
        )

    def publish(self, plan: Plan, record: RunRecord, gates: Sequence[GateReport] = ()) -> RunRecord:
        return publish(self.client, plan, record, gates, embedded=self.embedded)

    def all(self, gates: Sequence[GateReport] = ()) -> RunRecord:
        return sync_collection(
            self.client,
            self.spec,
            self.results,
            self._embed_shard,
            self.workdir,
            counter=BUDGET.counter,
            embedded=self.embedded,
            gates=gates,
            **self.plan_options,
        )


def rows_of(client: Any, name: str, spec: CollectionSpec = DOCS) -> dict[str, dict[str, Any]]:
    """Every stored field of every row, vectors included, by key."""
    fields = [*(field.name for field in spec.fields), "vector"]
    return {row["id"]: {**row, "vector": tuple(row["vector"])} for page in scan(client, name, fields) for row in page}
