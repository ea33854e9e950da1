"""The last step: every failure in one line, a webhook that is notified, and no secret that is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kfp.dsl import PipelineTaskFinalStatus
from kubeflow_corpus.errors import RunFailed
from kubeflow_corpus.ingest.components import notify_crash
from kubeflow_corpus.ingest.report import report
from kubeflow_corpus.ingest.results import SourceState, StepResult
from kubeflow_corpus.ingest.step import fresh_folder, write_result
from kubeflow_corpus.ingest.summary import markdown, summary_lines

from tests.servers.webhook import Webhook, serve_webhook

GOOD = SourceState(
    collection="docs", step="chunk", source="apples", counts={"documents": 2, "chunks": 3}, left_out={"draft": 1}
)
BAD = SourceState(
    collection="docs",
    step="fetch",
    status="failed",
    problem="there is no example/bees",
    remedy="Check repo",
    source="bees",
)


def result(*sources: SourceState, collection: str = "docs", step: str = "publish", **values: Any) -> StepResult:
    return StepResult(collection=collection, step=step, sources=sources, **values)


def written(folder: Path, *results: StepResult) -> list[str]:
    """The folders that `publish` leaves."""
    for each in results:
        write_result(fresh_folder(str(folder / each.collection)), each)
    return [str(folder / each.collection) for each in results]


def test_a_run_without_failures_prints_its_table_and_ends_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(written(tmp_path, result(GOOD, counts={"rows written": 3})))
    said = capsys.readouterr().out
    assert "docs: 3 rows written" in said
    assert "apples: 1 left out: draft" in said


def test_every_failure_of_every_collection_is_in_the_one_error(tmp_path: Path) -> None:
    held = {"problem": "issues_rag is being written by run 7", "remedy": "Wait for it"}
    issues = result(collection="issues", step="apply", status="failed", **held)
    alarm = SourceState(collection="code", step="chunk", source="katib", alarms=("stopped at a rate limit",))
    with pytest.raises(RunFailed) as failed:
        report(written(tmp_path, result(GOOD, BAD), issues, result(alarm, collection="code")))
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


def test_the_webhook_is_notified_of_a_failure_and_of_nothing_else(tmp_path: Path, webhook: Webhook) -> None:
    report(written(tmp_path, result(GOOD)))
    assert webhook.told == []
    with pytest.raises(RunFailed):
        report(written(tmp_path, result(BAD)))
    assert webhook.told == ["docs: source bees failed at fetch: there is no example/bees. Check repo"]


def test_a_webhook_that_fails_hides_no_failure_and_its_address_is_not_shown(
    tmp_path: Path, webhook: Webhook, capsys: pytest.CaptureFixture[str]
) -> None:
    webhook.status = 500
    with pytest.raises(RunFailed, match="bees"):
        report(written(tmp_path, result(BAD)))
    said = capsys.readouterr().out
    assert "The webhook was not notified" in said
    assert "secret-path" not in said


def final_status(state: str, message: str = "") -> PipelineTaskFinalStatus:
    """What KFP gives to the task that it starts however a graph ended."""
    return PipelineTaskFinalStatus(state, "pipelines/1", "docs", 137 if message else None, message or None)


def test_the_webhook_is_notified_once_of_steps_that_ended_early_by_run_and_step(webhook: Webhook) -> None:
    status = final_status("FAILED", "Task embed-driver/embed:\n  OOMKilled (exit code 137).")
    notify_crash.python_func(collection="docs", run_name="docs-daily-1", run_id="7b2e", status=status)
    (told,) = webhook.told
    assert told.startswith("docs: run docs-daily-1 (7b2e) ended before its report: ")
    assert "embed: OOMKilled (exit code 137)." in told
    assert "run again" in told
    assert "\n" not in told


@pytest.mark.parametrize("state", ["SUCCEEDED", "COMPLETE", "CACHED", "SKIPPED", "CANCELED", "RUNNING", ""])
def test_no_notice_of_steps_that_ended_well_or_that_kfp_knows_nothing_of(webhook: Webhook, state: str) -> None:
    notify_crash.python_func(collection="docs", run_name="docs-1", run_id="7b2e", status=final_status(state))
    assert webhook.told == []


def test_a_crash_without_a_message_is_notified_all_the_same(webhook: Webhook) -> None:
    notify_crash.python_func(collection="code", run_name="all-1", run_id="7b2e", status=final_status("FAILED"))
    assert webhook.told[0].startswith("code: run all-1 (7b2e) ended before its report: KFP does not say which step")


def test_a_collection_without_sources_does_not_fail(tmp_path: Path) -> None:
    none = result(collection="issues", step="plan", status="none")
    report(written(tmp_path, none))
    assert summary_lines(none) == ["issues: no source"]


def test_the_summary_of_the_ui_names_sources_reasons_and_failures() -> None:
    text = markdown(result(GOOD, BAD))
    assert "| apples | 2 | 1 | 3 | ok |" in text
    assert "- apples: 1 left out: draft" in text
    assert "**docs: source bees failed at fetch: there is no example/bees. Check repo**" in text
