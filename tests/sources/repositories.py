"""Real git repositories for tests, made with fixed names and times."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def git(folder: Path, *args: str, at: str = "2026-01-02T03:04:05+02:00", stdin: bytes = b"") -> str:
    dates = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
    command = ["git", "-C", str(folder), *args]
    result = subprocess.run(command, env={**_ENVIRONMENT, **dates}, input=stdin, capture_output=True, check=True)
    return result.stdout.decode().strip()


def make_repository(folder: Path, files: dict[str, bytes]) -> str:
    """Makes a repository with one commit on ``main`` and returns the commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    return commit_files(folder, files)


def commit_files(folder: Path, files: dict[str, bytes], at: str = "2026-01-02T03:04:05+02:00") -> str:
    write_files(folder, files)
    git(folder, "add", "--all")
    return commit(folder, at)


def commit(folder: Path, at: str = "2026-01-02T03:04:05+02:00") -> str:
    git(folder, "commit", "--quiet", "--allow-empty", "--message=x", at=at)
    return git(folder, "rev-parse", "HEAD")


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def objects_in(repository: Path, kind: str) -> set[str]:
    """Returns the ids of all objects of a kind that a bare repository holds."""
    lines = git(repository, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    return {line.split()[0] for line in lines if line.split()[1] == kind}
