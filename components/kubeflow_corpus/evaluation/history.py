"""What earlier runs of a question set measured, for the trend in a report: one line of JSON for each run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from kubeflow_corpus.errors import EvaluationError
from kubeflow_corpus.evaluation.baseline import Setup
from kubeflow_corpus.evaluation.metrics import Answer, summarize

# Runs that a report shows.
SHOWN_RUNS: Final = 20


@dataclass(frozen=True, slots=True)
class PastRun:
    """What one run measured.

    Attributes:
        at: When, ISO 8601 UTC.
        setup: What it was made with.
        metrics: Means by metric.
    """

    at: str
    setup: Setup
    metrics: Mapping[str, float]


def add_run(path: Path, at: str, setup: Setup, answers: Sequence[Answer]) -> tuple[PastRun, ...]:
    """Adds a run to a history.

    Args:
        path: The file; it is made if it is missing.
        at: When the run was, ISO 8601 UTC.
        setup: What it was made with.
        answers: What was answered.

    Returns:
        The last runs of the same questions, this one last.

    Raises:
        EvaluationError: The file is something else.
    """
    run = PastRun(at, setup, {name: round(interval.mean, 6) for name, interval in summarize(answers).items()})
    before = read_runs(path) if path.exists() else ()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(run), ensure_ascii=False) + "\n")
    same = [past for past in before if past.setup.questions == setup.questions]
    return (*same[-SHOWN_RUNS + 1 :], run)


def read_runs(path: Path) -> tuple[PastRun, ...]:
    """Returns the runs of a history, the oldest first.

    Raises:
        EvaluationError: The file is something else.
    """
    try:
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
        return tuple(PastRun(line["at"], Setup(**line["setup"]), dict(line["metrics"])) for line in lines)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise EvaluationError(
            f"{path} is not a history of evaluations: {error}", remedy="Name another file", path=str(path)
        ) from error
