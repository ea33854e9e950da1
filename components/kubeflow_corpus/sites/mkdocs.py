"""MkDocs, with Material's extensions of Markdown: addresses of pages, admonitions, tabs, snippets, ids of headings.

Sources: mkdocs ``structure/files.py``, Python-Markdown ``extensions/toc.py``, ``extensions/admonition.py``,
pymdown-extensions ``tabbed`` and ``snippets``.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from kubeflow_corpus.sites.anchors import Anchor, Anchors, HeadingSource
from kubeflow_corpus.sites.base import URL_SAFE, Page, RepositoryPaths, Site, SiteGenerator
from kubeflow_corpus.sites.page_lines import Rewritten, clean_lines, label

_CONFIGS: Final = ("mkdocs.yml", "mkdocs.yaml")
# The configuration may hold tags that name Python objects: no loader reads it, and only these lines are known.
_SETTING: Final = re.compile(r"^(site_url|docs_dir|use_directory_urls):[ \t]*[\"']?([^\"'#\n]{1,500})", re.MULTILINE)
_MAX_LINES: Final = 50_000
_BLOCK: Final = re.compile(
    r"^ *+(?:(?:!!!|\?\?\?\+?) ++(?P<kind>[\w-]++)(?: ++[\w-]++){0,6}+|===[!+]*+)"
    r"(?: ++\"(?P<title>[^\"\n]{0,300})\")? *+$"
)
_TAB: Final = re.compile(r"^ *===[!+]* +\"")
_FENCE: Final = re.compile(r"^ *(`{3,}+|~{3,}+)")
_SNIPPET: Final = re.compile(r"^ *-{1,}8<-{1,} +\"(?P<path>[^\"\n:]{1,300})(?::(?P<part>[\w:.,-]{1,100}))?\" *$")
_SECTION: Final = re.compile(r"-{1,}8<-{1,} *\[(start|end): *([\w-]{1,100})\]")
_ATTRIBUTES: Final = re.compile(r"(?<=[)\]])\{:? ?[.#\w][^{}\n]{0,200}\}")
_ICON: Final = re.compile(r":(?:material|octicons|fontawesome|simple)-[\w-]{1,80}:(?:\{[^{}\n]{0,80}\})?")
_OWN_ID: Final = re.compile(r"(?<![ \t])[ \t]*\{:?[^{}\n#]{0,100}(?<=[ \t{:])#([\w:.-]{1,100})[^{}\n]{0,100}\}[ \t]*+$")
_NUMBERED: Final = re.compile(r"^(.*)_(\d+)$")


class MkDocs(SiteGenerator):
    """Sites that MkDocs builds."""

    name = "mkdocs"
    page_patterns = ("**/*.md",)
    config_names = _CONFIGS

    def find_site(self, path: str, text: str, known: RepositoryPaths) -> Site | None:
        """Recognises a configuration with pages in its docs folder."""
        settings = _settings(text)
        root = posixpath.normpath(posixpath.join(posixpath.dirname(path), settings.get("docs_dir", "docs")))
        return Site(self.name, root, settings.get("site_url", "")) if known.below(root, ".md") else None

    def is_config(self, path: str, site: Site) -> bool:
        """Returns whether a file is the configuration of the site: it lies above the pages."""
        folder = posixpath.dirname(path)
        return posixpath.basename(path) in _CONFIGS and (not folder or site.root.startswith(f"{folder}/"))

    def read_config(self, files: Mapping[str, bytes], site: Site) -> dict[str, Any]:
        """Reads whether pages are folders."""
        nearest = max(files, key=lambda path: path.count("/"), default="")
        settings = _settings(files.get(nearest, b"").decode("utf-8", "replace"))
        return {"use_directory_urls": settings.get("use_directory_urls", "true").lower() not in ("false", "no")}

    def companions(self, path: str, text: str, site: Site, known: RepositoryPaths) -> Iterator[str]:
        """Yields the files that a page includes."""
        for line in text.split("\n") if "8<" in text else ():
            match = _SNIPPET.match(line.rstrip("\r"))
            if match is not None:
                yield from (place for place in _places(match["path"], site) if place in known)

    def hidden_reason(self, page: Page) -> str:
        """Returns whether a page is a draft, or a file that MkDocs leaves out because its name begins with a dot."""
        if page.front.flag("draft"):
            return "draft"
        return "excluded" if any(part.startswith(".") for part in page.path.split("/")) else ""

    def address(self, page: Page) -> str:
        """Returns the address of a page: a folder of its name, or a file where the site is built so."""
        folder, name = posixpath.split(posixpath.splitext(page.path)[0])
        is_index = name in ("index", "README")
        base = page.site.base_url.rstrip("/")
        if page.site.params.get("use_directory_urls", True):
            path = folder if is_index else posixpath.join(folder, name)
            return f"{base}/{quote(path, safe=URL_SAFE)}/" if path else f"{base}/"
        path = posixpath.join(folder, "index" if is_index else name)
        return f"{base}/{quote(path, safe=URL_SAFE)}.html"

    def anchors(self, page: Page) -> Anchors:
        """Returns ids as Python-Markdown's table of contents makes them."""
        return TocAnchors()

    def rewrite(self, page: Page) -> Rewritten:
        """Replaces admonitions, tabs, snippets, attributes and icons."""
        return _Rewriter(page).rewritten()


def _settings(config: str) -> dict[str, str]:
    return {name: value.strip() for name, value in _SETTING.findall(config)}


def _places(name: str, site: Site) -> tuple[str, ...]:
    """Returns where the file of a snippet may lie: below the configuration, below the pages, at the root."""
    folders = dict.fromkeys((posixpath.dirname(site.root), site.root, ""))
    return tuple(posixpath.normpath(posixpath.join(folder, name)) for folder in folders)


class _Rewriter:
    """Rewrites one page; what a block holds moves to the left, so that Markdown reads it."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._blocks: list[int] = []
        self._fence = ""
        self._out = Rewritten([])

    def rewritten(self) -> Rewritten:
        body = self._page.body
        for index, line in enumerate(body):
            if len(self._out.lines) >= _MAX_LINES:
                self._out.counts["too_long"] += 1
                break
            self._line(line.expandtabs(4), index)
        self._out.emptied(body, "markup")
        return self._out

    def _line(self, line: str, origin: int) -> None:
        stripped = line.strip(" ")
        indent = len(line) - len(line.lstrip(" "))
        while stripped and self._blocks and indent < self._blocks[-1] + 4:
            self._blocks.pop()
            self._fence = ""
        shown = " " * max(indent - 4 * len(self._blocks), 0) + line.lstrip(" ") if stripped else ""
        if self._is_code(shown):
            self._add(shown, origin)
        elif (block := _BLOCK.match(line)) is not None and (block["kind"] or _TAB.match(line)):
            title = block["title"] if block["title"] is not None else (block["kind"] or "").capitalize()
            self._add(" " * (indent - 4 * len(self._blocks)) + label(f"{title}:") if title else "", origin)
            self._blocks.append(indent)
        elif (snippet := _SNIPPET.match(shown)) is not None:
            self._include(snippet["path"], snippet["part"] or "", origin)
        else:
            self._add(_ATTRIBUTES.sub("", _ICON.sub("", shown)), origin)

    def _is_code(self, shown: str) -> bool:
        """Returns whether a line belongs to a fence, its opening and closing lines included."""
        mark = _FENCE.match(shown)
        if not self._fence:
            self._fence = mark[1] if mark is not None else ""
            return mark is not None
        if mark is not None and mark[1].startswith(self._fence) and not shown.strip(" ").strip(mark[1][0]):
            self._fence = ""
        elif (snippet := _SNIPPET.match(shown)) is not None and self._found(snippet["path"]):
            return False
        return True

    def _found(self, name: str) -> str:
        return next((place for place in _places(name, self._page.site) if place in self._page.files), "")

    def _include(self, name: str, part: str, origin: int) -> None:
        target = self._found(name)
        if not target:
            self._out.counts[f"include:{name}"] += 1
            return
        for line in _selected(clean_lines(self._page.files[target]), part)[:_MAX_LINES]:
            self._add(line, origin)

    def _add(self, line: str, origin: int) -> None:
        self._out.lines.append(line)
        self._out.origins.append(origin)


def _selected(lines: list[str], part: str) -> list[str]:
    """Returns the lines of a snippet: all, a range ``4:6``, or the section of a name."""
    if not part:
        return [line for line in lines if _SECTION.search(line) is None]
    first, colon, last = part.partition(":")
    if first.isdigit() or (colon and last.isdigit()):
        return lines[max(int(first or 1) - 1, 0) : int(last) if last.isdigit() else None]
    chosen: list[str] = []
    inside = False
    for line in lines:
        mark = _SECTION.search(line)
        if mark is not None:
            inside = inside if mark[2] != part else mark[1] == "start"
        elif inside:
            chosen.append(line)
    return chosen


@dataclass(slots=True)
class TocAnchors:
    """Ids of the headings of one page as Python-Markdown makes and numbers them."""

    _taken: set[str] = field(default_factory=set)

    def next(self, heading: HeadingSource) -> Anchor:
        """Returns the id of the next heading; one that the page gives it comes first."""
        own = _OWN_ID.search(heading.raw)
        text = _OWN_ID.sub("", heading.text) if own else heading.text
        name = own[1] if own else toc_id(text)
        while not own and (not name or name in self._taken):
            number = _NUMBERED.match(name)
            name = f"{number[1]}_{int(number[2]) + 1}" if number else f"{name}_1"
        self._taken.add(name)
        return Anchor(name, text)


def toc_id(text: str) -> str:
    """Returns the id that Python-Markdown makes of a heading, before duplicates are numbered."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    kept = re.sub(r"[^\w\s-]", "", plain).strip().lower()
    return re.sub(r"[-\s]+", "-", kept)


GENERATOR: Final = MkDocs()
