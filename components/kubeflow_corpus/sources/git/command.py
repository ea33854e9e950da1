"""Runs git so that neither the machine's configuration nor a hostile repository decides what it does.

The environment is built from nothing: no system, user or inherited configuration, no hooks, no credential helper and no
prompt, no maintenance, and only the transport that the source needs. Nothing is ever checked out, so no smudge filter,
no submodule and no symbolic link comes into play. Commands end within `TransferLimits`, with all their children.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from kubeflow_corpus.errors import (
    RepositoryNotFound,
    SourceError,
    SourceForbidden,
    SourceRateLimited,
    SourceRefused,
    SourceUnauthenticated,
    SourceUnreachable,
)
from kubeflow_corpus.retry import Backoff, retry
from kubeflow_corpus.settings import Secret


@dataclass(frozen=True, slots=True)
class TransferLimits:
    """What a source may cost.

    Attributes:
        seconds: Longest run of one git command.
        stall_seconds: A transfer below 1 kB/s for so long is given up.
        transfer_bytes: Most bytes that one source may put on the disk.
        attempts: How often a transfer that was interrupted is tried.
        retry_seconds: Wait before it is tried again.
    """

    seconds: float = 900.0
    stall_seconds: int = 60
    transfer_bytes: int = 4 << 30
    attempts: int = 3
    retry_seconds: float = 2.0


DEFAULT_LIMITS: Final = TransferLimits()


@dataclass(frozen=True, slots=True)
class Access:
    """How the repository of a source is reached.

    Attributes:
        source: Name of the source, for errors.
        url: What git is given.
        shown: The same for people.
        protocol: The one transport that git may use.
        header: ``Authorization`` header, where the host gets one.
        local: The repository's folder where `url` is a ``file://`` URL.
    """

    source: str
    url: str
    shown: str
    protocol: str
    header: Secret = field(default=Secret(""))
    local: str = ""


class GitFailed(Exception):
    """A git command failed; `text` is what it said."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


# The first that matches what git said decides: (pattern, error, what happened, remedy).
_CAUSES: Final[tuple[tuple[str, type[SourceError], str, str], ...]] = (
    (
        r"transport '.*' not allowed|Protocol .* (?:not supported|disabled)",
        SourceRefused,
        "redirects to, or uses, a transport that is not allowed",
        "Use an https URL, or the path of a clone",
    ),
    (
        r"returned error: 30\d|unable to update url base from redirection",
        RepositoryNotFound,
        "has moved",
        "Write the repository's new address into the catalogue",
    ),
    (
        r"returned error: 429",
        SourceRateLimited,
        "is asked too often",
        "Wait and run again; what was indexed before is still served",
    ),
    (
        r"returned error: 403",
        SourceForbidden,
        "does not let this caller in",
        "Give GITHUB_TOKEN read access to the repository's contents",
    ),
    (
        r"Authentication failed|could not read (?:Username|Password)|returned error: 401|terminal prompts disabled",
        SourceUnauthenticated,
        "wants credentials, or refuses those it got",
        "Set GITHUB_TOKEN to a token that may read the repository (it is used for the host of GITHUB_API_URL only)",
    ),
    (
        r"Repository not found|repository '.*' not found|returned error: (?:404|410)"
        r"|does not appear to be a git repository|not a git repository|does not exist|no such file or directory",
        RepositoryNotFound,
        "is not there",
        "Check repo and url in the catalogue; a private repository needs GITHUB_TOKEN",
    ),
    (
        r"detected dubious ownership|unsafe repository",
        SourceRefused,
        "belongs to another user",
        "Run as its owner, or clone it",
    ),
    (
        r"No space left on device|Disk quota exceeded",
        SourceError,
        "does not fit on the disk",
        "Free space in the working folder",
    ),
    (
        r"repository corruption on the remote side",
        SourceError,
        "lacks objects of its own",
        "Repair the repository (git fsck), or clone it again",
    ),
    (
        r"mismatched algorithms",
        SourceRefused,
        "mixes object formats",
        "Use a repository with SHA-1 or SHA-256 objects, not both",
    ),
)
_UNREACHABLE_REMEDY: Final = (
    "Check the network and the address, then run again; what was indexed before is still served"
)
_KEPT_VARIABLES: Final = (
    "PATH",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
)
_TAIL_BYTES: Final = 8192
_POLL_SECONDS: Final = 0.5
_MAX_LINE: Final = 300
# Our own side of a local transfer: it may leave out blobs, hand out any commit, and trust the folder that the catalogue
# names (git's ownership check is about repositories that are stumbled upon).
_LOCAL_SERVER: Final = (
    "git -c uploadpack.allowFilter=true -c uploadpack.allowAnySHA1InWant=true -c safe.directory='*' upload-pack"
)


class Git:
    """Runs git commands in one bare repository of our own.

    Args:
        folder: The repository, or the folder in which it will be made.
        limits: What a command may cost.
        access: The remote; None where no command talks to one.
    """

    def __init__(self, folder: Path, limits: TransferLimits, access: Access | None = None) -> None:
        self._folder = folder
        self._limits = limits
        self._access = access
        self._base = _environment(folder)

    def run(self, *args: str, stdin: bytes = b"", remote: bool = False, keep: int = 64 << 20) -> bytes:
        """Runs one command to its end.

        Args:
            *args: What follows ``git``.
            stdin: What it reads.
            remote: Whether it talks to the remote ``origin``; without, every transport is shut.
            keep: Most bytes of output.

        Returns:
            Its output.

        Raises:
            GitFailed: Its exit code is not 0.
            SourceUnreachable: It took too long.
            SourceRefused: It sent more bytes than `TransferLimits` allows.
            SourceError: git is not installed.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            process = self._spawn(args, given, out, err, remote)
            try:
                self._wait(process, args[0], out, err)
            finally:
                _kill(process)
            if process.returncode != 0:
                raise GitFailed(_tail(err))
            size = out.seek(0, os.SEEK_END)
            if size > keep:
                raise self._refused(f"answers {args[0]} with more than {keep} bytes")
            out.seek(0)
            return out.read()

    @contextmanager
    def talk(self, *args: str) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        """Runs one local command beside us.

        Args:
            *args: What follows ``git``.

        Yields:
            Its standard input and output.
        """
        process = self._spawn(args, subprocess.PIPE, subprocess.PIPE, subprocess.DEVNULL, remote=False)
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdin, process.stdout
        finally:
            _kill(process)
            # A kill leaves unsent input in the buffer, and closing would try to send it.
            with _ignored(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()

    def transfer(self, *args: str, stdin: bytes = b"") -> None:
        """Fetches from the remote, and again if the transfer is interrupted.

        Args:
            *args: What follows ``git fetch``.
            stdin: What it reads.

        Raises:
            GitFailed: The remote refused.
            SourceUnreachable: The remote does not answer.
        """
        server = ("--upload-pack", _LOCAL_SERVER) if self._access and self._access.local else ()
        fixed = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--no-write-fetch-head")
        self.retried("fetch", *server, *fixed, *args, stdin=stdin)

    def list_remote(self, *patterns: str) -> list[tuple[str, str]]:
        """Lists refs of the remote as (object id, name) pairs.

        Args:
            *patterns: Full names to ask for; none lists all.
        """
        server = ("--upload-pack", _LOCAL_SERVER) if self._access and self._access.local else ()
        text = self.retried("ls-remote", "--quiet", *server, "origin", *patterns).decode("utf-8", "replace")
        pairs = [line.split("\t", 1) for line in text.splitlines() if "\t" in line]
        return [(oid, name) for oid, name in pairs if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", oid)]

    def retried(self, *args: str, stdin: bytes = b"") -> bytes:
        """Runs a command that talks to the remote, and again if it fails for a reason that may pass."""
        backoff = Backoff(self._limits.attempts, self._limits.retry_seconds)
        return retry(lambda: self.run(*args, stdin=stdin, remote=True), _passes, backoff)

    def _spawn(
        self, args: Sequence[str], given: IO[bytes] | int, out: IO[bytes] | int, err: IO[bytes] | int, remote: bool
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                ["git", *args],
                stdin=given,
                stdout=out,
                stderr=err,
                cwd=self._folder,
                env=self._environment(remote),
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise SourceError(
                "git is not installed", remedy="Install git 2.36 or newer, or name plain folders as sources"
            ) from error

    def _environment(self, remote: bool) -> dict[str, str]:
        access = self._access if remote else None
        config = dict(_CONFIG)
        if access:
            config |= _remote_config(access, self._limits)
        pairs = {f"GIT_CONFIG_KEY_{index}": key for index, key in enumerate(config)}
        pairs |= {f"GIT_CONFIG_VALUE_{index}": value for index, value in enumerate(config.values())}
        protocol = access.protocol if access else "none"
        return {**self._base, "GIT_ALLOW_PROTOCOL": protocol, "GIT_CONFIG_COUNT": str(len(config)), **pairs}

    def _wait(self, process: subprocess.Popen[bytes], command: str, out: IO[bytes], err: IO[bytes]) -> None:
        end = time.monotonic() + self._limits.seconds
        while True:
            with _ignored(subprocess.TimeoutExpired):
                process.wait(_POLL_SECONDS)
            if _size(self._folder) + _length(out) + _length(err) > self._limits.transfer_bytes:
                raise self._refused(f"sends more than {self._limits.transfer_bytes} bytes")
            if process.returncode is not None:
                return
            if time.monotonic() > end:
                raise self._unreachable(f"took longer than {self._limits.seconds:g} seconds for {command}")

    def _unreachable(self, how: str) -> SourceUnreachable:
        source, shown = self._names()
        return SourceUnreachable(f"{source}: {shown} {how}", remedy=_UNREACHABLE_REMEDY, source=source)

    def _refused(self, how: str) -> SourceRefused:
        source, shown = self._names()
        return SourceRefused(
            f"{source}: {shown} {how}", remedy="Narrow 'include', or leave the source out", source=source
        )

    def _names(self) -> tuple[str, str]:
        return (self._access.source, self._access.shown) if self._access else ("source", "the repository")


@contextmanager
def _ignored(kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kind:
        return


def explain(failure: GitFailed, access: Access) -> SourceError:
    """Turns what git said into the error that a person can act on.

    Args:
        failure: The failed command.
        access: The remote that it talked to.
    """
    said = _error_line(failure.text, access)
    for pattern, kind, what, remedy in _CAUSES:
        if re.search(pattern, failure.text, re.IGNORECASE):
            # GitHub asks anonymous callers for a password if there is no such repository.
            if kind is SourceUnauthenticated and not access.header and "//github.com/" in access.url:
                kind, what = RepositoryNotFound, "is not there, or is private"
                remedy = "Check repo and url in the catalogue; a private repository needs GITHUB_TOKEN"
            return kind(f"{access.source}: {access.shown} {what} ({said})", remedy=remedy, source=access.source)
    problem = f"{access.source}: {access.shown} cannot be read ({said})"
    return SourceUnreachable(problem, remedy=_UNREACHABLE_REMEDY, source=access.source)


def authorization(token: Secret) -> Secret:
    """Returns the header with which GitHub's git server takes an API token."""
    pair = base64.b64encode(f"x-access-token:{token.reveal()}".encode()).decode("ascii")
    return Secret(f"Authorization: Basic {pair}")


_CONFIG: Final[Mapping[str, str]] = {
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.fsmonitor": "false",
    "credential.helper": "",
    "transfer.credentialsInUrl": "die",
    "fetch.recurseSubmodules": "false",
    "fetch.negotiationAlgorithm": "noop",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.version": "2",
    # A huge file goes to the disk as a stream, not through memory.
    "core.bigFileThreshold": "16m",
    "pack.threads": "2",
    "advice.detachedHead": "false",
}


def _remote_config(access: Access, limits: TransferLimits) -> dict[str, str]:
    config = {
        "remote.origin.url": access.url,
        "http.lowSpeedLimit": "1000",
        "http.lowSpeedTime": str(limits.stall_seconds),
        # A token must not follow a redirect to another host.
        "http.followRedirects": "false" if access.header else "initial",
    }
    if access.header:
        config[f"http.{access.url}.extraHeader"] = access.header.reveal()
    return config


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {
        **kept,
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS": "",
        "GIT_DIR": str(folder),
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with _ignored(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _tail(err: IO[bytes]) -> str:
    size = err.seek(0, os.SEEK_END)
    err.seek(max(0, size - _TAIL_BYTES))
    return err.read().decode("utf-8", "replace")


def _length(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            # Temporary packs vanish between the listing and the look.
            with _ignored(FileNotFoundError):
                total += (Path(place) / name).lstat().st_size
    return total


def _passes(error: Exception) -> bool:
    if not isinstance(error, GitFailed):
        return False
    permanent = any(re.search(pattern, error.text, re.IGNORECASE) for pattern, *_ in _CAUSES)
    return not permanent and not unadvertised(error.text)


def unadvertised(text: str) -> bool:
    """Returns whether the remote has no such object, or does not serve it by its id."""
    return (
        re.search(r"not our ref|unadvertised object|couldn't find remote ref|bad object|invalid refspec", text)
        is not None
    )


def _error_line(text: str, access: Access) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    line = (fatal or lines or ["git said nothing"])[0]
    line = re.sub(r"(\w+://)[^/@\s]*@", r"\1", line)
    secret = access.header.reveal().rpartition(" ")[2]
    if secret:
        line = line.replace(secret, "***")
    return "".join(character for character in line if character.isprintable())[:_MAX_LINE]
