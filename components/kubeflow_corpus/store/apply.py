"""The only writer: makes a version hold exactly what a run wants, in an order in which a kill does no harm.

1. Everything is checked and every vector is at hand before the first write.
2. New and changed rows are upserted, flushed and read back (those of a new version are counted). Until here readers
   have lost nothing.
3. Only then stale rows are deleted, flushed, and read back as gone.
4. Last, in one step, the properties say what the version holds: heads, cursors, the run.

A run that is killed leaves rows of old and new documents side by side and the old heads; the next run compares again
and goes on. Heads and cursors never promise rows that are not there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.artifacts import read_vectors
from kubeflow_corpus.collections import KEY_FIELD, MANUAL_SOURCE
from kubeflow_corpus.errors import LeaseHeld, StoreError
from kubeflow_corpus.milvus import detect_backend, store_errors
from kubeflow_corpus.retry import until_empty
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.compare import Comparison, check_guard, compare
from kubeflow_corpus.store.context import (
    RunContext,
    SourceResult,
    VersionChoice,
    failed_sources,
    resolve,
    skips_by_reason,
    summed_counts,
)
from kubeflow_corpus.store.deletions import deletions_property
from kubeflow_corpus.store.lease import Lease
from kubeflow_corpus.store.ledger import READ_BACK, SERVED, TARGET, Ledger
from kubeflow_corpus.store.manual import sync_manual_rows
from kubeflow_corpus.store.plan import Plan
from kubeflow_corpus.store.record import MOST_REFUSED_NAMED, RunRecord, last_run, save_record
from kubeflow_corpus.store.retry import retry_properties
from kubeflow_corpus.store.rows import KEYS_PER_FILTER, check_vectors, count_rows, in_batches, rows_by_key, scan
from kubeflow_corpus.store.schema import VECTOR_FIELD
from kubeflow_corpus.store.settled import clear_settled, read_recorded, settled_properties
from kubeflow_corpus.store.versions import (
    Version,
    create_version,
    drop_version,
    ensure_indexed,
    ensure_loaded,
    now,
)
from kubeflow_corpus.store.wanted import wanted_rows
from kubeflow_corpus.store.writer import READ_BACK_TRIES, UPSERT_BYTES, UPSERT_ROWS, Writer, lost_rows

if TYPE_CHECKING:
    from pymilvus import MilvusClient

    from kubeflow_corpus.tokens import TokenCounter

__all__ = ["UPSERT_ROWS", "RunRecord", "Writer", "apply_plan", "last_run"]

# What is read of a stored row to use its vector again, and keys of one such request.
_VECTOR_FIELDS: Final = (KEY_FIELD, "embedding_hash", VECTOR_FIELD)
_VECTOR_KEYS: Final = 200
# From this many rows on, one pass over a whole collection is cheaper than asking for keys: Milvus Lite scans all of
# its rows for every request.
_PASS_FROM_ROWS: Final = 2_000


def apply_plan(
    client: MilvusClient,
    plan: Plan,
    results: Sequence[SourceResult],
    vectors: Sequence[Path],
    workdir: Path,
    *,
    not_embedded: Mapping[str, str] | None = None,
    embedded: bool = False,
    counter: TokenCounter | None = None,
    dense_index: str = "FLAT",
    wait_seconds: float = 0.0,
    announce: Callable[[str], None] = lambda line: None,
    run_process: str | None = None,
) -> RunRecord:
    """Writes what a plan asks for.

    Args:
        client: The connection.
        plan: What `plan_sync` returned.
        results: The same as for the plan.
        vectors: Parquet files of the shards that were embedded.
        workdir: Scratch space on disk: as large as the rows to write with their vectors.
        not_embedded: Why texts of the shards have no vector, by embedding hash.
        embedded: Whether the database is a ``.db`` path.
        counter: Needed where rows written by people are embedded again.
        dense_index: ``FLAT`` or ``HNSW``, for a version that is created.
        wait_seconds: How long to wait for another writer.
        announce: Gets lines that a person may want to see.
        run_process: None if this process calls `publish` too. If another process of the same run does, as with KFP:
            what starts them (`Lease.process`).

    Returns:
        What was done. A rebuild is not served yet: `publish` does that, and this run keeps its lease for it.

    Raises:
        LeaseHeld: Another writer is at work.
        DeletionGuard: Too much would be deleted; nothing was written.
        InvalidVector: A vector cannot be ranked; nothing was written.
        StoreError: Milvus failed, or rows that were written do not come back.
    """
    lease = Lease(client, plan.served, plan.run, embedded=embedded, process=run_process or "")
    versions = lease.acquire(wait_seconds, announce)
    try:
        resolution = _resolve_again(client, plan, versions)
        target = _open_target(client, plan, resolution, lease, dense_index, announce)
        context = RunContext(
            client,
            plan.spec,
            plan.served,
            plan.recipe,
            tuple(results),
            replace(resolution, target=target),
            counter,
            plan.catalogue_sources,
            plan.allow_deletions,
            plan.max_deleted_share,
            not_embedded or {},
        )
        started = RunRecord(
            run=plan.run,
            alias=plan.alias,
            mode=resolution.mode,
            reasons=plan.reasons or resolution.reasons,
            target=target.name,
            previous=resolution.live_name,
            started_at=now(),
        )
        if plan.settled:
            record = _record_unchanged(context, plan, target, started)
            lease.release()
            return record
        with Ledger(workdir / "apply", plan.recipe.identity.dimension) as ledger:
            record = _sync(context, target, ledger, Writer(client, lease, target.name), started, vectors)
        if context.rebuilds or run_process is not None:
            lease.hand_over(to_process=run_process is not None)
        else:
            lease.release()
        return record
    except BaseException:
        lease.let_go()
        raise


def _resolve_again(client: MilvusClient, plan: Plan, versions: list[Version]) -> VersionChoice:
    """Decides again, under the lease: another writer may have published since the plan was made."""
    resolution = resolve(client, plan.spec, plan.recipe, versions, plan.mode)
    if resolution.mode != plan.mode or resolution.live_name != plan.live:
        raise StoreError(
            f"{plan.served} changed since the plan was made: {plan.live or 'nothing'} was served, "
            f"now {resolution.live_name or 'nothing'} is",
            remedy="Another writer was at work: run again",
        )
    return resolution


def _open_target(
    client: MilvusClient,
    plan: Plan,
    resolution: VersionChoice,
    lease: Lease,
    dense_index: str,
    announce: Callable[[str], None],
) -> Version:
    """Returns the version to write, created if there is none, and under the lease."""
    target, backend = resolution.target, detect_backend(client)
    if target is None:
        extra = {schema.LEASE_KEY: lease.value()}
        target = create_version(client, plan.spec, plan.served, backend, plan.recipe, extra, dense_index)
        lease.names.append(target.name)
        try:
            # Of two first runs that each created a version, neither saw the other's lease before: the later one stops.
            lease.check()
        except LeaseHeld:
            drop_version(client, plan.served, target)
            raise
        return target
    if target.name not in lease.names:
        lease.cover(target.name)
    if (fields := ensure_indexed(client, target.name, backend, dense_index)) and target.live:
        announce(f"{target.name}: the index of {', '.join(fields)} was gone and is made again")
    return target


def _record_unchanged(context: RunContext, plan: Plan, target: Version, started: RunRecord) -> RunRecord:
    """Records a run in which no source changed: when they were read last, and that all is served as it was."""
    client, known = context.client, read_recorded(target)
    if any(source not in known or known[source].fingerprint != text for source, text in plan.settled.items()):
        raise StoreError(
            f"{target.name} changed since the plan was made", remedy="Another writer was at work: run again"
        )
    before = last_run(client, target.name)
    ensure_loaded(client, target.name)
    done = replace(
        started,
        finished_at=now(),
        outcome="published",
        documents={source: dict(counts) for source, counts in plan.documents.items()},
        rows=_row_counts(plan.rows["rows_wanted"], 0, 0, count_rows(client, target.name)),
        areas=before.areas if before and before.documents.keys() == plan.documents.keys() else {},
        skipped=skips_by_reason((), context.results),
        counts=summed_counts(context.results),
        gate=before.gate if before else {},
    )
    fetched = {schema.FETCHED_PREFIX + result.source: now() for result in context.results}
    save_record(client, target.name, done, {schema.COMPLETED_AT_KEY: now(), **fetched})
    return done


def _row_counts(wanted: int, written: int, deleted: int, stored: int) -> dict[str, int]:
    return {"rows_wanted": wanted, "rows_written": written, "rows_deleted": deleted, "rows_held": stored}


def _sync(
    context: RunContext,
    target: Version,
    ledger: Ledger,
    writer: Writer,
    started: RunRecord,
    vectors: Sequence[Path],
) -> RunRecord:
    client, seconds = context.client, dict[str, float]()
    with _timed(seconds, "compare"):
        # Of a new version every row is written, of one that is served few are.
        found = compare(context, ledger, keep=context.rebuilds)
        check_guard(context.served, found.guard)
    with _timed(seconds, "gather"):
        embedded, reused = _gather_vectors(context, target, ledger, vectors, writer.lease)
    if found.counts["rows_to_write"] or found.counts["rows_to_delete"]:
        clear_settled(client, target)
    with _timed(seconds, "write"):
        _write(context, target, ledger, writer, found)
    with _timed(seconds, "verify"):
        # A version that was empty and now holds as many rows as were written, under as many keys, holds all of them.
        if ledger.stored_rows(TARGET) or count_rows(client, target.name) != writer.rows_written:
            _check_written(ledger, writer, found.counts["rows_to_write"])
    with _timed(seconds, "delete"):
        if found.counts["rows_to_delete"]:
            _delete_stale(ledger, writer)
    rows = count_rows(client, target.name)
    _check_count(ledger, target, rows)
    done = replace(
        started,
        finished_at=now(),
        documents=found.documents,
        rows=_row_counts(found.counts["rows_wanted"], writer.rows_written, writer.rows_deleted, rows),
        embedded=embedded,
        reused=reused,
        areas=found.areas,
        skipped=skips_by_reason(found.refused, context.results),
        refused=found.refused[:MOST_REFUSED_NAMED],
        counts=summed_counts(context.results),
        seconds=seconds,
        bytes=dict(writer.bytes),
        failed=failed_sources(context.results),
        uncovered=found.uncovered,
        unfinished=tuple(result.source for result in context.results if result.ok and not result.reached_end),
        orphans=found.orphans,
    )
    writer.lease.renew(force=True)
    settled = {} if found.refused else settled_properties(context.results, ledger.wanted_by_source())
    lost = {source: counts.get("deleted", 0) for source, counts in found.documents.items()}
    deletions = deletions_property(context.live, lost, context.allow_deletions)
    properties = {**_source_properties(context, target), **retry_properties(context, target, found.refused)}
    save_record(client, target.name, done, {**properties, **settled, **deletions})
    return done


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.monotonic()
    try:
        yield
    finally:
        seconds[phase] = round(time.monotonic() - start, 3)


def _gather_vectors(
    context: RunContext, target: Version, ledger: Ledger, files: Sequence[Path], lease: Lease
) -> tuple[int, int]:
    """Gets every vector that is needed to disk, checked, before the first write can overwrite a row that has one."""
    live, identity = context.live, context.recipe.identity
    embedded = 0
    for file in files:
        for hashes, vectors in read_vectors(file):
            check_vectors(hashes, vectors, identity.dimension)
            ledger.add_vectors(hashes, vectors)
            embedded += len(hashes)
        lease.renew()
    names = {TARGET: target.name, SERVED: live.name if live else target.name}
    needed = ledger.count_without_vector()
    if needed >= _PASS_FROM_ROWS and live is not None and live.same_model(identity):
        wanted = {text for _, _, text in ledger.reusable_vectors()}
        for page in scan(context.client, live.name, _VECTOR_FIELDS):
            _copy_vectors([row for row in page if row["embedding_hash"] in wanted], ledger, identity.dimension)
            lease.renew()
    for batch in in_batches(ledger.reusable_vectors(), _VECTOR_KEYS):
        for place, name in names.items():
            texts = {key: text for at, key, text in batch if at == place}
            with store_errors(name):
                rows = rows_by_key(context.client, name, list(texts), _VECTOR_FIELDS)
            same = [row for row in rows if row["embedding_hash"] == texts[row[KEY_FIELD]]]
            _copy_vectors(same, ledger, identity.dimension)
        lease.renew()
    missing = ledger.count_without_vector()
    if missing:
        raise StoreError(
            f"{missing} texts have no vector: a shard was not embedded, or the collection changed since the plan",
            remedy="Run again from the plan on",
        )
    return embedded, needed


def _copy_vectors(rows: list[dict[str, Any]], ledger: Ledger, dimension: int) -> None:
    import numpy as np

    if rows:
        hashes = [row["embedding_hash"] for row in rows]
        vectors = np.asarray([row[VECTOR_FIELD] for row in rows], dtype=np.float32)
        check_vectors(hashes, vectors, dimension)
        ledger.add_vectors(hashes, vectors)


def _write(context: RunContext, target: Version, ledger: Ledger, writer: Writer, found: Comparison) -> None:
    if found.counts["rows_to_write"]:
        rows = ledger.kept_rows() if context.rebuilds else (wanted.row for wanted in wanted_rows(context))
        _write_rows(rows, ledger, writer)
    if context.rebuilds and context.live is not None and not context.moves_manual_rows:
        sync_manual_rows(context.spec, context.live, target, writer)
    # Rows of a run that was killed may still be unflushed; on Milvus Lite an empty flush costs nothing.
    if writer.rows_written or found.counts["rows_to_delete"] or detect_backend(context.client).lite:
        writer.flush()


def _write_rows(rows: Iterable[dict[str, Any]], ledger: Ledger, writer: Writer) -> None:
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        if ledger.document_state(row["document_id"]) not in ("added", "changed"):
            continue
        vector = ledger.vector(row["embedding_hash"])
        assert vector is not None, "gathered before"
        batch.append({**row, VECTOR_FIELD: vector})
        text = len(row["content_text"].encode()) + len(row["search_text"].encode())
        writer.bytes["text"] += text
        writer.bytes["vectors"] += vector.nbytes
        size += text + vector.nbytes
        if len(batch) >= UPSERT_ROWS or size >= UPSERT_BYTES:
            writer.upsert(batch)
            batch, size = [], 0
    if batch:
        writer.upsert(batch)


def _check_written(ledger: Ledger, writer: Writer, rows: int) -> None:
    fields = ("row_hash", "embedding_hash")
    if rows < _PASS_FROM_ROWS:
        for batch in in_batches(ledger.written_rows(), KEYS_PER_FILTER):
            writer.check_written({key: tuple(hashes) for key, *hashes in batch}, fields)
        return

    def look() -> list[str]:
        ledger.forget_stored(READ_BACK)
        with store_errors(writer.name):
            for page in scan(writer.client, writer.name, [KEY_FIELD, *fields]):
                ledger.add_stored(READ_BACK, page)
        return ledger.not_read_back()

    if lost := until_empty(look, READ_BACK_TRIES):
        raise lost_rows(writer.name, lost)


def _delete_stale(ledger: Ledger, writer: Writer) -> None:
    writer.lease.renew(force=True)
    for keys in in_batches(ledger.stale_keys(), KEYS_PER_FILTER):
        writer.delete(keys)
    writer.flush()
    for keys in in_batches(ledger.stale_keys(), KEYS_PER_FILTER):
        writer.check_deleted(keys)


def _check_count(ledger: Ledger, target: Version, rows: int) -> None:
    if MANUAL_SOURCE in ledger.stored_documents(TARGET) or MANUAL_SOURCE in ledger.stored_documents(SERVED):
        # People may have written rows meanwhile: then only the keys say what is right, and those were read back.
        return
    expected = ledger.expected_rows()
    if rows != expected:
        raise StoreError(
            f"{target.name} holds {rows} rows where {expected} were expected",
            remedy="Another program writes this collection, or Milvus lost rows: run again, or rebuild it",
            expected=expected,
            found=rows,
        )


def _source_properties(context: RunContext, target: Version) -> dict[str, str]:
    """Returns what a complete version records of its sources: heads, cursors, and when they were read."""
    values = {schema.COMPLETED_AT_KEY: now()}
    for result in context.results:
        if result.ok and not result.partial:
            values[schema.HEAD_PREFIX + result.source] = result.revision or "-"
            values[schema.FETCHED_PREFIX + result.source] = now()
            # A complete fetch without a cursor still ends what an earlier crawl began.
            if result.cursor or target.prefixed(schema.CURSOR_PREFIX).get(result.source):
                values[schema.CURSOR_PREFIX + result.source] = result.cursor
    for source in target.prefixed(schema.HEAD_PREFIX).keys() - context.read_sources:
        if context.has_left(source) and source in context.allow_deletions:
            for prefix in (schema.HEAD_PREFIX, schema.FETCHED_PREFIX, schema.CURSOR_PREFIX, schema.RETRY_PREFIX):
                values[prefix + source] = ""
    return values
