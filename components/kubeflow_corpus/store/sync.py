"""A collection brought up to date in one process: the order of plan, embed, apply and publish in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubeflow_corpus.collections import CollectionSpec
from kubeflow_corpus.records import GateReport
from kubeflow_corpus.store.apply import apply_plan
from kubeflow_corpus.store.plan import SHARD_FOLDER, Plan, SourceResult, plan_sync
from kubeflow_corpus.store.publish import publish
from kubeflow_corpus.store.record import RunRecord
from kubeflow_corpus.tokens import TokenCounter

if TYPE_CHECKING:
    from pymilvus import MilvusClient

# Reads the texts of a shard from one file and writes their vectors to another.
EmbedShard = Callable[[Path, Path], Any]


def embed_plan(plan: Plan, workdir: Path, embed: EmbedShard) -> list[Path]:
    """Embeds the shards of a plan, and returns the files of their vectors."""
    files = []
    for name in plan.shards:
        files.append(workdir / f"{name}.parquet")
        embed(workdir / SHARD_FOLDER / name, files[-1])
    return files


def sync_collection(
    client: MilvusClient,
    spec: CollectionSpec,
    results: Sequence[SourceResult],
    embed: EmbedShard,
    workdir: Path,
    *,
    counter: TokenCounter,
    embedded: bool = False,
    gates: Sequence[GateReport] = (),
    **plan_options: Any,
) -> RunRecord:
    """Brings a collection up to date with the rows of its sources, and serves it.

    Args:
        client: The connection.
        spec: The collection.
        results: The sources with their rows.
        embed: Embeds one shard.
        workdir: Scratch space on disk.
        counter: Counts tokens as the model does.
        embedded: Whether the database is a ``.db`` path.
        gates: Reports of an evaluation.
        plan_options: Further keywords of `plan_sync`.

    Raises:
        CorpusError: As `plan_sync`, `apply_plan` and `publish`.
    """
    plan = plan_sync(client, spec, results, counter=counter, workdir=workdir, **plan_options)
    vectors = embed_plan(plan, workdir, embed)
    record = apply_plan(client, plan, results, vectors, workdir, embedded=embedded, counter=counter)
    return publish(client, plan, record, gates, embedded=embedded)
