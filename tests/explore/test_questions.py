"""From a bad answer to a test: the pages of what was asked, and the form that adds to a set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from kubeflow_corpus.evaluation.questions import load_questions
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.settings import Settings
from starlette.testclient import TestClient

from tests.explore.corpus import HOST, HOSTILE, TOKEN, opened_page
from tests.explore.test_pages import links
from tests.query.corpus import MODEL

FORM = {"q": "how do I switch caching off?", "in": "docs", "unit": "site:caching.md#use", "token": TOKEN}
ORIGIN = {"Origin": HOST}


@pytest.fixture(scope="module")
def log(hostile_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("log") / "questions.db"
    settings = Settings(milvus_uri=hostile_uri, question_log=str(path))
    with CorpusClient(settings=settings, embeddings=MODEL, timeout=60) as client:
        client.search_docs("how do I switch caching off?", version="v2", request_id="caching")
        client.search_docs("How do I switch CACHING off", request_id="again")
        client.search_issues("quux flooble zzyzx", request_id="nothing")
        for number, text in enumerate(HOSTILE):
            client.search_docs(f"poisonous mushrooms {text}", request_id=f"evil{number}")
        client.report_answer("caching", False, f"it is about v1 {HOSTILE[0]}")
    return path


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return tmp_path / "questions.jsonl"


@pytest.fixture
def page(hostile_uri: str, log: Path, questions: Path, tmp_path: Path) -> Iterator[TestClient]:
    with opened_page(hostile_uri, tmp_path, questions, question_log=str(log)) as opened:
        yield opened


def test_what_was_asked_is_listed_by_what_was_wrong(page: TestClient) -> None:
    text = page.get("/questions").text
    assert "quux flooble zzyzx" in text and "1 did not help" in text
    assert "found nothing 1" in text and "repeated 1" in text
    assert "caching" not in page.get("/questions?show=empty").text
    assert "quux" not in page.get("/questions?show=unhelpful").text


def test_a_question_leads_to_what_was_found_and_to_a_test(page: TestClient, questions: Path) -> None:
    listed = page.get("/questions?show=unhelpful").text
    text = page.get(links(listed, "/question?id=")[0]).text
    assert "it is about v1" in text
    assert "Caching is enabled by default" in page.get(links(text, "/?q=")[0]).text
    form = page.get(links(text, "/test?")[0]).text
    fields = {
        **dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)),
        "q": unescape(re.findall(r"<textarea name=\"q\"[^>]*>([^<]*)<", form)[0]),
        "must_contain": "set_caching_options\n\n",
        "kind": "howto",
        "token": TOKEN,
    }
    added = page.post("/test", data=fields, headers=ORIGIN)
    assert added.status_code == 200 and "Added d001" in added.text
    (question,) = load_questions(questions)
    assert question.query == "how do I switch caching off?" and question.kind == "howto"
    assert set(question.expected) == {f"acme/site:{unescape(fields['unit']).partition(':')[2]}"}
    assert question.must_contain == ("set_caching_options",)


def test_a_hit_of_a_search_leads_to_a_test_with_its_filters(page: TestClient, questions: Path) -> None:
    text = page.get("/", params={"q": "caching", "in": "docs", "version": "v1"}).text
    form = page.get(links(text, "/test?")[0]).text
    assert '<input type="hidden" name="version" value="v1">' in form
    page.post("/test", data={**FORM, "version": "v1"}, headers=ORIGIN)
    assert load_questions(questions)[0].filters == {"version": "v1"}


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN.upper(), "\u2028"])
def test_nothing_is_written_without_the_token(page: TestClient, questions: Path, token: str) -> None:
    answer = page.post("/test", data={**FORM, "token": token}, headers=ORIGIN)
    assert answer.status_code == 403 and "write token is wrong" in answer.text
    assert not questions.exists()


def test_a_form_of_another_page_writes_nothing_even_with_the_token(page: TestClient, questions: Path) -> None:
    for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        assert page.post("/test", data=FORM, headers=headers).status_code == 403
    assert page.post("/test", data=FORM, headers={**ORIGIN, "Host": "evil.example"}).status_code == 403
    assert not questions.exists()


def test_an_address_alone_writes_nothing(page: TestClient, questions: Path) -> None:
    assert page.get("/test", params=FORM).status_code == 200
    assert not questions.exists()


@pytest.mark.parametrize(
    "wrong", [{"q": " "}, {"q": "x" * 10_001}, {"unit": "site:nothing"}, {"in": "x"}, {"unit": ""}]
)
def test_what_cannot_be_asked_is_not_added(page: TestClient, questions: Path, wrong: dict[str, str]) -> None:
    answer = page.post("/test", data={**FORM, **wrong}, headers=ORIGIN)
    assert answer.status_code in (400, 503)
    assert not questions.exists()


def test_a_set_that_is_damaged_stays_as_it_was(page: TestClient, questions: Path) -> None:
    questions.write_text("not JSON\n")
    answer = page.post("/test", data=FORM, headers=ORIGIN)
    assert answer.status_code == 400 and "not JSON" in answer.text
    assert questions.read_text() == "not JSON\n"
    assert [file.name for file in questions.parent.iterdir()] == ["questions.jsonl"]


def test_without_a_set_the_page_says_how_to_add(hostile_uri: str, tmp_path: Path) -> None:
    evil = "why $(touch /tmp/x) `id` 'now'"
    with opened_page(hostile_uri, tmp_path) as page:
        text = unescape(page.get("/test", params={**FORM, "q": evil}).text)
        assert "--questions FILE.jsonl" in text
        # Copied into a shell it is one word.
        assert "eval add FILE.jsonl 'why $(touch /tmp/x) `id` '\"'\"'now'\"'\"''" in text
        assert page.post("/test", data=FORM, headers=ORIGIN).status_code == 403


def test_without_a_log_the_page_says_how_to_keep_one(hostile_uri: str, tmp_path: Path) -> None:
    with opened_page(hostile_uri, tmp_path) as page:
        assert "QUESTION_LOG" in page.get("/questions").text
        assert page.get("/question?id=x").status_code == 400


def test_what_is_tried_in_the_page_is_not_a_question_that_was_asked(page: TestClient, log: Path) -> None:
    before = log.read_bytes()
    page.get("/?q=something+new")
    assert log.read_bytes() == before


def test_hostile_questions_are_text(page: TestClient) -> None:
    paths = ["/questions", *links(page.get("/questions").text, "/question?id=")]
    assert len(paths) > len(HOSTILE)
    for path in paths:
        text = page.get(path).text
        assert "<script>document" not in text and "<img src=x" not in text and "<iframe" not in text
        assert not re.search("[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]", text)
