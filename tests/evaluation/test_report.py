from xml.etree import ElementTree

from kubeflow_corpus.evaluation.metrics import Answer, compare
from kubeflow_corpus.evaluation.questions import Question
from kubeflow_corpus.evaluation.report import explain, to_html, to_junit

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
