import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeflow_corpus.evaluation.metrics import (
    Answer,
    bootstrap,
    break_down,
    compare,
    latency,
    score,
    summarize,
)
from kubeflow_corpus.evaluation.questions import Question
from kubeflow_corpus.evaluation.run import problems


def question(**changes: object) -> Question:
    values = {"id": "q", "query": "?", "tool": "docs", "kind": "howto", "expected": {"r/r:a": 3, "r/r:b": 1}}
    return Question(**{**values, **changes})  # type: ignore[arg-type]


def answer(*paths: str, asked: Question | None = None, **changes: object) -> Answer:
    ranked = tuple((f"r/r:{path}",) for path in paths)
    return Answer(asked or question(), ranked, **changes)  # type: ignore[arg-type]


def test_the_best_order_scores_one_everywhere() -> None:
    scores = score(answer("a", "b", "x"))

    assert scores == {"hit@1": 1, "hit@3": 1, "hit@5": 1, "hit@10": 1, "mrr@10": 1, "ndcg@10": 1, "empty": 0}


def test_ndcg_is_the_hand_computed_value_for_a_graded_order() -> None:
    gained = (2**1 - 1) / math.log2(3) + (2**3 - 1) / math.log2(4)
    ideal = (2**3 - 1) / math.log2(2) + (2**1 - 1) / math.log2(3)

    assert score(answer("x", "b", "a"))["ndcg@10"] == pytest.approx(gained / ideal)


def test_a_path_counts_where_it_first_appears_and_only_there() -> None:
    assert answer("a", "a", "b").gains() == [3, 0, 1]


def test_with_any_of_one_path_is_all_that_can_be_asked() -> None:
    asked = question(any_of=True, expected={"r/r:a": 3, "r/r:b": 3})

    assert score(answer("b", "x", "a", asked=asked))["ndcg@10"] == 1


def test_a_hit_that_also_stands_elsewhere_counts_for_every_address() -> None:
    found = Answer(question(), (("r/r:copy", "r/r:a"),))

    assert found.rank == 1


def test_the_first_expected_path_gives_the_rank() -> None:
    scores = score(answer("x", "y", "z", "b"))

    assert (scores["hit@1"], scores["hit@5"], scores["mrr@10"]) == (0, 1, 0.25)


def test_an_answer_past_the_cutoff_is_none() -> None:
    scores = score(answer(*"klmnopqrst", "a"))

    assert (scores["hit@10"], scores["mrr@10"], scores["ndcg@10"]) == (0, 0, 0)


def test_evidence_must_show_every_required_string() -> None:
    asked = question(must_contain=("minReplicas", "1"))

    assert score(answer("a", asked=asked, evidence="minReplicas defaults to 1"))["evidence"] == 1
    assert score(answer("a", asked=asked, evidence="minReplicas"))["evidence"] == 0


def test_a_question_without_required_strings_measures_no_evidence() -> None:
    assert "evidence" not in score(answer("a"))


def test_the_first_hit_of_another_product_is_the_wrong_product() -> None:
    asked = question(product_area="katib")

    assert score(answer("a", asked=asked, areas=(("kserve",),)))["wrong_product"] == 1
    assert score(answer("a", asked=asked, areas=(("platform", "katib"),)))["wrong_product"] == 0
    assert score(answer("a", asked=asked, areas=((),)))["wrong_product"] == 0


def test_a_forbidden_path_counts_among_the_first_five_only() -> None:
    asked = question(forbidden=("r/r:old",))

    assert score(answer("a", "old", asked=asked))["forbidden"] == 1
    assert score(answer(*"abcde", "old", asked=asked))["forbidden"] == 0


def test_an_empty_answer_is_counted() -> None:
    assert score(answer())["empty"] == 1


def test_a_summary_leaves_out_what_no_question_measures() -> None:
    assert "evidence" not in summarize([answer("a")])
    assert summarize([answer("a"), answer("x")])["hit@1"].mean == 0.5


def test_a_breakdown_has_a_row_for_each_value() -> None:
    answers = [answer("a", intent="exact"), answer("x", intent="general")]

    rows = break_down(answers, lambda item: item.intent)

    assert {name: row["hit@1"].mean for name, row in rows.items()} == {"exact": 1, "general": 0}


def test_latency_gives_percentiles() -> None:
    assert latency([answer("a", milliseconds=float(ms)) for ms in range(1, 101)])["p50"] == pytest.approx(50.5)
    assert latency([]) == {}


def test_a_comparison_counts_better_and_worse_and_calls_noise_noise() -> None:
    asked = [question(id=str(number)) for number in range(40)]
    old = [answer("x", "a", asked=item) for item in asked]
    new = [answer("a", asked=item) for item in asked[:39]] + [answer("x", asked=asked[39])]

    changes = {change.metric: change for change in compare(new, old)}

    assert (changes["hit@1"].better, changes["hit@1"].worse) == (39, 0)
    assert not changes["hit@1"].is_noise
    assert (changes["hit@5"].better, changes["hit@5"].worse) == (0, 1)
    assert changes["hit@5"].is_noise


def test_a_comparison_knows_that_lower_is_better_for_wrong_products() -> None:
    asked = question(product_area="katib")
    old = [answer("a", asked=asked, areas=(("kserve",),))]
    new = [answer("a", asked=asked, areas=(("katib",),))]

    (change,) = [change for change in compare(new, old) if change.metric == "wrong_product"]

    assert (change.better, change.worse) == (1, 0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_an_interval_holds_its_mean_and_repeats(values: list[float]) -> None:
    interval = bootstrap(values)

    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9
    assert bootstrap(values) == interval


@given(st.lists(st.sampled_from("abxyz"), max_size=15))
def test_every_metric_of_every_ranking_is_between_zero_and_one(paths: list[str]) -> None:
    assert all(0 <= value <= 1 for value in score(answer(*paths)).values())


def test_a_rival_that_comes_before_the_right_hit_outranks_it() -> None:
    asked = Question("q", "?", "docs", "version", {"r/r:1.9": 3}, rivals=("r/r:1.10",))
    right, rival = ("r/r:1.9",), ("r/r:1.10",)
    assert score(Answer(asked, (right, rival)))["outranked"] == 0
    assert score(Answer(asked, (rival, right)))["outranked"] == 1
    assert score(Answer(asked, (("r/r:x",), right)))["outranked"] == 0
    assert score(Answer(asked, (("r/r:x",), rival)))["outranked"] == 1, "nothing right at all"
    assert "outranked" not in score(Answer(Question("q", "?", "docs", "k", {"r/r:1.9": 3}), (right,)))


def test_the_intent_is_measured_where_the_question_names_one() -> None:
    asked = Question("q", "?", "docs", "version", {"r/r:a": 3}, intent="exact")
    assert score(Answer(asked, (("r/r:a",),), intent="exact"))["intent"] == 1
    assert score(Answer(asked, (("r/r:a",),), intent="general"))["intent"] == 0
    assert problems(Answer(asked, (("r/r:a",),), intent="general")) == ("read as general, meant as exact",)


def test_every_problem_of_an_answer_has_its_line() -> None:
    asked = Question("q", "?", "docs", "k", {"r/r:a": 3}, must_contain=("x",), rivals=("r/r:b",), forbidden=("r/r:c",))
    answer = Answer(asked, (("r/r:b",), ("r/r:c",)), lists={"dense": ("r/r:b", "r/r:a")})
    assert problems(answer) == (
        "not found", "dense: 2", "evidence lacks 'x'", "comes after r/r:b", "shows r/r:c",
    )  # fmt: skip
