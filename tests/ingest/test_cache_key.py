"""What `resolve_revision` says of a source is the key of KFP's cache: what its rows depend on, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.ingest.options import RunOptions
from kubeflow_corpus.ingest.results import StepResult
from kubeflow_corpus.ingest.sources import resolve_revision
from kubeflow_corpus.ingest.step import fresh_folder, write_result
from kubeflow_corpus.model import ModelIdentity, make_recipe

IDENTITY = ModelIdentity("none", "1", 384, 256)


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "a.py").write_text("A = 1\n")
    file = tmp_path / "catalogue.yaml"
    file.write_text("sources:\n  - {name: tools, type: code, repo: example/tools, url: tools}\n")
    return file


def key(catalogue: Path, *, chunk_tokens: int = 0, failed_in: str = "", **options: Any) -> str:
    asked = RunOptions.from_dict({"catalogue": str(catalogue), "runner": "local", **options})
    folder = fresh_folder(str(catalogue.parent / "state"))
    recipe = make_recipe(IDENTITY, chunk_tokens)
    failures = {"tools": failed_in} if failed_in else {}
    state = StepResult(collection="code", step="read_state", options=asked, recipe=recipe, failed_in=failures)
    write_result(folder, state)
    return resolve_revision("tools", str(folder)).to_json()


@pytest.mark.parametrize(
    "options",
    [
        {"rebuild": True},
        {"allow_deletions": ["tools"]},
        {"questions": "/q.jsonl", "floors": {"hit@5": 0.9}},
        {"wait_seconds": 60},
        {"run": "nightly"},
        {"sources": ["tools"]},
    ],
)
def test_options_that_rows_do_not_depend_on_leave_the_key_as_it_is(catalogue: Path, options: dict[str, Any]) -> None:
    assert key(catalogue, **options) == key(catalogue)


def test_the_key_changes_with_what_rows_are_made_of(catalogue: Path) -> None:
    keys = {key(catalogue), key(catalogue, chunk_tokens=200), key(catalogue, changed_paths=["tools:a.py"])}
    (catalogue.parent / "tools" / "a.py").write_text("A = 2\n")
    keys.add(key(catalogue))
    catalogue.write_text(catalogue.read_text().replace("url: tools", "url: tools, product_area: pipelines"))
    keys.add(key(catalogue))
    assert len(keys) == 5


def test_a_source_that_failed_is_fetched_again_and_on_a_cluster_a_result_is_good_for_a_day(catalogue: Path) -> None:
    assert key(catalogue, failed_in="run-7") != key(catalogue)
    assert '"attempt": ""' in key(catalogue)
    assert '"attempt": ""' not in key(catalogue, runner="cluster")
