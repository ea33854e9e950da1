"""YAML as a tree that knows its lines, built from the events of ruamel.yaml's C parser.

Events instead of the loader: they carry the line of every key, cost a sixth of the time and a fraction of the memory,
and cannot be blown up: an alias is a reference, depth has a limit, and no tag runs a constructor (which is why
``delimiter: =``, the value tag of YAML 1.1, is the text that it is).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ruamel.yaml.cyaml import CBaseLoader
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.loader import BaseLoader

# Real manifests reach 60 (a PodSpec inside a JobSet inside a CRD); a deeper document is an attack or a mistake.
MAX_DEPTH: Final = 200
MAX_NODES: Final = 400_000
# The parser in Python takes some forty times as long as the one in C.
MAX_PURE_CHARS: Final = 100_000
_MARKER: Final = re.compile(r"(---|\.\.\.)(\s|$)")
_SHOWN: Final = 200


class YamlRejected(Exception):
    """A document that is not YAML, or one that is too deep or too large; the message says which."""


@dataclass(slots=True)
class YamlNode:
    """One value.

    Attributes:
        kind: What it is.
        line: Line of its first character, from 0, in the text that was parsed.
        text: Text of a scalar.
        entries: Keys and values of a mapping, in order; the first of a repeated key counts.
        items: Values of a sequence.
        lines: Line of each key.
    """

    kind: Literal["scalar", "mapping", "sequence"]
    line: int
    text: str = ""
    entries: dict[str, YamlNode] = field(default_factory=dict)
    items: list[YamlNode] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)

    def get(self, *path: str) -> YamlNode | None:
        """Returns the value at a path of keys, or None."""
        node: YamlNode | None = self
        for key in path:
            node = node.entries.get(key) if node is not None else None
        return node

    def scalar(self, *path: str) -> str:
        """Returns the text at a path of keys, or "" if there is none."""
        node = self.get(*path)
        return node.text if node is not None and node.kind == "scalar" else ""


def split_documents(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yields the half-open line ranges of the documents of a stream, markers at their start.

    A marker at the left margin ends a document wherever it stands, even inside a block scalar, so the split needs no
    parser and one broken document spoils no other.

    Args:
        lines: Lines of the file.
    """
    start = 0
    for index, line in enumerate(lines):
        if index > start and line.startswith(("---", "...")) and _MARKER.match(line):
            yield start, index
            start = index
    if start < len(lines):
        yield start, len(lines)


def read_tree(text: str) -> YamlNode | None:
    """Returns the tree of one document, or None for an empty one.

    Args:
        text: One YAML document.

    Raises:
        YamlRejected: The text is not YAML, or too deep or too large.
    """
    try:
        try:
            # The parser itself: ruamel.yaml's front end looks for plug-ins and builds a class for each document.
            return _compose(CBaseLoader(text))
        except YAMLError:
            # Valid YAML that the parser in C refuses, such as a colon inside a word of a flow mapping (`{a: b:3.2}`).
            if len(text) > MAX_PURE_CHARS:
                raise
            return _compose(BaseLoader(text))
    except YAMLError as error:
        raise YamlRejected(str(error).partition("\n")[0]) from error
    except (ValueError, RecursionError) as error:
        raise YamlRejected(type(error).__name__) from error


def _compose(parser: Any) -> YamlNode | None:
    root: YamlNode | None = None
    stack: list[YamlNode] = []
    keys: list[tuple[str, int] | None] = []
    anchors: dict[str, YamlNode] = {}
    count = 0
    while parser.check_event():
        event = parser.get_event()
        kind = type(event)
        if kind is ScalarEvent:
            node = YamlNode("scalar", event.start_mark.line, event.value)
        elif kind is MappingStartEvent:
            node = YamlNode("mapping", event.start_mark.line)
        elif kind is SequenceStartEvent:
            node = YamlNode("sequence", event.start_mark.line)
        elif kind is AliasEvent:
            known = anchors.get(event.anchor)
            node = known if known is not None else YamlNode("scalar", event.start_mark.line, f"*{event.anchor}")
        else:
            if kind is MappingEndEvent or kind is SequenceEndEvent:
                stack.pop()
                keys.pop()
            continue
        count += 1
        if count > MAX_NODES:
            raise YamlRejected("more values than a manifest has")
        if kind is not AliasEvent and event.anchor:
            anchors[event.anchor] = node
        if not stack:
            root = node
        elif stack[-1].kind == "sequence":
            stack[-1].items.append(node)
        elif (key := keys[-1]) is None:
            name = node.text if node.kind == "scalar" else f"<{node.kind}>"
            keys[-1] = (name, event.start_mark.line)
        else:
            if key[0] not in stack[-1].entries:
                stack[-1].entries[key[0]] = node
                stack[-1].lines[key[0]] = key[1]
            keys[-1] = None
        if kind is MappingStartEvent or kind is SequenceStartEvent:
            if len(stack) >= MAX_DEPTH:
                raise YamlRejected("nested deeper than a manifest is")
            stack.append(node)
            keys.append(None)
    return root


def flow(node: YamlNode, depth: int = 3) -> str:
    """Returns a value on one line, cut where it is long.

    Args:
        node: The value.
        depth: How many levels are shown.
    """
    if node.kind == "scalar":
        text = " ".join(node.text.split()) if node.text.strip() else '""'
    elif depth == 0:
        text = "..."
    elif node.kind == "mapping":
        text = (
            "{" + ", ".join(f"{key}: {flow(value, depth - 1)}" for key, value in list(node.entries.items())[:10]) + "}"
        )
    else:
        text = "[" + ", ".join(flow(item, depth - 1) for item in node.items[:10]) + "]"
    return text if len(text) <= _SHOWN else text[:_SHOWN].rstrip() + "..."
