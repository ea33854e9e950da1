"""What a site generator has to answer, and the pages that it is asked about.

To add a generator, write a module with a `SiteGenerator` and name the module in `registry.GENERATORS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from posixpath import splitext
from typing import Any, Final, Protocol, TypeVar

from kubeflow_corpus.records import Document
from kubeflow_corpus.sites.anchors import Anchors, GithubAnchors
from kubeflow_corpus.sites.front_matter import FrontMatter, read_front_matter
from kubeflow_corpus.sites.page_lines import Rewritten, clean_lines
from kubeflow_corpus.vocabulary import Vocabulary, default_vocabulary

# What stays unquoted in the path of an address.
URL_SAFE: Final = "/-._~!$&'()*+,;=:@"


@dataclass(frozen=True, slots=True)
class Site:
    """The web site that a source becomes.

    Attributes:
        generator: Name of its generator (`registry.GENERATORS`); empty for files that are read at their source.
        root: Folder whose files become pages; empty is the root of the tree.
        base_url: Address of that folder.
        params: Values by name, nested mappings of plain values: what the generator reads from the site's
            configuration (`SiteGenerator.read_config`), and above it what the catalogue says.
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

    def to_dict(self) -> dict[str, Any]:
        """Returns what `of` reads."""
        return asdict(self)

    def relative(self, path: str) -> str:
        """Returns a path of the repository as one below the site's root."""
        prefix = f"{self.root}/" if self.root else ""
        return path[len(prefix) :] if path.startswith(prefix) else path


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a site, as its generator sees it before it is rendered.

    Attributes:
        document: The page's file.
        site: The site that it belongs to.
        front: The data at its top.
        lines: All of its lines (`page_lines.clean_lines`).
        vocabulary: The words of the project: shortcodes and components of its own sites are among them.
    """

    document: Document
    site: Site
    front: FrontMatter = field(default_factory=FrontMatter)
    lines: Sequence[str] = ()
    vocabulary: Vocabulary = field(default_factory=default_vocabulary)

    @classmethod
    def read(cls, document: Document, vocabulary: Vocabulary | None = None) -> Page:
        """Reads front matter and lines of a document; no vocabulary is the packaged one."""
        lines = clean_lines(document.text)
        return cls(document, Site.of(document), read_front_matter(lines), lines, vocabulary or default_vocabulary())

    @property
    def path(self) -> str:
        """The path below the root of the site."""
        return self.site.relative(self.document.path)

    @property
    def body(self) -> list[str]:
        """The lines below the front matter."""
        return list(self.lines[self.front.lines :])

    @property
    def files(self) -> Mapping[str, str]:
        """Other files of the repository that the page shows or is made with, by path (`SiteGenerator.companions`)."""
        return self.document.metadata.get("files") or {}

    @property
    def inherited(self) -> Mapping[str, Any]:
        """Front matter that other pages set for this one (`SiteGenerator.inheritances`)."""
        return self.document.metadata.get("inherited") or {}


_Derived = TypeVar("_Derived")


class RepositoryPaths:
    """The paths of the files of a repository, and what a generator finds out about them once.

    Args:
        paths: Those that can be read: no links, nothing outside.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths: Final = frozenset(paths)
        self._derived: dict[str, Any] = {}

    def __contains__(self, path: str) -> bool:
        return path in self.paths

    def below(self, folder: str, *suffixes: str) -> list[str]:
        """Returns the paths below a folder that end so, sorted; an empty folder is the whole repository."""
        start = f"{folder}/" if folder else ""
        return sorted(path for path in self.paths if path.startswith(start) and path.lower().endswith(suffixes))

    def derived(self, name: str, build: Callable[[Collection[str]], _Derived]) -> _Derived:
        """Returns what `build` makes of the paths; it is asked the first time only."""
        if name not in self._derived:
            self._derived[name] = build(self.paths)
        found: _Derived = self._derived[name]
        return found


@dataclass(frozen=True, slots=True)
class Inheritance:
    """Front matter that one page sets for the pages below it.

    Attributes:
        site: The site.
        folder: The folder (with a trailing slash) that holds the pages.
        values: The front matter.
        pattern: Which of the pages: a pattern of lower-case paths below the root of the site, without suffix; empty is
            all of them.
    """

    site: Site
    folder: str
    values: Mapping[str, Any]
    pattern: str = ""

    def covers(self, path: str) -> bool:
        """Returns whether the page at this path of the repository inherits the values."""
        if not path.startswith(self.folder):
            return False
        name = "/" + splitext(self.site.relative(path))[0].lower()
        return not self.pattern or fnmatchcase(name, self.pattern.replace("**", "*"))


class SiteGenerator(Protocol):
    """What one generator makes of the pages of a site.

    Subclass it: what a generator does not override is what a Markdown file on GitHub gets.

    Attributes:
        name: As the catalogue spells it.
        page_patterns: Which files are pages, where the catalogue does not say it.
        indented_code: Whether four spaces start a block of code.
        title_has_anchor: Whether a heading of level 1 has an anchor that a link can name.
        has_addresses: Whether pages have addresses of their own, below that of the site.
        config_names: Names of the files by which `find_site` recognises a site, patterns as in a shell.
    """

    name: str
    page_patterns: tuple[str, ...] = ("**/*.{md,mdx}",)
    indented_code: bool = True
    title_has_anchor: bool = True
    has_addresses: bool = True
    config_names: tuple[str, ...] = ()

    def find_site(self, path: str, text: str, known: RepositoryPaths) -> Site | None:
        """Recognises a site by its configuration.

        Args:
            path: A file of the repository whose name is one of `config_names`.
            text: Its content.
            known: Every path of the repository.

        Returns:
            The site, its `base_url` empty where the configuration does not say it; None where the file configures
            something else.
        """
        return None

    def is_config(self, path: str, site: Site) -> bool:
        """Returns whether `read_config` wants the file at this path of the repository."""
        return False

    def read_config(self, files: Mapping[str, bytes], site: Site) -> dict[str, Any]:
        """Reads the parameters of a site from its configuration: plain values and nested mappings of them.

        A file that does not parse gives nothing: its pages are still worth reading.

        Args:
            files: Contents by path of the repository, of those that `is_config` wants.
            site: The site as the catalogue describes it.
        """
        return {}

    def companions(self, path: str, text: str, site: Site, known: RepositoryPaths) -> Iterable[str]:
        """Returns paths of files that one file is made with: templates, what is included, data.

        It is asked about each page, and then about what it named: only files of the repository are ever read, only so
        many of them, and each once.

        Args:
            path: The file's path in the repository.
            text: Its content.
            site: The site.
            known: Every path of the repository.
        """
        return ()

    def inheritance_pages(self, path: str) -> Iterable[str]:
        """Returns the paths at which the pages would lie that may set front matter for the page at `path`."""
        return ()

    def inheritances(self, document: Document) -> Iterator[Inheritance]:
        """Yields the front matter that a page sets for other pages."""
        return iter(())

    def hidden_reason(self, page: Page) -> str:
        """Returns why the site does not publish a page, empty where it does."""
        return ""

    def address(self, page: Page) -> str:
        """Returns the address of a page; it is asked for sites with a `base_url` only."""
        return page.document.url

    def anchors(self, page: Page) -> Anchors:
        """Returns what gives the headings of a page their anchors, one after the other."""
        return GithubAnchors()

    def rewrite(self, page: Page) -> Rewritten:
        """Turns what is not Markdown or HTML in the body of a page into what a reader sees, line for line."""
        return Rewritten(page.body)


def page_address(generator: SiteGenerator, page: Page) -> str:
    """Returns the address at which a reader finds a page: at its source, where its site has no address."""
    return generator.address(page) if page.site.base_url else page.document.url
