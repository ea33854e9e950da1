"""What one step tells the next, and what a step says of itself."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from kubeflow_corpus.errors import ArtifactError, GateFailed, RepositoryNotFound
from kubeflow_corpus.ingest.options import RunOptions
from kubeflow_corpus.ingest.progress import step
from kubeflow_corpus.ingest.results import RowInputs, SourceState, StepResult, by_reason, totals
from kubeflow_corpus.ingest.step import Work, fresh_folder, read_result, read_source, run_step, write_result
from kubeflow_corpus.model import ModelIdentity, make_recipe
from kubeflow_corpus.records import GateReport, Skip
from kubeflow_corpus.store.record import RunRecord
from kubeflow_corpus.store.settled import Settled, unchanged_plan

from tests.store.synthetic import DOCS

RECIPE = make_recipe(ModelIdentity("none", "1", 384, 256))


def source(step: str = "fetch", **values: object) -> SourceState:
    return SourceState(collection="docs", step=step, source="a", **values)  # type: ignore[arg-type]


def half_done(work: Work[SourceState]) -> SourceState:
    (work.folder / "rows").write_text("half")
    raise RepositoryNotFound("there is no example/a", remedy="Check repo", source="a")


def test_an_error_that_is_understood_becomes_the_result_and_what_was_half_written_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "fetch"
    run_step(source(), str(folder), half_done)
    result = read_source(folder)
    assert (result.source, result.step, result.status) == ("a", "fetch", "failed")
    assert result.error == "there is no example/a. Check repo"
    assert not (folder / "rows").exists()


def test_a_step_behind_a_failed_one_does_nothing_and_says_the_same(tmp_path: Path) -> None:
    failed = source(status="failed", problem="there is no example/a", remedy="Check repo").begin("chunk")
    run_step(failed, str(tmp_path / "chunk"), lambda work: pytest.fail("worked"))
    assert read_source(tmp_path / "chunk") == failed
    assert failed.step == "fetch"


def test_a_defect_is_raised(tmp_path: Path) -> None:
    def work(work: Work[SourceState]) -> SourceState:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_step(source("chunk"), str(tmp_path / "chunk"), work)


def test_an_error_of_many_lines_becomes_one(tmp_path: Path) -> None:
    def work(work: Work[StepResult]) -> StepResult:
        raise GateFailed("The gate failed:\n  - one\n  - two\n", remedy="Look")

    result = run_step(StepResult(collection="docs", step="publish"), str(tmp_path), work)
    assert result.problem == "The gate failed: - one - two"


def test_a_folder_that_a_failed_try_left_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "deep" / "file").write_text("old")
    assert list(fresh_folder(str(tmp_path / "out")).iterdir()) == []
    (tmp_path / "file").write_text("KFP may have made a file of this name")
    assert fresh_folder(str(tmp_path / "file")).is_dir()


def test_a_source_survives_its_way_through_json_and_gives_the_same_text_each_time() -> None:
    inputs = RowInputs(RECIPE, "digest", "c0ffee", ("example/a", "example/b"))
    state = source(inputs=inputs, named=("a.md",), counts={"documents": 1}, skipped={"binary": 2}, alarms=("look",))
    assert SourceState.from_json(state.to_json()) == state
    assert SourceState.from_json(state.to_json()).to_json() == state.to_json()


def test_a_result_with_every_part_survives_its_way_through_a_folder(tmp_path: Path) -> None:
    settled = {"a": Settled("digest", 1, 2)}
    plan = unchanged_plan(DOCS, settled, prefix="", live="docs_v1", recipe=RECIPE, run="run-1")
    whole = StepResult(
        collection="docs",
        step="publish",
        options=RunOptions(sources=("a",), floors={"hit@5": 0.9}),
        run="run-1",
        names=("a",),
        recipe=RECIPE,
        settled=settled,
        failed_in={"a": "run-0"},
        plan=plan,
        record=RunRecord("run-1", "docs", "incremental", "docs_v1", "docs_v1", "2026-01-02T03:04:05Z"),
        gate=GateReport(True, ("look",), {"hit@5": 1.0}),
        sources=(source(),),
    )
    write_result(tmp_path, whole)
    assert read_result(tmp_path) == whole


def test_skips_are_counted_in_all_and_by_reason() -> None:
    skips = [Skip("a:1", "1", "binary"), Skip("a:2", "2", "binary"), Skip("a:3", "3", "too large")]
    state = source(counts={"documents": 5}, skipped=by_reason(skips))
    assert state.figures == {"documents": 5, "skipped": 3}
    assert state.reasons == {"skipped: binary": 2, "skipped: too large": 1}
    assert totals([state, state]) == {"documents": 10, "skipped": 6}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_an_error_with_a_remedy(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ArtifactError, match="No space left on the disk for /data/rows"), step("chunk"):
        raise OSError(number, "No space left on device", "/data/rows")
    assert "Free some space" in capsys.readouterr().out


def test_other_trouble_with_files_stays_what_it_is() -> None:
    with pytest.raises(PermissionError), step("chunk"):
        raise PermissionError(errno.EACCES, "Permission denied", "/data/rows")
