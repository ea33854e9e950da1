"""Opens Milvus, and turns what can go wrong with it into errors of this project."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from kubeflow_corpus import milvus_sharing
from kubeflow_corpus.errors import CollectionNotFound, CorpusError, StoreError, StoreFull, StoreUnavailable
from kubeflow_corpus.retry import Backoff, retry
from kubeflow_corpus.settings import Settings

if TYPE_CHECKING:
    from pymilvus import MilvusClient

Result = TypeVar("Result")

CONNECT_TIMEOUT_SECONDS: Final = 10.0
# Milvus Lite 2.5 has no aliases and no properties and loses a row when an upsert fails.
_OLDEST_LITE: Final = (3, 2)
# BM25 functions exist from this server release on; an older one accepts such a schema silently and ignores it.
_OLDEST_BM25_SERVER: Final = (2, 5)

# What a message says, and what that means. The first match counts; all are lower case.
_FULL: Final = ("no space left", "disk quota", "quota exceeded", "memory limit exceeded", "errno 28", "errno 122")
_REFUSED: Final = ("unauthenticated", "auth check failure", "permission deny", "permission denied", "invalid token")
_DOWN: Final = (
    "fail connecting",
    "failed to connect",
    "connection refused",
    "unavailable",
    "deadline exceeded",
    "not ready",
    "open local milvus failed",
    "socket closed",
)
_MISSING: Final = ("can't find collection", "collection not found", "collection not exist", "does not exist")
# A server moves an alias without a gap, yet some reads fail while it does (0.2-0.8% measured on 2.3.5).
_TRANSIENT: Final = (
    "failed to get delegator",
    "channel not available",
    "node not match",
    "collection not loaded",
    "not fully loaded",
    "rate limit",
    "fail to search on all shard leaders",
    "no available shard",
    "socket closed",
)
_READS: Final = Backoff(attempts=6, base=0.1)

# Open clients of each embedded database in this process, by its absolute path.
_HOLDERS: Final[Counter[str]] = Counter()
_HOLDERS_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Backend:
    """What a connection leads to, as far as collections depend on it.

    Attributes:
        version: What it says of itself, such as ``milvus-lite-3.2.2`` or ``v2.6.4``.
        lite: Whether it is Milvus Lite, embedded or served.
        bm25: Whether it has BM25 functions (a server from 2.5 on); without them only the dense list exists.
    """

    version: str
    lite: bool
    bm25: bool


def connect(settings: Settings) -> MilvusClient:
    """Opens Milvus.

    Args:
        settings: `milvus_uri` (a ``.db`` path or an http(s) URL), credentials and database.

    Returns:
        A client; `disconnect` closes it.

    Raises:
        SettingsError: `MILVUS_URI` is not set.
        StoreUnavailable: The path cannot hold collections, another process has it, or the server does not answer or
            does not accept the credentials.
        StoreFull: No space is left.
    """
    uri = settings.require_milvus_uri()
    if settings.embedded_milvus:
        check_embedded_path(Path(uri), shared=settings.shared_milvus)
    what = f"Milvus at {uri}"
    try:
        with store_errors(what):
            return open_client(settings, CONNECT_TIMEOUT_SECONDS)
    except StoreUnavailable:
        # gRPC shares its connections within a process, and one that a server closed while nobody used it fails the
        # first caller after a pause. A server that is really down fails the second try as well.
        with store_errors(what):
            return open_client(settings, CONNECT_TIMEOUT_SECONDS)


def open_client(settings: Settings, timeout: float) -> MilvusClient:
    """Opens a client without checking the path, with Milvus's own errors: for callers that handle both.

    Args:
        settings: Where Milvus is and who we are.
        timeout: Seconds for the connection.

    Returns:
        A client; `disconnect` closes it.
    """
    load_pymilvus()
    from kubeflow_corpus.milvus_databases import database_client

    shared = Path(settings.milvus_uri) if settings.shared_milvus else None
    uri = milvus_sharing.use(shared) if shared else settings.milvus_uri
    try:
        client = database_client(settings.milvus_database)(
            uri=uri,
            user=settings.milvus_user,
            password=settings.milvus_password.reveal(),
            token=settings.milvus_token.reveal(),
            db_name=settings.milvus_database,
            timeout=timeout,
        )
    except BaseException:
        if shared:
            milvus_sharing.leave(shared)
        raise
    if settings.exclusive_milvus:
        with _HOLDERS_LOCK:
            _HOLDERS[os.path.abspath(settings.milvus_uri)] += 1
    return client


def load_pymilvus() -> None:
    """Imports pymilvus for the first time, without its side effects.

    It parses MILVUS_URI while it is imported, and refuses a path. It also logs every failed call with a traceback, even
    those that are handled, and so does Milvus Lite; the error that is raised says it all. Loggers that were configured
    otherwise stay as they are.
    """
    if "pymilvus" in sys.modules:
        _silence_loggers()
        return
    uri = os.environ.get("MILVUS_URI")
    # Empty and not absent: pymilvus also reads a .env file, which fills in what is absent.
    os.environ["MILVUS_URI"] = ""
    try:
        import_module("pymilvus")
    finally:
        if uri is None:
            del os.environ["MILVUS_URI"]
        else:
            os.environ["MILVUS_URI"] = uri
    _silence_loggers()


@contextmanager
def checked_texts() -> Iterator[None]:
    """Keeps pymilvus from checking each character of each text of the rows that are written in the block.

    It means to check a list of texts, gets one text, and so checks of every character whether it is a text and short
    enough, which takes a sixth of the time of an upsert and finds nothing; `to_row` has checked the texts.
    """
    from pymilvus.client import entity_helper

    before = getattr(entity_helper, "CHECK_STR_ARRAY", None)
    if before is None:
        yield
        return
    entity_helper.CHECK_STR_ARRAY = False
    try:
        yield
    finally:
        entity_helper.CHECK_STR_ARRAY = before


def _silence_loggers() -> None:
    for name in ("pymilvus", "milvus_lite"):
        logger = logging.getLogger(name)
        if logger.level in (logging.NOTSET, logging.INFO, logging.WARNING):
            logger.setLevel(logging.CRITICAL)


def disconnect(client: MilvusClient, settings: Settings) -> None:
    """Closes a client, and frees an embedded database for other processes (`close` alone does not).

    All clients of one path in a process share one embedded server: the last of them ends it.
    """
    client.close()
    abandon(settings)
    if settings.exclusive_milvus:
        path = os.path.abspath(settings.milvus_uri)
        with _HOLDERS_LOCK:
            _HOLDERS[path] -= 1
            if _HOLDERS[path] > 0:
                return
            del _HOLDERS[path]
        from milvus_lite.server_manager import server_manager_instance

        server_manager_instance.release_server(settings.milvus_uri)


def abandon(settings: Settings) -> None:
    """Says that a client of a shared database is not used any more, without closing it: for one that is broken."""
    if settings.shared_milvus:
        milvus_sharing.leave(Path(settings.milvus_uri))


def server_of(settings: Settings) -> str:
    """Returns where a shared database is served now; "" for every other one. A client of another place is lost."""
    return milvus_sharing.served_at(Path(settings.milvus_uri)) if settings.shared_milvus else ""


@contextmanager
def connected(settings: Settings) -> Iterator[MilvusClient]:
    """Opens Milvus for a `with` block."""
    client = connect(settings)
    try:
        yield client
    finally:
        disconnect(client, settings)


def check_embedded_path(path: Path, *, shared: bool = False) -> None:
    """Refuses an embedded database that cannot be opened, with the reason, which Milvus Lite does not give.

    Args:
        path: Where it is.
        shared: Whether another process may have it open.

    Raises:
        StoreUnavailable: The name, the folder, the lock or the installed release is wrong.
    """
    remedy = "Set MILVUS_URI to a path that ends in .db, in a folder that exists and can be written"
    if path.suffix != ".db":
        raise StoreUnavailable(f"MILVUS_URI {str(path)!r} does not end in .db and is not a URL", remedy=remedy)
    if not path.parent.is_dir():
        raise StoreUnavailable(f"The folder of MILVUS_URI {str(path)!r} does not exist", remedy=remedy)
    if path.exists() and not path.is_dir():
        raise StoreUnavailable(
            f"MILVUS_URI {str(path)!r} is a file, not a folder of Milvus Lite 3 (2.x wrote files, and cannot be read)",
            remedy="Use another path and run the ingestion again",
        )
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise StoreUnavailable(f"MILVUS_URI {str(path)!r} cannot be written", remedy=remedy)
    _check_lite_release()
    if not shared:
        _check_lock(path)


def _check_lite_release() -> None:
    from importlib import metadata

    remedy = "Install the extra: pip install 'kubeflow-corpus[local]'"
    try:
        release = metadata.version("milvus-lite")
    except metadata.PackageNotFoundError as error:
        raise StoreUnavailable("An embedded database needs Milvus Lite", remedy=remedy) from error
    if _numbers(release) < _OLDEST_LITE:
        raise StoreUnavailable(f"Milvus Lite {release} has no aliases and loses rows", remedy=remedy)


def _check_lock(path: Path) -> None:
    """Milvus Lite locks its folder; the same process may open it more than once."""
    try:
        import fcntl

        from milvus_lite.server_manager import server_manager_instance
    except ImportError:
        return
    lock = path / "LOCK"
    if str(path.absolute()) in server_manager_instance._servers or not lock.exists():
        return
    with lock.open("rb+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreUnavailable(
                f"Another process has {str(path)!r} open",
                remedy="Unset MILVUS_SHARING to use it together with other programs, or wait for that process",
            ) from error


def detect_backend(client: MilvusClient) -> Backend:
    """Asks the server or embedded database for its release.

    Raises:
        StoreError: The server does not answer.
    """
    with store_errors("Milvus"):
        version = str(client.get_server_version())
    # The old standalone server from PyPI calls itself "v2.3.5-lite" and is not Milvus Lite.
    lite = version.lower().replace("_", "-").startswith("milvus-lite")
    return Backend(version=version, lite=lite, bm25=lite or _numbers(version) >= _OLDEST_BM25_SERVER)


def _numbers(version: str) -> tuple[int, ...]:
    digits = version.lstrip("v").split("-")[0].split(".")[:2]
    return tuple(int(part) for part in digits if part.isdigit())


@contextmanager
def store_errors(what: str) -> Iterator[None]:
    """Turns what Milvus, gRPC and the disk raise into errors of this project.

    Args:
        what: Subject of the message, such as the name of a collection.

    Raises:
        StoreError: One of its kinds, with the remedy.
    """
    import grpc  # type: ignore[import-untyped]

    load_pymilvus()
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except CorpusError:
        raise
    except (MilvusException, grpc.RpcError, OSError) as error:
        raise translated(what, error) from error


def translated(what: str, error: BaseException) -> StoreError:
    """Returns the error of this project that says what an error of Milvus means."""
    message = _message(error)
    lower = message.lower()
    if any(sign in lower for sign in _FULL):
        return StoreFull(
            f"{what}: no space is left where the collections are kept ({message})",
            remedy="Free space (kubeflow-corpus prune drops old versions) or enlarge the volume, then run again: "
            "what was served before still is",
        )
    if any(sign in lower for sign in _REFUSED):
        return StoreUnavailable(
            f"{what}: the server does not accept the credentials",
            remedy="Set MILVUS_TOKEN, or MILVUS_USER and MILVUS_PASSWORD",
        )
    if any(sign in lower for sign in _MISSING):
        return CollectionNotFound(f"{what}: {message}", remedy="Run the ingestion first: kubeflow-corpus run")
    if any(sign in lower for sign in _DOWN):
        if "unix:" in lower:
            return StoreUnavailable(
                f"{what}: the process that shares the database between programs has ended",
                remedy="Do the same again, which starts another; what was served before still is",
            )
        return StoreUnavailable(
            f"{what} does not answer ({message})",
            remedy="Check MILVUS_URI and that the server is up",
        )
    return StoreError(f"{what}: Milvus failed: {message}", remedy="See the log of the Milvus server")


def _message(error: BaseException) -> str:
    text = getattr(error, "message", "") or str(error)
    first = str(text).strip().splitlines()
    return first[0][:300] if first else type(error).__name__


def read_with_retry(read: Callable[[], Result], *, sleep: Callable[[float], None] = time.sleep) -> Result:
    """Calls a read again while a server answers that it is busy moving an alias or loading.

    Args:
        read: The call; it must change nothing.
        sleep: Instead of `time.sleep`, for tests.

    Raises:
        MilvusException: It failed for good.
    """
    return retry(read, _is_transient, _READS, sleep=sleep)


def _is_transient(error: Exception) -> bool:
    from pymilvus.exceptions import MilvusException

    return isinstance(error, MilvusException) and any(sign in _message(error).lower() for sign in _TRANSIENT)
