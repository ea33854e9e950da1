"""The report of what was asked, as a person sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kubeflow_corpus.cli.main import main
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.settings import Settings

from tests.query.corpus import MODEL, database


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("questions")
    path = folder / "questions.db"
    settings = Settings(milvus_uri=database(folder), question_log=str(path))
    with CorpusClient(settings=settings, embeddings=MODEL, timeout=60) as client:
        for question in ("How do I switch caching off?", "how can I switch off caching", "how do I bake a cake"):
            client.search_docs(question, request_id=question[:10])
        client.report_answer("how do I b", False, "about cakes")
        client.search_issues("quux flooble zzyzx")
    return path


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["questions", *words]) == 0
    return capsys.readouterr().out


def test_a_person_reads_what_went_wrong(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ran(capsys, str(log), "--peek")
    assert "4 questions, 3 different ones" in text
    assert "1 did not help:" in text and "how do I bake a cake" in text
    assert "2 found nothing:" in text and "quux flooble" in text
    assert "2 x  how can I switch off caching" in text and "also: How do I switch caching off?" in text
    assert "request how do I b" in text


def test_new_is_new_once(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "3 are new" in ran(capsys, str(log), "--peek")
    assert "are new" in ran(capsys, str(log))
    assert "are new" not in ran(capsys, str(log))


def test_words_alone_need_no_model(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDDINGS_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("QUESTION_LOG", str(log))
    assert "4 different ones" in ran(capsys, "--words-only", "--peek")


def test_a_program_reads_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(ran(capsys, str(log), "--json", "--peek"))
    assert data["counts"]["asked"] == 4
    assert {"question", "times", "empty", "weak", "slow", "requests", "new"} <= data["groups"][0].keys()


def test_a_log_must_be_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUESTION_LOG", raising=False)
    assert main(["questions"]) == 1
    assert "QUESTION_LOG" in capsys.readouterr().err
