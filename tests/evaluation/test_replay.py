"""A measurement over many settings asks Milvus for each list once, and gets what it would have got."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.evaluation.replay import CachingReader
from kubeflow_corpus.query.deadline import Deadline
from kubeflow_corpus.query.reader import Reader, Target
from kubeflow_corpus.settings import Settings


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What reaches Milvus; every answer is another object."""
    calls: list[tuple[Any, ...]] = []

    def search(self: Reader, target: Target, data: Any, **options: Any) -> list[list[str]]:
        calls.append((target.name, len(data), options["limit"]))
        return [[f"list {len(calls)}"]]

    def query(self: Reader, target: Target, expression: str, fields: Any, **options: Any) -> list[dict[str, str]]:
        calls.append((target.name, expression))
        return [{"id": str(len(calls))}]

    monkeypatch.setattr(Reader, "search", search)
    monkeypatch.setattr(Reader, "query", query)
    return calls


def target(name: str = "kubeflow_docs_v1") -> Target:
    return Target(DOCS, name, {}, True, 0.0)


def test_the_same_question_is_asked_once_and_any_other_again(asked: list[tuple[Any, ...]]) -> None:
    reader = CachingReader(Settings(milvus_uri="nowhere.db"))
    shared = {"fields": ("repo",), "deadline": Deadline(1)}

    def words(text: str, limit: int = 10, where: str = "", name: str = "kubeflow_docs_v1") -> Any:
        return reader.search(target(name), [text], sparse=True, limit=limit, expression=where, **shared)

    def vector(value: float) -> Any:
        return reader.search(target(), [np.full(3, value, np.float32)], sparse=False, limit=10, expression="", **shared)

    assert words("a") is words("a") and vector(1) is vector(1)
    assert len(asked) == 2
    for other in (words("b"), words("a", limit=20), words("a", where="x"), words("a", name="v2"), vector(2)):
        assert other is not words("a") and other is not vector(1)
    assert len(asked) == 7


def test_the_same_rows_are_read_once(asked: list[tuple[Any, ...]]) -> None:
    reader = CachingReader(Settings(milvus_uri="nowhere.db"))

    def rows(where: str, limit: int = 5) -> Any:
        return reader.query(target(), where, ["id"], limit=limit, deadline=Deadline(1))

    assert rows("a") is rows("a")
    assert rows("b") is not rows("a") and rows("a", 6) is not rows("a")
    assert len(asked) == 3
