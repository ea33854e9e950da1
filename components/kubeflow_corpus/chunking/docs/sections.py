"""Sections of a page: what stands under which heading, which tiny ones join, and what nobody reads."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kubeflow_corpus.chunking.docs.blocks import Block
from kubeflow_corpus.chunking.docs.rendering import Heading, Rendered

# A section with fewer tokens joins its neighbour under the same parent.
TINY_TOKENS: Final = 40
# A page with more headings is a generated reference: its tiny sections are packed together as far as a row holds them,
# so that one page of accessors does not become a third of the collection.
REFERENCE_HEADINGS: Final = 400
REFERENCE_TINY_TOKENS: Final = 120
# What such a page says again is left out: the same heading and words in so few characters, or the same heading right
# after itself with at most this many words that the section before it has not.
REPEATED_CHARS: Final = 160
REPEATED_NEW_WORDS: Final = 6

_INVISIBLE: Final = frozenset(("Zs", "Zl", "Zp", "Cc", "Cf"))
_WORD_OR_MARK: Final = re.compile(r"[^\W_]+|[^\w\s]|_")


@dataclass(frozen=True, slots=True)
class Section:
    """What stands under one heading, or before the first.

    Attributes:
        path: Headings from the page's title down to this one; empty for the lead.
        anchor: Its anchor on the page.
        level: Level of its heading, 0 for the lead.
        start: First line, from 0: that of its heading, or of a heading above it that has no text of its own.
        blocks: What it holds.
        named: The name that the page itself gives to the place of its heading.
    """

    path: tuple[str, ...]
    anchor: str
    level: int
    start: int
    blocks: tuple[Block, ...] = ()
    named: str = ""

    @property
    def tokens(self) -> int:
        """Tokens of its text."""
        return sum(block.tokens for block in self.blocks)


@dataclass(slots=True)
class Outline:
    """The sections of a page that have text, and its headings.

    Attributes:
        title: Text of the page's first heading where that is its title, else empty.
        sections: In document order.
        headings: How many headings the page has.
        bare: Lines of headings that nothing stands under (from 0).
        repeated: Lines of sections that a generated reference repeats word for word.
    """

    title: str = ""
    sections: list[Section] = field(default_factory=list)
    headings: int = 0
    bare: list[int] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)


def read_sections(page: Rendered, title: str) -> Outline:
    """Returns the sections of a page.

    A first heading of level 1 with nothing before it is the page's title, unless its front matter gives another one:
    what follows is the lead. A heading that shows no text divides nothing: there is no name for what stands under it,
    which goes on with the section above.

    Args:
        page: Its headings and blocks.
        title: The title of its front matter, empty if there is none.
    """
    result = Outline()
    stack: list[tuple[int, str]] = []
    waiting: list[Heading] = []
    current = Section((), "", 0, page.items[0].start if page.items else 0)
    blocks: list[Block] = []

    def close() -> None:
        nonlocal blocks, waiting
        if blocks:
            result.sections.append(replace(current, blocks=tuple(blocks)))
            waiting = []
        blocks = []

    for item in page.items:
        if isinstance(item, Block):
            blocks.append(item)
            continue
        if not _shows_text(item.text):
            result.bare += range(item.start, item.end)
            continue
        close()
        result.headings += 1
        named = not title or item.text.casefold().split() == title.casefold().split()
        if named and item.level == 1 and result.headings == 1 and not result.sections:
            result.title = item.text
            current = Section((), "", 0, item.start)
            waiting = [item]
            continue
        while stack and stack[-1][0] >= item.level:
            stack.pop()
        stack.append((item.level, item.text))
        # Headings without text of their own go with the first section below them, and are bare if there is none.
        above = [held for held in waiting if held.level < item.level]
        result.bare += [line for held in waiting if held not in above for line in range(held.start, held.end)]
        waiting = [*above, item]
        path = tuple(text for _, text in stack)
        current = Section(path, item.anchor, item.level, waiting[0].start, (), item.named)
    close()
    result.bare += [line for held in waiting for line in range(held.start, held.end)]
    if result.headings > REFERENCE_HEADINGS:
        _drop_repeated(result)
    return result


def _shows_text(heading: str) -> bool:
    # Blanks of any width, and characters that only say how others are written.
    return any(unicodedata.category(char) not in _INVISIBLE for char in heading)


def _drop_repeated(result: Outline) -> None:
    """Leaves out what a generated reference says again: short boilerplate, and a setter after its getter."""
    seen: set[tuple[str, ...]] = set()
    kept: list[Section] = []
    before: Section | None = None
    for section in result.sections:
        said = (section.path[-1] if section.path else "", *(block.text for block in section.blocks))
        short = sum(map(len, said)) <= REPEATED_CHARS
        if (short and said in seen) or (before is not None and _says_again(section, before)):
            result.repeated += range(section.start, section.blocks[-1].end)
        else:
            kept.append(section)
            before = section
        seen.add(said)
    result.sections = kept


def _says_again(section: Section, before: Section) -> bool:
    if section.path != before.path:
        return False
    words, known = (
        {word for block in found.blocks for word in _WORD_OR_MARK.findall(block.text)} for found in (section, before)
    )
    return len(words - known) <= REPEATED_NEW_WORDS


def join_small_sections(
    sections: Sequence[Section], headings: int, room: int, kind: Callable[[Section], object]
) -> Iterator[Section]:
    """Yields sections with the tiny ones joined to a neighbour under the same parent, as far as a row holds both.

    The joined section keeps the first one's heading and anchor; the others' headings become part of its text. A tiny
    lead has no anchor: it joins the first section, which keeps its own.

    Args:
        sections: With counted blocks, in document order.
        headings: How many headings the page has.
        room: Tokens of content that a row may have.
        kind: What a section is about (its release); sections of two kinds never join.
    """
    reference = headings > REFERENCE_HEADINGS
    tiny = REFERENCE_TINY_TOKENS if reference else TINY_TOKENS
    enough = room if reference else tiny
    if not sections:
        return
    current = last = sections[0]
    # Counted as they grow: a page may be nothing but tiny sections.
    blocks, tokens = list(current.blocks), current.tokens
    for index, section in enumerate(sections[1:], start=2):
        after = sections[index] if index < len(sections) else None
        closes = after is None or after.path[:-1] != section.path[:-1]
        wanted = tokens < enough or (closes and section.tokens < tiny)
        small = section.tokens < tiny or last.tokens < tiny
        fits = tokens + section.tokens + _heading_tokens(section) <= room
        # What introduces its own subsections stays with them.
        heads = after is not None and after.path[:-1] == section.path and section.path[:-1] != current.path
        if (
            wanted
            and small
            and fits
            and not heads
            and _neighbours(current, tokens, section)
            and kind(current) == kind(section)
        ):
            added = _continued(current, section)
            blocks += added
            tokens += sum(block.tokens for block in added)
            current = current if current.path else replace(section, start=current.start)
        else:
            yield replace(current, blocks=tuple(blocks))
            current = section
            blocks, tokens = list(current.blocks), current.tokens
        last = section
    yield replace(current, blocks=tuple(blocks))


def _neighbours(first: Section, tokens: int, second: Section) -> bool:
    if not first.path:
        return len(second.path) == 1 and tokens < TINY_TOKENS
    return second.path[:-1] in (first.path, first.path[:-1])


def _heading_tokens(section: Section) -> int:
    # More than it can be: the exact number is counted when the row is made.
    return 4 + 2 * len(_WORD_OR_MARK.findall(section.path[-1])) if section.path else 0


def _continued(first: Section, second: Section) -> tuple[Block, ...]:
    """Returns what a section adds to the one that it joins: its heading, which a lead leaves to it, and its blocks."""
    if not first.path or not second.path:
        return second.blocks
    start = second.blocks[0].start if second.blocks else second.start
    heading = Block("heading", f"**{second.path[-1]}**", second.start, max(start, second.start + 1))
    return (heading, *second.blocks)
