"""``kubeflow-corpus run``: a pipeline on this machine, or what it would do."""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from kubeflow_corpus.errors import CatalogueError, RunFailed, SettingsError
from kubeflow_corpus.ingest.build import build_digest
from kubeflow_corpus.ingest.chunking import chunk_source
from kubeflow_corpus.ingest.embedding import describe_model
from kubeflow_corpus.ingest.outcomes import (
    CURSORS_FILE,
    Outcome,
    fresh_folder,
    read_outcome,
    totals_of,
    write_json,
    write_outcome,
)
from kubeflow_corpus.ingest.progress import Event
from kubeflow_corpus.ingest.report import CRASH_REMEDY, notify, run_failed, summary_lines
from kubeflow_corpus.ingest.sources import SOURCE_TYPES, fetch_source, fetch_source_threads, resolve_source
from kubeflow_corpus.ingest.summary import Failure, failures
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.sources.catalogue import Source, load_catalogue
from kubeflow_corpus.sources.named import named_documents

from pipelines.arguments import add_changed_paths_argument
from pipelines.local import Result, Workplace, run_pipeline, watched_here
from pipelines.placement import Placement

COLLECTIONS: Final[dict[str, tuple[str, ...]]] = {
    **{name: (name,) for name in SOURCE_TYPES},
    "corpus": tuple(SOURCE_TYPES),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("pipeline", choices=COLLECTIONS, help="which collection to index; corpus is all three")
    parser.add_argument("--catalogue", default="", metavar="FILE", help="YAML of the sources (default: Kubeflow's own)")
    parser.add_argument(
        "--source", action="append", default=[], metavar="NAME", help="only this source; may be given more than once"
    )
    add_changed_paths_argument(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="fetch and chunk, print the figures, write no collection"
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
        "--wait", type=int, default=0, metavar="SECONDS", help="wait so long for another run that writes the collection"
    )
    parser.add_argument("--local", default="local", metavar="DIR", help="folder of runs, cache and corpus.db")
    parser.add_argument("--verbose", action="store_true", help="show the log of KFP and of the steps too")


def run(args: argparse.Namespace) -> int:
    """Runs a pipeline and returns the exit code.

    Raises:
        CorpusError: The catalogue or a setting is wrong, or something failed: one line that names it.
    """
    started = time.monotonic()
    catalogue = os.path.abspath(args.catalogue) if args.catalogue else ""
    named = named_documents(load_catalogue(catalogue), args.changed_paths, sources=args.source, rebuild=args.rebuild)
    chosen = _chosen_sources(catalogue, args.pipeline, list(named) or args.source)
    _check_names(args.allow_deletions, catalogue)
    floors = dict(map(_floor, args.floor))
    settings = Settings.from_env()
    place = Workplace.new(Path(args.local), args.pipeline)
    if args.dry_run:
        return _dry_run(catalogue, chosen, args.changed_paths)
    _say(args.pipeline, chosen, settings, place)
    from pipelines.registry import PIPELINES

    result = run_pipeline(
        PIPELINES[args.pipeline](Placement(crash_notice=False)),
        {
            "catalogue": catalogue,
            "sources": args.source,
            "changed_paths": args.changed_paths,
            "rebuild": args.rebuild,
            "allow_deletions": args.allow_deletions,
            "questions": os.path.abspath(args.questions) if args.questions else "",
            "floors": floors,
            "wait_seconds": args.wait,
            "build": build_digest(),
        },
        place,
        verbose=args.verbose,
    )
    for collection in COLLECTIONS[args.pipeline]:
        if collection in result.outcomes:
            print("\n".join(summary_lines(collection, result.outcomes[collection])))
    print(f"{time.monotonic() - started:.1f} s, {_peak(result.screen.events)}; artifacts and log: {place.run}")
    try:
        _raise_failures(result, place)
    except RunFailed as error:
        if not _was_reported(result.screen.events):
            notify(settings.notify_webhook_url, f"run {place.run_id}: {error}")
        raise
    return 0


def _was_reported(events: Sequence[Event]) -> bool:
    """Whether the last step of the run said how it went, and told the webhook if there was anything to tell."""
    return any(event.step == "report" and event.state in ("done", "failed") for event in events)


def _chosen_sources(catalogue: str, pipeline: str, names: Sequence[str]) -> dict[str, tuple[Source, ...]]:
    """Returns the sources by collection, having checked that there are any: an empty run is a mistake."""
    known = load_catalogue(catalogue)
    if len(COLLECTIONS[pipeline]) == 1:
        chosen = {pipeline: known.select(SOURCE_TYPES[pipeline], names)}
    else:
        wanted = known.select("", names)
        chosen = {
            collection: tuple(source for source in wanted if source.type == source_type)
            for collection, source_type in SOURCE_TYPES.items()
        }
    if not any(chosen.values()):
        wanted_type = SOURCE_TYPES.get(pipeline, "any")
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
        raise SettingsError(f"--floor {text!r} is no METRIC=MEAN", remedy="Write --floor hit@5=0.9") from error


def _check_names(names: Sequence[str], catalogue: str) -> None:
    load_catalogue(catalogue).select("", names)


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


def _raise_failures(result: Result, place: Workplace) -> None:
    found = [failure for collection, outcome in result.outcomes.items() for failure in failures(collection, outcome)]
    if not found and not result.error:
        return
    known = {(failure.collection, failure.source, failure.step) for failure in found}
    for event in result.screen.events:
        # A step that broke off has no outcome: what it said last is all there is.
        key = (event.collection, event.item, event.step)
        if event.state == "failed" and event.collection and key not in known and not _covered(found, event):
            cause = f"{event.problem}. {event.remedy}" if event.remedy else event.problem
            found.append(Failure(event.collection, event.item, event.step, cause))
    if result.error:
        found += [failure for failure in _broken_off(result.screen.events) if failure not in found]
    if found:
        raise run_failed(found)
    raise RunFailed(f"A step ended without saying why: {result.error}", remedy=f"See {place.log}")


def _broken_off(events: Sequence[Event]) -> list[Failure]:
    """Returns the steps that began and never said how they ended: their process was killed."""
    last = {(event.collection, event.item, event.step): event.state for event in events if event.collection}
    return [
        Failure(*step, f"its process ended without a word: killed, or out of memory? {CRASH_REMEDY}")
        for step, state in last.items()
        if state in ("started", "progress")
    ]


def _covered(found: Sequence[Failure], event: Event) -> bool:
    return any(failure.collection == event.collection and failure.step == event.step for failure in found)


def _dry_run(catalogue: str, chosen: dict[str, tuple[Source, ...]], changed_paths: Sequence[str]) -> int:
    found: list[Failure] = []
    for collection, sources in chosen.items():
        with tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as folder, watched_here():
            # No collection is asked: a dry run needs no Milvus, and reads every source from its beginning.
            begun, state = fresh_folder(f"{folder}/begun"), Path(folder, "state")
            write_outcome(begun, Outcome("", "dry run"))
            describe_model(collection, str(begun), str(state))
            write_json(str(state / CURSORS_FILE), {})
            parts = [_dry_source(catalogue, collection, source.name, changed_paths, Path(folder)) for source in sources]
            outcome = replace(read_outcome(state), sources=tuple(parts))
        counts = Counter[str]()
        for part in parts:
            counts.update(totals_of(part.counts))
        found += failures(collection, outcome)
        print("\n".join(summary_lines(collection, replace(outcome, counts=counts))))
    if found:
        raise run_failed(found)
    print("dry run: nothing was embedded or written")
    return 0


def _dry_source(catalogue: str, collection: str, name: str, changed_paths: Sequence[str], folder: Path) -> Outcome:
    state, documents, chunks = (str(folder / part) for part in ("state", f"documents-{name}", f"chunks-{name}"))
    resolved = resolve_source(catalogue, collection, name, state, changed_paths)
    if collection == "issues":
        fetch_source_threads(catalogue, resolved, state, documents)
    else:
        fetch_source(catalogue, collection, resolved, documents)
    chunk_source(documents, chunks, collection)
    return read_outcome(Path(chunks))
