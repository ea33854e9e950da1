"""Git sources over ``file://``: real repositories, real git."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from kubeflow_corpus.errors import RepositoryNotFound, SourceError, SourceRefused, UnknownRef
from kubeflow_corpus.records import Document, Skip
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.sites.base import Site
from kubeflow_corpus.sources.catalogue import PathRule, Source
from kubeflow_corpus.sources.checkout import Revision, fetch_documents, resolve_revision
from kubeflow_corpus.sources.decoding import MAX_BYTES
from kubeflow_corpus.sources.git.command import TransferLimits

from tests.sources.repositories import commit, commit_files, git, make_repository, objects_in

FILES = {
    "docs/a.md": b"# A\n",
    "docs/b c#1.md": b"\xef\xbb\xbf# B\r\n",
    "docs/sub/d.md": b"# D\n",
    "docs/image.png": b"\x89PNG\0" * 2000,
    "src/main.go": b"package main\n",
    "src/deploy.yaml": b"kind: Deployment\n",
    "README.md": b"# R\n",
}


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("upstream") / "repository"
    first = make_repository(folder, FILES)
    git(folder, "tag", "--annotate", "--message=x", "v1.0.0")
    git(folder, "branch", "release-1.0", first)
    commit_files(folder, {"docs/a.md": b"# A2\n"}, at="2026-05-06T23:30:00-02:00")
    commit_files(folder, {"docs/a.md": b"# A3\n"}, at="2026-06-01T00:00:00+00:00")
    return folder


def _source(folder: Path, kind: str = "docs", **changes: object) -> Source:
    site = Site("hugo", "docs", "https://example.org/") if kind == "docs" else None
    source = Source("site", kind, "kubeflow/website", str(folder), include=("docs/**/*.md",), site=site)  # type: ignore[arg-type]
    return replace(source, **changes)  # type: ignore[arg-type]


def _fetch(source: Source, workdir: Path) -> list[Document | Skip]:
    return list(fetch_documents(source, resolve_revision(source, Settings()), workdir, Settings()))


@pytest.mark.slow
def test_a_branch_a_tag_a_commit_and_its_prefix_all_become_a_commit_id(upstream: Path) -> None:
    first, second, third = git(upstream, "rev-list", "--reverse", "main").split()
    expected = {"HEAD": third, "main": third, "release-1.0": first, "v1.0.0": first, "refs/heads/main": third,
                second: second, second[:9]: second, third[:7]: third, "refs/tags/v1.0.0": first}  # fmt: skip
    assert {ref: resolve_revision(_source(upstream, ref=ref)).commit for ref in expected} == expected


def test_the_time_of_a_revision_is_the_commits_in_utc(upstream: Path) -> None:
    second = git(upstream, "rev-parse", "main~1")
    assert resolve_revision(_source(upstream, ref=second)).committed_at == "2026-05-07T01:30:00Z"


def test_a_tag_object_named_by_its_id_is_peeled(upstream: Path) -> None:
    tag = git(upstream, "rev-parse", "refs/tags/v1.0.0")
    assert resolve_revision(_source(upstream, ref=tag)).commit == git(upstream, "rev-parse", "v1.0.0^{commit}")


@pytest.mark.parametrize(
    ("ref", "near"),
    [("release-1.1", "release-1.0"), ("v1.0.1", "v1.0.0"), ("0" * 40, "Name a branch"), ("fffffff", "")],
)
def test_an_unknown_ref_names_refs_that_are_near(upstream: Path, ref: str, near: str) -> None:
    with pytest.raises(UnknownRef, match=f"site: {upstream} has no branch, tag or commit '{ref}'") as caught:
        resolve_revision(_source(upstream, ref=ref))
    assert near in caught.value.remedy


def test_a_ref_that_names_no_commit_is_unknown(upstream: Path) -> None:
    blob = git(upstream, "rev-parse", "main:README.md")
    with pytest.raises(UnknownRef):
        resolve_revision(_source(upstream, ref=blob))


def test_a_repository_without_a_commit_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")
    with pytest.raises(UnknownRef, match="no commit yet. Commit its files"):
        resolve_revision(_source(tmp_path / "empty"))


def test_a_missing_repository_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(RepositoryNotFound, match="there is no folder .*nowhere.*Check 'url'"):
        resolve_revision(_source(tmp_path / "nowhere"))


def test_the_selected_files_come_as_documents_sorted_by_path(upstream: Path, tmp_path: Path) -> None:
    source = _source(upstream, ref="v1.0.0", product_area=(PathRule("docs/sub/**", ("katib",)),))
    documents = _fetch(source, tmp_path)
    commit_id = git(upstream, "rev-parse", "v1.0.0^{commit}")
    assert [document.path for document in documents] == ["docs/a.md", "docs/b c#1.md", "docs/sub/d.md"]
    assert documents[1] == Document(
        document_id="site:docs/b c#1.md",
        source="site",
        source_type="docs",
        repo="kubeflow/website",
        revision=commit_id,
        path="docs/b c#1.md",
        url=f"https://github.com/kubeflow/website/blob/{commit_id}/docs/b%20c%231.md",
        title="",
        text="# B\n",
        metadata={
            "product_area": [],
            "version": ["1.0.0", "1.0"],
            "updated_at": "2026-01-02T01:04:05Z",
            "site": {"generator": "hugo", "root": "docs", "base_url": "https://example.org/", "params": {}},
        },
    )
    assert documents[2].metadata["product_area"] == ["katib"]


def test_only_the_contents_of_selected_files_are_transferred(upstream: Path, tmp_path: Path) -> None:
    source = _source(upstream)
    stream = fetch_documents(source, resolve_revision(source), tmp_path)
    next(stream)
    repository = tmp_path / "site.git"
    wanted = {
        git(upstream, "rev-parse", f"main:{path}") for path in FILES if path.startswith("docs/") and "png" not in path
    }
    assert objects_in(repository, "blob") == wanted
    assert objects_in(repository, "commit") == {git(upstream, "rev-parse", "main")}
    stream.close()


@pytest.mark.parametrize("stop_after", [1, 99])
def test_nothing_is_left_behind_when_the_stream_ends_or_is_dropped(
    upstream: Path, tmp_path: Path, stop_after: int
) -> None:
    source = _source(upstream)
    stream = fetch_documents(source, resolve_revision(source), tmp_path)
    for _, _ in zip(range(stop_after), stream, strict=False):
        pass
    stream.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_failed_try_left_does_not_matter(upstream: Path, tmp_path: Path) -> None:
    (tmp_path / "site.git" / "objects").mkdir(parents=True)
    (tmp_path / "site.git" / "config").write_text("[core]\n\tbroken")
    assert len(_fetch(_source(upstream), tmp_path)) == 3


def test_a_code_source_tells_manifests_from_code_and_asks_gitattributes(tmp_path: Path) -> None:
    files = {
        ".gitattributes": b"[attr]made linguist-generated\napi/** made\napi/own.go -linguist-generated\n",
        "x/.gitattributes": b"*.yml linguist-generated=true\nno.py linguist-generated=false\n",
        "api/gen.go": b"a", "api/own.go": b"a", "x/y/z.yml": b"a", "x/no.py": b"a", "z.yml": b"a",
    }  # fmt: skip
    make_repository(tmp_path / "repository", files)
    # What the machine or the clone says is not what the project says.
    (tmp_path / "repository/.git/info").mkdir(exist_ok=True)
    (tmp_path / "repository/.git/info/attributes").write_text("z.yml linguist-generated\n")
    documents = _fetch(_source(tmp_path / "repository", "code", include=("**/*.{go,py,yml}",)), tmp_path / "w")
    assert {document.path: (document.source_type, document.metadata["generated"]) for document in documents} == {
        "api/gen.go": ("code", True),
        "api/own.go": ("code", False),
        "x/no.py": ("code", False),
        "x/y/z.yml": ("manifest", True),
        "z.yml": ("manifest", False),
    }


@pytest.mark.slow
def test_every_file_that_is_not_text_is_skipped_with_its_reason(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    make_repository(
        folder,
        {
            "docs/binary.md": b"a\0b",
            "docs/good.md": b"good",
            "docs/huge.md": b"x" * (MAX_BYTES["docs"] + 1),
            "docs/latin.md": b"caf\xe9",
            "docs/lfs.md": b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n",
            "docs/line\nbreak.md": b"x",
        },
    )
    os.symlink("/etc/passwd", folder / "docs/link.md")
    (folder / os.fsdecode(b"docs/n\xe9.md")).write_bytes(b"x")
    git(folder, "add", "--all")
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},docs/module.md")
    commit(folder)
    skips = [item for item in _fetch(_source(folder), tmp_path / "w") if isinstance(item, Skip)]
    assert {skip.path: skip.reason for skip in skips} == {
        "docs/binary.md": "binary",
        "docs/huge.md": "too_large",
        "docs/latin.md": "not_utf8",
        "docs/lfs.md": "lfs_pointer",
        "docs/line\nbreak.md": "unsafe_path",
        "docs/link.md": "symlink",
        "docs/module.md": "submodule",
        "docs/n\\xe9.md": "unsafe_path",
    }
    assert next(skip.detail for skip in skips if skip.reason == "too_large") == f"{MAX_BYTES['docs'] + 1} bytes"


def test_site_parameters_come_from_the_repository_and_the_catalogue_goes_over_them(tmp_path: Path) -> None:
    config = b'[params]\nversion = "v1"\nbranch = "main"\nlist = [1]\n[params.ui]\nshow = true\n'
    make_repository(tmp_path / "repository", {"config.toml": config, "docs/a.md": b"x"})
    site = Site("hugo", "docs", "https://example.org/", {"version": "v2"})
    (document,) = _fetch(_source(tmp_path / "repository", site=site), tmp_path / "w")
    assert document.metadata["site"]["params"] == {"version": "v2", "branch": "main", "ui": {"show": True}}


def test_hooks_and_configuration_of_repository_and_machine_run_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "repository"
    make_repository(folder, {"docs/a.md": b"x\n", ".gitattributes": b"*.md filter=evil diff=evil\n"})
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\nexit 1\n")
    trap.chmod(trap.stat().st_mode | stat.S_IEXEC)
    for name in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc", "fsmonitor-watchman"):
        os.symlink(trap, folder / ".git/hooks" / name)
    settings = {
        "core.fsmonitor": str(trap), "core.hooksPath": str(tmp_path), "filter.evil.smudge": str(trap),
        "uploadpack.packObjectsHook": str(trap), "core.sshCommand": str(trap), "credential.helper": str(trap),
        "core.pager": str(trap), "diff.evil.textconv": str(trap), "gpg.program": str(trap),
    }  # fmt: skip
    for key, value in settings.items():
        git(folder, "config", key, value)
    machine = tmp_path / "home"
    machine.mkdir()
    (machine / ".gitconfig").write_bytes((folder / ".git/config").read_bytes())
    monkeypatch.setenv("HOME", str(machine))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(machine / ".gitconfig"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_ASKPASS", str(trap))
    assert [item.path for item in _fetch(_source(folder), tmp_path / "w")] == ["docs/a.md"]
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "ext::sh -c touch% sprung"},
        {"url": "--upload-pack=touch sprung"},
        {"url": "http://example.org/a"},
        {"url": "git@github.com:a/b"},
        {"url": "relative/path"},
        {"ref": "--upload-pack=touch sprung"},
        {"ref": "-x"},
        {"ref": "a..b"},
        {"ref": "main\nrefs/x"},
        {"ref": ""},
        {"type": "issue"},
    ],
)
def test_a_source_made_in_code_is_refused_like_one_from_a_catalogue(
    upstream: Path, tmp_path: Path, changes: dict[str, str]
) -> None:
    source = _source(upstream, **changes)
    with pytest.raises(SourceRefused, match="site: the source is refused"):
        resolve_revision(source)
    with pytest.raises(SourceRefused):
        next(fetch_documents(source, Revision("0" * 40), tmp_path))


def test_a_commit_that_is_gone_is_named(upstream: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownRef, match=f"has no commit {'1' * 40}"):
        next(fetch_documents(_source(upstream), Revision("1" * 40), tmp_path))


@pytest.mark.slow
def test_a_tree_that_stands_for_billions_of_paths_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "repository"
    make_repository(folder, {"a": b"x"})
    tree = git(folder, "rev-parse", "HEAD^{tree}")
    for _ in range(10):
        lines = "".join(f"040000 tree {tree}\td{number}.md\n" for number in range(10))
        tree = git(folder, "mktree", stdin=lines.encode())
    git(folder, "update-ref", "refs/heads/main", git(folder, "commit-tree", "-m", "x", tree))
    monkeypatch.setattr("kubeflow_corpus.sources.git.repository.MAX_ENTRIES", 20_000)
    with pytest.raises(SourceRefused, match="more than 20000 paths"):
        _fetch(_source(folder), tmp_path / "w")


def test_a_repository_that_sends_more_than_the_limit_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "repository"
    make_repository(folder, {"docs/a.md": os.urandom(400_000)})
    source = _source(folder)
    revision = resolve_revision(source)
    with pytest.raises(SourceRefused, match="sends more than 200000 bytes. Narrow 'include'"):
        list(fetch_documents(source, revision, tmp_path / "w", Settings(), TransferLimits(transfer_bytes=200_000)))


def test_a_remote_that_lacks_one_of_its_objects_costs_that_file_only(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    make_repository(folder, {"docs/a.md": b"a", "docs/b.md": b"b"})
    oid = git(folder, "rev-parse", "HEAD:docs/b.md")
    (folder / ".git/objects" / oid[:2] / oid[2:]).unlink()
    found = _fetch(_source(folder), tmp_path / "w")
    assert [(item.path, getattr(item, "reason", "")) for item in found] == [("docs/a.md", ""), ("docs/b.md", "missing")]


def test_a_machine_without_git_gets_an_error_that_says_what_to_install(
    upstream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match="git is not installed. Install git"):
        resolve_revision(_source(upstream))


def test_a_repository_with_sha256_objects_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--object-format=sha256", "--initial-branch=main")
    commit_files(folder, {"docs/a.md": b"x", ".gitattributes": b"*.md linguist-generated"})
    (document,) = _fetch(_source(folder, "code"), tmp_path / "w")
    assert len(document.revision) == 64
    assert document.metadata["generated"]
