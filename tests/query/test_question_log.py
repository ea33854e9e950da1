"""The log of questions: what it keeps, for how long, from many writers, and that it costs nobody an answer."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from kubeflow_corpus.errors import CorpusError, SettingsError
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.query.question_log import (
    QuestionLog,
    find_question,
    last_reading,
    note_reading,
    read_log,
)
from kubeflow_corpus.query.results import SearchResult
from kubeflow_corpus.settings import Settings

from tests.query.corpus import MODEL
from tests.query.test_scrubbing import NAMED, TOKENS, VALUES

DAY = 86_400.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "questions.db"


@pytest.fixture
def logged(corpus_uri: str, path: Path) -> Iterator[CorpusClient]:
    settings = Settings(milvus_uri=corpus_uri, question_log=str(path))
    with CorpusClient(settings=settings, embeddings=MODEL, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def result(client: CorpusClient) -> SearchResult:
    return client.search_docs("how do I switch caching off?")


def everything(path: Path) -> bytes:
    """Every byte of the log and of what stands beside it."""
    return b"".join(file.read_bytes() for file in path.parent.iterdir())


def test_a_question_is_kept_with_what_was_found(logged: CorpusClient, path: Path) -> None:
    result = logged.search_docs("how do I switch caching off in pipelines?", version="v2", request_id="first")
    logged.search_issues("quux flooble zzyzx", state="open")
    asked, nothing = read_log(path)
    assert asked.request_id == "first" and asked.collection == "docs"
    assert asked.question == "how do I switch caching off in pipelines?"
    assert (asked.intent, asked.mode) == (result.intent.name, result.intent.mode)
    assert asked.filters == {"version": ["v2"]} and asked.areas == ("pipelines",)
    assert [unit for unit, _ in asked.units] == [hit.unit_id for hit in result.hits]
    assert asked.cosine and asked.cosine > 0.4 and asked.coverage and asked.coverage > 0.5
    assert asked.code == "OK" and asked.total_ms > 0 and not asked.degraded
    assert nothing.collection == "issues" and nothing.units == ()


def test_a_question_that_failed_is_kept(logged: CorpusClient, path: Path) -> None:
    with pytest.raises(CorpusError):
        logged.search_docs("caching", product_area="quux", request_id="failed")
    assert [(asked.request_id, asked.code) for asked in read_log(path)] == [("failed", "INVALID_ARGUMENT")]


def test_views_keep_their_questions_too(logged: CorpusClient, path: Path) -> None:
    logged.scoped(["team-a"]).search_docs("caching")
    logged.tuned(logged._session.engine.tuning).search_docs("caching")
    assert len(read_log(path)) == 2


def test_no_secret_reaches_the_file(logged: CorpusClient, path: Path) -> None:
    texts = [f"why? {named.format(value)}" for named in NAMED for value in VALUES[:2]]
    texts += [f"caching fails with {token}" for token in TOKENS]
    texts += ["ask jane.doe@mail.example about https://wiki.acme.example/x on 10.1.2.3"]
    for text in texts:
        logged.search_docs(text, mode="bm25", source=[text[:60]])
    logged.search_docs("caching", request_id="r")
    assert logged.report_answer("r", False, "mail jane.doe@mail.example, password is hunter2")
    logged.close()
    kept = everything(path)
    for secret in (*TOKENS, *VALUES[:2], "jane.doe", "acme", "10.1.2.3"):
        assert secret.encode() not in kept


def test_nothing_says_who_asked(logged: CorpusClient, path: Path) -> None:
    logged.search_docs("caching")
    with closing(sqlite3.connect(path)) as database:
        names = {row[1] for row in database.execute("PRAGMA table_info(questions)")}
    assert names == {
        *("request_id", "at", "collection", "question", "intent", "mode", "filters", "areas", "units", "cosine"),
        *("coverage", "degraded", "total_ms", "code"),
    }


def test_what_somebody_says_of_an_answer_is_kept_beside_it(logged: CorpusClient, path: Path) -> None:
    logged.search_docs("caching", request_id="asked")
    assert not logged.report_answer("unknown", True)
    assert logged.report_answer("asked", True)
    assert logged.report_answer("asked", False, "it is about v1")
    found = find_question(path, "asked")
    assert found and found.verdict and (found.verdict.helpful, found.verdict.note) == (False, "it is about v1")
    assert find_question(path, "unknown") is None


def test_without_a_log_there_is_nothing_to_report_to(client: CorpusClient) -> None:
    result = client.search_docs("caching")
    assert client.report_answer(result.request_id, True) is False


def test_the_file_is_for_its_owner_alone(logged: CorpusClient, path: Path) -> None:
    logged.search_docs("caching")
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


def test_what_is_too_old_is_deleted(path: Path, result: SearchResult) -> None:
    now = [1_000 * DAY]
    log = QuestionLog(path, 30, clock=lambda: now[0])
    log.record("docs", "an old question about caching", replace(result, request_id="old"))
    log.report("old", True, "an old note")
    now[0] += 29 * DAY
    log.record("docs", "another one", replace(result, request_id="later"))
    assert [asked.request_id for asked in read_log(path)] == ["old", "later"]
    now[0] += 2 * DAY
    log.record("docs", "a new one", replace(result, request_id="new"))
    log.close()
    assert [asked.request_id for asked in read_log(path)] == ["later", "new"]
    assert b"an old" not in everything(path)


@pytest.mark.parametrize("broken", ["folder", "text", "tables", "newer"])
def test_a_log_that_cannot_be_written_costs_no_answer(
    corpus_uri: str, path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    if broken == "folder":
        path.mkdir()
    elif broken == "text":
        path.write_text("these are my notes" * 100)
    else:
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("PRAGMA user_version = 99" if broken == "newer" else "CREATE TABLE questions (x)")
        database.close()
    settings = Settings(milvus_uri=corpus_uri, question_log=str(path))
    with (
        caplog.at_level(logging.WARNING, "kubeflow_corpus.query"),
        CorpusClient(settings=settings, embeddings=MODEL, timeout=60) as client,
    ):
        assert client.search_docs("caching").hits
        assert client.search_docs("caching").hits
        assert client.report_answer("any", True) is False
    assert len([record for record in caplog.records if "question_not_logged" in record.message]) == 1
    if broken == "text":
        assert path.read_text().startswith("these are my notes")
        with pytest.raises(SettingsError, match="not a log"):
            read_log(path)


def test_a_missing_log_is_named(path: Path) -> None:
    with pytest.raises(SettingsError, match="QUESTION_LOG"):
        read_log(path)


def test_a_reading_is_noted(path: Path, result: SearchResult) -> None:
    QuestionLog(path, 1).record("docs", "caching", result)
    assert last_reading(path) == 0.0
    note_reading(path, 12.0)
    note_reading(path, 34.0)
    assert last_reading(path) == 34.0


WRITER = """
import pickle, sys
from dataclasses import replace
from pathlib import Path
from kubeflow_corpus.query.question_log import QuestionLog
name, count, path = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
from tests.query.test_question_log import searched
result = searched(sys.argv[4])
log = QuestionLog(path, 90)
for number in range(count):
    log.record("docs", f"question {number} of {name}", replace(result, request_id=f"{name}-{number}"))
    print(number, flush=True)
"""


def searched(uri: str) -> SearchResult:
    """One real answer, for a process that writes it many times."""
    with CorpusClient(milvus_uri=uri, embeddings=MODEL, timeout=60) as client:
        return client.search_docs("how do I switch caching off?")


def writer(tmp_path: Path, corpus_uri: str, path: Path, name: str, count: int) -> subprocess.Popen[str]:
    copy = shutil.copytree(corpus_uri, tmp_path / f"{name}.db")
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, name, str(count), str(path), str(copy)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.slow
def test_ten_thousand_questions_of_several_writers_are_all_kept(
    tmp_path: Path, corpus_uri: str, path: Path, result: SearchResult
) -> None:
    others = [writer(tmp_path, corpus_uri, path, f"process{number}", 2_000) for number in range(2)]
    log = QuestionLog(path, 90)

    def write(thread: int) -> None:
        for number in range(1_500):
            log.record("docs", f"question {number}", replace(result, request_id=f"thread{thread}-{number}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    for other in others:
        other.communicate(timeout=250)
        assert other.returncode == 0
    asked = read_log(path)
    assert len(asked) == 10_000
    assert len({question.request_id for question in asked}) == 10_000


@pytest.mark.slow
def test_a_writer_that_is_killed_loses_nothing_that_it_wrote(tmp_path: Path, corpus_uri: str, path: Path) -> None:
    for turn in range(3):
        process = writer(tmp_path, corpus_uri, path, f"killed{turn}", 100_000)
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= 200 + 37 * turn:
                break
        process.send_signal(signal.SIGKILL)
        said = int((process.communicate()[0].split() or [line])[-1])
        kept = [asked.request_id for asked in read_log(path) if asked.request_id.startswith(f"killed{turn}-")]
        assert len(kept) in (said + 1, said + 2)
        assert kept == [f"killed{turn}-{number}" for number in range(len(kept))]


OFF = """
import sys
from kubeflow_corpus import CorpusClient
with CorpusClient.from_env(timeout=60) as client:
    result = client.search_docs("my password is hunter2")
    assert not client.report_answer(result.request_id, False, "note")
"""


def test_without_a_log_nothing_is_written_anywhere(tmp_path: Path, corpus_uri: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    uri = shutil.copytree(corpus_uri, tmp_path / "corpus.db")
    environ = {
        **{name: value for name, value in os.environ.items() if name != "QUESTION_LOG"},
        **{name: str(home) for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")},
        "MILVUS_URI": str(uri),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    before = {file.relative_to(tmp_path): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    subprocess.run([sys.executable, "-c", OFF], env=environ, cwd=home, check=True, timeout=200)
    after = {file.relative_to(tmp_path): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert [name for name in after.keys() - before.keys() if name.parts[0] != "corpus.db"] == []
    assert not [name for name, data in after.items() if b"hunter2" in data]


def test_the_json_of_a_question_is_plain(path: Path, result: SearchResult) -> None:
    QuestionLog(path, 1).record("docs", "caching \ud800 \u2028", result)
    assert json.dumps(read_log(path)[0].question)
