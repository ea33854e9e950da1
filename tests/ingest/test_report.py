"""The last step: every failure in one line, a webhook that is told, and no secret that is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kfp.dsl import PipelineTaskFinalStatus
from kubeflow_corpus.errors import RunFailed
from kubeflow_corpus.ingest.components.report import tell_of_crash
from kubeflow_corpus.ingest.outcomes import Outcome, fresh_folder, write_outcome
from kubeflow_corpus.ingest.report import report_run, summary_lines
from kubeflow_corpus.ingest.summary import markdown

from tests.servers.webhook import Webhook, serve_webhook

GOOD = Outcome("apples", "chunk", counts={"documents": 2, "chunks": 3, "left out": 1, "left out: draft": 1})
BAD = Outcome("bees", "fetch", "failed", "there is no example/bees", "Check repo")


def published(folder: Path, **outcomes: Outcome) -> dict[str, str]:
    paths = {}
    for collection, outcome in outcomes.items():
        write_outcome(fresh_folder(str(folder / collection)), outcome)
        paths[collection] = str(folder / collection)
    return paths


def test_a_run_without_failures_prints_its_table_and_ends_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report_run(published(tmp_path, docs=Outcome("", "publish", counts={"rows written": 3}, sources=(GOOD,))))
    said = capsys.readouterr().out
    assert "docs: 3 rows written" in said
    assert "apples: 1 left out: draft" in said


def test_every_failure_of_every_collection_is_in_the_one_error(tmp_path: Path) -> None:
    docs = Outcome("", "publish", sources=(GOOD, BAD))
    issues = Outcome("", "apply", "failed", "issues_rag is being written by run 7", "Wait for it")
    code = Outcome("", "publish", sources=(Outcome("katib", "chunk", alarms=("stopped at a rate limit",)),))
    with pytest.raises(RunFailed) as failed:
        report_run(published(tmp_path, docs=docs, issues=issues, code=code))
    assert str(failed.value).split("; ") == [
        "docs: source bees failed at fetch: there is no example/bees. Check repo",
        "issues: collection failed at apply: issues_rag is being written by run 7. Wait for it",
        "code: source katib is not complete: stopped at a rate limit",
    ]
    assert "\n" not in str(failed.value)
    assert failed.value.fields["failures"][0]["source"] == "bees"


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with serve_webhook() as server:
        monkeypatch.setenv("NOTIFY_WEBHOOK_URL", server.url)
        yield server


def test_the_webhook_is_told_of_a_failure_and_of_nothing_else(tmp_path: Path, webhook: Webhook) -> None:
    report_run(published(tmp_path, docs=Outcome("", "publish", sources=(GOOD,))))
    assert webhook.told == []
    with pytest.raises(RunFailed):
        report_run(published(tmp_path, docs=Outcome("", "publish", sources=(BAD,))))
    assert webhook.told == ["docs: source bees failed at fetch: there is no example/bees. Check repo"]


def test_a_webhook_that_fails_hides_no_failure_and_its_address_is_not_shown(
    tmp_path: Path, webhook: Webhook, capsys: pytest.CaptureFixture[str]
) -> None:
    webhook.status = 500
    with pytest.raises(RunFailed, match="bees"):
        report_run(published(tmp_path, docs=Outcome("", "publish", sources=(BAD,))))
    said = capsys.readouterr().out
    assert "The webhook was not told" in said
    assert "secret-path" not in said


def final_status(state: str, message: str = "") -> PipelineTaskFinalStatus:
    """What KFP hands to the task that it starts whatever became of a graph."""
    return PipelineTaskFinalStatus(state, "pipelines/1", "docs", 137 if message else None, message or None)


def test_the_webhook_is_told_once_of_steps_that_broke_off_by_run_and_step(webhook: Webhook) -> None:
    status = final_status("FAILED", "Task embed-driver/embed:\n  OOMKilled (exit code 137).")
    tell_of_crash.python_func(collection="docs", run_name="docs-daily-1", run_id="7b2e", status=status)
    (told,) = webhook.told
    assert told.startswith("docs: run docs-daily-1 (7b2e) broke off before its report: ")
    assert "embed: OOMKilled (exit code 137)." in told
    assert "run again" in told
    assert "\n" not in told


@pytest.mark.parametrize("state", ["SUCCEEDED", "COMPLETE", "CACHED", "SKIPPED", "CANCELED", "RUNNING", ""])
def test_nothing_is_told_of_steps_that_ended_or_of_which_kfp_does_not_know(webhook: Webhook, state: str) -> None:
    tell_of_crash.python_func(collection="docs", run_name="docs-1", run_id="7b2e", status=final_status(state))
    assert webhook.told == []


def test_a_crash_of_which_nothing_is_said_is_told_all_the_same(webhook: Webhook) -> None:
    tell_of_crash.python_func(collection="code", run_name="all-1", run_id="7b2e", status=final_status("FAILED"))
    assert webhook.told[0].startswith("code: run all-1 (7b2e) broke off before its report: KFP does not say which step")


def test_a_collection_without_sources_is_no_failure(tmp_path: Path) -> None:
    report_run(published(tmp_path, issues=Outcome("", "plan", "none")))
    assert summary_lines("issues", Outcome("", "plan", "none")) == ["issues: no source"]


def test_the_summary_of_the_ui_names_sources_reasons_and_failures() -> None:
    text = markdown("docs", Outcome("", "publish", sources=(GOOD, BAD)))
    assert "| apples | 2 | 1 | 3 | ok |" in text
    assert "- apples: 1 left out: draft" in text
    assert "**docs: source bees failed at fetch: there is no example/bees. Check repo**" in text
