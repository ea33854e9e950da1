"""Numbered places: what evidence shows where an address was, ``{c1.2}``.

While a text is still being stripped, cut and put together, each place carries a character that no source can bring
(`MARK`), so that a text which spells a place itself can never be taken for one. `finish` takes the marks out last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NotRequired, TypedDict

# Taken out of every source text before anything else happens to it.
MARK: Final = "\ue000"
_MARKED: Final = re.compile(rf"\{{{MARK}\.(?P<number>\d+)\}}")
# What cutting a line inside a place leaves of it.
_BROKEN: Final = re.compile(rf"\{{?{MARK}\.?\d*\}}?")
_REPEATED: Final = re.compile(rf"(\{{{MARK}\.\d+\}})(?: \1)+")
# A place as an answer may spell it.
PLACE: Final = re.compile(r"\{\s*(?P<label>c\s*\d+)\s*\.\s*(?P<number>\d+)\s*\}", re.IGNORECASE)


class Link(TypedDict):
    """One address that was taken out of a fragment.

    Attributes:
        id: Its place in the fragment, without braces: ``c1.2``.
        url: The address, absolute.
        text: How the source writes it, where that is not the address itself (``www.example.org``).
    """

    id: str
    url: str
    text: NotRequired[str]


@dataclass(slots=True)
class Places:
    """The addresses of one fragment, numbered as they are found; the same address has one number.

    Attributes:
        found: Address and spelling of each.
    """

    found: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, url: str, text: str) -> str:
        """Returns the place of an address.

        Args:
            url: Absolute.
            text: How the source writes it.
        """
        return self.mark(self.found.setdefault((url, text or url), len(self.found) + 1))

    @staticmethod
    def mark(number: int) -> str:
        """Returns the place of a number while the text is in work: as long as it becomes, so that it costs the same."""
        return f"{{{MARK}.{number}}}"

    def finish(self, text: str, label: str) -> tuple[str, tuple[Link, ...]]:
        """Returns a text with its places numbered in order of appearance, and the links of those that it still has.

        Args:
            text: Stripped, and cut where it was too long.
            label: Of the fragment, without brackets.
        """
        text = PLACE.sub(lambda match: f"({match['label']}.{match['number']})", text)
        given = {number: pair for pair, number in self.found.items()}
        shown: dict[int, Link] = {}

        def name(match: re.Match[str]) -> str:
            number = int(match["number"])
            if number not in given:
                return ""
            if number not in shown:
                url, written = given[number]
                link: Link = {"id": f"{label}.{len(shown) + 1}", "url": url}
                shown[number] = link if written == url else {**link, "text": written}
            return f"{{{shown[number]['id']}}}"

        text = _MARKED.sub(name, _REPEATED.sub(r"\1", text))
        return _BROKEN.sub("", text), tuple(shown.values())


def without_marks(text: str) -> str:
    """Returns a source text that cannot hold a mark."""
    return text.replace(MARK, "")


def is_place(text: str) -> bool:
    """Returns whether a text is one marked place and nothing else."""
    return bool(_MARKED.fullmatch(text))
