"""What a run will do to a collection: which documents changed, which texts need a vector, what would be deleted.

A plan reads and writes nothing in Milvus, so that a dry run is a plan that is printed. `apply` compares again under its
lease: the plan decides the kind of run and lists the texts to embed, it is not a list of commands that can go stale.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.artifacts import write_jsonl
from kubeflow_corpus.collections import CollectionSpec, find_collection
from kubeflow_corpus.model import Recipe
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.compare import check_guard, compare
from kubeflow_corpus.store.context import MAX_DELETED_SHARE, Mode, RunContext, SourceResult, resolve
from kubeflow_corpus.store.ledger import Ledger
from kubeflow_corpus.store.schema import served_name
from kubeflow_corpus.store.versions import list_versions
from kubeflow_corpus.store.wanted import wanted_rows

if TYPE_CHECKING:
    from pymilvus import MilvusClient

    from kubeflow_corpus.tokens import TokenCounter

__all__ = ["SHARD_FOLDER", "SHARD_TEXTS", "Mode", "Plan", "SourceResult", "plan_sync", "resume_cursor"]

# Texts of one shard: a pod's worth of embedding.
SHARD_TEXTS: Final = 2_000
SHARD_FOLDER: Final = "shards"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do.

    Attributes:
        run: Id of the run; its lease is under this name.
        alias: That of its `CollectionSpec`.
        prefix: The environment's prefix.
        mode: Kind of run.
        live: Physical name of the version that is served, or "".
        target: Physical name of the version that is written, or "" where it does not exist yet.
        recipe: What the rows are made with.
        documents: By source, the number of documents that are added, changed, unchanged, deleted, and stored now.
        rows: ``rows_wanted``, ``rows_to_write``, ``rows_to_delete``.
        reasons: Why it is a rebuild.
        to_embed: Texts for which no stored row has a vector.
        reused: Texts whose vector is taken from stored rows.
        shards: Files below `SHARD_FOLDER` with the texts to embed; at least one, which may be empty.
        guard: One line for each source of which too many documents would be deleted.
        uncovered: Sources that are served and that a rebuild would lose, because this run does not read all of them.
        orphans: Sources that are stored and that the catalogue no longer lists.
        catalogue_sources: Every source of the collection in the catalogue; None where the run covers only some.
        allow_deletions: Sources of which any number of documents may be deleted.
        max_deleted_share: Where the guard stops the run.
        settled: Fingerprints by source, where the served version is known to hold exactly the rows of these sources,
            so that nothing was compared; empty where it was.
    """

    run: str
    alias: str
    prefix: str
    mode: Mode
    live: str
    target: str
    recipe: Recipe
    documents: Mapping[str, Mapping[str, int]]
    rows: Mapping[str, int]
    reasons: tuple[str, ...] = ()
    to_embed: int = 0
    reused: int = 0
    shards: tuple[str, ...] = ()
    guard: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    catalogue_sources: tuple[str, ...] | None = None
    allow_deletions: tuple[str, ...] = ()
    max_deleted_share: float = MAX_DELETED_SHARE
    settled: Mapping[str, str] = field(default_factory=dict)

    @property
    def spec(self) -> CollectionSpec:
        """The collection."""
        return find_collection(self.alias)

    @property
    def served(self) -> str:
        """The alias as Milvus knows it."""
        return served_name(self.prefix, self.alias)

    def total(self, state: str) -> int:
        """Returns the number of documents in a state, over all sources."""
        return sum(counts.get(state, 0) for counts in self.documents.values())

    def check_guard(self) -> None:
        """Stops a run that would delete too much.

        Raises:
            DeletionGuard: A source would lose more documents than it may.
        """
        check_guard(self.served, self.guard)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Reads what `to_dict` wrote."""
        names = ("reasons", "shards", "guard", "uncovered", "orphans", "allow_deletions", "catalogue_sources")
        texts = {name: tuple(data[name]) for name in names if data[name] is not None}
        return cls(**{**data, **texts, "recipe": Recipe.from_dict(data["recipe"])})


def plan_sync(
    client: MilvusClient,
    spec: CollectionSpec,
    results: Sequence[SourceResult],
    *,
    prefix: str = "",
    recipe: Recipe,
    counter: TokenCounter | None = None,
    workdir: Path,
    mode: Mode = "incremental",
    catalogue_sources: Collection[str] | None = None,
    allow_deletions: Collection[str] = (),
    max_deleted_share: float = MAX_DELETED_SHARE,
    shard_texts: int = SHARD_TEXTS,
    run: str = "",
) -> Plan:
    """Compares what the sources gave with what is stored.

    Args:
        client: The connection.
        spec: The collection.
        results: What the earlier steps got, one result per source.
        prefix: The environment's prefix.
        recipe: What the chunks were made with.
        counter: Counts the tokens of rows written by people, which a new version needs to be embedded again.
        workdir: Where the shards (below `SHARD_FOLDER`) and scratch files go.
        mode: ``rebuild`` asks for a new version; ``incremental`` becomes one where it must.
        catalogue_sources: Every source of this collection in the catalogue; None where the run covers only some, so
            that it leaves the other stored sources alone.
        allow_deletions: Sources of which any number of documents may be deleted; a source that left the catalogue
            is deleted only when it is named here.
        max_deleted_share: Above this share of a source's documents the guard stops the run.
        shard_texts: Texts of one shard.
        run: Id of the run; made up where it is empty.

    Raises:
        StoreError: Milvus failed.
        ArtifactError: A chunk file is damaged.
    """
    served = served_name(prefix, spec.alias)
    resolution = resolve(client, spec, recipe, list_versions(client, served), mode)
    context = RunContext(
        client,
        spec,
        served,
        recipe,
        tuple(results),
        resolution,
        counter,
        catalogue_sources,
        allow_deletions,
        max_deleted_share,
    )
    with Ledger(workdir / "plan", recipe.identity.dimension) as ledger:
        found = compare(context, ledger)
        missing = ledger.missing_texts()
        shards = _write_shards(workdir / SHARD_FOLDER, context, missing, shard_texts)
    return Plan(
        run=run or uuid.uuid4().hex,
        alias=spec.alias,
        prefix=prefix,
        mode=resolution.mode,
        live=resolution.live_name,
        target=resolution.target.name if resolution.target else "",
        recipe=recipe,
        documents=found.documents,
        rows={name: found.counts[name] for name in ("rows_wanted", "rows_to_write", "rows_to_delete")},
        reasons=resolution.reasons,
        to_embed=len(missing),
        reused=found.counts["texts"] - len(missing),
        shards=shards,
        guard=found.guard,
        uncovered=found.uncovered,
        orphans=found.orphans,
        catalogue_sources=None if catalogue_sources is None else tuple(sorted(catalogue_sources)),
        allow_deletions=tuple(sorted(allow_deletions)),
        max_deleted_share=max_deleted_share,
    )


def resume_cursor(
    client: MilvusClient,
    spec: CollectionSpec,
    source: str,
    *,
    prefix: str = "",
    recipe: Recipe,
    mode: Mode = "incremental",
) -> str:
    """Returns where the fetch of a source goes on: "" for the beginning.

    An incremental run goes on after the live version, a rebuild after its own unfinished candidate, where there is
    one: the cursor of one version says nothing about the rows of another.

    Args:
        client: The connection.
        spec: The collection.
        source: Name of the catalogue entry.
        prefix: The environment's prefix.
        recipe: What the rows of this run are made with.
        mode: What was asked for.
    """
    versions = list_versions(client, served_name(prefix, spec.alias))
    target = resolve(client, spec, recipe, versions, mode).target
    return target.prefixed(schema.CURSOR_PREFIX).get(source, "") if target else ""


def _write_shards(folder: Path, context: RunContext, missing: set[str], shard_texts: int) -> tuple[str, ...]:
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.iterdir():
        leftover.unlink()
    texts = _missing_texts(context, set(missing))
    # KFP's ParallelFor fails over an empty list, so there is always one shard.
    count = max(1, math.ceil(len(missing) / shard_texts))
    names = []
    for number in range(count):
        names.append(f"texts-{number:04d}.jsonl.zst")
        write_jsonl(folder / names[-1], (text for _, text in zip(range(shard_texts), texts, strict=False)))
    return tuple(names)


def _missing_texts(context: RunContext, missing: set[str]) -> Iterator[dict[str, str]]:
    if not missing:
        return
    for wanted in wanted_rows(context):
        text_hash = wanted.row["embedding_hash"]
        if text_hash in missing:
            missing.discard(text_hash)
            yield {"embedding_hash": text_hash, "embedding_text": wanted.embedding_text}
