"""What a repository that nobody has described holds: its documentation sites, its code, its products.

Pure: paths and the contents of configuration files in, findings out. `cli.init` writes a catalogue of them.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from kubeflow_corpus.file_context import CRD_KIND
from kubeflow_corpus.sites.base import RepositoryPaths, Site, SiteGenerator
from kubeflow_corpus.sites.registry import GENERATORS, generator_named
from kubeflow_corpus.sources.catalogue import is_unhosted

# Folders that hold other projects, examples of sites, or inputs of tests.
LEFT_OUT: Final = ("node_modules", "vendor", "third_party", "testdata", "themes", "exampleSite", ".github")
# What a code source reads, by the name that people give to it.
LANGUAGES: Final = {
    "Go": (".go",),
    "Python": (".py",),
    "TypeScript": (".ts", ".tsx"),
    "JavaScript": (".js", ".jsx"),
    "shell": (".sh",),
    "protobuf": (".proto",),
    "YAML": (".yaml", ".yml"),
}
_MARKDOWN: Final = (".md", ".markdown")
# A folder of one of these names holds a folder for each product.
_PRODUCT_FOLDERS: Final = ("components", "products", "modules", "projects")
_MOST_PRODUCTS: Final = 30
# With this file GitHub Pages serves a site under a name of its own.
_HOST_FILE: Final = "CNAME"
_LANGUAGE: Final = re.compile(r"[a-z]{2}(?:[-_][A-Za-z]{2,4})?")
_SLUG: Final = re.compile(r"[^a-z0-9]+")

# Yields path and text of each file, an empty text where it is too large or not text. Files that are asked for together
# are fetched together.
Read = Callable[[Iterable[str]], Iterator[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class FoundSite:
    """A documentation site.

    Attributes:
        site: As a catalogue describes it; `base_url` is a guess where `guessed` says so, and empty where the folder is
            on no host: its pages are cited where they lie.
        config: The file by which it was recognised.
        pages: How many pages it has.
        unread: How many of them are in a format that is not read.
        guessed: Whether no configuration says its address.
    """

    site: Site
    config: str
    pages: int
    unread: int = 0
    guessed: bool = False

    @property
    def folder(self) -> str:
        """The folder that holds its pages in every language."""
        above, _, name = self.site.root.rpartition("/")
        return above if _LANGUAGE.fullmatch(name) else self.site.root


@dataclass(frozen=True, slots=True)
class Findings:
    """What a repository holds.

    Attributes:
        repo: ``owner/name``.
        sites: Its documentation sites.
        markdown: Markdown files outside of them: pages that are read where the repository shows them.
        languages: Files by language.
        crds: Files that define custom resources.
        products: Folder patterns by product; the first is the project itself, with no pattern.
    """

    repo: str
    sites: tuple[FoundSite, ...]
    markdown: tuple[str, ...]
    languages: dict[str, int]
    crds: int
    products: dict[str, tuple[str, ...]]

    @property
    def project(self) -> str:
        """The name of the project: that of its repository."""
        return self.repo.rpartition("/")[2]


def discover(repo: str, paths: Iterable[str], read: Read) -> Findings:
    """Finds out what a repository holds.

    Args:
        repo: ``owner/name``.
        paths: Every path that can be read.
        read: Reads files.
    """
    known = RepositoryPaths(path for path in paths if not set(path.split("/")) & set(LEFT_OUT))
    sites = tuple(_sites(repo, known, read))
    roots = tuple(f"{site.folder}/" if site.folder else "" for site in sites)
    markdown = [path for path in known.below("", *_MARKDOWN) if not path.startswith(roots)]
    languages = {name: len(known.below("", *suffixes)) for name, suffixes in LANGUAGES.items()}
    crds = sum(f"kind: {CRD_KIND}" in text for _, text in read(_crd_candidates(known)))
    project = slug(repo.rpartition("/")[2])
    return Findings(
        repo,
        sites,
        tuple(markdown),
        {name: count for name, count in languages.items() if count},
        crds,
        {project: ()} | _products(known, project),
    )


def slug(name: str) -> str:
    """Returns a name as catalogues write it: small letters, digits and hyphens."""
    return _SLUG.sub("-", name.lower()).strip("-")[:63].rstrip("-") or "project"


def _sites(repo: str, known: RepositoryPaths, read: Read) -> Iterator[FoundSite]:
    """Yields the sites, those nearest to the root first; a folder belongs to one site."""
    configs = {path: named for path in known.paths if (named := _configured_by(path))}
    texts = dict(read([*configs, *(path for path in known.paths if posixpath.basename(path) == _HOST_FILE)]))
    taken: list[str] = []
    for path in sorted(configs, key=lambda path: (path.count("/"), path)):
        for generator in configs[path]:
            site = generator.find_site(path, texts[path], known)
            if site is None or f"{site.root}/".startswith(tuple(taken)):
                continue
            taken.append(f"{site.root}/")
            pages = known.below(site.root, ".md", ".mdx", ".rst")
            unread = sum(page.endswith(".rst") for page in pages)
            found = FoundSite(site, path, len(pages), unread)
            yield found if _is_address(site.base_url) else _guess_address(found, repo, known, texts)


def _configured_by(path: str) -> list[SiteGenerator]:
    """Returns the generators that a file of this name may configure."""
    name = posixpath.basename(path)
    generators = map(generator_named, GENERATORS)
    return [found for found in generators if any(fnmatchcase(name, pattern) for pattern in found.config_names)]


def _is_address(url: str) -> bool:
    return url.startswith(("https://", "http://")) and "." in url


def _guess_address(found: FoundSite, repo: str, known: RepositoryPaths, texts: Mapping[str, str]) -> FoundSite:
    """Takes the address from a CNAME file or from Read the Docs, or else that of GitHub Pages if it is there at all."""
    owner, _, name = repo.partition("/")
    top = found.config.partition("/")[0] if "/" in found.config else ""
    places = (posixpath.join(folder, _HOST_FILE) for folder in ("", "static", top, f"{top}/static"))
    host = next((texts[path].strip() for path in places if path in known), "")
    if re.fullmatch(r"[\w.-]{3,253}", host):
        base_url = f"https://{host}/"
    elif any(path.startswith(".readthedocs.y") for path in known.paths):
        base_url = f"https://{name.lower()}.readthedocs.io/en/latest/"
    elif is_unhosted(repo):
        return replace(found, site=replace(found.site, base_url=""))
    else:
        base_url = f"https://{owner.lower()}.github.io/{name}/"
    return replace(found, site=replace(found.site, base_url=base_url), guessed=True)


def _crd_candidates(known: RepositoryPaths) -> list[str]:
    return [path for path in known.below("", ".yaml", ".yml") if "crd" in path.lower()]


def _products(known: RepositoryPaths, project: str) -> dict[str, tuple[str, ...]]:
    """Returns a product for each folder below one that says that it holds products."""
    found: dict[str, set[str]] = {}
    pages: Counter[str] = Counter()
    for path in known.below("", ".md", ".mdx", ".rst", ".go", ".py"):
        parts = path.split("/")
        for depth, part in enumerate(parts[:-2]):
            if part in _PRODUCT_FOLDERS:
                folder = "/".join(parts[: depth + 2])
                pages[slug(parts[depth + 1])] += 1
                found.setdefault(slug(parts[depth + 1]), set()).add(f"{folder}/**")
                break
    named = {name: tuple(sorted(found[name])) for name, count in pages.most_common(_MOST_PRODUCTS) if count > 2}
    named.pop(project, None)
    # One folder is a way to order files, and not a list of products.
    return dict(sorted(named.items())) if len(named) > 1 else {}
