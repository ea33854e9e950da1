"""Code and manifest documents for the tests of the chunkers, and the real ones where they lie beside the checkout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.chunking.code import symbols
from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.manifests import objects as manifests
from kubeflow_corpus.chunking.manifests.crds import CodeContext, collect_context
from kubeflow_corpus.records import Chunk, Chunked, Document, seal
from kubeflow_corpus.tokens import wordpiece_counter

SAMPLES = Path(__file__).parents[1] / "corpus"
REAL = Path(__file__).parents[3] / "shared" / "corpus" / "manifests"
REAL_REPOS = {
    "kserve": "kserve/kserve",
    "katib": "kubeflow/katib",
    "pipelines": "kubeflow/pipelines",
    "trainer": "kubeflow/trainer",
}
GO_SOURCES = Path("/usr/share/gocode/src")
COMMIT = "c" * 40
needs_real_manifests = pytest.mark.skipif(not REAL.is_dir(), reason="the real manifests of ../shared are not here")
needs_go_sources = pytest.mark.skipif(
    not GO_SOURCES.is_dir(), reason="no Go sources: install the Debian package golang-golang-x-tools-dev"
)


def budget(tokens: int = 256) -> Budget:
    return Budget(wordpiece_counter(), tokens)


def document(path: str, text: str, repo: str = "kubeflow/widgets", **metadata: Any) -> Document:
    return Document(
        document_id=f"widgets:{path}",
        source="widgets",
        source_type="manifest" if path.endswith((".yaml", ".yml")) else "code",
        repo=repo,
        revision=COMMIT,
        path=path,
        url=f"https://github.com/{repo}/blob/{COMMIT}/{path}",
        title="",
        text=text,
        metadata={"product_area": ["platform"], "version": ["1.9"], "updated_at": "2026-01-02T03:04:05Z"} | metadata,
    )


def sample(path: str, **metadata: Any) -> Document:
    folder = "manifests" if path.endswith(".yaml") else "code"
    text = (SAMPLES / folder / path).read_text("utf-8")
    return document(path, text, **metadata)


def cut(item: Document, context: CodeContext | None = None, tokens: int = 256) -> Chunked:
    chunked = (
        manifests.chunk(item, budget(tokens), context)
        if item.source_type == "manifest"
        else symbols.chunk(item, budget(tokens))
    )
    assert partition_problem(item, chunked) == ""
    assert list(seal(chunked.chunks)) == list(chunked.chunks)
    assert len({row.id for row in chunked.chunks}) == len(chunked.chunks)
    assert len({(row.unit_id, row.view) for row in chunked.chunks}) == len(chunked.chunks)
    return chunked


def sample_context(*paths: str) -> CodeContext:
    return collect_context([sample(path) for path in paths])


def rows_of(chunked: Chunked, symbol: str) -> list[Chunk]:
    return [row for row in chunked.chunks if symbol in str(row.fields["symbol"]).split(", ")]


def names(chunked: Chunked) -> set[str]:
    return {name for row in chunked.chunks for name in str(row.fields["symbol"]).split(", ") if name}


def partition_problem(item: Document, chunked: Chunked) -> str:
    """Returns what is wrong with the lines, empty where rows and removals hold each line once.

    Views that come from Go types (`go:`) repeat the lines of the CRD that they complete.
    """
    lines = item.text.removeprefix("\ufeff").split("\n")
    total = len(lines) - (not lines[-1])
    if chunked.skipped is not None:
        return "rows of a skipped document" if chunked.chunks else ""
    own = [row for row in chunked.chunks if not row.view.startswith("go:")]
    spans = sorted((span.start_line, span.end_line) for span in [*own, *chunked.removed])
    at = 1
    for first, last in spans:
        if first != at or last < first:
            return f"{first}-{last} where {at} comes next"
        at = last + 1
    return "" if at == total + 1 else f"{at - 1} of {total} lines"


def real_manifests() -> Iterator[Document]:
    for folder, repo in REAL_REPOS.items():
        for file in sorted((REAL / folder).rglob("*.y*ml")):
            path = file.relative_to(REAL / folder).as_posix()
            yield document(path, file.read_text("utf-8"), repo)
