from dataclasses import replace
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from kubeflow_corpus.errors import EvaluationError
from kubeflow_corpus.evaluation.baseline import Setup
from kubeflow_corpus.evaluation.history import add_run, read_runs
from kubeflow_corpus.evaluation.metrics import Answer, compare
from kubeflow_corpus.evaluation.questions import Question
from kubeflow_corpus.evaluation.report import about_run, explain, explorer_link, to_html, to_junit

ASKED = Question("q<1>", "why <b>fails</b> \x00 & how", "issues", "symptom", {"r/r:a": 3}, must_contain=("cause",))
MISSED = Answer(ASKED, (("r/r:x",), ("r/r:y",)), lists={"dense": ("r/r:x", "r/r:a"), "bm25": ("r/r:y",)})
FOUND = Answer(Question("q2", "?", "docs", "howto", {"r/r:a": 3}), (("r/r:a",),), evidence="the cause")


def test_a_miss_is_explained_with_the_place_in_each_list() -> None:
    assert explain(MISSED) == "not found; dense: 2, bm25: absent; evidence lacks 'cause'"


def test_the_page_shows_every_miss_escaped_and_needs_no_network() -> None:
    page = to_html("Nightly <run>", [MISSED, FOUND], compare([FOUND], [FOUND]), failures=["hit@1 < floor"])

    assert "why &lt;b&gt;fails&lt;/b&gt;" in page
    assert "Misses (1 of 2)" in page
    assert "hit@1 &lt; floor" in page
    assert "<svg" in page
    assert not [link for link in ("src=", "<script", "@import", "<link") if link in page]


def test_the_chart_has_a_bar_per_metric_and_says_where_a_metric_is_missing() -> None:
    kind = Question("q3", "?", "docs", "<kind>", {"r/r:a": 3})

    page = to_html("run", [Answer(kind, (("r/r:a",),))])

    chart = page[page.index("<svg") : page.index("</svg>")]
    assert chart.count('class="track"') == 4
    assert "&lt;kind&gt;" in chart and ">1.000<" in chart and ">none<" in chart


def test_a_page_without_misses_says_so() -> None:
    assert "<p>None.</p>" in to_html("run", [FOUND])


def test_junit_fails_exactly_the_missed_questions() -> None:
    suite = ElementTree.fromstring(to_junit([MISSED, FOUND]))

    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["q<1>: why <b>fails</b>  & how"]


SETUP = Setup("set one", "a/model", {"head:site": "0123456789abcdef", "head:<b>": "f"})


def test_the_page_says_of_what_it_is() -> None:
    page = to_html("run", [FOUND], about=about_run("2026-01-02T03:04:05Z", SETUP))

    assert "2026-01-02T03:04:05Z" in page and "a/model" in page
    assert "0123456789ab<" in page and "&lt;b&gt;" in page


def test_a_miss_leads_to_the_page_that_shows_why() -> None:
    asked = replace(ASKED, query="why & how?", filters={"state": "open"})

    link = explorer_link(asked, "http://127.0.0.1:9000/")
    page = to_html("run", [replace(MISSED, question=asked)], explorer="http://127.0.0.1:9000/")

    assert link == "http://127.0.0.1:9000/?q=why+%26+how%3F&in=issues&state=open&expected=r%2Fr%3Aa"
    assert f'href="{escape(link)}"' in page


def test_a_trend_is_of_runs_of_the_same_questions(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "history.jsonl"

    first = add_run(file, "1", SETUP, [MISSED])
    other = add_run(file, "2", replace(SETUP, questions="set two"), [FOUND])
    last = add_run(file, "3", SETUP, [FOUND])

    assert [run.at for run in first] == ["1"] and [run.at for run in other] == ["2"]
    assert [(run.at, run.metrics["hit@1"]) for run in last] == [("1", 0.0), ("3", 1.0)]
    assert "from 0.000 to 1.000" in to_html("run", [FOUND], history=last)
    assert "last runs" not in to_html("run", [FOUND], history=first)
    assert len(read_runs(file)) == 3


def test_a_history_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("my notes\n")
    with pytest.raises(EvaluationError, match="not a history"):
        add_run(tmp_path / "notes", "1", SETUP, [FOUND])
    assert (tmp_path / "notes").read_text() == "my notes\n"
