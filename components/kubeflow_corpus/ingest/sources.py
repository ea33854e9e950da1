"""The steps of a run that read sources: which there are, where each stands, and its documents."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kubeflow_corpus.artifacts import write_jsonl
from kubeflow_corpus.custom_resources import defines_crd, explains_crds
from kubeflow_corpus.ingest.model import recipe_facts, recipe_of
from kubeflow_corpus.ingest.outcomes import (
    AROUND_FILE,
    CURSORS_FILE,
    NAMED,
    ROWS_FILE,
    SKIPPED,
    SKIPS_FILE,
    THREADS_FILE,
    Outcome,
    attempt,
    fresh_folder,
    hand_on,
    read_json,
    read_outcome,
    skip_counts,
    write_json,
)
from kubeflow_corpus.ingest.progress import EVENTS_VARIABLE, StepWatch, step
from kubeflow_corpus.records import Document, Skip
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.sources.catalogue import Source, load_catalogue
from kubeflow_corpus.sources.checkout import Revision, fetch_documents, resolve_revision
from kubeflow_corpus.sources.github.crawl import Fetched, fetch_named_threads, fetch_threads
from kubeflow_corpus.sources.github.cursor import Cursor
from kubeflow_corpus.sources.named import named_documents, parse_named, section_pages

# Collection, as the pipelines name it, to the type of source that fills it.
SOURCE_TYPES: Final = {"docs": "docs", "issues": "issue", "code": "code"}


def list_sources(
    catalogue: str,
    collection: str,
    names: Sequence[str],
    target: str,
    changed_paths: Sequence[str] = (),
    rebuild: bool = False,
) -> list[str]:
    """Returns the names of the sources of a collection.

    A loop over nothing has no result to collect, so no source at all is one source without a name.

    Args:
        catalogue: Path of the catalogue; empty is the packaged one.
        collection: ``docs``, ``issues`` or ``code``.
        names: Only these; empty is every source of the collection.
        target: Folder for the outcome.
        changed_paths: Only these documents, and the sources that they are of; empty is whole sources.
        rebuild: Whether a new version was asked for.
    """
    chosen: list[str] = []

    def work() -> Outcome:
        with step("list_sources", collection=collection) as watch:
            named = named_documents(load_catalogue(catalogue), changed_paths, sources=names, rebuild=rebuild)
            sources = choose_sources(catalogue, collection, names)
            chosen.extend(source.name for source in sources if not named or source.name in named)
            watch.count(sources=len(chosen))
        return Outcome("", "list_sources")

    hand_on(fresh_folder(target), Outcome("", "list_sources"), work)
    return chosen or [""]


def choose_sources(catalogue: str, collection: str, names: Sequence[str]) -> tuple[Source, ...]:
    """Returns the sources of a collection, of those that are named at all.

    In a run over all collections a name belongs to one of them: the others then have no source, which is no error.

    Raises:
        CatalogueError: The catalogue is wrong, or a name is not in it.
    """
    chosen = load_catalogue(catalogue).select("", names)
    return tuple(source for source in chosen if source.type == SOURCE_TYPES[collection])


def resolve_source(catalogue: str, collection: str, name: str, state: str, changed_paths: Sequence[str] = ()) -> str:
    """Returns where a source stands now, as the JSON of an `Outcome`: the key by which `fetch` is cached.

    Args:
        catalogue: Path of the catalogue; empty is the packaged one.
        collection: ``docs``, ``issues`` or ``code``.
        name: Name of the source; empty where the collection has none.
        state: Folder that `read_state` wrote.
        changed_paths: Only these documents, of this source or others; empty is whole sources.
    """
    held = read_outcome(Path(state))
    start = Outcome(name, "resolve_revision", "ok" if name and held.ok else "none")
    if start.ok and changed_paths:
        # Part of the key of the cache, and also there where the source turns out to be out of reach.
        start = replace(start, facts={NAMED: json.dumps(parse_named(changed_paths).get(name, ()))})

    def work() -> Outcome:
        with step("resolve_revision", collection=collection, item=name):
            return replace(start, facts={**start.facts, **_facts(catalogue, collection, name, held)})

    return attempt(start, work).to_json()


def _facts(catalogue: str, collection: str, name: str, held: Outcome) -> dict[str, str]:
    source = choose_sources(catalogue, collection, [name])[0]
    # A changed entry (other globs, other product areas) makes other documents of the same commit.
    # What the rows are cut to travels with the source: KFP's local runner replaces a parameter from outside a loop by
    # the item of the loop, and an artifact from outside would be part of the cache's key.
    facts = {**recipe_facts(recipe_of(held)), "entry": hashlib.sha256(repr(source).encode()).hexdigest()}
    if attempt_of := _attempt(held.facts.get(f"failed:{name}", "")):
        facts["attempt"] = attempt_of
    if collection == "issues":
        return facts
    if collection == "code":
        # Of several copies of a CRD the owner's is kept, where the owner is in the catalogue at all.
        every = choose_sources(catalogue, collection, ())
        facts["repos"] = ",".join(sorted({other.repo for other in every}))
    revision = resolve_revision(source)
    return {**facts, "revision": revision.commit, "committed_at": revision.committed_at}


def _attempt(failed_in: str) -> str:
    """Returns what tells a new attempt from an earlier one at the same commit.

    A failure that is handed on is a result like any other to KFP's cache, which cannot be told to forget it: after a
    failure the key names the run that failed, and on a cluster a result is good for a day. The local runner removes
    failures from its cache itself.
    """
    if failed_in or EVENTS_VARIABLE in os.environ:
        return failed_in
    return f"{datetime.now(UTC):%Y-%m-%d}"


def fetch_source(catalogue: str, collection: str, resolved: str, target: str) -> dict[str, Any]:
    """Writes the documents of a source, or why there are none.

    Args:
        catalogue: Path of the catalogue; empty is the packaged one.
        collection: ``docs``, ``issues`` or ``code``.
        resolved: What `resolve_source` returned.
        target: Folder for documents, skips and outcome.

    Returns:
        Metadata for the artifact.
    """
    outcome = Outcome.from_json(resolved).begin("fetch")
    folder = fresh_folder(target)

    def work() -> Outcome:
        source = choose_sources(catalogue, collection, [outcome.source])[0]
        with step("fetch", collection=collection, item=source.name) as watch:
            return _fetch_checkout(source, outcome, folder, watch)

    return hand_on(folder, outcome, work).metadata()


def _fetch_checkout(source: Source, outcome: Outcome, folder: Path, watch: StepWatch) -> Outcome:
    revision = Revision(outcome.facts["revision"], outcome.facts["committed_at"])
    named = outcome.named
    with tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as workdir:
        if named is None:
            items: Iterable[Document | Skip] = fetch_documents(source, revision, Path(workdir))
        else:
            items = _named_documents(source, revision, frozenset(named), Path(workdir), folder)
        counts = write_documents(folder, items, watch)
    watch.count(**counts)
    return outcome.add(counts)


def _named_documents(
    source: Source, revision: Revision, named: frozenset[str], workdir: Path, folder: Path
) -> Iterator[Document | Skip]:
    """Yields the documents that are asked for, and keeps beside them what their rows depend on in other files."""
    around: list[Document] = []
    defines = False
    above = section_pages(named, source.site.generator if source.site else "")
    for item in fetch_documents(source, revision, workdir, named=named | above):
        if item.path in named:
            defines = defines or (isinstance(item, Document) and defines_crd(item))
            yield item
        elif isinstance(item, Document):
            around.append(item)
    # Go types explain a CRD, and of several copies one is shown: only the whole repository says what its rows are.
    every: Iterable[Document | Skip] = fetch_documents(source, revision, workdir) if defines else around
    others = (item for item in every if isinstance(item, Document) and item.path not in named)
    write_jsonl(folder / AROUND_FILE, (item.to_dict() for item in others if not defines or explains_crds(item)))


def fetch_source_threads(catalogue: str, resolved: str, state: str, target: str) -> dict[str, Any]:
    """Writes the issue threads of a source that changed since the last run.

    Args:
        catalogue: Path of the catalogue; empty is the packaged one.
        resolved: What `resolve_source` returned.
        state: Folder that `read_state` wrote: it holds the cursors.
        target: Folder for documents, skips, cursor and outcome.

    Returns:
        Metadata for the artifact.
    """
    outcome = Outcome.from_json(resolved).begin("fetch")
    folder = fresh_folder(target)

    def work() -> Outcome:
        source = choose_sources(catalogue, "issues", [outcome.source])[0]
        with step("fetch", collection="issues", item=source.name) as watch:
            cursor = Cursor.from_text(read_json(Path(state) / CURSORS_FILE).get(source.name, ""))
            if outcome.named is None:
                threads = fetch_threads(source, Settings.from_env(), cursor)
            else:
                threads = fetch_named_threads(source, Settings.from_env(), cursor, map(int, outcome.named))
            return _fetch_threads(threads, outcome, folder, watch)

    return hand_on(folder, outcome, work).metadata()


def _fetch_threads(
    items: Iterable[Document | Skip | Fetched], outcome: Outcome, folder: Path, watch: StepWatch
) -> Outcome:
    ends: list[Fetched] = []

    def threads() -> Iterator[Document | Skip]:
        # What the crawl says about waits goes into the log of the step.
        for item in items:
            if isinstance(item, Fetched):
                ends.append(item)
            else:
                yield item

    counts = write_documents(folder, threads(), watch)
    end = ends[-1]
    counts.update(end.counts)
    removed = [skip.document_id for skip in end.removed]
    if end.error is not None and not counts["documents"] and not removed:
        raise end.error
    write_json(str(folder / THREADS_FILE), {"cursor": end.cursor.to_text(), "removed": removed})
    watch.count(**counts)
    facts = {"complete": str(end.complete), "reached_end": str(end.error is None)}
    # What was read is good and is kept, the next run goes on behind it; but somebody has to know that this one stopped.
    alarms = () if end.error is None else (str(end.error),)
    return replace(outcome.add(counts), facts={**outcome.facts, **facts}, alarms=alarms)


def write_documents(folder: Path, items: Iterable[Document | Skip], watch: StepWatch) -> dict[str, int]:
    """Streams documents into a step's folder and keeps what was skipped beside them.

    Returns:
        How many documents there are and how many files were skipped, in all and by reason.
    """
    skips: list[Skip] = []

    def documents() -> Iterator[dict[str, Any]]:
        for item in watch.track(items, "files"):
            if isinstance(item, Skip):
                skips.append(item)
            else:
                yield item.to_dict()

    count = write_jsonl(folder / ROWS_FILE, documents())
    write_jsonl(folder / SKIPS_FILE, (skip.to_dict() for skip in skips))
    return {"documents": count, **skip_counts(skips, SKIPPED)}
