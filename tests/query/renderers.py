"""What independent renderers make of a text: every address that could be followed, every image, script and resource.

An address can be followed where it leaves the page that shows it: it has a scheme, or a host, or starts at a root. The
name of a host in prose (`trainer.kubeflow.org`) and an e-mail address are words, so renderers are asked not to guess.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from typing import Any

import commonmark
import html5lib
import markdown
from markdown_it import MarkdownIt

_FOLLOWED = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:|[/\\#?&]|www\.)", re.IGNORECASE)
_ACTIVE = {"script", "img", "image", "iframe", "object", "embed", "style", "link", "meta", "base", "form", "svg"}
_ACTIVE |= {"video", "audio", "source", "track", "input", "button", "area", "frame", "applet", "math", "picture"}


@cache
def _markdown_it() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"linkify": True, "html": True}).enable(["linkify", "table", "strikethrough"])
    # Harmless schemes are filtered by markdown-it itself, which the reader of a text need not be.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    assert parser.linkify is not None
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False})
    return parser


def renderings(text: str) -> Iterator[tuple[str, str]]:
    """Yields the name of each renderer and the HTML that it makes of a text."""
    yield "markdown-it", _markdown_it().render(text)
    yield "commonmark", commonmark.commonmark(text)
    yield "markdown", markdown.markdown(text, extensions=["extra", "toc"])
    yield "browser", text


class _Reader(HTMLParser):
    """Python's own reader of HTML, which is more lenient than a browser in places."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += _of_element(tag, {name: value or "" for name, value in attrs})


def _of_element(tag: str, attributes: dict[str, str]) -> Iterator[tuple[str, str]]:
    if tag in _ACTIVE:
        yield "element", tag
    for name, value in attributes.items():
        # Renderers name headings and footnotes; what they point at is on the page.
        if name not in ("id", "class", "title", "alt", "align") and _FOLLOWED.match(html.unescape(value)):
            yield name, value


def _elements(tree: Any) -> Iterator[tuple[str, str]]:
    for node in tree.iter():
        if isinstance(node.tag, str):
            yield from _of_element(node.tag.rpartition("}")[2].lower(), dict(node.attrib))


def followable(text: str) -> list[tuple[str, str, str]]:
    """Returns what somebody could follow, load or run: renderer, attribute or element, and value."""
    found = []
    for name, page in renderings(text):
        tree = html5lib.parse(page, namespaceHTMLElements=False)
        found += [(f"{name}, html5lib", *item) for item in _elements(tree)]
        reader = _Reader()
        reader.feed(page)
        reader.close()
        found += [(f"{name}, html.parser", *item) for item in reader.found]
    return found


def shown(text: str) -> str:
    """Returns the words that a reader sees of rendered Markdown."""
    tree = html5lib.parse(_markdown_it().render(text), namespaceHTMLElements=False)
    return "".join(tree.itertext())
