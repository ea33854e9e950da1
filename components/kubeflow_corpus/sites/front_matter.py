"""The data at the top of a page, in YAML, TOML or JSON."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kubeflow_corpus.plain_yaml import load_plain

_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "yaml": load_plain,
    "yml": load_plain,
    "toml": tomllib.loads,
    "json": json.loads,
}
_FENCES: Final = {"---": "yaml", "+++": "toml"}
# A front matter longer than this is a page whose first rule was never closed.
_MAX_FRONT_MATTER_LINES: Final = 2_000
_FLAT_LINE: Final = re.compile(r"^([A-Za-z_][\w-]{0,80})\s*[:=]\s*(.*)$")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The data at the top of a page, and how many lines it takes.

    Attributes:
        data: Keys and values, of the lines that are readable by themselves where the whole does not parse; empty where
            there is none.
        lines: Lines that it covers, fences included.
    """

    data: Mapping[str, Any] = field(default_factory=dict)
    lines: int = 0

    def text(self, key: str) -> str:
        """Returns a value as one line of text, empty where it is missing or is not a scalar."""
        value = self.data.get(key)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return " ".join(str(value).split())
        return ""

    def flag(self, key: str) -> bool:
        """Returns whether a value is set to true."""
        value = self.data.get(key)
        return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def read_front_matter(lines: Sequence[str]) -> FrontMatter:
    """Reads YAML, TOML or JSON front matter.

    Args:
        lines: The page's lines without line ends.
    """
    if not lines:
        return FrontMatter()
    first = lines[0].lstrip("\ufeff").rstrip()
    if first == "{":
        return _json_front_matter(lines)
    syntax = _FENCES.get(first)
    if syntax is None:
        return FrontMatter()
    for number, line in enumerate(lines[1 : _MAX_FRONT_MATTER_LINES + 1], start=1):
        if line.rstrip() == first:
            body = "\n".join(lines[1:number])
            data = parse_mapping(body, syntax)
            return FrontMatter(_flat(lines[1:number]) if data is None else data, number + 1)
    return FrontMatter()


def parse_mapping(text: str, syntax: str) -> dict[str, Any] | None:
    """Reads a mapping out of a text that somebody else wrote.

    Args:
        text: The text.
        syntax: ``yaml``, ``yml``, ``toml`` or ``json``.

    Returns:
        The mapping, empty for an empty YAML text; None where the text does not parse or is something else.
    """
    try:
        data = _PARSERS[syntax](text)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    if data is None and syntax != "json":
        return {}
    return {str(key): value for key, value in data.items()} if isinstance(data, dict) else None


def _flat(lines: Sequence[str]) -> dict[str, str]:
    matches = (_FLAT_LINE.match(line) for line in lines)
    return {match.group(1): match.group(2).strip().strip("\"'") for match in matches if match is not None}


def _json_front_matter(lines: Sequence[str]) -> FrontMatter:
    for number, line in enumerate(lines[: _MAX_FRONT_MATTER_LINES + 1]):
        if line.rstrip() == "}":
            data = parse_mapping("\n".join(lines[: number + 1]), "json")
            return FrontMatter() if data is None else FrontMatter(data, number + 1)
    return FrontMatter()
