"""A question from the log becomes a test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.cli.main import main
from kubeflow_corpus.evaluation.questions import load_questions
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.settings import Settings

from tests.query.corpus import MODEL, database


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, list[str]]:
    """A corpus, a log with three requests, and the units that the first found."""
    folder = tmp_path_factory.mktemp("asked")
    uri, log = database(folder), folder / "questions.db"
    with CorpusClient(settings=Settings(milvus_uri=uri, question_log=str(log)), embeddings=MODEL, timeout=60) as client:
        found = client.search_docs("how do I switch caching off?", version="v2", request_id="caching")
        client.search_issues("ImagePullBackOff after an upgrade", request_id="pull")
        client.search_docs("caching with password=hunter2", request_id="secret")
    return uri, log, [hit.unit_id for hit in found.hits]


@pytest.fixture
def environment(asked: tuple[str, Path, list[str]], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MILVUS_URI", asked[0])
    monkeypatch.setenv("QUESTION_LOG", str(asked[1]))
    yield


def added(file: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(file.read_text().splitlines()[-1])
    return data


def test_a_hit_of_the_logged_answer_is_expected_by_its_rank(
    environment: None, asked: tuple[str, Path, list[str]], tmp_path: Path
) -> None:
    file = tmp_path / "set" / "questions.jsonl"
    assert main(["eval", "add", str(file), "--from", "caching", "--unit", "1"]) == 0
    question = added(file)
    assert (question["query"], question["tool"], question["kind"]) == ("how do I switch caching off?", "docs", "asked")
    unit = asked[2][0]
    assert question["expected"] == {f"acme/site:{unit.partition(':')[2]}": 3}
    assert question["filters"] == {"version": "v2"}
    assert load_questions(file)[0].id == question["id"] == "d001"


def test_any_unit_and_path_can_be_expected(environment: None, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    words = [
        "--from",
        "pull",
        "--kind",
        "symptom",
        "--unit",
        "issues:acme/kfp/11",
        "--expected",
        "acme/kfp:issues/acme/kfp/12=2",
    ]
    assert main(["eval", "add", str(file), *words]) == 0
    assert added(file)["expected"] == {"acme/kfp:issues/acme/kfp/11": 3, "acme/kfp:issues/acme/kfp/12": 2}
    assert added(file)["kind"] == "symptom"


def test_what_was_taken_out_can_be_said_in_other_words(
    environment: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "questions.jsonl"
    assert main(["eval", "add", str(file), "--from", "secret", "--unit", "1"]) == 0
    assert "taken out" in capsys.readouterr().err
    assert main(["eval", "add", str(file), "caching with a password", "--from", "secret", "--unit", "1"]) == 0
    assert added(file)["query"] == "caching with a password" and added(file)["id"] == "d002"
    assert "taken out" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--from", "nothing", "--unit", "1"], "has no request"),
        (["--from", "caching"], "Nothing says what would be right"),
        (["--from", "caching", "--unit", "99"], "hits of this request"),
        (["--from", "caching", "--unit", "site:nothing#x"], "There is no unit"),
        (["--unit", "site:caching.md#use"], "missing"),
        (["why", "--kind", "howto", "--expected", "a/b:c"], "missing"),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_written(
    environment: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert main(["eval", "add", str(tmp_path / "questions.jsonl"), *words]) == 1
    assert says in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def test_a_log_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("QUESTION_LOG", raising=False)
    assert main(["eval", "add", str(tmp_path / "q.jsonl"), "--from", "caching", "--unit", "1"]) == 1
    assert "QUESTION_LOG" in capsys.readouterr().err
