"""Heading anchors as the site generators make them.

Hugo (goldmark, ``autoHeadingIDType: github``) slugs the raw last line of a heading, so link targets and HTML names are
part of an id; Docusaurus (github-slugger) slugs the text that a reader sees. Both number duplicates, differently.

Sources: hugo ``markup/goldmark/autoid.go``, goldmark ``parser/atx_heading.go``, github-slugger ``index.js`` and
``script/generate-regex.js``, docusaurus ``mdx-loader/src/remark/headings`` and ``utils/src/markdownUtils.ts``.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Protocol

from markdown_it import MarkdownIt
from markdown_it.token import Token

from kubeflow_corpus.text_lines import without_comments

_GOLDMARK_ID: Final = re.compile(r"""(?:^|[\s,])(?:#([^\s#={},"']+)|id\s*=\s*"?([^\s"]+)"?)""")
_CODE_SPAN: Final = re.compile(r"(`+[^`]*+`+)")
# What ends a piece: what becomes typographic, a bracket, a mark that might have been emphasis (part of the piece).
_PIECE_END: Final = re.compile(r"['\"\[]|--|\.\.\.|<<|>>|~~|(?<=[_*])(?=[^\s_*])")
_DASHES: Final = re.compile(r"(?<!\\)---?")
_SELF_LINK: Final = re.compile(
    r"<[a-z][a-z0-9+.-]{1,31}:[^\s<>]*>|(?<![\w(\[\"'<])(?:https?://|www\.)[^\s<]+", re.IGNORECASE
)
_MAX_DOCUSAURUS_ID: Final = 500
# github-slugger strips these general categories ...
_STRIPPED: Final = frozenset(
    ("No", "Pe", "Pf", "Pi", "Ps", "Po", "Pd", "Sc", "Sk", "Sm", "So", "Cc", "Co", "Cf", "Cn", "Cs", "Zl", "Zp", "Zs")
)
# ... but not what Unicode calls alphabetic: circled and squared Latin letters.
_ALPHABETIC_SYMBOLS: Final = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))


@dataclass(frozen=True, slots=True)
class HeadingSource:
    """What an anchor is made from.

    Attributes:
        raw: The last line of the heading's Markdown, without markers.
        text: What a reader sees of the heading.
    """

    raw: str
    text: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """An anchor, and the heading's text without an explicit id."""

    id: str
    text: str


class Anchors(Protocol):
    """Gives the anchors of one page, heading by heading, in document order."""

    def next(self, heading: HeadingSource) -> Anchor:
        """Returns the anchor of the next heading."""
        ...


@dataclass(slots=True)
class GoldmarkAnchors:
    """Anchors of one page as goldmark makes them for Hugo.

    Attributes:
        from_text: Whether generated ids come from what a reader sees (Hugo 0.144 and later), or from the source line.
    """

    from_text: bool = False
    _taken: set[str] = field(default_factory=set)
    # The last number that was tried for a name: all before it are taken for good.
    _tried: dict[str, int] = field(default_factory=dict)

    def next(self, heading: HeadingSource) -> Anchor:
        """Returns the anchor of the next heading."""
        braces = _goldmark_attributes(heading.raw)
        if braces is not None:
            before, attributes = braces
            explicit = _GOLDMARK_ID.search(attributes)
            text = (_goldmark_attributes(heading.text) or (heading.text, ""))[0]
            if explicit is not None:
                name = explicit.group(1) or explicit.group(2)
                self._taken.add(name)
                return Anchor(name, text)
            if attributes.lstrip().startswith("."):
                return Anchor(self._generate(before), text)
        return Anchor(self._generate(heading.raw), heading.text)

    def _generate(self, raw: str) -> str:
        base = goldmark_slug(_heading_text(raw) if self.from_text else raw)
        if not base and self.from_text:
            return ""
        base = base or "heading"
        name, number = base, self._tried.get(base, 0)
        while name in self._taken:
            number += 1
            name = f"{base}-{number}"
        self._tried[base] = number
        self._taken.add(name)
        return name


@dataclass(slots=True)
class GithubAnchors:
    """Anchors of one page as GitHub makes them and, with explicit ids (``{#id}``), Docusaurus."""

    _seen: dict[str, int] = field(default_factory=dict)

    def next(self, heading: HeadingSource) -> Anchor:
        """Returns the anchor of the next heading."""
        braces = _docusaurus_id(heading.text)
        if braces is not None:
            text, name = braces
            return Anchor(name, text)
        base = github_slug(heading.text)
        name = base
        while name in self._seen:
            self._seen[base] += 1
            name = f"{base}-{self._seen[base]}"
        self._seen[name] = 0
        return Anchor(name, heading.text)


def _heading_text(raw: str) -> str:
    """Returns the text of which Hugo since 0.144 makes an id (``internal/render``, ``TextPlain``).

    Of what is in emphasis, in a link or in the text of an image, only the first piece counts, and what is made
    typographic ends a piece. Addresses that link themselves do not count.
    """
    parts = _CODE_SPAN.split(raw)
    parts[::2] = [_SELF_LINK.sub("", without_comments(part)) for part in parts[::2]]
    (line,) = _inline_parser().parseInline("".join(parts)) or [Token("inline", "", 0)]
    out: list[str] = []
    depth, first = 0, True
    for token in line.children or ():
        depth += token.nesting
        if token.nesting == 1:
            first = first or depth == 1
            continue
        code, inside = token.type == "code_inline", depth > 0 or token.type == "image"
        text = "" if token.type == "html_inline" else token.content
        if token.nesting == -1 or (inside and depth and not first) or (not text and token.type == "text"):
            continue
        piece = text if code else _PIECE_END.split(text, maxsplit=1)[0] if inside else _DASHES.sub("", text)
        out.append(piece)
        first = depth == 0
    return "".join(out)


@cache
def _inline_parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": True}).enable("strikethrough")


def _goldmark_attributes(line: str) -> tuple[str, str] | None:
    """Returns a heading without the attributes at its end, ``{#id .class key="value"}``, and what they say."""
    found = _last_braces(line.rstrip())
    return None if found is None or found[0].endswith("\\") else (found[0].rstrip(), found[1])


def _docusaurus_id(text: str) -> tuple[str, str] | None:
    r"""Returns a heading without the id at its end, and the id: ``/\s*\{#(?<id>(?:.(?!\{#|\}))*.)\}$/``."""
    found = _last_braces(text.removesuffix("\n"))
    if found is None or not found[1].startswith("#"):
        return None
    before, name = found[0].rstrip(), found[1][1:]
    return (before, name) if 0 < len(name) <= _MAX_DOCUSAURUS_ID and "\n" not in name else None


def _last_braces(text: str) -> tuple[str, str] | None:
    """Returns what stands before the braces that end a text, and inside them; None where none do.

    They are looked for from the end: a pattern that begins with blanks would read a long run of them once from each.
    """
    opening = text.rfind("{")
    inside = text[opening + 1 : -1]
    return (text[:opening], inside) if opening >= 0 and text.endswith("}") and "}" not in inside else None


def goldmark_slug(raw: str) -> str:
    """Returns the id that Hugo makes of a heading's source line, before duplicates are numbered."""
    out = []
    for char in raw.strip(" \t\n\r\v\f\x85\xa0"):
        if char in "- ":
            out.append("-")
        elif char == "_" or unicodedata.category(char) == "Nd" or unicodedata.category(char)[0] == "L":
            out.append(_lower_rune(char))
    return "".join(out)


def github_slug(text: str) -> str:
    """Returns the slug that github-slugger makes of a text, before duplicates are numbered."""
    kept = (char for char in text.lower() if char in "- " or not _is_stripped(char))
    return "".join(kept).replace(" ", "-")


def _is_stripped(char: str) -> bool:
    if unicodedata.category(char) not in _STRIPPED:
        return False
    return not any(first <= ord(char) <= last for first, last in _ALPHABETIC_SYMBOLS)


def _lower_rune(char: str) -> str:
    # Go lowers rune by rune: one in, one out.
    lowered = char.lower()
    return lowered if len(lowered) == 1 else lowered[0]
