"""What a page says about itself and where its site serves it: front matter, visibility, title, version, address.

Sources of the address rules: hugo ``resources/page/page_paths.go`` and ``common/paths/path.go``; docusaurus
``plugin-content-docs/src/{slug,docs,numberPrefix}.ts``.
"""

from __future__ import annotations

import json
import posixpath
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import quote

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kubeflow_corpus.plain_yaml import is_plain
from kubeflow_corpus.records import Document
from kubeflow_corpus.terms import version_precisions

HUGO: Final = "hugo"
DOCUSAURUS: Final = "docusaurus"

_FENCES: Final = {"---": "yaml", "+++": "toml"}
# A front matter longer than this is a page whose first rule was never closed.
_MAX_FRONT_MATTER_LINES: Final = 2_000
_FLAT_LINE: Final = re.compile(r"^([A-Za-z_][\w-]{0,80})\s*[:=]\s*(.*)$")
_URL_SAFE: Final = "/-._~!$&'()*+,;=:@"
# docusaurus numberPrefix.ts: dates and versions are no ordering prefixes.
_NUMBER_PREFIX: Final = re.compile(r"^\d+\s*[-_.]+\s*(?=[^-_.\s])")
_NO_NUMBER_PREFIX: Final = re.compile(r"^(?:(?:\d{2}|\d{4})[-_.]\d{2}(?:[-_.](?:\d{2}|\d{4}))?|\d+[-_.]\d+)")
# A folder that is a version: legacy-v1, v2, version-0.15.
_VERSION_FOLDER: Final = re.compile(r"^(?:(?:legacy|kfp|sdk)-)?(v\d+)$|^(?:version-|v)(\d+(?:\.\d+)+)$", re.IGNORECASE)
_PERMALINK_TOKEN: Final = re.compile(r":(\w+)")


@dataclass(frozen=True, slots=True)
class Site:
    """Where and by which generator a page is published.

    Attributes:
        generator: ``hugo``, ``docusaurus`` or empty (the repository itself).
        root: Folder of the repository that the site is made from.
        base_url: Address of the site.
        params: The site's own values: shortcode parameters, ``permalinks`` by section (Hugo), ``route_base_path``,
            ``version_path`` and ``trailing_slash`` (Docusaurus).
    """

    generator: str = ""
    root: str = ""
    base_url: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document) -> Site:
        """Reads the ``site`` of a document's metadata."""
        data = document.metadata.get("site") or {}
        return cls(
            generator=str(data.get("generator") or ""),
            root=str(data.get("root") or "").strip("/"),
            base_url=str(data.get("base_url") or ""),
            params=data.get("params") or {},
        )

    def relative(self, path: str) -> str:
        """Returns a path of the repository as one below the site's root."""
        prefix = f"{self.root}/" if self.root else ""
        return path[len(prefix) :] if path.startswith(prefix) else path


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The data at the top of a page, and how many lines it takes.

    Attributes:
        data: Keys and values; empty where there is none.
        lines: Lines that it covers, fences included.
        damaged: Whether it could not be parsed, so that only its flat lines were read.
    """

    data: Mapping[str, Any] = field(default_factory=dict)
    lines: int = 0
    damaged: bool = False

    def text(self, key: str) -> str:
        """Returns a value as one line of text, empty where it is missing or no scalar."""
        value = self.data.get(key)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return " ".join(str(value).split())
        return ""

    def flag(self, key: str) -> bool:
        """Returns whether a value is set to true."""
        value = self.data.get(key)
        return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def read_front_matter(lines: Sequence[str]) -> FrontMatter:
    """Reads YAML, TOML or JSON front matter.

    Args:
        lines: The page's lines without line ends.
    """
    if not lines:
        return FrontMatter()
    first = lines[0].lstrip("\ufeff").rstrip()
    if first == "{":
        return _json_front_matter(lines)
    syntax = _FENCES.get(first)
    if syntax is None:
        return FrontMatter()
    for number, line in enumerate(lines[1 : _MAX_FRONT_MATTER_LINES + 1], start=1):
        if line.rstrip() == first:
            body = "\n".join(lines[1:number])
            data = _parse(body, syntax)
            if data is None:
                return FrontMatter(_flat(lines[1:number]), number + 1, damaged=True)
            return FrontMatter(data, number + 1)
    return FrontMatter()


def _parse(body: str, syntax: str) -> dict[str, Any] | None:
    try:
        if syntax == "yaml" and not is_plain(body):
            return None
        data = tomllib.loads(body) if syntax == "toml" else YAML(typ="safe").load(body)
    except (tomllib.TOMLDecodeError, YAMLError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    if data is None:
        return {}
    return {str(key): value for key, value in data.items()} if isinstance(data, dict) else None


def _flat(lines: Sequence[str]) -> dict[str, str]:
    matches = (_FLAT_LINE.match(line) for line in lines)
    return {match.group(1): match.group(2).strip().strip("\"'") for match in matches if match is not None}


def _json_front_matter(lines: Sequence[str]) -> FrontMatter:
    for number, line in enumerate(lines[: _MAX_FRONT_MATTER_LINES + 1]):
        if line.rstrip() == "}":
            try:
                data = json.loads("\n".join(lines[: number + 1]))
            except (ValueError, RecursionError):
                return FrontMatter()
            return FrontMatter(data, number + 1) if isinstance(data, dict) else FrontMatter()
    return FrontMatter()


def hidden_reason(document: Document, front: FrontMatter, site: Site) -> str:
    """Returns why a site does not publish a page, empty where it does.

    Args:
        document: The page; its metadata may hold ``cascade``, what the section pages above it hand down.
        front: Its own front matter, which wins over the cascade.
        site: Its site.
    """
    if site.generator == HUGO:
        cascade = document.metadata.get("cascade") or {}
        if front.flag("draft"):
            return "draft"
        if "draft" not in front.data and FrontMatter(cascade).flag("draft"):
            return "draft_section"
        build = front.data.get("build") or front.data.get("_build") or cascade.get("build") or {}
        if front.flag("headless") or (
            isinstance(build, Mapping) and str(build.get("render", "")) in ("never", "False")
        ):
            return "not_rendered"
        if isinstance(build, Mapping) and build.get("list") in ("never", False):
            return "unlisted"
    if site.generator == DOCUSAURUS:
        if front.flag("draft"):
            return "draft"
        if front.flag("unlisted"):
            return "unlisted"
        if any(part.startswith("_") for part in site.relative(document.path).split("/")):
            return "partial"
    return ""


@dataclass(frozen=True, slots=True)
class Cascade:
    """What one Hugo section page hands down: to pages below `folder` whose path matches `pattern`."""

    folder: str
    pattern: str
    values: Mapping[str, Any]

    def covers(self, path: str, site: Site) -> bool:
        """Returns whether a page takes these values."""
        if not path.startswith(self.folder):
            return False
        return not self.pattern or fnmatchcase(
            "/" + posixpath.splitext(site.relative(path))[0].lower(), self.pattern.replace("**", "*")
        )


def cascades(document: Document) -> Iterator[Cascade]:
    """Yields what a Hugo section page (``_index.md``) hands down to the pages below it."""
    if posixpath.basename(document.path) != "_index.md" or "cascade" not in document.text[:20_000]:
        return
    front = read_front_matter(document.text.replace("\r\n", "\n").split("\n"))
    handed = front.data.get("cascade")
    folder = posixpath.dirname(document.path) + "/"
    for item in handed if isinstance(handed, list) else [handed]:
        if isinstance(item, Mapping):
            target = item.get("target") or item.get("_target") or {}
            pattern = str(target.get("path") or "").lower() if isinstance(target, Mapping) else ""
            yield Cascade(folder, pattern, item)


def page_versions(document: Document, front: FrontMatter) -> tuple[str, ...]:
    """Returns the versions of a whole page: the catalogue's, its front matter's and its folder's."""
    listed = [str(version) for version in document.metadata.get("version") or ()]
    own = front.data.get("version")
    listed += [str(item) for item in own] if isinstance(own, list) else [front.text("version")]
    for folder in posixpath.dirname(document.path).split("/"):
        match = _VERSION_FOLDER.match(folder)
        if match is not None:
            listed.append(match.group(1) or match.group(2))
    return tuple(dict.fromkeys(precise for version in listed if version for precise in version_precisions(version)))


def page_url(document: Document, front: FrontMatter, site: Site) -> str:
    """Returns the address at which the site's generator serves a page.

    A document without a site is read at its source.
    """
    if site.generator == HUGO and site.base_url:
        return _join(site.base_url, hugo_path(site.relative(document.path), front, site.params))
    if site.generator == DOCUSAURUS and site.base_url:
        return _docusaurus_url(site.relative(document.path), front, site)
    return document.url


def hugo_path(relative: str, front: FrontMatter, params: Mapping[str, Any]) -> str:
    """Returns the path of a Hugo page: ``url``, else ``slug`` or file name in its folder, sanitized and lowered.

    Args:
        relative: Path below the content folder.
        front: The page's front matter.
        params: The site's parameters; ``permalinks`` maps a section to a pattern.
    """
    own = front.text("url")
    if own and "://" not in own:
        path = posixpath.normpath("/" + own.lstrip("/"))
        return quote(path if path == "/" or "." in path.rsplit("/", 1)[-1] else path + "/", safe=_URL_SAFE)
    folder, name = posixpath.split(relative)
    stem = _language_free(name)
    if stem.lower() == "_index":
        return _sanitized([folder])
    if stem.lower() == "index":
        folder, stem = posixpath.split(folder)
    pattern = _permalink(params.get("permalinks"), folder)
    if pattern:
        return _sanitized([_expand(pattern, folder, stem, front)])
    return _sanitized([folder, front.text("slug") or stem])


def _permalink(permalinks: object, folder: str) -> str:
    if not isinstance(permalinks, Mapping):
        return ""
    pages = permalinks.get("page")
    table = pages if isinstance(pages, Mapping) else permalinks
    return str(table.get(folder.split("/")[0]) or "")


def _expand(pattern: str, folder: str, stem: str, front: FrontMatter) -> str:
    when = front.data.get("date")
    day = when if isinstance(when, date) else _day(front.text("date"))
    slug = front.text("slug") or stem
    values = {
        "section": folder.split("/")[0],
        "sections": folder,
        "slug": front.text("slug") or front.text("title") or stem,
        "title": front.text("title") or stem,
        "filename": stem,
        "contentbasename": stem,
        "slugorfilename": slug,
        "slugorcontentbasename": slug,
        "year": f"{day.year:04}" if day else "",
        "month": f"{day.month:02}" if day else "",
        "day": f"{day.day:02}" if day else "",
    }
    return _PERMALINK_TOKEN.sub(lambda match: values.get(match.group(1), match.group()), pattern)


def _day(text: str) -> date | None:
    try:
        return datetime.fromisoformat(text[:10])
    except ValueError:
        return None


def _language_free(name: str) -> str:
    stem = posixpath.splitext(name)[0]
    return stem.removesuffix(".en")


def _sanitized(parts: Sequence[str]) -> str:
    path = "/".join(part.strip("/") for part in parts if part.strip("/"))
    clean = _hugo_sanitize(path).lower()
    return quote(f"/{clean}/" if clean else "/", safe=_URL_SAFE)


def _hugo_sanitize(text: str) -> str:
    out: list[str] = []
    pending = hyphen = False
    for char in text:
        if char in "./\\_#+~-@" or unicodedata.category(char)[0] in "LNM":
            hyphen = char == "-"
            if pending and not hyphen:
                out.append("-")
            pending = False
            out.append(char)
        elif out and not hyphen and char.isspace():
            pending = True
    return "".join(out)


def _docusaurus_url(relative: str, front: FrontMatter, site: Site) -> str:
    route = str(site.params.get("route_base_path", "docs")).strip("/")
    version = str(site.params.get("version_path") or "").strip("/")
    base = site.base_url.rstrip("/")
    # A base URL that already names the route (``.../docs`` or ``.../docs/next``) is taken at its word.
    named = f"{base}/".find(f"/{route}/", base.find("://") + 3) >= 0 if route else False
    prefix = [] if named else [part for part in (route, version) if part]
    slug = docusaurus_slug(relative, front)
    trailing = site.params.get("trailing_slash", False)
    path = "/".join([*prefix, quote(slug.strip("/"), safe=_URL_SAFE)]).strip("/")
    ends = "/" if trailing is True or (trailing is None and slug.endswith("/")) else ""
    return f"{base}/{path}{ends}" if path else base if named and not ends else f"{base}/"


def docusaurus_slug(relative: str, front: FrontMatter) -> str:
    """Returns the slug of a Docusaurus page below its version's route, with a leading slash.

    Args:
        relative: Path below the docs folder.
        front: The page's front matter.
    """
    folder, name = posixpath.split(relative)
    stem = posixpath.splitext(name)[0]
    own = front.text("slug")
    if own.startswith("/"):
        return posixpath.normpath("/" + own.strip("/"))
    clean = "/".join(_without_number(part) for part in folder.split("/") if part)
    below = f"/{clean}/" if clean else "/"
    if not own and _is_category_index(stem, folder):
        return below
    base = own or front.text("id") or _without_number(stem)
    resolved = posixpath.normpath(posixpath.join(below, base))
    return "/" + resolved.lstrip("/.")


def _is_category_index(stem: str, folder: str) -> bool:
    last = posixpath.basename(folder)
    return stem.lower() in ("index", "readme") or (bool(last) and stem.lower() == last.lower())


def _without_number(name: str) -> str:
    return name if _NO_NUMBER_PREFIX.match(name) else _NUMBER_PREFIX.sub("", name)


def _join(base_url: str, path: str) -> str:
    return base_url.rstrip("/") + "/" + path.lstrip("/")
