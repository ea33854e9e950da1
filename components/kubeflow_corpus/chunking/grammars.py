"""The one door to tree-sitter: which language a path is in, and its syntax tree.

The official grammar wheels are used; the README says why not tree-sitter-languages.
"""

from __future__ import annotations

import importlib
import posixpath
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Parser, Tree

# language: (module of the grammar wheel, function that returns the grammar)
_GRAMMARS: Final = {
    "go": ("tree_sitter_go", "language"),
    "python": ("tree_sitter_python", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "javascript": ("tree_sitter_javascript", "language"),
    "bash": ("tree_sitter_bash", "language"),
    "dockerfile": ("tree_sitter_containerfile", "language"),
}

_SUFFIXES: Final = {
    ".go": "go",
    ".py": "python",
    ".pyi": "python",
    ".ts": "typescript",
    ".mts": "typescript",
    ".cts": "typescript",
    ".tsx": "tsx",
    ".js": "javascript",
    ".jsx": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".sh": "bash",
    ".bash": "bash",
    ".proto": "proto",
    ".dockerfile": "dockerfile",
    # Read as text: no grammar is worth its weight for these.
    ".mk": "make",
    ".tpl": "template",
    ".toml": "toml",
    ".ini": "ini",
    ".cfg": "ini",
    ".conf": "ini",
    ".properties": "ini",
    ".env": "ini",
    ".sql": "sql",
    ".rego": "rego",
    ".txt": "text",
}
_NAMES: Final = {"Makefile": "make", "Dockerfile": "dockerfile", "Containerfile": "dockerfile", "justfile": "make"}
# `Dockerfile.cpu`, `agent.Dockerfile` and `Dockerfile_ci` are all in use.
_DOCKERFILE: Final = ("Dockerfile", "Containerfile")


def language_of(path: str) -> str:
    """Returns the language of a path, or "" for a file that is neither code nor readable configuration.

    Args:
        path: Path in the repository.
    """
    name = posixpath.basename(path)
    if name in _NAMES:
        return _NAMES[name]
    suffix = posixpath.splitext(name)[1].lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    return "dockerfile" if name.startswith(_DOCKERFILE) or name.endswith(_DOCKERFILE) else ""


def has_grammar(language: str) -> bool:
    """Whether a language is parsed by tree-sitter."""
    return language in _GRAMMARS


def parse(language: str, data: bytes) -> Tree:
    """Parses a file. It never fails: what does not parse becomes ERROR nodes.

    Args:
        language: A name for which `has_grammar` holds.
        data: The file as UTF-8; tree-sitter's own offsets are bytes.
    """
    return _parser(language).parse(data)


@cache
def _parser(language: str) -> Parser:
    from tree_sitter import Language, Parser

    module, function = _GRAMMARS[language]
    return Parser(Language(getattr(importlib.import_module(module), function)()))
