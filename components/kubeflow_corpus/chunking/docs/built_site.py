"""Rows of a page beside the page that its real generator built: which visible lines they hold, which anchors exist."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from kubeflow_corpus.records import Chunk

_VOID: Final = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
_INLINE: Final = frozenset(
    [
        "a",
        "abbr",
        "b",
        "bdi",
        "bdo",
        "cite",
        "code",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "ins",
        "kbd",
        "label",
        "mark",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
        "var",
    ]
)
_UNSEEN: Final = frozenset(
    ["script", "style", "template", "noscript", "nav", "header", "footer", "aside", "button", "svg", "select", "head"]
)
_UNSEEN_CLASSES: Final = frozenset(
    [
        "headerlink",
        "hash-link",
        "sr-only",
        "visually-hidden",
        "toctree-wrapper",
        "docutils-toc",
        "related",
        "sphinxsidebar",
        "anchor",
    ]
)
_CONTENT: Final = frozenset(("main", "article"))
_WORDS: Final = re.compile(r"[\W_]+")
_WORD: Final = re.compile(r"[^\W_]")
_SHOWN: Final = 200
_MAX_BYTES: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class PageComparison:
    """How the rows of one page compare with the built page.

    Attributes:
        path: The page's file in the repository.
        lines: Visible lines of the built page.
        missing: Those that no row holds.
        anchors: Anchors that the rows' addresses name.
        wrong: Those that the built page has not.
        unbuilt: The address whose page is not in the built site; empty where it is.
    """

    path: str
    lines: int = 0
    missing: tuple[str, ...] = ()
    anchors: int = 0
    wrong: tuple[str, ...] = ()
    unbuilt: str = ""


@dataclass(slots=True)
class _Visible(HTMLParser):
    """Reads what is seen of a page, line by line, and every id."""

    content_only: bool
    lines: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    _open: list[tuple[str, bool, bool]] = field(default_factory=list)
    _text: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        HTMLParser.__init__(self, convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.ids.update(attributes[name] for name in ("id", "name") if attributes.get(name))
        if tag not in _INLINE:
            self._flush()
        if tag in _VOID:
            return
        unseen, content = self._state()
        hidden = tag in _UNSEEN or bool(_UNSEEN_CLASSES & set(attributes.get("class", "").split()))
        inside = tag in _CONTENT or attributes.get("role") == "main"
        self._open.append((tag, unseen or hidden or "hidden" in attributes, content or inside))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _INLINE:
            self._flush()
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index][0] == tag:
                del self._open[index:]
                return

    def handle_data(self, data: str) -> None:
        unseen, content = self._state()
        if unseen or (self.content_only and not content):
            return
        first, *rest = data.split("\n") if any(tag == "pre" for tag, _, _ in self._open) else [data]
        self._text.append(first)
        for part in rest:
            self._flush()
            self._text.append(part)

    def close(self) -> None:
        HTMLParser.close(self)
        self._flush()

    def _state(self) -> tuple[bool, bool]:
        return (self._open[-1][1], self._open[-1][2]) if self._open else (False, False)

    def _flush(self) -> None:
        line = " ".join("".join(self._text).split())
        self._text.clear()
        # Rules and brackets of a program by themselves say nothing.
        if _WORD.search(line):
            self.lines.append(line)


def visible(html: str) -> tuple[list[str], set[str]]:
    """Returns the lines that a reader of a built page sees in its main part, and all ids of the page."""
    reader = _Visible(content_only=bool(re.search(r"<(?:main|article)\b|role=[\"']?main", html)))
    reader.feed(html)
    reader.close()
    return reader.lines, reader.ids


def compare_page(path: str, rows: Sequence[Chunk], html: str) -> PageComparison:
    """Compares the rows of a page with its built HTML, word by word."""
    lines, ids = visible(html)
    # A paragraph may go on in the next row: the texts stand together, and what is over them by itself.
    heads = [f"{row.title} {row.section_path}" for row in rows]
    held = _plain(" ".join([*(row.content_text for row in rows), *heads]))
    missing = tuple(line for line in lines if _plain(line) not in held)
    anchors = [unquote(urlsplit(row.citation_url).fragment) for row in rows if "#" in row.citation_url]
    wrong = tuple(dict.fromkeys(anchor for anchor in anchors if anchor not in ids))
    return PageComparison(path, len(lines), missing, len(anchors), wrong)


def compare_site(pages: Iterable[tuple[str, Sequence[Chunk]]], base_url: str, built: Path) -> Iterator[PageComparison]:
    """Compares pages with a built site.

    Args:
        pages: Path and rows of each page.
        base_url: The address of the site.
        built: The folder that its generator wrote.
    """
    root = built.resolve()
    for path, rows in pages:
        if not rows:
            continue
        address = rows[0].citation_url.partition("#")[0]
        file = _built_file(root, unquote(address.removeprefix(base_url.rstrip("/"))).strip("/"))
        if file is None:
            yield PageComparison(path, unbuilt=address)
        else:
            yield compare_page(path, rows, file.read_bytes()[:_MAX_BYTES].decode("utf-8", "replace"))


def compared(results: Sequence[PageComparison]) -> Iterator[str]:
    """Yields a comparison as lines for a person: what differs by page, then the figures of all."""
    for page in results:
        if page.unbuilt:
            yield f"{page.path}: {page.unbuilt} is not among the built pages"
        elif page.missing or page.wrong:
            yield f"{page.path}: {len(page.missing)} of {page.lines} lines are in no row"
            yield from (f"    line: {line[:_SHOWN]}" for line in page.missing)
            yield from (f"    anchor that the page has not: #{anchor}" for anchor in page.wrong)
    lines, missing = sum(page.lines for page in results), sum(len(page.missing) for page in results)
    anchors, wrong = sum(page.anchors for page in results), sum(len(page.wrong) for page in results)
    share = 1 - missing / lines if lines else 1.0
    yield f"{len(results):,} pages, {lines:,} visible lines, {share:.4f} of them in rows"
    unbuilt = sum(1 for page in results if page.unbuilt)
    yield f"{anchors:,} anchors, {wrong:,} wrong; {unbuilt:,} addresses without a page"


def _built_file(root: Path, name: str) -> Path | None:
    for candidate in (name, posixpath.join(name, "index.html"), f"{name}.html"):
        file = (root / candidate).resolve()
        if file.is_relative_to(root) and file.is_file():
            return file
    return None


def _plain(text: str) -> str:
    # Where blanks stand around code and marks is a matter of style.
    return _WORDS.sub("", text.lower())
