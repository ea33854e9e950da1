"""Every regular expression of the package takes time that grows with the text, not with its square.

For each pattern inputs are grown that make a backtracking engine try again: every part that may repeat is repeated,
with and without what stands before it, and ends with what fits nowhere. A pattern that is led over such a text may cost
a few milliseconds of processor time; one that grows with the square costs seconds.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import re._constants as codes
import re._parser as parser
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final

import kubeflow_corpus
import pytest

LENGTH: Final = 10_000
# Processor time: linear patterns need less than a fiftieth.
SECONDS: Final = 0.25
# Patterns whose text is cut to a length before they see it, with that length.
BOUNDED: Final[Mapping[str, int]] = {
    "chunking.code.outlines._RECEIVER": 300,  # _LONGEST_RECEIVER
    "chunking.code.outlines._RESYNC": 300,  # _LONGEST_DECLARATION
    "chunking.code.exclusions._HEADER": 400,  # two lines of _HEADER_WIDTH
    "query.headings._OPENING": 600,  # _OPENING_CHARACTERS
    "sites.hugo_shortcodes._TEMPLATE": 4_096,  # a path
}
ROOT: Final = Path(kubeflow_corpus.__path__[0])
# How the engine is led over a text by the methods of a pattern.
WAYS: Final = {"match": "match", "fullmatch": "fullmatch"}
ENDS: Final = ("\x00", "\n\n")
_IN_CLASS: Final = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}
_CANDIDATES: Final = " a0-.:/<>[](){}\"'`_=@#*\t\nZ"


def patterns() -> dict[str, re.Pattern[str]]:
    """Returns every compiled pattern that a module of the package holds, also in tables, by its name."""
    found: dict[str, re.Pattern[str]] = {}
    seen: set[tuple[str, int]] = set()
    for module in pkgutil.walk_packages(kubeflow_corpus.__path__, "kubeflow_corpus."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            for number, pattern in enumerate(_compiled(value)):
                if (pattern.pattern, pattern.flags) not in seen:
                    seen.add((pattern.pattern, pattern.flags))
                    key = f"{module.name.partition('.')[2]}.{name}"
                    found[key if key not in found else f"{key}[{number}]"] = pattern
    return found


def _compiled(value: Any, depth: int = 0) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif depth < 3 and isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from _compiled(item, depth + 1)
    elif depth < 3 and isinstance(value, dict):
        yield from _compiled([*value, *value.values()], depth + 1)
    elif depth < 3 and hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        yield from _compiled([getattr(value, name, None) for name in value.__dataclass_fields__], depth + 1)


def ways(name: str) -> set[str]:
    """Returns how the package leads a pattern over texts: tried at one place, or searched for everywhere."""
    module, _, variable = name.partition("[")[0].rpartition(".")
    files = [ROOT / f"{module.replace('.', '/')}.py"] if variable.startswith("_") else ROOT.rglob("*.py")
    text = "\n".join(file.read_text() for file in files)
    methods = "match|fullmatch|search|subn?|finditer|findall|split"
    used = {WAYS.get(way, "search") for way in re.findall(rf"\b{variable}\.({methods})\b", text)}
    return used or {"match", "search"}


def _one_of(items: list[Any], variant: int) -> str:
    """Returns a character of a class."""
    body = ""
    for code, value in items:
        if code is codes.NEGATE:
            body += "^"
        elif code is codes.LITERAL:
            body += re.escape(chr(value))
        elif code is codes.RANGE:
            body += f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        else:
            body += _IN_CLASS[value]
    literals = [chr(value) for code, value in items if code is codes.LITERAL]
    inside = [character for character in [*_CANDIDATES, *literals] if re.fullmatch(f"[{body}]", character)]
    return inside[variant % len(inside)] if inside else "a"


def _sample(tree: Any, variant: int) -> str:
    """Returns a text that a part of a pattern fits, or nearly."""
    out = ""
    for code, value in tree:
        if code is codes.LITERAL:
            out += chr(value)
        elif code in (codes.ANY, codes.NOT_LITERAL):
            out += "b"
        elif code is codes.IN:
            out += _one_of(value, variant)
        elif code is codes.BRANCH:
            out += _sample(value[1][variant % len(value[1])], variant)
        elif code is codes.SUBPATTERN:
            out += _sample(value[3], variant)
        elif code is codes.ATOMIC_GROUP:
            out += _sample(value, variant)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            out += _sample(value[2], variant) * max(value[0], 1)
    return out


def _repeated(tree: Any, before: str, variant: int) -> Iterator[tuple[str, str]]:
    """Yields what stands before each part that may repeat often, and that part."""
    for code, value in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            part = _sample(value[2], variant)
            if part and value[1] > 20:
                yield before, part
            yield from _repeated(value[2], before, variant)
        elif code is codes.BRANCH:
            for branch in value[1]:
                yield from _repeated(branch, before, variant)
        elif code is codes.SUBPATTERN:
            yield from _repeated(value[3], before, variant)
        elif code is codes.ATOMIC_GROUP:
            yield from _repeated(value, before, variant)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from _repeated(value[1], before, variant)
        before += _sample([(code, value)], variant)


def grown(pattern: re.Pattern[str], length: int) -> set[str]:
    """Returns texts of a length on which the pattern could be slow."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    found = set()
    for variant in range(2):
        whole = _sample(tree, variant)
        bodies = {part * length for part in (whole, whole[:-1])}
        for before, part in _repeated(tree, "", variant):
            bodies |= {before + part * length, part * length, (before + part) * length}
        found |= {body[:length] + end for body in bodies for end in ENDS}
    return found


class _TooSlow(BaseException):
    pass


def _stop(number: int, frame: FrameType | None) -> None:
    raise _TooSlow


def cost(pattern: re.Pattern[str], way: str, text: str) -> float:
    """Returns seconds of processor time, at most some more than `SECONDS`."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    started = time.process_time()
    try:
        if way == "search":
            for _ in pattern.finditer(text):
                pass
        else:
            getattr(pattern, way)(text)
    except _TooSlow:
        return SECONDS
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return time.process_time() - started


@pytest.fixture
def _alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGPROF, _stop)
    yield
    signal.signal(signal.SIGPROF, before)


def _slow(name: str, pattern: re.Pattern[str], length: int) -> str:
    for text in grown(pattern, length):
        for way in ways(name):
            if cost(pattern, way, text) >= SECONDS:
                return f"{name}: {way} over {text[:30]!r}... ({len(text)} characters)"
    return ""


@pytest.mark.slow
@pytest.mark.usefixtures("_alarm")
def test_no_pattern_is_slow_on_texts_that_were_grown_for_it() -> None:
    slow = [_slow(name, pattern, BOUNDED.get(name.partition("[")[0], LENGTH)) for name, pattern in patterns().items()]
    assert list(filter(None, slow)) == []


def test_every_bounded_pattern_is_there() -> None:
    assert set(BOUNDED) <= set(patterns())


@pytest.mark.usefixtures("_alarm")
@pytest.mark.parametrize("slow", [r"\s+$", r"<!--.*?-->", r"(a|aa)+b", r"x*y*x*z", r"(\d+)*[.]$"])
def test_a_pattern_that_grows_with_the_square_is_found(slow: str) -> None:
    assert _slow("sites.hugo_shortcodes._TEMPLATE", re.compile(slow, re.DOTALL), 40_000) or _slow(
        "chunking.code.exclusions._HEADER", re.compile(slow, re.DOTALL), 40_000
    )
