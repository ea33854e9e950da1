from pathlib import Path

import pytest
from kubeflow_corpus.errors import EvaluationError
from kubeflow_corpus.evaluation.baseline import Baseline, Setup, gate
from kubeflow_corpus.evaluation.metrics import Answer
from kubeflow_corpus.evaluation.questions import Question

HEADS = {"kubeflow-website": "476e4c1"}


def answers(*ranks: int) -> list[Answer]:
    result = []
    for number, rank in enumerate(ranks):
        asked = Question(str(number), "?", "docs", "howto", {"r/r:a": 3})
        hits = tuple(("r/r:a" if place == rank else f"r/r:{place}",) for place in range(1, 11))
        result.append(Answer(asked, hits))
    return result


def test_a_baseline_survives_its_file(tmp_path: Path) -> None:
    baseline = Baseline.of(answers(1, 2), "minilm", HEADS)
    file = tmp_path / "deep" / "baseline.json"
    baseline.write(file)

    assert Baseline.read(file) == baseline


@pytest.mark.parametrize("content", ["", "{}", '{"format": 99}', '{"format": 1, "setup": {}, "scores": {}}'])
def test_a_file_that_is_not_a_baseline_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(content)

    with pytest.raises(EvaluationError, match="--save-baseline"):
        Baseline.read(file)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"questions": "other"}, "question set"),
        ({"model": "mpnet"}, "embedding model"),
        ({"heads": {"kubeflow-website": "0000000"}}, "corpus revision"),
    ],
)
def test_a_baseline_of_another_setup_is_refused(change: dict[str, object], what: str) -> None:
    baseline = Baseline.of(answers(1), "minilm", HEADS)
    same = {"questions": baseline.setup.questions, "model": "minilm", "heads": HEADS}

    baseline.require_same(Setup(**same))  # type: ignore[arg-type]
    with pytest.raises(EvaluationError, match=what):
        baseline.require_same(Setup(**{**same, **change}))  # type: ignore[arg-type]


def test_the_gate_passes_an_equal_run() -> None:
    run = answers(1, 2, 7)

    assert gate(run, baseline=Baseline.of(run, "minilm", HEADS)).passed


def test_the_gate_names_each_metric_that_got_worse_by_more_than_the_tolerance() -> None:
    baseline = Baseline.of(answers(*[1] * 10), "minilm", HEADS)

    report = gate(answers(*[1] * 9, 2), baseline=baseline, tolerance=0.02)

    assert not report.passed
    assert [line.split()[0] for line in report.failures] == ["hit@1", "mrr@10", "ndcg@10"]
    assert gate(answers(*[1] * 9, 2), baseline=baseline, tolerance=0.2).passed


def test_the_gate_holds_floors_without_a_baseline() -> None:
    report = gate(answers(1, 6), floors={"hit@5": 1.0, "hit@10": 1.0})

    assert report.failures == ("hit@5 is 0.500, the floor is 1.000",)
    assert report.metrics["hit@10"] == 1


def test_a_floor_of_a_metric_that_there_is_not_is_refused() -> None:
    with pytest.raises(EvaluationError, match="hit@5"):
        gate(answers(1), floors={"hits@5": 0.5})


def test_the_floor_of_a_rate_of_failures_is_the_most_that_may_be() -> None:
    empty = Answer(Question("q", "?", "docs", "howto", {"r/r:a": 3}), ())
    assert gate([empty], floors={"empty": 0.5}).failures == ("empty is 1.000, the most is 0.500",)
    assert gate(answers(1), floors={"empty": 0.5}).passed
