"""A pattern of the catalogue that matches nothing is named, and a source of which none matches has not become empty."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubeflow_corpus.ingest.options import RunOptions
from kubeflow_corpus.ingest.runner import RunFolders, dry_run_collection
from kubeflow_corpus.ingest.summary import failures

CATALOGUE = """sources:
  - name: handbook
    type: {type}
    repo: acme/handbook
    url: handbook
    product_area: platform
    {more}
"""
SITE = "site: {generator: hugo, root: content, base_url: 'https://acme.example/'}"


def failed(folder: Path, kind: str, more: str) -> tuple[int, list[str]]:
    (folder / "handbook" / "content").mkdir(parents=True, exist_ok=True)
    (folder / "handbook" / "content" / "quota.md").write_text("# Quota\n\nTwo GPUs.\n")
    (folder / "handbook" / "quota.py").write_text("QUOTA = 2\n")
    file = folder / "catalogue.yaml"
    file.write_text(CATALOGUE.replace("{type}", kind).replace("{more}", more))
    collection = "docs" if kind == "docs" else "code"
    result = dry_run_collection(collection, RunOptions(catalogue=str(file)), RunFolders(folder / "run"))
    (source,) = result.sources
    return source.counts.get("chunks", 0), [failure.line() for failure in failures(result)]


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("docs", f"{SITE}\n    include: [contents/**/*.md]"),
        ("docs", f"{SITE}\n    include: [content/**/*.md]\n    exclude: ['content/**']"),
        ("code", "include: ['src/**/*.go', '*.PY']"),
    ],
    ids=["misspelt", "all excluded", "two that match nothing"],
)
def test_a_source_of_which_no_pattern_matches_fails_at_fetch(tmp_path: Path, kind: str, more: str) -> None:
    chunks, lines = failed(tmp_path, kind, more)

    assert chunks == 0 and len(lines) == 1
    assert "source handbook failed at fetch: include of source handbook matches no file" in lines[0]


def test_one_pattern_that_matches_nothing_is_named_and_the_rest_is_indexed(tmp_path: Path) -> None:
    chunks, lines = failed(tmp_path, "code", "include: ['*.py', 'src/**/*.go']")

    assert chunks == 1
    assert lines == [
        "code: source handbook is not complete: include matches no file of the tree that exclude leaves: src/**/*.go. "
        "Correct it in the catalogue: a pattern is matched against the whole path, and case counts"
    ]


@pytest.mark.parametrize(("kind", "more"), [("docs", SITE), ("code", "exclude: ['x/**']")])
def test_patterns_that_nobody_wrote_may_match_nothing(tmp_path: Path, kind: str, more: str) -> None:
    assert failed(tmp_path, kind, more) == (1, [])
