"""Documentation pages of Hugo and Docusaurus sites: one unit a section, with the address that the site gives it.

A page goes through five steps, each in its own module: its front matter and address (`pages`), its generator's markup
(`shortcodes`, `mdx`), Markdown and HTML as readable blocks (`rendering`, `html_text`), blocks under headings
(`sections`) and sections as rows of the token budget (`blocks`). The lines of every row, and those that were removed
and why, partition the page; only the rows of one line that is longer than a row share it.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

from kubeflow_corpus.chunking.compose import SEPARATOR, Budget, Header, fit_bytes, framed, search_text
from kubeflow_corpus.chunking.docs.anchors import Anchors, DocusaurusAnchors, HugoAnchors
from kubeflow_corpus.chunking.docs.blocks import Block, Row, counted, pack
from kubeflow_corpus.chunking.docs.mdx import rewrite_mdx
from kubeflow_corpus.chunking.docs.page_lines import Rewritten, clean_lines
from kubeflow_corpus.chunking.docs.pages import (
    DOCUSAURUS,
    HUGO,
    FrontMatter,
    Site,
    hidden_reason,
    page_url,
    page_versions,
    read_front_matter,
)
from kubeflow_corpus.chunking.docs.releases import Releases, read_releases
from kubeflow_corpus.chunking.docs.rendering import render
from kubeflow_corpus.chunking.docs.sections import Outline, Section, joined, outline
from kubeflow_corpus.chunking.docs.shortcodes import rewrite_shortcodes
from kubeflow_corpus.records import Chunk, Chunked, Document, Removed, Skip, seal

# Limits of the collections' fields, in bytes of UTF-8.
_MAX_ID_BYTES: Final = 1_024
_MAX_TITLE_BYTES: Final = 2_048
_ANCHOR_SAFE: Final = "-._~!$&'()*+,;=:@/?"


@dataclass(frozen=True, slots=True)
class _Page:
    """What all rows of a page share."""

    document: Document
    title: str
    url: str
    docusaurus: bool
    versions: tuple[str, ...]
    releases: Releases


def chunk(document: Document, budget: Budget) -> Chunked:
    """Cuts a documentation page into rows.

    Args:
        document: A Markdown or MDX page; its metadata may hold ``site`` (generator, root, base_url, params) and
            ``cascade`` (what Hugo section pages above it hand down).
        budget: What the model reads.
    """
    lines = clean_lines(document.text)
    if not any(line.strip() for line in lines):
        return _skipped(document, "empty")
    site = Site.of(document)
    front = read_front_matter(lines)
    hidden = hidden_reason(document, front, site)
    if hidden:
        return _skipped(document, hidden)
    body = lines[front.lines :]
    rewritten = _rewrite(body, site)
    page = render(
        rewritten.lines,
        _anchors(site),
        indented_code=site.generator != DOCUSAURUS,
        math=front.flag("mathjax") or front.flag("math"),
    )
    page.dropped = {**rewritten.reasons, **page.dropped}
    counts = page.counts + rewritten.counts
    sections = outline(page, front.text("title"))
    page.dropped.update({line: "heading_without_text" for line in sections.bare})
    page.dropped.update({line: "repeated_section" for line in sections.repeated})
    title = fit_bytes(front.text("title") or sections.title or _stem(document.path), _MAX_TITLE_BYTES)
    rows = _rows(document, budget, site, front, title, sections)
    if not rows:
        return _stub(document, budget, site, front, title, len(lines))
    spans, removed = _spans(rows, lines, front.lines, page.dropped, counts)
    chunks = [replace(row.chunk, start_line=start, end_line=end) for row, (start, end) in zip(rows, spans, strict=True)]
    counts["rows_sharing_a_line"] += sum(1 for one, two in zip(spans, spans[1:], strict=False) if two[0] <= one[1])
    return Chunked(tuple(seal(chunks)), tuple(removed), counts={key: value for key, value in counts.items() if value})


def _rewrite(body: list[str], site: Site) -> Rewritten:
    if site.generator == HUGO:
        return rewrite_shortcodes(body, site.params)
    if site.generator == DOCUSAURUS:
        return rewrite_mdx(body, site.params)
    return Rewritten(body)


def _anchors(site: Site) -> Anchors:
    return HugoAnchors() if site.generator == HUGO else DocusaurusAnchors()


@dataclass(frozen=True, slots=True)
class _PlacedRow:
    """A row and the lines of the body that its blocks cover (from 0, end exclusive)."""

    chunk: Chunk
    start: int
    end: int


def _rows(
    document: Document, budget: Budget, site: Site, front: FrontMatter, title: str, found: Outline
) -> list[_PlacedRow]:
    sections = _counted_sections(_introduced(found.sections, front, title), budget)
    if not sections:
        return []
    page = _Page(
        document,
        title,
        page_url(document, front, site),
        site.generator == DOCUSAURUS,
        page_versions(document, front),
        read_releases(document.path, title, sections),
    )
    headers = budget.headers((title, _breadcrumb(section)) for section in sections)
    room = min(header.room for header in headers.values())
    rows: list[_PlacedRow] = []
    seen: Counter[str] = Counter()
    for section in joined(sections, found.headings, room, lambda section: page.releases.section(section.path)):
        header = headers[title, _breadcrumb(section)]
        unit = _unit_id(document.document_id, section.anchor, seen)
        packed = pack(counted(section.blocks, budget.counter), header.room, budget.counter)
        for number, row in enumerate(packed, start=1):
            chunk = _chunk(page, section, unit, "" if number == 1 else str(number), row, header)
            rows.append(_PlacedRow(chunk, section.start if number == 1 else row.start, row.end))
    return rows


def _introduced(sections: Sequence[Section], front: FrontMatter, title: str) -> list[Section]:
    """Puts the page's description before its first section, whose reader it introduces."""
    description = front.text("description")
    if not sections or not description or description.casefold() == title.casefold():
        return list(sections)
    first = sections[0]
    if any(description in block.text for block in first.blocks):
        return list(sections)
    introduction = Block("paragraph", description, first.start, first.start + 1)
    return [replace(first, blocks=(introduction, *first.blocks)), *sections[1:]]


def _counted_sections(sections: Sequence[Section], budget: Budget) -> list[Section]:
    blocks = iter(counted([block for section in sections for block in section.blocks], budget.counter))
    return [replace(section, blocks=tuple(next(blocks) for _ in section.blocks)) for section in sections]


def _breadcrumb(section: Section) -> str:
    return fit_bytes(SEPARATOR.join(section.path), _MAX_TITLE_BYTES)


def _unit_id(document_id: str, anchor: str, seen: Counter[str]) -> str:
    unit = f"{document_id}#{anchor}" if anchor else document_id
    if len(unit.encode("utf-8", "replace")) > _MAX_ID_BYTES - 16:
        unit = f"{document_id}#{hashlib.sha256(anchor.encode('utf-8', 'replace')).hexdigest()[:16]}"
    seen[unit] += 1
    return unit if seen[unit] == 1 else f"{unit}~{seen[unit]}"


def _chunk(page: _Page, section: Section, unit: str, view: str, row: Row, header: Header) -> Chunk:
    document = page.document
    breadcrumb = _breadcrumb(section)
    version, date = page.releases.section(section.path)
    areas = (*(document.metadata.get("product_area") or ()), *page.releases.areas)
    return Chunk(
        document_id=document.document_id,
        unit_id=unit,
        view=view,
        chunk_index=0,
        start_line=0,
        end_line=0,
        title=page.title,
        section_path=breadcrumb,
        content_text=row.text,
        search_text=search_text(page.title, breadcrumb, row.text),
        embedding_text=framed(header.text, row.text),
        citation_url=_citation(page, section),
        file_path=document.path,
        repo=document.repo,
        source=document.source,
        source_type="docs",
        product_area=tuple(dict.fromkeys(areas)),
        version=tuple(dict.fromkeys((*version, *page.versions))),
        revision=document.revision,
        updated_at=str(document.metadata.get("updated_at") or ""),
        fields={"doc_type": page.releases.doc_type, "release_date": date},
    )


def _citation(page: _Page, section: Section) -> str:
    # Docusaurus renders level 1 without an id: unless the page names the place, the page is the closest one gets.
    anchor = section.named if page.docusaurus and section.level == 1 else section.anchor
    if not anchor:
        return page.url
    url = f"{page.url}#{quote(anchor, safe=_ANCHOR_SAFE)}"
    return url if len(url) <= _MAX_ID_BYTES else page.url


def _spans(
    rows: Sequence[_PlacedRow], lines: Sequence[str], offset: int, dropped: dict[int, str], counts: Counter[str]
) -> tuple[list[tuple[int, int]], list[Removed]]:
    """Returns the lines of each row, and what was removed between them: together every line of the page, once.

    Args:
        rows: In document order.
        lines: The page's lines.
        offset: Lines before the body.
        dropped: For a line of the body that no row shows, the rule that dropped it.
        counts: Gets the dropped lines that stand inside a row.
    """
    reasons = {line + offset: reason for line, reason in dropped.items()}
    reasons.update(dict.fromkeys(range(offset), "front_matter"))
    spans: list[tuple[int, int]] = []
    removed: list[Removed] = []
    last = -1
    for row in rows:
        # Rows of one long line share it; otherwise a row starts after the one before it.
        first = max(min(last, row.end + offset - 1), 0) if row.end + offset - 1 <= last else row.start + offset
        first = max(first, last + 1) if row.end + offset - 1 > last else first
        stop = min(max(row.end + offset - 1, first), len(lines) - 1)
        while stop > first and not lines[stop].strip():
            stop -= 1
        if first > last + 1:
            kept, gaps = _gap(range(last + 1, first), lines, reasons)
            removed += gaps
            if spans and kept:
                spans[-1] = (spans[-1][0], kept)
            elif kept:
                first = 0
        spans.append((first + 1, stop + 1))
        last = max(last, stop)
    kept, gaps = _gap(range(last + 1, len(lines)), lines, reasons)
    spans[-1] = (spans[-1][0], max(kept, spans[-1][1]))
    removed += gaps
    outside = {line - 1 for gap in removed for line in range(gap.start_line, gap.end_line + 1)}
    for line, reason in reasons.items():
        if line not in outside and lines[line].strip():
            counts[f"lines_inside_rows:{reason}"] += 1
    return spans, removed


def _gap(gap: range, lines: Sequence[str], reasons: dict[int, str]) -> tuple[int, list[Removed]]:
    """Divides lines that no row covers: the blank ones go with the row before them, the others to their rules.

    Returns:
        The last line (from 1) that goes with the row before, 0 for none, and what was removed.
    """
    kept = 0
    removed: list[Removed] = []
    for line in gap:
        reason = reasons.get(line) if lines[line].strip() else None
        if reason is None and not removed:
            kept = line + 1
        elif removed and (reason is None or removed[-1].reason == reason):
            removed[-1] = replace(removed[-1], end_line=line + 1)
        else:
            assert reason is not None
            removed.append(Removed(reason, line + 1, line + 1))
    return kept, removed


def _stub(document: Document, budget: Budget, site: Site, front: FrontMatter, title: str, lines: int) -> Chunked:
    """Makes a row of a page that is nothing but its description; without one there is nothing to find."""
    description = front.text("description")
    if not description or description.casefold() == title.casefold():
        return _skipped(document, "no_text", "front matter and no body")
    section = Section((), "", 0, 0, (Block("paragraph", description, 0, lines),))
    page = _Page(
        document,
        title,
        page_url(document, front, site),
        False,
        page_versions(document, front),
        read_releases(document.path, title, []),
    )
    header = budget.headers([(title, "")])[title, ""]
    rows = pack(counted(section.blocks, budget.counter), header.room, budget.counter)
    chunks = [
        replace(
            _chunk(page, section, document.document_id, "" if index == 0 else str(index + 1), row, header),
            start_line=1,
            end_line=lines,
        )
        for index, row in enumerate(rows)
    ]
    return Chunked(tuple(seal(chunks)))


def _stem(path: str) -> str:
    folder, name = posixpath.split(path)
    stem = posixpath.splitext(name)[0]
    return (posixpath.basename(folder) or stem) if stem.lower() in ("index", "_index", "readme") else stem


def _skipped(document: Document, reason: str, detail: str = "") -> Chunked:
    return Chunked(skipped=Skip(document.document_id, document.path, reason, detail))
