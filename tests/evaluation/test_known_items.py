"""Questions that a corpus asks about itself, and questions that name sections."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.collections import CODE, DOCS, ISSUES
from kubeflow_corpus.errors import EvaluationError
from kubeflow_corpus.evaluation.known_items import first_sentence, known_items
from kubeflow_corpus.evaluation.metrics import Answer, score
from kubeflow_corpus.evaluation.questions import load_questions


def row(unit: str, section: str = "", *, title: str = "Hives", index: int = 0, **more: Any) -> dict[str, Any]:
    """A stored row of a page."""
    document = unit.partition("#")[0]
    return {
        "unit_id": unit, "document_id": document, "chunk_index": index, "repo": "acme/site",
        "file_path": document.partition(":")[2], "title": title, "section_path": section, "product_area": ["hives"],
        **more,
    }  # fmt: skip


PAGES = [
    row("site:hives.md", index=0),
    row("site:hives.md#what", "What is a hive?", index=1),
    row("site:hives.md#what", "What is a hive?", index=2),
    row("site:hives.md#move", "Guides > Move a hive", index=3),
    row("site:hives.md#next", "Guides > Next steps", index=4),
    row("site:swarms.md#next", "next steps", title="Swarms"),
    row("site:swarms.md#one", "Quotas", title="Swarms", index=1),
]


def test_headings_that_occur_once_are_asked_as_they_stand() -> None:
    questions = {question.query: question for question in known_items(PAGES, DOCS, 10)}

    assert questions.keys() == {"What is a hive?", "Move a hive"}
    move = questions["Move a hive"]
    assert (move.tool, move.kind, move.product_area) == ("docs", "section", "hives")
    assert move.expected == {"acme/site:hives.md#move": 3}
    assert questions["What is a hive?"].kind == "definition"


def test_the_same_questions_are_asked_however_the_rows_are_ordered() -> None:
    rows = [row(f"site:p.md#s{number}", f"Section number {number}") for number in range(50)]
    first = known_items(rows, DOCS, 10)
    random.Random(1).shuffle(rows)

    assert known_items(rows, DOCS, 10) == first and len(first) == 10
    assert len({question.id for question in first}) == 10


def test_threads_are_asked_by_their_titles() -> None:
    rows = [
        row("t:7", title="Pods stay pending"),
        row("t:7", title="Pods stay pending", index=1),
        row("t:8", title="Help"),
    ]

    assert [(question.query, question.tool) for question in known_items(rows, ISSUES, 10)] == [
        ("Pods stay pending", "issues")
    ]


def test_symbols_are_asked_by_what_they_say_of_themselves() -> None:
    code = "// Reconcile moves hives that lost their node.\n// It runs often.\nfunc Reconcile() {}\n"
    rows = [
        row("c:a.go#Reconcile", content_text=code, symbol="Reconcile", language="go"),
        row("c:b.yaml#x", content_text="# A comment of four words.\n", symbol="", language="yaml"),
    ]

    (question,) = known_items(rows, CODE, 10)
    assert (question.query, question.kind) == ("Reconcile moves hives that lost their node", "go")
    assert question.expected == {"acme/site:a.go#Reconcile": 3}


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ('def move(hive):\n    """Moves a hive. Slowly."""\n', "Moves a hive"),
        ('class Hive:\n    """A hive\n    of drones.\n\n    More.\n    """\n', "A hive of drones"),
        ("/** Shows v1.2 of a hive.\n * Twice.\n */\nfunction show() {}\n", "Shows v1.2 of a hive"),
        ("# Loads the images\n# into the node\nload() {\n}\n", "Loads the images into the node"),
        ("#!/bin/sh\nload() {\n}\n", ""),
        ("func Move() {\n\t// inside, about a line\n}\n", ""),
        ("", ""),
    ],
)
def test_the_first_sentence_of_a_comment(code: str, sentence: str) -> None:
    assert first_sentence(code) == sentence


def test_a_question_may_name_the_sections_that_answer_it(tmp_path: Path) -> None:
    right = ["https://example.org/hives/#what", "https://example.org/intro/"]
    file = tmp_path / "first.jsonl"
    file.write_text(json.dumps({"id": "q1", "tool": "docs", "query": "what is a hive", "right": right}) + "\n")

    (question,) = load_questions(file)
    assert (question.kind, question.any_of, question.expected) == ("section", True, dict.fromkeys(right, 3))
    answer = Answer(
        question, (("acme/site:a.md#x", "acme/site:a.md"), ("acme/site:i.md", "https://example.org/intro/"))
    )
    assert score(answer)["hit@1"] == 0 and score(answer)["hit@3"] == 1


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"right": []}, "'right' must name at least one address"),
        ({"right": ["hives.md"]}, "is not an https address"),
        ({"right": ["https://example.org/"], "expected": ["a/b:c"]}, "only one of them can stand"),
    ],
)
def test_sections_that_nobody_can_cite_are_refused(tmp_path: Path, given: dict[str, Any], problem: str) -> None:
    file = tmp_path / "first.jsonl"
    file.write_text(json.dumps({"id": "q1", "tool": "docs", "query": "what is a hive", **given}) + "\n")

    with pytest.raises(EvaluationError, match=problem):
        load_questions(file)
