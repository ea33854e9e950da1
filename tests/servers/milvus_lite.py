"""`milvus-lite server` on the loopback interface, for tests that need several processes on one database."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 60.0
_STARTS = 3


@dataclass
class MilvusLiteServer:
    """A running server.

    Attributes:
        uri: What `MILVUS_URI` is set to.
        folder: Its data.
        process: The server process.
    """

    uri: str
    folder: Path
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """SIGKILL: the server has no chance to write anything more."""
        _end(self.process, signal.SIGKILL)

    def stop(self) -> None:
        _end(self.process, signal.SIGTERM)


def start_milvus_lite(folder: Path) -> MilvusLiteServer:
    """Starts a server over a folder and waits until it answers."""
    for attempt in range(_STARTS):
        port = free_port()
        log = (folder.parent / f"{folder.name}.log").open("ab")
        process = subprocess.Popen(
            [sys.executable, "-m", "milvus_lite", "server"]
            + ["--data-dir", str(folder), "--host", "127.0.0.1", "--port", str(port)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        # The port may have been taken between finding and binding it: then the server ends, and another is tried.
        if _answers(process, port):
            return MilvusLiteServer(f"http://127.0.0.1:{port}", folder, process)
        _end(process, signal.SIGKILL)
        if attempt == _STARTS - 1:
            text = (folder.parent / f"{folder.name}.log").read_text(errors="replace")
            raise RuntimeError(f"milvus-lite server did not start:\n{text[-2000:]}")
    raise AssertionError("unreachable")


@contextmanager
def milvus_lite_server(folder: Path) -> Iterator[MilvusLiteServer]:
    server = start_milvus_lite(folder)
    try:
        yield server
    finally:
        server.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.05)
    return False


def _end(process: subprocess.Popen[bytes], sign: int) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
