"""Retrieval metrics over ranked answers, with intervals, and the paired comparison of two runs.

Ranks are those of hits (units). An expected path counts where it first appears. References: nDCG with exponential gain
is that of Burges et al., "Learning to rank using gradient descent", ICML 2005; intervals are percentile bootstrap
intervals (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993); the comparison resamples the questions'
differences, as Sakai recommends ("Evaluating evaluation metrics based on the bootstrap", SIGIR 2006).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kubeflow_corpus.evaluation.questions import Question

# Shown in tables in this order.
METRICS: Final = (
    *("hit@1", "hit@3", "hit@5", "hit@10", "mrr@10", "ndcg@10", "evidence", "intent"),
    *("wrong_product", "outranked", "forbidden", "empty"),
)
LOWER_IS_BETTER: Final = frozenset({"wrong_product", "outranked", "forbidden", "empty"})
CUTOFF: Final = 10
FORBIDDEN_CUTOFF: Final = 5
RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.90
_SEED: Final = 20_240_601


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search returned for one question.

    Attributes:
        question: The question.
        ranked: Addresses of each hit, best first: ``repo:path#anchor`` of the unit, ``repo:path``, its citation
            address, and ``repo:path`` of near-duplicates.
        areas: Product areas of each hit.
        evidence: The text that a model would be given.
        intent: What the router chose.
        lists: For each list that was fused (``dense``, ``bm25``) the addresses in its own order.
        milliseconds: Time of the whole search.
    """

    question: Question
    ranked: tuple[tuple[str, ...], ...]
    areas: tuple[tuple[str, ...], ...] = ()
    evidence: str = ""
    intent: str = ""
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    milliseconds: float = 0.0

    @property
    def rank(self) -> int:
        """Rank of the first expected path, from 1; 0 if none was found."""
        return next((rank for rank, grade in enumerate(self.gains(), 1) if grade), 0)

    def gains(self) -> list[int]:
        """Grade of each hit: an expected path counts once, and with `any_of` only the first counts."""
        left = dict(self.question.expected)
        grades = []
        for addresses in self.ranked[:CUTOFF]:
            found = [left.pop(address) for address in addresses if address in left]
            grades.append(max(found, default=0))
            if found and self.question.any_of:
                left.clear()
        return grades

    def rivals_above(self) -> tuple[str, ...]:
        """Rivals that come before the first right hit."""
        above = self.ranked[: self.rank - 1] if self.rank else self.ranked
        return tuple(rival for rival in self.question.rivals if any(rival in addresses for addresses in above))

    def forbidden_hits(self) -> tuple[str, ...]:
        """Forbidden paths among the first hits."""
        first = self.ranked[:FORBIDDEN_CUTOFF]
        return tuple(path for path in self.question.forbidden if any(path in addresses for addresses in first))

    def missing(self) -> tuple[str, ...]:
        """Required strings that the evidence does not show."""
        return tuple(text for text in self.question.must_contain if text not in self.evidence)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its bootstrap interval."""

    mean: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Difference:
    """How one metric changed between two runs over the same questions.

    Attributes:
        delta: Mean of new minus old; the interval is that of this mean.
        better: Questions that improved.
        worse: Questions that got worse.
    """

    metric: str
    delta: Interval
    better: int
    worse: int

    @property
    def is_noise(self) -> bool:
        """Whether the interval touches 0."""
        return self.delta.low <= 0 <= self.delta.high


def score(answer: Answer) -> dict[str, float]:
    """Returns the metrics of one answer; a metric that the question cannot measure is absent."""
    rank = answer.rank
    values = {f"hit@{k}": float(0 < rank <= k) for k in (1, 3, 5, CUTOFF)}
    values["mrr@10"] = 1 / rank if rank else 0.0
    values["ndcg@10"] = ndcg(answer.gains(), answer.question)
    values["empty"] = float(not answer.ranked)
    if answer.question.must_contain:
        values["evidence"] = float(not answer.missing())
    if answer.question.product_area and answer.areas:
        # A hit without an area speaks about no product in particular, so it cannot be the wrong one.
        values["wrong_product"] = float(bool(answer.areas[0]) and answer.question.product_area not in answer.areas[0])
    if answer.question.rivals:
        values["outranked"] = float(bool(answer.rivals_above()))
    if answer.question.forbidden:
        values["forbidden"] = float(bool(answer.forbidden_hits()))
    if answer.question.intent and answer.intent:
        values["intent"] = float(answer.intent == answer.question.intent)
    return values


def ndcg(gains: Sequence[int], question: Question) -> float:
    """Returns nDCG@10 of graded hits with gain ``2**grade - 1`` and discount ``log2(rank + 1)``."""
    ideal = sorted(question.expected.values(), reverse=True)[: 1 if question.any_of else CUTOFF]
    return _dcg(gains) / _dcg(ideal)


def summarize(answers: Iterable[Answer]) -> dict[str, Interval]:
    """Returns each metric's mean and interval over the answers that can measure it."""
    columns: dict[str, list[float]] = {}
    for answer in answers:
        for name, value in score(answer).items():
            columns.setdefault(name, []).append(value)
    return {name: bootstrap(columns[name]) for name in METRICS if name in columns}


def break_down(answers: Sequence[Answer], key: Callable[[Answer], str]) -> dict[str, dict[str, Interval]]:
    """Returns `summarize` for each value of a key, such as the tool, the kind or the intent."""
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(key(answer), []).append(answer)
    return {name: summarize(groups[name]) for name in sorted(groups)}


def latency(answers: Sequence[Answer]) -> dict[str, float]:
    """Returns p50, p95 and p99 of the searches, in milliseconds."""
    times = [answer.milliseconds for answer in answers]
    return {f"p{q}": float(np.percentile(times, q)) for q in (50, 95, 99)} if times else {}


def compare(new: Sequence[Answer], old: Sequence[Answer]) -> tuple[Difference, ...]:
    """Compares two runs question by question; a question that only one of them has is left out."""
    before = {answer.question.id: score(answer) for answer in old}
    return compare_scores({a.question.id: score(a) for a in new if a.question.id in before}, before)


def compare_scores(
    new: Mapping[str, Mapping[str, float]], old: Mapping[str, Mapping[str, float]]
) -> tuple[Difference, ...]:
    """Compares the metrics of two runs, given by question id."""
    result = []
    for metric in METRICS:
        pairs = [(new[q][metric], old[q][metric]) for q in new if q in old and metric in new[q] and metric in old[q]]
        if not pairs:
            continue
        deltas = [after - before for after, before in pairs]
        sign = -1 if metric in LOWER_IS_BETTER else 1
        better, worse = sum(sign * d > 0 for d in deltas), sum(sign * d < 0 for d in deltas)
        result.append(Difference(metric, bootstrap(deltas), better, worse))
    return tuple(result)


def bootstrap(values: Sequence[float]) -> Interval:
    """Returns the mean and its percentile bootstrap interval; the resampling is seeded, so figures repeat."""
    data = np.asarray(values, dtype=np.float64)
    picks = np.random.default_rng(_SEED).integers(0, len(data), (RESAMPLES, len(data)))
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(data[picks].mean(axis=1), (tail, 100 - tail))
    return Interval(float(data.mean()), float(low), float(high), len(data))


def _dcg(gains: Sequence[int]) -> float:
    return math.fsum((2**gain - 1) / math.log2(rank + 1) for rank, gain in enumerate(gains[:CUTOFF], 1))
