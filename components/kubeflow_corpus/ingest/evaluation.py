"""The step of a run that asks questions of what was written, before readers do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.errors import ModelMismatch
from kubeflow_corpus.ingest.outcomes import (
    ALIASES,
    GATE_FILE,
    PLAN_FILE,
    RECORD_FILE,
    Outcome,
    carry,
    fresh_folder,
    hand_on,
    read_json,
    read_outcome,
    write_json,
)
from kubeflow_corpus.ingest.progress import StepWatch, step
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.records import GateReport
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.lease import Lease
from kubeflow_corpus.store.plan import Plan

if TYPE_CHECKING:
    from kubeflow_corpus.evaluation.metrics import Answer
    from kubeflow_corpus.evaluation.questions import Question

# An evaluation waits for a busy machine: the deadline of a served search is not what is measured.
_SEARCH_TIMEOUT_SECONDS: Final = 60.0
_NOTHING_ASKED: Final = "<p>No question was asked.</p>\n"


def evaluate_collection(
    collection: str, applied: str, questions: str, floors: Mapping[str, float], target: str, page: str
) -> tuple[dict[str, Any], dict[str, float]]:
    """Asks questions of the version that was written, whether it is served yet or not.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        applied: Folder that `apply_collection` wrote.
        questions: Path of a question set; empty asks nothing, and the store's own gate in `publish` decides alone.
        floors: Metric to the least mean with which a rebuild is served and an incremental run raises no alarm; empty
            is `DEFAULT_FLOORS`. A rebuild must also be no worse than what is served.
        target: Folder for the plan, the record, what the gate says, and the outcome.
        page: File for the report, HTML.

    Returns:
        Metadata for the artifact, and the metrics.
    """
    folder = fresh_folder(target)
    outcome = read_outcome(Path(applied)).begin("evaluate")
    metrics: dict[str, float] = {}
    text = _NOTHING_ASKED

    def work() -> Outcome:
        nonlocal text
        carry(Path(applied), folder, (PLAN_FILE, RECORD_FILE))
        if questions:
            with step("evaluate", collection=collection) as watch:
                report, text = _ask(collection, Path(applied), questions, floors, watch)
                metrics.update(report.metrics)
                gate = {"passed": report.passed, "failures": list(report.failures), "metrics": dict(report.metrics)}
                write_json(str(folder / GATE_FILE), gate)
                watch.count(failures=len(report.failures))
        return outcome

    metadata = hand_on(folder, outcome, work).metadata()
    Path(page).parent.mkdir(parents=True, exist_ok=True)
    Path(page).write_text(text, encoding="utf-8")
    return {**metadata, **metrics}, metrics


def _ask(
    collection: str, applied: Path, questions: str, floors: Mapping[str, float], watch: StepWatch
) -> tuple[GateReport, str]:
    plan = Plan.from_dict(read_json(applied / PLAN_FILE))
    settings = Settings.from_env()
    # Nobody else is to write what is being asked, however long that takes.
    with (
        connected(settings) as client,
        Lease(client, plan.served, plan.run, embedded=settings.embedded_milvus).kept() as keep,
    ):
        return _answer(collection, plan, applied, questions, floors, watch, keep)


def _answer(
    collection: str,
    plan: Plan,
    applied: Path,
    questions: str,
    floors: Mapping[str, float],
    watch: StepWatch,
    keep: Callable[[], None],
) -> tuple[GateReport, str]:
    from kubeflow_corpus.evaluation.baseline import DEFAULT_FLOORS, Baseline, gate
    from kubeflow_corpus.evaluation.metrics import compare
    from kubeflow_corpus.evaluation.questions import load_questions
    from kubeflow_corpus.evaluation.report import to_html

    chosen = tuple(question for question in load_questions(Path(questions)) if question.tool == collection)
    watch.count(questions=len(chosen))
    if not chosen:
        return GateReport(passed=True), _NOTHING_ASKED
    version = str(read_json(applied / RECORD_FILE)["target"])

    def watched(done: int, total: int) -> None:
        keep()
        watch.progress(done, total, "questions")

    answers = _answers(collection, version, chosen, watched)
    # A rebuild stands beside what is served: the same questions say which of the two is better. An incremental run
    # changed what is served, so that there is nothing left to compare with.
    served = _served_answers(collection, plan, version, chosen, watched)
    baseline = Baseline.of(served, plan.recipe.identity.model, {}) if served else None
    report = gate(answers, baseline=baseline, floors=floors or DEFAULT_FLOORS)
    return report, to_html(f"{collection}: {version}", answers, compare(answers, served), report.failures)


def _answers(
    collection: str, version: str, questions: Sequence[Question], watched: Callable[[int, int], None]
) -> tuple[Answer, ...]:
    from kubeflow_corpus.evaluation.run import ClientSearcher, ask
    from kubeflow_corpus.query.client import CorpusClient

    alias = ALIASES[collection]
    with CorpusClient(
        settings=Settings.from_env(), collections={alias: version}, timeout=_SEARCH_TIMEOUT_SECONDS
    ) as client:
        client.warm_up([alias])
        return ask(ClientSearcher(client, {}), questions, watched)


def _served_answers(
    collection: str, plan: Plan, version: str, questions: Sequence[Question], watched: Callable[[int, int], None]
) -> tuple[Answer, ...]:
    if plan.mode != "rebuild" or plan.live in ("", version):
        return ()
    try:
        return _answers(collection, plan.live, questions, watched)
    except ModelMismatch:
        # The served version has vectors of the model before: nothing of this run can ask it, the floors decide.
        return ()
