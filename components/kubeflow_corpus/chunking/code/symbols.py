"""Source code cut by symbol: functions, methods, types, constants, components, module headers.

A row is a whole symbol where the model can read it whole. A larger function is split at its statements with the
signature repeated, a larger class becomes a skeleton and its methods, a larger group of constants is split by entry
with the heading of each paragraph repeated, and tiny siblings share a row. Every line is in exactly one row or was
removed by a counted rule; only signatures, headings and skeletons are shown twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from kubeflow_corpus.chunking.code import exclusions as generated
from kubeflow_corpus.chunking.code import grammars, outlines, proto
from kubeflow_corpus.chunking.code.outlines import CODE, COMMENT, MARKERS, MODULE, STAGE, Symbol
from kubeflow_corpus.chunking.compose import HEADER_SHARE, Budget
from kubeflow_corpus.chunking.line_rows import LineRows, SourceText, pack_lines
from kubeflow_corpus.chunking.plain_text import add_plain_text, cut_plain_text
from kubeflow_corpus.records import Chunked, Document, FieldValue, Skip

if TYPE_CHECKING:
    from tree_sitter import Node

# A source file above this is data, and parsing it would take seconds.
MAX_BYTES: Final = 600_000
# What share of the budget: a sibling so small is merged, a constant so small is merged, a skeleton's list of members.
_TINY: Final = 8
_SMALL_VALUE: Final = 3
_MEMBER_LIST: Final = 2
_NAMES_IN_HEADER: Final = 100
_MEMBER_LINE: Final = 120
_OMITTED: Final = "..."
# Which siblings may share a row.
_FAMILIES: Final = {
    "const": "value",
    "var": "value",
    "function": "function",
    "method": "method",
    "type": "type",
    "struct": "type",
    "interface": "type",
    "enum": "type",
    "message": "type",
}
_UNNAMED: Final = frozenset({MODULE, CODE, COMMENT})


@dataclass(frozen=True, slots=True)
class _Region:
    """A symbol with the lines that are its own, up to the start of the next one."""

    symbol: Symbol
    start: int
    end: int


def chunk(document: Document, budget: Budget) -> Chunked:
    """Cuts one source file into the rows of its symbols.

    Args:
        document: A file of a source of type code. ``metadata["generated"]`` says that the repository marks it as
            generated; ``metadata["keep_tests"]`` keeps test files, which are otherwise left out.
        budget: What the embedding model reads.

    Returns:
        Rows, removed lines and counts, or the reason why the file gives no row.
    """
    skip = _skipped(document)
    if skip is not None:
        return Chunked(skipped=skip)
    source = SourceText(document.text, budget.counter)
    rows = LineRows(document, budget, source)
    language = grammars.language_of(document.path)
    start = generated.licence_lines(source.lines)
    rows.remove("licence_header", 0, start)
    symbols = _outline(language, document.path, source, rows)
    if any(symbol.name for symbol in symbols):
        _Chunker(rows, language).emit(_regions(symbols, start, len(source), source, budget))
    else:
        if rows.counts["parse_error"] or rows.counts["parse_stopped"]:
            rows.counts["fallback"] += 1
        kind = CODE if language in outlines.PARSED else "text"
        add_plain_text(rows, start, len(source), "", kind, language, kind)
    return rows.result()


def _skipped(document: Document) -> Skip | None:
    def skip(reason: str) -> Skip:
        return Skip(document.document_id, document.path, reason)

    if not grammars.language_of(document.path):
        return skip("unsupported_type")
    if len(document.text) > MAX_BYTES:
        return skip("too_large")
    if "\0" in document.text[:8_000]:
        return skip("binary")
    metadata = document.metadata
    marked, tests = bool(metadata.get("generated")), bool(metadata.get("keep_tests"))
    reason = generated.exclusion(document.path, document.text, generated=marked, keep_tests=tests)
    return skip(reason) if reason else None


def _outline(language: str, path: str, source: SourceText, rows: LineRows) -> list[Symbol]:
    if language == "proto":
        return proto.read_symbols(source)
    if not grammars.has_grammar(language):
        return []
    tree = grammars.parse(language, source.data)
    if tree is None:
        rows.counts["parse_stopped"] += 1
        return []
    root = tree.root_node
    if root.has_error:
        rows.counts["parse_error"] += 1
    return outlines.read_symbols(language, root, path, source)


def _regions(symbols: list[Symbol], start: int, end: int, source: SourceText, budget: Budget) -> list[_Region]:
    """Returns regions that partition the lines: unnamed code is joined, comments that stand alone lead what follows."""
    items = _joined([symbol for symbol in symbols if symbol.end > start], source, budget)
    regions: list[_Region] = []
    for index, symbol in enumerate(items):
        first = start if index == 0 else max(symbol.start, start)
        last = items[index + 1].start if index + 1 < len(items) else end
        regions.append(_Region(symbol, first, last))
    return regions


def _joined(symbols: list[Symbol], source: SourceText, budget: Budget) -> list[Symbol]:
    items: list[Symbol] = []
    for symbol in symbols:
        last = items[-1] if items else None
        unnamed = symbol.kind in _UNNAMED and not symbol.name
        if last is not None and symbol.kind == CODE and last.kind == STAGE:
            last.end = symbol.end
        elif last is not None and unnamed and last.kind in _UNNAMED and not last.name:
            last.end, last.node = symbol.end, None
            last.kind = last.kind if last.kind != COMMENT else symbol.kind
        elif (
            last is not None
            and last.kind == COMMENT
            and symbol.kind != MARKERS
            and (len(items) > 1 or symbol.kind == MODULE)
            and source.cost(last.start, last.end) * HEADER_SHARE <= budget.tokens
        ):
            symbol.start = last.start
            items[-1] = symbol
        else:
            items.append(symbol)
    return items


class _Chunker:
    """Emits the rows of the regions of one file."""

    def __init__(self, rows: LineRows, language: str) -> None:
        self._rows = rows
        self._source = rows.source
        self._language = language
        self._tokens = rows.budget.tokens
        # What always fits, however long the names in the header are.
        self._safe = self._tokens - self._tokens // HEADER_SHARE - 2

    def emit(self, regions: list[_Region], depth: int = 0) -> None:
        """Emits regions in order; tiny siblings of one family share a row."""
        for group in self._merged(regions):
            if len(group) > 1:
                self._add_merged(group)
            else:
                self._emit_one(group[0], depth)

    def _merged(self, regions: list[_Region]) -> Iterator[list[_Region]]:
        group: list[_Region] = []
        for region in regions:
            if group and not self._joins(group, region):
                yield group
                group = []
            group.append(region)
        if group:
            yield group

    def _joins(self, group: list[_Region], region: _Region) -> bool:
        family = _FAMILIES.get(region.symbol.kind)
        if family is None or family != _FAMILIES.get(group[-1].symbol.kind):
            return False
        limit = self._tokens // (_SMALL_VALUE if family == "value" else _TINY)
        small = all(self._source.cost(item.start, item.end) <= limit for item in (group[-1], region))
        return small and self._source.cost(group[0].start, region.end) <= self._safe

    def _add_merged(self, group: list[_Region]) -> None:
        names = ", ".join(region.symbol.name for region in group)
        first = group[0].symbol
        span = (group[0].start, group[-1].end)
        self._add(self._rows.unit(first.name), names, first.kind, self._source.text(*span), span)

    def _emit_one(self, region: _Region, depth: int) -> None:
        symbol = region.symbol
        span = (region.start, region.end)
        room = self._rows.room(_shorten_names(symbol.name))
        if self._source.cost(*span) > room:
            self._emit_large(region, room, depth)
        elif text := self._source.text(*span):
            self._add(self._rows.unit(symbol.name or symbol.kind), symbol.name, symbol.kind, text, span)
        else:
            self._rows.remove("blank", *span)

    def _emit_large(self, region: _Region, room: int, depth: int) -> None:
        symbol = region.symbol
        inner = outlines.read_members(symbol, self._language, self._rows.document.path, self._source)
        inner = [member for member in inner if region.start < member.start < region.end]
        if depth >= outlines.MAX_DEPTH or len(inner) < 2:
            self._split(region, room)
        elif symbol.kind in ("class", "namespace"):
            self._emit_class(region, inner, room, depth)
        else:
            self._emit_group(region, inner, room)

    # --- Functions and everything without members ---

    def _split(self, region: _Region, room: int, prefix: str = "") -> None:
        symbol = region.symbol
        signature = prefix or self._signature(symbol)
        rest = max(room - self._source.costs.cost(signature) - len(_OMITTED), room // 2)
        unit_id = self._rows.unit(symbol.name or symbol.kind)
        for begin, stop in self._ranges(symbol.node, region.start, region.end, room, rest):
            text = self._source.text(begin, stop)
            if not text:
                self._rows.remove("blank", begin, stop)
                continue
            repeated = bool(signature) and begin > symbol.declared
            prefix = f"{signature}\n{_OMITTED}" if repeated else ""
            self._add(unit_id, symbol.name, symbol.kind, text, (begin, stop), prefix)

    def _signature(self, symbol: Symbol) -> str:
        if symbol.kind in _UNNAMED or symbol.kind == MARKERS:
            return ""
        end = symbol.declared + 1
        limit = self._tokens // HEADER_SHARE
        while end < symbol.body and self._source.cost(symbol.declared, end + 1) <= limit:
            end += 1
        text = "\n".join(self._source.lines[symbol.declared : end])
        return self._rows.budget.counter.truncate(text, limit) if self._source.costs.cost(text) > limit else text

    def _ranges(self, node: Node | None, start: int, end: int, room: int, rest: int) -> list[tuple[int, int]]:
        cuts = _boundaries(node, start, end, self._source, min(room, rest))
        return pack_lines(self._source, [start, *cuts], end, room, rest)

    # --- Classes ---

    def _emit_class(self, region: _Region, inner: list[Symbol], room: int, depth: int) -> None:
        symbol = region.symbol
        nested = _regions(inner, inner[0].start, region.end, self._source, self._rows.budget)
        nested = [replace(item, symbol=self._with_owner(item.symbol, symbol)) for item in nested]
        first = next((item for item in nested if item.symbol.kind in ("method", "class", "function")), None)
        if first is None:
            self._split(region, room)
            return
        own = [item for item in nested if item.start >= first.start]
        listing = self._member_list(own, room // _MEMBER_LIST)
        spare = max(room - self._source.costs.cost(listing), room // 2)
        unit_id = self._rows.unit(symbol.name)
        signature = self._signature(symbol)
        rest = max(room - self._source.costs.cost(signature) - len(_OMITTED), room // 2)
        for begin, stop in self._ranges(symbol.node, region.start, first.start, spare, rest):
            text = self._source.text(begin, stop)
            if not text:
                self._rows.remove("blank", begin, stop)
            elif begin == region.start:
                self._add(unit_id, symbol.name, symbol.kind, text, (begin, stop), suffix=listing)
            else:
                prefix = f"{signature}\n{_OMITTED}" if begin > symbol.declared else ""
                self._add(unit_id, symbol.name, symbol.kind, text, (begin, stop), prefix)
        self.emit(own, depth + 1)

    @staticmethod
    def _with_owner(member: Symbol, owner: Symbol) -> Symbol:
        """Returns a member that can be named: loose statements of a class body are called like the class."""
        return member if member.name else replace(member, name=owner.name)

    def _member_list(self, regions: list[_Region], limit: int) -> str:
        """Returns the signatures of the members, or their names where the signatures do not fit."""
        named = [region.symbol for region in regions if region.symbol.kind not in _UNNAMED]
        signatures = [self._member_line(symbol) for symbol in named]
        if self._source.costs.cost("\n".join(signatures)) <= limit:
            return "\n".join(signatures)
        names = [symbol.name.rpartition(".")[2] for symbol in named]
        costs = accumulate(self._source.costs.cost(name) + 1 for name in names)
        shown = sum(cost <= limit - len(_OMITTED) for cost in costs)
        return f"{_OMITTED} {', '.join(names[:shown])}" + (f", {_OMITTED}" if shown < len(names) else "")

    def _member_line(self, symbol: Symbol) -> str:
        lines = self._source.lines[symbol.declared : max(symbol.body, symbol.declared + 1)]
        indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        line = " ".join(line.strip() for line in lines)
        return f"{indent}{line[:_MEMBER_LINE].rstrip('{ ')} {_OMITTED}"

    # --- Groups of constants, variables and types ---

    def _emit_group(self, region: _Region, inner: list[Symbol], room: int) -> None:
        opening = self._signature(region.symbol)
        starts = {member.start: member for member in inner[1:]}
        strong = frozenset(start for start, member in starts.items() if not member.lead)
        leads = {start: self._lead(member) for start, member in starts.items()}
        reserve = self._source.costs.cost(opening) + max(map(self._source.costs.cost, leads.values()), default=0)
        rest = max(self._safe - reserve, room // 2)
        ranges = pack_lines(self._source, [region.start, *starts], region.end, min(room, self._safe), rest, strong)
        firsts = [member.start for member in inner]
        for begin, stop in ranges:
            inside = inner[bisect_left(firsts, begin) : bisect_left(firsts, stop)]
            names = ", ".join(member.name for member in inside)
            prefix = "\n".join(part for part in (opening, leads.get(begin, "")) if part) if begin in starts else ""
            symbol = replace(region.symbol, name=names, kind=inside[0].kind if inside else region.symbol.kind)
            if self._source.cost(begin, stop) > (rest if prefix else room):
                node = inside[0].node if len(inside) == 1 else symbol.node
                declared = symbol.declared if not prefix else begin - 1
                part = replace(symbol, node=node, declared=declared)
                self._split(_Region(part, begin, stop), rest, prefix or opening)
                continue
            text = self._source.text(begin, stop)
            first = inside[0].name if inside else names
            self._add(self._rows.unit(first or symbol.kind), names, symbol.kind, text, (begin, stop), prefix)

    def _lead(self, member: Symbol) -> str:
        text = "\n".join(self._source.lines[row] for row in member.lead)
        limit = self._tokens // HEADER_SHARE
        return self._rows.budget.counter.truncate(text, limit) if self._source.costs.cost(text) > limit else text

    def _add(
        self,
        unit_id: str,
        name: str,
        kind: str,
        content: str,
        span: tuple[int, int],
        prefix: str = "",
        suffix: str = "",
    ) -> None:
        cost = self._source.cost(*span)
        for repeated in filter(None, (prefix, suffix)):
            cost += self._source.costs.cost(repeated)
        content = "\n".join(part for part in (prefix, content, suffix) if part)
        fields: dict[str, FieldValue] = {
            "language": self._language,
            "symbol": name,
            "kind": kind,
            "api_version": "",
            "resource_name": "",
        }
        self._rows.add(unit_id, _shorten_names(name), content, span, fields, cost=cost)


def _shorten_names(names: str) -> str:
    """Returns as many of the names as a header shows."""
    if len(names) <= _NAMES_IN_HEADER:
        return names
    cut = names[:_NAMES_IN_HEADER].rpartition(", ")[0]
    return f"{cut}, {_OMITTED}" if cut else names


def _boundaries(node: Node | None, start: int, end: int, source: SourceText, room: int, depth: int = 0) -> list[int]:
    """Returns the lines at which a range may be cut: statements first, inside a statement only where it is too long.

    Args:
        node: The syntax node of the range, or None for plain text.
        start: First line.
        end: End of the range, exclusive.
        source: The lines.
        room: Tokens that fit into a row.
        depth: How deep the search is.
    """
    children = node.children if node is not None and depth < outlines.MAX_DEPTH else []
    places = [outlines.line_range(child) for child in children]
    cuts = _child_starts(children, places, start, end)
    result: list[int] = []
    at = 0
    for first, last in zip([start, *cuts], [*cuts, end], strict=True):
        if first > start:
            result.append(first)
        if source.cost(first, last) <= room:
            continue
        while at < len(places) and places[at][1] <= first:
            at += 1
        inner, overlap = _longest(places, at, first, last)
        if overlap > 1:
            result.extend(_boundaries(children[inner], first, last, source, room, depth + 1))
        else:
            result.extend(begin for begin, _ in cut_plain_text(source, first, last, room) if begin > first)
    return result


def _child_starts(children: list[Node], places: list[tuple[int, int]], start: int, end: int) -> list[int]:
    cuts: list[int] = []
    busy = start
    comment_end = -1
    for child, (first, last) in zip(children, places, strict=True):
        if start < first < end and first >= busy and first != comment_end:
            cuts.append(first)
        busy = max(busy, last)
        if child.type == "comment":
            comment_end = last
    return cuts


def _longest(places: list[tuple[int, int]], index: int, start: int, end: int) -> tuple[int, int]:
    """Returns which node from an index on has most lines of a range, and how many."""
    best, most = -1, 0
    while index < len(places) and places[index][0] < end:
        overlap = min(places[index][1], end) - max(places[index][0], start)
        if overlap > most:
            best, most = index, overlap
        index += 1
    return best, most
