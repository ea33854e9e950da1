"""Reads a YAML file that a person wrote, so that every mistake is an error with file and line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from kubeflow_corpus.errors import CatalogueError

MAX_BYTES: Final = 1 << 20


class YamlFile:
    """One file. Its checks take the line of what they check and fail with a `CatalogueError`.

    Args:
        path: The file; errors name it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Any:
        """Returns the parsed file, whose mappings and lists know their lines."""
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            self.fail(
                0, f"it cannot be read ({error.strerror})", "Name a readable YAML file, or none for the packaged one"
            )
        if len(data) > MAX_BYTES:
            self.fail(0, f"it is larger than {MAX_BYTES} bytes", "Split it")
        try:
            return YAML(typ="rt").load(data.decode("utf-8-sig"))
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = " ".join(str(error.problem or error.context or "it does not parse").split())
            self.fail(mark.line + 1 if mark else 0, f"it is not valid YAML: {problem}", "Correct the syntax")
        except (YAMLError, ValueError, RecursionError) as error:
            first = str(error).strip().splitlines()[:1]
            self.fail(0, f"it is not valid YAML: {first[0] if first else 'it does not parse'}", "Correct the syntax")

    def mapping(self, value: Any, what: str, line: int) -> Mapping[str, Any]:
        """Returns a value that must be a mapping."""
        if not isinstance(value, Mapping):
            self.fail(line, f"{what} is {kind_of(value)}, not a mapping", "Write 'key: value' lines")
        return value

    def sequence(self, value: Any, what: str, line: int) -> Sequence[Any]:
        """Returns a value that must be a list."""
        if not isinstance(value, list):
            self.fail(line, f"{what} is {kind_of(value)}, not a list", "Write one '- item' line for each")
        return value

    def text(self, mapping: Mapping[str, Any], key: str) -> str:
        """Returns the text of a key."""
        return self.plain_text(mapping[key], key, line_of(mapping, key))

    def plain_text(self, value: Any, what: str, line: int) -> str:
        """Returns a value that must be a text with at least one character."""
        if isinstance(value, bool | int | float) or value is None:
            self.fail(line, f"{what} is {kind_of(value)}, not text", "Put it in quotes")
        if not isinstance(value, str):
            self.fail(line, f"{what} is {kind_of(value)}, not text", "Write plain text, in quotes where in doubt")
        if not value:
            self.fail(line, f"{what} is empty", "Give it a value or leave the key out")
        return str(value)

    def choice(self, mapping: Mapping[str, Any], key: str, known: Sequence[str]) -> str:
        """Returns the text of a key that must be one of a list."""
        value = self.text(mapping, key)
        if value not in known:
            self.fail(line_of(mapping, key), f"there is no {key} {value!r}", did_you_mean(value, known, "Known"))
        return value

    def require(self, mapping: Mapping[str, Any], key: str, line: int) -> None:
        """Refuses a mapping without a key."""
        if key not in mapping:
            name = mapping.get("name")
            self.fail(line, f"{f'source {name!r}' if name else 'the entry'} has no key {key!r}", f"Add '{key}:' to it")

    def known_keys(self, mapping: Mapping[str, Any], known: Sequence[str], what: str) -> None:
        """Refuses a mapping with a key that is not in a list."""
        for key in mapping:
            if key not in known:
                remedy = did_you_mean(str(key), known, "Known keys")
                self.fail(line_of(mapping, key), f"{what} has no key {str(key)!r}", remedy)

    def fail(self, line: int, problem: str, remedy: str) -> NoReturn:
        """Raises the error that names file and line; line 0 is the whole file."""
        where = f"{self.path}:{line}" if line else str(self.path)
        raise CatalogueError(f"{where}: {problem}", remedy=remedy, path=str(self.path), line=line)


def line_of(container: Any, key: Any) -> int:
    """Returns the line of a key or item, from 1; of the container itself where a merge added the key."""
    marks = container.lc
    try:
        found = marks.item(key) if isinstance(container, list) else marks.key(key)
    except KeyError:
        found = None
    return int(found[0] if found else marks.line) + 1


def kind_of(value: Any) -> str:
    """Returns what a value is, in words for a person."""
    if value is None:
        return "empty"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "text"
    return "a number" if isinstance(value, int | float) else f"a {type(value).__name__}"


def did_you_mean(word: str, known: Sequence[str], label: str) -> str:
    """Returns a remedy for an unknown word: the most similar known ones, or else all of them."""
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"{label}: {', '.join(known)}" if known else f"{label}: none"
