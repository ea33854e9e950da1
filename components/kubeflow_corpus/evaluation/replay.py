"""Many settings over the same lists: Milvus is asked each thing once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from kubeflow_corpus.query.deadline import Deadline
from kubeflow_corpus.query.fusion import Rows
from kubeflow_corpus.query.reader import Reader, Target
from kubeflow_corpus.settings import Settings


class CachingReader(Reader):
    """Keeps every answer for as long as it lives: for measurements over a corpus that does not change.

    An ablation asks each question some thirty times; nearly always the lists are the same, and only the ranking
    differs.
    """

    def __init__(self, settings: Settings, collections: Mapping[str, str] | None = None) -> None:
        super().__init__(settings, collections)
        self._answers: dict[Hashable, Any] = {}

    def search(
        self,
        target: Target,
        data: Sequence[Any],
        *,
        sparse: bool,
        limit: int,
        expression: str,
        fields: Sequence[str],
        deadline: Deadline,
    ) -> list[Rows]:
        """Returns one list of rows for each text (BM25) or vector (dense), best first."""
        asked = tuple(item if sparse else item.tobytes() for item in data)
        key = (target.name, asked, limit, expression, tuple(fields))
        found: list[Rows] = self._cached(
            key,
            lambda: super(CachingReader, self).search(
                target, data, sparse=sparse, limit=limit, expression=expression, fields=fields, deadline=deadline
            ),
        )
        return found

    def query(
        self, target: Target, expression: str, fields: Iterable[str], *, limit: int, deadline: Deadline
    ) -> list[dict[str, Any]]:
        """Returns the rows that an expression matches."""
        named = tuple(fields)
        key = (target.name, expression, named, limit)
        rows: list[dict[str, Any]] = self._cached(
            key,
            lambda: super(CachingReader, self).query(target, expression, named, limit=limit, deadline=deadline),
        )
        return rows

    def _cached(self, key: Hashable, ask: Callable[[], Any]) -> Any:
        if key not in self._answers:
            self._answers[key] = ask()
        return self._answers[key]
