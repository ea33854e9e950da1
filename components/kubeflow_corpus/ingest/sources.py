"""The steps of a run that read sources: which there are, where each stands, and its documents."""

from __future__ import annotations

import hashlib
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubeflow_corpus.artifacts import write_jsonl
from kubeflow_corpus.collections import find_collection
from kubeflow_corpus.file_context import depends_on_others, explains_others
from kubeflow_corpus.ingest.build import build_digest
from kubeflow_corpus.ingest.failed import with_failed, write_failed
from kubeflow_corpus.ingest.options import Runner, RunOptions
from kubeflow_corpus.ingest.patterns import PatternWatch
from kubeflow_corpus.ingest.results import RowInputs, SourceState, StepResult, by_reason
from kubeflow_corpus.ingest.run_report import with_examples
from kubeflow_corpus.ingest.step import AROUND_FILE, ROWS_FILE, SKIPS_FILE, Work, attempt, read_result, run_step
from kubeflow_corpus.ingest.words import write_vocabulary
from kubeflow_corpus.records import Document, FailedDocument, Skip
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.sources import checkout
from kubeflow_corpus.sources.catalogue import Source, load_catalogue
from kubeflow_corpus.sources.checkout import Revision
from kubeflow_corpus.sources.github import crawl
from kubeflow_corpus.sources.github.crawl import Fetched
from kubeflow_corpus.sources.github.cursor import Cursor
from kubeflow_corpus.sources.named import named_documents, parse_named, section_pages


def list_sources(collection: str, options: Mapping[str, Any], run: str, target: str) -> StepResult:
    """Begins a run: reads its options and lists the sources of a collection.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        options: What the run is asked for, as a mapping that `RunOptions` reads.
        run: Name of the run where the options have none.
        target: Folder for the result, which has the names.
    """
    return run_step(StepResult(collection=collection, step="list_sources", run=run), target, _list_sources, options)


def _list_sources(work: Work[StepResult], data: Mapping[str, Any]) -> StepResult:
    options, before = RunOptions.from_dict(data), work.before
    known = load_catalogue(options.catalogue)
    named = named_documents(known, options.changed_paths, sources=options.sources, rebuild=options.rebuild)
    chosen = choose_sources(options.catalogue, before.collection, options.sources)
    names = tuple(source.name for source in chosen if not named or source.name in named)
    work.watch.count(sources=len(names))
    return replace(before, options=options, run=options.run or before.run, names=names)


def choose_sources(catalogue: str, collection: str, names: Sequence[str]) -> tuple[Source, ...]:
    """Returns the sources of a collection, of those that are named at all.

    In a run over all collections a name belongs to one of them: the others then have no source, which is not an error.

    Raises:
        CatalogueError: The catalogue is wrong, or a name is not in it.
    """
    chosen = load_catalogue(catalogue).select("", names)
    wanted = find_collection(collection).catalogue_type
    return tuple(source for source in chosen if source.type == wanted)


def resolve_revision(source: str, state: str) -> SourceState:
    """Finds where a source stands now; its JSON is the key by which `fetch` is cached.

    Args:
        source: Name of the source; `NO_SOURCE` where the collection has none.
        state: Folder that `read_state` wrote.
    """
    known = read_result(state)
    start = SourceState(
        collection=known.collection,
        step="resolve_revision",
        status="ok" if source and known.ok else "none",
        source=source,
        catalogue=known.options.catalogue,
        build=build_digest(),
    )
    if start.ok and known.options.changed_paths:
        # Part of the key of the cache, and also there where the source turns out to be out of reach.
        start = replace(start, named=parse_named(known.options.changed_paths).get(source, ()))
    return attempt(start, Path(state), _resolve_revision, known)


def _resolve_revision(work: Work[SourceState], known: StepResult) -> SourceState:
    before, collection = work.before, work.before.collection
    source = choose_sources(before.catalogue, collection, [before.source])[0]
    # Changed words of the project make other rows of the same documents.
    words = load_catalogue(before.catalogue).vocabulary.digest
    entry = hashlib.sha256(f"{source!r} {words}".encode()).hexdigest()
    attempt_id = _attempt_id(known.failed_in.get(source.name, ""), known.options.runner)
    if collection == "issues":
        return replace(before, attempt=attempt_id, inputs=RowInputs(known.made_with, entry))
    every = choose_sources(before.catalogue, collection, ()) if collection == "code" else ()
    repos = tuple(sorted({other.repo for other in every}))
    revision = checkout.resolve_revision(source)
    inputs = RowInputs(known.made_with, entry, revision.commit, repos)
    return replace(before, attempt=attempt_id, committed_at=revision.committed_at, inputs=inputs)


def _attempt_id(failed_in: str, runner: Runner) -> str:
    """Returns what tells a new attempt from an earlier one at the same commit.

    A failure that a step returns is a result like any other to KFP's cache, which cannot be told to forget it: after a
    failure the key names the run that failed, and on a cluster a result is good for a day. The local runner removes
    failures from its cache itself.
    """
    return failed_in if failed_in or runner == "local" else f"{datetime.now(UTC):%Y-%m-%d}"


def fetch(resolved: str, target: str) -> SourceState:
    """Fetches the documents of a source.

    Args:
        resolved: JSON of what `resolve_revision` returned.
        target: Folder for documents, skips and the result.
    """
    return run_step(SourceState.from_json(resolved).begin("fetch"), target, _fetch)


def _fetch(work: Work[SourceState]) -> SourceState:
    before = work.before
    source = choose_sources(before.catalogue, before.collection, [before.source])[0]
    write_vocabulary(work.folder, load_catalogue(before.catalogue).vocabulary)
    revision = Revision(before.made_of.revision, before.committed_at)
    with tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as workdir:
        if before.named is None:
            patterns = PatternWatch(source)
            fetched = write_documents(work, patterns.track(checkout.fetch_documents(source, revision, Path(workdir))))
            return replace(fetched, alarms=(*fetched.alarms, *patterns.alarms()))
        named = frozenset(before.named)
        return write_documents(work, _named_documents(source, revision, named, Path(workdir), work.folder))


def _named_documents(
    source: Source, revision: Revision, named: frozenset[str], workdir: Path, folder: Path
) -> Iterator[Document | Skip]:
    """Yields the documents that are asked for, and keeps beside them what their rows depend on in other files."""
    around: list[Document] = []
    depends = False
    above = section_pages(named, source.site.generator if source.site else "")
    for item in checkout.fetch_documents(source, revision, workdir, named=named | above):
        if item.path in named:
            depends = depends or (isinstance(item, Document) and depends_on_others(item))
            yield item
        elif isinstance(item, Document):
            around.append(item)
    # Go types explain a CRD, of several copies one is shown, and a constant is defined elsewhere: only the whole
    # repository says what the rows are.
    every: Iterable[Document | Skip] = checkout.fetch_documents(source, revision, workdir) if depends else around
    others = (item for item in every if isinstance(item, Document) and item.path not in named)
    write_jsonl(folder / AROUND_FILE, (item.to_dict() for item in others if not depends or explains_others(item)))


def fetch_threads(resolved: str, state: str, target: str) -> SourceState:
    """Fetches the issue threads of a source that changed since the last run.

    Args:
        resolved: JSON of what `resolve_revision` returned.
        state: Folder that `read_state` wrote: it has the cursors.
        target: Folder for documents, skips and the result, which has the next cursor.
    """
    return run_step(SourceState.from_json(resolved).begin("fetch"), target, _fetch_threads, state)


def _fetch_threads(work: Work[SourceState], state: str) -> SourceState:
    before, settings = work.before, Settings.from_env()
    source = choose_sources(before.catalogue, "issues", [before.source])[0]
    write_vocabulary(work.folder, load_catalogue(before.catalogue).vocabulary)
    known = read_result(state)
    cursor = Cursor.from_text(known.cursors.get(source.name, ""))
    # Threads at which the last run failed behind this step: its cursor has passed them.
    again = {int(key.rpartition(":")[2]) for key in known.retry.get(source.name, ())}
    cursor = replace(cursor, pending=tuple(sorted({*cursor.pending, *again})))
    if before.named is None:
        items = crawl.fetch_threads(source, settings, cursor)
    else:
        items = crawl.fetch_named_threads(source, settings, cursor, map(int, before.named))
    ends: deque[Fetched] = deque(maxlen=1)
    fetched = write_documents(work, _threads(items, ends))
    end = ends.pop()
    removed = tuple(skip.document_id for skip in end.removed)
    if end.error is not None and not fetched.counts["documents"] and not removed:
        raise end.error
    work.watch.count(**end.counts)
    return replace(
        fetched,
        counts={**fetched.counts, **end.counts},
        cursor=end.cursor.to_text(),
        removed=removed,
        complete=end.complete,
        reached_end=end.error is None,
        # What was read is good and is kept, the next run goes on behind it; but somebody has to know that this one
        # stopped.
        alarms=() if end.error is None else (str(end.error),),
    )


def _threads(
    items: Iterable[Document | Skip | FailedDocument | Fetched], ends: deque[Fetched]
) -> Iterator[Document | Skip | FailedDocument]:
    """Yields what was crawled; how the crawl ended, its last item, goes into `ends`."""
    for item in items:
        if isinstance(item, Fetched):
            ends.append(item)
        else:
            yield item


def write_documents(work: Work[SourceState], items: Iterable[Document | Skip | FailedDocument]) -> SourceState:
    """Streams documents into a step's folder and keeps what was skipped or failed beside them.

    Returns:
        The state with the number of documents, and of skipped files by reason.
    """
    skips: list[Skip] = []
    failed: list[FailedDocument] = []
    count = write_jsonl(work.folder / ROWS_FILE, _documents(work.watch.track(items, "files"), skips, failed))
    write_failed(work.folder, failed)
    write_jsonl(work.folder / SKIPS_FILE, (skip.to_dict() for skip in skips))
    fetched = with_failed(replace(work.before, counts={"documents": count}, skipped=by_reason(skips)), failed)
    work.watch.count(**fetched.figures)
    return with_examples(fetched, skips)


def _documents(
    items: Iterable[Document | Skip | FailedDocument], skips: list[Skip], failed: list[FailedDocument]
) -> Iterator[dict[str, Any]]:
    for item in items:
        if isinstance(item, Skip):
            skips.append(item)
        elif isinstance(item, FailedDocument):
            failed.append(item)
        else:
            yield item.to_dict()
