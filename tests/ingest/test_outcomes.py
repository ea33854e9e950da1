"""What one step hands on to the next, and what a step says of itself."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from kubeflow_corpus.errors import ArtifactError, GateFailed, RepositoryNotFound
from kubeflow_corpus.ingest.outcomes import (
    Outcome,
    fresh_folder,
    hand_on,
    read_outcome,
    reasons_of,
    skip_counts,
    totals_of,
)
from kubeflow_corpus.ingest.progress import step
from kubeflow_corpus.records import Skip


def test_an_error_that_is_understood_is_handed_on_and_what_was_half_written_is_gone(tmp_path: Path) -> None:
    folder = fresh_folder(str(tmp_path / "fetch"))

    def work() -> Outcome:
        (folder / "rows").write_text("half")
        raise RepositoryNotFound("there is no example/a", remedy="Check repo", source="a")

    hand_on(folder, Outcome("a", "fetch"), work)
    handed = read_outcome(folder)
    assert (handed.source, handed.step, handed.status) == ("a", "fetch", "failed")
    assert handed.error == "there is no example/a. Check repo"
    assert not (folder / "rows").exists()


def test_a_step_behind_a_failed_one_does_nothing_and_says_the_same(tmp_path: Path) -> None:
    failed = Outcome("a", "fetch", "failed", "there is no example/a", "Check repo").begin("chunk")
    folder = fresh_folder(str(tmp_path / "chunk"))
    hand_on(folder, failed, lambda: pytest.fail("worked"))
    assert read_outcome(folder) == failed
    assert failed.step == "fetch"


def test_a_defect_is_not_handed_on(tmp_path: Path) -> None:
    def work() -> Outcome:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hand_on(fresh_folder(str(tmp_path / "chunk")), Outcome("a", "chunk"), work)


def test_an_error_of_many_lines_becomes_one(tmp_path: Path) -> None:
    def work() -> Outcome:
        raise GateFailed("The gate failed:\n  - one\n  - two\n", remedy="Look")

    assert hand_on(fresh_folder(str(tmp_path)), Outcome("", "publish"), work).problem == "The gate failed: - one - two"


def test_a_folder_that_a_failed_try_left_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "deep" / "file").write_text("old")
    assert list(fresh_folder(str(tmp_path / "out")).iterdir()) == []
    (tmp_path / "file").write_text("KFP may have made a file of this name")
    assert fresh_folder(str(tmp_path / "file")).is_dir()


def test_an_outcome_survives_its_way_through_json_and_gives_the_same_text_each_time() -> None:
    part = Outcome("a", "chunk", counts={"documents": 1}, facts={"revision": "c0ffee"}, alarms=("look",))
    whole = Outcome("", "publish", sources=(part,))
    assert Outcome.from_json(whole.to_json()) == whole
    assert Outcome.from_json(whole.to_json()).to_json() == whole.to_json()


def test_skips_are_counted_in_all_and_by_reason() -> None:
    skips = [Skip("a:1", "1", "binary"), Skip("a:2", "2", "binary"), Skip("a:3", "3", "too large")]
    counts = {"documents": 5, **skip_counts(skips, "skipped")}
    assert totals_of(counts) == {"documents": 5, "skipped": 3}
    assert reasons_of(counts) == {"skipped: binary": 2, "skipped: too large": 1}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_an_error_with_a_remedy(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ArtifactError, match="No space left on the disk for /data/rows"), step("chunk"):
        raise OSError(number, "No space left on device", "/data/rows")
    assert "Free some space" in capsys.readouterr().out


def test_other_trouble_with_files_stays_what_it_is() -> None:
    with pytest.raises(PermissionError), step("chunk"):
        raise PermissionError(errno.EACCES, "Permission denied", "/data/rows")
