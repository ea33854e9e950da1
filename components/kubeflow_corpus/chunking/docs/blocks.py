"""Blocks of readable text with the lines that they come from, and how they are packed into rows of a token budget."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import dedent
from typing import Final

from kubeflow_corpus.sites.page_lines import LABEL
from kubeflow_corpus.tokens import TokenCounter

# A row's text stays under the byte limit of its field even if every character takes four bytes.
MAX_ROW_CHARS: Final = 15_000
# What is repeated on every row of a split block (a table's header, a fence's opening) may take this share of a row.
_REPEATED_SHARE: Final = 2
_SENTENCE_END: Final = re.compile(r"(?<=[.!?;:。！？])\s+")
# A piece that has no end of sentence is cut by tokens, looking at this many characters per token first.
_CHARS_PER_TOKEN: Final = 6
_MIN_ROOM: Final = 8
# A last row with fewer tokens takes a block from the row before it.
_SHORT_TAIL: Final = 32
# At most this many blocks move to the next row because they introduce what it starts with.
_INTRODUCTIONS: Final = 2


@dataclass(frozen=True, slots=True)
class Block:
    """A block of readable text.

    Attributes:
        kind: paragraph, list, item, fence, line, table, row, html, heading, label or raw.
        text: What a reader sees.
        start: First line, from 0.
        end: Line after the last one.
        pieces: Smaller blocks at which it may be split, covering its lines.
        opening: Line or lines repeated before each part of it when it is split.
        closing: The same after each part.
        tokens: Tokens of the text, -1 before they are counted.
    """

    kind: str
    text: str
    start: int
    end: int
    pieces: tuple[Block, ...] = ()
    opening: str = ""
    closing: str = ""
    tokens: int = -1


@dataclass(frozen=True, slots=True)
class PackedRow:
    """The text of one row and the lines that it covers (from 0, end exclusive)."""

    text: str
    start: int
    end: int
    tokens: int


def shifted(block: Block, first: str, rest: str) -> Block:
    """Returns a block with a prefix before its first line and another one before the others."""

    def prefixed(text: str, head: str) -> str:
        return head + text.replace("\n", f"\n{rest}") if text else text

    pieces = tuple(shifted(piece, first if index == 0 else rest, rest) for index, piece in enumerate(block.pieces))
    text, opening, closing = prefixed(block.text, first), prefixed(block.opening, rest), prefixed(block.closing, rest)
    return Block(block.kind, text, block.start, block.end, pieces, opening, closing)


def moved(block: Block, lines: int) -> Block:
    """Returns a block with its lines counted from further up."""
    pieces = tuple(moved(piece, lines) for piece in block.pieces)
    return replace(block, start=block.start + lines, end=block.end + lines, pieces=pieces)


def at_origins(block: Block, origins: Sequence[int]) -> Block:
    """Returns a block with its lines counted where they come from.

    Args:
        block: A block of rewritten lines.
        origins: For each of those lines the one that it comes from.
    """
    start, end = original_span(block.start, block.end, origins)
    return replace(block, start=start, end=end, pieces=tuple(at_origins(piece, origins) for piece in block.pieces))


def original_span(start: int, end: int, origins: Sequence[int]) -> tuple[int, int]:
    """Returns the lines (end exclusive) that a span of rewritten lines comes from."""
    first = origins[min(start, len(origins) - 1)]
    return first, max(origins[min(end, len(origins)) - 1] + 1, first + (end > start))


def count_tokens(blocks: Sequence[Block], counter: TokenCounter) -> list[Block]:
    """Returns blocks with their tokens, counted in one call."""
    # Generated pages repeat themselves: each text is counted once.
    missing = list({block.text: None for block in blocks if block.tokens < 0})
    numbers = dict(zip(missing, counter.count_many(missing) if missing else [], strict=True))
    return [block if block.tokens >= 0 else _with_tokens(block, numbers[block.text]) for block in blocks]


def _with_tokens(block: Block, tokens: int) -> Block:
    return Block(block.kind, block.text, block.start, block.end, block.pieces, block.opening, block.closing, tokens)


def pack_blocks(blocks: Iterable[Block], room: int, counter: TokenCounter) -> list[PackedRow]:
    """Packs counted blocks into rows, splitting only those that no row holds.

    Args:
        blocks: In document order.
        room: Tokens that a row may have.
        counter: Counts the pieces of blocks that have to be split.
    """
    room = max(room, _MIN_ROOM)
    groups: list[list[Block]] = []
    tokens = size = 0
    for block in blocks:
        for part in _parts(block, room, counter):
            tokens, size = tokens + part.tokens, size + _size(part)
            if groups and tokens <= room and size <= MAX_ROW_CHARS:
                groups[-1].append(part)
            else:
                groups.append([*_introductions(groups[-1] if groups else [], part, room), part])
                tokens, size = sum(held.tokens for held in groups[-1]), sum(map(_size, groups[-1]))
    if len(groups) > 1:
        _lengthen_tail(groups[-2], groups[-1], room)
    return [_row(group) for group in groups]


def _introductions(before: list[Block], part: Block, room: int) -> list[Block]:
    """Takes from the end of a full row what only introduces the next block: a label, a heading, "as follows:"."""
    taken: list[Block] = []
    while (
        len(before) > 1
        and len(taken) < _INTRODUCTIONS
        and _introduces(before[-1])
        and _fits([before[-1], *taken, part], room)
    ):
        taken.insert(0, before.pop())
    return taken


def _introduces(block: Block) -> bool:
    lead_in = block.kind == "paragraph" and block.tokens < _SHORT_TAIL and block.text.endswith(":")
    return lead_in or block.kind in ("label", "heading")


def _lengthen_tail(before: list[Block], tail: list[Block], room: int) -> None:
    """Moves blocks into a last row that would hold next to nothing."""
    # Text that the model does not see has no tokens: without end, it would all move.
    while len(before) > 1 and len(tail) < _SHORT_TAIL and sum(block.tokens for block in tail) < _SHORT_TAIL:
        if not _fits([before[-1], *tail], room):
            break
        tail.insert(0, before.pop())


def _fits(blocks: Sequence[Block], room: int) -> bool:
    return sum(block.tokens for block in blocks) <= room and sum(map(_size, blocks)) <= MAX_ROW_CHARS


def _size(block: Block) -> int:
    return len(block.text) + len("\n\n")


def _row(blocks: Sequence[Block]) -> PackedRow:
    # A row may start inside a list: what all its lines are indented by is no longer of use.
    text = dedent("\n\n".join(block.text for block in blocks if block.text))
    # A label that the parser did not read as one (inside HTML) is plain text.
    text = text.replace(f"# {LABEL}", "").replace(LABEL, "")
    return PackedRow(text, blocks[0].start, max(block.end for block in blocks), sum(block.tokens for block in blocks))


def _parts(block: Block, room: int, counter: TokenCounter) -> Iterator[Block]:
    if _fits([block], room):
        yield block
    elif block.pieces:
        yield from _split_pieces(block, room, counter)
    else:
        yield from _split_text(block, room, counter)


def _split_pieces(block: Block, room: int, counter: TokenCounter) -> Iterator[Block]:
    repeated = sum(counter.count_many([block.opening, block.closing]))
    keeps = repeated <= room // _REPEATED_SHARE and len(block.opening) <= MAX_ROW_CHARS // _REPEATED_SHARE
    opening, closing, repeated = (block.opening, block.closing, repeated) if keeps else ("", "", 0)
    inner = max(room - repeated, _MIN_ROOM)
    pieces = count_tokens(block.pieces, counter)
    parts = [part for piece in pieces for part in _parts(piece, inner, counter)]
    groups = list(_even_groups(parts, inner))
    for index, group in enumerate(groups):
        yield Block(
            block.kind,
            "\n".join(text for text in (opening, "\n".join(part.text for part in group), closing) if text),
            block.start if index == 0 else group[0].start,
            block.end if index == len(groups) - 1 else group[-1].end,
            tokens=sum(part.tokens for part in group) + repeated,
        )


def _even_groups(parts: Sequence[Block], room: int) -> Iterator[list[Block]]:
    """Yields groups of like length: a greedy cut would leave the last row of a table alone with its header."""
    total = sum(part.tokens for part in parts)
    goal = total / max(1, -(-total // room))
    group: list[Block] = []
    used = size = 0
    for part in parts:
        over = used + part.tokens > room or size + len(part.text) > MAX_ROW_CHARS // _REPEATED_SHARE
        if group and (over or used + part.tokens / 2 > goal):
            yield group
            group, used, size = [], 0, 0
        group.append(part)
        used += part.tokens
        size += len(part.text) + 1
    if group:
        yield group


def _split_text(block: Block, room: int, counter: TokenCounter) -> Iterator[Block]:
    """Splits a text at its lines, a line at its sentences, a sentence by tokens.

    Rows of one long line share it: there is no smaller span to give them.
    """
    lines = block.text.split("\n")
    height = block.end - block.start
    tokens = counter.count_many(lines)
    held: list[str] = []
    used = size = 0
    first = 0

    def place(index: int) -> int:
        return block.start + min(index * height // len(lines), height - 1)

    def part(texts: list[str], begin: int, stop: int, count: int) -> Block:
        end = block.end if stop == len(lines) else max(place(stop), place(begin) + 1)
        return Block(block.kind, "\n".join(texts), place(begin), end, tokens=count)

    for index, (line, count) in enumerate(zip(lines, tokens, strict=True)):
        if held and (used + count > room or size + len(line) > MAX_ROW_CHARS):
            yield part(held, first, index, used)
            held, used, size = [], 0, 0
        if count > room or len(line) > MAX_ROW_CHARS:
            for text, number in _split_line(line, room, counter):
                yield part([text], index, index + 1, number)
            continue
        first = first if held else index
        held.append(line)
        used += count
        size += len(line) + 1
    if held:
        yield part(held, first, len(lines), used)


def _split_line(line: str, room: int, counter: TokenCounter) -> Iterator[tuple[str, int]]:
    sentences = [sentence for sentence in _SENTENCE_END.split(line) if sentence]
    held: list[str] = []
    used = size = 0
    for sentence, count in zip(sentences, counter.count_many(sentences), strict=True):
        if held and (used + count > room or size + len(sentence) > MAX_ROW_CHARS):
            yield " ".join(held), used
            held, used, size = [], 0, 0
        if count > room or len(sentence) > MAX_ROW_CHARS:
            yield from _split_sentence(sentence, room, counter)
            continue
        held.append(sentence)
        used += count
        size += len(sentence) + 1
    if held:
        yield " ".join(held), used


def _split_sentence(text: str, room: int, counter: TokenCounter) -> Iterator[tuple[str, int]]:
    at = 0
    while at < len(text):
        head = _longest_start(text, at, room, counter)
        # Words stay whole where there are any.
        space = head.rfind(" ")
        if len(head) < len(text) - at and space > len(head) // 2:
            head = head[:space]
        at += len(head)
        if head.strip():
            yield head.strip(), counter.count(head)


def _longest_start(text: str, at: int, room: int, counter: TokenCounter) -> str:
    window = room * _CHARS_PER_TOKEN
    while True:
        seen = text[at : at + min(window, MAX_ROW_CHARS)]
        head = counter.truncate(seen, room)
        if len(head) < len(seen) or window >= MAX_ROW_CHARS or at + window >= len(text):
            return head or seen[:1]
        window *= 4
