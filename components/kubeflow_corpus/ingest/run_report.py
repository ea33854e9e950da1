"""How a run went, for programs (JSON) and for people (an HTML page): what was read, left out, marked, lost and changed.

The console shows the same in short. The page stands for itself: it opens offline and names everything by source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kubeflow_corpus.ingest.progress import Event
from kubeflow_corpus.ingest.results import SourceState, StepResult
from kubeflow_corpus.ingest.summary import failures, left_catalogue
from kubeflow_corpus.records import Skip
from kubeflow_corpus.reports.pages import render_page

REPORT_VERSION: Final = 1
# Runs that a trend shows.
SHOWN_RUNS: Final = 20
# Documents that are named for one reason, and characters of such a name.
EXAMPLES: Final = 5
_EXAMPLE_CHARACTERS: Final = 200


def with_examples(state: SourceState, skips: Iterable[Skip]) -> SourceState:
    """Returns a source with the names of some documents that gave nothing, by reason."""
    found: dict[str, list[str]] = {reason: list(names) for reason, names in state.examples.items()}
    for skip in skips:
        names = found.setdefault(skip.reason, [])
        if len(names) < EXAMPLES:
            names.append((skip.path or skip.document_id)[:_EXAMPLE_CHARACTERS])
    return replace(state, examples=found)


def run_report(
    results: Sequence[StepResult], events: Sequence[Event] = (), failed: Sequence[str] | None = None
) -> dict[str, Any]:
    """Returns how a run went, as JSON.

    Args:
        results: What `publish` returned, one per collection.
        events: What the steps said, where the run keeps it.
        failed: One line per failure, where more is known than the results say.
    """
    lines = [failure.line() for result in results for failure in failures(result)] if failed is None else list(failed)
    return {
        "report_version": REPORT_VERSION,
        "run": next((result.run for result in results if result.run), ""),
        "failures": lines,
        "collections": [_collection(result) for result in results],
        "steps": _steps(events),
    }


def run_page(report: Mapping[str, Any], before: Sequence[Mapping[str, Any]] = ()) -> str:
    """Returns the page of what `run_report` returned.

    Args:
        report: Of this run.
        before: Of the runs before it, the oldest first, for the trend.
    """
    return render_page("run.html", title=f"Run {report['run']}".strip(), report=report, trend=_trend([*before, report]))


def past_reports(runs: Path, newest: str) -> list[dict[str, Any]]:
    """Returns what earlier runs on this machine left, the oldest first.

    Args:
        runs: Folder of runs, which are named by their time.
        newest: Name of the run that they come before.
    """
    found: list[dict[str, Any]] = []
    for path in sorted(runs.glob("*/report.json"), reverse=True):
        if len(found) == SHOWN_RUNS:
            break
        if path.parent.name >= newest:
            continue
        try:
            report = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            # A run that was ended while it wrote: the others still show a trend.
            continue
        if isinstance(report, dict) and report.get("report_version") == REPORT_VERSION:
            found.append(report)
    return found[::-1]


def _trend(reports: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Returns figures over the last runs by collection and name, of the collections of the last run."""
    trend: dict[str, dict[str, list[float]]] = {}
    for name in (part["collection"] for part in reports[-1]["collections"]):
        series: dict[str, list[float]] = {}
        for report in reports:
            for part in (part for part in report["collections"] if part["collection"] == name):
                seconds = sum(step["seconds"] for step in report["steps"] if step["collection"] == name)
                for figure, count in {**part["figures"], "seconds": seconds}.items():
                    series.setdefault(figure, []).append(float(count))
        trend[name] = {figure: counts for figure, counts in series.items() if len(counts) > 1 and any(counts)}
    return {name: series for name, series in trend.items() if series}


def _collection(result: StepResult) -> dict[str, Any]:
    plan, record = result.plan, result.record
    return {
        "collection": result.collection,
        "status": result.status,
        "step": result.step,
        "problem": result.error,
        "mode": plan.mode if plan else "",
        "rebuilt_because": list(plan.reasons) if plan else [],
        "target": record.target if record else "",
        "outcome": record.outcome if record else "",
        "model": result.recipe.identity.model if result.recipe else "",
        "figures": dict(result.counts),
        "sources": [_source(source) for source in result.sources],
        "left_catalogue": list(left_catalogue(result)),
        "refused_rows": _refused(record.skipped if record else {}),
        "changes": _changes(result),
        "gate": {"passed": result.gate.passed, "failures": list(result.gate.failures)} if result.gate else None,
    }


def _source(state: SourceState) -> dict[str, Any]:
    return {
        "source": state.source,
        "status": state.status,
        "step": state.step,
        "problem": state.error,
        "revision": state.inputs.revision if state.inputs else "",
        "figures": state.figures,
        "given_nothing": [
            {"what": what, "count": count, "examples": list(state.examples.get(what.partition(": ")[2], ()))}
            for what, count in state.reasons.items()
        ],
        # What the chunkers marked, repaired or could not read whole.
        "marked": dict(sorted(state.details.items())),
        "alarms": list(state.alarms),
    }


def _refused(skipped: Mapping[str, int]) -> dict[str, int]:
    """Returns documents that the store does not take, by field."""
    prefix = "invalid_row:"
    return {reason.removeprefix(prefix): count for reason, count in skipped.items() if reason.startswith(prefix)}


def _changes(result: StepResult) -> list[dict[str, Any]]:
    """Returns the figures that differ from those of the run before, the largest change first."""
    if result.record is None or not result.before:
        return []
    pairs = [
        ("rows", result.before.get("rows", {}).get("rows_held", 0), result.record.rows.get("rows_held", 0)),
        *(
            (f"left out or skipped: {reason}", before.get(reason, 0), result.record.skipped.get(reason, 0))
            for before in [result.before.get("skipped", {})]
            for reason in sorted({*before, *result.record.skipped})
        ),
        *(
            (name, before.get(name, 0), result.record.counts.get(name, 0))
            for before in [result.before.get("counts", {})]
            for name in sorted({*before, *result.record.counts})
        ),
    ]
    changed = [{"what": what, "before": before, "now": now} for what, before, now in pairs if before != now]
    return sorted(changed, key=lambda change: -abs(change["now"] - change["before"]))


def _steps(events: Sequence[Event]) -> list[dict[str, Any]]:
    return [
        {
            "collection": event.collection,
            "step": event.step,
            "item": event.item,
            "state": event.state,
            "seconds": event.seconds,
            "memory_mb": event.memory_mb,
        }
        for event in events
        if event.state in ("done", "failed")
    ]
