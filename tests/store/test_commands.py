from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kubeflow_corpus.cli.main import main
from kubeflow_corpus.cli.prune import prune_runs
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.status import age_days, collect_status

from tests.store.conftest import Store
from tests.store.synthetic import Run, corpus, result


def test_the_commands_show_versions_and_roll_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(milvus_uri=str(tmp_path / "x.db"))
    monkeypatch.setenv("MILVUS_URI", settings.milvus_uri)
    monkeypatch.chdir(tmp_path)
    assert main(["status"]) == 1
    assert "kubeflow_docs: nothing is served" in capsys.readouterr().out
    with connected(settings) as client:
        for pages in (2, 3):
            Run(client, tmp_path, [result(tmp_path, "site", corpus("site", pages))], mode="rebuild").all()
    assert main(["status"]) == 0
    out = capsys.readouterr().out
    assert "kubeflow_docs -> kubeflow_docs_v2   9 rows, 3 documents" in out
    assert "added 1, changed 0, deleted 0, unchanged 2 documents, 3 texts embedded, 6 reused" in out
    assert main(["status", "--json"]) == 0
    docs = json.loads(capsys.readouterr().out)[0]
    assert (docs["live"], docs["documents"], docs["dimension"]) == ("kubeflow_docs_v2", {"site": 3}, 8)
    assert docs["documents_by_area"] == {"pipelines": 3}
    assert docs["sources"]["site"]["head"] == "c1"
    assert docs["newest_data"] == "2026-01-02T03:04:05Z"
    assert docs["last_run"]["outcome"] == "published"
    assert [version["state"] for version in docs["versions"]] == ["kept", "live"]
    assert main(["versions", "kubeflow_docs"]) == 0
    assert re.search(r"v1 +kept +6 rows", capsys.readouterr().out)
    assert main(["rollback", "kubeflow_docs"]) == 0
    assert "now serves kubeflow_docs_v1 (before: kubeflow_docs_v2)" in capsys.readouterr().out
    assert main(["prune", "--keep", "0", "--dry-run"]) == 0
    assert capsys.readouterr().out == "would drop kubeflow_docs_v2\n"
    assert main(["prune", "--keep", "0"]) == 0
    assert capsys.readouterr().out == "dropped kubeflow_docs_v2\n"
    assert main(["rollback", "kubeflow_docs"]) == 1
    assert "no earlier version" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["docs", "kubeflow_docs", "search_kubeflow_docs"])
def test_a_command_takes_any_name_of_a_collection(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(milvus_uri=str(tmp_path / "x.db"))
    monkeypatch.setenv("MILVUS_URI", settings.milvus_uri)
    monkeypatch.chdir(tmp_path)
    with connected(settings) as client:
        for pages in (2, 3):
            Run(client, tmp_path, [result(tmp_path, "site", corpus("site", pages))], mode="rebuild").all()
    assert main(["status", name, "--json"]) == 0
    assert [state["alias"] for state in json.loads(capsys.readouterr().out)] == ["kubeflow_docs"]
    assert main(["versions", name, "--json"]) == 0
    assert [*json.loads(capsys.readouterr().out)] == ["kubeflow_docs"]
    assert main(["rollback", name]) == 0
    assert capsys.readouterr().out == "kubeflow_docs now serves kubeflow_docs_v1 (before: kubeflow_docs_v2)\n"
    assert main(["prune", name, "--keep", "0", "--dry-run"]) == 0
    assert capsys.readouterr().out == "would drop kubeflow_docs_v2\n"


@pytest.mark.parametrize("command", ["status", "versions", "rollback", "prune", "search"])
def test_a_command_refuses_an_unknown_collection_and_lists_those_that_exist(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "ghosts", *(["a question"] if command == "search" else [])])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert "There is no collection 'ghosts'" in error
    assert all(name in error for name in ("docs", "kubeflow_docs", "search_kubeflow_docs", "issues_rag", "code_rag"))


def test_status_names_the_writer_at_work(embedded: Store) -> None:
    embedded.run(corpus("site", 1)).all()
    run = embedded.run(corpus("site", 1), mode="rebuild")
    plan = run.plan()
    record = run.apply(plan, run.embed(plan))
    state = collect_status(embedded.client, embedded.prefix)[0]
    assert state["writer"]["run"] == plan.run
    assert [version["state"] for version in state["versions"]] == ["live", "complete"]
    run.publish(plan, record)
    assert collect_status(embedded.client, embedded.prefix)[0]["writer"] is None


def test_prune_keeps_the_newest_local_runs_and_forgets_what_the_cache_knew_of_others(tmp_path: Path) -> None:
    for name in ("20260101-a", "20260102-b", "20260103-c"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "cache").mkdir(exist_ok=True)
        (tmp_path / "cache" / f"{name}.json").write_text(f'{{"path": "runs/{name}/chunks"}}')
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs" / "00-link").symlink_to(tmp_path / "elsewhere")
    assert [path.name for path in prune_runs(tmp_path, 1, dry_run=True)] == ["20260101-a", "20260102-b"]
    assert len(list((tmp_path / "cache").iterdir())) == 3
    prune_runs(tmp_path, 1)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["00-link", "20260103-c"]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["20260103-c.json"]
    assert (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("text", ["", "yesterday"])
def test_an_age_that_cannot_be_told_is_none(text: str) -> None:
    assert age_days(text) is None
