"""What every benchmark gives: rows of one table, each a figure beside what it is measured against.

A benchmark is a module ``bench_<name>.py`` in this folder with a function ``measure(scale) -> Iterator[Row]``; it is
found by its name. Absolute figures depend on the machine and on who else uses it: what is judged are ratios, and both
sides of a ratio are measured in turns within one run (`in_turns`).
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        name: What was measured.
        value: The figure.
        unit: Its unit.
        baseline: The figure of what it is compared with, in the same unit; None where there is nothing to compare.
        against: What that is.
        least: The ratio value / baseline that is asked for.
        most: A limit of the value itself (a latency, a size).
        points: Further (x, y) figures of a curve, for the plot of the report.
        note: Anything a reader should know.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    against: str = ""
    least: float | None = None
    most: float | None = None
    points: Sequence[tuple[float, float]] = ()
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Value by baseline."""
        return self.value / self.baseline if self.baseline else None

    @property
    def kept(self) -> bool | None:
        """Whether what is asked for is reached; None where nothing is asked."""
        checks = []
        if self.least is not None and self.ratio is not None:
            checks.append(self.ratio >= self.least)
        if self.most is not None:
            checks.append(self.value <= self.most)
        return all(checks) if checks else None


@dataclass(slots=True)
class Report:
    """All rows of a run, by benchmark."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=lambda: describe_machine())

    def to_json(self) -> str:
        """Returns the one JSON of a run."""
        rows = {
            name: [asdict(row) | {"ratio": row.ratio, "kept": row.kept} for row in rows]
            for name, rows in self.rows.items()
        }
        return json.dumps({"machine": self.machine, "benchmarks": rows}, indent=2)

    def missed(self) -> list[Row]:
        """Returns the rows that are not what is asked for."""
        return [row for rows in self.rows.values() for row in rows if row.kept is False]


HEADINGS = ("benchmark", "what", "value", "unit", "against", "baseline", "ratio", "asked", "kept")


def cells(benchmark: str, row: Row) -> tuple[str, ...]:
    """Returns a row as texts, one for each of `HEADINGS`."""
    asked = []
    if row.least is not None:
        asked.append(f"ratio >= {row.least:g}")
    if row.most is not None:
        asked.append(f"<= {row.most:g} {row.unit}")
    return (
        benchmark,
        row.name,
        f"{row.value:,.4g}" if row.value < 1000 else f"{row.value:,.0f}",
        row.unit,
        row.against,
        "" if row.baseline is None else f"{row.baseline:,.4g}" if row.baseline < 1000 else f"{row.baseline:,.0f}",
        "" if row.ratio is None else f"{row.ratio:.3f}",
        ", ".join(asked),
        {True: "yes", False: "NO", None: ""}[row.kept],
    )


def table(report: Report) -> str:
    """Returns the one table of a run, as Markdown."""
    lines = [HEADINGS, *(cells(name, row) for name, rows in report.rows.items() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    texts = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    return "\n".join([texts[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *texts[1:]])


def html(report: Report) -> str:
    """Returns a page that opens offline: the table, and a plot for each row that has a curve."""
    head = "".join(f"<th>{escape(text)}</th>" for text in HEADINGS)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells(name, row)) + "</tr>"
        for name, rows in report.rows.items()
        for row in rows
    )
    plots = "".join(plot(row) for rows in report.rows.values() for row in rows if len(row.points) > 1)
    style = "body{font-family:sans-serif}table{border-collapse:collapse}td,th{border:1px solid #bbb;padding:.2em .6em}"
    facts = escape(", ".join(f"{name} {value}" for name, value in report.machine.items()))
    return (
        f"<!doctype html><meta charset=utf-8><title>Benchmarks</title><style>{style}</style><h1>Benchmarks</h1>"
        f"<p>{facts}</p><table><tr>{head}</tr>{body}</table>{plots}"
    )


def plot(row: Row) -> str:
    """Returns the curve of a row as inline SVG."""
    width, height = 560, 220
    most_x, most_y = (max(axis) or 1 for axis in zip(*row.points, strict=True))
    spots = [(60 + width * x / most_x, 30 + height * (1 - y / most_y)) for x, y in row.points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    labels = "".join(
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3'/><text x='{x:.1f}' y='{y - 8:.1f}'>{value:,.4g}</text>"
        f"<text x='{x:.1f}' y='{height + 50}'>{at:,.4g}</text>"
        for (x, y), (at, value) in zip(spots, row.points, strict=True)
    )
    return (
        f"<h2>{escape(row.name)} ({escape(row.unit)})</h2><svg width='{width + 120}' height='{height + 60}' "
        f"font-size='11' text-anchor='middle'><polyline points='{line}' fill='none' stroke='#2a6f97'/>{labels}</svg>"
    )


def seconds_of(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Returns how long a call takes."""
    started = clock()
    work()
    return clock() - started


def in_turns(rounds: int, *works: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Returns the shortest time of each call, all of them run in turns: a busy moment then hits every side.

    Args:
        rounds: How often each is run.
        *works: What is compared.
        clock: `time.process_time` where work on every core is compared on a machine that others use, too.
    """
    times = [[seconds_of(work, clock) for work in works] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def percentile(values: Iterable[float], share: float) -> float:
    """Returns the value below which a share of all values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def peak_memory_mb() -> float:
    """Returns the most memory that this process has held, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def describe_machine() -> dict[str, Any]:
    """Returns what the figures depend on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = os.getloadavg()[0]
    return {"python": platform.python_version(), "system": platform.platform(), "cores": cores, "load": round(load, 2)}


def shared(name: str) -> Path | None:
    """Returns a folder of real data beside the checkout; None where it is absent."""
    folder = Path(__file__).parents[3] / "shared" / name
    return folder if folder.exists() else None
