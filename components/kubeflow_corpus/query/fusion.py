"""Two ranked lists of rows become one ranking of units. Pure functions over scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One row of one list.

    Attributes:
        id: Key of the row.
        unit_id: Key of the unit that it belongs to.
        score: Cosine, or BM25 as a positive number: Milvus Lite reports its negative.
        fields: What was fetched with it.
    """

    id: str
    unit_id: str
    score: float
    fields: Mapping[str, Any]

    @property
    def repo(self) -> str:
        """``owner/name``."""
        return str(self.fields.get("repo", ""))

    @property
    def file_path(self) -> str:
        """Path in the repository."""
        return str(self.fields.get("file_path", ""))


def best_by_unit(rows: Sequence[Row]) -> dict[str, float]:
    """Returns the best score of each unit, in rank order (rows come sorted)."""
    best: dict[str, float] = {}
    for row in rows:
        # Rows come sorted, so the first of a unit is its best.
        best.setdefault(row.unit_id, row.score)
    return best


def weighted(lists: Mapping[str, Sequence[Row]], weights: Mapping[str, float]) -> dict[str, float]:
    """Divides each list by its maximum and sums them with weights.

    Measured .059 MRR better than reciprocal ranks on documentation, where the size of a lead matters.

    Args:
        lists: Rows by list name, best first.
        weights: By list name; they are scaled to a sum of 1.

    Returns:
        Scores between 0 and 1 by unit, best first.
    """
    total = sum(weights[name] for name, rows in lists.items() if rows) or 1.0
    fused: dict[str, float] = {}
    for name, rows in lists.items():
        best = best_by_unit(rows)
        top = max(best.values(), default=0.0)
        if top <= 0:
            continue
        for unit, score in best.items():
            fused[unit] = fused.get(unit, 0.0) + weights[name] / total * max(score, 0.0) / top
    return _sorted(fused)


def rrf(lists: Mapping[str, Sequence[Row]], weights: Mapping[str, float], k: int) -> dict[str, float]:
    """Reciprocal rank fusion (Cormack et al. 2009) over units, divided by the best possible sum.

    Args:
        lists: Rows by list name, best first.
        weights: By list name.
        k: The constant; a small one lets the first ranks decide.

    Returns:
        Scores between 0 and 1 by unit, best first.
    """
    total = sum(weights[name] for name, rows in lists.items() if rows) or 1.0
    fused: dict[str, float] = {}
    for name, rows in lists.items():
        for rank, unit in enumerate(best_by_unit(rows), 1):
            fused[unit] = fused.get(unit, 0.0) + weights[name] / total * (k + 1) / (k + rank)
    return _sorted(fused)


def interleave(rankings: Sequence[Sequence[str]]) -> list[str]:
    """Takes one unit of each ranking in turn, each unit once: both sides of a comparison are shown."""
    turns = chain.from_iterable(zip_longest(*rankings))
    return list(dict.fromkeys(unit for unit in turns if unit is not None))


def merged(lists: Sequence[Sequence[Row]]) -> list[Row]:
    """Returns the rows of lists of one scale as one list, best first, each row once."""
    best: dict[str, Row] = {}
    for row in chain.from_iterable(lists):
        if row.id not in best or row.score > best[row.id].score:
            best[row.id] = row
    return sorted(best.values(), key=lambda row: (-row.score, row.id))


def _sorted(scores: dict[str, float]) -> dict[str, float]:
    # Equal scores fall in order of the key, so that two runs of one search never differ.
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))
