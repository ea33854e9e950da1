"""What a log of questions says: which found nothing, little or late, which come again, and what is new.

The same question in other words is one group: by its words alone, or by its meaning where vectors can be made.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.query.question_log import AskedQuestion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Embed = Callable[[Sequence[str]], NDArray[np.float32]]


# Of an answer that is weak: its nearest row and the words of its best hit are both below these. None of 44 development
# questions with a known answer was weak; of 30 about things that the indexed documentation does not hold, 22 were.
WEAK_COSINE: Final = 0.45
WEAK_COVERAGE: Final = 0.67
# A person notices the wait.
SLOW_MS: Final = 1_000.0
# Two questions from this cosine on ask the same.
SAME_COSINE: Final = 0.83
# Different wordings that are compared by meaning, the latest ones: each is embedded once for a report.
MOST_COMPARED: Final = 2_000
# Wordings that a group shows.
SHOWN_WORDINGS: Final = 5
_WORDS: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Group:
    """Questions that ask the same.

    Attributes:
        question: The latest wording.
        times: How often it was asked.
        wordings: Others, the latest first.
        collections: Where it was asked.
        areas: Products that it is about.
        requests: Ids of the searches: those with bad answers first, and of them the latest.
        first: When it was asked first, as seconds since 1970.
        last: When it was asked last.
        empty: Searches that found nothing or failed.
        weak: Searches that found little.
        slow: Searches that took long.
        unhelpful: Answers of which somebody said that they did not help.
        helpful: Answers of which somebody said that they did.
        slowest_ms: Of all its searches.
        new: Whether it was asked for the first time since the last report.
    """

    question: str
    times: int
    wordings: tuple[str, ...]
    collections: tuple[str, ...]
    areas: tuple[str, ...]
    requests: tuple[str, ...]
    first: float
    last: float
    empty: int
    weak: int
    slow: int
    unhelpful: int
    helpful: int
    slowest_ms: float
    new: bool


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """What a log says of a time.

    Attributes:
        counts: Searches by how they ended.
        by_area: The same by product; a question about two counts for both.
        groups: Every group, the most asked first.
        since: When new begins, as seconds since 1970; 0 is always.
    """

    counts: Mapping[str, int]
    by_area: Mapping[str, Mapping[str, int]]
    groups: tuple[Group, ...]
    since: float

    def section(self, name: str) -> tuple[Group, ...]:
        """Returns the groups that have searches of a kind, those with most of them first.

        Args:
            name: ``empty``, ``weak``, ``slow``, ``unhelpful``, ``repeated`` or ``new``.
        """
        if name == "repeated":
            return tuple(group for group in self.groups if group.times > 1)
        found = [group for group in self.groups if getattr(group, name)]
        return tuple(sorted(found, key=lambda group: (-getattr(group, name), -group.last)))

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form."""
        by_area = {area: dict(counts) for area, counts in self.by_area.items()}
        return {"counts": dict(self.counts), "by_area": by_area, "groups": [asdict(group) for group in self.groups]}


SECTIONS: Final = ("unhelpful", "empty", "weak", "slow", "repeated", "new")


def is_empty(asked: AskedQuestion) -> bool:
    """Whether a search found nothing, or failed."""
    return not asked.units


def is_weak(asked: AskedQuestion) -> bool:
    """Whether a search found something that hardly answers."""
    if not asked.units or asked.coverage is None:
        return False
    return asked.coverage < WEAK_COVERAGE and (asked.cosine is None or asked.cosine < WEAK_COSINE)


def report_questions(
    asked: Sequence[AskedQuestion], *, new_since: float = 0.0, embed: Embed | None = None
) -> QuestionReport:
    """Returns what questions say.

    Args:
        asked: In the order in which they were asked.
        new_since: What was asked first after this is new, as seconds since 1970.
        embed: Returns one unit vector for each text; None compares words only.
    """
    wordings: dict[str, list[AskedQuestion]] = {}
    for question in asked:
        wordings.setdefault(_wording(question.question), []).append(question)
    groups = [_group(questions, new_since) for questions in _join(list(wordings.values()), embed)]
    by_area: dict[str, Counter[str]] = {}
    counts: Counter[str] = Counter()
    for question in asked:
        kinds = _kinds(question)
        counts.update(kinds)
        for area in question.areas or ("(none)",):
            by_area.setdefault(area, Counter()).update(kinds)
    return QuestionReport(
        counts={name: counts[name] for name in ("asked", *SECTIONS[:4], "helpful", "failed", "degraded")},
        by_area=dict(sorted(by_area.items(), key=lambda item: (-item[1]["asked"], item[0]))),
        groups=tuple(sorted(groups, key=lambda group: (-group.times, -group.last))),
        since=new_since,
    )


def _kinds(asked: AskedQuestion) -> list[str]:
    found = {
        "asked": True,
        "empty": is_empty(asked),
        "weak": is_weak(asked),
        "slow": asked.total_ms >= SLOW_MS,
        "unhelpful": asked.verdict is not None and not asked.verdict.helpful,
        "helpful": asked.verdict is not None and asked.verdict.helpful,
        "failed": asked.code != "OK",
        "degraded": asked.degraded,
    }
    return [name for name, applies in found.items() if applies]


def _standing(asked: AskedQuestion) -> int:
    """Returns how bad an answer is; the worst is 0."""
    kinds = _kinds(asked)
    return next((place for place, kind in enumerate(SECTIONS[:4]) if kind in kinds), len(SECTIONS))


def _wording(question: str) -> str:
    return " ".join(_WORDS.findall(question.casefold()))


def _join(wordings: list[list[AskedQuestion]], embed: Embed | None) -> Iterable[list[AskedQuestion]]:
    """Joins wordings of one meaning: each to the group whose most asked wording is nearest, if it is near enough."""
    latest = sorted(wordings, key=lambda group: -group[-1].at)
    near, rest = latest[:MOST_COMPARED], latest[MOST_COMPARED:]
    if embed is None or len(near) < 2:
        return wordings
    import numpy as np

    near.sort(key=lambda group: (-len(group), group[0].at))
    vectors = np.asarray(embed([group[-1].question for group in near]), dtype=np.float32)
    joined: list[list[AskedQuestion]] = []
    heads: list[int] = []
    for place, group in enumerate(near):
        if heads:
            cosines = vectors[heads] @ vectors[place]
            nearest = int(cosines.argmax())
            if cosines[nearest] >= SAME_COSINE:
                joined[nearest].extend(group)
                continue
        heads.append(place)
        joined.append(list(group))
    return [*joined, *rest]


def _group(questions: list[AskedQuestion], new_since: float) -> Group:
    latest = sorted(questions, key=lambda question: -question.at)
    kinds = Counter(kind for question in questions for kind in _kinds(question))
    wordings = dict.fromkeys(question.question for question in latest)
    first = latest[-1].at
    return Group(
        question=latest[0].question,
        times=len(questions),
        wordings=tuple(wordings)[1 : SHOWN_WORDINGS + 1],
        collections=tuple(dict.fromkeys(question.collection for question in latest)),
        areas=tuple(dict.fromkeys(area for question in latest for area in question.areas)),
        requests=tuple(question.request_id for question in sorted(latest, key=_standing))[:SHOWN_WORDINGS],
        first=first,
        last=latest[0].at,
        empty=kinds["empty"],
        weak=kinds["weak"],
        slow=kinds["slow"],
        unhelpful=kinds["unhelpful"],
        helpful=kinds["helpful"],
        slowest_ms=max(question.total_ms for question in questions),
        new=first > new_since,
    )
