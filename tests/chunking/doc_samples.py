"""Documents for the tests of the chunkers, and the real pages where they lie beside the checkout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.docs import markdown
from kubeflow_corpus.records import Chunked, Document
from kubeflow_corpus.tokens import wordpiece_counter

HUGO = {"generator": "hugo", "root": "content/en", "base_url": "https://www.kubeflow.org/", "params": {}}
DOCUSAURUS = {"generator": "docusaurus", "root": "docs", "base_url": "https://kserve.github.io/website/", "params": {}}
SITES = {"hugo": HUGO, "docusaurus": DOCUSAURUS, "": {}}
PATHS = {"hugo": "content/en/docs/page.md", "docusaurus": "docs/page.md", "": "page.md"}

SHARED = Path(__file__).parents[3] / "shared" / "corpus" / "docs"
REAL_SITES = (("kubeflow-website", "content/en", HUGO), ("kserve-website", "docs", DOCUSAURUS))
needs_real_pages = pytest.mark.skipif(not SHARED.is_dir(), reason="the real pages of ../shared are not here")


def budget(tokens: int = 256) -> Budget:
    return Budget(wordpiece_counter(), tokens)


def page(text: str, generator: str = "hugo", path: str = "", **metadata: Any) -> Document:
    path = path or PATHS[generator]
    site = {**SITES[generator], **metadata.pop("site", {})}
    return Document(
        document_id=f"site:{path}",
        source="site",
        source_type="docs",
        repo="example/site",
        revision="0" * 40,
        path=path,
        url=f"https://github.com/example/site/blob/main/{path}",
        title="",
        text=text,
        metadata={"product_area": ["platform"], "version": [], "updated_at": "2026-01-02T03:04:05Z", "site": site}
        | metadata,
    )


def real_pages(suffixes: tuple[str, ...] = (".md", ".mdx"), ending: str = "") -> Iterator[Document]:
    for name, root, site in REAL_SITES:
        folder = SHARED / name
        for file in sorted((folder / root).rglob("*")):
            if file.suffix in suffixes and file.as_posix().endswith(ending):
                path = file.relative_to(folder).as_posix()
                yield page(file.read_text("utf-8"), str(site["generator"]), path)


@dataclass(frozen=True)
class SitePages:
    """Pages of one site, cut as a run cuts them; their lines are accounted for.

    Attributes:
        site: The site, as a catalogue describes it.
        path: Of a page that names no other.
    """

    site: Mapping[str, Any]
    path: str

    def cut(self, text: str, path: str = "", **metadata: Any) -> Chunked:
        site = {**self.site, "params": metadata.pop("params", {})}
        document = page(text, path=path or self.path, site=site, **metadata)
        chunked = markdown.chunk(document, budget())
        assert partition_problem(document, chunked) == ""
        return chunked

    def content(self, text: str, **metadata: Any) -> str:
        return "\n".join(row.content_text for row in self.cut(text, **metadata).chunks)


def partition_problem(document: Document, chunked: Chunked) -> str:
    """Returns what is wrong with the lines of rows and removals, empty where they partition the document."""
    total = len(document.text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n"))
    if chunked.skipped is not None:
        return "" if not chunked.chunks else "rows of a skipped document"
    owners: list[list[object]] = [[] for _ in range(total + 1)]
    for span in [*chunked.chunks, *chunked.removed]:
        if not 1 <= span.start_line <= span.end_line <= total:
            return f"lines {span.start_line}-{span.end_line} of {total}"
        for line in range(span.start_line, span.end_line + 1):
            owners[line].append(span)
    for line, spans in enumerate(owners[1:], start=1):
        if not spans:
            return f"line {line} belongs to nothing"
        # Only the rows of one unit share a line, and only one that is too long for a row.
        if len(spans) > 1 and len({getattr(span, "unit_id", span) for span in spans}) > 1:
            return f"line {line} belongs to {len(spans)}"
    return ""
