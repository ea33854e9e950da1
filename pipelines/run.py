"""``kubeflow-corpus run``: a pipeline on this machine, or what it would do."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kubeflow_corpus.collections import find_collection
from kubeflow_corpus.errors import CatalogueError, RunFailed, SettingsError
from kubeflow_corpus.ingest.options import RunOptions
from kubeflow_corpus.ingest.progress import Event
from kubeflow_corpus.ingest.report import CRASH_REMEDY, notify, run_failed
from kubeflow_corpus.ingest.run_report import past_reports, run_page, run_report
from kubeflow_corpus.ingest.runner import RunFolders, dry_run_collection, row_digest
from kubeflow_corpus.ingest.step import TRACED_AS
from kubeflow_corpus.ingest.store import stored_sources
from kubeflow_corpus.ingest.summary import Failure, failures, summary_lines
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.sources.catalogue import CATALOGUE_FILE, Catalogue, Source, load_catalogue
from kubeflow_corpus.sources.named import named_documents
from kubeflow_corpus.tracing import run_span, start_tracing

from pipelines.arguments import add_changed_paths_argument
from pipelines.local import LocalRun, Workplace, run_pipeline, watched_here
from pipelines.placement import Placement
from pipelines.registry import PIPELINES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("pipeline", choices=PIPELINES, help="which collection to index; corpus is all three")
    parser.add_argument("--catalogue", default="", metavar="FILE", help="YAML of the sources (default: Kubeflow's own)")
    parser.add_argument(
        "--source", action="append", default=[], metavar="NAME", help="only this source; may be given more than once"
    )
    add_changed_paths_argument(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="fetch and chunk, print the figures, write no collection"
    )
    parser.add_argument(
        "--digest",
        action="store_true",
        help="with --dry-run: print the number of rows of each source and one digest of them",
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="fill a new version beside the served one, and serve it if it passes"
    )
    parser.add_argument(
        "--allow-deletions",
        action="append",
        default=[],
        metavar="SOURCE",
        help="let this run delete more of a source than the guard lets pass; may be given more than once",
    )
    parser.add_argument("--questions", default="", metavar="FILE", help="ask this question set before serving")
    parser.add_argument(
        "--floor",
        action="append",
        default=[],
        metavar="METRIC=MEAN",
        help="least mean with which a new version is served, such as hit@5=0.9; may be given more than once",
    )
    parser.add_argument(
        "--wait",
        type=int,
        default=0,
        metavar="SECONDS",
        help="how long to wait for another run that writes the collection",
    )
    parser.add_argument("--local", default="local", metavar="DIR", help="folder of runs, cache and corpus.db")
    parser.add_argument("--verbose", action="store_true", help="show the log of KFP and of the steps too")


def run(args: argparse.Namespace) -> int:
    """Runs a pipeline and returns the exit code.

    Raises:
        CorpusError: The catalogue or a setting is wrong, or something failed: one line that names it.
    """
    started = time.monotonic()
    options = options_of(args)
    if not options.catalogue and Path(CATALOGUE_FILE).is_file():
        # What lies in a folder by chance does not decide what is indexed.
        said = f"{CATALOGUE_FILE} of this folder is not read, but Kubeflow's own: --catalogue {CATALOGUE_FILE}"
        print(said, file=sys.stderr)
    known = load_catalogue(options.catalogue)
    named = named_documents(known, options.changed_paths, sources=options.sources, rebuild=options.rebuild)
    chosen = _chosen_sources(known, args.pipeline, list(named) or options.sources)
    settings = Settings.from_env()
    place = Workplace.new(Path(args.local), args.pipeline)
    _check_allowed(known, options, settings, place)
    if args.digest and not args.dry_run:
        raise SettingsError("--digest is of a dry run", remedy="Add --dry-run")
    if args.dry_run:
        return _dry_run(options, list(chosen), digest=args.digest)
    _say(args.pipeline, chosen, settings, place)
    from pipelines.graph import build_pipeline

    pipeline = build_pipeline(args.pipeline, Placement(crash_notice=False))
    start_tracing(TRACED_AS)
    with run_span(f"run {args.pipeline}"):
        result = run_pipeline(pipeline, options, place, verbose=args.verbose)
    for collection in PIPELINES[args.pipeline].collections:
        if collection in result.published:
            print("\n".join(summary_lines(result.published[collection])))
    found = _failures(result)
    _write_report(result, found, place)
    print(f"{time.monotonic() - started:.1f} s, {_peak(result.screen.events)}; artifacts, log and report: {place.run}")
    try:
        if found:
            raise run_failed(found)
        if result.error:
            raise RunFailed(f"A step ended without saying why: {result.error}", remedy=f"See {place.log}")
    except RunFailed as error:
        if not _was_reported(result.screen.events):
            notify(settings.notify_webhook_url, f"run {place.run_id}: {error}")
        raise
    return 0


def _was_reported(events: Sequence[Event]) -> bool:
    """Whether the last step of the run said how it went, and told the webhook if there was anything to tell."""
    return any(event.step == "report" and event.state in ("done", "failed") for event in events)


def options_of(args: argparse.Namespace) -> RunOptions:
    """Returns what the command line asks for.

    Raises:
        SettingsError: A floor is not METRIC=MEAN.
        InvalidArgument: A value is out of range.
    """
    return RunOptions.from_dict(
        {
            "catalogue": os.path.abspath(args.catalogue) if args.catalogue else "",
            "sources": args.source,
            "changed_paths": args.changed_paths,
            "rebuild": args.rebuild,
            "allow_deletions": args.allow_deletions,
            "questions": os.path.abspath(args.questions) if args.questions else "",
            "floors": dict(map(_floor, args.floor)),
            "wait_seconds": args.wait,
        }
    )


def _chosen_sources(known: Catalogue, pipeline: str, names: Sequence[str]) -> dict[str, tuple[Source, ...]]:
    """Returns the sources by collection, having checked that there are any: an empty run is a mistake."""
    collections = PIPELINES[pipeline].collections
    if len(collections) == 1:
        chosen = {pipeline: known.select(find_collection(pipeline).catalogue_type, names)}
    else:
        wanted = known.select("", names)
        chosen = {
            collection: tuple(source for source in wanted if source.type == find_collection(collection).catalogue_type)
            for collection in collections
        }
    if not any(chosen.values()):
        wanted_type = "any" if pipeline == "corpus" else find_collection(pipeline).catalogue_type
        raise CatalogueError(
            f"{known.path}: no source of type {wanted_type}",
            remedy="Add one to the catalogue, or run another pipeline",
            path=str(known.path),
        )
    return chosen


def _floor(text: str) -> tuple[str, float]:
    name, _, mean = text.partition("=")
    try:
        return name, float(mean)
    except ValueError as error:
        raise SettingsError(f"--floor {text!r} is not METRIC=MEAN", remedy="Write --floor hit@5=0.9") from error


def _say(pipeline: str, chosen: dict[str, tuple[Source, ...]], settings: Settings, place: Workplace) -> None:
    sources = ", ".join(source.name for group in chosen.values() for source in group)
    model = f"the service at {settings.embeddings_url}" if settings.embeddings_url else "the embedded model"
    milvus = settings.milvus_uri or place.milvus
    print(f"{pipeline}: {sources}; {model}; Milvus at {milvus}", file=sys.stderr, flush=True)


def _peak(events: Sequence[Event]) -> str:
    if not events:
        return "no step ran"
    largest = max(events, key=lambda event: event.memory_mb)
    return f"at most {largest.memory_mb} MB in a step ({largest.step})"


def _check_allowed(known: Catalogue, options: RunOptions, settings: Settings, place: Workplace) -> None:
    """Refuses a source whose deletion is allowed and that is neither in the catalogue nor stored.

    Raises:
        CatalogueError: The name is misspelt.
    """
    names = {source.name for source in known.sources}
    left = [name for name in options.allow_deletions if name not in names]
    if left and not set(left) <= stored_sources(replace(settings, milvus_uri=settings.milvus_uri or str(place.milvus))):
        known.select("", left)


def _write_report(result: LocalRun, found: Sequence[Failure], place: Workplace) -> None:
    lines = [failure.line() for failure in found] or ([result.error] if result.error else [])
    report = run_report(list(result.published.values()), result.screen.events, lines)
    report["run"] = place.run_id
    try:
        place.report.with_suffix(".json").write_text(json.dumps(report, ensure_ascii=False, indent=1), encoding="utf-8")
        before = past_reports(place.run.parent, place.run_id)
        place.report.write_text(run_page(report, before), encoding="utf-8")
    except OSError as error:
        # On a full disk the run says so itself, and why it ended matters more than its page.
        print(f"the report was not written: {error}", file=sys.stderr)


def _failures(result: LocalRun) -> list[Failure]:
    found = [failure for published in result.published.values() for failure in failures(published)]
    if not found and not result.error:
        return []
    known = {(failure.collection, failure.source, failure.step) for failure in found}
    for event in result.screen.events:
        # A step that ended early has no result: what it said last is all there is.
        key = (event.collection, event.item, event.step)
        if event.state == "failed" and event.collection and key not in known and not _covered(found, event):
            cause = f"{event.problem}. {event.remedy}" if event.remedy else event.problem
            found.append(Failure(event.collection, event.item, event.step, cause))
    if result.error:
        found += [failure for failure in _killed(result.screen.events) if failure not in found]
    return found


def _killed(events: Sequence[Event]) -> list[Failure]:
    """Returns the steps that began and never said how they ended: their process was killed."""
    last = {(event.collection, event.item, event.step): event.state for event in events if event.collection}
    return [
        Failure(*step, f"its process ended without a message: killed, or out of memory? {CRASH_REMEDY}")
        for step, state in last.items()
        if state in ("started", "progress")
    ]


def _covered(found: Sequence[Failure], event: Event) -> bool:
    return any(failure.collection == event.collection and failure.step == event.step for failure in found)


def _dry_run(options: RunOptions, collections: Sequence[str], *, digest: bool) -> int:
    found: list[Failure] = []
    for collection in collections:
        with tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as folder, watched_here():
            folders = RunFolders(Path(folder))
            result = dry_run_collection(collection, options, folders)
            digests = [(source.source, *row_digest(folders.rows(source.source))) for source in result.sources]
        found += failures(result)
        print("\n".join(summary_lines(result)))
        if digest:
            print("\n".join(f"digest {collection}/{name} {rows} {value}" for name, rows, value in digests))
    if found:
        raise run_failed(found)
    print("dry run: nothing was embedded or written")
    return 0
