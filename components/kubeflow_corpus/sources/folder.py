"""A plain folder as a tree: no link is followed, nothing outside is opened, devices and pipes are left alone."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from kubeflow_corpus.errors import RepositoryNotFound, SourceError, SourceRefused
from kubeflow_corpus.sources.trees import MAX_ENTRIES, Content, Entry

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class FolderTree:
    """The files below a folder.

    Args:
        source: Name of the source, for errors.
        root: The folder; it may itself be reached through a link, for the catalogue names it.
        attributes: Says which paths the given ``.gitattributes`` contents (by path) mark as generated.

    Raises:
        RepositoryNotFound: There is no such folder.
    """

    def __init__(
        self, source: str, root: Path, attributes: Callable[[dict[str, bytes], Iterable[str]], set[str]]
    ) -> None:
        if not root.is_dir():
            raise RepositoryNotFound(
                f"{source}: there is no folder {root}",
                remedy="Check 'url' in the catalogue; a relative path starts at the catalogue's own folder",
                source=source,
            )
        self._source = source
        self._root = root
        self._attributes = attributes

    def entries(self) -> Iterator[Entry]:
        """Yields every path; a ``.git`` folder is not looked into."""
        count = 0
        folders = [""]
        while folders:
            folder = folders.pop()
            for item in self._list(folder):
                count += 1
                if count > MAX_ENTRIES:
                    raise SourceRefused(
                        f"{self._source}: {self._root} has more than {MAX_ENTRIES} paths",
                        remedy="Name a folder further down",
                        source=self._source,
                    )
                path = f"{folder}{item.name}"
                if item.is_dir(follow_symlinks=False):
                    if item.name != ".git":
                        folders.append(f"{path}/")
                else:
                    yield Entry(_printable(path), _problem(item, path), path)

    def contents(self, wanted: Iterable[tuple[Entry, int]]) -> Iterator[Content]:
        """Yields the content of each wanted entry."""
        root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for entry, most in wanted:
                yield self._read(root, entry, most)
        finally:
            os.close(root)

    def generated(self, attribute_files: Iterable[Entry], paths: Iterable[str]) -> set[str]:
        """Returns the paths that ``.gitattributes`` marks ``linguist-generated``."""
        wanted = [(entry, 1 << 20) for entry in attribute_files]
        return self._attributes({content.entry.path: content.data for content in self.contents(wanted)}, paths)

    def _list(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._root / folder) as items:
                return list(items)
        except OSError as error:
            # A part that is left out would look like files that were removed.
            raise SourceError(
                f"{self._source}: the folder {self._root / folder} cannot be read ({error.strerror})",
                remedy="Make it readable, or name another folder",
                source=self._source,
            ) from error

    def _read(self, root: int, entry: Entry, most: int) -> Content:
        try:
            descriptor = _open_below(root, entry.key)
        except OSError:
            return Content(entry, problem="unreadable")
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return Content(entry, problem="not_a_file")
            if status.st_size > most:
                return Content(entry, problem="too_large", size=status.st_size)
            # A file that grows while it is read is not followed.
            data = file.read(most + 1)
            return Content(entry, data) if len(data) <= most else Content(entry, problem="too_large", size=len(data))


def digest(contents: Iterable[Content]) -> str:
    """Returns the revision of a plain folder: sha256 over paths and contents, in the given order.

    Args:
        contents: Every selected file, also those that could not be read, sorted by path.
    """
    total = hashlib.sha256()
    for content in contents:
        total.update(fingerprint(content))
    return total.hexdigest()


def fingerprint(content: Content) -> bytes:
    """Returns what one file adds to the digest."""
    inner = hashlib.sha256(content.data).hexdigest() if not content.problem else f"{content.problem}:{content.size}"
    return f"{content.entry.path}\0{inner}\n".encode("utf-8", "backslashreplace")


def _open_below(root: int, path: str) -> int:
    """Opens a file segment by segment, so that no link on the way is followed, not even one put there just now."""
    *folders, name = path.split("/")
    current = os.dup(root)
    try:
        for folder in folders:
            below = os.open(folder, _FLAGS | os.O_DIRECTORY, dir_fd=current)
            os.close(current)
            current = below
        return os.open(name, _FLAGS, dir_fd=current)
    finally:
        os.close(current)


def _problem(item: os.DirEntry[str], path: str) -> str:
    if item.is_symlink():
        return "symlink"
    if not item.is_file(follow_symlinks=False):
        return "not_a_file"
    return "unsafe_path" if _printable(path) != path else ""


def _printable(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
