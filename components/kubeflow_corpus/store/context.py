"""What a run of one collection works on: what its sources gave, between which versions, and how they were resolved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypedDict

from kubeflow_corpus.collections import CollectionSpec
from kubeflow_corpus.milvus import detect_backend
from kubeflow_corpus.model import Recipe
from kubeflow_corpus.records import FailedDocument
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.versions import Version, live_version, recipe_properties

if TYPE_CHECKING:
    from pymilvus import MilvusClient

    from kubeflow_corpus.tokens import TokenCounter

Mode = Literal["incremental", "rebuild"]

# A run that would delete a larger share of a source's documents stops, unless the run allows it for that source.
MAX_DELETED_SHARE: Final = 0.30


@dataclass(frozen=True, slots=True)
class SourceResult:
    """What the earlier steps of a run got from one source.

    Attributes:
        source: Name of the catalogue entry.
        status: ``ok``, or ``failed``: then its rows stay as they are.
        complete: Whether `chunks` holds every document of the source, so that what is missing there is gone. A fetch
            from a cursor on is not complete and deletes nothing.
        partial: Whether the run was asked for some documents of the source only: its head and cursor then stay, so
            that the next whole run sees every change.
        reached_end: Whether the fetch read everything that there was (a crawl may stop early at a rate limit).
        revision: The head: commit or digest of the source.
        fingerprint: Digest of everything that the rows are made of; empty where it is not known.
        cursor: Where the next fetch begins; recorded once the rows are verified.
        chunks: The chunks, as `artifacts` writes them.
        removed_documents: Documents that are known to be deleted.
        failed_documents: Keys of documents that could not be read or cut: what is stored of them stays.
        step: Which step failed.
        error: Why it failed.
        skipped: Documents without a chunk, counted by reason.
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
    failed_documents: tuple[str, ...] = ()
    step: str = ""
    error: str = ""
    skipped: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the source was read."""
        return self.status == "ok"

    @property
    def settles(self) -> bool:
        """Whether a version that holds these rows holds the whole source at one revision."""
        return self.ok and self.complete and self.reached_end and bool(self.fingerprint)


class FailedSource(TypedDict):
    """A source that a run could not bring up to date, in the words of its record."""

    source: str
    step: str
    error: str


@dataclass(frozen=True, slots=True)
class VersionChoice:
    """Which kind of run it is, and between which versions.

    Attributes:
        mode: Kind of run.
        reasons: Why it is a rebuild.
        live: The version that is served, if any is.
        target: The version that is written; None where it has to be created.
    """

    mode: Mode
    reasons: tuple[str, ...] = ()
    live: Version | None = None
    target: Version | None = None

    @property
    def live_name(self) -> str:
        """Physical name of the version that is served, or ""."""
        return self.live.name if self.live else ""


@dataclass(frozen=True, slots=True)
class RunContext:
    """What every part of one run of a collection shares.

    Attributes:
        client: The connection.
        spec: The collection.
        served: Its alias with the environment's prefix.
        recipe: What the rows are made with.
        results: What the sources gave.
        resolution: Kind of run, and its versions.
        counter: Counts the tokens of rows that were written by people, whose embedding text is not stored; None where
            those rows keep their vectors.
        catalogue_sources: Every source of the collection in the catalogue; None where the run covers only some.
        allow_deletions: Sources of which any number of documents may be deleted.
        max_deleted_share: Where the guard stops the run.
        not_embedded: Why texts have no vector although they were to be embedded, by embedding hash: documents with
            such a text are refused.
    """

    client: MilvusClient
    spec: CollectionSpec
    served: str
    recipe: Recipe
    results: tuple[SourceResult, ...]
    resolution: VersionChoice = VersionChoice("incremental")
    counter: TokenCounter | None = None
    catalogue_sources: Collection[str] | None = None
    allow_deletions: Collection[str] = ()
    max_deleted_share: float = MAX_DELETED_SHARE
    not_embedded: Mapping[str, str] = field(default_factory=dict)

    @property
    def rebuilds(self) -> bool:
        """Whether the run writes a new version."""
        return self.resolution.mode == "rebuild"

    @property
    def live(self) -> Version | None:
        """The version that is served."""
        return self.resolution.live

    @property
    def moves_manual_rows(self) -> bool:
        """Whether rows written by people have to be embedded again for a new version."""
        return self.rebuilds and self.live is not None and not self.live.same_model(self.recipe.identity)

    @property
    def read_sources(self) -> set[str]:
        """Names of the sources that were read."""
        return {result.source for result in self.results if result.ok}

    def has_left(self, source: str) -> bool:
        """Whether a source is not in the catalogue any more, as far as this run can tell."""
        return self.catalogue_sources is not None and source not in self.catalogue_sources


def resolve(
    client: MilvusClient, spec: CollectionSpec, recipe: Recipe, versions: Sequence[Version], asked: Mode
) -> VersionChoice:
    """Decides on the kind of run: one that was asked to be incremental becomes a rebuild where it must.

    Args:
        client: The connection.
        spec: The collection.
        recipe: What the rows of the run are made with.
        versions: Every version of the collection, the oldest first.
        asked: What was asked for.
    """
    properties = recipe_properties(recipe, spec, detect_backend(client))
    live = live_version(versions)
    reasons: tuple[str, ...] = ("no version is served yet",)
    if live is not None:
        reasons = recipe_differences(live, recipe, properties)
        if asked == "rebuild":
            reasons = ("asked for", *reasons)
        if not reasons:
            return VersionChoice("incremental", (), live, live)
    newest = live.number if live else 0
    candidates = [
        version
        for version in versions
        if not version.published and version.number > newest and not recipe_differences(version, recipe, properties)
    ]
    return VersionChoice("rebuild", reasons, live, candidates[-1] if candidates else None)


def recipe_differences(version: Version, recipe: Recipe, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Returns in words why rows of a recipe cannot join those of a version; empty where they can.

    Args:
        version: The version.
        recipe: What the rows are made with.
        properties: What a version of that recipe records.
    """
    names = {
        schema.SCHEMA_VERSION_KEY: "schema",
        schema.CHUNKER_VERSION_KEY: "chunker",
        schema.TOKEN_BUDGET_KEY: "token budget",
        schema.ANALYZER_KEY: "analyzer",
    }
    found = [
        f"{what} changed from {version.properties.get(key) or '(none)'} to {properties[key]}"
        for key, what in names.items()
        if version.properties.get(key, "") != properties[key]
    ]
    model = schema.model_difference(version.properties, recipe.identity)
    return (*found, f"model changed: {model}") if model else tuple(found)


def failed_sources(results: Iterable[SourceResult]) -> tuple[FailedSource, ...]:
    """Returns the sources that could not be read."""
    return tuple(
        FailedSource(source=result.source, step=result.step or "fetch", error=result.error)
        for result in results
        if not result.ok
    )


def skips_by_reason(refused: Iterable[FailedDocument], results: Iterable[SourceResult]) -> dict[str, int]:
    """Returns how many documents give no row, by reason, over all steps."""
    total: Counter[str] = Counter(document.reason for document in refused)
    for result in results:
        total.update(result.skipped)
    return dict(sorted(total.items()))


def summed_counts(results: Iterable[SourceResult]) -> dict[str, int]:
    """Returns the further counts of the steps before, over all sources."""
    total: Counter[str] = Counter()
    for result in results:
        total.update(result.counts)
    return dict(sorted(total.items()))
