"""Markdown as blocks of readable text: markdown-it-py reads the structure, this module writes what a reader sees.

Link targets are left out (the words of a link stay, its address is not evidence), and so are emphasis marks; code,
identifiers and table cells stay as they are. The markup of the site generator was rewritten before (`sites`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from html.parser import HTMLParser
from itertools import accumulate
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from kubeflow_corpus.chunking.docs.blocks import Block, at_origins, moved, original_span, shifted
from kubeflow_corpus.chunking.docs.html_text import KNOWN_TAGS, VOID_TAGS, hides, html_blocks
from kubeflow_corpus.sites.anchors import Anchor, Anchors, HeadingSource
from kubeflow_corpus.sites.page_lines import LABEL

# Longer inline text is not prose: it stays as it is.
_MAX_INLINE: Final = 20_000
# Inline markup starts with one of these; a text without them is what a reader sees.
_MARKED: Final = re.compile(r"[\\`*_\[\]<&!~$]")
# `snake_case` and `2 * 3` hold such characters and no markup.
_PLAIN_MARKS: Final = re.compile(r"(?<=\w)_(?=\w)|(?<=\s)\*(?=\s)|!(?!\[)")
_ALERT: Final = re.compile(r"^\[!(\w+)\][+-]?[ \t]*(.*)")
_TABLE_TAG: Final = re.compile(r"<(/?)table\b", re.IGNORECASE)
_NAMED_PLACE: Final = re.compile(r"""<a\s+(?:id|name)=["']([^"'\s]{1,500})["']\s*(?:/>|>\s*</a>)\s*$""")
# An instruction to a linter, in prose that was generated from code. A run of blanks is read from its start only.
_LINT_MARK: Final = re.compile(r"(?<![ \t])[ \t]+# noqa(?:: ?[A-Z]+\d+)?[ \t]*$", re.MULTILINE)
_MAX_TABLE_LINES: Final = 5_000
_INLINE_TAG: Final = re.compile(r"<(/?)([A-Za-z][\w.-]*)")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a page.

    Attributes:
        level: 1 to 6.
        text: What a reader sees of it.
        anchor: What the site's generator makes of it.
        start: Its first line, from 0, or that of a named place (``<a id="x"></a>``) right before it.
        end: Line after its last one.
        named: The name of that place.
    """

    level: int
    text: str
    anchor: str
    start: int
    end: int
    named: str = ""


@dataclass(slots=True)
class Rendered:
    """A page's body as headings and blocks, in document order.

    Attributes:
        items: Headings and blocks.
        dropped: For a line that nothing shows (index from 0), the rule that dropped it.
        counts: How often each rule dropped something.
    """

    items: list[Heading | Block] = field(default_factory=list)
    dropped: dict[int, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def at_origins(self, origins: Sequence[int]) -> None:
        """Counts lines where they come from: a rewrite may have put several in the place of one."""
        self.items = [_at_origins(item, origins) for item in self.items]
        self.dropped = {origins[line]: reason for line, reason in self.dropped.items()}


def _at_origins(item: Heading | Block, origins: Sequence[int]) -> Heading | Block:
    if isinstance(item, Block):
        return at_origins(item, origins)
    start, end = original_span(item.start, item.end, origins)
    return replace(item, start=start, end=end)


@cache
def _parser(indented_code: bool, math: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    if math:
        parser.use(dollarmath_plugin, double_inline=True)
    if not indented_code:
        parser.disable("code")
    # Nobody sees the targets of links: they need no normalising, and whatever they are, their words are text.
    setattr(parser, "normalizeLink", lambda url: url)  # noqa: B010
    setattr(parser, "validateLink", lambda url: True)  # noqa: B010
    # Inline text is parsed where it is shown and has any markup: most has none.
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def render(lines: Sequence[str], anchors: Anchors, *, indented_code: bool, math: bool) -> Rendered:
    """Reads a body that was rewritten to Markdown and HTML.

    Args:
        lines: The body.
        anchors: Gives the anchors of its headings.
        indented_code: Whether four spaces make code (not in MDX).
        math: Whether dollars enclose formulas.
    """
    parser = _parser(indented_code, math)
    environment: dict[str, Any] = {}
    tokens = parser.parse("\n".join(lines), environment)
    page = Rendered()
    writer = _Writer(parser, environment, anchors, lines, page)
    writer.write(tokens)
    for reference in [*environment.get("references", {}).values(), *environment.get("duplicate_refs", [])]:
        first, last = reference.get("map") or (0, 0)
        page.dropped.update({line: "link_reference" for line in range(first, last)})
    _add_unread(page, lines, writer.read)
    return page


def _add_unread(page: Rendered, lines: Sequence[str], read: list[bool]) -> None:
    """Adds as they are the lines that the parser gave up on (nesting beyond its limit)."""
    found = False
    index = 0
    while index < len(lines):
        if read[index] or not lines[index].strip() or index in page.dropped:
            index += 1
            continue
        start = index
        while index < len(lines) and not read[index] and lines[index].strip() and index not in page.dropped:
            index += 1
        page.items.append(Block("raw", "\n".join(line.strip() for line in lines[start:index]), start, index))
        found = True
    if found:
        page.items.sort(key=lambda item: item.start)


class _Writer:
    def __init__(
        self,
        parser: MarkdownIt,
        environment: dict[str, Any],
        anchors: Anchors,
        lines: Sequence[str],
        page: Rendered,
    ) -> None:
        self._parser = parser
        self._environment = environment
        self._anchors = anchors
        self._lines = lines
        self._page = page
        self._place = ("", 0, 0)
        self._tables = _Tables(lines)
        self.read = [False] * len(lines)

    def write(self, tokens: list[Token]) -> None:
        at = 0
        until = 0
        while at < len(tokens):
            token = tokens[at]
            stop = _closing(tokens, at)
            start, end = token.map or (until, until)
            self.read[start:end] = [True] * (end - start)
            if end <= until and until:
                pass
            elif token.type == "heading_open":
                self._heading(token, tokens[at + 1])
            elif token.type == "paragraph_open" and (place := _NAMED_PLACE.match(tokens[at + 1].content)):
                self._page.dropped.update(dict.fromkeys(range(start, end), "named_place"))
                self._place = (place.group(1), start, end)
            elif token.type == "html_block":
                until = self._html(start, end)
            else:
                self._page.items += self._block(tokens, at, stop)
            at = stop + 1

    def _heading(self, token: Token, inline: Token) -> None:
        start, end = token.map or (0, 0)
        if inline.content.startswith(LABEL):
            self._page.items += self._shown(self._label(inline, start, end))
            return
        anchor = self._anchor(inline)
        name, first, last = self._place
        near = name and not any(line.strip() for line in self._lines[last:start])
        heading = Heading(
            int(token.tag[1]), anchor.text.strip(), anchor.id, first if near else start, end, name if near else ""
        )
        self._page.items.append(heading)
        self._place = ("", 0, 0)
        if near:
            for line in range(first, last):
                self._page.dropped.pop(line, None)

    def _label(self, inline: Token, start: int, end: int) -> Block:
        return Block("label", self._inline(inline.content.removeprefix(LABEL)), start, end)

    def _anchor(self, inline: Token) -> Anchor:
        raw = inline.content.rsplit("\n", 1)[-1]
        return self._anchors.next(HeadingSource(raw, " ".join(self._inline(inline.content, plain=True).split("\n"))))

    def _html(self, start: int, end: int) -> int:
        """Writes an HTML block; a table with blank lines in it is read to its end. Returns the line after it."""
        end = self._tables.end(start, end)
        self.read[start:end] = [True] * (end - start)
        source = "\n".join(self._lines[start:end])
        counts: Counter[str] = Counter()
        blocks = [moved(block, start) for block in html_blocks(source, counts)]
        self._page.counts += counts
        self._page.items += blocks
        if not blocks:
            reason = next((name for name in ("html_comment", "hidden_text") if counts[name]), "html_without_text")
            self._page.dropped.update({line: reason for line in range(start, end) if self._lines[line].strip()})
        return end

    def _blocks(self, tokens: list[Token], start: int, stop: int) -> list[Block]:
        blocks: list[Block] = []
        at = start
        while at < stop:
            end = _closing(tokens, at)
            blocks += self._block(tokens, at, end)
            at = end + 1
        return blocks

    def _block(self, tokens: list[Token], at: int, stop: int) -> list[Block]:
        token = tokens[at]
        start, end = token.map or (0, 0)
        match token.type:
            case "paragraph_open":
                return self._shown(Block("paragraph", self._inline(tokens[at + 1].content), start, end))
            case "fence" | "code_block":
                return [_fence(token, start, end)]
            case "bullet_list_open" | "ordered_list_open":
                return self._list(tokens, at, stop)
            case "blockquote_open":
                return self._quote(self._blocks(tokens, at + 1, stop))
            case "table_open":
                return self._shown(self._table(tokens, at, stop))
            case "heading_open" if tokens[at + 1].content.startswith(LABEL):
                return self._shown(self._label(tokens[at + 1], start, end))
            case "heading_open":
                return self._shown(Block("heading", self._anchor(tokens[at + 1]).text, start, end))
            case "html_block":
                counts: Counter[str] = Counter()
                blocks = [moved(block, start) for block in html_blocks(token.content.rstrip("\n"), counts)]
                self._page.counts += counts
                return blocks
            case "math_block" | "math_block_label":
                return [Block("paragraph", f"$${token.content.strip()}$$", start, end)]
        return []

    def _shown(self, block: Block) -> list[Block]:
        return [block] if block.text.strip() else self._nothing(block.start, block.end)

    def _nothing(self, start: int, end: int) -> list[Block]:
        self._page.dropped.update({line: "markup_without_text" for line in range(start, end)})
        return []

    def _list(self, tokens: list[Token], at: int, stop: int) -> list[Block]:
        opening = tokens[at]
        ordered = opening.type == "ordered_list_open"
        number = int(opening.attrGet("start") or 1) if ordered and opening.attrGet("start") is not None else 1
        items: list[Block] = []
        index = at + 1
        while index < stop:
            end = _closing(tokens, index)
            marker = f"{number}. " if ordered else "- "
            item = self._item(tokens, index, end, marker)
            if item is not None:
                items.append(item)
            number += 1
            index = end + 1
        start, last = opening.map or (0, 0)
        if not items:
            return self._nothing(start, last)
        return [Block("list", "\n".join(item.text for item in items), start, last, tuple(items))]

    def _item(self, tokens: list[Token], at: int, stop: int, marker: str) -> Block | None:
        children = self._blocks(tokens, at + 1, stop)
        if not children:
            return None
        indent = " " * len(marker)
        pieces = tuple(shifted(child, marker if index == 0 else indent, indent) for index, child in enumerate(children))
        start, end = tokens[at].map or (0, 0)
        return Block(
            "item", "\n".join(piece.text for piece in pieces), start, end, pieces if len(pieces) > 1 else pieces
        )

    def _quote(self, children: list[Block]) -> list[Block]:
        alert = _ALERT.match(children[0].text) if children else None
        if alert is not None:
            head = f"{alert.group(1).capitalize()}: {alert.group(2)}".rstrip()
            text = head + children[0].text[alert.end() :]
            first = Block("paragraph", text, children[0].start, children[0].end)
            return [first, *children[1:]]
        return children

    def _table(self, tokens: list[Token], at: int, stop: int) -> Block:
        start, end = tokens[at].map or (0, 0)
        rows: list[list[str]] = []
        for token, after in zip(tokens[at:stop], tokens[at + 1 : stop + 1], strict=True):
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open") and rows:
                rows[-1].append(" ".join(self._inline(after.content, cell=True).split()))
        head = f"| {' | '.join(rows[0])} |\n|{' --- |' * len(rows[0])}" if rows and any(rows[0]) else ""
        pieces = tuple(
            Block("row", f"| {' | '.join(cells)} |", start + 2 + index, start + 3 + index)
            for index, cells in enumerate(rows[1:])
        )
        text = "\n".join([*([head] if head else []), *(piece.text for piece in pieces)])
        return Block("table", text, start, end, pieces, opening=head)

    def _inline(self, content: str, *, plain: bool = False, cell: bool = False) -> str:
        if "# noqa" in content:
            content = _LINT_MARK.sub("", content)
        if len(content) > _MAX_INLINE or not _MARKED.search(_PLAIN_MARKS.sub("", content)):
            return content
        tokens: list[Token] = []
        self._parser.inline.parse(content, self._parser, self._environment, tokens)
        return _InlineText(self._page.counts, plain, cell).text(tokens)


class _Tables:
    """Finds where the HTML tables end that a block opens; all lines are read once, however many tables never end."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    @cached_property
    def _depths(self) -> list[int]:
        """How many tables are open before each line, and after the last."""
        return list(accumulate(map(_table_depth, self._lines), initial=0))

    @cached_property
    def _lower(self) -> list[int]:
        """For each line the next one before which fewer tables are open, or one beyond the end."""
        depths = self._depths
        lower = [len(depths)] * len(depths)
        waiting: list[int] = []
        for line, depth in enumerate(depths):
            while waiting and depths[waiting[-1]] > depth:
                lower[waiting.pop()] = line
            waiting.append(line)
        return lower

    def end(self, start: int, end: int) -> int:
        """Returns the line after the one that closes the tables of a block: its own end where none does or has to."""
        closed = end
        while closed < len(self._depths) and self._depths[closed] > self._depths[start]:
            closed = self._lower[closed]
        return closed if closed <= min(len(self._lines), start + _MAX_TABLE_LINES) else end


class _InlineText:
    """Writes inline tokens as a reader sees them."""

    def __init__(self, counts: Counter[str], plain: bool, cell: bool) -> None:
        self._counts = counts
        self._plain = plain
        self._break = "; " if cell else "\n"
        self._hidden = ""
        self._depth = 0

    def text(self, tokens: list[Token]) -> str:
        return "".join(self._one(token) for token in tokens).strip()

    def _one(self, token: Token) -> str:
        if token.type == "html_inline":
            return self._tag(token.content)
        if self._hidden:
            return ""
        match token.type:
            case "text" | "text_special":
                return token.content
            case "code_inline":
                return token.content if self._plain else _code_span(token.content)
            case "softbreak" | "hardbreak":
                return "\n"
            case "image":
                return token.content
            case "math_inline" | "math_inline_double":
                return f"${token.content}$"
        return ""

    def _tag(self, source: str) -> str:
        match = _INLINE_TAG.match(source)
        if match is None:
            self._counts["html_comment"] += source.startswith("<!--")
            return ""
        closing, name = bool(match.group(1)), match.group(2).lower()
        if self._hidden:
            self._depth += 0 if name != self._hidden else -1 if closing else 1
            self._hidden = self._hidden if self._depth > 0 else ""
            return ""
        if name not in KNOWN_TAGS:
            return source
        attributes = _attributes(source)
        if not closing and name not in VOID_TAGS and hides(name, attributes):
            self._hidden, self._depth = name, 1
            self._counts["hidden_text"] += 1
            return ""
        if name == "br":
            return " " if self._plain else self._break
        if name == "img":
            return attributes.get("alt") or ""
        return "`" if name in ("code", "kbd") and not self._plain else ""


class _TagReader(HTMLParser):
    attributes: dict[str, str | None]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes = dict(attrs)


def _attributes(source: str) -> dict[str, str | None]:
    if "=" not in source and "hidden" not in source:
        return {}
    reader = _TagReader()
    reader.attributes = {}
    reader.feed(source)
    return reader.attributes


def _code_span(content: str) -> str:
    if "`" not in content:
        return f"`{content}`"
    ticks = "`" * (1 + max(len(run) for run in re.findall(r"`+", content)))
    return f"{ticks} {content} {ticks}"


def _fence(token: Token, start: int, end: int) -> Block:
    content = token.content[:-1] if token.content.endswith("\n") else token.content
    marks = token.markup if token.type == "fence" and token.markup else "```"
    info = token.info.strip() if token.type == "fence" else ""
    lines = content.split("\n")
    first = start + (token.type == "fence")
    last = max(end - 1, start)
    pieces = tuple(
        Block("line", line, min(first + index, last), min(first + index, last) + 1) for index, line in enumerate(lines)
    )
    opening = f"{marks}{info}"
    return Block("fence", f"{opening}\n{content}\n{marks}", start, end, pieces, opening=opening, closing=marks)


def _closing(tokens: list[Token], at: int) -> int:
    """Returns the index of the token that closes the one at `at`."""
    if tokens[at].nesting != 1:
        return at
    level = tokens[at].level
    index = at + 1
    while index < len(tokens) and not (tokens[index].nesting == -1 and tokens[index].level == level):
        index += 1
    return min(index, len(tokens) - 1)


def _table_depth(html: str) -> int:
    return sum(-1 if match.group(1) else 1 for match in _TABLE_TAG.finditer(html))
