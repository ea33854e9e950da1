"""The step between writing and serving: a worse candidate is not served, and a run that made things worse says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from kubeflow_corpus.artifacts import read_jsonl
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.ingest import chunking as chunk_step
from kubeflow_corpus.ingest.results import StepResult
from kubeflow_corpus.ingest.runner import RunFolders
from kubeflow_corpus.ingest.summary import failures
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.records import Chunked
from kubeflow_corpus.settings import Settings

from tests.retrieval.samples import environment, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PAGES = {
    "pruning": "# Pruning\n\nPrune apple trees in winter, before the buds swell.\n",
    "storing": "# Storing\n\nStore apples in a cool cellar, away from potatoes.\n",
    "grafting": "# Grafting\n\nGraft a twig of the wanted kind onto a young root in March.\n",
}
NEEDED = {"pruning": "winter", "storing": "cellar", "grafting": "March"}
ASKED = {
    "pruning": "when are apple trees pruned",
    "storing": "where are apples kept",
    "grafting": "how to graft a twig",
}


@dataclass(frozen=True)
class Farm:
    """One small site, and the runs over it."""

    folder: Path

    def write(self, **pages: str) -> None:
        for name, text in {**PAGES, **pages}.items():
            (self.folder / "site" / "docs").mkdir(parents=True, exist_ok=True)
            (self.folder / "site" / "docs" / f"{name}.md").write_text(text)

    def ask(self, *names: str, tool: str = "docs") -> str:
        file = self.folder / "questions.jsonl"
        lines = [
            {"id": name, "query": ASKED[name], "tool": tool, "kind": "howto",
             "expected": [f"example/farm:docs/{name}.md"], "must_contain": [NEEDED[name]]}
            for name in names
        ]  # fmt: skip
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(file)

    def run(self, questions: str = "", *, rebuild: bool = False, **floors: float) -> StepResult:
        return run(
            "docs", self.folder / "run", catalogue=self.folder / "catalogue.yaml", rebuild=rebuild,
            questions=questions, floors={name.replace("_", "@"): value for name, value in floors.items()},
        )  # fmt: skip

    def served(self) -> str:
        with connected(Settings(milvus_uri=str(self.folder / "farm.db"))) as client:
            return str(client.describe_alias(DOCS.alias)["collection_name"])

    @property
    def page(self) -> str:
        return (self.folder / "run" / "docs" / "page.html").read_text()


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    farm = Farm(tmp_path)
    farm.write()
    (tmp_path / "catalogue.yaml").write_text(
        "sources:\n  - {name: farm, type: docs, repo: example/farm, url: site, include: ['docs/*.md'],"
        " site: {generator: docusaurus, root: docs, base_url: 'https://farm.example/'}}\n"
    )
    with environment(str(tmp_path / "farm.db"), tmp_path / "vectors"):
        yield farm


@pytest.fixture
def chunker(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Chunked], Chunked]], None]:
    right = chunk_step.chunk_documents

    def install(change: Callable[[Chunked], Chunked]) -> None:
        monkeypatch.setattr(chunk_step, "chunk_documents", lambda *words: map(change, right(*words)))

    return install


def emptied(chunked: Chunked) -> Chunked:
    """Texts that say nothing, under the same keys: counts, sources and areas look right."""
    return replace(chunked, chunks=tuple(
        replace(chunk, content_text="Lorem ipsum", search_text="Lorem ipsum", embedding_text="Lorem ipsum")
        for chunk in chunked.chunks
    ))  # fmt: skip


def test_a_first_version_that_answers_is_served_with_its_figures_recorded(farm: Farm) -> None:
    outcome = farm.run(farm.ask("pruning", "storing", "grafting"))
    assert outcome.ok
    assert outcome.applied.gate["passed"]
    assert outcome.applied.gate["metrics"]["hit@5"] == 1.0
    assert "Passed" in farm.page


def test_a_rebuild_that_is_worse_than_what_is_served_is_not_served(farm: Farm, chunker: Callable[..., None]) -> None:
    questions = farm.ask("pruning", "storing", "grafting")
    farm.run(questions)
    before = farm.served()
    chunker(emptied)
    outcome = farm.run(questions, rebuild=True, evidence=0.0, hit_5=0.0)
    assert outcome.status == "failed"
    assert "evidence changed by -1.000" in outcome.problem
    assert "against the baseline: 0 questions better, 3 worse" in outcome.problem
    assert farm.served() == before
    assert [failure.step for failure in failures(outcome)] == ["publish"]


def test_a_rebuild_that_is_as_good_is_served(farm: Farm) -> None:
    questions = farm.ask("pruning", "storing", "grafting")
    farm.run(questions)
    before = farm.served()
    outcome = farm.run(questions, rebuild=True)
    assert outcome.ok, outcome.error
    assert farm.served() != before
    assert "Against the baseline" in farm.page


def test_an_incremental_run_that_lost_answers_sounds_an_alarm_and_the_page_names_them(farm: Farm) -> None:
    questions = farm.ask("pruning", "storing", "grafting")
    assert farm.run(questions).ok
    farm.write(grafting="# Grafting\n\nSee the other page.\n", storing="# Storing\n\nTo do.\n")
    outcome = farm.run(questions)
    assert outcome.status == "failed"
    assert "evidence is 0.333, the floor is 0.800" in outcome.problem
    assert failures(outcome)
    assert ASKED["grafting"] in farm.page


def test_without_questions_or_with_questions_for_other_tools_nothing_is_asked(farm: Farm) -> None:
    assert farm.run().ok
    assert "No question was asked" in farm.page
    assert farm.run(farm.ask("pruning", tool="issues"), rebuild=True).ok
    assert "No question was asked" in farm.page


def test_a_question_set_that_is_wrong_stops_the_run_before_it_serves(farm: Farm) -> None:
    farm.run()
    before = farm.served()
    (farm.folder / "broken.jsonl").write_text("{}\n")
    outcome = farm.run(str(farm.folder / "broken.jsonl"), rebuild=True)
    assert outcome.status == "failed"
    assert "broken.jsonl:1: 'id' must be a non-empty string" in outcome.problem
    assert farm.served() == before
    assert list(read_jsonl(RunFolders(farm.folder / "run" / "docs").rows("farm")))
