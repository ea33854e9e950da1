"""Rows as columns, fused scores and near-duplicates: what is fast must still be what is meant."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kubeflow_corpus.query.fusion import Row, Rows, by_score, merge, rrf, weighted
from kubeflow_corpus.query.ranking import Wording, best_fields, match_score

SCORED = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(-1, 1)), max_size=12).map(
    lambda pairs: Rows.of(
        Row(f"{unit}{place}", unit, score, {"place": place})
        for place, (unit, score) in enumerate(sorted(pairs, key=lambda pair: -pair[1]))
    )
)
# Few different words, so that texts share many triples, and changes to one of them.
TEXTS = st.lists(st.sampled_from(["pod", "run", "step", "job", "a", "b", "c", "é", "日本"]), max_size=40).map(" ".join)


def test_a_list_of_rows_reads_like_a_sequence() -> None:
    rows = Rows.of([Row("r1", "u1", 0.9, {"repo": "acme/site"}), Row("r2", "u2", 0.5, {})])

    assert len(rows) == 2 and rows[0].repo == "acme/site" and rows[-1].unit_id == "u2"
    assert list(rows[1:]) == [Row("r2", "u2", 0.5, {})] and not Rows()


@given(SCORED, SCORED)
def test_a_weighted_sum_takes_the_best_row_of_each_unit(dense: Rows, bm25: Rows) -> None:
    weights = {"dense": 0.6, "bm25": 0.4}
    expected: dict[str, float] = {}
    total = sum(weights[name] for name, rows in (("dense", dense), ("bm25", bm25)) if rows) or 1.0
    for name, rows in (("dense", dense), ("bm25", bm25)):
        best: dict[str, float] = {}
        for row in rows:
            best.setdefault(row.unit_id, row.score)
        top = max(best.values(), default=0.0)
        for unit, score in best.items() if top > 0 else ():
            expected[unit] = expected.get(unit, 0.0) + weights[name] / total * max(score, 0.0) / top

    assert weighted({"dense": dense, "bm25": bm25}, weights) == expected


@given(SCORED, SCORED)
def test_the_fields_of_a_unit_are_those_of_its_first_row_in_the_first_list(dense: Rows, bm25: Rows) -> None:
    expected: dict[str, Any] = {}
    for row in (*dense, *bm25):
        expected.setdefault(row.unit_id, row.fields)

    assert [*best_fields({"dense": dense, "bm25": bm25}).items()] == [*expected.items()]


def test_equal_scores_fall_in_order_of_the_unit() -> None:
    assert [*by_score({"b": 0.5, "c": 0.9, "a": 0.5, "d": 0.0})] == ["c", "a", "b", "d"]


def test_ranks_decide_a_reciprocal_fusion() -> None:
    rows = Rows.of([Row("r1", "u1", 3.0, {}), Row("r2", "u1", 2.0, {}), Row("r3", "u2", 1.0, {})])

    assert rrf({"bm25": rows}, {"bm25": 1.0}, 10) == {"u1": 1.0, "u2": pytest.approx(11 / 12)}


def test_merged_lists_hold_each_row_once_with_its_best_score() -> None:
    left = Rows.of([Row("r1", "u1", 0.9, {}), Row("r2", "u2", 0.2, {})])
    right = Rows.of([Row("r2", "u2", 0.7, {}), Row("r3", "u3", 0.7, {})])

    assert [(row.id, row.score) for row in merge([left, right])] == [("r1", 0.9), ("r2", 0.7), ("r3", 0.7)]


def _triples(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[place : place + 3]) for place in range(max(len(words) - 2, 1))}


@given(TEXTS, TEXTS, st.integers(0, 8), st.sampled_from([0.5, 0.7, 0.85, 1.0]))
@example("a b c d e f g h i j", "a b c d e f g h i k", 0, 0.7)
def test_near_duplicates_are_those_whose_triples_overlap(left: str, more: str, kept: int, least: float) -> None:
    # A text, and the same text with some words changed.
    right = " ".join([*left.split()[: len(left.split()) - kept], *more.split()[:kept]])
    common, union = len(_triples(left) & _triples(right)), len(_triples(left) | _triples(right))

    assert Wording(left).is_near_duplicate_of(Wording(right), least) == (common / union >= least)


@given(st.text(max_size=60) | st.text(st.characters(max_codepoint=127), max_size=60))
def test_words_are_read_alike_in_every_script(text: str) -> None:
    longer = f"{text} one two three"

    assert len(Wording(longer).triples) == len(_triples(longer))


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_match_is_between_nothing_and_all_and_grows_with_meaning_and_words(
    cosine: float, covered: float, more: float
) -> None:
    score = match_score(cosine, covered)

    assert 0 <= score <= 1
    assert match_score(max(cosine, more), covered) >= score <= match_score(cosine, max(covered, more))
    assert match_score(None, covered) == covered
