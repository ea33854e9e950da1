"""One table of variants: what each setting of the search is worth on a question set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from kubeflow_corpus.evaluation.metrics import Answer, Difference, compare, summarize
from kubeflow_corpus.query.tuning import DEFAULT_TUNING, FUSIONS, MODES, Preferences, Threshold, Tuning

# The values that are tried around the default, one at a time.
DENSE_WEIGHTS: Final = (0.2, 0.4, 0.5, 0.6, 0.7, 0.8)
POOLS: Final = (20, 100, 300)
RRF_CONSTANTS: Final = (10, 60)
SHOWN: Final = ("hit@1", "hit@5", "mrr@10", "ndcg@10", "evidence", "wrong_product")


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to search.

    Attributes:
        group: What is varied: ``mode``, ``fusion``, ``dense weight``, ``pool``, ``threshold``, ``preference``.
        name: The value.
        tuning: All numbers of the search.
        options: Arguments of each search.
    """

    group: str
    name: str
    tuning: Tuning = DEFAULT_TUNING
    options: Mapping[str, Any] = field(default_factory=dict)


def variants(base: Tuning = DEFAULT_TUNING) -> Iterator[Variant]:
    """Yields the default first, then one variant for each value of each setting."""
    yield Variant("default", "default", base)
    for mode in MODES:
        yield Variant("mode", mode, base, {"mode": mode})
    for fusion in FUSIONS:
        yield Variant("fusion", fusion, base, {"mode": "hybrid", "fusion": fusion})
    for constant in RRF_CONSTANTS:
        yield Variant("fusion", f"rrf k={constant}", _policies(base, rrf_k=constant), {"fusion": "rrf"})
    for weight in DENSE_WEIGHTS:
        yield Variant("dense weight", f"{weight:g}", _policies(base, dense_weight=weight), {"mode": "hybrid"})
    for pool in POOLS:
        yield Variant("pool", str(pool), _policies(base, pool=pool))
    yield Variant("threshold", "none", replace(base, thresholds=dict.fromkeys(base.thresholds, Threshold(-1.0, 0.0))))
    for item in fields(Preferences):
        yield Variant("preference", f"no {item.name}", replace(base, preferences=_without(base, item.name)))


@dataclass(frozen=True, slots=True)
class AblationRow:
    """One line of the table: a variant's metrics and how they differ from the default."""

    variant: Variant
    metrics: Mapping[str, float]
    differences: tuple[Difference, ...]


def row(variant: Variant, answers: Sequence[Answer], default: Sequence[Answer]) -> AblationRow:
    """Makes one line of the table."""
    means = {name: interval.mean for name, interval in summarize(answers).items()}
    return AblationRow(variant, means, compare(answers, default))


def heading(answers: Sequence[Answer]) -> str:
    """Returns the first two lines of the table, in Markdown."""
    names = ["setting", "value", *_chosen_metrics(summarize(answers))]
    return f"| {' | '.join(names)} |\n| {' | '.join('---' for _ in names)} |"


def cells(line: AblationRow) -> str:
    """Returns one line of the table; a difference whose interval touches 0 is in parentheses."""
    changes = {change.metric: change for change in line.differences}
    figures = [_cell(line.metrics[name], changes.get(name)) for name in _chosen_metrics(line.metrics)]
    return f"| {' | '.join([line.variant.group, line.variant.name, *figures])} |"


def _chosen_metrics(metrics: Iterable[str]) -> list[str]:
    return [name for name in SHOWN if name in set(metrics)]


def _cell(mean: float, change: Difference | None) -> str:
    if change is None or not change.delta.mean:
        return f"{mean:.3f}"
    delta = f"{change.delta.mean:+.3f}"
    return f"{mean:.3f} ({delta})" if change.is_noise else f"{mean:.3f} {delta}"


def _policies(base: Tuning, **changes: Any) -> Tuning:
    return replace(base, policies={name: replace(policy, **changes) for name, policy in base.policies.items()})


def _without(base: Tuning, name: str) -> Preferences:
    return replace(base.preferences, **{name: 0.0})
