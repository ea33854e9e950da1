"""A page's source as it is rewritten before Markdown is parsed: line for line, with every drop counted.

A rewrite may shorten or blank a line, and put several in its place: each says which line of the file it comes from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubeflow_corpus.text_lines import is_blank, split_lines

_FENCE: Final = re.compile(r"^[ \t]*+(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]++)*+(`{3,}+|~{3,}+)([^\n]*)$")
# Starts a label of its own (a tab, an admonition) in rewritten text: a heading to the parser, so that whatever follows
# starts a new block, and a paragraph to a reader. No source holds it: control characters are taken out first.
LABEL: Final = "\x02"
_CONTROL: Final = {code: None for code in range(32) if chr(code) not in "\t\n"} | {0x7F: None}


@dataclass(slots=True)
class Rewritten:
    """The lines of a page's body after a rewrite.

    Attributes:
        lines: As many lines as the body has, or more where `origins` says where they come from.
        reasons: For a line that the rewrite emptied (index from 0), the rule that did it.
        counts: How often each rule dropped something.
        origins: For each line the line of the body (from 0) that it comes from, in ascending order; empty where they
            are the same.
    """

    lines: list[str]
    reasons: dict[int, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    origins: list[int] = field(default_factory=list)

    def emptied(self, before: Sequence[str], reason: str) -> None:
        """Notes the lines that held text before a rewrite and are blank now."""
        origins = self.origins or range(len(self.lines))
        filled = {origin for origin, line in zip(origins, self.lines, strict=True) if not is_blank(line)}
        for index, old in enumerate(before):
            if index not in filled and not is_blank(old):
                self.reasons.setdefault(index, reason)


def clean_lines(text: str) -> list[str]:
    """Returns the lines of a page, without line ends (a lone CR is one too), control characters or lone surrogates."""
    lines = split_lines(text.replace("\r\n", "\n").replace("\r", "\n"))
    text = "\n".join(lines).encode("utf-8", "replace").decode("utf-8")
    return text.translate(_CONTROL).split("\n") if lines else []


def fenced_lines(lines: list[str]) -> list[bool]:
    """Returns for each line whether it belongs to a code fence, its opening and closing lines included.

    Fences inside list items and quotes count too; one that is never closed reaches to the end.
    """
    out: list[bool] = []
    open_fence = ""
    for line in lines:
        match = _FENCE.match(line) if ("```" in line or "~~~" in line) else None
        if not open_fence:
            starts = match is not None and not (match.group(1)[0] == "`" and "`" in match.group(2))
            out.append(starts)
            open_fence = match.group(1) if starts and match is not None else ""
            continue
        out.append(True)
        if match is not None and match.group(1).startswith(open_fence) and not match.group(2).strip():
            open_fence = ""
    return out


def unfenced_runs(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yields the spans ``[start, end)`` of lines outside code fences."""
    fenced = fenced_lines(lines)
    start = 0
    for index, inside in enumerate([*fenced, True]):
        if inside:
            if start < index:
                yield start, index
            start = index + 1


def padded(text: str, original: str) -> str:
    """Returns a replacement with as many line ends as what it replaces: the text first, blank lines after it."""
    return " ".join(text.split("\n")) + "\n" * original.count("\n")


def blank_start(text: str, at: int) -> int:
    """Returns where the blanks right before a place on its line begin; the place itself if there are none."""
    while at > 0 and text[at - 1] != "\n" and text[at - 1].isspace():
        at -= 1
    return at


def starts_line(text: str, at: int) -> bool:
    """Returns whether nothing but blanks stands before a place on its line.

    The line is not read from its beginning: it may be the whole page, with a tag in every few of its characters.
    """
    at = blank_start(text, at)
    return at == 0 or text[at - 1] == "\n"


def label(text: str) -> str:
    """Returns a line that is a block of its own."""
    return f"# {LABEL}{text}"
