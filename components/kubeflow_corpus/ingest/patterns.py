"""Patterns of the catalogue that match nothing: a typing error there would look like a source that has become empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from kubeflow_corpus.errors import SourceError
from kubeflow_corpus.sites.registry import generator_named
from kubeflow_corpus.sources.catalogue import DEFAULT_INCLUDE, Source
from kubeflow_corpus.sources.globs import matches_any


class _AtPath(Protocol):
    @property
    def path(self) -> str: ...


Item = TypeVar("Item", bound=_AtPath)


@dataclass(slots=True)
class PatternWatch:
    """Sees which patterns of a source match a file.

    Attributes:
        source: The source.
        unmatched: Patterns that have matched nothing so far.
        files: Files so far.
    """

    source: Source
    unmatched: list[str] = field(init=False)
    files: int = 0

    def __post_init__(self) -> None:
        self.unmatched = list(self.source.include)

    def track(self, items: Iterable[Item]) -> Iterator[Item]:
        """Passes files through, read or skipped."""
        for item in items:
            self.files += 1
            if self.unmatched:
                self.unmatched = [pattern for pattern in self.unmatched if not matches_any((pattern,), item.path)]
            yield item

    def alarms(self) -> tuple[str, ...]:
        """Returns what somebody should look at, one line each.

        Raises:
            SourceError: No file matches any pattern.
        """
        patterns = ", ".join(self.unmatched)
        remedy = "Correct it in the catalogue: a pattern is matched against the whole path, and case counts"
        if not self.files and self.source.include:
            raise SourceError(
                f"include of source {self.source.name} matches no file of the tree that exclude leaves: {patterns}",
                remedy=remedy,
                source=self.source.name,
            )
        if not self.unmatched or self.source.include in _default_patterns(self.source):
            return ()
        return (f"include matches no file of the tree that exclude leaves: {patterns}. {remedy}",)


def _default_patterns(source: Source) -> tuple[tuple[str, ...], ...]:
    """Returns what an entry has that names no pattern: of those, few match in any one repository."""
    pages = generator_named(source.site.generator).page_patterns if source.site else ()
    return (tuple(pages), *DEFAULT_INCLUDE.values())
