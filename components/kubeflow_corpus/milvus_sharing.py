"""One embedded database for many programs: finds the process that serves it, and starts one if there is none.

Milvus Lite lets one process open a database. So the programs of a laptop (MCP servers of several editors, a search, a
run of the pipeline) do not open it: a process of its own does (`milvus_server`), and they are its clients. The first of
them starts it. It belongs to nobody, so any of them may be killed; it ends some minutes after the last is gone.

Two files in the folder of the database keep this right, by locks that the system takes back when a process dies:
``SERVER`` is locked by the process that serves, and holds where it listens; ``CLIENTS`` is locked, shared, by everyone
who uses it. A copy of the folder copies the files, and no lock: nobody is led to the server of another database.

It listens on a Unix socket in a folder that only this user can enter, and on no port.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from kubeflow_corpus.errors import StoreUnavailable

try:
    import fcntl
except ImportError:  # Windows: every process opens its database itself.
    fcntl = None  # type: ignore[assignment]

SERVER_FILE: Final = "SERVER"
CLIENTS_FILE: Final = "CLIENTS"
SERVER_MODULE: Final = "kubeflow_corpus.milvus_server"
# A cold start takes 2 s of processor time; a laptop that indexes meanwhile has little of it to give.
START_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02
# The system's limit is 107 bytes (103 on macOS); the names of sockets take 17.
_LONGEST_FOLDER: Final = 80
# A socket this young may belong to a server that does not listen yet.
_YOUNG_SECONDS: Final = 60.0
# The server outlives who starts it: it gets what Python needs and no secret.
_KEPT_VARIABLES: Final = (
    *("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "XDG_RUNTIME_DIR"),
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
)

# For each database that this process uses: the file whose lock says so, and how many clients there are.
_USED: Final[dict[str, tuple[IO[bytes], int]]] = {}
_USED_LOCK: Final = threading.Lock()


def can_share() -> bool:
    """Returns whether this system has the locks and sockets that sharing needs."""
    return fcntl is not None


def use(path: Path) -> str:
    """Announces a client of a database, and returns where it is served; starts the server if there is none.

    Args:
        path: The folder of the database; a missing one is made.

    Returns:
        The URI for pymilvus.

    Raises:
        StoreUnavailable: It cannot be served, with the reason.
    """
    key = os.path.realpath(path)
    deadline = time.monotonic() + START_SECONDS
    with _USED_LOCK:
        file, count = _USED.get(key, (None, 0))
        if file is None or not _is_at(file, Path(key) / CLIENTS_FILE):
            if file is not None:
                # The folder was removed or renamed, and another takes its place.
                file.close()
            file = _announce(Path(key), deadline)
        _USED[key] = (file, count + 1)
    try:
        return _served_at(Path(key), deadline)
    except BaseException:
        leave(path)
        raise


def leave(path: Path) -> None:
    """Takes back one `use`; the server may end when nobody is left."""
    key = os.path.realpath(path)
    with _USED_LOCK:
        file, count = _USED[key]
        if count > 1:
            _USED[key] = (file, count - 1)
            return
        del _USED[key]
        file.close()


def served_at(path: Path) -> str:
    """Returns where a process serves the database now; "" where none does, or none yet."""
    return _address(Path(os.path.realpath(path))) or ""


def _is_at(file: IO[bytes], path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    return False


def _announce(path: Path, deadline: float) -> IO[bytes]:
    """Locks the file of the clients; a server that is about to end has it for a moment."""
    path.mkdir(exist_ok=True)
    file = private_file(path / CLIENTS_FILE)
    try:
        while not try_lock(file, shared=True):
            _pause(path, deadline)
    except BaseException:
        file.close()
        raise
    return file


def _served_at(path: Path, deadline: float) -> str:
    """Waits for the address; starts a server as often as there is none, for the reason that the last one left."""
    starts = 0
    while True:
        address = _address(path)
        if address:
            _check_owner(address)
            if _is_listening(address):
                return f"unix:{address}"
        if address is None:
            # The last start may have met a process that has the database to itself for a moment: a step of a run.
            if starts and (reason := _reason(path)):
                _fail_late(path, reason, deadline)
            _start(path)
            starts += 1
        _pause(path, deadline)


def _address(path: Path) -> str | None:
    """Returns the socket of the server; "" while it is starting, None if there is none."""
    try:
        with (path / SERVER_FILE).open("rb+") as file:
            if try_lock(file, shared=True):
                return None
            return str(_record(file).get("socket", ""))
    except FileNotFoundError:
        return None


def _reason(path: Path) -> str:
    """Returns why the last server ended; "" where it ended because nobody needed it."""
    with (path / SERVER_FILE).open("rb") as file:
        return str(_record(file).get("error", ""))


def _record(file: IO[bytes]) -> dict[str, object]:
    try:
        record = json.loads(file.read() or b"{}")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def write_record(file: IO[bytes], record: dict[str, str]) -> None:
    """Replaces what the file of the server says; half of a record, which a reader may see, reads as none."""
    data = json.dumps(record).encode()
    os.ftruncate(file.fileno(), 0)
    os.pwrite(file.fileno(), data, 0)


def _start(path: Path) -> None:
    """Starts a server; it detaches itself before it opens anything, so this takes as long as Python's start."""
    environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    # -P: the folder in which an editor starts a program must not be where Python finds its modules.
    command = [sys.executable, "-P", "-m", SERVER_MODULE, str(path)]
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise _failure(path, lines[-1])


def _pause(path: Path, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise _failure(path, f"it did not answer within {START_SECONDS:.0f} s")
    time.sleep(_POLL_SECONDS)


def _fail_late(path: Path, reason: str, deadline: float) -> None:
    if time.monotonic() > deadline - START_SECONDS * 0.9:
        raise _failure(path, reason)
    time.sleep(_POLL_SECONDS * 10)


def _failure(path: Path, reason: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"The database {str(path)!r} cannot be shared between programs: {reason}",
        remedy="Stop the program that has it open, or set MILVUS_SHARING=false to open it in this one alone",
    )


def _is_listening(address: str) -> bool:
    """Whether somebody listens: for a moment, the locks of a process that was killed outlive its socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_POLL_SECONDS)
        return probe.connect_ex(address) not in (errno.ECONNREFUSED, errno.ENOENT)


def _check_owner(address: str) -> None:
    with suppress(FileNotFoundError):
        if os.lstat(address).st_uid != os.getuid():
            raise StoreUnavailable(
                f"The server at {address} is another user's", remedy="Use a database in a folder of your own"
            )


# ---- for both sides


def private_file(path: Path) -> IO[bytes]:
    """Opens a file that only this user can read, and makes it where it is missing."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "rb+", buffering=0)


def try_lock(file: IO[bytes], *, shared: bool) -> bool:
    """Locks a file until it is closed or its process ends; returns False where another lock excludes it."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def new_socket() -> Iterator[Path]:
    """Yields a path that no socket ever had, for the server's, and removes the socket in the end.

    Raises:
        StoreUnavailable: There is no folder that only this user can enter.
    """
    folder = _private_folder()
    _sweep(folder)
    path = folder / secrets.token_hex(8)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Removes the sockets of servers that were killed: nobody listens there any more."""
    for path in folder.iterdir():
        with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            if (
                time.time() - path.lstat().st_mtime > _YOUNG_SECONDS
                and probe.connect_ex(str(path)) == errno.ECONNREFUSED
            ):
                path.unlink()


def _private_folder() -> Path:
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):
        folder = Path(base) / f"kubeflow-corpus-{os.getuid()}"
        if not base or not Path(base).is_dir() or len(os.fsencode(folder)) > _LONGEST_FOLDER:
            continue
        with suppress(OSError):
            folder.mkdir(0o700, exist_ok=True)
            status = os.lstat(folder)
            # Another user may have made it first, or a link that leads elsewhere.
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
                return folder
    raise StoreUnavailable(
        "There is no folder for sockets that only this user can enter", remedy="Set XDG_RUNTIME_DIR to one"
    )
