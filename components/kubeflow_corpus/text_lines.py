"""What a line of a text is, and which lines are blank: the same for everything that counts or numbers lines."""

from __future__ import annotations


def split_lines(text: str) -> list[str]:
    r"""Returns the lines of a text without their ends (``\n`` or ``\r\n``); an end at the very end starts no line.

    The number of a line is where an editor and GitHub show it. Take characters out of the lines, never out of the
    text before it is split: a last line that becomes empty is still a line.
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line[:-1] if line.endswith("\r") else line for line in lines]


def without_comments(text: str) -> str:
    """Returns a text without its HTML comments; one that does not end stays."""
    parts, at = list[str](), 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts.append(text[at:start])
        at = end + 3
    return "".join([*parts, text[at:]])


def is_blank(line: str) -> bool:
    """Returns whether a line holds nothing that a reader sees: white space of any kind, or nothing at all."""
    return not line.strip()
