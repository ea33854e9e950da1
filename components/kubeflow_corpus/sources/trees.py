"""What a source looks like to `checkout`: files by path, read one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

# A tree of a few objects can stand for billions of paths.
MAX_ENTRIES: Final = 500_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a tree.

    Attributes:
        path: From the root, with ``/``.
        problem: Why it cannot be read, a key of `decoding.REASONS`; empty where it can.
        key: How its tree finds the content (the object id in a repository).
    """

    path: str
    problem: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file, or why there is none (`problem`, a key of `decoding.REASONS`)."""

    entry: Entry
    data: bytes = b""
    problem: str = ""
    size: int = 0


class Tree(Protocol):
    """A tree of files that does not change while it is read."""

    def entries(self) -> Iterator[Entry]:
        """Yields every path of the tree, in any order."""
        ...

    def contents(self, wanted: Iterable[tuple[Entry, int]]) -> Iterator[Content]:
        """Yields the content of each wanted entry, in the given order.

        Args:
            wanted: Entries with the most bytes that each may have.
        """
        ...

    def generated(self, attribute_files: Iterable[Entry], paths: Iterable[str]) -> set[str]:
        """Returns the paths that ``.gitattributes`` marks ``linguist-generated``."""
        ...
