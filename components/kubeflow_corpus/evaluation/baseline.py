"""A recorded run to which later runs are compared, and the gate over both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from kubeflow_corpus.errors import EvaluationError
from kubeflow_corpus.evaluation.metrics import (
    LOWER_IS_BETTER,
    METRICS,
    Answer,
    Difference,
    compare_scores,
    score,
    summarize,
)
from kubeflow_corpus.evaluation.questions import digest
from kubeflow_corpus.records import GateReport

FORMAT: Final = 1
DEFAULT_TOLERANCE: Final = 0.02
# Floors of a question set without floors of its own: a gate must be able to fail.
DEFAULT_FLOORS: Final[Mapping[str, float]] = {"hit@5": 0.90, "evidence": 0.80}
# The metrics that may stop a publish; the others are shown and do not decide.
GATED: Final = (
    *("hit@1", "hit@5", "mrr@10", "ndcg@10", "evidence"),
    *("wrong_product", "outranked", "forbidden", "empty"),
)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a run was made with. Figures of two setups are not comparable.

    Attributes:
        questions: Fingerprint of the question set.
        model: Embedding model of the collections.
        heads: Commit of each source that was indexed.
    """

    questions: str
    model: str
    heads: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The scores of one run, by question, and its setup."""

    setup: Setup
    scores: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, answers: Sequence[Answer], model: str, heads: Mapping[str, str]) -> Baseline:
        """Records a run."""
        setup = Setup(digest(answer.question for answer in answers), model, dict(heads))
        return cls(setup, {answer.question.id: score(answer) for answer in answers})

    def write(self, path: Path) -> None:
        """Writes the baseline as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        data = {"format": FORMAT, **asdict(self)}
        path.write_text(json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Reads what `write` wrote.

        Raises:
            EvaluationError: The file is missing or is not a baseline.
        """
        try:
            data = json.loads(path.read_text("utf-8"))
            if data["format"] != FORMAT:
                raise ValueError(f"format {data['format']!r}, expected {FORMAT}")
            return cls(Setup(**data["setup"]), data["scores"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EvaluationError(
                f"Baseline {path} cannot be read: {error!r}", remedy="Record one with --save-baseline", path=str(path)
            ) from error

    def require_same(self, setup: Setup) -> None:
        """Checks that a run can be compared to this baseline.

        Raises:
            EvaluationError: It was made with another question set, model or corpus revision.
        """
        pairs: dict[str, tuple[Any, Any]] = {
            "question set": (self.setup.questions, setup.questions),
            "embedding model": (self.setup.model, setup.model),
            "corpus revision": (dict(self.setup.heads), dict(setup.heads)),
        }
        for what, (ours, theirs) in pairs.items():
            if ours != theirs:
                raise EvaluationError(
                    f"The baseline is of another {what}: {ours!r}, this run has {theirs!r}",
                    remedy="Record a new baseline with --save-baseline",
                    what=what,
                )


def gate(
    answers: Sequence[Answer],
    *,
    baseline: Baseline | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    floors: Mapping[str, float] | None = None,
) -> GateReport:
    """Decides whether a collection may be served.

    Args:
        answers: What it answered.
        baseline: What it must not be worse than by more than `tolerance`; None compares with nothing.
        tolerance: Allowed loss of a metric's mean.
        floors: Metric to the least mean that is acceptable; the most for one that is better when it is lower.

    Returns:
        The report; `failures` has one line for each metric that fails.

    Raises:
        EvaluationError: A floor is for a metric that does not exist.
    """
    check_floors(floors or {})
    summary = summarize(answers)
    failures = [
        f"{name} is {summary[name].mean:.3f}, the {'most' if name in LOWER_IS_BETTER else 'floor'} is {bound:.3f}"
        for name, bound in (floors or {}).items()
        if name in summary and _is_worse_than(name, summary[name].mean, bound)
    ]
    if baseline is not None:
        new = {answer.question.id: score(answer) for answer in answers}
        failures += [
            _describe_loss(change)
            for change in compare_scores(new, baseline.scores)
            if _size_of_loss(change) > tolerance
        ]
    return GateReport(not failures, tuple(failures), {name: interval.mean for name, interval in summary.items()})


def _is_worse_than(name: str, mean: float, bound: float) -> bool:
    return mean > bound if name in LOWER_IS_BETTER else mean < bound


def check_floors(floors: Mapping[str, float]) -> None:
    """Checks the names of floors: a misspelt one would never fail.

    Raises:
        EvaluationError: There is no such metric.
    """
    for name in floors:
        if name not in METRICS:
            raise EvaluationError(
                f"There is no metric {name!r}", remedy=f"Use one of {', '.join(METRICS)}", metric=name
            )


def _size_of_loss(change: Difference) -> float:
    if change.metric not in GATED:
        return 0.0
    return change.delta.mean if change.metric in LOWER_IS_BETTER else -change.delta.mean


def _describe_loss(change: Difference) -> str:
    return (
        f"{change.metric} changed by {change.delta.mean:+.3f} [{change.delta.low:+.3f}, {change.delta.high:+.3f}] "
        f"against the baseline: {change.better} questions better, {change.worse} worse"
    )
