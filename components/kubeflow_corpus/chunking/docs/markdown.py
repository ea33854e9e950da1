"""Documentation pages in Markdown: one unit per section, with the address that its site gives it.

A page goes through four steps, each in its own module: what its site's generator knows of it and makes of its markup
(`sites`), Markdown and HTML as readable blocks (`rendering`, `html_text`), blocks under headings (`sections`) and
sections as rows of the token budget (`blocks`). The lines of every row, and those that were removed
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

from kubeflow_corpus.chunking.compose import SEPARATOR, Budget, Header, compose_row, fit_bytes, framed, skip_document
from kubeflow_corpus.chunking.docs.blocks import Block, PackedRow, count_tokens, pack_blocks
from kubeflow_corpus.chunking.docs.releases import Releases, page_versions, read_releases
from kubeflow_corpus.chunking.docs.rendering import render
from kubeflow_corpus.chunking.docs.sections import Outline, Section, join_small_sections, read_sections
from kubeflow_corpus.collections import common_limit
from kubeflow_corpus.records import Chunk, Chunked, Document, Removed, seal
from kubeflow_corpus.sites.base import Page, SiteGenerator, page_address
from kubeflow_corpus.sites.front_matter import FrontMatter
from kubeflow_corpus.sites.registry import generator_named
from kubeflow_corpus.text_lines import is_blank
from kubeflow_corpus.vocabulary import Vocabulary

_MAX_ID_BYTES: Final = common_limit("unit_id")
_MAX_URL_BYTES: Final = common_limit("citation_url")
_MAX_TITLE_BYTES: Final = common_limit("title")
_MAX_SECTION_BYTES: Final = common_limit("section_path")
_ANCHOR_SAFE: Final = "-._~!$&'()*+,;=:@/?"


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all rows of a page share."""

    document: Document
    title: str
    url: str
    title_has_anchor: bool
    versions: tuple[str, ...]
    releases: Releases


def chunk(document: Document, budget: Budget, vocabulary: Vocabulary | None = None) -> Chunked:
    """Cuts a documentation page into rows.

    Args:
        document: A Markdown or MDX page; its metadata may hold ``site`` (`sites.base.Site`) and ``inherited`` (front
            matter that other pages set for it).
        budget: What the model reads.
        vocabulary: The words of the project; None is the packaged one.
    """
    page = Page.read(document, vocabulary)
    if all(map(is_blank, page.lines)):
        return skip_document(document, "empty")
    generator = generator_named(page.site.generator)
    hidden = generator.hidden_reason(page)
    if hidden:
        return skip_document(document, hidden)
    front = page.front
    rewritten = generator.rewrite(page)
    rendered = render(
        rewritten.lines,
        generator.anchors(page),
        indented_code=generator.indented_code,
        math=front.flag("mathjax") or front.flag("math"),
    )
    if rewritten.origins:
        rendered.at_origins(rewritten.origins)
    sections = read_sections(rendered, front.text("title"))
    dropped = {**rewritten.reasons, **rendered.dropped}
    dropped |= dict.fromkeys(sections.bare, "heading_without_text") | dict.fromkeys(
        sections.repeated, "repeated_section"
    )
    counts = rendered.counts + rewritten.counts
    title = fit_bytes(front.text("title") or sections.title or _stem(document.path), _MAX_TITLE_BYTES)
    rows = _rows(page, generator, budget, title, sections)
    if not rows:
        return _stub(page, generator, budget, title)
    spans, removed = _spans(rows, page.lines, front.lines, dropped, counts)
    chunks = [replace(row.chunk, start_line=start, end_line=end) for row, (start, end) in zip(rows, spans, strict=True)]
    counts["rows_sharing_a_line"] += sum(1 for one, two in zip(spans, spans[1:], strict=False) if two[0] <= one[1])
    return Chunked(tuple(seal(chunks)), tuple(removed), counts={key: value for key, value in counts.items() if value})


@dataclass(frozen=True, slots=True)
class _PlacedRow:
    """A row and the lines of the body that its blocks cover (from 0, end exclusive)."""

    chunk: Chunk
    start: int
    end: int


def _shared(page: Page, generator: SiteGenerator, title: str, sections: Sequence[Section]) -> _Shared:
    return _Shared(
        page.document,
        title,
        page_address(generator, page),
        generator.title_has_anchor,
        page_versions(page),
        read_releases(page.document.path, title, sections, page.vocabulary),
    )


def _rows(page: Page, generator: SiteGenerator, budget: Budget, title: str, found: Outline) -> list[_PlacedRow]:
    sections = _counted_sections(_introduced(found.sections, page.front, title), budget)
    if not sections:
        return []
    shared = _shared(page, generator, title, sections)
    headers = budget.headers((title, _breadcrumb(section)) for section in sections)
    room = min(header.room for header in headers.values())
    rows: list[_PlacedRow] = []
    seen: Counter[str] = Counter()
    releases = shared.releases
    for section in join_small_sections(sections, found.headings, room, lambda each: releases.section(each.path)):
        header = headers[title, _breadcrumb(section)]
        unit = _unit_id(page.document.document_id, section.anchor, seen)
        packed = pack_blocks(count_tokens(section.blocks, budget.counter), header.room, budget.counter)
        for number, row in enumerate(packed, start=1):
            chunk = _chunk(shared, section, unit, "" if number == 1 else str(number), row, header)
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
    blocks = iter(count_tokens([block for section in sections for block in section.blocks], budget.counter))
    return [replace(section, blocks=tuple(next(blocks) for _ in section.blocks)) for section in sections]


def _breadcrumb(section: Section) -> str:
    return fit_bytes(SEPARATOR.join(section.path), _MAX_SECTION_BYTES)


def _unit_id(document_id: str, anchor: str, seen: Counter[str]) -> str:
    unit = f"{document_id}#{anchor}" if anchor else document_id
    if len(unit.encode("utf-8", "replace")) > _MAX_ID_BYTES - 16:
        unit = f"{document_id}#{hashlib.sha256(anchor.encode('utf-8', 'replace')).hexdigest()[:16]}"
    seen[unit] += 1
    return unit if seen[unit] == 1 else f"{unit}~{seen[unit]}"


def _chunk(page: _Shared, section: Section, unit: str, view: str, row: PackedRow, header: Header) -> Chunk:
    document = page.document
    breadcrumb = _breadcrumb(section)
    version, date = page.releases.section(section.path)
    areas = (*(document.metadata.get("product_area") or ()), *page.releases.areas)
    return compose_row(
        document,
        title=page.title,
        content=row.text,
        embedding_text=framed(header.text, row.text),
        citation_url=_citation(page, section),
        fields={"doc_type": page.releases.doc_type, "release_date": date},
        section_path=breadcrumb,
        unit_id=unit,
        view=view,
        product_area=tuple(dict.fromkeys(areas)),
        version=tuple(dict.fromkeys((*version, *page.versions))),
    )


def _citation(page: _Shared, section: Section) -> str:
    # Without an anchor the page is the closest that a link gets, unless the page names the place.
    anchor = section.anchor if page.title_has_anchor or section.level != 1 else section.named
    if not anchor:
        return page.url
    url = f"{page.url}#{quote(anchor, safe=_ANCHOR_SAFE)}"
    return url if len(url) <= _MAX_URL_BYTES else page.url


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
        while stop > first and is_blank(lines[stop]):
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
        if line not in outside and not is_blank(lines[line]):
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
        reason = None if is_blank(lines[line]) else reasons.get(line)
        if reason is None and not removed:
            kept = line + 1
        elif removed and (reason is None or removed[-1].reason == reason):
            removed[-1] = replace(removed[-1], end_line=line + 1)
        else:
            assert reason is not None
            removed.append(Removed(reason, line + 1, line + 1))
    return kept, removed


def _stub(page: Page, generator: SiteGenerator, budget: Budget, title: str) -> Chunked:
    """Makes a row of a page that is nothing but its description; without one there is nothing to find."""
    document, lines = page.document, len(page.lines)
    description = page.front.text("description")
    if not description or description.casefold() == title.casefold():
        return skip_document(document, "no_text", "front matter and no body")
    section = Section((), "", 0, 0, (Block("paragraph", description, 0, lines),))
    shared = _shared(page, generator, title, [])
    header = budget.headers([(title, "")])[title, ""]
    rows = pack_blocks(count_tokens(section.blocks, budget.counter), header.room, budget.counter)
    chunks = [
        replace(
            _chunk(shared, section, document.document_id, "" if index == 0 else str(index + 1), row, header),
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
