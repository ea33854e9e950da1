"""Faults are injected into single documents of a real run: each costs itself, is named, and is tried again.

Longer: ``FAULT_SEEDS=50 python -m pytest tests/ingest/test_failed_documents.py``.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.errors import RunFailed
from kubeflow_corpus.ingest.failed import read_failed
from kubeflow_corpus.ingest.report import report
from kubeflow_corpus.ingest.results import StepResult
from kubeflow_corpus.ingest.summary import summary_lines
from kubeflow_corpus.retry import Backoff
from kubeflow_corpus.sources.github import api

from tests.retrieval.samples import environment, run
from tests.servers.github import Fault, GithubServer, Request, serve
from tests.servers.tei import TeiServer

SEEDS = range(int(os.environ.get("FAULT_SEEDS", "1")))
DOCUMENTS = 300
# What a document says that is to fail, and as what it is named.
IN_A_CHUNKER = {"raise": "defect", "spin": "time limit", "wait": "time limit", "eat": "memory limit", "die": "crash"}
CHUNKER = """
import os, time
import kubeflow_corpus.chunking.docs.markdown as markdown

right = markdown.chunk

def chunk(document, budget, vocabulary=None):
    if "fault raise" in document.text:
        return [][1]
    while "fault spin" in document.text:
        pass
    while "fault wait" in document.text:
        time.sleep(1)
    held = []
    while "fault eat" in document.text:
        held.append(bytearray(1 << 22))
    if "fault die" in document.text:
        os._exit(9)
    return right(document, budget, vocabulary)

markdown.chunk = chunk
"""
CATALOGUE = """sources:
  - name: handbook
    type: docs
    repo: mills/handbook
    url: handbook
    product_area: platform
    site: {generator: hugo, root: content, base_url: "https://mills.example/"}
"""


@dataclass(frozen=True)
class Place:
    """A source of pages, the runs over it, and the switch of its faults."""

    folder: Path
    tei: TeiServer
    patch: pytest.MonkeyPatch

    def pages(self, words: str, faults: Mapping[int, str]) -> None:
        for number in range(DOCUMENTS):
            path = self.folder / "handbook/content/docs" / f"page-{number:03}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            said = f"fault {faults[number]}" if number in faults else "nothing else"
            # A row of such a page cannot be stored: its address is too long.
            address = f"url: /{'x' * 1100}/\n" if faults.get(number) == "row" else ""
            path.write_text(
                f"---\ntitle: Page {number}\n{address}---\n\n## Part\n\n{words} of page {number} and {said}.\n"
            )

    def faulty(self, on: bool) -> None:
        self.tei.poison = "fault embed" if on else ""
        path = os.environ["PYTHONPATH"].removeprefix(f"{self.folder / 'faults'}:")
        self.patch.setenv("PYTHONPATH", f"{self.folder / 'faults'}:{path}" if on else path)

    def run(self, **options: Any) -> StepResult:
        return run("docs", self.folder / "run", catalogue=self.folder / "catalogue.yaml", **options)

    def rows(self) -> set[tuple[str, str, str]]:
        return stored(self.folder / "corpus.db", "kubeflow_docs")


def stored(database: Path, alias: str) -> set[tuple[str, str, str]]:
    """Returns document, key and hash of every row that is served."""
    from kubeflow_corpus.milvus import connected
    from kubeflow_corpus.settings import Settings

    with connected(Settings.from_env({"MILVUS_URI": str(database)})) as client:
        fields = ["document_id", "id", "row_hash", "embedding_hash"]
        client.load_collection(alias)
        found = client.query(alias, filter="id != ''", output_fields=fields, limit=10_000)
    return {(row["document_id"], row["id"], row["row_hash"] + row["embedding_hash"]) for row in found}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    (tmp_path / "faults").mkdir()
    # Imported by every Python process that starts with this folder in its path: the workers, not this one.
    (tmp_path / "faults/sitecustomize.py").write_text(CHUNKER)
    (tmp_path / "catalogue.yaml").write_text(CATALOGUE)
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{root / 'components'}:{root}")
    monkeypatch.setenv("DOCUMENT_SECONDS", "1")
    monkeypatch.setenv("DOCUMENT_MEMORY_MB", "200")
    with TeiServer() as tei, environment(str(tmp_path / "corpus.db"), tmp_path / "cache"):
        monkeypatch.setenv("EMBEDDINGS_URL", tei.url)
        yield Place(tmp_path, tei, monkeypatch)


def faults_of(seed: int) -> dict[int, str]:
    chosen = random.Random(seed)
    numbers = chosen.sample(range(DOCUMENTS), 50)
    kinds = [*chosen.choices(sorted(IN_A_CHUNKER), k=20), *["embed"] * 20, *["row"] * 10]
    return dict(zip(numbers, kinds, strict=True))


def key(row: tuple[str, str, str]) -> str:
    return row[0].rpartition("/")[2]


@pytest.mark.slow
@pytest.mark.timeout(60 * (len(SEEDS) + 4))
@pytest.mark.parametrize("seed", SEEDS)
def test_each_document_that_fails_costs_itself_only(place: Place, seed: int) -> None:
    faults = faults_of(seed)
    names = {f"page-{number:03}.md": kind for number, kind in faults.items()}
    place.pages("The first words", {})
    place.faulty(on=False)
    assert place.run().ok
    before = place.rows()
    assert len({document for document, *_ in before}) == DOCUMENTS

    place.pages("Other words", faults)
    place.faulty(on=True)
    result = place.run()
    assert result.ok, result.error
    with pytest.raises(RunFailed, match=r"50 documents failed \("):
        report([str(place.folder / "run/docs/publish")])
    (source,) = result.sources
    found = {document.path.rpartition("/")[2]: document.reason for document in source.failed_documents}
    reasons = {**IN_A_CHUNKER, "embed": "not_embedded", "row": "invalid_row:citation_url"}
    assert found == {name: reasons[kind] for name, kind in names.items()}
    assert all(any(name in line for line in summary_lines(result)) for name in names)
    faulty = place.rows()
    assert {row for row in faulty if key(row) in names} == {row for row in before if key(row) in names}

    place.faulty(on=False)
    place.pages("Other words", {number: kind for number, kind in faults.items() if kind != "row"})
    assert not place.run().sources[0].failed_documents
    clean = place.rows()
    assert {row for row in faulty if key(row) not in names} == {row for row in clean if key(row) not in names}
    with pytest.MonkeyPatch.context() as elsewhere:
        elsewhere.setenv("MILVUS_URI", str(place.folder / "clean.db"))
        assert place.run().ok
    assert clean == stored(place.folder / "clean.db", "kubeflow_docs")


@pytest.mark.slow
def test_a_new_version_has_what_was_served_of_a_document_that_fails(place: Place) -> None:
    place.pages("The first words", {})
    place.faulty(on=False)
    assert place.run().ok
    before = place.rows()
    place.pages("Other words", {7: "raise", 8: "embed"})
    place.faulty(on=True)
    result = place.run(rebuild=True)
    assert result.ok and result.applied.target.endswith("_v2")
    after = place.rows()
    for name in ("page-007.md", "page-008.md"):
        assert {row for row in after if key(row) == name} == {row for row in before if key(row) == name} != set()
    assert len({document for document, *_ in after}) == DOCUMENTS
    assert not {row for row in after if key(row) == "page-009.md"} & before


@pytest.mark.slow
def test_a_document_that_is_asked_for_and_fails_is_not_removed(place: Place) -> None:
    place.pages("The first words", {})
    place.faulty(on=False)
    assert place.run().ok
    before = place.rows()
    place.pages("Other words", {7: "raise"})
    place.faulty(on=True)
    result = place.run(changed_paths=["handbook:content/docs/page-007.md"])
    assert result.ok and [document.reason for document in result.sources[0].failed_documents] == ["defect"]
    assert place.rows() == before


ISSUES = """sources:
  - {name: forum, type: issue, repo: mills/forum, product_area: platform}
"""
ANSWERS = (
    Fault(404, body=b'{"message": "Not Found"}'),
    Fault(410, body=b'{"message": "This issue was deleted"}'),
    Fault(500),
    Fault(200, body=b"<html>not JSON</html>"),
    Fault(200, body=b"[" * 200_000),
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_threads_that_cannot_be_read_cost_themselves_and_are_read_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    (tmp_path / "catalogue.yaml").write_text(ISSUES)
    monkeypatch.setattr(api, "BACKOFF", Backoff(attempts=2, base=0.01))
    with TeiServer() as tei, serve() as github, environment(str(tmp_path / "corpus.db"), tmp_path / "cache"):
        monkeypatch.setenv("EMBEDDINGS_URL", tei.url)
        monkeypatch.setenv("GITHUB_API_URL", github.url)

        def go(folder: str) -> StepResult:
            return run("issues", tmp_path / folder, catalogue=tmp_path / "catalogue.yaml")

        forum = github.repository("mills/forum")
        for number in range(1, 41):
            forum.open(f"The mill stops {number}", f"It stops at noon, says report {number}.")
        assert go("run").ok
        before = stored(tmp_path / "corpus.db", "issues_rag")
        github.tick(hours=1)
        for number in range(1, 23):
            forum.comment(number, f"Oil the shaft, says answer {number}.")
        bad = set(random.Random(seed).sample(range(1, 23), 20))
        github.before = faulty_threads(github, bad)
        result = go("run")
        assert result.ok, result.error
        (source,) = result.sources
        assert {int(item.document_id.rpartition(":")[2]) for item in source.failed_documents} == bad
        assert {item.reason for item in source.failed_documents} == {"not read"}
        assert not source.removed
        names = {f"forum:{number}" for number in bad}
        after = stored(tmp_path / "corpus.db", "issues_rag")
        assert {row for row in after if row[0] in names} == {row for row in before if row[0] in names}
        github.before = lambda number, request: None
        github.tick(hours=1)
        assert not go("run").sources[0].failed_documents
        rows = stored(tmp_path / "corpus.db", "issues_rag")
        with pytest.MonkeyPatch.context() as elsewhere:
            elsewhere.setenv("MILVUS_URI", str(tmp_path / "clean.db"))
            assert go("clean").ok
        assert rows == stored(tmp_path / "clean.db", "issues_rag")


def faulty_threads(github: GithubServer, bad: set[int]) -> Any:
    """The listing of comments lags behind, and some threads cannot be read by themselves."""

    def before(number: int, request: Request) -> None:
        parts = request.path.split("/")
        if parts[-2:] == ["issues", "comments"]:
            github.faults[number] = Fault(200, body=b"[]")
        elif parts[-1] == "comments" and int(parts[-2]) in bad:
            github.faults[number] = ANSWERS[int(parts[-2]) % len(ANSWERS)]

    return before


@pytest.mark.slow
def test_a_thread_that_fails_behind_the_crawl_is_read_again_though_it_did_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "catalogue.yaml").write_text(ISSUES)
    with TeiServer() as tei, serve() as github, environment(str(tmp_path / "corpus.db"), tmp_path / "cache"):
        monkeypatch.setenv("EMBEDDINGS_URL", tei.url)
        monkeypatch.setenv("GITHUB_API_URL", github.url)
        forum = github.repository("mills/forum")
        for number in range(1, 6):
            forum.open(f"The mill stops {number}", f"It stops at noon, says report {number}.")
        tei.poison = "report 3"
        first = run("issues", tmp_path / "run", catalogue=tmp_path / "catalogue.yaml")
        assert first.ok and [item.reason for item in first.sources[0].failed_documents] == ["not_embedded"]
        assert read_failed(tmp_path / "run/issues/chunk/forum") == []
        tei.poison = ""
        github.tick(hours=1)
        second = run("issues", tmp_path / "run", catalogue=tmp_path / "catalogue.yaml")
        assert second.ok and not second.sources[0].failed_documents
        assert {row[0] for row in stored(tmp_path / "corpus.db", "issues_rag")} == {f"forum:{n}" for n in range(1, 6)}
