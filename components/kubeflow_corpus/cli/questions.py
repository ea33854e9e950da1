"""``kubeflow-corpus questions``: what was asked and found nothing, little or late, what comes again and what is new."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubeflow_corpus.errors import CorpusError, SettingsError
from kubeflow_corpus.settings import Settings

if TYPE_CHECKING:
    from kubeflow_corpus.evaluation.asked import Embed, Group, QuestionReport
    from kubeflow_corpus.query.question_log import AskedQuestion

DEFAULT_SHOWN: Final = 10
_TITLES: Final = {
    "unhelpful": "did not help",
    "empty": "found nothing",
    "weak": "found little",
    "slow": "took a second or more",
    "repeated": "were asked again",
    "new": "are new since the last report",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "log", type=Path, nargs="*", metavar="LOG", help="logs of questions (default: the file of QUESTION_LOG)"
    )
    parser.add_argument("--days", type=float, default=0.0, metavar="N", help="only the last N days (default: all)")
    parser.add_argument(
        "--limit", type=int, default=DEFAULT_SHOWN, metavar="N", help="questions of each kind (default: %(default)s)"
    )
    parser.add_argument("--words-only", action="store_true", help="join questions of the same words only: no model")
    parser.add_argument("--peek", action="store_true", help="do not note that the log was read: new stays new")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Reads the logs and prints what they say.

    Raises:
        SettingsError: No log is named, or a file is not a log.
    """
    from kubeflow_corpus.evaluation.asked import report_questions
    from kubeflow_corpus.query.question_log import DAY_SECONDS, last_reading, note_reading

    settings = Settings.from_env()
    logs = args.log or ([Path(settings.question_log)] if settings.question_log else [])
    if not logs:
        raise SettingsError("No log of questions is named", remedy="Name a file, or set QUESTION_LOG")
    now = time.time()
    asked = _read(logs, now - args.days * DAY_SECONDS if args.days > 0 else 0.0)
    since = min(map(last_reading, logs))
    embed = None if args.words_only else _embedder(settings, asked)
    report = report_questions(asked, new_since=since, embed=embed)
    print(json.dumps(report.to_dict(), ensure_ascii=False, indent=1) if args.json else "\n".join(_lines(report, args)))
    if not args.peek:
        for log in logs:
            note_reading(log, now)
    return 0


def _read(logs: Sequence[Path], since: float) -> list[AskedQuestion]:
    from kubeflow_corpus.query.question_log import read_log

    every = [question for log in logs for question in read_log(log, since)]
    return sorted(every, key=lambda question: question.at)


def _embedder(settings: Settings, asked: Sequence[AskedQuestion]) -> Embed | None:
    """Returns what makes vectors of questions; None, and a line that says so, where nothing can."""
    from kubeflow_corpus.embedding.factory import embedder_from_settings

    if len(asked) < 2:
        return None
    try:
        embedder = embedder_from_settings(settings, for_queries=True)
        embedder.embed([asked[0].question])
    except CorpusError as error:
        print(f"questions are joined by their words only: {error.problem}", file=sys.stderr)
        return None
    return lambda texts: embedder.embed(texts)


def _lines(report: QuestionReport, args: argparse.Namespace) -> Iterator[str]:
    counts = report.counts
    yield f"{counts['asked']:,} questions, {len(report.groups):,} different ones"
    for name in ("empty", "weak", "slow", "degraded", "failed", "helpful", "unhelpful"):
        if counts[name]:
            yield f"  {name:<10} {counts[name]:>7,}  {counts[name] / counts['asked']:>6.1%}"
    if report.by_area:
        yield ""
        yield "by product     asked  empty   weak   slow"
        for area, of_area in report.by_area.items():
            figures = (of_area.get(name, 0) for name in ("asked", "empty", "weak", "slow"))
            yield f"  {area:<12} " + " ".join(f"{figure:>6,}" for figure in figures)
    for section, title in _TITLES.items():
        groups = report.section(section)
        if not groups:
            continue
        yield ""
        yield f"{len(groups):,} {title}:"
        for group in groups[: args.limit]:
            yield from _group(group)


def _group(group: Group) -> Iterator[str]:
    last = datetime.fromtimestamp(group.last, UTC).strftime("%Y-%m-%d %H:%M")
    yield f"  {group.times:>4} x  {_one_line(group.question)}"
    yield f"          {', '.join(group.collections)}; last {last}; request {group.requests[0]}"
    for wording in group.wordings:
        yield f"          also: {_one_line(wording)}"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 110 else f"{line[:107]}..."
