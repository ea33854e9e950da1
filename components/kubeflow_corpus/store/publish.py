"""Serving a version: the gates, the move of the alias, and the pruning of earlier versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kubeflow_corpus.errors import CollectionNotFound, GateFailed
from kubeflow_corpus.milvus import detect_backend
from kubeflow_corpus.records import GateReport
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.gate import check_version
from kubeflow_corpus.store.lease import Lease
from kubeflow_corpus.store.manual import manual_state, sync_manual_rows
from kubeflow_corpus.store.plan import Plan
from kubeflow_corpus.store.record import RunRecord, save_record
from kubeflow_corpus.store.versions import (
    KEPT_VERSIONS,
    Version,
    ensure_loaded,
    live_version,
    move_alias,
    now,
    prune_versions,
)
from kubeflow_corpus.store.writer import Writer

if TYPE_CHECKING:
    from pymilvus import MilvusClient


def publish(
    client: MilvusClient,
    plan: Plan,
    record: RunRecord,
    gates: Sequence[GateReport] = (),
    *,
    embedded: bool = False,
    keep: int = KEPT_VERSIONS,
    wait_seconds: float = 0.0,
    announce: Callable[[str], None] = lambda line: None,
) -> RunRecord:
    """Serves what a run wrote, if the gates pass.

    An incremental run wrote into the version that is served: its gates can only alarm. A rebuild moves the alias.

    Args:
        client: The connection.
        plan: What `plan_sync` returned.
        record: What `apply_plan` returned.
        gates: Reports of the evaluation; the store's own gate is always asked.
        embedded: Whether the database is a ``.db`` path.
        keep: Published versions to keep beside the one that is served.
        wait_seconds: How long to wait for another writer.
        announce: Gets lines that a person may want to see.

    Returns:
        The record with its outcome, as the version's properties hold it.

    Raises:
        GateFailed: A gate failed, or a rebuild lacks a source that is served. The alias stays; a candidate is kept.
        LeaseHeld: Another writer took over.
        StoreError: The alias was moved by another writer, or Milvus failed.
    """
    lease = Lease(client, plan.served, plan.run, embedded=embedded)
    with lease.taken(wait_seconds, announce) as versions:
        target = next((version for version in versions if version.name == record.target), None)
        if target is None:
            raise CollectionNotFound(f"{record.target} is gone", remedy="Run again", collection=record.target)
        rebuilds = record.mode == "rebuild"
        if rebuilds:
            lease.cover(target.name)
        live = live_version(versions)
        gate = _ask_gates(client, plan, record, live, target, gates)
        done = replace(record, outcome="published" if gate["passed"] else "gate failed", gate=gate, finished_at=now())
        if not gate["passed"]:
            save_record(client, target.name, done)
            raise _refusal(record, plan, gate["failures"])
        if rebuilds:
            _serve(client, plan, done, live, target, lease)
            for dropped in prune_versions(client, plan.served, keep):
                announce(f"{plan.served}: dropped {dropped.name}")
        else:
            save_record(client, target.name, done)
        return done


def _ask_gates(
    client: MilvusClient,
    plan: Plan,
    record: RunRecord,
    live: Version | None,
    target: Version,
    gates: Sequence[GateReport],
) -> dict[str, Any]:
    """Returns what all gates say of a version: passed, failures, metrics."""
    own = check_version(
        client,
        target.name,
        live.name if live else "",
        bm25=detect_backend(client).bm25,
        allow_deletions=plan.allow_deletions,
    )
    incomplete = _incomplete(record, live, target) if record.mode == "rebuild" else []
    failures = [*incomplete, *own.failures, *(line for gate in gates for line in _failures(gate))]
    metrics = {**own.metrics, **{name: value for gate in gates for name, value in gate.metrics.items()}}
    return {"passed": not failures, "failures": failures, "metrics": metrics}


def _failures(gate: GateReport) -> tuple[str, ...]:
    return gate.failures or (() if gate.passed else ("the evaluation did not pass",))


def _incomplete(record: RunRecord, live: Version | None, target: Version) -> list[str]:
    """Returns why a version is not complete. A first one may lack a source; one that replaces another may not."""
    lines = [] if target.complete else [f"{target.name} is not complete: its run did not end"]
    if live is None:
        return lines
    failed = [f"source {item['source']} failed in step {item['step']}: {item['error']}" for item in record.failed]
    named = {item["source"] for item in record.failed}
    missing = [
        f"source {source} is served and was not read in full by this run"
        for source in record.uncovered
        if source not in named
    ]
    return [*lines, *failed, *missing]


def _refusal(record: RunRecord, plan: Plan, failures: list[str]) -> GateFailed:
    if record.mode == "rebuild":
        remedy = f"The alias was left alone and {record.target} is kept for inspection; correct the cause and rebuild"
    else:
        remedy = "The version that is served was changed: correct the source and run again, or rebuild"
    listed = "\n".join(f"  - {line}" for line in failures)
    return GateFailed(f"The gate of {plan.served} failed:\n{listed}\n", remedy=remedy, failures=tuple(failures))


def _serve(
    client: MilvusClient, plan: Plan, record: RunRecord, live: Version | None, target: Version, lease: Lease
) -> None:
    if live is not None:
        _catch_up(client, plan, live, target, lease)
    ensure_loaded(client, target.name)
    lease.check()
    # Before the move: a version that is served and does not say so could be pruned after a crash here.
    save_record(client, target.name, record, {schema.PUBLISHED_AT_KEY: now()})
    move_alias(client, plan.served, target.name, plan.live)


def _catch_up(client: MilvusClient, plan: Plan, live: Version, target: Version, lease: Lease) -> None:
    """Copies what people wrote into the live version while the candidate was built."""
    if live.same_model(plan.recipe.identity):
        writer = Writer(client, lease, target.name)
        sync_manual_rows(plan.spec, live, target, writer)
        if writer.rows_written or writer.rows_deleted:
            writer.flush()
    elif manual_state(client, live.name) != manual_state(client, target.name):
        raise GateFailed(
            f"Rows were written into {live.name} by people while {target.name} was built with another model",
            remedy="Rebuild again: the texts need vectors of the new model",
            failures=("manual rows changed during the rebuild",),
        )
