"""Path patterns of the catalogue.

A pattern is matched against the whole path of a file, from the root of its tree, with ``/`` between segments:

===========  ==================================================================================
``*``        any run of characters within one segment, also none
``?``        one character, not ``/``
``[a-c_]``   one character of the set; ``[!...]`` one character that is not in it and not ``/``
``**``       as a whole segment: any number of segments, also none; at the end at least one
``{md,mdx}`` one of the words; not nested
===========  ==================================================================================

Everything else is literal, case counts, there is no escape character, and ``*.md`` means the root folder only
(``**/*.md`` is every folder).

Not wcmatch, which reads nearly the same patterns: its ``**`` backtracks, so that a path of a foreign repository, 400
characters of ``a/`` against ``**/a/**/a/**/c``, takes a quarter of a second, and one twice as long eight times as much.
It also gives ``{1..3}``, ``[^a]`` and ``${a}`` a meaning of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Final

_MAX_LENGTH: Final = 512
_MAX_ALTERNATIVES: Final = 64
_TOKEN: Final = re.compile(r"(?P<star>\*+)|(?P<any>\?)|(?P<set>\[!?\]?[^\]]*\])|(?P<text>[^*?\[]+|\[)")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")


def check_glob(pattern: str) -> str:
    """Returns what is wrong with a pattern, or an empty string.

    Args:
        pattern: A pattern as a catalogue spells it.
    """
    if not pattern:
        return "it is empty"
    if len(pattern) > _MAX_LENGTH:
        return f"it is longer than {_MAX_LENGTH} characters"
    if "\\" in pattern or any(ord(character) < 32 for character in pattern):
        return "backslashes and control characters are not allowed"
    if pattern.startswith("/"):
        return "paths start at the root of the tree, without a leading /"
    if pattern.endswith("/"):
        return f"it names a folder; write {pattern}** for the files below it"
    bare = _BRACES.sub("", pattern)
    if "{" in bare or "}" in bare:
        return "braces do not pair, or are nested"
    if len(_alternatives(pattern)) > _MAX_ALTERNATIVES:
        return f"its braces stand for more than {_MAX_ALTERNATIVES} patterns"
    return next((problem for plain in _alternatives(pattern) if (problem := _check_segments(plain))), "")


def _check_segments(pattern: str) -> str:
    for segment in pattern.split("/"):
        if segment in ("", ".", ".."):
            return "empty, . and .. are not path segments"
        if "**" in segment and segment != "**":
            return "** stands alone between slashes"
        if any("--" in match["set"] for match in _TOKEN.finditer(segment) if match["set"]):
            return "a character set holds --"
        try:
            re.compile(_segment(segment))
        except re.error as error:
            return f"its character set does not parse ({error.msg})"
        if "[" in _TOKEN.sub(lambda match: "" if match["set"] else match[0], segment):
            return "a [ is not closed within its segment"
    return ""


@lru_cache(maxsize=1024)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """Compiles a pattern that `check_glob` accepts; use ``fullmatch`` on a path.

    The expression has no nested backtracking: what stands before a wildcard's successor is matched atomically at its
    leftmost place, which is enough (the greedy argument of glob matching), so that no path makes it slow.
    """
    return re.compile("|".join(map(_tree, _alternatives(pattern))), re.DOTALL)


def matches_any(patterns: tuple[str, ...], path: str) -> bool:
    """Returns whether one of the patterns matches the path."""
    return any(compile_glob(pattern).fullmatch(path) for pattern in patterns)


def _alternatives(pattern: str) -> list[str]:
    parts = _BRACES.split(pattern)
    choices = [part.split(",") if index % 2 else [part] for index, part in enumerate(parts)]
    count = 1
    for choice in choices:
        count *= len(choice)
    # `product` is not started for a bomb such as {a,b}{a,b}...: the caller sees too many and refuses.
    return [""] * count if count > _MAX_ALTERNATIVES else ["".join(words) for words in product(*choices)]


def _tree(pattern: str) -> str:
    """Returns the expression of a pattern without braces."""
    blocks: list[list[str]] = [[]]
    for segment in pattern.split("/"):
        if segment == "**":
            blocks.append([])
        else:
            blocks[-1].append(_segment(segment))
    if len(blocks) == 1:
        return "/".join(blocks[0])
    first, *middle, last = blocks
    expression = "".join(f"{segment}/" for segment in first)
    for block in middle:
        if block:
            expression += "(?>(?:[^/]+/)*?" + "".join(f"{segment}/" for segment in block) + ")"
    return expression + "(?:[^/]+/)*" + ("/".join(last) if last else "[^/]+")


def _segment(segment: str) -> str:
    """Returns the expression of one segment: each ``*`` takes the leftmost place of what follows it."""
    runs: list[str] = [""]
    for token in _tokens(segment):
        if token == "*":
            runs.append("")
        else:
            runs[-1] += token
    if len(runs) == 1:
        return runs[0]
    first, *middle, last = runs
    return first + "".join(f"(?>[^/]*?{run})" for run in middle if run) + "[^/]*" + last


def _tokens(segment: str) -> Iterator[str]:
    for match in _TOKEN.finditer(segment):
        if match["star"]:
            yield "*"
        elif match["any"]:
            yield "[^/]"
        elif match["set"]:
            yield _set(match["set"])
        else:
            yield re.escape(match["text"])


def _set(text: str) -> str:
    body = text[1:-1]
    negated = body.startswith("!")
    body = re.sub(r"([\\\[\]&~|^])", r"\\\1", body[1:] if negated else body)
    return f"(?!/)[{'^' if negated else ''}{body}]"
