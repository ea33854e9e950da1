"""What a run will do to a collection: which documents changed, which texts need a vector, what would be deleted.

A plan reads and writes nothing in Milvus, so that a dry run is a plan that is printed. `apply` compares again under its
lease: the plan decides the kind of run and lists the texts to embed, it is not a list of commands that can go stale.
"""

from __future__ import annotations

import hashlib
import math
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from kubeflow_corpus.artifacts import read_chunks, write_jsonl
from kubeflow_corpus.budget import Budget
from kubeflow_corpus.errors import DeletionGuard, InvalidArgument, InvalidRow
from kubeflow_corpus.milvus import Backend, detect_backend, store_errors
from kubeflow_corpus.model import Recipe
from kubeflow_corpus.records import Skip
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.ledger import HELD_FIELDS, SERVED, TARGET, Ledger
from kubeflow_corpus.store.rows import scan, stored_row, to_row
from kubeflow_corpus.store.schema import MANUAL_SOURCE, CollectionSpec, served_name, text_literal
from kubeflow_corpus.store.versions import Version, ensure_loaded, list_versions, live_version, recipe_properties

if TYPE_CHECKING:
    from pymilvus import MilvusClient

    from kubeflow_corpus.tokens import TokenCounter

Mode = Literal["incremental", "rebuild"]

# A run that would delete a larger share of a source's documents stops unless it is told that this is right.
MAX_DELETED_SHARE: Final = 0.30
# Texts of one shard: a pod's worth of embedding.
SHARD_TEXTS: Final = 2_000
SHARD_FOLDER: Final = "shards"
_LISTED_SKIPS: Final = 200


@dataclass(frozen=True, slots=True)
class SourceResult:
    """What the steps before brought of one source.

    Attributes:
        source: Name of the catalogue entry.
        status: ``ok``, or ``failed``: then its rows stay as they are.
        complete: Whether `chunks` holds every document of the source, so that what is missing there is gone. A fetch
            from a cursor on is not complete and deletes nothing.
        partial: Whether the run was asked for some documents of the source only: then it stands where it stood
            before, and the next whole run sees every change.
        reached_end: Whether the fetch read everything that there was (a crawl may stop early at a rate limit).
        revision: The head: commit or digest of the source.
        fingerprint: Digest of everything that the rows are made of; empty where nothing says what that is.
        cursor: Where the next fetch begins; recorded once the rows are verified.
        chunks: The chunks, as `artifacts` writes them.
        removed_documents: Documents that are known to be deleted.
        step: Which step failed.
        error: Why it failed.
        skipped: Documents that give no chunk, counted by reason.
        counts: Further counts, such as ``documents``, ``truncated``.
    """

    source: str
    status: Literal["ok", "failed"] = "ok"
    complete: bool = True
    partial: bool = False
    reached_end: bool = True
    revision: str = ""
    fingerprint: str = ""
    cursor: str = ""
    chunks: Path | None = None
    removed_documents: tuple[str, ...] = ()
    step: str = ""
    error: str = ""
    skipped: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether it was read."""
        return self.status == "ok"


@dataclass(frozen=True, slots=True)
class Failure:
    """A source that a run could not bring up to date."""

    source: str
    step: str
    error: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do.

    Attributes:
        run: Id of the run; its lease is under this name.
        alias: One of `schema.COLLECTIONS`.
        prefix: The environment's prefix.
        mode: Kind of run.
        reasons: Why it is a rebuild.
        live: Physical name of the version that is served, or "".
        target: Physical name of the version that is written, or "" where it does not exist yet.
        recipe: What the rows are made with.
        documents: By source, the number of documents that are added, changed, unchanged, deleted, and held now.
        rows: ``rows_wanted``, ``rows_to_write``, ``rows_to_delete``.
        to_embed: Texts that no held row has a vector for.
        reused: Texts whose vector is taken from held rows.
        shards: Files below `SHARD_FOLDER` with the texts to embed; at least one, which may be empty.
        failed: Sources whose rows stay as they are.
        orphans: Sources that are held and that the catalogue no longer lists.
        uncovered: Sources that are served and that a rebuild would lose, because this run does not bring them.
        guard: One line for each source of which too many documents would be deleted.
        skipped: Documents that cannot be stored, with the reason.
        catalogue_sources: Every source of the collection in the catalogue; None where the run covers only some.
        allow_deletions: Sources of which any number of documents may be deleted.
        max_deleted_share: Where the guard stops the run.
        settled: Fingerprints by source, where the served version is known to hold just what these sources bring, so
            that nothing was compared; empty where it was.
    """

    run: str
    alias: str
    prefix: str
    mode: Mode
    reasons: tuple[str, ...]
    live: str
    target: str
    recipe: Recipe
    documents: Mapping[str, Mapping[str, int]]
    rows: Mapping[str, int]
    to_embed: int
    reused: int
    shards: tuple[str, ...]
    failed: tuple[Failure, ...] = ()
    orphans: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()
    guard: tuple[str, ...] = ()
    skipped: tuple[Skip, ...] = ()
    catalogue_sources: tuple[str, ...] | None = None
    allow_deletions: tuple[str, ...] = ()
    max_deleted_share: float = MAX_DELETED_SHARE
    settled: Mapping[str, str] = field(default_factory=dict)

    @property
    def spec(self) -> CollectionSpec:
        """The collection."""
        return schema.collection_spec(self.alias)

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
        stop_where_guarded(self.served, self.guard)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Reads what `to_dict` wrote."""
        names = ("reasons", "shards", "orphans", "uncovered", "guard", "allow_deletions")
        texts: dict[str, Any] = {name: tuple(data[name]) for name in names}
        if data["catalogue_sources"] is not None:
            texts["catalogue_sources"] = tuple(data["catalogue_sources"])
        records = {
            "failed": tuple(Failure(**item) for item in data["failed"]),
            "skipped": tuple(Skip(**item) for item in data["skipped"]),
        }
        return cls(**{**data, **texts, **records, "recipe": Recipe.from_dict(data["recipe"])})


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
    """Compares what a run brought with what is held.

    Args:
        client: The connection.
        spec: The collection.
        results: What the steps before brought, a source each.
        prefix: The environment's prefix.
        recipe: What the chunks were made with.
        counter: Counts the tokens of rows written by people, which a new version needs to be embedded again.
        workdir: Where the shards (below `SHARD_FOLDER`) and scratch files go.
        mode: ``rebuild`` asks for a new version; ``incremental`` becomes one where it must.
        catalogue_sources: Every source of this collection in the catalogue; None where the run covers only some, so
            that a source that is held and not brought is none of its business.
        allow_deletions: Sources of which any number of documents may be deleted; a source that left the catalogue
            is deleted only when it is named here.
        max_deleted_share: Above this share of a source's documents the guard stops the run.
        shard_texts: Texts of one shard.
        run: Id of the run; made up where it is empty.

    Raises:
        StoreError: Milvus failed.
        ArtifactError: A chunk file is damaged.
    """
    backend = detect_backend(client)
    served = served_name(prefix, spec.alias)
    versions = list_versions(client, served)
    mode, reasons, live, target = resolve_mode(versions, spec, recipe, backend, mode)
    with Ledger(workdir / "plan", recipe.identity.dimension) as ledger:
        inputs = Inputs(client, spec, recipe, tuple(results), mode, live, counter)
        skipped = fill_ledger(ledger, inputs, target, catalogue_sources, allow_deletions)
        place = baseline(mode, live)
        held, documents = ledger.held_documents(place), ledger.documents(place)
        missing = ledger.missing_texts()
        counts = ledger.counts()
        shards = _write_shards(workdir / SHARD_FOLDER, ledger, inputs, missing, shard_texts)
        names = sorted({*held, *documents} - {MANUAL_SOURCE})
        return Plan(
            run=run or uuid.uuid4().hex,
            alias=spec.alias,
            prefix=prefix,
            mode=mode,
            reasons=reasons,
            live=live.name if live else "",
            target=target.name if target else "",
            recipe=recipe,
            documents={name: {**documents.get(name, {}), "held": held.get(name, 0)} for name in names},
            rows={name: counts[name] for name in ("rows_wanted", "rows_to_write", "rows_to_delete")},
            to_embed=len(missing),
            reused=counts["texts"] - len(missing),
            shards=shards,
            failed=failures_of(results),
            orphans=_orphans(held, catalogue_sources),
            uncovered=uncovered_sources(mode, held, results, allow_deletions),
            guard=guarded(held, documents, allow_deletions, max_deleted_share) if live else (),
            skipped=tuple(skipped[:_LISTED_SKIPS]),
            catalogue_sources=None if catalogue_sources is None else tuple(sorted(catalogue_sources)),
            allow_deletions=tuple(sorted(allow_deletions)),
            max_deleted_share=max_deleted_share,
        )


def resolve_mode(
    versions: list[Version], spec: CollectionSpec, recipe: Recipe, backend: Backend, asked: Mode
) -> tuple[Mode, tuple[str, ...], Version | None, Version | None]:
    """Decides the kind of run.

    Returns:
        The mode, why it is a rebuild, the live version and the version to write (None: it has to be created).
    """
    live = live_version(versions)
    if live is None:
        reasons: tuple[str, ...] = ("no version is served yet",)
    else:
        reasons = recipe_differences(live, spec, recipe, backend)
        if asked == "rebuild":
            reasons = ("asked for", *reasons)
    if live is not None and not reasons:
        return "incremental", (), live, live
    newest = live.number if live else 0
    candidates = [
        version
        for version in versions
        if not version.published and version.number > newest and not recipe_differences(version, spec, recipe, backend)
    ]
    return "rebuild", reasons, live, candidates[-1] if candidates else None


def recipe_differences(version: Version, spec: CollectionSpec, recipe: Recipe, backend: Backend) -> tuple[str, ...]:
    """Returns in words why rows of a recipe cannot join those of a version; empty where they can."""
    wanted = recipe_properties(recipe, spec, backend)
    names = {
        schema.SCHEMA_VERSION_KEY: "schema",
        schema.CHUNKER_VERSION_KEY: "chunker",
        schema.TOKEN_BUDGET_KEY: "token budget",
        schema.ANALYZER_KEY: "analyzer",
    }
    found = [
        f"{what} changed from {version.properties.get(key) or '(none)'} to {wanted[key]}"
        for key, what in names.items()
        if version.properties.get(key, "") != wanted[key]
    ]
    model = schema.model_difference(version.properties, recipe.identity)
    return (*found, f"model changed: {model}") if model else tuple(found)


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
    _, _, _, target = resolve_mode(versions, spec, recipe, detect_backend(client), mode)
    return target.prefixed(schema.CURSOR_PREFIX).get(source, "") if target else ""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that rows come from in one run.

    Attributes:
        client: The connection.
        spec: The collection.
        recipe: What the rows are made with.
        results: What was fetched and chunked.
        mode: Kind of run.
        live: The version that is served.
        counter: Counts the tokens of rows that were written by people, whose embedding text is not stored; None where
            those rows keep their vectors.
    """

    client: MilvusClient
    spec: CollectionSpec
    recipe: Recipe
    results: tuple[SourceResult, ...]
    mode: Mode
    live: Version | None
    counter: TokenCounter | None

    @property
    def moves_manual_rows(self) -> bool:
        """Whether rows written by people have to be embedded again for a new version."""
        return self.mode == "rebuild" and self.live is not None and not self.live.same_model(self.recipe.identity)


@dataclass(frozen=True, slots=True)
class WantedRow:
    """A row that the target shall hold, with the text of its vector."""

    row: dict[str, Any]
    embedding_text: str


def wanted_rows(inputs: Inputs, refused: list[Skip] | None = None) -> Iterator[WantedRow]:
    """Streams every row that this run wants, in a fixed order.

    Args:
        inputs: Where rows come from.
        refused: Gets the documents of which a row cannot be stored; None passes over such rows silently, for the
            passes after the first.

    Raises:
        ArtifactError: A chunk file is damaged.
        InvalidArgument: A catalogue entry has the reserved name.
    """
    for result in inputs.results:
        if not result.ok or result.chunks is None:
            continue
        if result.source == MANUAL_SOURCE:
            raise InvalidArgument(
                f"A source cannot be named {MANUAL_SOURCE!r}", remedy="Rename it in the catalogue", argument="source"
            )
        for chunk in read_chunks(result.chunks):
            try:
                if chunk.source != result.source:
                    raise InvalidRow(
                        f"Row {chunk.id!r} is of source {chunk.source!r}, not {result.source!r}", field="source"
                    )
                row = to_row(inputs.spec, chunk)
            except InvalidRow as error:
                if refused is not None:
                    reason = f"invalid_row:{error.fields.get('field', '')}"
                    refused.append(Skip(chunk.document_id, chunk.file_path, reason, error.problem))
                continue
            yield WantedRow(row, chunk.embedding_text)
    if inputs.moves_manual_rows:
        yield from _manual_rows(inputs)


def _manual_rows(inputs: Inputs) -> Iterator[WantedRow]:
    assert inputs.live is not None
    if inputs.counter is None:
        raise InvalidArgument("Rows written by people need a token counter to be embedded again", argument="counter")
    budget = Budget(inputs.counter, inputs.recipe.token_budget)
    fields = [field.name for field in inputs.spec.fields]
    where = f"source == {text_literal(MANUAL_SOURCE)}"
    ensure_loaded(inputs.client, inputs.live.name)
    for page in scan(inputs.client, inputs.live.name, fields, where):
        for held in page:
            row = stored_row(inputs.spec, held)
            header = budget.header(row["title"], row["section_path"])
            text, _ = budget.embedding_text(header, row["content_text"])
            yield WantedRow({**row, "embedding_hash": hashlib.sha256(text.encode()).hexdigest()}, text)


def fill_ledger(
    ledger: Ledger,
    inputs: Inputs,
    target: Version | None,
    catalogue_sources: Collection[str] | None,
    allow_deletions: Collection[str],
    areas: Counter[str] | None = None,
    *,
    keep: bool = False,
) -> list[Skip]:
    """Notes what is wanted and what is held, and compares.

    Args:
        ledger: Where to.
        inputs: Where rows come from.
        target: The version that is written, if it exists.
        catalogue_sources: As in `plan_sync`.
        allow_deletions: As in `plan_sync`.
        areas: Gets the number of wanted rows by product area.
        keep: Whether to keep the rows on disk, because most of them will be written.

    Returns:
        Documents that cannot be stored.
    """
    skipped: list[Skip] = []
    for result in inputs.results:
        if result.ok:
            ledger.fetch(result.source, complete=result.complete)
            ledger.remove(result.source, result.removed_documents)
    for wanted in wanted_rows(inputs, skipped):
        row = wanted.row
        ledger.want(row["id"], row["document_id"], row["source"], row["row_hash"], row["embedding_hash"])
        if keep:
            ledger.keep(row)
        if areas is not None:
            areas.update(row["product_area"] or ("(none)",))
    for skip in skipped:
        ledger.refuse(skip.document_id)
    live = inputs.live
    for place, version in ((TARGET, target), (SERVED, live)):
        if version is None or (place == SERVED and inputs.mode == "incremental"):
            continue
        # A vector of another model is no vector of this text.
        reusable = version.same_model(inputs.recipe.identity)
        ensure_loaded(inputs.client, version.name)
        with store_errors(version.name):
            for page in scan(inputs.client, version.name, HELD_FIELDS):
                ledger.hold(place, page if reusable else [{**row, "embedding_hash": ""} for row in page])
    for place in (TARGET, SERVED):
        for source in _sources_to_drop(ledger, inputs, target, place, catalogue_sources, allow_deletions):
            ledger.drop_source(place, source)
    ledger.index()
    ledger.decide(TARGET)
    if inputs.mode == "rebuild":
        ledger.decide(SERVED)
    return _one_per_document(skipped)


def _sources_to_drop(
    ledger: Ledger,
    inputs: Inputs,
    target: Version | None,
    place: int,
    catalogue_sources: Collection[str] | None,
    allow_deletions: Collection[str],
) -> Iterator[str]:
    held = ledger.held_documents(place).keys() - {MANUAL_SOURCE}
    brought = {result.source for result in inputs.results if result.ok}
    for source in held - brought:
        left = catalogue_sources is not None and source not in catalogue_sources
        if place == TARGET and target is not None and not target.live:
            # An unfinished candidate may hold part of a source; what its last run verified has a head.
            if left or source not in target.prefixed(schema.HEAD_PREFIX):
                yield source
        elif left and source in allow_deletions:
            yield source


def _one_per_document(skipped: list[Skip]) -> list[Skip]:
    return list({skip.document_id: skip for skip in reversed(skipped)}.values())[::-1]


def baseline(mode: Mode, live: Version | None) -> int:
    """Returns which held collection a run is compared with: what readers see, if they see anything."""
    return SERVED if mode == "rebuild" and live is not None else TARGET


def guarded(
    held: Mapping[str, int],
    documents: Mapping[str, Mapping[str, int]],
    allow_deletions: Collection[str],
    max_deleted_share: float,
) -> tuple[str, ...]:
    """Returns one line for each source of which too many documents would be deleted."""
    lines = []
    for source, states in documents.items():
        deleted, total = states.get("deleted", 0), held.get(source, 0)
        if source not in allow_deletions and deleted > total * max_deleted_share:
            lines.append(f"{deleted} of {total} documents of source {source} would be deleted")
    return tuple(lines)


def stop_where_guarded(served: str, lines: tuple[str, ...]) -> None:
    """Stops a run that would delete too much.

    Raises:
        DeletionGuard: There are lines.
    """
    if lines:
        raise DeletionGuard(
            f"{served}: " + "; ".join(lines),
            remedy="Check that the source is read from the right place; if the deletions are right, run again with "
            "--allow-deletions SOURCE",
            failures=lines,
        )


def failures_of(results: Sequence[SourceResult]) -> tuple[Failure, ...]:
    """Returns the sources that could not be read."""
    return tuple(Failure(result.source, result.step or "fetch", result.error) for result in results if not result.ok)


def _orphans(held: Mapping[str, int], catalogue_sources: Collection[str] | None) -> tuple[str, ...]:
    if catalogue_sources is None:
        return ()
    return tuple(sorted(held.keys() - set(catalogue_sources) - {MANUAL_SOURCE}))


def uncovered_sources(
    mode: Mode, held: Mapping[str, int], results: Sequence[SourceResult], allow_deletions: Collection[str]
) -> tuple[str, ...]:
    """Returns the served sources that a rebuild would lose, because this run does not bring all of them."""
    if mode == "incremental":
        return ()
    brought = {result.source for result in results if result.ok and result.reached_end}
    return tuple(sorted(held.keys() - brought - set(allow_deletions) - {MANUAL_SOURCE}))


def _write_shards(folder: Path, ledger: Ledger, inputs: Inputs, missing: set[str], shard_texts: int) -> tuple[str, ...]:
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.iterdir():
        leftover.unlink()
    texts = _texts(inputs, set(missing))
    # KFP's ParallelFor fails over an empty list, so there is always one shard.
    count = max(1, math.ceil(len(missing) / shard_texts))
    names = []
    for number in range(count):
        names.append(f"texts-{number:04d}.jsonl.zst")
        write_jsonl(folder / names[-1], (text for _, text in zip(range(shard_texts), texts, strict=False)))
    return tuple(names)


def _texts(inputs: Inputs, missing: set[str]) -> Iterator[dict[str, str]]:
    if not missing:
        return
    for wanted in wanted_rows(inputs):
        text_hash = wanted.row["embedding_hash"]
        if text_hash in missing:
            missing.discard(text_hash)
            yield {"embedding_hash": text_hash, "embedding_text": wanted.embedding_text}


def skips_by_reason(skipped: Sequence[Skip], results: Sequence[SourceResult]) -> dict[str, int]:
    """Returns how many documents give no row, by reason, over all steps."""
    total: Counter[str] = Counter(skip.reason for skip in skipped)
    for result in results:
        total.update(result.skipped)
    return dict(sorted(total.items()))
