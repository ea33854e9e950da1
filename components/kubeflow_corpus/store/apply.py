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

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.artifacts import read_vectors
from kubeflow_corpus.errors import CorpusError, LeaseHeld, StoreError
from kubeflow_corpus.milvus import checked_texts, detect_backend, store_errors
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.lease import Lease
from kubeflow_corpus.store.ledger import READ_BACK, SERVED, TARGET, Ledger
from kubeflow_corpus.store.plan import (
    Inputs,
    Mode,
    Plan,
    SourceResult,
    baseline,
    failures_of,
    fill_ledger,
    guarded,
    resolve_mode,
    skips_by_reason,
    stop_where_guarded,
    uncovered_sources,
    wanted_rows,
)
from kubeflow_corpus.store.rows import (
    KEYS_PER_FILTER,
    check_vectors,
    count_rows,
    in_batches,
    rows_by_key,
    scan,
    stored_row,
)
from kubeflow_corpus.store.schema import KEY_FIELD, MANUAL_SOURCE, VECTOR_FIELD, keys_filter, text_literal
from kubeflow_corpus.store.settled import forget_settled, recorded, settled_properties
from kubeflow_corpus.store.versions import (
    Version,
    create_version,
    drop_version,
    ensure_indexed,
    ensure_loaded,
    live_version,
    now,
    properties_of,
    set_properties,
)

if TYPE_CHECKING:
    from pymilvus import MilvusClient

    from kubeflow_corpus.tokens import TokenCounter

# One upsert: a request may have 64 MiB, and a row up to 130 kB of text and some kB of vector.
UPSERT_ROWS: Final = 256
UPSERT_BYTES: Final = 8 * 1024 * 1024
_VECTOR_KEYS: Final = 200
# From so many rows on, one pass over a whole collection is cheaper than asking for keys: Milvus Lite looks through all
# of its rows for every request.
_PASS_FROM_ROWS: Final = 2_000
# A server may need a moment until a flushed row is read everywhere.
_VERIFY_ATTEMPTS: Final = 4
_VERIFY_PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run did: the machine-readable summary that properties, artifacts and reports carry.

    Attributes:
        run: Id of the run.
        alias: The collection.
        mode: Kind of run.
        reasons: Why it was a rebuild.
        target: Version that was written.
        previous: Version that was served when the run began.
        started_at: ISO 8601 UTC.
        finished_at: ISO 8601 UTC.
        outcome: ``applied``, ``published``, ``gate failed`` or ``not published``.
        documents: By source, documents added, changed, unchanged, deleted and held before, against what was served.
        rows: ``rows_wanted``, ``rows_written``, ``rows_deleted``, ``rows_held``.
        embedded: Texts that this run embedded.
        reused: Texts whose vector was taken from held rows.
        areas: Rows that this run wanted, by product area.
        skipped: Documents that give no row, by reason.
        counts: Further counts of the steps before, such as ``truncated``.
        seconds: Wall time of each phase.
        bytes: Bytes of text and vectors written.
        failed: Sources whose rows stayed as they were: source, step, error.
        uncovered: Served sources that this version lacks.
        unfinished: Sources whose fetch stopped before its end.
        orphans: Sources that are held and no longer in the catalogue.
        gate: What the gates said: passed, failures, metrics.
    """

    run: str
    alias: str
    mode: Mode
    target: str
    previous: str
    started_at: str
    finished_at: str = ""
    outcome: str = "applied"
    reasons: tuple[str, ...] = ()
    documents: dict[str, dict[str, int]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    embedded: int = 0
    reused: int = 0
    areas: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    failed: tuple[dict[str, str], ...] = ()
    uncovered: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    gate: dict[str, Any] = field(default_factory=dict)

    def total(self, state: str) -> int:
        """Returns the number of documents in a state, over all sources."""
        return sum(counts.get(state, 0) for counts in self.documents.values())

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RunRecord:
        """Reads what `to_dict` wrote."""
        names = ("reasons", "failed", "uncovered", "unfinished", "orphans")
        return cls(**{**data, **{name: tuple(data.get(name, ())) for name in names}})


@dataclass(slots=True)
class Writer:
    """One version that is being written, and what has been done to it so far."""

    client: MilvusClient
    lease: Lease
    name: str
    rows_written: int = 0
    rows_deleted: int = 0
    bytes: Counter[str] = field(default_factory=Counter)

    def upsert(self, rows: list[dict[str, Any]]) -> None:
        """Writes rows, over those of the same keys."""
        with store_errors(self.name), checked_texts():
            self.client.upsert(self.name, rows)
        self.rows_written += len(rows)
        self.lease.renew()

    def delete(self, keys: list[str]) -> None:
        """Deletes rows; the caller has flushed what replaces them."""
        with store_errors(self.name):
            self.client.delete(self.name, filter=keys_filter(KEY_FIELD, keys))
        self.rows_deleted += len(keys)
        self.lease.renew()

    def flush(self) -> None:
        """Makes what was written durable and fast to search. Slow on a server: once a phase."""
        self.lease.renew()
        with store_errors(self.name):
            self.client.flush(self.name)
        self.lease.renew()


def apply_plan(
    client: MilvusClient,
    plan: Plan,
    results: Sequence[SourceResult],
    vectors: Sequence[Path],
    workdir: Path,
    *,
    embedded: bool = False,
    counter: TokenCounter | None = None,
    dense_index: str = "FLAT",
    wait_seconds: float = 0.0,
    announce: Callable[[str], None] = lambda line: None,
    steps_are_processes: bool = False,
) -> RunRecord:
    """Writes what a plan asks for.

    Args:
        client: The connection.
        plan: What `plan_sync` returned.
        results: The same as for the plan.
        vectors: Parquet files of the shards that were embedded.
        workdir: Scratch space on disk: as large as the rows to write with their vectors.
        embedded: Whether the database is a ``.db`` path, which one process has to itself.
        counter: Needed where rows written by people are embedded again.
        dense_index: ``FLAT`` or ``HNSW``, for a version that is created.
        wait_seconds: How long to wait for another writer.
        announce: Gets lines that a person may want to see.
        steps_are_processes: Whether `publish` is called by another process of the same run, as KFP does.

    Returns:
        What was done. A rebuild is not served yet: `publish` does that, and this run keeps its lease for it.

    Raises:
        LeaseHeld: Another writer is at work.
        DeletionGuard: Too much would be deleted; nothing was written.
        InvalidVector: A vector cannot be ranked; nothing was written.
        StoreError: Milvus failed, or rows that were written do not come back.
    """
    lease = Lease(client, plan.served, plan.run, embedded=embedded)
    versions = lease.acquire(wait_seconds, announce)
    try:
        backend = detect_backend(client)
        live = live_version(versions)
        mode, reasons, _, target = resolve_mode(versions, plan.spec, plan.recipe, backend, plan.mode)
        if mode != plan.mode or (live.name if live else "") != plan.live:
            raise StoreError(
                f"{plan.served} changed since the plan was made: {plan.live or 'nothing'} was served, "
                f"now {live.name if live else 'nothing'} is",
                remedy="Another writer was at work: run again",
            )
        if target is None:
            extra = {schema.LEASE_KEY: lease.value()}
            target = create_version(client, plan.spec, plan.served, backend, plan.recipe, extra, dense_index)
            lease.names.append(target.name)
            _yield_to_rival(client, plan, lease, target)
        elif target.name not in lease.names:
            lease.cover(target.name)
            ensure_indexed(client, target.name, backend, dense_index)
        inputs = Inputs(client, plan.spec, plan.recipe, tuple(results), mode, live, counter)
        started = RunRecord(
            run=plan.run,
            alias=plan.alias,
            mode=mode,
            reasons=plan.reasons or reasons,
            target=target.name,
            previous=live.name if live else "",
            started_at=now(),
            orphans=plan.orphans,
        )
        if plan.settled:
            record = _revisit(client, plan, results, target, started)
            lease.release()
            return record
        with Ledger(workdir / "apply", plan.recipe.identity.dimension) as ledger:
            record = _sync(client, inputs, target, ledger, lease, started, vectors, plan)
        if mode == "rebuild" or steps_are_processes:
            lease.hand_over(to_process=steps_are_processes)
        else:
            lease.release()
        return record
    except BaseException:
        # The error that is under way says more than one about the lease, which runs out by itself.
        with suppress(CorpusError):
            lease.release()
        raise


def _revisit(
    client: MilvusClient, plan: Plan, results: Sequence[SourceResult], target: Version, started: RunRecord
) -> RunRecord:
    """Records a run in which no source changed: when they were read last, and that all is served as it was."""
    known = recorded(target)
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
        rows={
            "rows_wanted": plan.rows["rows_wanted"],
            "rows_written": 0,
            "rows_deleted": 0,
            "rows_held": count_rows(client, target.name),
        },
        areas=before.areas if before and before.documents.keys() == plan.documents.keys() else {},
        skipped=skips_by_reason((), results),
        counts=_summed(results),
        gate=before.gate if before else {},
    )
    fetched = {schema.FETCHED_PREFIX + result.source: now() for result in results}
    text = json.dumps(done.to_dict(), ensure_ascii=False)
    set_properties(client, target.name, {schema.RUN_KEY: text, schema.COMPLETED_AT_KEY: now(), **fetched})
    return done


def _yield_to_rival(client: MilvusClient, plan: Plan, lease: Lease, created: Version) -> None:
    """Of two first runs that each created a version, neither saw the other's lease before: the later one stops."""
    try:
        lease.check()
    except LeaseHeld:
        drop_version(client, plan.served, created)
        raise


def _sync(
    client: MilvusClient,
    inputs: Inputs,
    target: Version,
    ledger: Ledger,
    lease: Lease,
    record: RunRecord,
    vectors: Sequence[Path],
    plan: Plan,
) -> RunRecord:
    seconds: dict[str, float] = {}
    areas: Counter[str] = Counter()
    # Of a new version every row is written, of one that is served few are.
    fills = inputs.mode == "rebuild"
    with _timed(seconds, "compare"):
        skipped = fill_ledger(ledger, inputs, target, plan.catalogue_sources, plan.allow_deletions, areas, keep=fills)
        place = baseline(inputs.mode, inputs.live)
        held, documents = ledger.held_documents(place), ledger.documents(place)
        if inputs.live is not None:
            lines = guarded(held, documents, plan.allow_deletions, plan.max_deleted_share)
            stop_where_guarded(plan.served, lines)
    with _timed(seconds, "gather"):
        embedded, reused = _gather_vectors(client, inputs, target, ledger, vectors, lease)
    writer = Writer(client, lease, target.name)
    counts = ledger.counts()
    stale = counts["rows_to_delete"]
    # Rows of a run that was killed may still be unflushed; on Milvus Lite an empty flush costs nothing.
    if counts["rows_to_write"] or stale:
        forget_settled(client, target)
    with _timed(seconds, "write"):
        if counts["rows_to_write"]:
            _write_rows(ledger.kept() if fills else (wanted.row for wanted in wanted_rows(inputs)), ledger, writer)
        if inputs.mode == "rebuild" and inputs.live is not None and not inputs.moves_manual_rows:
            sync_manual_rows(client, inputs.spec, inputs.live, target, writer)
        if writer.rows_written or stale or detect_backend(client).lite:
            writer.flush()
    with _timed(seconds, "verify"):
        # A version that was empty and now holds as many rows as were written, under as many keys, holds all of them.
        if ledger.held_rows(TARGET) or count_rows(client, target.name) != writer.rows_written:
            _verify_written(client, ledger, target.name, counts["rows_to_write"])
    with _timed(seconds, "delete"):
        _delete_stale(client, ledger, writer, stale)
    rows_held = count_rows(client, target.name)
    _verify_count(ledger, target, rows_held)
    names = sorted({*held, *documents} - {MANUAL_SOURCE})
    done = replace(
        record,
        finished_at=now(),
        documents={name: {**documents.get(name, {}), "held": held.get(name, 0)} for name in names},
        rows={
            "rows_wanted": counts["rows_wanted"],
            "rows_written": writer.rows_written,
            "rows_deleted": writer.rows_deleted,
            "rows_held": rows_held,
        },
        embedded=embedded,
        reused=reused,
        areas=dict(sorted(areas.items())),
        skipped=skips_by_reason(skipped, inputs.results),
        counts=_summed(inputs.results),
        seconds=seconds,
        bytes=dict(writer.bytes),
        failed=tuple(asdict(failure) for failure in failures_of(inputs.results)),
        uncovered=uncovered_sources(inputs.mode, held, inputs.results, plan.allow_deletions),
        unfinished=tuple(result.source for result in inputs.results if result.ok and not result.reached_end),
    )
    lease.renew(force=True)
    settled = {} if skipped else settled_properties(inputs.results, ledger.wanted_by_source())
    set_properties(client, target.name, {**_final_properties(inputs, target, done, plan), **settled})
    return done


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.monotonic()
    try:
        yield
    finally:
        seconds[phase] = round(time.monotonic() - start, 3)


def _gather_vectors(
    client: MilvusClient, inputs: Inputs, target: Version, ledger: Ledger, files: Sequence[Path], lease: Lease
) -> tuple[int, int]:
    """Brings every vector that is needed to disk, checked, before the first write can overwrite a row that has one."""
    dimension = inputs.recipe.identity.dimension
    embedded = 0
    for file in files:
        for hashes, vectors in read_vectors(file):
            check_vectors(hashes, vectors, dimension)
            ledger.add_vectors(hashes, vectors)
            embedded += len(hashes)
        lease.renew()
    names = {TARGET: target.name, SERVED: inputs.live.name if inputs.live else target.name}
    needed = ledger.without_vector()
    if needed >= _PASS_FROM_ROWS and inputs.live is not None and inputs.live.same_model(inputs.recipe.identity):
        _copy_needed_vectors(client, inputs.live.name, ledger, lease, dimension)
    for batch in in_batches(ledger.reusable(), _VECTOR_KEYS):
        for place, name in names.items():
            wanted = {key: text for at, key, text in batch if at == place}
            _copy_vectors(client, name, wanted, ledger, dimension)
        lease.renew()
    missing = ledger.without_vector()
    if missing:
        raise StoreError(
            f"{missing} texts have no vector: a shard was not embedded, or the collection changed since the plan",
            remedy="Run again from the plan on",
        )
    return embedded, needed


def _copy_needed_vectors(client: MilvusClient, name: str, ledger: Ledger, lease: Lease, dimension: int) -> None:
    import numpy as np

    needed = {text for _, _, text in ledger.reusable()}
    for page in scan(client, name, [KEY_FIELD, "embedding_hash", VECTOR_FIELD]):
        rows = [row for row in page if row["embedding_hash"] in needed]
        if rows:
            hashes = [row["embedding_hash"] for row in rows]
            vectors = np.asarray([row[VECTOR_FIELD] for row in rows], dtype=np.float32)
            check_vectors(hashes, vectors, dimension)
            ledger.add_vectors(hashes, vectors)
        lease.renew()


def _copy_vectors(client: MilvusClient, name: str, wanted: dict[str, str], ledger: Ledger, dimension: int) -> None:
    import numpy as np

    with store_errors(name):
        rows = rows_by_key(client, name, list(wanted), [KEY_FIELD, "embedding_hash", VECTOR_FIELD])
    rows = [row for row in rows if row["embedding_hash"] == wanted[row[KEY_FIELD]]]
    if rows:
        hashes = [row["embedding_hash"] for row in rows]
        vectors = np.asarray([row[VECTOR_FIELD] for row in rows], dtype=np.float32)
        check_vectors(hashes, vectors, dimension)
        ledger.add_vectors(hashes, vectors)


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


def _verify_written(client: MilvusClient, ledger: Ledger, name: str, written: int) -> None:
    if written >= _PASS_FROM_ROWS:
        for attempt in range(_VERIFY_ATTEMPTS):
            if attempt:
                time.sleep(_VERIFY_PAUSE_SECONDS)
            ledger.forget(READ_BACK)
            with store_errors(name):
                for page in scan(client, name, [KEY_FIELD, "row_hash", "embedding_hash"]):
                    ledger.hold(READ_BACK, page)
            lost = ledger.not_read_back()
            if not lost:
                return
        raise _lost_rows(name, lost)
    for batch in in_batches(ledger.written_rows(), KEYS_PER_FILTER):
        wanted = {key: (row_hash, text) for key, row_hash, text in batch}
        wrong: set[str] = set(wanted)
        for attempt in range(_VERIFY_ATTEMPTS):
            if attempt:
                time.sleep(_VERIFY_PAUSE_SECONDS)
            with store_errors(name):
                rows = rows_by_key(client, name, sorted(wrong), [KEY_FIELD, "row_hash", "embedding_hash"])
            wrong -= {
                row[KEY_FIELD] for row in rows if (row["row_hash"], row["embedding_hash"]) == wanted[row[KEY_FIELD]]
            }
            if not wrong:
                break
        else:
            raise _lost_rows(name, sorted(wrong))


def _lost_rows(name: str, keys: list[str]) -> StoreError:
    return StoreError(
        f"{name}: {len(keys)} rows that were written do not come back, such as {keys[0]}",
        remedy="Nothing was deleted: look at the Milvus server, then run again",
    )


def _delete_stale(client: MilvusClient, ledger: Ledger, writer: Writer, stale: int) -> None:
    if not stale:
        return
    writer.lease.renew(force=True)
    for keys in in_batches(ledger.stale_keys(), KEYS_PER_FILTER):
        writer.delete(keys)
    writer.flush()
    for keys in in_batches(ledger.stale_keys(), KEYS_PER_FILTER):
        for attempt in range(_VERIFY_ATTEMPTS):
            if attempt:
                time.sleep(_VERIFY_PAUSE_SECONDS)
            with store_errors(writer.name):
                left = rows_by_key(client, writer.name, keys, [KEY_FIELD])
            if not left:
                break
        else:
            raise StoreError(
                f"{writer.name}: {len(left)} deleted rows are still there, such as {left[0][KEY_FIELD]}",
                remedy="Look at the Milvus server, then run again",
            )


def _verify_count(ledger: Ledger, target: Version, rows_held: int) -> None:
    if MANUAL_SOURCE in ledger.held_documents(TARGET) or MANUAL_SOURCE in ledger.held_documents(SERVED):
        # People may have written rows meanwhile: then only the keys say what is right, and those were read back.
        return
    expected = ledger.expected_rows()
    if rows_held != expected:
        raise StoreError(
            f"{target.name} holds {rows_held} rows where {expected} were expected",
            remedy="Another program writes this collection, or Milvus lost rows: run again, or rebuild it",
            expected=expected,
            found=rows_held,
        )


def _summed(results: Sequence[SourceResult]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for result in results:
        total.update(result.counts)
    return dict(sorted(total.items()))


def _final_properties(inputs: Inputs, target: Version, record: RunRecord, plan: Plan) -> dict[str, str]:
    values = {schema.RUN_KEY: json.dumps(record.to_dict(), ensure_ascii=False), schema.COMPLETED_AT_KEY: now()}
    for result in inputs.results:
        if result.ok and not result.partial:
            values[schema.HEAD_PREFIX + result.source] = result.revision or "-"
            values[schema.FETCHED_PREFIX + result.source] = now()
            # A complete fetch without a cursor still ends what an earlier crawl began.
            if result.cursor or target.prefixed(schema.CURSOR_PREFIX).get(result.source):
                values[schema.CURSOR_PREFIX + result.source] = result.cursor
    brought = {result.source for result in inputs.results if result.ok}
    for source in target.prefixed(schema.HEAD_PREFIX).keys() - brought:
        left = plan.catalogue_sources is not None and source not in plan.catalogue_sources
        if left and source in plan.allow_deletions:
            for prefix in (schema.HEAD_PREFIX, schema.FETCHED_PREFIX, schema.CURSOR_PREFIX):
                values[prefix + source] = ""
    return values


def sync_manual_rows(
    client: MilvusClient, spec: schema.CollectionSpec, live: Version, target: Version, writer: Writer
) -> None:
    """Makes a candidate hold the rows that people wrote, as the live version holds them now, vectors included.

    Args:
        client: The connection.
        spec: The collection.
        live: The version that is served; its vectors are of the same model.
        target: The candidate.
        writer: Writes the candidate.
    """
    before, after = manual_state(client, target.name), manual_state(client, live.name)
    fields = [*(field.name for field in spec.fields), VECTOR_FIELD]
    changed = (key for key, state in after.items() if before.get(key) != state)
    for keys in in_batches(changed, _VECTOR_KEYS):
        rows = rows_by_key(client, live.name, keys, fields)
        writer.upsert([{**stored_row(spec, row), VECTOR_FIELD: row[VECTOR_FIELD]} for row in rows])
    for keys in in_batches(iter(before.keys() - after.keys()), KEYS_PER_FILTER):
        writer.delete(keys)


def manual_state(client: MilvusClient, name: str) -> dict[str, tuple[str, str, str]]:
    """Returns what changes of the rows that people wrote, by key."""
    fields = [KEY_FIELD, "row_hash", "visibility", "updated_at"]
    where = f"source == {text_literal(MANUAL_SOURCE)}"
    with store_errors(name):
        return {
            row[KEY_FIELD]: (row["row_hash"], row["visibility"], row["updated_at"])
            for page in scan(client, name, fields, where)
            for row in page
        }


def last_run(client: MilvusClient, name: str) -> RunRecord | None:
    """Returns what a version records of the run that wrote it last."""
    text = properties_of(client, name).get(schema.RUN_KEY, "")
    return RunRecord.from_dict(json.loads(text)) if text else None
