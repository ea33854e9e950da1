"""A trial: a made-up corpus in a place of its own, and the steps of a run over it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.artifacts import write_jsonl
from kubeflow_corpus.chunking.compose import Budget, compose_row
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.embedding.embedder import StreamingEmbedder
from kubeflow_corpus.embedding.shards import embed_shard
from kubeflow_corpus.milvus import connect, disconnect, store_errors
from kubeflow_corpus.model import make_recipe
from kubeflow_corpus.records import Chunk, Document, seal
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.plan import Mode, SourceResult
from kubeflow_corpus.store.record import RunRecord
from kubeflow_corpus.store.schema import served_name
from kubeflow_corpus.store.sync import sync_collection
from kubeflow_corpus.tokens import wordpiece_counter

if TYPE_CHECKING:
    from pymilvus import MilvusClient

SOURCE: Final = "contract"
_DAY: Final = "2026-01-02T03:04:05Z"

# Page: its sections. The last page has names that break what does not quote them.
PAGES: Final[dict[str, tuple[str, ...]]] = {
    "caching.md": (
        "Caching: A pipeline step with the same inputs is not run again. Call set_caching_options to change that.",
        "Cache key: The key of a cached step is made from its inputs, its code and its image.",
    ),
    "katib.md": (
        "Experiments: Katib tries values of hyperparameters and reports the best trial of an experiment.",
        "Early stopping: A trial that is worse than the median of the others is stopped early.",
    ),
    "notebooks.md": ("Idle culling: A notebook server without activity is stopped after CULL_IDLE_TIME minutes.",),
    'it\'s "quoted" \\ {x} 日本語 🚀.md': ("Awkward: This page is found by its own words, zanzibar and quagga.",),
}
AWKWARD: Final = next(reversed(PAGES))


@dataclass
class Trial:
    """What a promise is tried with.

    Attributes:
        settings: Milvus, with the throw-away database, and the embedding service.
        client: A connection.
        embedder: The embedding service.
        folder: Scratch space.
    """

    settings: Settings
    client: MilvusClient
    embedder: StreamingEmbedder
    folder: Path
    _runs: int = field(default=0, init=False)

    @property
    def served(self) -> str:
        """The alias of the collection."""
        return served_name(self.settings.collection_prefix, DOCS.alias)

    def run(self, pages: dict[str, tuple[str, ...]], mode: Mode = "incremental", revision: str = "c1") -> RunRecord:
        """Runs all steps of a run over some pages."""
        self._runs += 1
        folder = self.folder / f"run-{self._runs}"
        folder.mkdir()
        recipe = make_recipe(self.embedder.identity).with_chunker("contract")
        budget = Budget(wordpiece_counter(), recipe.token_budget)
        chunks = [chunk for name, sections in pages.items() for chunk in page(budget, name, sections, revision)]
        rows = folder / "chunks.jsonl.zst"
        write_jsonl(rows, (chunk.to_dict() for chunk in chunks))
        return sync_collection(
            self.client,
            DOCS,
            [SourceResult(SOURCE, chunks=rows, revision=revision)],
            lambda texts, vectors: embed_shard(texts, vectors, self.embedder),
            folder,
            counter=budget.counter,
            prefix=self.settings.collection_prefix,
            recipe=recipe,
            mode=mode,
            allow_deletions=[SOURCE],
        )

    def rows(self, where: str = 'id != ""', fields: Sequence[str] = ("id",)) -> list[dict[str, Any]]:
        """Returns rows that are served, as everybody sees them who asks after this moment."""
        rows: list[dict[str, Any]] = self.client.query(
            self.served, filter=where, output_fields=list(fields), limit=1000, consistency_level="Strong"
        )
        return rows


def page(budget: Budget, name: str, sections: Sequence[str], revision: str, **changes: Any) -> list[Chunk]:
    """Returns the rows of a page: one row per section."""
    document_id, title = f"{SOURCE}:{name}", name.removesuffix(".md").title()
    metadata = {
        "product_area": ("katib",) if name == "katib.md" else ("pipelines", "notebooks"),
        "version": ("1.9.1", "1.9") if name == "caching.md" else (),
        "updated_at": _DAY,
    }
    document = Document(document_id, SOURCE, "docs", "example/contract", revision, name, "", title, "", metadata)
    chunks = []
    for number, text in enumerate(sections):
        heading = text.split(":")[0]
        header = budget.header(title, heading)
        chunks.append(
            compose_row(
                document,
                title=title,
                content=text,
                embedding_text=budget.embedding_text(header, text)[0],
                citation_url=f"https://example.org/{revision}/{number}",
                fields={"doc_type": "docs", "release_date": ""},
                section_path=heading,
                unit_id=f"{document_id}#{number}",
                lines=(number * 10 + 1, number * 10 + 9),
            )
        )
    return list(seal(replace(chunk, **changes) for chunk in chunks))


@contextmanager
def open_trial(settings: Settings, embedder: StreamingEmbedder, folder: Path) -> Iterator[Trial]:
    """Makes a throw-away database, and drops it at the end with everything in it.

    Raises:
        StoreError: The server does not answer, or its user may not make databases.
    """
    name = f"corpus_contract_{secrets.token_hex(4)}"
    outer = connect(settings)
    with store_errors("The throw-away database"):
        outer.create_database(name)
    own = replace(settings, milvus_database=name, collection_prefix="")
    client = connect(own)
    try:
        yield Trial(own, client, embedder, folder)
    finally:
        # A server refuses to drop what an alias serves.
        for alias in client.list_aliases()["aliases"]:
            client.drop_alias(alias)
        for collection in client.list_collections():
            client.drop_collection(collection)
        client.close()
        outer.drop_database(name)
        disconnect(outer, settings)
