"""What became of a run, in words: a line for each failure, and a table for each collection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kubeflow_corpus.ingest.outcomes import Outcome, reasons_of

# Column of the table: the count of a source that it shows.
COLUMNS: Final = {
    "documents": "documents",
    "skipped": "skipped",
    "left out": "left out",
    "chunks": "chunks",
    "added": "added",
    "changed": "changed",
    "deleted": "deleted",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that failed.

    Attributes:
        collection: ``docs``, ``issues`` or ``code``.
        source: Name of the source; empty where it is the collection.
        step: The step that failed.
        cause: Problem and remedy.
    """

    collection: str
    source: str
    step: str
    cause: str

    def line(self) -> str:
        """Returns the failure as a person reads it."""
        where = f"source {self.source}" if self.source else "collection"
        how = f"failed at {self.step}" if self.step else "is not complete"
        return f"{self.collection}: {where} {how}: {self.cause}"


def failures(collection: str, outcome: Outcome) -> list[Failure]:
    """Returns what failed in a collection: its sources, what they sound an alarm about, and the collection itself."""
    found = [Failure(collection, part.source, part.step, part.error) for part in outcome.sources if _failed(part)]
    found += [Failure(collection, part.source, "", alarm) for part in outcome.sources for alarm in part.alarms]
    if _failed(outcome):
        found.append(Failure(collection, "", outcome.step, outcome.error))
    return found


def _failed(outcome: Outcome) -> bool:
    return outcome.status == "failed"


def table(outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    """Returns the header and the rows of the table of a collection, a row for each source."""
    parts = [part for part in outcome.sources if part.source]
    shown = [name for name in COLUMNS if any(name in part.counts for part in parts)]
    rows = [[part.source, *(f"{int(part.counts.get(name, 0)):,}" for name in shown), _state(part)] for part in parts]
    return ["source", *(COLUMNS[name] for name in shown), "state"], rows


def _state(outcome: Outcome) -> str:
    if _failed(outcome):
        return f"failed at {outcome.step}"
    return "ok" if outcome.ok else "not read"


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns a table as lines of text: the first and the last column to the left, figures to the right."""
    cells = [list(header), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    last = len(header) - 1
    return [
        "  ".join(
            cell.ljust(width) if column in (0, last) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def totals(outcome: Outcome) -> str:
    """Returns the figures of a collection as one line."""
    return ", ".join(f"{int(count):,} {name}" for name, count in outcome.counts.items())


def reasons(outcome: Outcome) -> list[str]:
    """Returns why documents of a collection gave nothing, a line for each source and reason."""
    return [
        f"{part.source}: {count:,} {name}"
        for part in outcome.sources
        for name, count in reasons_of(part.counts).items()
    ]


def markdown(collection: str, outcome: Outcome) -> str:
    """Returns the summary of a collection for the KFP UI."""
    header, rows = table(outcome)
    lines = [f"# {collection}: {outcome.status}", "", totals(outcome), ""]
    if rows:
        lines += [_markdown_row(header), _markdown_row(["---"] * len(header)), *map(_markdown_row, rows), ""]
    lines += [f"- {line}" for line in reasons(outcome)]
    lines += [f"- **{failure.line()}**" for failure in failures(collection, outcome)]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
