"""A run that is asked for a few documents by name, through the steps: those become what a whole run makes of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.collections import find_collection
from kubeflow_corpus.ingest.results import StepResult
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.schema import served_name
from kubeflow_corpus.store.versions import live_name, properties_of

from tests.retrieval.samples import run
from tests.servers.github import GithubServer, serve
from tests.sources.repositories import commit, commit_files, git, make_repository
from tests.store.synthetic import rows_of

pytestmark = pytest.mark.slow

HIDDEN = b"---\ntitle: Plans\ncascade:\n  draft: true\n---\n"
PAGE = "---\ntitle: {name}\n---\n# {name}\n\nHow to {name} in the orchard. {more}\n"


def page(name: str, more: str = "") -> bytes:
    return PAGE.format(name=name, more=more).encode()


@dataclass
class Place:
    """One Milvus, in which each environment is a prefix."""

    folder: Path
    patch: pytest.MonkeyPatch
    runs: int = 0

    @property
    def settings(self) -> Settings:
        return Settings.from_env()

    def ran(self, prefix: str, collection: str, **options: Any) -> StepResult:
        self.patch.setenv("COLLECTION_PREFIX", prefix)
        self.runs += 1
        return run(collection, self.folder / f"run-{self.runs}", catalogue=self.folder / "catalogue.yaml", **options)

    def whole(self, prefix: str, collection: str) -> None:
        outcome = self.ran(prefix, collection)
        assert outcome.ok, outcome.error
        assert [part.error for part in outcome.sources if not part.ok] == []

    def named(self, prefix: str, collection: str, *words: str) -> StepResult:
        outcome = self.ran(prefix, collection, changed_paths=words)
        assert outcome.ok, outcome.error
        assert [part.error for part in outcome.sources if not part.ok] == []
        return outcome

    def rows(self, prefix: str, collection: str) -> dict[str, dict[str, Any]]:
        alias = find_collection(collection).alias
        with connected(self.settings) as client:
            name = served_name(prefix, alias)
            client.load_collection(name)
            return rows_of(client, name, find_collection(alias))

    def documents(self, prefix: str, collection: str) -> dict[str, dict[str, Any]]:
        """Every stored field of every row, by document and key."""
        found: dict[str, dict[str, Any]] = {}
        for key, row in self.rows(prefix, collection).items():
            found.setdefault(row["document_id"], {})[key] = row
        return found

    def property(self, prefix: str, collection: str, name: str) -> str:
        with connected(self.settings) as client:
            return properties_of(client, live_name(client, served_name(prefix, find_collection(collection).alias))).get(
                name, ""
            )

    def catalogue(self, *entries: str) -> None:
        (self.folder / "catalogue.yaml").write_text("sources:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("named")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MILVUS_URI", str(folder / "corpus.db"))
        # Vectors of a text do not depend on what it was embedded with.
        patch.setenv("EMBEDDING_CACHE", str(folder / "cache"))
        for name in ("EMBEDDINGS_URL", "RERANK_URL", "GITHUB_TOKEN"):
            patch.delenv(name, raising=False)
        yield Place(folder, patch)


SITE = "type: docs, repo: example/{name}, url: {name}, include: ['content/**/*.md'], site: {{generator: hugo,"
SITE += " root: content, base_url: 'https://{name}.example/'}}"


def test_named_pages_become_what_a_whole_run_makes_of_them_and_no_other_row_changes(place: Place) -> None:
    names = [f"page-{number}" for number in range(8)]
    pages = {f"content/guides/{name}.md": page(name) for name in names}
    hidden = {"content/plans/_index.md": HIDDEN, "content/plans/next.md": page("next")}
    first = make_repository(place.folder / "site", {**pages, **hidden})
    make_repository(place.folder / "other", {"content/a.md": page("prune")})
    place.catalogue(*(f"name: {name}, {SITE.format(name=name)}" for name in ("site", "other")))
    for prefix in ("named", "entire"):
        place.whole(prefix, "docs")
    before = place.documents("named", "docs")

    edited = {f"content/guides/{name}.md": page(name, "Again.") for name in names[:2]}
    edited["content/plans/next.md"] = page("next", "Again.")
    (place.folder / "site" / "content/guides/page-2.md").unlink()
    second = commit_files(place.folder / "site", {**edited, "content/guides/added.md": page("added")})
    commit_files(place.folder / "other", {"content/a.md": page("prune", "Again.")})
    asked = [f"site:content/{name}.md" for name in ("guides/page-0", "guides/page-2", "guides/added", "plans/next")]
    outcome = place.named("named", "docs", *asked)
    place.whole("entire", "docs")

    after, entire = place.documents("named", "docs"), place.documents("entire", "docs")
    assert {key: after.get(key) for key in asked} == {key: entire.get(key) for key in asked}
    assert asked[1] not in after
    assert {row["revision"] for key in (asked[0], asked[2]) for row in after[key].values()} == {second}
    assert asked[3] not in after, "the section page above hides it, though nobody asked for that one"
    others = before.keys() - set(asked)
    assert {key: after[key] for key in others} == {key: before[key] for key in others}
    assert after.keys() == (others | {asked[0], asked[2]})
    assert [part.source for part in outcome.sources] == ["site"]
    assert outcome.sources[0].counts.items() >= {"documents": 3, "added": 1, "changed": 1, "deleted": 1}.items()

    # The source stands where it stood: the next whole run sees the change that nobody named.
    assert place.property("named", "docs", "head:site") == first
    place.whole("named", "docs")
    assert place.documents("named", "docs") == entire
    assert place.property("named", "docs", "head:site") == second


CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: ploughs.example.org
spec:
  group: example.org
  names: {{kind: Plough, plural: ploughs}}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              depth: {{type: integer, minimum: {least}}}
"""
GO = """\
package v1

// Plough turns the ground.
type Plough struct {
\tSpec PloughSpec `json:"spec"`
}

// PloughSpec says how.
type PloughSpec struct {
\t// Depth in centimetres.
\tDepth int `json:"depth"`
}
"""


def test_a_named_crd_is_cut_with_the_go_types_and_the_copies_of_its_repository(place: Place) -> None:
    copy = "config/install/crd.yaml"
    files = {
        "config/crd.yaml": CRD.format(least=1),
        copy: CRD.format(least=1),
        "api/v1/plough_types.go": GO,
        "a.py": "A = 1\n",
    }
    make_repository(place.folder / "plough", {name: text.encode() for name, text in files.items()})
    place.catalogue("name: plough, type: code, repo: example/plough, url: plough")
    for prefix in ("named", "entire"):
        place.whole(prefix, "code")
    before = place.documents("named", "code")
    edited = {"config/crd.yaml": CRD.format(least=5), copy: CRD.format(least=5), "a.py": "A = 2\n"}
    commit_files(place.folder / "plough", {name: text.encode() for name, text in edited.items()})
    asked = ["plough:config/crd.yaml", f"plough:{copy}"]
    outcome = place.named("named", "code", *asked)
    place.whole("entire", "code")
    after, entire = place.documents("named", "code"), place.documents("entire", "code")
    assert {key: after.get(key) for key in asked} == {key: entire.get(key) for key in asked}
    assert any("Depth in centimetres" in row["content_text"] for row in after[asked[0]].values())
    assert asked[1] not in after, "the copy gives way, as in a whole run"
    others = before.keys() - set(asked)
    assert {key: after[key] for key in others} == {key: before[key] for key in others}
    assert outcome.sources[0].counts["documents"] == 2


FIX = "We fixed this in our garden: set `entranceReducer: small` in hive.yaml, restart the hive, and it is quiet again."


@pytest.fixture
def github(place: Place) -> Iterator[GithubServer]:
    with serve() as server:
        place.patch.setenv("GITHUB_API_URL", server.url)
        yield server


def test_named_threads_are_read_again_and_the_cursor_stays_where_it_was(place: Place, github: GithubServer) -> None:
    repository = github.repository("example/bees")
    for number in range(1, 8):
        repository.open(f"Hive {number} is loud", "It hums all night, and nobody sleeps.")
    place.catalogue("name: bees, type: issue, repo: example/bees")
    place.whole("named", "issues")
    before, cursor = place.documents("named", "issues"), place.property("named", "issues", "cursor:bees")
    github.tick()
    for number in (1, 2):
        repository.comment(number, FIX, user="keeper")
    repository.delete(3)
    pull_request = repository.merge("Quiet hives", "Fixes nothing in particular")
    calls = github.calls
    asked = ["bees:1", "bees:3", f"bees:{pull_request.number}"]
    place.named("named", "issues", *asked)
    assert github.calls - calls == 4, "one for each, and one for the comments of the thread that has some"
    after = place.documents("named", "issues")
    assert any("quiet" in row["content_text"] for row in after["bees:1"].values())
    assert after.keys() == before.keys() - {"bees:3"}
    others = after.keys() - set(asked)
    assert {key: after[key] for key in others} == {key: before[key] for key in others}
    assert place.property("named", "issues", "cursor:bees") == cursor
    place.whole("named", "issues")
    whole = place.documents("named", "issues")
    assert any("quiet" in row["content_text"] for row in whole["bees:2"].values())
    assert whole["bees:1"] == after["bees:1"]


def test_a_collection_that_is_filled_again_takes_every_document(place: Place) -> None:
    make_repository(place.folder / "fresh", {"content/a.md": page("prune")})
    place.catalogue(f"name: fresh, {SITE.format(name='fresh')}")
    outcome = place.ran("fresh", "docs", changed_paths=["fresh:content/a.md"])
    assert (outcome.status, outcome.step) == ("failed", "plan")
    assert "no version is served yet" in outcome.problem
    assert outcome.remedy == "Run once without changed_paths"
    rebuild = place.ran("fresh", "docs", changed_paths=["fresh:content/a.md"], rebuild=True)
    assert (rebuild.status, rebuild.step) == ("failed", "list_sources")
    assert "a new version needs every document" in rebuild.problem


def test_a_source_that_cannot_be_read_keeps_the_rows_of_what_was_named(place: Place) -> None:
    make_repository(place.folder / "gone", {f"content/{name}.md": page(name) for name in ("prune", "store")})
    place.catalogue(f"name: gone, {SITE.format(name='gone')}")
    place.whole("gone", "docs")
    before = place.rows("gone", "docs")
    shutil.rmtree(place.folder / "gone")
    outcome = place.ran("gone", "docs", changed_paths=["gone:content/prune.md"])
    assert [(part.source, part.step) for part in outcome.sources] == [("gone", "resolve_revision")]
    assert place.rows("gone", "docs") == before


def test_a_source_that_is_not_what_it_was_loses_no_more_than_the_guard_lets_pass(place: Place) -> None:
    make_repository(place.folder / "moved", {f"content/{number}.md": page(f"page-{number}") for number in range(4)})
    place.catalogue(f"name: moved, {SITE.format(name='moved')}")
    place.whole("moved", "docs")
    git(place.folder / "moved", "mv", "content", "pages")
    commit(place.folder / "moved")
    outcome = place.ran("moved", "docs", changed_paths=[f"moved:content/{number}.md" for number in range(4)])
    assert (outcome.status, outcome.step) == ("failed", "plan")
    assert "4 of 4 documents of source moved would be deleted" in outcome.problem
    assert len(place.documents("moved", "docs")) == 4
