"""The reports of an evaluation for people and CI: one HTML page that opens offline, and JUnit XML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree import ElementTree

from kubeflow_corpus.evaluation.metrics import Answer, Difference, Interval, break_down, latency, summarize
from kubeflow_corpus.evaluation.run import EVIDENCE_HITS, misses, problems
from kubeflow_corpus.reports.pages import render_page

_BREAKDOWNS: Final = {
    "tool": lambda answer: answer.question.tool,
    "kind": lambda answer: answer.question.kind,
    "product": lambda answer: answer.question.product_area or "any",
    "intent": lambda answer: answer.intent or "unknown",
}
# Where `kubeflow-corpus explore` answers, unless it was given another port: misses link there.
EXPLORER_PORT: Final = 8090
_PLOTTED: Final = ("hit@1", "hit@5", "mrr@10", "evidence")


def to_html(
    title: str, answers: Sequence[Answer], differences: Sequence[Difference] = (), failures: Sequence[str] = ()
) -> str:
    """Returns the report: verdict, metrics with intervals, breakdowns, comparison and every miss.

    Args:
        title: Names the run.
        answers: What was answered.
        differences: Against a baseline.
        failures: Lines of a gate that failed.
    """
    by_kind = break_down(answers, _BREAKDOWNS["kind"])
    return render_page(
        "evaluation.html",
        title=title,
        failures=failures,
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
