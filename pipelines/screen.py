"""What a person sees of a run: bars where a terminal is attached, plain lines where not.

The steps of a run are processes whose output KFP's runner keeps. They append events to a file (see
`kubeflow_corpus.ingest.progress`); a thread reads it and draws.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from kubeflow_corpus.ingest.progress import Event, read_events
from tqdm import tqdm

_SECONDS_BETWEEN_LOOKS: Final = 0.1
# Without a terminal, a long step says this often how far it is.
_SECONDS_BETWEEN_LINES: Final = 10.0
# Steps that only ask something and take a moment: one line per source of a large catalogue would be noise.
_QUIET_STEPS: Final = frozenset({"list_sources", "describe_model", "read_state", "resolve_revision", "report"})


class Screen:
    """Draws the events of a run.

    Args:
        stream: Where to draw.
    """

    def __init__(self, stream: TextIO) -> None:
        self.events: list[Event] = []
        self._stream = stream
        self._terminal = stream.isatty()
        self._bars: dict[tuple[str, str, str], Any] = {}
        self._said: dict[tuple[str, str, str], float] = {}

    def show(self, event: Event) -> None:
        """Draws one event."""
        self.events.append(event)
        key = (event.collection, event.step, event.item)
        if event.state == "progress":
            self._show_progress(key, event)
        elif event.state in ("done", "failed"):
            self._end_bar(key)
            if event.state == "failed" or event.step not in _QUIET_STEPS:
                self._line(f"{event.line()}{f', {event.memory_mb} MB' if event.state == 'done' else ''}")

    def close(self) -> None:
        """Removes what is left of the bars."""
        for key in list(self._bars):
            self._end_bar(key)

    def _show_progress(self, key: tuple[str, str, str], event: Event) -> None:
        if not self._terminal:
            now = time.monotonic()
            if now - self._said.setdefault(key, now) >= _SECONDS_BETWEEN_LINES:
                self._said[key] = now
                self._line(event.line())
            return
        if key not in self._bars:
            title = " ".join(part for part in key if part)
            self._bars[key] = tqdm(
                total=event.total or None, desc=title, unit=f" {event.unit}", file=self._stream, leave=False
            )
        bar = self._bars[key]
        # Steps say so a few times a second at most: every event is worth drawing.
        bar.n = event.done
        bar.refresh()

    def _end_bar(self, key: tuple[str, str, str]) -> None:
        if bar := self._bars.pop(key, None):
            bar.close()

    def _line(self, text: str) -> None:
        # KFP's runner replaces `print` while a step runs, so this thread writes by itself.
        if self._terminal:
            tqdm.write(text, file=self._stream)
        else:
            self._stream.write(f"{text}\n")
            self._stream.flush()


@contextmanager
def watching(events: Path, stream: TextIO = sys.stderr) -> Iterator[Screen]:
    """Draws what steps append to a file, until the block ends and everything is drawn.

    Args:
        events: The file; it need not exist yet.
        stream: Where to draw.
    """
    screen, over = Screen(stream), threading.Event()

    def follow() -> None:
        offset = 0
        while True:
            last = over.is_set()
            if events.exists():
                with events.open(encoding="utf-8") as file:
                    file.seek(offset)
                    lines = file.readlines()
                if lines and not lines[-1].endswith("\n"):
                    lines.pop()
                offset += sum(len(line.encode()) for line in lines)
                for event in read_events(lines):
                    screen.show(event)
            if last:
                return
            over.wait(_SECONDS_BETWEEN_LOOKS)

    thread = threading.Thread(target=follow, name="screen", daemon=True)
    thread.start()
    try:
        yield screen
    finally:
        over.set()
        thread.join()
        screen.close()
