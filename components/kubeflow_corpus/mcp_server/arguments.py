"""What the arguments of the writing tools have in common: their limits, how they are checked, how one is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from kubeflow_corpus.collections import FILTERS
from kubeflow_corpus.errors import InvalidArgument
from kubeflow_corpus.store.schema import CONTROLS

STATES: Final = FILTERS["state"].known
# What a writer may send: a page, a thread or a file that a person wrote, not a data set.
MAX_CONTENT_CHARACTERS: Final = 200_000
MAX_THREAD_NUMBER: Final = 2**31


def wrong(argument: str, problem: str, remedy: str) -> InvalidArgument:
    """Returns the error of an argument, which names it."""
    return InvalidArgument(f"{argument}: {problem}", remedy=remedy, argument=argument)


def one_line(argument: str, text: str) -> str:
    """Returns a text as one line, its runs of blanks as one.

    Raises:
        InvalidArgument: It is empty, or more than a line.
    """
    if CONTROLS.search(text) or "\n" in text or "\t" in text:
        raise wrong(argument, "it holds control characters or a line break", "Write one line")
    text = " ".join(text.split())
    if not text:
        raise wrong(argument, "it is empty", "Write something")
    return text


def read_moment(argument: str, text: str | None) -> str:
    """Returns a time as ISO 8601 UTC; the time of the call if it is empty.

    Raises:
        InvalidArgument: It is not a time.
    """
    try:
        moment = datetime.fromisoformat(text) if text else datetime.now(UTC)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError) as error:
        raise wrong(argument, "it is not a date", "Write it as 2026-03-31T12:00:00Z") from error
