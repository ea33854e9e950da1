"""The steps of a run that talk to Milvus: what a collection records, what is to be done, doing it, and serving it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kubeflow_corpus.artifacts import read_chunks
from kubeflow_corpus.errors import InvalidArgument
from kubeflow_corpus.ingest.build import fingerprint
from kubeflow_corpus.ingest.model import recipe_of
from kubeflow_corpus.ingest.outcomes import (
    ALIASES,
    CURSORS_FILE,
    GATE_FILE,
    PLAN_FILE,
    RECORD_FILE,
    ROWS_FILE,
    SETTLED_FILE,
    THREADS_FILE,
    VECTORS_FILE,
    Outcome,
    carry,
    fresh_folder,
    hand_on,
    read_json,
    read_outcome,
    reasons_of,
    totals_of,
    write_json,
)
from kubeflow_corpus.ingest.progress import step
from kubeflow_corpus.ingest.summary import markdown
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.records import GateReport
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.apply import RunRecord, apply_plan, last_run
from kubeflow_corpus.store.plan import SHARD_FOLDER, SHARD_TEXTS, Plan, SourceResult, plan_sync, resume_cursor
from kubeflow_corpus.store.publish import publish
from kubeflow_corpus.store.settled import Settled, read_settled, settled_sources, unchanged_plan
from kubeflow_corpus.store.versions import list_versions, live_version
from kubeflow_corpus.tokens import wordpiece_counter

# The name of the run in properties and leases; whoever starts the steps may choose one that people recognise.
RUN_VARIABLE: Final = "KUBEFLOW_CORPUS_RUN"


def read_state(collection: str, model: str, sources: Sequence[str], rebuild: bool, target: str) -> dict[str, Any]:
    """Writes what a collection records of its sources.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        model: Folder that `describe_model` wrote.
        sources: Names of the sources of this run.
        rebuild: Whether a new version was asked for.
        target: Folder for the cursors and the outcome.

    Returns:
        Metadata for the artifact.
    """
    outcome = read_outcome(Path(model)).begin("read_state")
    folder = fresh_folder(target)

    def work() -> Outcome:
        with step("read_state", collection=collection):
            settings = Settings.from_env()
            spec = schema.collection_spec(ALIASES[collection])
            recipe = recipe_of(outcome)
            if not any(sources):
                write_json(str(folder / CURSORS_FILE), {})
                return replace(outcome, facts={**outcome.facts, "live": ""})
            with connected(settings) as client:
                cursors = {
                    source: resume_cursor(
                        client,
                        spec,
                        source,
                        prefix=settings.collection_prefix,
                        recipe=recipe,
                        mode="rebuild" if rebuild else "incremental",
                    )
                    for source in (sources if collection == "issues" else ())
                }
                live = live_version(list_versions(client, schema.served_name(settings.collection_prefix, spec.alias)))
                record = last_run(client, live.name) if live else None
                settled = settled_sources(client, live) if live and not rebuild else {}
            write_json(str(folder / CURSORS_FILE), cursors)
            write_json(str(folder / SETTLED_FILE), {source: held.to_dict() for source, held in settled.items()})
            failed = {f"failed:{item['source']}": record.run for item in record.failed} if record else {}
        return replace(outcome, facts={**outcome.facts, **failed, "live": live.name if live else ""})

    return hand_on(folder, outcome, work).metadata()


def plan_collection(
    collection: str,
    state: str,
    chunks: Sequence[str],
    sources: Sequence[str],
    names: Sequence[str],
    rebuild: bool,
    allow_deletions: Sequence[str],
    job_id: str,
    target: str,
) -> tuple[list[str], dict[str, Any]]:
    """Compares what the sources brought with what is held.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        state: Folder that `read_state` wrote.
        chunks: Folders that `chunk` wrote.
        sources: Names of the sources of this run.
        names: Names that this run was restricted to; empty where it covers the catalogue.
        rebuild: Whether a new version was asked for.
        allow_deletions: Sources of which any number of documents may be deleted.
        job_id: Name of the run.
        target: Folder for the plan, the texts to embed and the outcome.

    Returns:
        The shards to embed, at least one, as paths below the folder; and metadata for the artifact.
    """
    folder = fresh_folder(target)
    parts = tuple(part for part in map(read_outcome, map(Path, chunks)) if part.source)
    outcome = replace(read_outcome(Path(state)).begin("plan"), sources=parts)
    # With a version that is served the run goes on, and records which sources failed; without one there is nothing
    # to write, and an empty version would only be refused by its gate.
    if outcome.ok and not any(part.ok for part in parts) and not (parts and outcome.facts["live"]):
        outcome = replace(outcome, status="none")
    shards: list[str] = []

    def work() -> Outcome:
        with step("plan", collection=collection) as watch:
            settings = Settings.from_env()
            recipe = recipe_of(outcome)
            # A run over some sources, or some documents of them, does not say that the others are gone.
            partial = any(part.named is not None for part in parts)
            covered = None if names or partial else [source for source in sources if source]
            run = os.environ.get(RUN_VARIABLE) or job_id
            spec = schema.collection_spec(ALIASES[collection])
            settled = {} if rebuild or allow_deletions else _settled(Path(state), parts, covered is not None)
            if settled:
                plan = unchanged_plan(
                    spec,
                    settled,
                    prefix=settings.collection_prefix,
                    live=outcome.facts["live"],
                    recipe=recipe,
                    run=run,
                )
            else:
                with connected(settings) as client:
                    plan = plan_sync(
                        client,
                        spec,
                        source_results(chunks),
                        prefix=settings.collection_prefix,
                        recipe=recipe,
                        counter=_LazyCounter(),
                        workdir=folder,
                        mode="rebuild" if rebuild else "incremental",
                        run=run,
                        catalogue_sources=covered,
                        allow_deletions=allow_deletions,
                    )
            shutil.rmtree(folder / "plan", ignore_errors=True)
            if partial and plan.mode == "rebuild":
                raise InvalidArgument(
                    f"{plan.served} has to be filled anew ({'; '.join(plan.reasons)}), which takes every document",
                    remedy="Run once without changed_paths",
                    argument="changed_paths",
                )
            plan.check_guard()
            write_json(str(folder / PLAN_FILE), plan.to_dict())
            shards.extend(f"{SHARD_FOLDER}/{name}" for name in plan.shards)
            figures = _plan_figures(plan)
            watch.count(**figures)
        texts = {f"texts:{shard}": str(_shard_size(plan, number)) for number, shard in enumerate(shards)}
        return replace(outcome, counts=figures, facts={**outcome.facts, **texts, "mode": plan.mode})

    metadata = hand_on(folder, outcome, work).metadata()
    return shards or [""], metadata


def _settled(state: Path, parts: Sequence[Outcome], whole: bool) -> dict[str, Settled]:
    """Returns what is held of the sources of this run, if that is just what they bring; else nothing."""
    held = read_settled(read_json(state / SETTLED_FILE)) if (state / SETTLED_FILE).exists() else {}
    brought = {part.source: fingerprint(part) for part in parts}
    if whole and held.keys() != brought.keys():
        return {}
    same = all(source in held and held[source].fingerprint == text for source, text in brought.items())
    return {source: held[source] for source in brought} if same else {}


class _LazyCounter:
    """The exact token counter, loaded when something is counted: only rows that people wrote need it here."""

    def count(self, text: str) -> int:
        return wordpiece_counter().count(text)

    def count_many(self, texts: list[str]) -> list[int]:
        return wordpiece_counter().count_many(texts)

    def truncate(self, text: str, tokens: int) -> str:
        return wordpiece_counter().truncate(text, tokens)


def source_results(chunks: Sequence[str]) -> list[SourceResult]:
    """Returns what the sources brought, as the store reads it."""
    return [_source_result(Path(folder)) for folder in chunks if read_outcome(Path(folder)).source]


def _source_result(folder: Path) -> SourceResult:
    outcome = read_outcome(folder)
    if not outcome.ok:
        return SourceResult(outcome.source, "failed", step=outcome.step, error=outcome.error)
    threads = read_json(folder / THREADS_FILE) if (folder / THREADS_FILE).exists() else {}
    skipped = {name.partition(": ")[2]: count for name, count in reasons_of(outcome.counts).items()}
    named = outcome.named
    removed = tuple(threads.get("removed", ())) if threads or named is None else _gone(outcome.source, named, folder)
    return SourceResult(
        outcome.source,
        complete=named is None and outcome.facts.get("complete", "True") == "True",
        partial=named is not None,
        reached_end=outcome.facts.get("reached_end", "True") == "True",
        revision=outcome.facts.get("revision", ""),
        fingerprint=fingerprint(outcome),
        cursor=threads.get("cursor", ""),
        chunks=folder / ROWS_FILE,
        removed_documents=removed,
        skipped=skipped,
        counts=totals_of(outcome.counts),
    )


def _gone(source: str, named: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Returns the documents that were asked for and have no row: a whole run would remove what is held of them."""
    found = {chunk.document_id for chunk in read_chunks(folder / ROWS_FILE)}
    return tuple(key for key in (f"{source}:{path}" for path in named) if key not in found)


def _shard_size(plan: Plan, number: int) -> int:
    return max(0, min(SHARD_TEXTS, plan.to_embed - number * SHARD_TEXTS))


def _plan_figures(plan: Plan) -> dict[str, int]:
    states = {name: plan.total(name) for name in ("added", "changed", "unchanged", "deleted")}
    rows = {name.replace("_", " "): count for name, count in plan.rows.items()}
    return {**states, **rows, "texts to embed": plan.to_embed, "vectors reused": plan.reused}


def apply_collection(
    collection: str, planned: str, chunks: Sequence[str], vectors: Sequence[str], wait_seconds: int, target: str
) -> dict[str, Any]:
    """Writes what the plan asks for.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        planned: Folder that `plan_collection` wrote.
        chunks: Folders that `chunk` wrote.
        vectors: Folders that `embed` wrote.
        wait_seconds: How long to wait for another writer.
        target: Folder for the record of the run and the outcome.

    Returns:
        Metadata for the artifact.
    """
    folder = fresh_folder(target)
    before = read_outcome(Path(planned))
    broken = next((part for part in map(read_outcome, map(Path, vectors)) if part.status == "failed"), None)
    if before.ok and broken is not None:
        before = replace(broken, sources=before.sources)
    outcome = before.begin("apply")

    def work() -> Outcome:
        with step("apply", collection=collection) as watch:
            settings = Settings.from_env()
            plan = Plan.from_dict(read_json(Path(planned) / PLAN_FILE))
            files = [Path(vector) / VECTORS_FILE for vector in vectors]
            with connected(settings) as client:
                record = apply_plan(
                    client,
                    plan,
                    source_results(chunks),
                    [file for file in files if file.exists()],
                    folder,
                    embedded=settings.embedded_milvus,
                    dense_index=settings.dense_index,
                    counter=_LazyCounter(),
                    wait_seconds=wait_seconds,
                    announce=print,
                    steps_are_processes=True,
                )
            shutil.rmtree(folder / "apply", ignore_errors=True)
            carry(Path(planned), folder, [PLAN_FILE])
            write_json(str(folder / RECORD_FILE), record.to_dict())
            figures = {name.replace("_", " "): count for name, count in record.rows.items()}
            watch.count(**figures, embedded=record.embedded, reused=record.reused)
        return replace(
            outcome,
            counts={**figures, "embedded": record.embedded, "reused": record.reused},
            sources=tuple(_with_documents(part, record) for part in outcome.sources),
        )

    return hand_on(folder, outcome, work).metadata()


def _with_documents(part: Outcome, record: RunRecord) -> Outcome:
    """Returns a source's outcome with what became of its documents."""
    states = record.documents.get(part.source, {})
    return part.add({name: states.get(name, 0) for name in ("added", "changed", "unchanged", "deleted")})


def publish_collection(collection: str, evaluated: str, wait_seconds: int, target: str, summary: str) -> dict[str, Any]:
    """Serves what was written, if the gates pass.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        evaluated: Folder that `evaluate_collection` wrote.
        wait_seconds: How long to wait for another writer.
        target: Folder for the record of the run and the outcome.
        summary: File for the summary, Markdown.

    Returns:
        Metadata for the artifact.
    """
    folder = fresh_folder(target)
    outcome = read_outcome(Path(evaluated)).begin("publish")
    # The report looks for its collection here, whatever happened.
    outcome = replace(outcome, facts={**outcome.facts, "collection": collection})

    def work() -> Outcome:
        with step("publish", collection=collection) as watch:
            settings = Settings.from_env()
            plan = Plan.from_dict(read_json(Path(evaluated) / PLAN_FILE))
            record = RunRecord.from_dict(read_json(Path(evaluated) / RECORD_FILE))
            gates = [gate_of(read_json(Path(evaluated) / GATE_FILE))] if (Path(evaluated) / GATE_FILE).exists() else []
            done = record
            # What no source changed was served with passing gates before, and nobody asks it anything now.
            if gates or not plan.settled:
                with connected(settings) as client:
                    done = publish(
                        client,
                        plan,
                        record,
                        gates,
                        embedded=settings.embedded_milvus,
                        wait_seconds=wait_seconds,
                        announce=print,
                    )
            write_json(str(folder / RECORD_FILE), done.to_dict())
            watch.count(rows=done.rows["rows_held"])
        return replace(outcome, facts={**outcome.facts, "served": done.target})

    result = hand_on(folder, outcome, work)
    Path(summary).parent.mkdir(parents=True, exist_ok=True)
    Path(summary).write_text(markdown(collection, result), encoding="utf-8")
    return result.metadata()


def gate_of(data: Mapping[str, Any]) -> GateReport:
    """Reads the report of a gate from its JSON form."""
    return GateReport(bool(data["passed"]), tuple(data["failures"]), dict(data["metrics"]))
