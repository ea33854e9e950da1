"""Hugo: addresses of pages, cascades of section pages, shortcodes, and the anchors of goldmark.

Sources of the address rules: hugo ``resources/page/page_paths.go`` and ``common/paths/path.go``.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final
from urllib.parse import quote

from kubeflow_corpus.records import Document
from kubeflow_corpus.sites.anchors import Anchors, GoldmarkAnchors
from kubeflow_corpus.sites.base import URL_SAFE, Inheritance, Page, RepositoryPaths, Site, SiteGenerator
from kubeflow_corpus.sites.front_matter import FrontMatter, parse_mapping, read_front_matter
from kubeflow_corpus.sites.hugo_config import (
    CONFIG_FILES,
    CONFIG_NAMES,
    VERSION_FILES,
    hugo_version,
    pinned_version,
    read_params,
)
from kubeflow_corpus.sites.hugo_shortcodes import site_folder, template_needs
from kubeflow_corpus.sites.page_lines import Rewritten
from kubeflow_corpus.sites.shortcodes import rewrite_shortcodes, shortcode_needs

_SECTION_PAGE: Final = "_index.md"
# From this version on, generated ids come from the text of a heading, not from its source.
_IDS_FROM_TEXT: Final = (0, 144)
_PERMALINK_TOKEN: Final = re.compile(r":(\w+)")


class Hugo(SiteGenerator):
    """Sites that Hugo builds."""

    name = "hugo"
    config_names = CONFIG_NAMES

    def find_site(self, path: str, text: str, known: RepositoryPaths) -> Site | None:
        """Recognises a configuration with pages in its content folder; of several languages the default one."""
        config = parse_mapping(text, path.rpartition(".")[2]) or {}
        settings = {str(key).lower(): value for key, value in config.items()}
        folder = posixpath.dirname(path).removesuffix("config/_default").rstrip("/")
        content = posixpath.join(folder, str(settings.get("contentdir") or "content"))
        language = str(settings.get("defaultcontentlanguage") or "en")
        root = next((root for root in (f"{content}/{language}", content) if known.below(root, ".md")), "")
        return Site(self.name, root, str(settings.get("baseurl") or "")) if root else None

    def is_config(self, path: str, site: Site) -> bool:
        """Returns whether a file configures the site or pins its Hugo, in the folder of the site or above all."""
        folder = site_folder(site)
        return path.removeprefix(folder) in (*CONFIG_FILES, *VERSION_FILES) or path in VERSION_FILES

    def read_config(self, files: Mapping[str, bytes], site: Site) -> dict[str, Any]:
        """Reads the parameters of the site, and the permalinks that decide addresses."""
        folder = site_folder(site)
        # The site's own folder goes over the root of the tree.
        own = {path.removeprefix(folder): data for path, data in sorted(files.items(), key=lambda item: len(item[0]))}
        params = read_params(own)
        version = pinned_version(own)
        return {"hugo_version": version, **params} if version else params

    def companions(self, path: str, text: str, site: Site, known: RepositoryPaths) -> Iterable[str]:
        """Yields the templates of a page's shortcodes and the files that they show; for a template what it reads."""
        if "/layouts/" in f"/{path}":
            return template_needs(text, site_folder(site), known)
        return shortcode_needs(text, known)

    def inheritance_pages(self, path: str) -> Iterator[str]:
        """Yields the paths of the section pages above a page, from the root of the tree down."""
        folders = path.split("/")[:-1]
        for depth in range(len(folders) + 1):
            yield "/".join([*folders[:depth], _SECTION_PAGE])

    def inheritances(self, document: Document) -> Iterator[Inheritance]:
        """Yields the cascades of a section page."""
        if posixpath.basename(document.path) != _SECTION_PAGE or "cascade" not in document.text[:20_000]:
            return
        front = read_front_matter(document.text.replace("\r\n", "\n").split("\n"))
        cascade = front.data.get("cascade")
        folder = posixpath.dirname(document.path) + "/"
        for item in cascade if isinstance(cascade, list) else [cascade]:
            if isinstance(item, Mapping):
                target = item.get("target") or item.get("_target") or {}
                pattern = str(target.get("path") or "").lower() if isinstance(target, Mapping) else ""
                yield Inheritance(Site.of(document), folder, item, pattern)

    def hidden_reason(self, page: Page) -> str:
        """Returns whether a page is a draft, is not rendered, or is rendered and not listed."""
        front, inherited = page.front, page.inherited
        if front.flag("draft"):
            return "draft"
        if "draft" not in front.data and FrontMatter(inherited).flag("draft"):
            return "draft_section"
        unbuilt = _unbuilt(front)
        if unbuilt:
            return unbuilt
        build = front.data.get("build") or front.data.get("_build") or inherited.get("build") or {}
        build = build if isinstance(build, Mapping) else {}
        if front.flag("headless") or str(build.get("render", "")) in ("never", "False"):
            return "not_rendered"
        return "unlisted" if build.get("list") in ("never", False) else ""

    def address(self, page: Page) -> str:
        """Returns the address that permalinks, front matter and path give a page."""
        path = page_path(page.path, page.front, page.site.params)
        return page.site.base_url.rstrip("/") + "/" + path.lstrip("/")

    def anchors(self, page: Page) -> Anchors:
        """Returns anchors as goldmark makes them in the version of Hugo that the site pins."""
        return GoldmarkAnchors(from_text=hugo_version(page.site.params) >= _IDS_FROM_TEXT)

    def rewrite(self, page: Page) -> Rewritten:
        """Replaces shortcodes."""
        return rewrite_shortcodes(page)


def _unbuilt(front: FrontMatter) -> str:
    """Returns whether Hugo leaves a page out because of its dates."""
    now = datetime.now(UTC)
    starts = _moment(front.data.get("publishDate") or front.data.get("publishdate") or front.data.get("date"))
    ends = _moment(front.data.get("expiryDate") or front.data.get("expirydate"))
    if starts is not None and starts > now:
        return "future"
    return "expired" if ends is not None and ends <= now else ""


def _moment(value: object) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def page_path(relative: str, front: FrontMatter, params: Mapping[str, Any]) -> str:
    """Returns the path of a Hugo page: ``url``, else ``slug`` or file name in its folder, sanitized and lowered.

    Args:
        relative: Path below the content folder.
        front: The page's front matter.
        params: The site's parameters; ``permalinks`` maps a section to a pattern.
    """
    own = front.text("url")
    if own and "://" not in own:
        path = posixpath.normpath("/" + own.lstrip("/"))
        return quote(path if path == "/" or "." in path.rsplit("/", 1)[-1] else path + "/", safe=URL_SAFE)
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
    return quote(f"/{clean}/" if clean else "/", safe=URL_SAFE)


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


GENERATOR: Final = Hugo()
