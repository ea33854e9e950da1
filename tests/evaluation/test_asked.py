"""What a log of questions says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from kubeflow_corpus.evaluation.asked import (
    SLOW_MS,
    WEAK_COSINE,
    WEAK_COVERAGE,
    QuestionReport,
    report_questions,
)
from kubeflow_corpus.query.question_log import AskedQuestion, Verdict
from numpy.typing import NDArray

from tests.query.corpus import MODEL


def asked(question: str, at: float = 1.0, **values: Any) -> AskedQuestion:
    found: dict[str, Any] = {
        "units": (("u", 1.0),),
        "cosine": 0.8,
        "coverage": 1.0,
        "total_ms": 20.0,
        "areas": ("katib",),
    }
    return AskedQuestion(f"{question[:8]}-{at}", at, "docs", question, **{**found, **values})


def texts(report: QuestionReport, section: str) -> list[str]:
    return [group.question for group in report.section(section)]


def embed(questions: Sequence[str]) -> NDArray[np.float32]:
    return MODEL.embed(questions)


def test_each_kind_of_bad_answer_has_its_section() -> None:
    report = report_questions(
        [
            asked("fine"),
            asked("nothing", units=(), coverage=None),
            asked("failed", units=(), coverage=None, code="UNAVAILABLE"),
            asked("little", cosine=WEAK_COSINE - 0.01, coverage=WEAK_COVERAGE - 0.01),
            asked("far, and every word is there", cosine=0.1, coverage=1.0),
            asked("near, in other words", cosine=0.9, coverage=0.1),
            asked("words alone", cosine=None, coverage=0.2),
            asked("late", total_ms=SLOW_MS),
            asked("no help", verdict=Verdict(False, "")),
            asked("help", verdict=Verdict(True, "")),
        ]
    )
    assert sorted(texts(report, "empty")) == ["failed", "nothing"]
    assert sorted(texts(report, "weak")) == ["little", "words alone"]
    assert texts(report, "slow") == ["late"]
    assert texts(report, "unhelpful") == ["no help"]
    assert report.counts["asked"] == 10 and report.counts["helpful"] == 1 and report.counts["failed"] == 1


def test_products_are_counted_each() -> None:
    report = report_questions([asked("a", areas=("katib", "kserve")), asked("b", areas=()), asked("c")])
    assert {area: counts["asked"] for area, counts in report.by_area.items()} == {"katib": 2, "kserve": 1, "(none)": 1}


def test_the_same_words_are_one_question() -> None:
    report = report_questions([asked("What is Katib?", 1), asked("what is   katib", 2), asked("What is KServe?", 3)])
    (again,) = report.section("repeated")
    assert (again.times, again.question, again.wordings) == (2, "what is   katib", ("What is Katib?",))
    assert again.requests[0] == "what is -2"


def test_the_same_meaning_is_one_question_where_vectors_can_be_made() -> None:
    questions = [
        asked("How do I install Kubeflow Pipelines?", 1),
        asked("how can I install kubeflow pipelines", 2),
        asked("How do I delete a notebook?", 3),
        asked("installing Kubeflow Pipelines, how?", 4),
    ]
    assert sorted(group.times for group in report_questions(questions, embed=embed).groups) == [1, 3]
    assert sorted(group.times for group in report_questions(questions).groups) == [1, 1, 1, 1]


def test_new_is_what_was_first_asked_since_the_last_report() -> None:
    report = report_questions([asked("old", 1), asked("old", 9), asked("new", 8)], new_since=5.0)
    assert texts(report, "new") == ["new"]
    assert report_questions([asked("old", 1)]).groups[0].new


def test_an_empty_log_is_a_report() -> None:
    report = report_questions([], embed=embed)
    assert report.counts["asked"] == 0 and report.groups == () and report.to_dict()["groups"] == []
