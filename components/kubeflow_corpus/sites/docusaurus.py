"""Docusaurus: routes and slugs of pages, drafts and partials, MDX, and the anchors of github-slugger.

Sources of the address rules: docusaurus ``plugin-content-docs/src/{slug,docs,numberPrefix}.ts``.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final
from urllib.parse import quote

from kubeflow_corpus.sites.base import URL_SAFE, Page, RepositoryPaths, Site, SiteGenerator
from kubeflow_corpus.sites.front_matter import FrontMatter
from kubeflow_corpus.sites.mdx import rewrite_mdx
from kubeflow_corpus.sites.page_lines import Rewritten

# numberPrefix.ts: dates and versions are not ordering prefixes.
_NUMBER_PREFIX: Final = re.compile(r"^\d+\s*[-_.]+\s*(?=[^-_.\s])")
_NO_NUMBER_PREFIX: Final = re.compile(r"^(?:(?:\d{2}|\d{4})[-_.]\d{2}(?:[-_.](?:\d{2}|\d{4}))?|\d+[-_.]\d+)")

# What is read of the configuration, each where it is a literal.
_SETTINGS: Final = {
    name: re.compile(rf"""(?:^|[\s{{,])["']?{name}["']?\s{{0,8}}:\s{{0,8}}["'`]([^"'`\n]{{1,300}})["'`]""")
    for name in ("url", "baseUrl", "routeBasePath", "path")
}


class Docusaurus(SiteGenerator):
    """Sites that Docusaurus builds; its anchors are those of GitHub."""

    name = "docusaurus"
    config_names = ("docusaurus.config.*",)
    # MDX has no indented code, and level 1 is rendered without an id.
    indented_code = False
    title_has_anchor = False

    def find_site(self, path: str, text: str, known: RepositoryPaths) -> Site | None:
        """Recognises a configuration with pages in its docs folder.

        The configuration is a program: it is read, never run, and only what stands there as a literal is known.
        """
        settings = {name: match[1] for name, pattern in _SETTINGS.items() if (match := pattern.search(text))}
        folder = posixpath.dirname(path)
        places = (settings.get("path", "docs"), "docs")
        roots = (posixpath.normpath(posixpath.join(folder, place)) for place in places)
        root = next((root for root in roots if known.below(root, ".md", ".mdx")), "")
        address = settings.get("url", "")
        base_url = f"{address.rstrip('/')}/{settings.get('baseUrl', '/').lstrip('/')}" if address else ""
        params = {"route_base_path": settings["routeBasePath"]} if "routeBasePath" in settings else {}
        return Site(self.name, root, base_url, params) if root else None

    def hidden_reason(self, page: Page) -> str:
        """Returns whether a page is a draft, unlisted, or a partial that other pages include."""
        for flag in ("draft", "unlisted"):
            if page.front.flag(flag):
                return flag
        return "partial" if any(part.startswith("_") for part in page.path.split("/")) else ""

    def address(self, page: Page) -> str:
        """Returns the address of a page: base URL, route, version and slug."""
        site = page.site
        route = str(site.params.get("route_base_path", "docs")).strip("/")
        version = str(site.params.get("version_path") or "").strip("/")
        base = site.base_url.rstrip("/")
        # A base URL that already names the route (``.../docs`` or ``.../docs/next``) is taken at its word.
        named = f"{base}/".find(f"/{route}/", base.find("://") + 3) >= 0 if route else False
        prefix = [] if named else [part for part in (route, version) if part]
        slug = page_slug(page.path, page.front)
        trailing = site.params.get("trailing_slash", False)
        path = "/".join([*prefix, quote(slug.strip("/"), safe=URL_SAFE)]).strip("/")
        ends = "/" if trailing is True or (trailing is None and slug.endswith("/")) else ""
        return f"{base}/{path}{ends}" if path else base if named and not ends else f"{base}/"

    def rewrite(self, page: Page) -> Rewritten:
        """Replaces what is MDX."""
        return rewrite_mdx(page.body, page.site.params, dict(page.vocabulary.mdx_components))


def page_slug(relative: str, front: FrontMatter) -> str:
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


GENERATOR: Final = Docusaurus()
