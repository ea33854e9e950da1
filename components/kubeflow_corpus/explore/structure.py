"""The structure inside a unit: fields of a custom resource as a tree, and the resolution of a thread."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from kubeflow_corpus.query.evidence import RESOLUTION

# A line of a field: its path, its type, and what is said about it.
_FIELD: Final = re.compile(r"(?P<path>[A-Za-z_$][\w$.*\[\]{}-]*) (?P<rest><[^>]*>.*)")
# A tree of these many fields is read; a larger one is searched.
MAX_FIELDS: Final = 5_000


@dataclass(slots=True)
class FieldNode:
    """A field of a custom resource.

    Attributes:
        name: Last part of its path.
        about: Type, default, bounds and description.
        children: Fields below it, by name.
    """

    name: str
    about: str = ""
    children: dict[str, FieldNode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a thread.

    Attributes:
        text: Its lines.
        resolution: Whether it says how the thread was resolved.
    """

    text: str
    resolution: bool


def field_tree(texts: Iterable[str]) -> FieldNode | None:
    """Returns the fields of a custom resource as a tree; None for a unit without any.

    Args:
        texts: Of the rows of its unit.
    """
    root = FieldNode("")
    for path, about in islice(_fields(texts), MAX_FIELDS):
        node = root
        # A list and its items are one field.
        for name in path.replace("[]", "").split("."):
            node = node.children.setdefault(name, FieldNode(name))
        # Each view repeats the fields that it stands under.
        node.about = node.about or about
    return root if root.children else None


def _fields(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        for line in text.split("\n"):
            if match := _FIELD.fullmatch(line):
                yield match["path"], match["rest"]


def thread_parts(row: Mapping[str, Any]) -> tuple[Part, ...]:
    """Returns the text of a row of a thread in its parts: the problem, and how it was resolved."""
    text = str(row["content_text"])
    if str(row["section_path"]) == "Resolution":
        return (Part(text, True),)
    before, mark, after = text.partition(RESOLUTION)
    parts = (Part(before, False), Part(mark.lstrip("\n") + after, True))
    return tuple(part for part in parts if part.text)


def is_custom_resource(row: Mapping[str, Any]) -> bool:
    """Whether a row is a view of the fields of a custom resource."""
    return str(row.get("view", "")).startswith(("field:", "go:"))
