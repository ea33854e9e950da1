"""What a run would change: the rows that it wants against those that are stored, document by document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kubeflow_corpus.collections import MANUAL_SOURCE
from kubeflow_corpus.errors import DeletionGuard
from kubeflow_corpus.milvus import store_errors
from kubeflow_corpus.records import FailedDocument
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.context import RunContext
from kubeflow_corpus.store.deletions import recent_deletions
from kubeflow_corpus.store.ledger import SERVED, STORED_FIELDS, TARGET, Ledger
from kubeflow_corpus.store.rows import scan
from kubeflow_corpus.store.versions import Version, ensure_loaded
from kubeflow_corpus.store.wanted import wanted_rows


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a run would change, in numbers.

    Attributes:
        documents: By source, documents that are added, changed, unchanged, deleted, and ``held`` (stored) before.
        counts: ``rows_wanted``, ``rows_to_write``, ``rows_to_delete``, and distinct ``texts`` of the rows to write.
        areas: Rows that the run wants, by product area.
        refused: Documents that cannot be stored, with the reason.
        guard: One line for each source of which too many documents would be deleted.
        uncovered: Served sources that a rebuild would lose, because this run does not read all of them.
        orphans: Sources that are stored and that the catalogue no longer lists.
    """

    documents: dict[str, dict[str, int]]
    counts: dict[str, int]
    areas: dict[str, int]
    refused: tuple[FailedDocument, ...]
    guard: tuple[str, ...]
    uncovered: tuple[str, ...]
    orphans: tuple[str, ...]


def compare(context: RunContext, ledger: Ledger, *, keep: bool = False) -> Comparison:
    """Notes in a ledger what is wanted and what is stored, and compares.

    Args:
        context: The run.
        ledger: Where to note it.
        keep: Whether to keep the wanted rows on disk, because most of them will be written.
    """
    areas, refused = _note_wanted(context, ledger, keep)
    _note_stored(context, ledger)
    ledger.build_indexes()
    ledger.compare(TARGET)
    if context.rebuilds:
        ledger.compare(SERVED)
    # A run is compared with what readers see, if they see anything.
    baseline = SERVED if context.rebuilds and context.live is not None else TARGET
    stored, states = ledger.stored_documents(baseline), ledger.documents(baseline)
    names = sorted({*stored, *states} - {MANUAL_SOURCE})
    return Comparison(
        documents={name: {**states.get(name, {}), "held": stored.get(name, 0)} for name in names},
        counts=ledger.counts(),
        areas=dict(sorted(areas.items())),
        refused=tuple(refused),
        guard=_guard(context, stored, states),
        uncovered=_uncovered(context, stored),
        orphans=tuple(sorted(name for name in stored.keys() - {MANUAL_SOURCE} if context.has_left(name))),
    )


def check_guard(served: str, guard: tuple[str, ...]) -> None:
    """Stops a run that would delete too much.

    Args:
        served: The collection, for the message.
        guard: `Comparison.guard`.

    Raises:
        DeletionGuard: A source would lose more documents than it may.
    """
    if guard:
        raise DeletionGuard(
            f"{served}: " + "; ".join(guard),
            remedy="Check that the source is read from the right place; if the deletions are right, run again with "
            "--allow-deletions SOURCE",
            failures=guard,
        )


def _note_wanted(context: RunContext, ledger: Ledger, keep: bool) -> tuple[Counter[str], list[FailedDocument]]:
    areas: Counter[str] = Counter()
    refused: list[FailedDocument] = []
    for result in context.results:
        if result.ok:
            ledger.note_fetched(result.source, complete=result.complete)
            ledger.note_removed(result.source, result.removed_documents)
            for document_id in result.failed_documents:
                ledger.refuse_document(document_id)
    for wanted in wanted_rows(context, refused):
        row = wanted.row
        ledger.add_wanted(row["id"], row["document_id"], row["source"], row["row_hash"], row["embedding_hash"])
        if keep:
            ledger.keep_row(row)
        areas.update(row["product_area"] or ("(none)",))
    for document in refused:
        ledger.refuse_document(document.document_id)
    return areas, refused


def _note_stored(context: RunContext, ledger: Ledger) -> None:
    places: list[tuple[int, Version | None]] = [(TARGET, context.resolution.target)]
    if context.rebuilds:
        places.append((SERVED, context.live))
    for place, version in places:
        if version is None:
            continue
        # A vector of another model is not a vector of this text.
        reusable = version.same_model(context.recipe.identity)
        ensure_loaded(context.client, version.name)
        with store_errors(version.name):
            for page in scan(context.client, version.name, STORED_FIELDS):
                ledger.add_stored(place, page if reusable else [{**row, "embedding_hash": ""} for row in page])
    for place in (TARGET, SERVED):
        for source in _sources_to_drop(context, ledger, place):
            ledger.drop_source(place, source)


def _sources_to_drop(context: RunContext, ledger: Ledger, place: int) -> Iterator[str]:
    target = context.resolution.target
    for source in ledger.stored_documents(place).keys() - {MANUAL_SOURCE} - context.read_sources:
        if place == TARGET and target is not None and not target.live:
            # An unfinished candidate may hold part of a source; what its last run verified has a head.
            if context.has_left(source) or source not in target.prefixed(schema.HEAD_PREFIX):
                yield source
        elif context.has_left(source) and source in context.allow_deletions:
            yield source


def _guard(context: RunContext, stored: Mapping[str, int], states: Mapping[str, Mapping[str, int]]) -> tuple[str, ...]:
    if context.live is None:
        return ()
    lines, recent = [], recent_deletions(context.live)
    for source, counts in states.items():
        deleted, before = counts.get("deleted", 0), recent.get(source, 0)
        total = stored.get(source, 0) + before
        allowed = source in context.allow_deletions
        if deleted and not allowed and deleted + before > total * context.max_deleted_share:
            after = f", {before} of them in the last day" if before else ""
            lines.append(f"{deleted + before} of {total} documents of source {source} would be deleted{after}")
    return tuple(lines)


def _uncovered(context: RunContext, stored: Mapping[str, int]) -> tuple[str, ...]:
    if not context.rebuilds:
        return ()
    covered = {result.source for result in context.results if result.ok and result.reached_end}
    return tuple(sorted(stored.keys() - covered - set(context.allow_deletions) - {MANUAL_SOURCE}))
