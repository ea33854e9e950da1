"""The trace of one search: what every stage saw and decided, for a person and for a log."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from kubeflow_corpus.query.fusion import Row
from kubeflow_corpus.query.hit import Hit
from kubeflow_corpus.query.intent import Question
from kubeflow_corpus.query.ranking import Ranked
from kubeflow_corpus.query.tuning import Policy, Threshold

LOGGER: Final = logging.getLogger("kubeflow_corpus.query")
# Rows of a list, and units of the fused order, that a trace shows.
SHOWN_ROWS: Final = 20


class Trace:
    """Collects what happens in one search; stages may end in any thread. `as_dict` is computed when it is read.

    Attributes:
        lists: The rows of each list, as Milvus ranked them.
        stages: Name, begin (`time.perf_counter`) and seconds of each stage, in the order in which they ended.

    Args:
        request_id: The same in trace, log and answer.
        collection: Physical name of what is searched.
    """

    def __init__(self, request_id: str, collection: str) -> None:
        self.request_id = request_id
        self.data: dict[str, Any] = {"request_id": request_id, "collection": collection}
        self.stages: list[tuple[str, float, float]] = []
        self._drops: list[dict[str, str]] = []
        self.lists: Mapping[str, Sequence[Row]] = {}
        self._hits: Sequence[Hit] = ()
        self._rankings: Sequence[Ranked] = ()

    def add_stage(self, name: str, started: float) -> None:
        """Adds the time since `started` (`time.perf_counter`) to a stage."""
        self.stages.append((name, started, time.perf_counter() - started))

    def add_drop(self, unit: str, reason: str) -> None:
        """Records a unit that is not among the hits, and why."""
        self._drops.append({"unit_id": unit, "reason": reason})

    def record_lists(
        self, where: str, mode: str, fusion: str, policy: Policy, lists: Mapping[str, Sequence[Row]]
    ) -> None:
        """Records the lists as Milvus ranked them."""
        weights = {"dense": policy.dense_weight, "bm25": round(1 - policy.dense_weight, 4)}
        self.data["expression"] = where
        self.data["mode"] = mode
        self.data["fusion"] = {"method": fusion, "weights": weights, "rrf_k": policy.rrf_k, "pool": policy.pool}
        self.lists = lists

    def record_hits(self, hits: Sequence[Hit], rankings: Sequence[Ranked], threshold: Threshold) -> None:
        """Records the rankings (of the question, and of each side of a comparison) and the hits."""
        self.data["thresholds"] = {"cosine": threshold.cosine, "coverage": threshold.coverage}
        self._rankings = rankings
        self._hits = hits

    def candidates(self) -> list[Mapping[str, Any]]:
        """Returns what was fetched with the best row of every unit that was considered."""
        best: dict[str, Mapping[str, Any]] = {}
        for ranking in reversed(self._rankings):
            best |= ranking.fields
        return [*best.values()]

    def finish(self, total_ms: float, mode: str, question: Question, filters: Mapping[str, Any]) -> None:
        """Closes the trace and logs the search: one event, without the question."""
        self.data["total_ms"] = round(total_ms, 3)
        if not LOGGER.isEnabledFor(logging.INFO):
            return
        event = {
            "event": "search",
            "request_id": self.request_id,
            "collection": self.data["collection"],
            "intent": question.intent,
            "mode": mode,
            "filters": dict(filters),
            "hits": len(self._hits),
            "dropped": len(self._drops),
            "degraded": self.data.get("degraded", ""),
            "stages_ms": self._stages_ms(),
            "total_ms": self.data["total_ms"],
        }
        if LOGGER.isEnabledFor(logging.DEBUG):
            event["query"] = question.text
        LOGGER.info(json.dumps(event, ensure_ascii=False), extra={"event": event})

    def as_dict(self) -> dict[str, Any]:
        """Returns everything that was recorded."""
        lists = {name: {"rows": len(rows), "top": _top(rows)} for name, rows in self.lists.items()}
        return self.data | {
            "lists": lists,
            "fused": _fused(self._rankings[0]) if self._rankings else [],
            "hits": [hit.unit_id for hit in self._hits],
            "drops": list(self._drops),
            "stages_ms": self._stages_ms(),
        }

    def _stages_ms(self) -> dict[str, float]:
        seconds: dict[str, float] = {}
        for name, _, spent in self.stages:
            seconds[name] = seconds.get(name, 0.0) + spent
        return {name: round(spent * 1000, 3) for name, spent in seconds.items()}


def _top(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {"rank": place, "unit_id": row.unit_id, "id": row.id, "score": round(row.score, 4)}
        for place, row in enumerate(rows[:SHOWN_ROWS], 1)
    ]


def _fused(ranking: Ranked) -> list[dict[str, Any]]:
    return [
        {
            "unit_id": unit,
            "fused": round(ranking.fused[unit], 4),
            "score": round(score, 4),
            "preferences": ranking.bonuses.get(unit, {}),
        }
        for unit, score in islice(ranking.scores.items(), SHOWN_ROWS)
    ]


def log_unshown(unit_id: str, error: Exception) -> None:
    """Logs that a unit was found and could not be shown: a defect, so with its traceback."""
    event = {"event": "unit_not_shown", "unit_id": unit_id, "error": type(error).__name__}
    LOGGER.warning(json.dumps(event), extra={"event": event}, exc_info=error)


def log_failure(request_id: str, collection: str, code: str, total_ms: float) -> None:
    """Logs a search that failed: its code and how long it took."""
    event = {"event": "search_failed", "request_id": request_id, "collection": collection, "code": code}
    LOGGER.warning(json.dumps(event | {"total_ms": round(total_ms, 3)}), extra={"event": event})
