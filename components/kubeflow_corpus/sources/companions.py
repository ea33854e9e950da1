"""The files that pages of a site are made with: templates of shortcodes, what is included, data.

Only files of the repository are read, never through a link, each once, up to a number and a size. What is
over a bound is not there for the page: its generator counts what it cannot show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kubeflow_corpus.sites.base import RepositoryPaths, Site
from kubeflow_corpus.sites.registry import generator_named
from kubeflow_corpus.sources.decoding import decode
from kubeflow_corpus.sources.trees import Content, Entry, Tree

# A page names its own, those name others; nobody nests deeper.
_MAX_STEPS: Final = 6
_MAX_FILES_OF_A_PAGE: Final = 200
_MAX_BYTES: Final = 300_000
_MAX_BYTES_OF_A_PAGE: Final = 2_000_000
_MAX_BYTES_OF_A_SOURCE: Final = 200_000_000
# Pages whose files are asked for at once: on the way to a remote repository each request takes longer than a file.
_WINDOW_PAGES: Final = 200
_WINDOW_BYTES: Final = 4_000_000


class Companions:
    """Reads what pages are made with, as their generator names it.

    Args:
        site: The site; None where the source has none.
        tree: The files of the source.
        known: Those that may be read, by path.
    """

    def __init__(self, site: Site | None, tree: Tree, known: Mapping[str, Entry]) -> None:
        self._site = site
        self._tree = tree
        self._known = known
        self._paths = RepositoryPaths(known)
        self._texts: dict[str, str] = {}
        self._read: list[Content] = []
        self._left = _MAX_BYTES_OF_A_SOURCE

    @property
    def read(self) -> Iterator[Content]:
        """The files that were read, in the order of their paths, as far as they are when the first is asked for."""
        yield from sorted(self._read, key=lambda content: content.entry.path)

    def beside(self, pages: Iterable[Content]) -> Iterator[tuple[Content, dict[str, str]]]:
        """Yields each page with the text of the files that it is made with, by path."""
        if self._site is None:
            yield from ((page, {}) for page in pages)
            return
        window: list[Content] = []
        for page in pages:
            # Most pages are made with nothing else: they wait for no other.
            if not window and not self._named({page.entry.path: decode(page.data)[0]}, {}):
                yield page, {}
                continue
            window.append(page)
            if len(window) >= _WINDOW_PAGES or sum(len(held.data) for held in window) >= _WINDOW_BYTES:
                yield from self._with_files(window)
                window = []
        yield from self._with_files(window)

    def _with_files(self, pages: list[Content]) -> Iterator[tuple[Content, dict[str, str]]]:
        names: dict[str, dict[str, None]] = {}
        asking = {page.entry.path: {page.entry.path: decode(page.data)[0]} for page in pages if not page.problem}
        for _ in range(_MAX_STEPS):
            found = {page: self._named(texts, names.setdefault(page, {})) for page, texts in asking.items()}
            self._bring({path for paths in found.values() for path in paths})
            asking = {
                page: {path: self._texts[path] for path in paths if path in self._texts}
                for page, paths in found.items()
                if paths
            }
        for page in pages:
            yield page, self._bounded(names.get(page.entry.path, {}))

    def _named(self, texts: Mapping[str, str], names: dict[str, None]) -> list[str]:
        """Adds the names of what some files are made with to those of their page; returns the new ones."""
        assert self._site is not None
        generator = generator_named(self._site.generator)
        new: list[str] = []
        for path, text in texts.items():
            for name in generator.companions(path, text, self._site, self._paths):
                if name in self._known and name not in names and len(names) < _MAX_FILES_OF_A_PAGE:
                    names[name] = None
                    new.append(name)
        return new

    def _bring(self, paths: Iterable[str]) -> None:
        missing = sorted(path for path in paths if path not in self._texts)
        if not missing or self._left <= 0:
            return
        for content in self._tree.contents((self._known[path], _MAX_BYTES) for path in missing):
            self._read.append(content)
            self._left -= len(content.data)
            text, problem = ("", content.problem) if content.problem else decode(content.data)
            if not problem:
                self._texts[content.entry.path] = text

    def _bounded(self, names: Iterable[str]) -> dict[str, str]:
        files: dict[str, str] = {}
        left = _MAX_BYTES_OF_A_PAGE
        for name in names:
            text = self._texts.get(name)
            if text is not None and len(text) <= left:
                files[name] = text
                left -= len(text)
        return files
