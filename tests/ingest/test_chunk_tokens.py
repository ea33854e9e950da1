"""A token budget that a setting alone decides, through the steps: it is recorded, and another one rebuilds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubeflow_corpus.ingest.results import StepResult

from tests.retrieval.samples import environment, run
from tests.sources.repositories import commit_files, make_repository

pytestmark = pytest.mark.slow

CATALOGUE = (
    "sources:\n  - {name: farm, type: docs, repo: example/farm, url: site, include: ['docs/*.md'],"
    " site: {generator: docusaurus, root: docs, base_url: 'https://farm.example/'}}\n"
)
LONG = "# Pruning\n\n" + "\n\n".join(f"In year {year} each of the trees is pruned once more." for year in range(60))


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Path]:
    make_repository(
        tmp_path / "site", {"docs/pruning.md": LONG.encode(), "docs/storing.md": b"# Storing\n\nIn a cellar."}
    )
    (tmp_path / "catalogue.yaml").write_text(CATALOGUE)
    with environment(str(tmp_path / "farm.db"), tmp_path / "vectors"):
        yield tmp_path


def ran(farm: Path, number: int) -> StepResult:
    result = run("docs", farm / f"run-{number}", catalogue=farm / "catalogue.yaml")
    assert result.ok, result.error
    return result


def test_a_budget_is_kept_from_run_to_run_and_another_one_rebuilds(farm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHUNK_TOKENS", "200")
    first = ran(farm, 1)
    assert first.made_with.token_budget == 200
    assert (first.planned.mode, first.planned.total("added")) == ("rebuild", 2)

    second = ran(farm, 2)
    assert second.planned.settled.keys() == {"farm"}, "nothing changed, and no row is compared to find that"
    assert second.applied.rows["rows_written"] == 0

    commit_files(farm / "site", {"docs/storing.md": b"# Storing\n\nIn the attic."})
    third = ran(farm, 3)
    assert (third.planned.mode, third.planned.settled) == ("incremental", {})
    assert (third.planned.total("changed"), third.planned.total("unchanged")) == (1, 1)
    assert third.applied.rows["rows_held"] == first.applied.rows["rows_held"]

    monkeypatch.delenv("CHUNK_TOKENS")
    fourth = ran(farm, 4)
    assert fourth.planned.reasons == ("token budget changed from 200 to 256",)
    assert fourth.applied.rows["rows_held"] < first.applied.rows["rows_held"]
