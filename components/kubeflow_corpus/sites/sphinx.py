"""Sphinx with MyST: addresses of pages, what its configuration leaves out, directives and roles, ids of sections.

The configuration is a program: it is read, never run, and only what stands there as a literal is known.
Sources: sphinx ``builders/html`` and ``util/matching.py``, docutils ``nodes.py`` (``make_id``, ``document.set_id``).
"""

from __future__ import annotations

import ast
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

from kubeflow_corpus.sites.anchors import Anchor, Anchors, HeadingSource
from kubeflow_corpus.sites.base import URL_SAFE, Page, RepositoryPaths, Site, SiteGenerator
from kubeflow_corpus.sites.myst import included_paths, rewrite_myst
from kubeflow_corpus.sites.page_lines import Rewritten

_CONFIG: Final = "conf.py"
# What is read of the configuration; names of a site's own parameters are not among them.
_SETTINGS: Final = ("exclude_patterns", "myst_substitutions", "html_file_suffix")
_SPHINX_CONFIG: Final = re.compile(r"^(?:extensions|html_theme|html_baseurl|myst_\w+)\s*=", re.MULTILINE)
_MAX_CONFIG: Final = 200_000
_MAX_PATTERNS: Final = 200
_NO_ID: Final = re.compile(r"[^a-z0-9]+")
_BEFORE_ID: Final = re.compile(r"^[-0-9]+|-+$")
# What docutils makes of letters that have no decomposition.
_LETTERS: Final = str.maketrans({"ß": "sz", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ł": "l", "ı": "i", "ħ": "h"})


class Sphinx(SiteGenerator):
    """Sites that Sphinx builds of Markdown pages."""

    name = "sphinx"
    page_patterns = ("**/*.md",)
    config_names = (_CONFIG,)

    def find_site(self, path: str, text: str, known: RepositoryPaths) -> Site | None:
        """Recognises a configuration of Sphinx with pages beside it; its address may be that of Read the Docs."""
        root = posixpath.dirname(path)
        if _SPHINX_CONFIG.search(text[:_MAX_CONFIG]) is None or not known.below(root, ".md", ".rst"):
            return None
        address = _literals(_parsed(text), ("html_baseurl",)).get("html_baseurl", "")
        return Site(self.name, root, str(address))

    def is_config(self, path: str, site: Site) -> bool:
        """Returns whether a file is the configuration of the site."""
        return path == posixpath.join(site.root, _CONFIG)

    def read_config(self, files: Mapping[str, bytes], site: Site) -> dict[str, Any]:
        """Reads the settings that are literals; a configuration that does not parse gives nothing."""
        source = files.get(posixpath.join(site.root, _CONFIG), b"")
        return _literals(_parsed(source.decode("utf-8-sig", "replace")), _SETTINGS)

    def companions(self, path: str, text: str, site: Site, known: RepositoryPaths) -> Iterable[str]:
        """Yields the files that a page includes."""
        return included_paths(path, text, site)

    def hidden_reason(self, page: Page) -> str:
        """Returns whether the site leaves a page out."""
        patterns = page.site.params.get("exclude_patterns")
        patterns = patterns if isinstance(patterns, list | tuple) else ()
        path = page.path
        excluded = any(_pattern(str(item)).match(path) is not None for item in patterns[:_MAX_PATTERNS])
        return "excluded" if excluded else ""

    def address(self, page: Page) -> str:
        """Returns the address of a page: its name with ``.html``, or a folder where the site is built so."""
        params, base = page.site.params, page.site.base_url.rstrip("/")
        name = posixpath.splitext(page.path)[0]
        if name == "index":
            return f"{base}/"
        if params.get("builder") == "dirhtml":
            return f"{base}/{quote(name.removesuffix('/index'), safe=URL_SAFE)}/"
        return f"{base}/{quote(name, safe=URL_SAFE)}{params.get('html_file_suffix') or '.html'}"

    def anchors(self, page: Page) -> Anchors:
        """Returns ids as docutils makes them."""
        return DocutilsAnchors()

    def rewrite(self, page: Page) -> Rewritten:
        """Replaces directives, roles, targets and substitutions."""
        return rewrite_myst(page)


def _parsed(config: str) -> ast.Module:
    try:
        return ast.parse(config) if len(config) <= _MAX_CONFIG else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _literals(module: ast.Module, names: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for statement in module.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        name = statement.targets[0].id
        try:
            value = ast.literal_eval(statement.value) if name in names else None
        except (ValueError, TypeError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict):
            found[name] = {str(key): str(item) for key, item in value.items() if isinstance(item, str | int | float)}
        elif isinstance(value, list | tuple):
            found[name] = [item for item in value if isinstance(item, str)]
        elif isinstance(value, str):
            found[name] = value
    return found


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> re.Pattern[str]:
    """Returns an exclude pattern: ``*`` within a segment, ``**`` across; a folder stands for what is below it."""
    parts = re.split(r"(\*+|\?)", pattern[:200])
    wild = {"*": "[^/]*", "?": "[^/]"}
    made = "".join((wild.get(part, ".*") if index % 2 else re.escape(part)) for index, part in enumerate(parts))
    # Several stars in a row would be tried in every combination.
    made = re.sub(r"(?:\.\*|\[\^/\]\*){2,}", ".*", made)
    return re.compile(f"{made}(?:/|$)" if made.count("*") <= 8 else r"(?!)")


@dataclass(slots=True)
class DocutilsAnchors:
    """Ids of the sections of one page as docutils makes them, and Sphinx numbers them."""

    _taken: set[str] = field(default_factory=set)
    _number: int = 0

    def next(self, heading: HeadingSource) -> Anchor:
        """Returns the id of the next section."""
        name = docutils_id(heading.text)
        while not name or name in self._taken:
            self._number += 1
            name = f"id{self._number}"
        self._taken.add(name)
        return Anchor(name, heading.text)


def docutils_id(text: str) -> str:
    """Returns the id that docutils makes of a name, before duplicates are numbered; empty where nothing is left."""
    lowered = " ".join(text.lower().split()).translate(_LETTERS)
    plain = unicodedata.normalize("NFKD", lowered).encode("ascii", "ignore").decode("ascii")
    return _BEFORE_ID.sub("", _NO_ID.sub("-", " ".join(plain.split())))


GENERATOR: Final = Sphinx()
