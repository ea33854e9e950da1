"""Texts of sources as a page shows them: always as text, every hidden character visible, words of a question marked."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from markupsafe import Markup, escape

# A line feed and a tab are shown as such.
_LAYOUT: Final = "\n\t"
_WEB: Final = re.compile(r"https?://[^\s\x00-\x1f]+", re.IGNORECASE)


@cache
def _hidden() -> re.Pattern[str]:
    """Returns what matches a character that is not shown, or that turns the order of those around it."""
    codes = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs")]
    return re.compile("[" + "".join(re.escape(chr(code)) for code in codes if chr(code) not in _LAYOUT) + "]")


def shown(text: object, words: Sequence[str] = ()) -> Markup:
    """Returns a text for a page.

    Args:
        text: Of a source, a question or a filter: from anybody.
        words: Are marked wherever they begin a word.
    """
    return Markup("").join(_pieces(str(text), words))


def plain(text: object) -> str:
    """Returns a text for a title or an attribute: hidden characters by their number."""
    return _hidden().sub(lambda match: _number(match.group()), str(text))


def short(key: str) -> Markup:
    """Returns the telling end of a key: its last folder, its file, and what is behind them."""
    path, mark, rest = key.partition("#")
    folders = path.rsplit("/", 2)
    return shown("/".join(["…", *folders[1:]]) + mark + rest if len(folders) == 3 else key)


def web_address(text: str) -> str:
    """Returns an address that a link may lead to; empty where it is not a plain http(s) address."""
    return text if _WEB.fullmatch(text) and not _hidden().search(text) else ""


def _pieces(text: str, words: Sequence[str]) -> Iterator[Markup]:
    found = _words(tuple(words))
    last = 0
    for match in found.finditer(text) if found else ():
        yield _visible(text[last : match.start()])
        yield Markup("<mark>{}</mark>").format(_visible(match.group()))
        last = match.end()
    yield _visible(text[last:])


def _visible(text: str) -> Markup:
    # An escape leaves these characters alone, so they can be replaced in its result.
    escaped = str(escape(text))
    return Markup(_hidden().sub(lambda match: f'<span class="hidden">{_number(match.group())}</span>', escaped))


def _number(char: str) -> str:
    return f"[U+{ord(char):04X}]"


@cache
def _words(words: tuple[str, ...]) -> re.Pattern[str] | None:
    known = sorted({word for word in words if len(word) > 1}, key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, known))})\w*", re.IGNORECASE) if known else None
