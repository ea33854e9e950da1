"""Lines of a code or manifest file, what each costs in tokens, and the rows that are cut from them.

A WordPiece tokenizer never joins across punctuation or white space, so the cost of a text is the sum of the costs of
its words. Counting every line once and every word once a process makes exact cuts six times cheaper than asking the
tokenizer for every candidate.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from itertools import accumulate
from typing import Final

from kubeflow_corpus.chunking.compose import (
    HEADER_SHARE,
    MAX_TEXT_BYTES,
    SEPARATOR,
    SPECIAL_TOKENS,
    Budget,
    compose_row,
    fit_bytes,
)
from kubeflow_corpus.collections import CODE, common_limit
from kubeflow_corpus.records import Chunk, Chunked, Document, FieldValue, Removed, Skip, seal
from kubeflow_corpus.text_lines import is_blank, split_lines
from kubeflow_corpus.tokens import TokenCounter, WordPieceCounter

# Punctuation, the underscore among it, is one token a character to a WordPiece tokenizer, and ends a word.
_MARKS: Final = string.punctuation.encode()
_MARKS_TO_SPACES: Final = bytes.maketrans(_MARKS, b" " * len(_MARKS))
# Control characters are dropped inside words: like accents and wide characters, they are left to the tokenizer.
_CONTROLS: Final = bytes(code for code in (*range(32), 127) if code not in b"\t\r\n")
_REMEMBERED_WORDS: Final = 200_000
_LONGEST_REMEMBERED: Final = 100

# A line longer than this is data, not code, and no reader is shown it.
MAX_LINE_BYTES: Final = 16_384
_MAX_UNIT_BYTES: Final = common_limit("unit_id")
_MAX_URL_BYTES: Final = common_limit("citation_url")
_MAX_TITLE_BYTES: Final = common_limit("title")
_MAX_SECTION_BYTES: Final = common_limit("section_path")
# A name that is longer than this is generated, and its start says what it is; no field takes more than it holds.
_LONGEST_NAME: Final = 512
_MAX_FIELD_BYTES: Final = {
    field.name: min(field.max_bytes, _LONGEST_NAME) for field in CODE.own_fields if field.kind == "text"
}
# Short by choice: a view only tells the rows of one unit apart.
_MAX_VIEW_BYTES: Final = min(common_limit("view") // 2, 200)
_ELLIPSIS: Final = ".../"


class WordCosts(dict[bytes, int]):
    """Token counts of words, filled as words are met.

    A dict, because a lookup per word is most of the time that cutting code takes (see `tests/benchmarks`).
    """

    def __init__(self, counter: TokenCounter) -> None:
        super().__init__()
        self._counter = counter
        self._count_word = counter.count_word if isinstance(counter, WordPieceCounter) else counter.count

    def __missing__(self, word: bytes) -> int:
        cost = self._count_word(word.decode("ascii"))
        if len(self) >= _REMEMBERED_WORDS:
            self.clear()
        if len(word) <= _LONGEST_REMEMBERED:
            self[word] = cost
        return cost

    def cost(self, text: str) -> int:
        """Returns the number of tokens of a text, exactly."""
        data = text.encode("utf-8", "replace")
        if not _is_plain_ascii(data):
            return self._counter.count(text)
        marks = len(data) - len(data.translate(None, _MARKS))
        return marks + sum(map(self.__getitem__, data.translate(_MARKS_TO_SPACES).split()))

    def line_costs(self, data: bytes) -> list[int]:
        """Returns the number of tokens of each line of a UTF-8 text, exactly.

        The whole text is taken apart at once: what is done a line is a subtraction and a sum.
        """
        odd: dict[int, int] = {}
        if not _is_plain_ascii(data):
            rows = data.split(b"\n")
            odd = {
                index: self._counter.count(row.decode()) for index, row in enumerate(rows) if not _is_plain_ascii(row)
            }
            data = b"\n".join(b"" if index in odd else row for index, row in enumerate(rows))
        bare = data.translate(None, _MARKS).split(b"\n")
        spaced = data.translate(_MARKS_TO_SPACES).split(b"\n")
        known = self.__getitem__
        costs = [
            len(words) - len(unmarked) + sum(map(known, words.split()))
            for words, unmarked in zip(spaced, bare, strict=True)
        ]
        for index, cost in odd.items():
            costs[index] = cost
        return costs


def _is_plain_ascii(data: bytes) -> bool:
    """Returns whether splitting at white space and marks gives the words that the tokenizer sees."""
    return data.isascii() and len(data.translate(None, _CONTROLS)) == len(data)


def word_costs(counter: TokenCounter) -> WordCosts:
    """Returns the process-wide memo of one counter."""
    if not isinstance(counter, Hashable):
        return WordCosts(counter)
    return _shared_costs(counter)


@cache
def _shared_costs(counter: TokenCounter) -> WordCosts:
    return WordCosts(counter)


class SourceText:
    """The lines of a file and, once they are asked for, a running sum of their token counts.

    Attributes:
        lines: Lines without their ends; a BOM and NUL characters are left out.
        long: Indices of the lines that are too long to be shown.
    """

    def __init__(self, text: str, counter: TokenCounter) -> None:
        text = text.removeprefix("\ufeff")
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode("utf-8")
        self.lines = [line.replace("\0", "") for line in split_lines(text)]
        self.long = frozenset(
            index for index, line in enumerate(self.lines) if len(line) * 4 > MAX_LINE_BYTES and _is_too_long(line)
        )
        for index in self.long:
            self.lines[index] = ""
        self.costs = word_costs(counter)

    @cached_property
    def data(self) -> bytes:
        """The lines as UTF-8, for parsers; row numbers agree with `lines`."""
        return "\n".join([*self.lines, ""]).encode("utf-8")

    @cached_property
    def _sums(self) -> list[int]:
        return list(accumulate(self.costs.line_costs(self.data), initial=0))

    def __len__(self) -> int:
        return len(self.lines)

    def cost(self, start: int, end: int) -> int:
        """Returns the tokens of a half-open range of lines."""
        return self._sums[end] - self._sums[start]

    def text(self, start: int, end: int) -> str:
        """Returns a half-open range of lines without blank lines around it, byte for byte otherwise."""
        start, end = self.tight(start, end)
        return "\n".join(self.lines[start:end])

    def tight(self, start: int, end: int) -> tuple[int, int]:
        """Returns the range without the blank lines at its ends."""
        lines = self.lines
        while end > start and is_blank(lines[end - 1]):
            end -= 1
        while start < end and is_blank(lines[start]):
            start += 1
        return start, end

    def blank(self, index: int) -> bool:
        """Returns whether a line is blank."""
        return is_blank(self.lines[index])


def _is_too_long(line: str) -> bool:
    return len(line.encode("utf-8", "replace")) > MAX_LINE_BYTES


class LineRows:
    """Builds the rows of one document: headers, the three texts, keys, links, counts."""

    def __init__(self, document: Document, budget: Budget, source: SourceText) -> None:
        self.document = document
        self.budget = budget
        self.source = source
        self.costs = source.costs
        self.title = fit_bytes(f"{document.repo}/{document.path}" if document.repo else document.path, _MAX_TITLE_BYTES)
        self.counts: Counter[str] = Counter()
        self.removed: list[Removed] = []
        self._chunks: list[Chunk] = []
        self._titles = [(title, self.costs.cost(title)) for title in _shorter_titles(self.title)]
        self._headers: dict[str, tuple[str, int]] = {}
        self._views: Counter[str] = Counter()
        self._units: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._chunks)

    def room(self, section_path: str) -> int:
        """Returns how many tokens of content fit below the header of a section."""
        return self.budget.tokens - SPECIAL_TOKENS - self._header(section_path)[1]

    def unit(self, anchor: str) -> str:
        """Returns a unit key that no other unit of the document has: a repeated name gets ``~2``, ``~3``, ..."""
        base = fit_bytes(f"{self.document.document_id}#{anchor}", _MAX_UNIT_BYTES - 8)
        return _free(self._units, base, base)

    def remove(self, reason: str, start: int, end: int) -> None:
        """Records that a rule left out a half-open range of lines."""
        if end > start:
            self.removed.append(Removed(reason, start + 1, end))
            self.counts[reason] += 1

    def add(
        self,
        unit_id: str,
        section_path: str,
        content: str,
        span: tuple[int, int],
        fields: Mapping[str, FieldValue],
        view: str = "",
        cite: tuple[int, int] | None = None,
        cost: int | None = None,
    ) -> None:
        """Adds one row.

        Args:
            unit_id: Key from `unit`.
            section_path: Breadcrumb below the title.
            content: What a reader sees.
            span: Half-open range of lines that the row covers.
            fields: Own fields of the collection.
            view: Wanted name of the view; a number is appended to one that is taken.
            cite: Half-open range of lines to link to, where it is not the span without blank ends.
            cost: Tokens of the content, where the caller knows them.
        """
        start, end = cite or self.source.tight(*span)
        section_path = fit_bytes(section_path, _MAX_SECTION_BYTES)
        content = fit_bytes(content, MAX_TEXT_BYTES)
        view = self._free_view(unit_id, view)
        url = self.document.url
        self._chunks.append(
            compose_row(
                self.document,
                title=self.title,
                content=content,
                embedding_text=self._embedding_text(section_path, content, cost),
                citation_url=fit_bytes(f"{url}#L{start + 1}-L{max(end, start + 1)}", _MAX_URL_BYTES) if url else "",
                fields={name: _fit(name, value) for name, value in fields.items()},
                section_path=section_path,
                unit_id=unit_id,
                view=view,
                lines=(span[0] + 1, span[1]),
            )
        )

    def result(self) -> Chunked:
        """Returns the rows, or a skip where nothing is left to show."""
        if self.source.long:
            self.counts["long_line"] += len(self.source.long)
        if not self._chunks:
            reason = self.removed[0].reason if self.removed else "empty"
            return Chunked(skipped=self.skip(reason), counts=dict(self.counts))
        return Chunked(tuple(seal(self._chunks)), tuple(self.removed), counts=dict(self.counts))

    def skip(self, reason: str, detail: str = "") -> Skip:
        """Returns the record of a document that gives no row."""
        return Skip(self.document.document_id, self.document.path, reason, detail)

    def _free_view(self, unit_id: str, view: str) -> str:
        view = fit_bytes(view, _MAX_VIEW_BYTES)
        return _free(self._views, f"{unit_id}\0{view}", view)

    def _embedding_text(self, section_path: str, content: str, cost: int | None) -> str:
        header, header_cost = self._header(section_path)
        room = self.budget.tokens - SPECIAL_TOKENS - header_cost
        if (self.costs.cost(content) if cost is None else cost) > room:
            self.counts["truncated"] += 1
            content = self.budget.counter.truncate(content, room)
        return f"{header}\n{content}" if header else content

    def _header(self, section_path: str) -> tuple[str, int]:
        """Returns the header line and its cost: folders give way before the name of the symbol does."""
        header = self._headers.get(section_path)
        if header is None:
            limit = self.budget.tokens // HEADER_SHARE
            section_cost = self.costs.cost(f"{SEPARATOR}{section_path}") if section_path else 0
            fitting = ((title, cost) for title, cost in self._titles if cost + section_cost <= limit)
            title, cost = next(fitting, ("", limit))
            header = (_breadcrumb(title, section_path), cost + section_cost)
            if not title:
                text = self.budget.counter.truncate(_breadcrumb(section_path, self._titles[-1][0]), limit)
                header = (text, self.budget.counter.count(text))
            self._headers[section_path] = header
        return header


def _shorter_titles(title: str) -> Iterator[str]:
    """Yields a title and what remains of it as its folders are left out one by one."""
    yield title
    while "/" in title:
        title = title.partition("/")[2]
        yield _ELLIPSIS + title


def _free(taken: Counter[str], key: str, name: str) -> str:
    """Returns a name that was not given before: the second is called ``name~2``, or ``2`` where it has no name."""
    while True:
        taken[key] += 1
        number = taken[key]
        if number == 1:
            return name
        wanted = f"{name}~{number}" if name else str(number)
        fresh = f"{key.removesuffix(name)}{wanted}" if name else f"{key}{wanted}"
        if not taken[fresh]:
            taken[fresh] = 1
            return wanted


def _breadcrumb(*parts: str) -> str:
    return SEPARATOR.join(part for part in parts if part)


def _fit(name: str, value: FieldValue) -> FieldValue:
    return fit_bytes(value, _MAX_FIELD_BYTES[name]) if isinstance(value, str) else value


def pack_lines(
    source: SourceText, starts: Iterable[int], end: int, room: int, rest: int, strong: frozenset[int] = frozenset()
) -> list[tuple[int, int]]:
    """Packs consecutive atoms of lines into as few ranges as fit, without cutting an atom.

    Args:
        source: The lines.
        starts: First lines of the atoms, ascending; the first is the start of the range.
        end: End of the range, exclusive.
        room: Tokens that fit into the first range.
        rest: Tokens that fit into each further range, below its repeated lines.
        strong: Starts at which a range that is half full ends although more would fit.

    Returns:
        Half-open ranges that partition the lines from the first start to `end`.
    """
    bounds = sorted({start for start in starts if start < end})
    ranges: list[tuple[int, int]] = []
    begin = bounds[0]
    for index, start in enumerate(bounds[1:], 1):
        limit = room if not ranges else rest
        following = bounds[index + 1] if index + 1 < len(bounds) else end
        full = source.cost(begin, following) > limit
        if full or (start in strong and source.cost(begin, start) * 2 > limit):
            ranges.append((begin, start))
            begin = start
    ranges.append((begin, end))
    return ranges
