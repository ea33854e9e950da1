"""Processes of a run on this machine: how one is named, and that none of them outlives the one that started it.

A run starts a process per step, and a step may start further ones. Whoever is asked to end ends those below it first;
a step whose run is gone, killed without a chance to say so, sees that and ends too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

# Set by whoever starts the steps of a run on one machine: `process_name` of itself.
RUN_PROCESS_VARIABLE: Final = "KUBEFLOW_CORPUS_RUN_PROCESS"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A step that is asked to end has this long, and the program itself a moment longer.
_SECONDS_TO_END: Final = 2.0
_SECONDS_IN_ALL: Final = 4.0
_SECONDS_BETWEEN_LOOKS: Final = 0.25


class Terminated(KeyboardInterrupt):
    """A signal asked this program to end.

    Attributes:
        number: The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Returns the exit code of a program that was interrupted, as a shell reports it."""
    return 128 + (interrupt.number if isinstance(interrupt, Terminated) else signal.SIGINT)


def process_name(pid: int) -> str:
    """Returns a process of this machine in a form that a later process with the same number does not have."""
    return f"{pid}@{process_start(pid)}"


def process_start(pid: int) -> str:
    """Returns when a process of this machine started, in clock ticks; "" if it does not exist or cannot be seen."""
    fields = _fields(pid)
    # A killed process whose parent has not collected it yet is dead all the same.
    return "" if not fields or fields[0] in "ZX" else fields[19]


def descendants(pid: int) -> list[int]:
    """Returns the processes below one, the nearest first, whatever session or group they are in."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found = list(children.get(pid, ()))
    for child in found:
        found += children.get(child, ())
    return found


@contextmanager
def ending_together() -> Iterator[None]:
    """Makes signals that end this program end the processes below it first; for the main thread.

    Raises:
        Terminated: A signal arrived.
    """
    # What is ignored stays so: a program that was started with nohup outlives its terminal.
    heeded = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, _end) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    for again in _SIGNALS:
        signal.signal(again, signal.SIG_IGN)
    # The program may wait for threads that wait for processes, and start further ones meanwhile.
    threading.Thread(target=_end_descendants, args=(number,), name="ending", daemon=True).start()
    raise Terminated(number)


def _end_descendants(number: int) -> None:
    started = time.monotonic()
    asked: set[int] = set()
    while (passed := time.monotonic() - started) < _SECONDS_IN_ALL:
        for pid in descendants(os.getpid()):
            if passed > _SECONDS_TO_END:
                _send(pid, signal.SIGKILL)
            elif pid not in asked:
                asked.add(pid)
                _send(pid, signal.SIGTERM)
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    # Something holds the program up, and what was served before is served still.
    os._exit(128 + number)


def end_with_run(end: Callable[[], None] | None = None) -> None:
    """Makes this process end soon after the run that it is a step of, where the run has named itself.

    Args:
        end: Instead of ending the process, for tests.
    """
    name = os.environ.get(RUN_PROCESS_VARIABLE, "")
    if not name or name == process_name(os.getpid()) or _WATCHED.is_set():
        return
    _WATCHED.set()
    threading.Thread(target=_watch, args=(name, end or _end_here), name="watch", daemon=True).start()


_WATCHED: Final = threading.Event()


def _watch(name: str, end: Callable[[], None]) -> None:
    pid, _, started = name.partition("@")
    # Where starts of processes cannot be seen, the number of the process has to do.
    while _is_running(int(pid)) if not started else process_start(int(pid)) == started:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    end()


def _end_here() -> None:
    for pid in descendants(os.getpid()):
        _send(pid, signal.SIGKILL)
    os._exit(1)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _fields(pid: int) -> list[str]:
    """Returns what the kernel says of a process from its state on."""
    try:
        # The name of a program may hold spaces and brackets: fields are counted after its closing bracket.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parents() -> Iterator[tuple[int, int]]:
    """Yields every process with its parent."""
    numbers = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")] if Path("/proc/self/stat").exists() else []
    for number in numbers:
        if fields := _fields(number):
            yield number, int(fields[1])
    if not numbers:
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False).stdout
        for line in listed.splitlines():
            pid, parent = line.split()
            yield int(pid), int(parent)
