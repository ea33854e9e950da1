"""Plain folders as sources."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from kubeflow_corpus.errors import SourceError, UnknownRef
from kubeflow_corpus.records import Document, Skip
from kubeflow_corpus.sites.base import Site
from kubeflow_corpus.sources.catalogue import Source, load_catalogue
from kubeflow_corpus.sources.checkout import fetch_documents, resolve_revision

from tests.sources.repositories import git, write_files

SHARED = Path(__file__).parents[3] / "shared" / "corpus" / "docs"
SITE = Site("docusaurus", "docs", "https://example.org/")
FILES = {"docs/a.md": b"# A\n", "docs/empty.md": b"", "docs/z/b.md": b"# B\n", "other/c.md": b"# C\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path / "folder", FILES)
    return tmp_path / "folder"


def _source(folder: Path, **changes: object) -> Source:
    source = Source("site", "docs", "kubeflow/website", str(folder), include=("docs/**/*.md",), site=SITE)
    return replace(source, **changes)  # type: ignore[arg-type]


def _fetch(source: Source, workdir: Path) -> list[Document | Skip]:
    return list(fetch_documents(source, resolve_revision(source), workdir))


def test_the_selected_files_of_a_folder_are_documents(folder: Path, tmp_path: Path) -> None:
    documents = _fetch(_source(folder), tmp_path / "w")
    assert [(document.path, document.text) for document in documents] == [
        ("docs/a.md", "# A\n"),
        ("docs/empty.md", ""),
        ("docs/z/b.md", "# B\n"),
    ]


def test_the_revision_of_a_folder_depends_on_selected_paths_and_contents_only(folder: Path, tmp_path: Path) -> None:
    before = resolve_revision(_source(folder))
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    os.utime(copy / "docs/a.md", (1, 1))
    (copy / "other/c.md").write_bytes(b"changed")
    assert resolve_revision(_source(copy)) == before
    assert before.committed_at == ""
    (copy / "docs/a.md").write_bytes(b"# A!")
    changed = resolve_revision(_source(copy))
    assert changed != before
    (copy / "docs/a.md").rename(copy / "docs/b.md")
    assert resolve_revision(_source(copy)) not in (before, changed)


def test_a_folder_that_changes_while_it_is_read_fails_instead_of_mixing(folder: Path, tmp_path: Path) -> None:
    source = _source(folder)
    stream = fetch_documents(source, resolve_revision(source), tmp_path / "w")
    next(stream)
    (folder / "docs/z/b.md").write_bytes(b"# new")
    with pytest.raises(SourceError, match="changed while it was read"):
        list(stream)


def test_no_link_and_no_device_in_a_folder_is_opened(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    os.symlink(tmp_path / "secret.md", folder / "docs/out.md")
    os.symlink("a.md", folder / "docs/in.md")
    os.symlink(tmp_path, folder / "docs/up")
    os.symlink("loop.md", folder / "docs/loop.md")
    os.mkfifo(folder / "docs/pipe.md")
    skips = {item.path: item.reason for item in _fetch(_source(folder), tmp_path / "w") if isinstance(item, Skip)}
    assert skips == {
        "docs/in.md": "symlink",
        "docs/loop.md": "symlink",
        "docs/out.md": "symlink",
        "docs/pipe.md": "not_a_file",
    }


def test_a_folder_put_in_place_by_a_link_after_the_listing_is_not_followed(folder: Path, tmp_path: Path) -> None:
    write_files(tmp_path / "outside", {"b.md": b"secret"})
    source = _source(folder)
    stream = fetch_documents(source, resolve_revision(source), tmp_path / "w")
    next(stream)
    shutil.rmtree(folder / "docs/z")
    os.symlink(tmp_path / "outside", folder / "docs/z")
    rest = []
    with pytest.raises(SourceError):
        rest.extend(stream)
    assert not any("secret" in getattr(item, "text", "") for item in rest)


def test_a_path_that_is_not_utf8_is_skipped(folder: Path, tmp_path: Path) -> None:
    (folder / os.fsdecode(b"docs/\xff.md")).write_bytes(b"x")
    skips = [item for item in _fetch(_source(folder), tmp_path / "w") if isinstance(item, Skip)]
    assert [(skip.path, skip.reason) for skip in skips] == [("docs/\\xff.md", "unsafe_path")]


def test_a_huge_file_is_not_read_into_memory(folder: Path, tmp_path: Path) -> None:
    with (folder / "docs/huge.md").open("wb") as file:
        file.truncate(100 << 20)
    skips = [item for item in _fetch(_source(folder), tmp_path / "w") if isinstance(item, Skip)]
    assert [(skip.reason, skip.detail) for skip in skips] == [("too_large", f"{100 << 20} bytes")]


def test_links_of_a_copy_go_to_the_commit_that_it_is_a_copy_of(folder: Path, tmp_path: Path) -> None:
    commit = "476e4c1080e00cc08bb76b3a52b28014a8aa9477"
    copied = _fetch(_source(folder, ref=commit), tmp_path / "w")[0]
    plain = _fetch(_source(folder), tmp_path / "w")[0]
    assert copied.url == f"https://github.com/kubeflow/website/blob/{commit}/docs/a.md"
    assert plain.url == "https://github.com/kubeflow/website/blob/HEAD/docs/a.md"


def test_a_folder_that_is_on_no_host_is_cited_where_it_lies(folder: Path, tmp_path: Path) -> None:
    source = replace(_source(folder), repo="local/notes")
    (folder / "docs/a b#1.md").write_text("# Spaces\n\nText.\n")
    urls = {item.path: item.url for item in _fetch(source, tmp_path / "w") if isinstance(item, Document)}
    assert urls["docs/a.md"] == f"file://{quote(str(folder))}/docs/a.md"
    assert urls["docs/a b#1.md"].endswith("/docs/a%20b%231.md")


def test_a_plain_folder_has_no_branches(folder: Path) -> None:
    with pytest.raises(UnknownRef, match="plain folder and has no ref 'main'.*Take 'ref' out"):
        resolve_revision(_source(folder, ref="main"))


def test_gitattributes_of_a_plain_folder_count_too(folder: Path, tmp_path: Path) -> None:
    write_files(folder, {"docs/.gitattributes": b"a.md linguist-generated\n"})
    source = _source(folder, type="code", site=None)
    assert [item.path for item in _fetch(source, tmp_path / "w") if item.metadata["generated"]] == ["docs/a.md"]


def test_a_folder_and_a_repository_with_the_same_files_give_the_same_texts_in_the_same_order(
    folder: Path, tmp_path: Path
) -> None:
    write_files(folder, {"docs/Z.md": b"1", "docs/a-b.md": b"2", "docs/a/c.md": b"3", "docs/a.b.md": b"4"})
    plain = [(item.path, item.text) for item in _fetch(_source(folder), tmp_path / "w")]
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=x")
    assert [(item.path, item.text) for item in _fetch(_source(folder), tmp_path / "w")] == plain


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder ../shared with the real sites is not beside the checkout")
def test_the_packaged_patterns_find_all_pages_of_the_real_sites(tmp_path: Path) -> None:
    suffixes: list[str] = []
    for source in load_catalogue().select("docs"):
        name = source.repo.replace("/", "-")
        documents = _fetch(replace(source, url=str((SHARED / name).resolve())), tmp_path)
        assert not [item for item in documents if isinstance(item, Skip)]
        assert all(item.metadata["product_area"] for item in documents if isinstance(item, Document))
        suffixes += [item.path.rpartition(".")[2] for item in documents]
    assert sorted(set(suffixes)) == ["json", "md", "mdx"]
    assert (len(suffixes) - suffixes.count("json"), suffixes.count("json")) == (442, 26)


def test_what_pages_are_made_with_comes_with_them_and_is_part_of_the_revision(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.html"
    secret.write_text("secret")
    write_files(
        folder,
        {
            "docs/a.md": b'{{< x >}} {{< y >}} {{< link >}} {{< show "/etc/passwd.txt" "../../secret.html" >}}\n',
            "layouts/shortcodes/x.html": b'{{ partial "p.html" . }}{{ site.Data.d.v }}',
            "layouts/shortcodes/unused.html": b"1",
            "layouts/partials/p.html": b'{{ partial "p.html" . }}',
            "data/d.yaml": b"v: 1",
        },
    )
    (folder / "layouts/shortcodes/link.html").symlink_to(secret)
    source = _source(folder, site=Site("hugo", "docs", "https://example.org/"))
    before = resolve_revision(source)
    documents = {item.path: item for item in _fetch(source, tmp_path / "w") if isinstance(item, Document)}
    assert set(documents["docs/a.md"].metadata["files"]) == {
        "layouts/shortcodes/x.html",
        "layouts/partials/p.html",
        "data/d.yaml",
    }
    assert "files" not in documents["docs/z/b.md"].metadata
    (folder / "layouts/shortcodes/unused.html").write_bytes(b"2")
    assert resolve_revision(source) == before
    (folder / "layouts/partials/p.html").write_bytes(b"new")
    assert resolve_revision(source) != before
