"""A real Milvus standalone server from PyPI, in a network of its own, around one command.

``python -m tests.servers.milvus_server milvus-server FOLDER COMMAND...`` starts the server, waits until it is well,
runs the command with MILVUS_CONTRACT_URI set, and kills the server. The server listens on every address and on fixed
ports, so the whole of it is to be started inside a network namespace: `isolated` says how.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

PROXY_PORT = 29530
HEALTH = "http://127.0.0.1:9091/healthz"
START_SECONDS = 120.0
NAMESPACE = ("unshare", "--map-root-user", "--net")

# Tests flush often; the limit of one flush in ten seconds would only make them slow.
CONFIGURATION = "quotaAndLimits.flushRate.enabled=false"


def isolated(binary: str, folder: Path, command: Sequence[str]) -> list[str]:
    """Returns the command line that runs a command beside a server, away from every other network."""
    return [*NAMESPACE, sys.executable, "-m", "tests.servers.milvus_server", binary, str(folder), *command]


def can_isolate() -> bool:
    try:
        return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def bring_loopback_up() -> None:
    """A new network namespace has a loopback interface that is down."""
    get_flags, set_flags, up = 0x8913, 0x8914, 0x1
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, get_flags, request))[1]
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", flags | up))


def main(binary: str, folder: Path, command: Sequence[str]) -> int:
    bring_loopback_up()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.log").open("wb") as log:
        arguments = ["--data", str(folder / "data"), "--proxy-port", str(PROXY_PORT)]
        server = subprocess.Popen(
            [binary, *arguments, "--extra-config", CONFIGURATION],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        if not _well(server):
            print((folder / "server.log").read_text(errors="replace")[-3000:], file=sys.stderr)
            return 3
        environment = {**os.environ, "MILVUS_CONTRACT_URI": f"http://127.0.0.1:{PROXY_PORT}"}
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _well(server: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(HEALTH, timeout=2) as answer:
                if answer.status == 200:
                    return True
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.5)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
