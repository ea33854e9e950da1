"""Versions of pages; on release pages which release a section is about, its date and the products that it lists."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from kubeflow_corpus.chunking.docs.sections import Section
from kubeflow_corpus.sites.base import Page
from kubeflow_corpus.terms import RELEASE_NUMBER, release_in_text, version_precisions
from kubeflow_corpus.vocabulary import Vocabulary, either

# A page is about releases where its path looks like one of these and its title, file or headings name a version.
RELEASE_PATHS: Final = (
    "*/releases/*",
    "*/release-notes/*",
    "*/release-notes.*",
    "*/releases.*",
    "*/changelog.*",
    "changelog.*",
)
DOCS: Final = "docs"
RELEASE_NOTES: Final = "release_notes"

_VERSION: Final = release_in_text("", r"\w", re.IGNORECASE)
_DATE_LABEL: Final = re.compile(
    r"release[ -]date\W{1,20}([^\n|]{4,40})|\breleased (?:on )?([^\n|]{4,40})", re.IGNORECASE
)
_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_WORD_DATE: Final = re.compile(
    r"([A-Z][a-z]+)\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})|(\d{1,2}) ([A-Z][a-z]+),? (\d{4})"
)


# A folder that is a version: legacy-v1, v2, version-0.15.
_VERSION_FOLDER: Final = re.compile(rf"(?:([\w.-]+)-)?(v\d+)|(?:version-|v)({RELEASE_NUMBER})", re.IGNORECASE)
# What may stand before the version, beside what the vocabulary lists.
_FOLDER_PREFIXES: Final = ("", "legacy")


@dataclass(frozen=True, slots=True)
class Releases:
    """What a page says about releases.

    Attributes:
        doc_type: ``release_notes`` or ``docs``.
        version: The page's own version, at every precision.
        areas: Products that it lists.
        dates: Release date by the heading that names the version.
    """

    doc_type: str = DOCS
    version: tuple[str, ...] = ()
    areas: tuple[str, ...] = ()
    dates: dict[str, str] = field(default_factory=dict)

    def section(self, path: Sequence[str]) -> tuple[tuple[str, ...], str]:
        """Returns version and release date of a section: those of the nearest heading that names a version."""
        if self.doc_type == DOCS:
            return (), ""
        for heading in reversed(path):
            version = named_version(heading)
            if version:
                return version, self.dates.get(heading, "")
        return self.version, self.dates.get("", "")


def read_releases(path: str, title: str, sections: Sequence[Section], vocabulary: Vocabulary) -> Releases:
    """Reads what a page says about releases.

    Args:
        path: Path in the repository.
        title: The page's title.
        sections: Its sections, before tiny ones are joined.
        vocabulary: Says how a release names its products.
    """
    if not any(fnmatchcase(path.lower(), pattern) for pattern in RELEASE_PATHS):
        return Releases()
    stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    version = named_version(title) or named_version(stem.replace("_", " "))
    if not version and not any(named_version(heading) for section in sections for heading in section.path):
        return Releases()
    dates: dict[str, str] = {}
    for section in sections:
        heading = next((name for name in reversed(section.path) if named_version(name)), "")
        date = release_date(block.text for block in section.blocks)
        if date:
            dates.setdefault(heading, date)
    listed = "\n".join(
        block.text for section in sections for block in section.blocks if block.kind in ("table", "list")
    )
    areas = tuple(area for area, pattern in _listed_products(vocabulary) if pattern.search(listed))
    return Releases(RELEASE_NOTES, version, areas, dates)


@lru_cache(maxsize=8)
def _listed_products(vocabulary: Vocabulary) -> tuple[tuple[str, re.Pattern[str]], ...]:
    listed = (product for product in vocabulary.products if product.listed)
    return tuple((product.name, re.compile(either(product.listed), re.IGNORECASE)) for product in listed)


def page_versions(page: Page) -> tuple[str, ...]:
    """Returns the versions of a whole page: the catalogue's, its front matter's and its folder's."""
    prefixes = {*_FOLDER_PREFIXES, *page.vocabulary.version_folders}
    listed = [str(version) for version in page.document.metadata.get("version") or ()]
    own = page.front.data.get("version")
    listed += [str(item) for item in own] if isinstance(own, list) else [page.front.text("version")]
    for folder in posixpath.dirname(page.document.path).split("/"):
        match = _VERSION_FOLDER.fullmatch(folder)
        if match is not None and (match.group(1) or "").lower() in prefixes:
            listed.append(match.group(2) or match.group(3))
    return tuple(dict.fromkeys(precise for version in listed if version for precise in version_precisions(version)))


def named_version(text: str) -> tuple[str, ...]:
    """Returns the first version that a heading or title names, at every precision."""
    match = _VERSION.search(text)
    return version_precisions(match.group(1)) if match is not None else ()


def release_date(texts: Iterable[str]) -> str:
    """Returns the first date that a text gives as a release date, ISO 8601, empty if there is none."""
    for text in texts:
        for match in _DATE_LABEL.finditer(text):
            date = _date(match.group(1) or match.group(2))
            if date:
                return date
    return ""


def _date(text: str) -> str:
    iso = _ISO_DATE.search(text)
    if iso is not None:
        return iso.group() if _parsed(iso.group(), "%Y-%m-%d") else ""
    match = _WORD_DATE.search(text)
    if match is None:
        return ""
    month, day, year = (
        match.group(1) or match.group(5),
        match.group(2) or match.group(4),
        match.group(3) or match.group(6),
    )
    return _parsed(f"{day} {month[:3]} {year}", "%d %b %Y")


def _parsed(text: str, pattern: str) -> str:
    try:
        return datetime.strptime(text, pattern).date().isoformat()
    except ValueError:
        return ""
