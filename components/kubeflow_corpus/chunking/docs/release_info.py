"""Release-info files (``release-info/v1.9.1.json``): one answerable sentence per release."""

from __future__ import annotations

import calendar
import json
import posixpath
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final

from kubeflow_corpus.chunking.compose import Budget, compose_row, skip_document
from kubeflow_corpus.chunking.docs.releases import RELEASE_NOTES, named_version
from kubeflow_corpus.records import Chunked, Document, seal
from kubeflow_corpus.sites.page_lines import clean_lines
from kubeflow_corpus.text_lines import is_blank

# Keys that hold the day of publication, and that of the commit, in the order in which they are asked.
PUBLISHED_KEYS: Final = ("publish_date", "published_at", "release_date", "date")
COMMIT_KEYS: Final = ("commit_date", "created_at")
TAG_KEYS: Final = ("tag", "tag_name", "version")
_MONTHS: Final = tuple(calendar.month_name)


def chunk(document: Document, budget: Budget) -> Chunked:
    """Makes one row of a release-info file.

    Args:
        document: A JSON object with a tag and a date.
        budget: What the model reads.
    """
    lines = clean_lines(document.text)
    if all(map(is_blank, lines)):
        return skip_document(document, "empty")
    try:
        data = json.loads("\n".join(lines))
    except (ValueError, RecursionError) as error:
        return skip_document(document, "malformed_json", str(error)[:200])
    if not isinstance(data, dict):
        return skip_document(document, "not_release_info")
    tag, published, committed = (_first(data, keys) for keys in (TAG_KEYS, PUBLISHED_KEYS, COMMIT_KEYS))
    version = named_version(tag)
    day = _day(published) or _day(committed)
    if not version or day is None:
        return skip_document(document, "not_release_info", "no tag with a version, or no date")
    latest = posixpath.basename(document.path).lower().startswith("latest")
    product = _product(document)
    title = f"{product} {version[0]} release date" if not latest else f"Latest {product} release"
    content = _sentences(product, tag, version[0], day, _day(committed), data, latest)
    header = budget.headers([(title, "")])[title, ""]
    embedding, cut = budget.embedding_text(header.text, content)
    row = compose_row(
        document,
        title=title,
        content=content,
        embedding_text=embedding,
        citation_url=_release_url(data) or document.url,
        fields={"doc_type": RELEASE_NOTES, "release_date": day.isoformat()},
        lines=(1, len(lines)),
        version=version,
    )
    return Chunked(tuple(seal([row])), counts={"truncated": 1} if cut else {})


def _sentences(
    product: str, tag: str, version: str, day: date, committed: date | None, data: Mapping[str, Any], latest: bool
) -> str:
    name = f"{product} {version}"
    text = [f"{name} (tag {tag}) was released and published on {day.isoformat()} ({_words(day)})."]
    if latest:
        text.insert(0, f"The latest release of {product} is {version}.")
    text.append(f"Release date of {name}: {day.isoformat()}, {day.day} {_MONTHS[day.month]} {day.year}.")
    if committed is not None:
        text.append(f"The release commit is of {committed.isoformat()} ({_words(committed)}).")
    url = _release_url(data)
    if url:
        text.append(f"Release page: {url.split('://', 1)[1]}")
    return "\n".join(text)


def _words(day: date) -> str:
    return f"{_MONTHS[day.month]} {day.day}, {day.year}"


def _product(document: Document) -> str:
    site = document.metadata.get("site") or {}
    named = (site.get("params") or {}).get("product_name")
    return str(named or document.repo.split("/", 1)[0].replace("-", " ").title() or "The product")


def _first(data: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((data[key].strip() for key in keys if isinstance(data.get(key), str) and data[key].strip()), "")


def _day(text: str) -> date | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).date()
    except ValueError:
        return None


def _release_url(data: Mapping[str, Any]) -> str:
    url = data.get("url") or data.get("html_url")
    fine = isinstance(url, str) and url.startswith("https://") and len(url) < 1_000 and not any(map(str.isspace, url))
    return str(url) if fine else ""
