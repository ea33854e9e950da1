"""What a step says while it runs: one event per line, into a file that a runner watches, else into the step's own log.

A step's output is piped through KFP's runner, so a step cannot draw. It appends events to the file that
``KUBEFLOW_CORPUS_EVENTS`` names; whoever started the run reads them and draws. On a cluster there is no such file
and the same events are plain lines in the log of the pod.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeVar

from kubeflow_corpus.errors import ArtifactError, CorpusError

EVENTS_VARIABLE: Final = "KUBEFLOW_CORPUS_EVENTS"
# How often a step may say how far it is: a terminal shows no more, and a log should hold less.
_SECONDS_BETWEEN_EVENTS: Final = 0.2
_SECONDS_BETWEEN_LINES: Final = 10.0

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

State = Literal["started", "progress", "done", "failed"]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a step says.

    Attributes:
        step: Name of the step.
        collection: Collection that the run fills: ``docs``, ``issues`` or ``code``.
        item: The source or the shard that this step works on; empty where it works on the collection.
        state: What happened.
        done: Units finished so far.
        total: Units in all; 0 if it is not known.
        unit: What is counted, in the plural.
        counts: Figures of a finished step.
        problem: What failed, in one line.
        remedy: What to do about it, in one line.
        seconds: How long the step has taken.
        memory_mb: Peak memory of its process so far, in MiB.
    """

    step: str
    collection: str
    item: str
    state: State
    done: int = 0
    total: int = 0
    unit: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""
    remedy: str = ""
    seconds: float = 0.0
    memory_mb: int = 0

    def line(self) -> str:
        """Returns the event as a person reads it in a log."""
        head = " ".join(part for part in (self.collection, self.step, self.item) if part)
        if self.state == "started":
            return f"{head}: started"
        if self.state == "progress":
            of_all = f" of {self.total:,}" if self.total else ""
            return f"{head}: {self.done:,}{of_all} {self.unit}{_pace_of(self.done, self.total, self.seconds)}"
        if self.state == "failed":
            return f"{head}: failed: {self.problem}{f'. {self.remedy}' if self.remedy else ''}"
        figures = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in self.counts.items())
        return f"{head}: done in {self.seconds:.1f} s{f' ({figures})' if figures else ''}"


def _pace_of(done: int, total: int, seconds: float) -> str:
    """Returns the rate, and the time left where the total is known."""
    if not done or seconds <= 0:
        return ""
    rate = done / seconds
    left = f", {(total - done) / rate:,.0f} s left" if total > done else ""
    return f" ({rate:,.3g}/s{left})"


def read_events(lines: Iterable[str]) -> Iterator[Event]:
    """Reads the events that steps wrote, leaving out a last line that is not finished yet."""
    for line in lines:
        if line.endswith("\n"):
            yield Event(**json.loads(line))


class StepWatch:
    """Says what one step does. Made by `step`."""

    def __init__(self, name: str, collection: str, item: str) -> None:
        self._name, self._collection, self._item = name, collection, item
        self._started = self._said = time.monotonic()
        self._path = os.environ.get(EVENTS_VARIABLE, "")
        self.counts: dict[str, int] = {}

    def say(self, state: State, **details: Any) -> None:
        """Writes one event."""
        seconds = round(time.monotonic() - self._started, 3)
        event = Event(
            self._name, self._collection, self._item, state, seconds=seconds, memory_mb=peak_memory_mb(), **details
        )
        if not self._path:
            print(event.line(), flush=True)
            return
        # One write of one short line to a file opened for appending: steps in parallel never mix their lines.
        with open(self._path, "ab", buffering=0) as events:
            events.write(json.dumps(asdict(event)).encode() + b"\n")

    def progress(self, done: int, total: int, unit: str) -> None:
        """Says how far the step is, unless it said so a moment ago."""
        now = time.monotonic()
        if now - self._said >= (_SECONDS_BETWEEN_EVENTS if self._path else _SECONDS_BETWEEN_LINES):
            self._said = now
            self.say("progress", done=done, total=total, unit=unit)

    def track(self, items: Iterable[Item], unit: str, total: int = 0) -> Iterator[Item]:
        """Passes items through and reports how many there were so far."""
        for done, item in enumerate(items, start=1):
            yield item
            self.progress(done, total, unit)

    def count(self, **counts: int) -> None:
        """Adds figures that the step ends with."""
        self.counts.update(counts)


@contextmanager
def step(name: str, *, collection: str = "", item: str = "") -> Iterator[StepWatch]:
    """Says that a step started, and how it ended.

    Yields:
        What the body reports progress and figures to.

    Raises:
        ArtifactError: The body ran out of disk space: an `OSError` that names neither the step nor the remedy.
    """
    watch = StepWatch(name, collection, item)
    watch.say("started")
    try:
        yield watch
    except CorpusError as error:
        watch.say("failed", problem=error.problem, remedy=error.remedy)
        raise
    except OSError as error:
        if error.errno not in _NO_SPACE:
            watch.say("failed", problem=f"{type(error).__name__}: {error}")
            raise
        full = no_space(error)
        watch.say("failed", problem=full.problem, remedy=full.remedy)
        raise full from error
    except Exception as error:
        # A defect rather than bad input: the runner needs its name, the log has the traceback.
        watch.say("failed", problem=f"{type(error).__name__}: {error}", remedy="See the log of the run")
        raise
    watch.say("done", counts=watch.counts)


def no_space(error: OSError) -> ArtifactError:
    """Returns the error of a disk that is full."""
    where = error.filename or "the folder of the run's artifacts"
    return ArtifactError(
        f"No space left on the disk for {where} ({error.strerror})",
        remedy="Free some space and run again; what was indexed before is unchanged",
        path=str(where),
    )


def peak_memory_mb() -> int:
    """Returns the peak memory of this process, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (1024 * 1024 if sys.platform == "darwin" else 1024)
