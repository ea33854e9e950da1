"""The reports of an evaluation for people and CI: one HTML page that opens offline, and JUnit XML."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree import ElementTree

from kubeflow_corpus.evaluation.metrics import Answer, Difference, Interval, break_down, latency, summarize
from kubeflow_corpus.evaluation.run import EVIDENCE_HITS, misses, problems

_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #1b1f24 }
table { border-collapse: collapse; margin: .5rem 0 1.5rem } th, td { padding: .25rem .7rem; text-align: right }
th { border-bottom: 2px solid #8a94a0 } td { border-bottom: 1px solid #d9dee3 }
th:first-child, td:first-child, .text td { text-align: left } .text td { vertical-align: top }
.bad { color: #a4161a; font-weight: 600 } .good { color: #1a7431 } .dim { color: #5c6672 } code { font-size: 13px }
"""
_BREAKDOWNS: Final = {
    "tool": lambda answer: answer.question.tool,
    "kind": lambda answer: answer.question.kind,
    "intent": lambda answer: answer.intent or "unknown",
}
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
    parts = [f"<h1>{html.escape(title)}</h1>", _verdict(failures), _table({"all": summarize(answers)}, "set")]
    parts.append(_latency(answers))
    parts.append(_plot(break_down(answers, _BREAKDOWNS["kind"])))
    for name, key in _BREAKDOWNS.items():
        parts.append(f"<h2>By {name}</h2>{_table(break_down(answers, key), name)}")
    if differences:
        parts.append(f"<h2>Against the baseline</h2>{_differences(differences)}")
    parts.append(_misses(answers))
    body = "\n".join(parts)
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{html.escape(title)}</title>"
        f"<style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


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


def _verdict(failures: Sequence[str]) -> str:
    if not failures:
        return "<p class='good'>Passed.</p>"
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in failures)
    return f"<p class='bad'>Failed:</p><ul class='bad'>{lines}</ul>"


def _table(groups: Mapping[str, Mapping[str, Interval]], head: str) -> str:
    metrics = list(dict.fromkeys(name for summary in groups.values() for name in summary))
    header = "".join(f"<th>{name}</th>" for name in (head, "questions", *metrics))
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td>{_cells(summary, metrics)}</tr>" for name, summary in groups.items()
    )
    return f"<table><tr>{header}</tr>{rows}</table>"


def _cells(summary: Mapping[str, Interval], metrics: Sequence[str]) -> str:
    count = max(interval.count for interval in summary.values())
    cells = [f"<td>{count}</td>"]
    for name in metrics:
        interval = summary.get(name)
        cells.append(
            f"<td>{interval.mean:.3f} <span class='dim'>[{interval.low:.2f}, {interval.high:.2f}]</span></td>"
            if interval
            else "<td class='dim'>none</td>"
        )
    return "".join(cells)


def _latency(answers: Sequence[Answer]) -> str:
    times = ", ".join(f"{name} {value:.0f} ms" for name, value in latency(answers).items())
    return f"<p class='dim'>Searches: {times}. Intervals: 90%, bootstrap over questions.</p>"


def _plot(groups: Mapping[str, Mapping[str, Interval]]) -> str:
    from matplotlib.figure import Figure

    names = list(groups)
    figure = Figure(figsize=(9, 0.4 * len(names) * len(_PLOTTED) / 2 + 1.2))
    axes = figure.subplots()
    height = 0.8 / len(_PLOTTED)
    for index, metric in enumerate(_PLOTTED):
        places = [row + (index - (len(_PLOTTED) - 1) / 2) * height for row in range(len(names))]
        values = [groups[name][metric].mean if metric in groups[name] else 0.0 for name in names]
        axes.barh(places, values, height=height * 0.9, label=metric)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlim(0, 1)
    axes.invert_yaxis()
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=len(_PLOTTED), frameon=False)
    figure.tight_layout()
    target = io.StringIO()
    figure.savefig(target, format="svg", metadata={"Date": None})
    svg = target.getvalue()
    return svg[svg.index("<svg") :]


def _differences(differences: Sequence[Difference]) -> str:
    rows = []
    for change in differences:
        verdict = "noise" if change.is_noise else "significant"
        rows.append(
            f"<tr><td>{change.metric}</td><td>{change.delta.mean:+.3f}</td>"
            f"<td>[{change.delta.low:+.3f}, {change.delta.high:+.3f}]</td>"
            f"<td>{change.better}</td><td>{change.worse}</td><td>{verdict}</td></tr>"
        )
    head = "<tr><th>metric</th><th>delta</th><th>90% interval</th><th>better</th><th>worse</th><th></th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _misses(answers: Sequence[Answer]) -> str:
    missed = misses(answers)
    if not missed:
        return "<h2>Misses</h2><p>None.</p>"
    rows = []
    for answer in missed:
        expected = "<br>".join(f"<code>{html.escape(path)}</code>" for path in answer.question.expected)
        shown = "<br>".join(f"<code>{html.escape(hit[0])}</code>" for hit in answer.ranked[:EVIDENCE_HITS])
        rows.append(
            f"<tr><td>{html.escape(answer.question.id)}</td><td>{html.escape(answer.question.query)}</td>"
            f"<td>{html.escape(explain(answer))}</td><td>{expected}</td><td>{shown}</td></tr>"
        )
    head = "<tr><th>id</th><th>question</th><th>what went wrong</th><th>expected</th><th>retrieved</th></tr>"
    return f"<h2>Misses ({len(missed)} of {len(answers)})</h2><table class='text'>{head}{''.join(rows)}</table>"


def _xml_text(text: str) -> str:
    """Drops what XML 1.0 cannot carry: a question may hold a pasted control character."""
    return "".join(c for c in text if c in "\t\n" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff")
