"""Runs a pipeline on this machine through KFP's SubprocessRunner: every step is a process, no container is needed."""

import contextlib
import io
import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

from kubeflow_corpus.ingest.options import RunOptions
from kubeflow_corpus.ingest.progress import EVENTS_VARIABLE
from kubeflow_corpus.ingest.results import StepResult
from kubeflow_corpus.ingest.step import RESULT_FILE, read_result
from kubeflow_corpus.processes import RUN_PROCESS_VARIABLE, ending_together, process_name

from pipelines.screen import Screen, watching

DEFAULT_MILVUS: Final = "corpus.db"


@dataclass(frozen=True, slots=True)
class Workplace:
    """Folders of local runs.

    Attributes:
        root: Folder that holds everything that a local run writes.
        run_id: Name of this run.
    """

    root: Path
    run_id: str

    @classmethod
    def new(cls, root: Path, name: str) -> "Workplace":
        """Returns the folders of a run that starts now."""
        return cls(root.absolute(), f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{name}")

    @property
    def run(self) -> Path:
        """Artifacts, log and events of this run."""
        return self.root / "runs" / self.run_id

    @property
    def cache(self) -> Path:
        """What KFP remembers of `fetch` and `chunk`."""
        return self.root / "cache"

    @property
    def vectors(self) -> Path:
        """Vectors that were made, where EMBEDDING_CACHE does not say another folder, or none."""
        return self.root / "vectors"

    @property
    def log(self) -> Path:
        """Everything that KFP and the steps print."""
        return self.run / "log.txt"

    @property
    def report(self) -> Path:
        """How the run went, as a page; the same as JSON is beside it."""
        return self.run / "report.html"

    @property
    def events(self) -> Path:
        """What the steps say while they run."""
        return self.run / "events.jsonl"

    @property
    def milvus(self) -> Path:
        """Embedded Milvus, where MILVUS_URI does not say another."""
        return self.root / DEFAULT_MILVUS


@dataclass(frozen=True, slots=True)
class LocalRun:
    """What a local run left.

    Attributes:
        published: How publishing each collection went; empty where the run ended before.
        screen: The events of the run.
        error: KFP's own error; empty where every step ended well.
    """

    published: Mapping[str, StepResult]
    screen: Screen
    error: str


def run_pipeline(pipeline: Any, options: RunOptions, place: Workplace, *, verbose: bool = False) -> LocalRun:
    """Runs a pipeline, and draws its progress.

    Args:
        pipeline: What `dsl.pipeline` returned.
        options: What the run is asked for.
        place: Where the run is kept.
        verbose: Whether to show KFP's log too.
    """
    from kfp import local

    place.run.mkdir(parents=True)
    forget_failures(place.cache)
    error = ""
    with (
        ending_together(),
        _environment(place),
        _log(place.log, verbose),
        watching(place.events, sys.stderr) as screen,
    ):
        local.init(
            runner=local.SubprocessRunner(use_venv=False),
            pipeline_root=str(place.run),
            enable_caching=True,
            cache_root=str(place.cache),
        )
        try:
            here = replace(options, run=place.run_id, runner="local", process=process_name(os.getpid()))
            pipeline(options=here.to_dict())
        except (RuntimeError, ValueError) as raised:
            # KFP names the task that failed, or the output that a failed task did not leave, and nothing else: what
            # the task said itself is in the events.
            error = str(raised)
    return LocalRun(published(place.run), screen, error)


@contextlib.contextmanager
def watched_here() -> Iterator[Screen]:
    """Draws the progress of steps that are called in this process."""
    with tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as folder:
        events = Path(folder) / "events.jsonl"
        before = os.environ.get(EVENTS_VARIABLE)
        os.environ[EVENTS_VARIABLE] = str(events)
        try:
            with watching(events, sys.stderr) as screen:
                yield screen
        finally:
            os.environ.pop(EVENTS_VARIABLE)
            if before is not None:
                os.environ[EVENTS_VARIABLE] = before


def published(run: Path) -> dict[str, StepResult]:
    """Returns how publishing went, by collection."""
    results = [read_result(file.parent) for file in sorted(run.rglob(f"published/{RESULT_FILE}"))]
    return {result.collection: result for result in results}


def forget_failures(cache: Path) -> None:
    """Removes what KFP remembers of steps that failed: the next run has to retry them."""
    for entry in cache.glob("*.json"):
        try:
            outputs = json.loads(entry.read_text(encoding="utf-8"))
            found = [output.get("metadata", {}) for output in outputs.values()]
            # A step at which documents failed is done, and has to be done again for them.
            states = ["incomplete" if metadata.get("failed") else metadata.get("status") for metadata in found]
        except (ValueError, AttributeError):
            states = ["failed"]
        if any(state != "ok" for state in states):
            entry.unlink()


@contextlib.contextmanager
def _environment(place: Workplace) -> Iterator[None]:
    """Steps inherit the environment of this process, and take their settings from it."""
    before = dict(os.environ)
    uri = os.environ.get("MILVUS_URI", "").strip() or str(place.milvus)
    os.environ["MILVUS_URI"] = uri if "://" in uri else os.path.abspath(uri)
    os.environ[EVENTS_VARIABLE] = str(place.events)
    # What an interrupted run has embedded, which may be hours of work, the next one finds.
    os.environ.setdefault("EMBEDDING_CACHE", str(place.vectors))
    # A step ends with the process that is named here, from before it reads its options on.
    os.environ[RUN_PROCESS_VARIABLE] = process_name(os.getpid())
    # Steps find the project in the environment of this interpreter, and buffer nothing that a crash would lose.
    os.environ["PYTHONUNBUFFERED"] = "1"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class _Tee(io.TextIOBase):
    def __init__(self, *streams: TextIO) -> None:
        self._streams = streams

    def write(self, text: str) -> int:
        for stream in self._streams:
            stream.write(text)
        return len(text)

    def flush(self) -> None:
        for stream in self._streams:
            stream.flush()


@contextlib.contextmanager
def _log(path: Path, verbose: bool) -> Iterator[None]:
    """Sends what KFP and the steps print to a file: hundreds of lines that nobody needs."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    with path.open("w", encoding="utf-8") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        target = _Tee(file, sys.stderr) if verbose else file
        handler = logging.StreamHandler(target)
        root.handlers[:] = [handler]
        try:
            with contextlib.redirect_stdout(target):
                yield
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
