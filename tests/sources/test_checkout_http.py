"""Git sources over HTTP: a real smart-HTTP server, with and without what a good server does."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubeflow_corpus.errors import (
    RepositoryNotFound,
    SourceForbidden,
    SourceRateLimited,
    SourceRefused,
    SourceUnauthenticated,
    SourceUnreachable,
    UnknownRef,
)
from kubeflow_corpus.settings import Secret, Settings
from kubeflow_corpus.sites.base import Site
from kubeflow_corpus.sources.catalogue import Source
from kubeflow_corpus.sources.checkout import fetch_documents, resolve_revision
from kubeflow_corpus.sources.git.command import TransferLimits

from tests.servers.git_http import GitHttp, serve_git
from tests.sources.repositories import commit_files, git, make_repository, objects_in

TOKEN = "ghp_" + "s3cret" * 6
BASIC = "Basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
SITE = Site("hugo", "docs", "https://example.org/")
QUICK = TransferLimits(seconds=20, stall_seconds=1, attempts=2, retry_seconds=0)


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served")
    make_repository(root / "work", {"docs/a.md": b"# A\n", "docs/b.md": b"# B\n", "big.bin": os.urandom(20_000)})
    commit_files(root / "work", {"docs/a.md": b"# A2\n"})
    git(root, "clone", "--quiet", "--bare", str(root / "work"), "site.git")
    return root


@pytest.fixture
def server(upstream: Path) -> Iterator[GitHttp]:
    with serve_git(upstream) as state:
        yield state


def _source(server: GitHttp, name: str = "site.git", ref: str = "HEAD") -> Source:
    return Source("site", "docs", "kubeflow/website", f"{server.url}/{name}", ref, ("docs/**",), site=SITE)


def _with_token(server: GitHttp) -> Settings:
    return Settings(github_token=Secret(TOKEN), github_api_url=server.url)


def _texts(source: Source, workdir: Path, settings: Settings = Settings()) -> list[str]:  # noqa: B008
    revision = resolve_revision(source, settings, QUICK)
    return [item.text for item in fetch_documents(source, revision, workdir, settings, QUICK)]


def test_only_the_selected_contents_travel(server: GitHttp, upstream: Path, tmp_path: Path) -> None:
    source = _source(server)
    stream = fetch_documents(source, resolve_revision(source, Settings()), tmp_path, Settings())
    assert next(stream).text == "# A2\n"
    blobs = {git(upstream / "site.git", "rev-parse", f"HEAD:docs/{name}.md") for name in "ab"}
    assert objects_in(tmp_path / "site.git", "blob") == blobs
    assert len(objects_in(tmp_path / "site.git", "commit")) == 1
    stream.close()


def test_documents_point_to_the_server_that_they_came_from(server: GitHttp, tmp_path: Path) -> None:
    source = _source(server)
    revision = resolve_revision(source, Settings())
    document = next(fetch_documents(source, revision, tmp_path, Settings()))
    assert document.url == f"{server.url}/site/blob/{revision.commit}/docs/a.md"


def test_a_server_without_filters_still_gives_the_same(server: GitHttp, tmp_path: Path) -> None:
    server.filters = False
    assert _texts(_source(server), tmp_path) == ["# A2\n", "# B\n"]


@pytest.mark.slow
@pytest.mark.parametrize("filters", [True, False])
def test_a_server_that_gives_no_object_by_its_id_still_gives_the_same(
    server: GitHttp, tmp_path: Path, filters: bool
) -> None:
    server.version_2, server.filters = False, filters
    assert _texts(_source(server), tmp_path) == ["# A2\n", "# B\n"]


@pytest.mark.slow
def test_an_older_commit_of_such_a_server_is_found_in_its_history(
    server: GitHttp, upstream: Path, tmp_path: Path
) -> None:
    server.version_2 = False
    older = git(upstream / "site.git", "rev-parse", "HEAD~1")
    assert _texts(_source(server, ref=older), tmp_path) == ["# A\n", "# B\n"]
    assert resolve_revision(_source(server, ref=older[:8]), Settings()).commit == older


def test_an_unknown_ref_is_distinguished_from_an_unknown_repository(server: GitHttp) -> None:
    with pytest.raises(UnknownRef, match="no branch, tag or commit 'mian'.*Known refs are main"):
        resolve_revision(_source(server, ref="mian"), Settings())
    with pytest.raises(RepositoryNotFound, match="nothing.git is not there.*Check repo and url"):
        resolve_revision(_source(server, "nothing.git"), Settings())


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (403, SourceForbidden),
        (404, RepositoryNotFound),
        (410, RepositoryNotFound),
        (429, SourceRateLimited),
        (500, SourceUnreachable),
        (503, SourceUnreachable),
    ],
)
def test_each_refusal_has_its_own_error_and_remedy(server: GitHttp, status: int, error: type[Exception]) -> None:
    server.status = status
    with pytest.raises(error, match=f"site: {server.url}/site.git (is|cannot|does) ") as caught:
        resolve_revision(_source(server), Settings(), QUICK)
    assert caught.value.remedy


@pytest.mark.slow
def test_only_what_may_pass_is_tried_again(server: GitHttp) -> None:
    for status, tries in ((503, 2), (404, 1)):
        server.status = status
        server.requests.clear()
        with pytest.raises((SourceUnreachable, RepositoryNotFound)):
            resolve_revision(_source(server), Settings(), QUICK)
        assert len(server.requests) == tries


@pytest.mark.slow
def test_a_server_that_never_answers_is_given_up(server: GitHttp) -> None:
    server.hang = True
    with pytest.raises(SourceUnreachable, match="Check the network"):
        resolve_revision(_source(server), Settings(), TransferLimits(stall_seconds=1, attempts=1))


@pytest.mark.slow
def test_a_command_that_runs_too_long_is_ended(server: GitHttp) -> None:
    server.hang = True
    with pytest.raises(SourceUnreachable, match="took longer than 0.3 seconds"):
        resolve_revision(_source(server), Settings(), TransferLimits(seconds=0.3))


def test_nobody_listening_is_unreachable() -> None:
    source = Source("site", "docs", "a/b", "http://127.0.0.1:1/a", include=("**",), site=SITE)
    with pytest.raises(SourceUnreachable, match="127.0.0.1"):
        resolve_revision(source, Settings(), QUICK)


@pytest.mark.slow
def test_an_answer_that_is_cut_off_once_is_asked_for_again(server: GitHttp, tmp_path: Path) -> None:
    server.broken_answers = 1
    assert _texts(_source(server), tmp_path) == ["# A2\n", "# B\n"]
    assert server.broken_answers == 0


@pytest.mark.slow
def test_answers_that_are_always_cut_off_are_an_error(server: GitHttp) -> None:
    server.broken_answers = 99
    with pytest.raises(SourceUnreachable):
        resolve_revision(_source(server), Settings(), QUICK)


def test_a_private_repository_without_a_token_names_the_variable(server: GitHttp) -> None:
    server.authorization = BASIC
    with pytest.raises(SourceUnauthenticated, match="Set GITHUB_TOKEN"):
        resolve_revision(_source(server), Settings(), QUICK)


def test_a_private_repository_opens_with_the_token(server: GitHttp, tmp_path: Path) -> None:
    server.authorization = BASIC
    assert _texts(_source(server), tmp_path, _with_token(server)) == ["# A2\n", "# B\n"]


def test_a_public_repository_never_sees_the_token(server: GitHttp, tmp_path: Path) -> None:
    _texts(_source(server), tmp_path, _with_token(server))
    assert set(server.headers) == {""}


def test_the_token_goes_to_no_other_host_than_its_own(server: GitHttp) -> None:
    server.authorization = BASIC
    for api in (
        "https://api.github.com",
        "https://ghe.example.org/api/v3",
        server.url.replace("127.0.0.1", "localhost"),
    ):
        with pytest.raises(SourceUnauthenticated):
            resolve_revision(_source(server), Settings(github_token=Secret(TOKEN), github_api_url=api), QUICK)
    assert set(server.headers) == {""}


def test_the_token_follows_no_redirect(server: GitHttp, upstream: Path) -> None:
    server.authorization = BASIC
    with serve_git(upstream) as other:
        other.authorization = "Basic nobody"
        server.redirects["moved.git"] = f"{other.url}/site.git"
        with pytest.raises(RepositoryNotFound, match="has moved.*new address"):
            resolve_revision(_source(server, "moved.git"), _with_token(server), QUICK)
        assert set(other.headers) == {""}


@pytest.mark.slow
def test_a_public_repository_that_moved_is_found(server: GitHttp, tmp_path: Path) -> None:
    server.redirects["old.git"] = f"{server.url}/site.git"
    assert _texts(_source(server, "old.git"), tmp_path, _with_token(server)) == ["# A2\n", "# B\n"]


def test_a_redirect_to_another_transport_is_refused(server: GitHttp, upstream: Path) -> None:
    server.redirects["old.git"] = f"file://{upstream}/site.git"
    with pytest.raises(SourceRefused, match="transport that is not allowed"):
        resolve_revision(_source(server, "old.git"), Settings(), QUICK)


def test_the_token_is_in_no_command_line_and_no_error(
    server: GitHttp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = next(place for place in os.environ["PATH"].split(":") if (Path(place) / "git").exists())
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/lines\nexec {real}/git "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    server.authorization = "Basic another"
    with pytest.raises(SourceUnauthenticated) as caught:
        resolve_revision(_source(server), _with_token(server), QUICK)
    assert BASIC in server.headers
    for text in ((tmp_path / "lines").read_text(), str(caught.value), repr(caught.value.fields), repr(caught.value)):
        assert TOKEN not in text
        assert BASIC.removeprefix("Basic ") not in text
