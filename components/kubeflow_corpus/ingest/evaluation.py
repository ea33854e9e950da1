"""The step of a run that asks questions of what was written, before readers do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubeflow_corpus.errors import ModelMismatch
from kubeflow_corpus.ingest.progress import StepWatch
from kubeflow_corpus.ingest.results import StepResult
from kubeflow_corpus.ingest.step import Work, fresh_folder, read_result, run_step, write_result
from kubeflow_corpus.ingest.words import read_vocabulary
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.records import GateReport
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.lease import Lease
from kubeflow_corpus.store.plan import Plan
from kubeflow_corpus.vocabulary import Vocabulary

if TYPE_CHECKING:
    from kubeflow_corpus.evaluation.metrics import Answer
    from kubeflow_corpus.evaluation.questions import Question

# An evaluation waits for a busy machine: the deadline of a served search is not what is measured.
_SEARCH_TIMEOUT_SECONDS: Final = 60.0
_NOTHING_ASKED: Final = "<p>No question was asked.</p>\n"


def evaluate(applied: str, target: str, page: str) -> StepResult:
    """Asks questions of the version that was written, whether it is served yet or not.

    Without a question set nothing is asked, and the store's own gate in `publish` decides alone. A rebuild is served
    and an incremental run raises no alarm only with the least means of the run's floors (`DEFAULT_FLOORS` where it has
    none); a rebuild must also not be worse than what is served.

    Args:
        applied: Folder that `apply` wrote.
        target: Folder for the result, which has what the gate says.
        page: File for the report, HTML.
    """
    Path(page).parent.mkdir(parents=True, exist_ok=True)
    Path(page).write_text(_NOTHING_ASKED, encoding="utf-8")
    before = read_result(applied).begin("evaluate")
    if before.options.questions:
        return run_step(before, target, _evaluate, Path(page), read_vocabulary([applied]))
    write_result(fresh_folder(target), before)
    return before


def _evaluate(work: Work[StepResult], page: Path, words: Vocabulary | None) -> StepResult:
    plan, settings, process = work.before.planned, Settings.from_env(), work.before.options.process
    # Nobody else is to write what is being asked, however long that takes.
    with (
        connected(settings) as client,
        Lease(client, plan.served, plan.run, embedded=settings.embedded_milvus, process=process).kept() as keep,
    ):
        report = _ask(work, partial(_report_progress, work.watch, keep), page, words)
    work.watch.count(failures=len(report.failures))
    return replace(work.before, gate=report)


def _report_progress(watch: StepWatch, keep: Callable[[], None], done: int, total: int) -> None:
    keep()
    watch.progress(done, total, "questions")


def _ask(
    work: Work[StepResult], progress: Callable[[int, int], None], page: Path, words: Vocabulary | None
) -> GateReport:
    from kubeflow_corpus.evaluation.baseline import DEFAULT_FLOORS, Baseline, gate
    from kubeflow_corpus.evaluation.metrics import compare
    from kubeflow_corpus.evaluation.questions import load_questions
    from kubeflow_corpus.evaluation.report import to_html

    collection, options, plan = work.before.collection, work.before.options, work.before.planned
    asked = load_questions(Path(options.questions), words)
    chosen = tuple(question for question in asked if question.tool == collection)
    work.watch.count(questions=len(chosen))
    if not chosen:
        return GateReport(passed=True)
    version = work.before.applied.target
    answers = _answers(collection, version, chosen, progress)
    # A rebuild stands beside what is served: the same questions say which of the two is better. An incremental run
    # changed what is served, so that there is nothing left to compare with.
    served = _served_answers(collection, plan, version, chosen, progress)
    baseline = Baseline.of(served, plan.recipe.identity.model, {}) if served else None
    report = gate(answers, baseline=baseline, floors=options.floors or DEFAULT_FLOORS)
    html = to_html(f"{collection}: {version}", answers, compare(answers, served), report.failures)
    page.write_text(html, encoding="utf-8")
    return report


def _answers(
    collection: str, version: str, questions: Sequence[Question], progress: Callable[[int, int], None]
) -> tuple[Answer, ...]:
    from kubeflow_corpus.evaluation.run import ClientSearcher, ask
    from kubeflow_corpus.query.client import CorpusClient

    with CorpusClient(
        settings=Settings.from_env().unlogged(), collections={collection: version}, timeout=_SEARCH_TIMEOUT_SECONDS
    ) as client:
        client.warm_up([collection])
        return ask(ClientSearcher(client, {}), questions, progress)


def _served_answers(
    collection: str, plan: Plan, version: str, questions: Sequence[Question], progress: Callable[[int, int], None]
) -> tuple[Answer, ...]:
    if plan.mode != "rebuild" or plan.live in ("", version):
        return ()
    try:
        return _answers(collection, plan.live, questions, progress)
    except ModelMismatch:
        # The served version has vectors of the model before: nothing of this run can ask it, the floors decide.
        return ()
