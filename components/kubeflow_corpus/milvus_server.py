"""The process that serves an embedded database to the programs of this user: ``python -m ... PATH``.

`milvus_sharing` starts it. Milvus Lite's engine was made for one program, so this adds what several need: a collection
is opened once even where two ask for it at once, changes wait for each other (reads do not), and the garbage collector
does not look at every row in the middle of a search.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from kubeflow_corpus.errors import CorpusError, StoreUnavailable
from kubeflow_corpus.milvus_sharing import (
    CLIENTS_FILE,
    SERVER_FILE,
    new_socket,
    private_file,
    try_lock,
    write_record,
)

# After the last client: the next search of a shell finds it warm.
IDLE_SECONDS: Final = 300.0
_TICK_SECONDS: Final = 0.5
# Calls at once; Python runs them in turn, so more would only be more threads.
_WORKERS: Final = 16
# Rows travel in batches; as Milvus' own limit on its servers.
_MESSAGE_BYTES: Final = 256 * 1024 * 1024
_LOCK_TRIES: Final = 20
_LOCK_PAUSE_SECONDS: Final = 0.005
_READS: Final = ("Connect", "Search", "HybridSearch", "Query", "Describe", "Has", "List", "Show", "Get", "Check")


class Activity:
    """What the calls of the clients say about the state of the server.

    Attributes:
        last_call: When the last call ended (monotonic seconds).
        running: Calls under way.
        changed: Whether rows came into memory, or left it, since garbage was last collected.
    """

    def __init__(self) -> None:
        self.last_call = time.monotonic()
        self.running = 0
        self.changed = True
        self._lock = threading.Lock()
        self._changes = threading.RLock()
        self._seen: set[str] = set()

    @contextmanager
    def call(self, method: str) -> Iterator[None]:
        """Counts a call; one that changes something waits until no other does."""
        reads = method.startswith(_READS)
        with self._lock:
            self.running += 1
        try:
            if reads:
                yield
            else:
                with self._changes:
                    yield
        finally:
            with self._lock:
                self.running -= 1
                self.last_call = time.monotonic()
                # The first search of its kind builds what later ones use.
                self.changed = self.changed or not reads or method not in self._seen
                self._seen.add(method)

    def settle(self) -> None:
        """Takes the rows in memory out of garbage collection, in a quiet moment.

        Looking at all of them, which searches would cause every second or so, takes .7 s for 20,000 rows.
        """
        with self._lock:
            if self.running or not self.changed:
                return
            self.changed = False
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def main(argv: list[str] | None = None) -> int:
    """Detaches from whoever started it, and serves until nobody needs it.

    Returns:
        The exit code; 0 also where another process serves the database already.
    """
    parser = argparse.ArgumentParser(description="Serves a Milvus Lite database to the programs of this user.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS)
    args = parser.parse_args(argv)
    server_file = private_file(args.path / SERVER_FILE)
    if not _lock_patiently(server_file):
        return 0
    write_record(server_file, {})
    if os.fork():
        # The child has the lock.
        os._exit(0)
    os.setsid()
    _redirect_output(args.path)
    try:
        _serve(args.path, server_file, args.idle_seconds)
    except Exception as error:
        write_record(server_file, {"error": _one_line(error)})
        raise
    return 0


def _lock_patiently(file: IO[bytes]) -> bool:
    """Locks the file of the server; a client that looks whether there is one has it for a moment."""
    for _ in range(_LOCK_TRIES):
        if try_lock(file, shared=False):
            return True
        time.sleep(_LOCK_PAUSE_SECONDS)
    return False


def _redirect_output(path: Path) -> None:
    """Leaves the terminal or pipe of who started it; what goes wrong is in a file beside the rows."""
    log = private_file(path / "server.log")
    os.ftruncate(log.fileno(), 0)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log.fileno(), stream.fileno())


def _one_line(error: Exception) -> str:
    text = str(error) if isinstance(error, CorpusError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:500]


def _serve(path: Path, server_file: IO[bytes], idle_seconds: float) -> None:
    from kubeflow_corpus.milvus import load_pymilvus

    load_pymilvus()
    # Nothing of the folder that it was started in is needed any more; it may be on a volume that is to be unmounted.
    path = path.absolute()
    os.chdir("/")
    activity = Activity()
    database = _open(path)
    try:
        with new_socket() as socket, _listening(database, socket, activity):
            write_record(server_file, {"socket": str(socket)})
            _wait(path, server_file, activity, idle_seconds)
            write_record(server_file, {})
    finally:
        database.close()


def _wait(path: Path, server_file: IO[bytes], activity: Activity, idle_seconds: float) -> None:
    """Returns when the server is to end: it was asked to, its folder is gone, or nobody has used it for a while."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    own = os.fstat(server_file.fileno())
    # Kept open when it is locked: a client that comes now waits until this process has ended, and starts the next.
    clients = private_file(path / CLIENTS_FILE)
    while not stop.wait(min(_TICK_SECONDS, idle_seconds)):
        activity.settle()
        if not _is_same(path / SERVER_FILE, own):
            return
        if time.monotonic() - activity.last_call < idle_seconds or activity.running:
            continue
        if try_lock(clients, shared=False):
            return


def _is_same(path: Path, own: os.stat_result) -> bool:
    """Returns whether the database is still where it was; somebody may have removed or replaced its folder."""
    with suppress(OSError):
        return os.path.samestat(os.stat(path), own)
    return False


def _open(path: Path) -> Any:
    from milvus_lite.db import MilvusLite
    from milvus_lite.exceptions import DataDirLockedError

    class Database(MilvusLite):  # type: ignore[misc]
        """Two calls that ask for a collection at once get the same one, and not its files twice."""

        def __init__(self, folder: str) -> None:
            self._opening = threading.RLock()
            super().__init__(folder)

        def get_collection(self, *args: Any, **kwargs: Any) -> Any:
            """As `MilvusLite.get_collection`."""
            with self._opening:
                return super().get_collection(*args, **kwargs)

    try:
        return Database(str(path))
    except DataDirLockedError as error:
        raise StoreUnavailable("Another program has it open") from error


@contextmanager
def _listening(database: Any, socket: Path, activity: Activity) -> Iterator[None]:
    import grpc  # type: ignore[import-untyped]
    from milvus_lite.adapter.grpc.servicer import MilvusServicer
    from pymilvus.grpc_gen import milvus_pb2_grpc

    class Watch(grpc.ServerInterceptor):  # type: ignore[misc]
        """Leads every call through `Activity`."""

        def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
            """Wraps the function that answers a call."""
            handler = continuation(details)
            if handler is None or handler.unary_unary is None:
                return handler
            method = details.method.rpartition("/")[2]

            def answer(request: Any, context: Any) -> Any:
                with activity.call(method):
                    return handler.unary_unary(request, context)

            return grpc.unary_unary_rpc_method_handler(
                answer, handler.request_deserializer, handler.response_serializer
            )

    server = grpc.server(
        ThreadPoolExecutor(_WORKERS, thread_name_prefix="milvus"),
        interceptors=[Watch()],
        options=[
            ("grpc.max_receive_message_length", _MESSAGE_BYTES),
            ("grpc.max_send_message_length", _MESSAGE_BYTES),
        ],
    )
    milvus_pb2_grpc.add_MilvusServiceServicer_to_server(MilvusServicer(database), server)
    # Nobody else can enter its folder; its own rights say the same.
    before = os.umask(0o077)
    try:
        server.add_insecure_port(f"unix:{socket}")
    finally:
        os.umask(before)
    server.start()
    try:
        yield
    finally:
        server.stop(grace=5).wait()


if __name__ == "__main__":
    sys.exit(main())
