"""Error strings and issue threads as an index and a question must read them alike.

People paste an error with their own pod names, hashes, addresses, times and line numbers. None of these occurs in the
thread that explains the error, so both sides leave them out before BM25 compares words. Every pattern is bounded or
free of nested repetition: a text is read in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

# Kubernetes draws the random parts of names from these letters: no vowels, none that look alike.
_RANDOM: Final = "bcdfghjklmnpqrstvwxz2456789"
_SOURCE_FILE: Final = r"(?:go|py|pyx|js|jsx|ts|tsx|java|scala|kt|cc|cpp|h|rs|sh|yaml|yml|json|jsonnet|proto)"
_LONG_NUMBER: Final = 6


def _drop_hash(match: re.Match[str]) -> str:
    # `deadbeef` is a word as well; what a program prints has digits.
    word = match.group()
    return " " if any(letter.isdigit() for letter in word) else word


def _drop_random_suffix(match: re.Match[str]) -> str:
    word = match.group()
    return "" if any(letter.isdigit() for letter in word) else word


Replacement = str | Callable[[re.Match[str]], str]

# What changes from one occurrence of an error to the next: (name, pattern, replacement), applied in this order.
VARIABLE_PARTS: Final[tuple[tuple[str, re.Pattern[str], Replacement], ...]] = (
    ("terminal colour", re.compile(r"\x1b\[[0-9;]{0,16}[A-Za-z]"), ""),
    (
        "date and time",
        re.compile(
            r"\b\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|UTC|[+-]\d\d:?\d\d)?)?(?![\w.])"
        ),
        " ",
    ),
    ("klog header", re.compile(r"\b[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{1,9} {1,8}\d{1,9} "), " "),
    ("time of day", re.compile(r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?\b"), " "),
    (
        "UUID",
        re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE),
        " ",
    ),
    ("digest", re.compile(r"\b(?:sha256|sha1|md5):[0-9a-f]{6,64}\b", re.IGNORECASE), " "),
    ("memory address", re.compile(r"\+?\b0x[0-9a-f]{1,16}\b", re.IGNORECASE), " "),
    ("IP address", re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d{1,5})?\b"), " "),
    (
        "pod of a deployment",
        re.compile(rf"-[{_RANDOM}]{{6,10}}-[{_RANDOM}]{{5}}(?![\w])"),
        _drop_random_suffix,
    ),
    ("pod of a workflow", re.compile(rf"-[{_RANDOM}]{{5}}-\d{{6,12}}(?!\w)"), ""),
    ("random suffix", re.compile(rf"-(?:[{_RANDOM}]{{8,10}}|[{_RANDOM}]{{5}})(?![\w])"), _drop_random_suffix),
    ("numbered suffix", re.compile(r"-\d{5,16}(?!\w)"), ""),
    ("hash", re.compile(r"\b[0-9a-f]{7,64}\b", re.IGNORECASE), _drop_hash),
    ("line of a source file", re.compile(rf"(\.{_SOURCE_FILE}):\d{{1,7}}(?::\d{{1,6}})?(?!\w)"), r"\1"),
    ("line of a traceback", re.compile(r",? line \d{1,7}\b"), " "),
    ("goroutine", re.compile(r"\bgoroutine \d{1,9}\b"), "goroutine"),
    ("home folder", re.compile(r"/(home|Users)/[\w.-]{1,64}/"), r"/\1/"),
    ("long number", re.compile(rf"(?<![\w.])\d{{{_LONG_NUMBER},32}}(?:\.\d{{1,12}})?(?![\w])"), " "),
)

_SPACES: Final = re.compile(r"[ \t]{2,}")
_DIGITS: Final = re.compile(r"\d+")

# How a thread that matches as well as others is preferred: a factor for its score. A fix comes before a report of the
# same symptom that nobody answered, and no thread loses more than a fifth, so that an open one is never hidden.
THREAD_STANDING: Final = {
    "resolved": 1.0,
    "closed": 0.92,
    "open": 0.9,
    "not_planned": 0.88,
    "duplicate": 0.8,
}


def stable_text(text: str) -> str:
    """Returns a text without what changes from one occurrence of an error to the next.

    Names lose their random parts (``ml-pipeline-ui-5d8f7c9b6d-x7k2p`` is ``ml-pipeline-ui``), source files their line
    numbers, and times, addresses, hashes and long numbers go. Versions, ports, codes and words stay. Lines stay lines.

    Args:
        text: A log, an error message or a question.
    """
    for _, pattern, replacement in VARIABLE_PARTS:
        text = pattern.sub(replacement, text)
    return _SPACES.sub(" ", text)


def symptom_key(line: str) -> str:
    """Returns a form in which two occurrences of one error line are equal."""
    return " ".join(_DIGITS.sub("", stable_text(line)).casefold().split())


def thread_standing(*, resolved: bool, state: str, state_reason: str = "") -> float:
    """Returns the factor by which the score of a thread's rows is to be multiplied.

    Args:
        resolved: Whether the thread holds its resolution.
        state: ``open`` or ``closed``.
        state_reason: What GitHub says of the state: ``completed``, ``not_planned``, ``duplicate``, ``reopened``.
    """
    if state_reason == "duplicate":
        return THREAD_STANDING["duplicate"]
    if resolved:
        return THREAD_STANDING["resolved"]
    if state_reason == "not_planned":
        return THREAD_STANDING["not_planned"]
    return THREAD_STANDING["closed" if state == "closed" else "open"]
