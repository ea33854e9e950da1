"""The figures of the collections: what their last runs recorded, and what they say when Milvus does not answer."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.mcp_server.freshness import REFRESH_SECONDS, Freshness
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.settings import Settings
from prometheus_client import CollectorRegistry

from tests.store.synthetic import Run, page, result


class Watched:
    """The figures over one database, with a clock of its own."""

    def __init__(self, settings: Settings) -> None:
        self.now = 0.0
        self._registry = CollectorRegistry()
        self.freshness = Freshness(settings, self._registry, lambda: self.now)

    def refresh(self) -> None:
        asyncio.run(self.freshness.refresh())

    def figure(self, name: str, collection: str = "") -> float | None:
        return self._registry.get_sample_value(
            f"kubeflow_corpus_{name}", {"collection": collection} if collection else {}
        )


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(milvus_uri=str(tmp_path / "corpus.db"))


def run(client: Any, folder: Path, pages: int, **values: Any) -> None:
    fetched = [result(folder, "site", [page("site", f"docs/{n}.md", [f"Section {n}: text."]) for n in range(pages)])]
    if values:
        fetched.append(result(folder, "other", [], **values))
    Run(client, folder / "work", fetched).all()


def test_a_run_is_seen_a_minute_later_and_a_collection_without_one_is_not_served(
    settings: Settings, tmp_path: Path
) -> None:
    watched = Watched(settings)
    with connected(settings) as client:
        watched.refresh()
        assert watched.freshness.served == {"docs": False, "issues": False, "code": False}
        assert watched.figure("collection_completed_timestamp_seconds", "docs") is None
        run(client, tmp_path / "1", 3)
        watched.refresh()
        assert watched.figure("collection_served", "docs") == 0
        watched.now += REFRESH_SECONDS + 1
        watched.refresh()
    assert watched.freshness.served == {"docs": True, "issues": False, "code": False}
    assert watched.figure("collection_rows", "docs") == 3
    assert watched.figure("collection_version", "docs") == 1
    assert watched.figure("collection_failed_sources", "docs") == 0
    for name in ("published", "completed"):
        moment = watched.figure(f"collection_{name}_timestamp_seconds", "docs")
        assert moment is not None and 0 <= time.time() - moment < 300


def test_a_failed_source_is_counted(settings: Settings, tmp_path: Path) -> None:
    with connected(settings) as client:
        run(client, tmp_path / "1", 2)
        run(client, tmp_path / "2", 2, status="failed", step="fetch", error="the host is gone")
        watched = Watched(settings)
        watched.refresh()
    assert watched.figure("collection_failed_sources", "docs") == 1
    assert watched.figure("collection_rows", "docs") == 2


def test_a_milvus_that_does_not_answer_is_counted_and_breaks_no_scrape() -> None:
    watched = Watched(Settings(milvus_uri="http://127.0.0.1:1"))
    watched.refresh()
    assert watched.figure("collections_read_failures_total") == 1
    assert watched.figure("collections_read_timestamp_seconds") == 0
    watched.refresh()
    assert watched.figure("collections_read_failures_total") == 1
