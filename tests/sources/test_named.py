"""Documents that a run is asked for by name: what is a name, and what each wrong one says."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubeflow_corpus.errors import CatalogueError, InvalidArgument
from kubeflow_corpus.records import Document
from kubeflow_corpus.sources.catalogue import Catalogue, Source, load_catalogue
from kubeflow_corpus.sources.checkout import fetch_documents, resolve_revision
from kubeflow_corpus.sources.named import MAX_NAMED, named_documents, parse_named, section_pages

from tests.servers.git_http import serve_git
from tests.sources.repositories import git, make_repository, objects_in


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(Path(__file__).parents[1] / "corpus" / "catalogue.yaml")


def test_names_are_gathered_by_source_each_once(catalogue: Catalogue) -> None:
    words = ["orchard-website:b.md", "orchard-code:pkg/a.go", "orchard-website:a:1.md", "orchard-website:b.md"]
    assert named_documents(catalogue, words) == {
        "orchard-code": ("pkg/a.go",),
        "orchard-website": ("a:1.md", "b.md"),
    }
    assert named_documents(catalogue, []) == {}


def test_an_issue_is_named_by_its_number(catalogue: Catalogue) -> None:
    name = next(source.name for source in catalogue.sources if source.type == "issue")
    assert named_documents(catalogue, [f"{name}:17"]) == {name: ("17",)}
    for wrong in ("0", "017", "seventeen", "99999999", "1/2"):
        with pytest.raises(InvalidArgument, match="is not an issue"):
            named_documents(catalogue, [f"{name}:{wrong}"])


@pytest.mark.parametrize(
    ("word", "said", "remedy"),
    [
        ("content/a.md", "names no document", "SOURCE:PATH"),
        (":a.md", "names no document", "SOURCE:PATH"),
        ("site:", "names no document", "SOURCE:PATH"),
        (7.0, "names no document", "SOURCE:PATH"),
        ("site:/etc/passwd", "is an absolute path", "without a leading /"),
        ("site:C:\\a.md", "is an absolute path", "without a leading /"),
        ("site:../a.md", "leads out of the repository", "without empty segments"),
        ("site:docs/../../a.md", "leads out of the repository", "without empty segments"),
        ("site:docs//a.md", "leads out of the repository", "without empty segments"),
        ("site:docs/", "names a folder", "Name each document"),
        ("site:docs/*.md", "is a pattern", "Name each document"),
        ("site:docs/?.md", "is a pattern", "Name each document"),
        ("site:a\0.md", "holds a control character", "SOURCE:PATH"),
        ("site:a\n.md", "holds a control character", "SOURCE:PATH"),
        ("site:.git/config", "is not a path that a document can have", "SOURCE:PATH"),
        ("site:" + "a" * 5000, "is not a path that a document can have", "SOURCE:PATH"),
    ],
)
def test_what_is_not_a_name_says_which_and_what_to_write(word: str, said: str, remedy: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        parse_named(["site:good.md", word])
    assert said in error.value.problem
    assert remedy in error.value.remedy
    assert "good.md" not in error.value.problem
    assert len(str(error.value)) < 500
    assert error.value.problem.isprintable()


def test_a_bracket_is_a_character_like_any_other() -> None:
    assert parse_named(["app:src/[id].tsx"]) == {"app": ("src/[id].tsx",)}


def test_more_names_than_a_step_can_be_given_are_refused() -> None:
    assert len(parse_named([f"site:{number}.md" for number in range(MAX_NAMED)])["site"]) == MAX_NAMED
    with pytest.raises(InvalidArgument, match="it takes 500"):
        parse_named([f"site:{number}.md" for number in range(MAX_NAMED + 1)])
    with pytest.raises(InvalidArgument, match="64,000 bytes"):
        parse_named([f"site:{'x' * 600}{number}.md" for number in range(200)])


def test_an_unknown_source_is_refused_with_one_that_is_near(catalogue: Catalogue) -> None:
    with pytest.raises(CatalogueError, match="orchard-websit.*orchard-website"):
        named_documents(catalogue, ["orchard-websit:a.md"])


def test_a_source_outside_the_run_and_a_rebuild_are_refused(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidArgument, match="not among the sources of this run"):
        named_documents(catalogue, ["orchard-website:a.md"], sources=["beehive-website"])
    with pytest.raises(InvalidArgument, match="a new version needs every document"):
        named_documents(catalogue, ["orchard-website:a.md"], rebuild=True)


def test_the_pages_above_a_page_of_a_hugo_site_are_its_section_pages() -> None:
    assert section_pages(["content/en/a.md", "content/_index.md"], "hugo") == {"_index.md", "content/en/_index.md"}
    assert section_pages(["docs/a.md"], "docusaurus") == frozenset()


def test_only_what_is_named_is_fetched_and_read(tmp_path: Path) -> None:
    pages = {f"docs/page-{number}.md": f"# Page {number}\n".encode() for number in range(5)}
    make_repository(tmp_path / "site", {**pages, "notes.txt": b"not selected"})
    named = {"docs/page-1.md", "docs/page-4.md", "docs/gone.md", "notes.txt"}
    with serve_git(tmp_path) as server:
        source = Source("site", "docs", "example/site", f"{server.url}/site/.git", include=("docs/**",))
        found = fetch_documents(source, resolve_revision(source), tmp_path / "work", named=named)
        first = next(found)
        assert objects_in(tmp_path / "work" / "site.git", "blob") == {
            git(tmp_path / "site", "rev-parse", f"HEAD:docs/page-{number}.md") for number in (1, 4)
        }
        paths = [item.path for item in (first, *found) if isinstance(item, Document)]
    assert paths == ["docs/page-1.md", "docs/page-4.md"]
