"""HTML as readable text: tables as rows with their headers, lists as lists, hidden text removed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from typing import Final

from kubeflow_corpus.chunking.docs.blocks import Block

# html.parser is linear on HTML and slow on what only looks like it: such text loses its tags and nothing else.
_MAX_HTML: Final = 200_000
_MAX_TAGS: Final = 30_000
_ANY_TAG: Final = re.compile(r"<[^<>]{0,2000}>")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


HIDDEN_TAGS: Final = _names("script style template noscript iframe object svg head canvas")
VOID_TAGS: Final = _names("area base br col embed hr img input link meta source track wbr")
BLOCK_TAGS: Final = _names(
    "address article aside blockquote body center details dd div dl dt fieldset figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header html li main nav ol p pre section summary ul table thead tbody tfoot tr td th caption colgroup"
)
INLINE_TAGS: Final = _names(
    "a abbr acronym b bdi bdo big button cite code data del dfn em font i ins kbd label mark picture q rp rt ruby s "
    "samp small span strike strong sub sup time tt u var video audio option select textarea progress meter output"
)
KNOWN_TAGS: Final = HIDDEN_TAGS | VOID_TAGS | BLOCK_TAGS | INLINE_TAGS
_CODE_TAGS: Final = frozenset(("code", "kbd", "samp", "tt"))
_HIDING_STYLE: Final = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])", re.IGNORECASE
)
_MAX_SPAN: Final = 200
_MAX_COLUMNS: Final = 60
_MAX_TABLE_DEPTH: Final = 8
# What cells may say again in the rows that they reach down to, in characters: this many, and this many times the HTML.
# Tables in cells that reach down multiply otherwise.
_REPEATED_CHARS: Final = 10_000
_REPEATED_SHARE: Final = 10


def hides(tag: str, attributes: dict[str, str | None]) -> bool:
    """Returns whether a reader of the page does not see what an element holds."""
    style = attributes.get("style") or ""
    return (
        tag in HIDDEN_TAGS
        or "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or bool(_HIDING_STYLE.search(style))
    )


@dataclass(slots=True)
class _Cell:
    heading: bool
    rowspan: int
    colspan: int
    parts: list[str] = field(default_factory=list)

    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self.parts).split("\n"))
        return "; ".join(line for line in lines if line)


@dataclass(slots=True)
class _Row:
    start: int
    end: int
    in_head: bool
    cells: list[_Cell] = field(default_factory=list)


@dataclass(slots=True)
class _Table:
    start: int
    in_head: bool = False
    rows: list[_Row] = field(default_factory=list)


class _Repeats:
    """Characters that cells may still say again."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, text: str) -> str:
        """Returns a text if it may be said again, else nothing."""
        if len(text) > self._left:
            return ""
        self._left -= len(text)
        return text


class _Reader(HTMLParser):
    """Collects blocks of text with the lines that they come from (from 0, end exclusive)."""

    def __init__(self, repeats: _Repeats) -> None:
        super().__init__(convert_charrefs=True)
        self._repeats = repeats
        self.blocks: list[Block] = []
        self.counts: Counter[str] = Counter()
        self._text: list[str] = []
        self._text_start = 0
        self._tables: list[_Table] = []
        self._hidden = ""
        self._hidden_depth = 0
        self._lists: list[int | None] = []
        self._pre = 0

    # What the parser calls.

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if self._hidden:
            self._hidden_depth += tag == self._hidden
            return
        if hides(tag, attributes):
            if tag not in VOID_TAGS:
                self._hidden, self._hidden_depth = tag, 1
                self.counts["hidden_text"] += 1
            return
        if tag not in KNOWN_TAGS:
            self._add(self.get_starttag_text() or "")
        elif tag in ("table", "thead", "tbody", "tfoot", "tr", "td", "th") and (tag == "table" or self._tables):
            self._start_table_part(tag, attributes)
        elif tag == "img":
            self._add(f" {attributes.get('alt') or ''} ")
        elif tag == "br":
            self._add("\n")
        elif tag == "pre":
            self._break()
            self._pre += 1
            self._add("```\n")
        elif tag in _CODE_TAGS and not self._pre:
            self._add("`")
        elif tag in BLOCK_TAGS or tag == "hr":
            self._start_block(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID_TAGS and tag in KNOWN_TAGS:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._hidden_depth -= tag == self._hidden
            self._hidden = self._hidden if self._hidden_depth else ""
            return
        if tag in ("table", "thead", "tbody", "tfoot", "tr", "td", "th"):
            self._end_table_part(tag)
        elif tag == "br":
            self._add("\n")
        elif tag == "pre" and self._pre:
            self._pre -= 1
            self._add("\n```")
            self._break()
        elif tag in _CODE_TAGS and not self._pre:
            self._add("`")
        elif tag in ("ul", "ol", "dl"):
            if self._lists:
                self._lists.pop()
            self._break()
        elif tag in ("li", "dt", "dd"):
            self._new_line()
        elif tag in BLOCK_TAGS:
            self._break()

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        self._add(data if self._pre else re.sub(r"\s+", " ", data))

    def handle_comment(self, data: str) -> None:
        self.counts["html_comment"] += 1

    # What happens to it.

    def finish(self, lines: int) -> list[Block]:
        while self._tables:
            self._end_table_part("table")
        self._break(lines)
        return self.blocks

    def _line(self) -> int:
        return self.getpos()[0] - 1

    def _add(self, text: str) -> None:
        cell = self._cell()
        if cell is not None:
            cell.parts.append(text)
            return
        if not self._text:
            if not text.strip():
                return
            self._text_start = self._line()
        self._text.append(text)

    def _cell(self) -> _Cell | None:
        table = self._tables[-1] if self._tables else None
        return table.rows[-1].cells[-1] if table is not None and table.rows and table.rows[-1].cells else None

    def _new_line(self) -> None:
        if self._cell() is not None or self._text:
            self._add("\n")

    def _break(self, end: int | None = None) -> None:
        if self._cell() is not None:
            self._add("\n")
            return
        text = _tidy("".join(self._text))
        if text:
            self.blocks.append(Block("html", text, self._text_start, self._line() + 1 if end is None else end))
        self._text = []

    def _start_block(self, tag: str) -> None:
        if tag in ("ul", "ol", "dl"):
            self._lists.append(0 if tag == "ol" else None)
            self._new_line()
        elif tag in ("li", "dt", "dd"):
            self._new_line()
            depth = max(len(self._lists) - 1, 0)
            marker = "- "
            if self._lists and self._lists[-1] is not None:
                self._lists[-1] += 1
                marker = f"{self._lists[-1]}. "
            self._add("\x01" * (2 * min(depth, 10)) + marker)
        elif not (self._text and "".join(self._text[-1:]).endswith(("- ", ". "))):
            self._break()

    def _start_table_part(self, tag: str, attributes: dict[str, str | None]) -> None:
        if tag == "table":
            if len(self._tables) >= _MAX_TABLE_DEPTH:
                return
            if self._cell() is None:
                self._break()
            self._tables.append(_Table(self._line()))
            return
        table = self._tables[-1]
        if tag in ("thead", "tbody", "tfoot"):
            table.in_head = tag == "thead"
        elif tag == "tr":
            table.rows.append(_Row(self._line(), self._line() + 1, table.in_head))
        else:
            if not table.rows:
                table.rows.append(_Row(self._line(), self._line() + 1, table.in_head))
            cell = _Cell(tag == "th", _number(attributes.get("rowspan")), _number(attributes.get("colspan")))
            table.rows[-1].cells.append(cell)

    def _end_table_part(self, tag: str) -> None:
        if not self._tables:
            return
        table = self._tables[-1]
        if table.rows:
            table.rows[-1].end = max(table.rows[-1].end, self._line() + 1)
        if tag == "thead":
            table.in_head = False
        if tag != "table":
            return
        self._tables.pop()
        block = _table_block(table, self._line() + 1, self._repeats)
        if block is None:
            return
        if self._cell() is not None:
            self._add("\n" + block.text + "\n")
        else:
            self.blocks.append(block)


def _number(value: str | None) -> int:
    return min(int(value), _MAX_SPAN) if value is not None and value.isascii() and value.isdigit() and int(value) else 1


def _tidy(text: str) -> str:
    fenced = False
    lines: list[str] = []
    for line in text.split("\n"):
        if line.strip() == "```":
            fenced = not fenced
            lines.append("```")
        elif fenced:
            lines.append(line.rstrip())
        else:
            clean = " ".join(line.split()).replace("\x01", " ").rstrip()
            if clean:
                lines.append(clean)
    return "\n".join(lines)


def _table_block(table: _Table, end: int, repeats: _Repeats) -> Block | None:
    grid = _spanned(table.rows, repeats)
    if not any(any(cells) for cells, _ in grid):
        return None
    head = [cells for cells, row in grid if row.in_head]
    body = [(cells, row) for cells, row in grid if not row.in_head]
    if not head and len(body) > 1 and body[0][1].cells and all(cell.heading for cell in body[0][1].cells):
        head, body = [body[0][0]], body[1:]
    opening = "\n".join(f"| {' | '.join(cells)} |" for cells in head)
    if head:
        opening += "\n|" + " --- |" * len(head[-1])
    pieces = []
    at = table.start
    for index, (cells, row) in enumerate(body):
        # A row that ends on the last line of the row before it shares that line.
        last = end if index == len(body) - 1 else max(row.end, at)
        text = _row_text(cells, row, bool(head))
        if text:
            pieces.append(Block("row", text, min(at, last - 1), last))
            at = last
    rows = [piece.text for piece in pieces]
    text = "\n".join([*([opening] if opening else []), *rows])
    return Block("table", text, table.start, max(end, table.start + 1), tuple(pieces), opening=opening)


def _row_text(cells: list[str], row: _Row, has_head: bool) -> str:
    if not any(cells):
        return ""
    if not has_head and row.cells and row.cells[0].heading and not all(cell.heading for cell in row.cells):
        values = " | ".join(cell for cell in cells[1:] if cell)
        return f"{cells[0]}: {values}" if values else cells[0]
    return f"| {' | '.join(cells)} |"


def _spanned(rows: list[_Row], repeats: _Repeats) -> list[tuple[list[str], _Row]]:
    """Returns the cells of each row with those that reach down from rows above it."""
    grid: list[tuple[list[str], _Row]] = []
    reaching: dict[int, tuple[int, str]] = {}
    for row in rows:
        cells: list[str] = []
        waiting = [(cell.text(), cell) for cell in row.cells]
        while (waiting or len(cells) in reaching) and len(cells) < _MAX_COLUMNS:
            column = len(cells)
            if column in reaching:
                left, text = reaching.pop(column)
                cells.append(repeats.take(text))
                if left > 1:
                    reaching[column] = (left - 1, text)
                continue
            text, cell = waiting.pop(0)
            for offset in range(cell.colspan if len(cells) + cell.colspan <= _MAX_COLUMNS else 1):
                cells.append(text if offset == 0 else "")
                if cell.rowspan > 1:
                    reaching[column + offset] = (cell.rowspan - 1, text if offset == 0 else "")
        cells += [text for text, _ in waiting]
        grid.append((cells, row))
    return grid


def html_blocks(html: str, counts: Counter[str]) -> list[Block]:
    """Returns what a reader sees of an HTML block.

    Args:
        html: The block's source.
        counts: Where drops are counted, by reason.

    Returns:
        Blocks whose lines count from 0 at the first line of the HTML; none where it shows no text.
    """
    lines = html.count("\n") + 1
    opening = html.count("<")
    if len(html) > _MAX_HTML or opening > _MAX_TAGS or opening > html.count(">") + 500:
        text = _tidy(unescape(_ANY_TAG.sub(" ", html)))
        return [Block("html", text, 0, lines)] if text else []
    reader = _Reader(_Repeats(_REPEATED_CHARS + _REPEATED_SHARE * len(html)))
    reader.feed(html)
    reader.close()
    blocks = reader.finish(lines)
    counts.update({reason: count for reason, count in reader.counts.items() if count})
    return blocks
