"""How a run went, in words: one line per failure, and one table per collection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kubeflow_corpus.ingest.results import SourceState, StepResult
from kubeflow_corpus.ingest.step import FAILED_FILE

# What chunkers count under these names is markup of a site generator that they could not show.
MARKUP: Final = ("shortcode:", "directive:", "role:", "include:")
_MARKUP_SHOWN: Final = 12
# Figures of a source that the table shows, where it has them.
COLUMNS: Final = ("documents", "skipped", "left out", "failed", "chunks", "added", "changed", "deleted")

# Documents that the one line of a failure names; the summary has all of them.
_NAMED_IN_A_LINE: Final = 5


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


def failures(result: StepResult) -> list[Failure]:
    """Returns what failed in a collection: its sources, what raised an alarm for them, and the collection itself."""
    collection = result.collection
    found = [Failure(collection, part.source, part.step, part.error) for part in result.sources if part.failed]
    found += [Failure(collection, part.source, "", alarm) for part in result.sources for alarm in part.alarms]
    found += [Failure(collection, part.source, "", _failed_cause(part)) for part in result.sources if _failed(part)]
    if result.failed:
        found.append(Failure(collection, "", result.step, result.error))
    return found


def _failed(source: SourceState) -> int:
    return source.counts.get("failed", 0)


def _failed_cause(source: SourceState) -> str:
    count, named = _failed(source), [document.line() for document in source.failed_documents[:_NAMED_IN_A_LINE]]
    more = f"; and {count - len(named):,} more" if count > len(named) else ""
    documents = "1 document" if count == 1 else f"{count:,} documents"
    return f"{documents} failed ({'; '.join(named)}{more}). Their stored rows stay; the next run tries again"


def failed_lines(result: StepResult) -> list[str]:
    """Returns the documents that failed in a collection, one line each."""
    lines = []
    for part in result.sources:
        lines += [f"{part.source}: failed: {document.line()}" for document in part.failed_documents]
        if more := _failed(part) - len(part.failed_documents):
            lines.append(f"{part.source}: failed: {more:,} more documents, see {FAILED_FILE} of the run")
    return lines


def table(result: StepResult) -> tuple[list[str], list[list[str]]]:
    """Returns the header and the rows of the table of a collection, one row per source."""
    parts = [(part, part.figures) for part in result.sources]
    shown = [name for name in COLUMNS if any(name in figures for _, figures in parts)]
    rows = [[part.source, *(f"{figures.get(name, 0):,}" for name in shown), _state(part)] for part, figures in parts]
    return ["source", *shown, "state"], rows


def _state(state: SourceState) -> str:
    if state.failed:
        return f"failed at {state.step}"
    return "ok" if state.ok else "not read"


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


def figures_line(result: StepResult) -> str:
    """Returns the figures of a collection as one line."""
    return ", ".join(f"{count:,} {name}" for name, count in result.counts.items())


def reasons(result: StepResult) -> list[str]:
    """Returns why documents of a collection gave nothing, one line per source and reason."""
    lines = [f"{part.source}: {count:,} {reason}" for part in result.sources for reason, count in part.reasons.items()]
    return [*lines, *left_catalogue(result)]


def left_catalogue(result: StepResult) -> list[str]:
    """Returns the sources that are stored and no longer in the catalogue, one line each with the remedy."""
    plan = result.plan
    return [
        f"{name}: {plan.documents[name].get('held', 0):,} documents are stored, and the catalogue no longer has the "
        f"source. Remove them with --allow-deletions {name}"
        for name in (plan.orphans if plan else ())
        if plan and name not in plan.allow_deletions
    ]


def not_shown(result: StepResult) -> list[str]:
    """Returns the markup of a site generator that could not be shown, one line per source, the most frequent first."""
    lines: list[str] = []
    for part in result.sources:
        found = [(name.partition(":")[2], count) for name, count in part.details.items() if name.startswith(MARKUP)]
        found.sort(key=lambda item: (-item[1], item[0]))
        if found:
            more = [f"and {len(found) - _MARKUP_SHOWN} more"] if len(found) > _MARKUP_SHOWN else []
            names = ", ".join([*(f"{name} ({count:,})" for name, count in found[:_MARKUP_SHOWN]), *more])
            lines.append(f"{part.source}: not shown as on the site: {names}")
    return lines


def summary_lines(result: StepResult) -> list[str]:
    """Returns how it went with a collection as lines of text."""
    header, rows = table(result)
    figures = figures_line(result) or ("nothing was done" if result.sources else "no source")
    head = f"{result.collection}: {figures}"
    if not rows:
        return [head]
    return [head, *text_table(header, rows), *reasons(result), *not_shown(result), *failed_lines(result)]


def markdown(result: StepResult) -> str:
    """Returns the summary of a collection for the KFP UI."""
    header, rows = table(result)
    lines = [f"# {result.collection}: {result.status}", "", figures_line(result), ""]
    if rows:
        lines += [_markdown_row(header), _markdown_row(["---"] * len(header)), *map(_markdown_row, rows), ""]
    lines += [f"- {line}" for line in (*reasons(result), *not_shown(result), *failed_lines(result))]
    lines += [f"- **{failure.line()}**" for failure in failures(result)]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
