"""Outline of protocol buffer files: a scanner of braces, because no official grammar wheel exists."""

from __future__ import annotations

import re
from typing import Final

from kubeflow_corpus.chunking.code.outlines import CODE, MODULE, Symbol
from kubeflow_corpus.chunking.line_rows import SourceText

_DECLARATION: Final = re.compile(r"\s*(message|enum|service|extend)\s+([\w.]+)")
_HEADER: Final = re.compile(r"\s*(syntax|edition|package|import|option)\b")
# Strings and comments are skipped, braces counted. A string that nothing closes ends with its line: it would be looked
# for again from each escaped quote in it.
_TOKEN: Final = re.compile(
    r'"(?:\\.?|[^"\\\n])*+"?|\'(?:\\.?|[^\'\\\n])*+\'?|//[^\n]*|/\*.*?(?:\*/|\Z)|[{}]', re.DOTALL
)


def read_symbols(source: SourceText) -> list[Symbol]:
    """Returns the top-level messages, enums and services of a file, with the comments right above each.

    Args:
        source: The lines of the file.
    """
    depths = _depths(source)
    symbols: list[Symbol] = []
    comment = -1
    for row, line in enumerate(source.lines):
        inside, commented = depths[row]
        if inside:
            continue
        if commented or line.lstrip().startswith(("//", "/*")):
            comment = row if comment < 0 else comment
            continue
        match = _DECLARATION.match(line)
        start = comment if comment >= 0 else row
        comment = -1
        if match:
            symbols.append(Symbol(match.group(2), match.group(1), start, row + 1, row, row + 1))
        elif line.strip() and (not symbols or depths[row - 1][0] == 0):
            kind = MODULE if _HEADER.match(line) else CODE
            if line.strip() != "}":
                symbols.append(Symbol("", kind, start, row + 1, row, row + 1))
    return symbols


def _depths(source: SourceText) -> list[tuple[int, bool]]:
    """Returns for each line how many braces are open at its start, and whether a block comment is."""
    text = "\n".join(source.lines)
    depths = [(0, False)] * (len(source) + 1)
    depth, row, position = 0, 0, 0
    for match in _TOKEN.finditer(text):
        lines = text.count("\n", position, match.start())
        for index in range(row + 1, row + lines + 1):
            depths[index] = (depth, False)
        row, position = row + lines, match.start()
        token = match.group()
        if token in "{}":
            depth = max(0, depth + (1 if token == "{" else -1))
        else:
            inner = token.count("\n")
            for index in range(row + 1, row + inner + 1):
                depths[index] = (depth, True)
            row, position = row + inner, match.end()
    for index in range(row + 1, len(depths)):
        depths[index] = (depth, False)
    return depths
