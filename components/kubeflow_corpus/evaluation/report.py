"""The reports of an evaluation for people and CI: one HTML page that opens offline, and JUnit XML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode
from xml.etree import ElementTree

from kubeflow_corpus.evaluation.baseline import Setup
from kubeflow_corpus.evaluation.history import PastRun
from kubeflow_corpus.evaluation.metrics import Answer, Difference, Interval, break_down, latency, summarize
from kubeflow_corpus.evaluation.questions import Question
from kubeflow_corpus.evaluation.run import EVIDENCE_HITS, misses, problems
from kubeflow_corpus.reports.pages import EXPLORER_URL, render_page
from kubeflow_corpus.store.schema import HEAD_PREFIX

_BREAKDOWNS: Final = {
    "tool": lambda answer: answer.question.tool,
    "kind": lambda answer: answer.question.kind,
    "product": lambda answer: answer.question.product_area or "any",
    "intent": lambda answer: answer.intent or "unknown",
}
_PLOTTED: Final = ("hit@1", "hit@5", "mrr@10", "evidence")


def to_html(
    title: str,
    answers: Sequence[Answer],
    differences: Sequence[Difference] = (),
    failures: Sequence[str] = (),
    *,
    about: Mapping[str, str] | None = None,
    history: Sequence[PastRun] = (),
    explorer: str = EXPLORER_URL,
) -> str:
    """Returns the report: verdict, metrics with intervals, trend, breakdowns, comparison and every miss.

    Args:
        title: Names the run.
        answers: What was answered.
        differences: Against a baseline.
        failures: Lines of a gate that failed.
        about: When and of what it was: date, model, revisions.
        history: Runs of the same questions, this one last.
        explorer: Address of the page of ``kubeflow-corpus explore``, where misses are opened.
    """
    by_kind = break_down(answers, _BREAKDOWNS["kind"])
    return render_page(
        "evaluation.html",
        title=title,
        failures=failures,
        about=about or {},
        trend=_trend(history),
        explorer_link=lambda question: explorer_link(question, explorer),
        summary=summarize(answers),
        latency=latency(answers),
        plotted={kind: [_mean(summary, name) for name in _PLOTTED] for kind, summary in by_kind.items()},
        plotted_metrics=_PLOTTED,
        breakdowns={name: break_down(answers, key) for name, key in _BREAKDOWNS.items()},
        differences=differences,
        missed=misses(answers),
        asked=len(answers),
        explain=explain,
        metric_names=lambda groups: list(dict.fromkeys(name for summary in groups.values() for name in summary)),
        shown=lambda answer: [hit[0] for hit in answer.ranked[:EVIDENCE_HITS]],
    )


def about_run(at: str, setup: Setup) -> dict[str, str]:
    """Returns when and of what an evaluation was: date, model, and the revision of each source."""
    heads = {name.removeprefix(HEAD_PREFIX): head[:12] for name, head in setup.heads.items()}
    return {"date": at, "model": setup.model, **heads}


def explorer_link(question: Question, explorer: str) -> str:
    """Returns the address at which `explore` asks a question, with its filters and what it expects."""
    fields = [("q", question.query), ("in", question.tool), *question.filters.items()]
    fields += [("expected", address) for address in question.expected]
    return f"{explorer.rstrip('/')}/?{urlencode(fields, errors='replace')}"


def _trend(history: Sequence[PastRun]) -> dict[str, list[float]]:
    names = dict.fromkeys(name for run in history for name in run.metrics)
    return (
        {name: [run.metrics[name] for run in history if name in run.metrics] for name in names} if history[1:] else {}
    )


def _mean(summary: Mapping[str, Interval], metric: str) -> float | None:
    return summary[metric].mean if metric in summary else None


def to_junit(answers: Sequence[Answer]) -> str:
    """Returns one test case per question; it fails if `problems` names any."""
    failed = {answer.question.id for answer in misses(answers)}
    suite = ElementTree.Element(
        "testsuite", name="retrieval", tests=str(len(answers)), failures=str(len(failed)), errors="0", skipped="0"
    )
    for answer in answers:
        question = answer.question
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"{question.tool}.{question.kind}",
            name=f"{question.id}: {_xml_text(question.query)}",
            time=f"{answer.milliseconds / 1000:.4f}",
        )
        if question.id in failed:
            ElementTree.SubElement(case, "failure", message=_xml_text(explain(answer)))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def explain(answer: Answer) -> str:
    """Returns one line that says what is wrong with an answer, and the rank of the right one."""
    return "; ".join(problems(answer))


def _xml_text(text: str) -> str:
    """Drops what XML 1.0 cannot carry: a question may hold a pasted control character."""
    return "".join(c for c in text if c in "\t\n" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff")
