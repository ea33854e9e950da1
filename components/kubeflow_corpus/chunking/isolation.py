"""Documents are read in processes of their own: one that raises, hangs or eats memory costs itself and nothing else.

Limits of a document are kept by the kernel, which a loop in C code cannot evade: a timer of processor time whose signal
ends the process, and a limit of its data. The parent adds a limit of wall time, for what waits for ever. A process that
ended is replaced, and goes on behind the document that it was at.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import resource
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from kubeflow_corpus.errors import CatalogueError
from kubeflow_corpus.records import Document, FailedDocument

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")

# Documents that go to a process at once: enough to outweigh the way there.
_BATCH_CHARS: Final = 200_000
_BATCH_DOCUMENTS: Final = 64
# Batches in flight for each process: what bounds memory.
_AHEAD: Final = 3
_SECONDS_TO_START: Final = 120.0
_MOST_DETAIL: Final = 300
_READY: Final = "ready"


class Task(Protocol[R_co]):
    """What is done with each document; it travels to the processes once, pickled."""

    def prepare(self) -> None:
        """Loads what takes time and memory, before the first document."""
        ...

    def __call__(self, document: Document) -> R_co:
        """Deals with one document."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What one document may take.

    Attributes:
        seconds: Processor time of a document of usual size.
        seconds_per_100_kb: What is added for a long one: chunkers need less than 2.
        memory_mb: Memory on top of what the process has when it begins with the document.
        patience: Wall time is limited to this multiple of the processor time: the machine may have other work.
    """

    seconds: float = 20.0
    seconds_per_100_kb: float = 4.0
    memory_mb: int = 1024
    patience: float = 6.0

    def cpu_seconds(self, document: Document) -> float:
        """Returns the processor time that a document may take."""
        return self.seconds + self.seconds_per_100_kb * (len(document.text) // 100_000)

    def wall_seconds(self, document: Document) -> float:
        """Returns the wall time that a document may take."""
        return self.cpu_seconds(document) * self.patience


def run_isolated(
    task: Task[R], documents: Iterable[Document], workers: int, limits: Limits | None = None
) -> Iterator[R | FailedDocument]:
    """Deals with documents in worker processes, in order.

    Args:
        task: What is done with each.
        documents: Documents; they are read as results are asked for.
        workers: Processes, at least 1.
        limits: What one document may take.

    Yields:
        What the task returned for each document, or why it did not.
    """
    with _Workers(task, workers, limits or Limits()) as pool:
        running: deque[Future[list[R | FailedDocument]]] = deque()
        for batch in _batches(documents):
            running.append(pool.submit(batch))
            if len(running) >= workers * _AHEAD:
                yield from running.popleft().result()
        while running:
            yield from running.popleft().result()


def attempt(task: Callable[[Document], R], document: Document) -> R | FailedDocument:
    """Deals with one document in this process: without limits, but what it raises is caught.

    Raises:
        CatalogueError: An unknown generator, say: it concerns every document of the source.
    """
    try:
        return task(document)
    except CatalogueError:
        raise
    except MemoryError:
        return failed(document, "memory limit", "it needs more memory than one document may")
    except Exception as error:
        return failed(document, "defect", _where(error))


def failed(document: Document, reason: str, detail: str) -> FailedDocument:
    """Returns the record of a document that failed."""
    return FailedDocument(document.document_id, document.path, reason, detail)


def _where(error: Exception) -> str:
    """Returns an exception in one line, with the place in this package that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "kubeflow_corpus" in Path(frame.filename).parts]
    said = " ".join(f"{type(error).__name__}: {error}".split())[:_MOST_DETAIL]
    if not ours:
        return said
    path = Path(ours[-1].filename)
    return f"{said} ({path.parent.name}/{path.name}:{ours[-1].lineno})"


def _batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document.text)
        if size >= _BATCH_CHARS or len(batch) >= _BATCH_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Workers(Generic[R]):
    """Worker processes, each with a thread of this process that hands it documents and watches it."""

    def __init__(self, task: Task[R], count: int, limits: Limits) -> None:
        self._idle: queue.SimpleQueue[_Worker[R]] = queue.SimpleQueue()
        self._all = [_Worker(task, limits) for _ in range(count)]
        for worker in self._all:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="chunk")

    def __enter__(self) -> _Workers[R]:
        return self

    def __exit__(self, *_: object) -> None:
        # Also where the reader stops early: a batch that is under way ends with its process.
        for worker in self._all:
            worker.stop()
        self._threads.shutdown(cancel_futures=True)

    def submit(self, batch: list[Document]) -> Future[list[R | FailedDocument]]:
        """Hands a batch to the next process that is free."""
        return self._threads.submit(self._run, batch)

    def _run(self, batch: list[Document]) -> list[R | FailedDocument]:
        worker = self._idle.get()
        try:
            return worker.run(batch)
        finally:
            self._idle.put(worker)


class _Worker(Generic[R]):
    """One process at a time; the next one is started when it is needed."""

    def __init__(self, task: Task[R], limits: Limits) -> None:
        self._task, self._limits = task, limits
        # Spawned, not forked: the tokenizer runs threads, and a fork of those may hang.
        self._spawn = multiprocessing.get_context("spawn")
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None
        self._stopped = False

    def run(self, batch: list[Document]) -> list[R | FailedDocument]:
        results: list[R | FailedDocument] = []
        while len(results) < len(batch):
            rest = batch[len(results) :]
            connection = self._started()
            with suppress(OSError):
                connection.send(rest)
            for document in rest:
                result, goes_on = self._result(connection, document)
                results.append(result)
                if not goes_on:
                    self._end()
                    break
        return results

    def _result(self, connection: Connection, document: Document) -> tuple[R | FailedDocument, bool]:
        """Returns the result of a document, and whether the process can go on."""
        seconds = self._limits.wall_seconds(document)
        try:
            if not connection.poll(seconds):
                return failed(document, "time limit", f"it took more than {seconds:.0f} s"), False
            result = connection.recv()
        except (EOFError, OSError):
            return self._death(document), False
        # Memory that ran out once is in pieces: a fresh process has all of it.
        return result, not (isinstance(result, FailedDocument) and result.reason == "memory limit")

    def _death(self, document: Document) -> FailedDocument:
        if self._stopped or self._process is None:
            return failed(document, "stopped", "the run ended")
        self._process.join(_SECONDS_TO_START)
        code = self._process.exitcode
        if code == -signal.SIGPROF:
            seconds = self._limits.cpu_seconds(document)
            return failed(document, "time limit", f"it took more than {seconds:.0f} s of processor time")
        if code in (-signal.SIGKILL, -signal.SIGABRT):
            return failed(document, "memory limit", "its process was killed, or could get no more memory")
        return failed(document, "crash", f"its process ended with code {code}")

    def _started(self) -> Connection:
        if self._stopped:
            raise ChildProcessError("the run ended")
        if self._process is not None and self._connection is not None:
            return self._connection
        ours, theirs = self._spawn.Pipe()
        # A daemon: it must not outlive this process.
        process = self._spawn.Process(target=_serve, args=(theirs, self._task, self._limits), daemon=True)
        process.start()
        theirs.close()
        self._process, self._connection = process, ours
        try:
            # Stopped meanwhile: then nobody else ends this process.
            ready = not self._stopped and ours.poll(_SECONDS_TO_START) and ours.recv() == _READY
        except (EOFError, OSError):
            ready = False
        if not ready:
            self._end()
            # Nothing that a document did: blaming documents would name every one of them.
            raise ChildProcessError("a process that reads documents did not start; its own output says why")
        return ours

    def _end(self) -> None:
        process, self._process = self._process, None
        connection, self._connection = self._connection, None
        if process is not None:
            process.kill()
            process.join()
        if connection is not None:
            connection.close()

    def stop(self) -> None:
        """Ends the process, and lets the thread that waits for it see so."""
        self._stopped = True
        if self._process is not None:
            self._process.kill()


def _serve(connection: Connection, task: Task[Any], limits: Limits) -> None:
    """The life of a worker process: documents in, results out, until the parent is gone."""
    # An interrupt goes to the whole group: the parent decides, and this process ends with its pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    task.prepare()
    connection.send(_READY)
    # Where the parent is gone there is nobody to tell.
    with suppress(EOFError, OSError):
        while True:
            for document in connection.recv():
                connection.send(_limited(task, document, limits))


def _limited(task: Task[Any], document: Document, limits: Limits) -> Any:
    _limit_memory(limits.memory_mb << 20)
    signal.setitimer(signal.ITIMER_PROF, limits.cpu_seconds(document))
    try:
        return attempt(task, document)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        _limit_memory(None)


def _limit_memory(more: int | None) -> None:
    """Allows so much data more than there is now, where the system says how much there is; None lifts the limit."""
    with suppress(OSError, ValueError, IndexError):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if more is None:
            limit = hard
        else:
            limit = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE") + more
            limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
