"""Submitting and scheduling against a server that speaks Kubeflow Pipelines' API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.__main__ import main
from pipelines.placement import KFP_RELEASES
from tests.servers.kfp_api import KfpApi, kfp_api

# The generated client calls a method of urllib3 that urllib3 has deprecated.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

IMAGE = "registry.example/kubeflow-corpus/python@sha256:" + "a" * 64
OTHER_IMAGE = "registry.example/kubeflow-corpus/python@sha256:" + "b" * 64
TOKEN = "a-token-that-nobody-may-see"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[KfpApi]:
    with kfp_api(TOKEN) as server:
        monkeypatch.setenv("KF_PIPELINES_ENDPOINT", server.url)
        monkeypatch.setenv("KF_PIPELINES_TOKEN", TOKEN)
        yield server


def schedules(folder: Path, *lines: str) -> str:
    file = folder / "schedules.yaml"
    file.write_text("schedules:\n" + "".join(f"  - {line}\n" for line in lines))
    return str(file)


DOCS = '{name: docs-daily, pipeline: docs, cron: "0 0 3 * * *", parameters: {catalogue: /etc/c.yaml, sources: [a]}}'
ISSUES = '{name: issues-hourly, pipeline: issues, cron: "0 15 * * * *"}'


def schedule(file: str, image: str = IMAGE) -> int:
    return main(["schedule", file, "--image", image])


def test_a_schedule_becomes_one_recurring_run_with_one_run_at_a_time(api: KfpApi, tmp_path: Path) -> None:
    assert schedule(schedules(tmp_path, DOCS)) == 0
    (made,) = api.recurring_runs.values()
    assert made["display_name"] == "docs-daily"
    assert made["trigger"]["cron_schedule"]["cron"] == "0 0 3 * * *"
    assert made["max_concurrency"] == "1"
    assert made["mode"] == "ENABLE"
    assert made["no_catchup"] is True
    assert made["runtime_config"]["parameters"] == {"options": {"catalogue": "/etc/c.yaml", "sources": ["a"]}}


def test_scheduling_twice_leaves_one_recurring_run_and_one_version(api: KfpApi, tmp_path: Path) -> None:
    file = schedules(tmp_path, DOCS, ISSUES)
    assert schedule(file) == 0
    first, versions = dict(api.recurring_runs), dict(api.versions)
    assert schedule(file) == 0
    assert api.recurring_runs == first
    assert api.versions == versions
    assert len(first) == 2


def test_a_changed_cron_replaces_the_recurring_run(api: KfpApi, tmp_path: Path) -> None:
    schedule(schedules(tmp_path, DOCS, ISSUES))
    before = set(api.recurring_runs)
    schedule(schedules(tmp_path, DOCS.replace("0 0 3", "0 30 4"), ISSUES))
    crons = {item["display_name"]: item["trigger"]["cron_schedule"]["cron"] for item in api.recurring_runs.values()}
    assert crons == {"docs-daily": "0 30 4 * * *", "issues-hourly": "0 15 * * * *"}
    assert len(before & set(api.recurring_runs)) == 1


def test_the_new_recurring_run_is_there_before_the_old_one_goes(api: KfpApi, tmp_path: Path) -> None:
    schedule(schedules(tmp_path, DOCS))
    api.calls.clear()
    schedule(schedules(tmp_path, DOCS.replace("0 0 3", "0 30 4")))
    written = [call.split()[0] for call in api.calls if "recurringruns" in call and not call.startswith("GET")]
    assert written == ["POST", "DELETE"]


def test_a_new_image_replaces_the_recurring_run_because_its_version_is_another(api: KfpApi, tmp_path: Path) -> None:
    file = schedules(tmp_path, DOCS)
    schedule(file)
    (old,) = api.recurring_runs.values()
    schedule(file, OTHER_IMAGE)
    (new,) = api.recurring_runs.values()
    assert new["pipeline_version_reference"] != old["pipeline_version_reference"]


def test_a_schedule_that_left_the_file_is_deleted_and_one_made_by_people_stays(api: KfpApi, tmp_path: Path) -> None:
    schedule(schedules(tmp_path, DOCS, ISSUES))
    experiment = next(iter(api.experiments))
    api.recurring_runs["by-hand"] = {
        "recurring_run_id": "by-hand",
        "display_name": "by-hand",
        "experiment_id": experiment,
        "description": "",
    }
    schedule(schedules(tmp_path, ISSUES))
    assert {item["display_name"] for item in api.recurring_runs.values()} == {"issues-hourly", "by-hand"}


def test_what_a_failed_call_left_twice_is_one_again_after_the_next(api: KfpApi, tmp_path: Path) -> None:
    file = schedules(tmp_path, DOCS)
    schedule(file)
    (made,) = api.recurring_runs.values()
    for number in range(5):
        key = f"twin-{number}"
        api.recurring_runs[key] = {**made, "recurring_run_id": key}
    schedule(file)
    assert len(api.recurring_runs) == 1


def test_a_disabled_schedule_is_created_disabled(api: KfpApi, tmp_path: Path) -> None:
    schedule(schedules(tmp_path, ISSUES.replace("}", ", enabled: false}")))
    (made,) = api.recurring_runs.values()
    assert made["mode"] == "DISABLE"


def test_submit_starts_one_run_of_the_uploaded_version(api: KfpApi, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["submit", "docs", "--image", IMAGE, "--parameter", 'sources=["a"]', "--parameter", "catalogue=/c.yaml"]
    assert main(words) == 0
    (run,) = api.runs.values()
    assert run["runtime_config"]["parameters"] == {"options": {"sources": ["a"], "catalogue": "/c.yaml"}}
    assert run["run_id"] in capsys.readouterr().out


def test_submit_asks_for_documents_by_name_and_refuses_what_is_none_before_anything_is_uploaded(
    api: KfpApi, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["submit", "docs", "--image", IMAGE, "--changed-paths"]
    assert main([*words, "site:docs/a.md", "site:../b.md"]) == 1
    assert "'site:../b.md' leads out of the repository" in capsys.readouterr().err
    assert not api.pipelines
    assert main([*words, "site:docs/a.md", "site:docs/b.md"]) == 0
    (run,) = api.runs.values()
    assert run["runtime_config"]["parameters"] == {"options": {"changed_paths": ["site:docs/a.md", "site:docs/b.md"]}}


@pytest.mark.parametrize("command", ["submit", "schedule"])
def test_an_unknown_parameter_is_refused_before_anything_is_uploaded(
    api: KfpApi, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = '{name: a, pipeline: docs, cron: "0 0 3 * * *", parameters: {catalog: x}}'
    words = {
        "submit": ["submit", "docs", "--parameter", "catalog=x"],
        "schedule": ["schedule", schedules(tmp_path, entry)],
    }
    assert main([*words[command], "--image", IMAGE]) == 1
    said = capsys.readouterr().err
    assert "no parameter catalog" in said
    assert "catalogue" in said
    assert not api.pipelines


def test_the_error_of_a_server_that_is_too_old_names_the_supported_releases(
    api: KfpApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.final_status = False
    words = ["submit", "docs", "--image", IMAGE]
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "This server is too old" in said
    assert f"{KFP_RELEASES[0]} and later" in said
    assert not api.runs


@pytest.mark.parametrize("command", ["submit", "schedule"])
def test_a_wrong_token_gives_one_line_that_names_the_remedy_and_no_token(
    api: KfpApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    monkeypatch.setenv("KF_PIPELINES_TOKEN", "wrong-token")
    words = {"submit": ["submit", "docs"], "schedule": ["schedule", schedules(tmp_path, DOCS)]}
    assert main([*words[command], "--image", IMAGE]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "does not accept the token" in said
    assert "KF_PIPELINES_TOKEN" in said
    assert "wrong-token" not in said


def test_a_host_that_does_not_answer_gives_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KF_PIPELINES_ENDPOINT", "http://127.0.0.1:1")
    assert schedule(schedules(tmp_path, DOCS)) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "http://127.0.0.1:1 does not answer" in said


def test_the_token_may_come_from_the_file_that_kubernetes_projects(
    api: KfpApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    monkeypatch.delenv("KF_PIPELINES_TOKEN")
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "token"))
    assert schedule(schedules(tmp_path, DOCS)) == 0


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('{name: a, pipeline: docs, cron: "0 3 * * *"}', "six fields"),
        ('{name: a, pipeline: docs, cron: "0 0 3 * * *; rm"}', "six fields"),
        ('{name: a, pipeline: doc, cron: "0 0 3 * * *"}', "pipeline 'doc'"),
        ('{name: a, pipeline: docs, cron: "0 0 3 * * *", parameters: {rebuild: maybe}}', "rebuild is 'maybe'"),
        ('{name: A b, pipeline: docs, cron: "0 0 3 * * *"}', "name 'A b'"),
        ('{name: a, pipeline: docs, cron: "0 0 3 * * *", crom: 1}', "unknown key 'crom'"),
        ('{name: a, pipeline: docs, cron: "0 0 3 * * *", enabled: sometimes}', "enabled is true or false"),
        ("just text", "is not a mapping"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_nothing_is_called(
    api: KfpApi, tmp_path: Path, capsys: pytest.CaptureFixture[str], entry: str, problem: str
) -> None:
    file = schedules(tmp_path, entry)
    assert schedule(file) == 1
    said = capsys.readouterr().err
    assert problem in said
    assert file in said
    assert not api.calls


def test_a_missing_host_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KF_PIPELINES_ENDPOINT", raising=False)
    assert schedule(schedules(tmp_path, DOCS)) == 1
    assert "KF_PIPELINES_ENDPOINT is not set" in capsys.readouterr().err
