"""The shortcode templates of a Hugo site: where they lie in its repository, what they read, what they write.

Sources: hugo ``hugolib/shortcode.go`` and ``docs/content/en/templates/shortcode.md``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from kubeflow_corpus.sites.base import Page, RepositoryPaths, Site
from kubeflow_corpus.sites.front_matter import parse_mapping
from kubeflow_corpus.sites.go_template import Evaluation, Html, Inner, Output, Unrenderable, looked_up, shown
from kubeflow_corpus.sites.hugo_functions import PLAIN, markdownify

_TEMPLATE: Final = re.compile(r"(?:^|.*/)layouts/_?shortcodes/(?P<name>.+?)(?:\.[a-z]{2}(?:-[a-z]+)?)?\.(?:html|md)$")
_PARTIAL: Final = re.compile(r"""\bpartial(?:Cached|s\.Include(?:Cached)?)?\s+["`]([^"`]{1,200})["`]""")
_DATA: Final = re.compile(r"\bData(?:\.(\w+))?")
_LITERAL: Final = re.compile(r"""["`]([^"`\s{}]{1,200}\.\w{1,8})["`]""")
_DATA_SUFFIXES: Final = (".yaml", ".yml", ".json", ".toml")
_MOST_ALIKE: Final = 4
_MOST_DATA: Final = 20
# All templates of a page together: it may call one thousands of times.
_MAX_STEPS_OF_A_PAGE: Final = 300_000


def site_folder(site: Site) -> str:
    """Returns the folder of the site's configuration, with a trailing slash: the one that holds ``content``."""
    parts = site.root.split("/")
    above = parts[: parts.index("content")] if "content" in parts else []
    return "/".join(above) + "/" if above else ""


@dataclass(frozen=True, slots=True)
class _Index:
    """The files of a repository as templates name them."""

    templates: Mapping[str, str]
    named: Mapping[str, tuple[str, ...]]


def _index(paths: Collection[str]) -> _Index:
    templates: dict[str, str] = {}
    named: dict[str, list[str]] = {}
    # The site's own templates go over those of its themes, and deeper folders are themes.
    for path in sorted(paths, key=lambda path: (path.count("themes/"), path.count("/"), path)):
        named.setdefault(posixpath.basename(path), []).append(path)
        match = _TEMPLATE.match(path)
        if match is not None:
            templates.setdefault(match["name"].lower(), path)
    return _Index(templates, {name: tuple(found) for name, found in named.items()})


def template_path(name: str, known: RepositoryPaths) -> str:
    """Returns where the template of a shortcode lies, empty where the repository has none."""
    return known.derived("hugo", _index).templates.get(name.lower(), "")


def paths_ending(name: str, known: RepositoryPaths) -> tuple[str, ...]:
    """Returns the files whose path ends with what a page or a template says, the shortest first."""
    clean = posixpath.normpath(name).lstrip("/")
    while clean.startswith("../"):
        clean = clean[3:]
    found = known.derived("hugo", _index).named.get(posixpath.basename(clean), ())
    return tuple(path for path in found if path == clean or path.endswith(f"/{clean}"))[:_MOST_ALIKE]


def template_needs(text: str, folder: str, known: RepositoryPaths) -> Iterator[str]:
    """Yields the files that a template may read, as far as it names them."""
    for match in _PARTIAL.finditer(text):
        name = match.group(1).removesuffix(".html")
        yield from (f"{folder}layouts/{place}/{name}.html" for place in ("partials", "_partials"))
    for match in _LITERAL.finditer(text):
        yield from paths_ending(match.group(1), known)
    for match in _DATA.finditer(text):
        start = f"{folder}data/{match.group(1) or ''}"
        data = sorted(path for path in known.paths if path.startswith(start) and path.endswith(_DATA_SUFFIXES))
        yield from data[:_MOST_DATA]


@dataclass(frozen=True, slots=True)
class Call:
    """A shortcode on a page.

    Attributes:
        name: Its name.
        arguments: By name, or by position as text.
        inner: What it encloses, None where it encloses nothing.
    """

    name: str
    arguments: Mapping[str, str]
    inner: str | None = None


class Templates:
    """The templates of the site of one page.

    Args:
        page: The page; its files hold the templates that it uses and what they read.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self._known = RepositoryPaths(page.files)
        self._folder = site_folder(page.site)
        self._steps = _MAX_STEPS_OF_A_PAGE
        self.site = _SiteFields(self)

    def has(self, name: str) -> bool:
        """Returns whether there is a template for a shortcode."""
        return bool(template_path(name, self._known))

    def encloses(self, name: str) -> bool:
        """Returns whether a template uses what its shortcode encloses."""
        path = template_path(name, self._known)
        return ".Inner" in self.page.files.get(path, "")

    def render(self, call: Call) -> Output:
        """Returns what the template of a shortcode writes.

        Raises:
            Unrenderable: There is none, or it does what is not known here.
        """
        path = template_path(call.name, self._known)
        if not path:
            raise Unrenderable("no template")
        source = self.page.files[path]
        if "{{" not in source:
            return [source]
        evaluation = self._evaluation()
        try:
            return evaluation.render(source, _ShortcodeFields(call, self))
        finally:
            self._steps -= evaluation.taken

    def parameter(self, name: str) -> Any:
        """Returns a parameter as a page sees it: its own, one that a section sets for it, the site's."""
        page = self.page
        for values in (page.front.data, page.inherited):
            for mapping in (values, values.get("params")):
                value = _dotted(mapping, name)
                if value is not None:
                    return value
        return _dotted(page.site.params, name)

    def read(self, path: str) -> str:
        """Returns a file that a template names by its path from the folder of the site, or from that of the page.

        Raises:
            Unrenderable: The repository has no such file.
        """
        folder = posixpath.dirname(self.page.document.path)
        for base in (self._folder, f"{folder}/"):
            full = posixpath.normpath(base + path.lstrip("/"))
            if full in self.page.files:
                return self.page.files[full]
        raise Unrenderable(f"file {path}")

    def file_like(self, names: Collection[str]) -> tuple[str, str]:
        """Returns path and content of the first file that one of several arguments names, empty where none does."""
        folder = posixpath.dirname(self.page.document.path)
        for name in names:
            near = posixpath.normpath(posixpath.join(folder, name))
            for path in (near, *paths_ending(name, self._known)):
                if path in self.page.files:
                    return path, self.page.files[path]
        return "", ""

    def data(self) -> dict[str, Any]:
        """Returns the data files of the site as one mapping."""
        found: dict[str, Any] = {}
        start = f"{self._folder}data/"
        for path, text in self.page.files.items():
            stem, suffix = posixpath.splitext(path)
            if path.startswith(start) and suffix in _DATA_SUFFIXES:
                *folders, name = stem[len(start) :].split("/")
                below = found
                for folder in folders:
                    below = below.setdefault(folder, {})
                below[name] = parse_mapping(text, suffix[1:]) or {}
        return found

    def _evaluation(self) -> Evaluation:
        evaluation = Evaluation({}, self._steps)

        def partial(name: str, dot: Any = None, *_: Any) -> Html:
            for place in ("partials", "_partials"):
                path = f"{self._folder}layouts/{place}/{shown(name).removesuffix('.html')}.html"
                if path in self.page.files:
                    return Html("".join(map(str, evaluation.render(self.page.files[path], dot))))
            raise Unrenderable(f"partial {name}")

        functions: dict[str, Any] = {
            **PLAIN,
            "site": lambda: self.site,
            "page": lambda: _PageFields(self, self.page),
            "hugo": {"Data": self.data},
            "partial": partial,
            "partialCached": partial,
            "partials": {"Include": partial, "IncludeCached": partial},
            "readFile": lambda path: self.read(shown(path)),
            "fileExists": lambda path: self._exists(shown(path)),
            "os": {
                "ReadFile": lambda path: self.read(shown(path)),
                "FileExists": lambda path: self._exists(shown(path)),
            },
            "highlight": _highlighted,
            "relref": lambda _, path: path if isinstance(path, str) else "",
            "ref": lambda _, path: path if isinstance(path, str) else "",
        }
        functions["transform"] = {**PLAIN["transform"], "Highlight": _highlighted}
        evaluation.offer(functions)
        return evaluation

    def _exists(self, path: str) -> bool:
        try:
            return self.read(path) is not None
        except Unrenderable:
            return False


def _highlighted(code: Any, language: Any = "", *_: Any) -> Html:
    name = escape(shown(language))
    return Html(f'<pre><code class="language-{name}">{escape(shown(code).strip(chr(10)), quote=False)}</code></pre>')


def _dotted(values: object, name: str) -> Any:
    if not isinstance(values, Mapping):
        return None
    value: Any = looked_up(values, name)
    if value is None and "." in name:
        value = values
        for part in name.split("."):
            value = looked_up(value, part) if isinstance(value, Mapping) else None
    return value


class _Store:
    """``.Scratch`` and ``.Store``: what is put there is for other templates."""

    def field(self, name: str) -> Any:
        if name in ("Set", "Add", "SetInMap", "Delete"):
            return lambda *_: ""
        raise Unrenderable(f"Store.{name}")


class _ShortcodeFields:
    """The dot of a shortcode template."""

    def __init__(self, call: Call, templates: Templates) -> None:
        self._call = call
        self._templates = templates

    def field(self, name: str) -> Any:
        call = self._call
        match name:
            case "Get":
                return lambda key=0: call.arguments.get(shown(key), "")
            case "Inner" | "InnerDeindent":
                return Inner(call.inner or "")
            case "Params":
                named = any(not key.isdigit() for key in call.arguments)
                return dict(call.arguments) if named else list(call.arguments.values())
            case "IsNamedParams":
                return any(not key.isdigit() for key in call.arguments)
            case "Name":
                return call.name
            case "Ordinal":
                return 0
            case "Page":
                return _PageFields(self._templates, self._templates.page)
            case "Site":
                return self._templates.site
            case "Scratch" | "Store":
                return _Store()
        raise Unrenderable(f".{name}")


class _PageFields:
    def __init__(self, templates: Templates, page: Page) -> None:
        self._templates = templates
        self._page = page

    def field(self, name: str) -> Any:
        page = self._page
        match name:
            case "Param":
                return lambda key: self._templates.parameter(shown(key))
            case "Params":
                nested = page.front.data.get("params")
                own = nested if isinstance(nested, Mapping) else {}
                return {**page.inherited, **page.front.data, **own}
            case "Title" | "LinkTitle" | "Description":
                return page.front.text(name.lower()) or page.front.text("title" if name == "LinkTitle" else "")
            case "File":
                folder, file = posixpath.split(page.path)
                stem, suffix = posixpath.splitext(file)
                names = {"Path": page.path, "Dir": f"{folder}/", "LogicalName": file, "Ext": suffix[1:]}
                return {**names, "BaseFileName": stem, "ContentBaseName": stem, "TranslationBaseName": stem}
            case "Site":
                return self._templates.site
            case "RenderString":
                return lambda *values: markdownify(values[-1])
            case "Language":
                return {"Lang": "en"}
            case "Scratch" | "Store":
                return _Store()
        raise Unrenderable(f".Page.{name}")


class _SiteFields:
    def __init__(self, templates: Templates) -> None:
        self._templates = templates

    def field(self, name: str) -> Any:
        site = self._templates.page.site
        match name:
            case "Params":
                return site.params
            case "Param":
                return lambda key: _dotted(site.params, shown(key))
            case "Data":
                return self._templates.data()
            case "BaseURL":
                return site.base_url
            case "Language":
                return {"Lang": "en"}
        raise Unrenderable(f".Site.{name}")
