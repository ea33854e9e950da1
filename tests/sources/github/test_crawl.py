"""Issue threads from a GitHub that pages, limits, breaks, moves and forgets."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from kubeflow_corpus.errors import (
    RepositoryNotFound,
    SourceError,
    SourceForbidden,
    SourceRateLimited,
    SourceUnauthenticated,
    SourceUnreachable,
)
from kubeflow_corpus.records import Document, Skip
from kubeflow_corpus.settings import Secret, Settings
from kubeflow_corpus.sources.catalogue import PathRule, Source
from kubeflow_corpus.sources.github.crawl import Fetched, fetch_threads
from kubeflow_corpus.sources.github.cursor import Cursor

from tests.servers.github import SECONDARY_MESSAGE, START, Comment, Fault, GithubServer, Issue, Repository, iso, serve

REPO = "kubeflow/pipelines"
TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
LABELS = (("area/katib", "katib"),)
SOURCE = Source("kfp-issues", "issue", REPO, "", product_area=(PathRule("**", ("pipelines",)),), labels=LABELS)


@pytest.fixture
def github() -> Iterator[GithubServer]:
    with serve() as server:
        yield server


@dataclass
class Run:
    documents: dict[int, dict[str, Any]]
    raw: list[Document]
    skips: list[Skip]
    fetched: Fetched
    said: list[str]
    calls: int


@dataclass
class Index:
    """What a collection would hold after runs that save their cursor, as `apply` does."""

    threads: dict[str, str] = field(default_factory=dict)
    cursor: Cursor = field(default_factory=Cursor)

    def take(self, run: Run) -> None:
        if run.fetched.complete:
            self.threads.clear()
        for document in run.raw:
            self.threads[document.document_id] = document.text
        for removed in run.fetched.removed:
            self.threads.pop(removed.document_id, None)
        self.cursor = Cursor.from_text(run.fetched.cursor.to_text())


def run(github: GithubServer, cursor: Cursor | None = None, *, token: str = "", **options: Any) -> Run:
    said: list[str] = []
    before = github.calls
    settings = Settings(github_api_url=github.url, github_token=Secret(token))
    options = {"now": github.clock, "sleep": github.sleep, "source": SOURCE, **options}
    items = list(fetch_threads(options.pop("source"), settings, cursor or Cursor(), progress=said.append, **options))
    fetched = items[-1]
    assert isinstance(fetched, Fetched)
    documents = [item for item in items if isinstance(item, Document)]
    assert len({document.document_id for document in documents}) == len(documents)
    threads = {json.loads(document.text)["number"]: json.loads(document.text) for document in documents}
    skips = [item for item in items if isinstance(item, Skip)]
    return Run(threads, documents, skips, fetched, said, github.calls - before)


def sync(github: GithubServer, index: Index, **options: Any) -> Run:
    result = run(github, index.cursor, **options)
    index.take(result)
    return result


def clean(github: GithubServer) -> dict[str, str]:
    """What one clean run over a GitHub without limits and faults gives."""
    left, github.left = github.left, None
    index = Index()
    assert sync(github, index).fetched.error is None
    github.left = left
    return index.threads


def fill(repository: Repository, issues: int, comments_each: int = 0, *, every: int = 60) -> None:
    """Adds issues that were last changed at different times, `every` seconds apart."""
    server = repository.server
    span = timedelta(seconds=every)
    begin = server.now - span * (issues * (comments_each + 2))
    at = begin
    for number in range(1, issues + 1):
        issue = Issue(number, f"Problem {number}", f"It fails {number}", "reporter", "NONE", iso(at), iso(at))
        for _ in range(comments_each):
            at += span
            issue.comments.append(Comment(server.next_id(), "An answer", "helper", "MEMBER", iso(at), iso(at)))
        issue.updated_at = iso(at)
        at += span
        repository.add(issue)


def stopped_by(github: GithubServer, **options: Any) -> SourceError:
    error = run(github, **options).fetched.error
    assert error is not None
    return error


# What a thread holds.


def test_a_thread_is_one_json_object_with_all_its_comments(github: GithubServer) -> None:
    repository = github.repository(REPO)
    issue = repository.open("Pod is pending", "It waits.\r\nFor ever.", user="ada")
    repository.edit(issue.number, labels=["kind/bug", "area/katib"], reactions={"+1": 3})
    github.tick()
    comment = repository.comment(issue.number, "Raise the quota", user="grace", association="MEMBER")
    comment.reactions = {"heart": 2}
    repository.close(issue.number)

    result = run(github)

    (document,) = result.raw
    assert document.document_id == "kfp-issues:1"
    assert document.path == "issues/kubeflow/pipelines/1"
    assert document.url == "https://github.com/kubeflow/pipelines/issues/1"
    assert (document.source_type, document.revision, document.title) == ("issue", "", "Pod is pending")
    assert document.metadata == {
        "product_area": ["katib", "pipelines"],
        "version": [],
        "updated_at": iso(github.now),
    }
    assert result.documents[1] == {
        "number": 1,
        "title": "Pod is pending",
        "url": "https://github.com/kubeflow/pipelines/issues/1",
        "body": "It waits.\r\nFor ever.",
        "author": "ada",
        "author_association": "NONE",
        "bot": False,
        "state": "closed",
        "state_reason": "completed",
        "labels": ["area/katib", "kind/bug"],
        "created_at": iso(START),
        "updated_at": iso(github.now),
        "closed_at": iso(github.now),
        "reactions": {"+1": 3},
        "closed_by": [],
        "comments_left_out": 0,
        "comments": [
            {
                "id": 1,
                "author": "grace",
                "author_association": "MEMBER",
                "bot": False,
                "body": "Raise the quota",
                "created_at": iso(github.now),
                "updated_at": iso(github.now),
                "reactions": {"heart": 2},
            }
        ],
    }


def test_pull_requests_and_their_comments_are_not_threads(github: GithubServer) -> None:
    repository = github.repository(REPO)
    repository.open("A problem")
    repository.merge("A change", "Refactors the driver")
    for _ in range(5):
        repository.comment(2, "/lgtm")

    result = run(github)

    assert set(result.documents) == {1}
    assert result.documents[1]["comments"] == []
    assert result.fetched.counts["pull_requests"] == 1


def test_a_merged_pull_request_is_named_by_the_issues_that_it_closes(github: GithubServer) -> None:
    repository = github.repository(REPO)
    for title in ("one", "two", "three", "four"):
        repository.open(title)
    repository.merge("fix: all of it", "Fixes #1, closes kubeflow/pipelines#2\nFixes other/repo#3. See #4")
    unmerged = repository.merge("fix: another way", "Fixes #4")
    repository.edit(unmerged.number, merged_at=None)

    threads = run(github).documents

    assert [threads[number]["closed_by"] for number in (1, 2, 3, 4)] == [[5], [5], [], []]


def test_null_users_null_bodies_and_half_characters_are_read(github: GithubServer) -> None:
    repository = github.repository(REPO)
    issue = repository.open("title \ud83d and \x00", None, user=None)
    repository.comment(issue.number, "emoji 🎉 \udc00", user=None)

    thread = run(github).documents[1]

    assert thread["author"] == "" and thread["body"] == ""
    assert thread["title"] == "title \ufffd and \ufffd"
    assert thread["comments"][0]["body"] == "emoji 🎉 \ufffd"
    json.dumps(thread, ensure_ascii=False).encode("utf-8")


def test_a_record_without_number_or_date_is_skipped_and_named(github: GithubServer) -> None:
    repository = github.repository(REPO)
    repository.open("A good one")
    bad = repository.open("A bad one")
    bad.updated_at = "yesterday"

    result = run(github)

    assert set(result.documents) == {1}
    assert [skip.reason for skip in result.skips] == ["malformed"]


# Calls.


@pytest.mark.slow
def test_a_thousand_issues_with_five_thousand_comments_take_at_most_70_calls_and_then_3(github: GithubServer) -> None:
    fill(github.repository(REPO), 1000, 5)
    index = Index()

    first = sync(github, index)
    github.tick(hours=1)
    second = sync(github, index)

    assert len(first.documents) == 1000
    assert all(len(thread["comments"]) == 5 for thread in first.documents.values())
    assert first.calls <= 70
    assert second.calls <= 3
    assert second.raw == []
    assert first.fetched.counts["calls_used"] == first.calls


def test_changed_issues_take_one_call_each_when_the_listing_of_all_comments_would_take_more(
    github: GithubServer,
) -> None:
    repository = github.repository(REPO)
    fill(repository, 160, 5)
    index = Index()
    sync(github, index)
    github.tick(hours=1)
    for number in (3, 50, 120, 130, 150):
        repository.comment(number, "A late answer")

    second = sync(github, index)

    assert set(second.documents) == {3, 50, 120, 130, 150}
    assert all(len(thread["comments"]) == 6 for thread in second.documents.values())
    assert second.calls <= 3 + 1 + 5
    assert index.threads == clean(github)


def test_only_listings_are_asked_for_so_no_lazy_object_completes_itself(github: GithubServer) -> None:
    fill(github.repository(REPO), 30, 2)

    run(github)

    allowed = {f"/repos/{REPO}/issues", f"/repos/{REPO}/issues/comments", "/search/issues"}
    assert set(github.paths()) <= allowed


def test_more_issues_of_one_second_than_a_page_holds_are_all_read(github: GithubServer) -> None:
    repository = github.repository(REPO)
    for number in range(1, 351):
        repository.open(f"Relabelled {number}")
    github.tick()
    repository.open("A later one")

    assert set(run(github).documents) == set(range(1, 352))


def test_an_issue_that_changes_while_it_is_listed_hides_no_other(github: GithubServer) -> None:
    repository = github.repository(REPO)
    fill(repository, 250)

    def change(number: int, request: Any) -> None:
        # The first issues move to the end: with page numbers, as many others would slip into the page before.
        if number == 2:
            github.tick()
            for moved in range(1, 11):
                repository.edit(moved, title=f"Edited {moved}")

    github.before = change

    assert set(run(github).documents) == set(range(1, 251))


def test_a_host_that_gives_no_last_page_costs_no_call_more(github: GithubServer) -> None:
    fill(github.repository(REPO), 150, 3)
    github.last_links = False

    result = run(github)

    assert len(result.documents) == 150
    assert result.calls <= 2 + 5 + 1


# What changes is right after the next run.


def test_an_edited_closed_reopened_or_relabelled_issue_is_right_after_the_next_run(github: GithubServer) -> None:
    repository = github.repository(REPO)
    fill(repository, 20, 2)
    index = Index()
    sync(github, index)
    for change in (
        lambda: repository.edit(4, title="Edited", body="Another text"),
        lambda: repository.close(5, "not_planned"),
        lambda: repository.reopen(5),
        lambda: repository.edit(6, labels=["area/backend", "kind/bug"]),
        lambda: repository.comment(7, "And this?"),
        lambda: repository.open("A new one"),
    ):
        github.tick(hours=2)
        change()
        sync(github, index)
        assert index.threads == clean(github)


def test_a_comment_that_was_edited_without_a_trace_in_its_issue_is_read_again(github: GithubServer) -> None:
    repository = github.repository(REPO)
    fill(repository, 20, 2)
    index = Index()
    sync(github, index)
    github.tick(hours=1)
    repository.edit_comment(9, repository.issues[9].comments[1], "EDIT: 2.0.5 fixes it", bump=False)

    second = sync(github, index)

    assert set(second.documents) == {9}
    assert second.calls <= 3 + 2
    assert index.threads == clean(github)
    github.tick(hours=1)
    assert sync(github, index).calls <= 3


def test_a_deleted_and_a_transferred_issue_are_gone_after_the_next_run(github: GithubServer) -> None:
    repository, other = github.repository(REPO), github.repository("kubeflow/katib")
    fill(repository, 20)
    index = Index()
    sync(github, index)
    github.tick(hours=1)
    repository.delete(3)
    repository.transfer(8, other)

    second = sync(github, index)

    assert {(gone.document_id, gone.reason) for gone in second.fetched.removed} == {
        ("kfp-issues:3", "deleted"),
        ("kfp-issues:8", "transferred"),
    }
    assert index.threads == clean(github)
    github.tick(hours=1)
    assert sync(github, index).calls <= 3


def test_an_issue_that_was_transferred_into_the_repository_is_read(github: GithubServer) -> None:
    repository, other = github.repository(REPO), github.repository("kubeflow/katib")
    fill(repository, 5)
    fill(other, 5)
    index = Index()
    sync(github, index)
    github.tick(hours=1)
    number = other.transfer(2, repository)

    assert set(sync(github, index).documents) == {number}
    assert index.threads == clean(github)


def test_a_deleted_comment_is_gone_after_the_full_listing_that_comes_by_itself(github: GithubServer) -> None:
    repository = github.repository(REPO)
    fill(repository, 5, 3)
    index = Index()
    sync(github, index)
    del repository.issues[2].comments[0]
    github.tick(days=8)

    second = sync(github, index)

    assert second.fetched.complete
    assert index.threads == clean(github)


def test_without_a_count_only_a_full_listing_finds_what_is_gone(github: GithubServer) -> None:
    repository = github.repository(REPO)
    fill(repository, 5)
    github.search_fault = Fault(403, body=json.dumps({"message": SECONDARY_MESSAGE}).encode())
    index = Index()
    sync(github, index)
    repository.delete(2)
    github.tick(hours=1)

    assert sync(github, index).fetched.removed == ()
    full = sync(github, index, full=True)

    assert [gone.document_id for gone in full.fetched.removed] == ["kfp-issues:2"]
    assert full.fetched.error is None


def test_a_pull_request_that_closes_an_issue_later_changes_its_thread(github: GithubServer) -> None:
    repository = github.repository(REPO)
    fill(repository, 5)
    index = Index()
    sync(github, index)
    github.tick(hours=1)
    # Merged into a release branch: GitHub then leaves the issue alone.
    repository.merge("fix: it", "Fixes #2")

    second = sync(github, index)

    assert second.documents[2]["closed_by"] == [6]
    assert index.threads == clean(github)


def test_another_product_area_in_the_catalogue_reads_every_thread_again(github: GithubServer) -> None:
    fill(github.repository(REPO), 5)
    index = Index()
    sync(github, index)
    moved = Source("kfp-issues", "issue", REPO, "", product_area=(PathRule("**", ("sdk",)),))

    second = sync(github, index, source=moved)

    assert len(second.documents) == 5
    assert second.fetched.complete


# Killed, limited, broken.


def test_a_run_that_is_killed_anywhere_goes_on_to_the_rows_of_one_clean_run(github: GithubServer) -> None:
    repository = github.repository(REPO)
    fill(repository, 40, 3)
    wanted = clean(github)
    settings = Settings(github_api_url=github.url)
    for taken in (0, 1, 17, 40):
        index = Index()
        killed = fetch_threads(SOURCE, settings, index.cursor, now=github.clock, sleep=github.sleep, progress=str)
        for _ in range(taken):
            next(killed)
        # What a killed run read is lost with it: neither its rows nor its cursor were saved.
        killed.close()
        sync(github, index)
        assert index.threads == wanted


@pytest.mark.parametrize("calls", [2, 3, 5, 9, 14, 23])
def test_runs_that_a_rate_limit_stops_come_to_the_rows_of_one_clean_run(github: GithubServer, calls: int) -> None:
    repository = github.repository(REPO)
    fill(repository, 40, 2)
    repository.merge("fix: one of them", "Fixes #7")
    wanted = clean(github)
    index = Index()
    for _ in range(100):
        github.left, github.resets_at = calls, github.now + timedelta(hours=1)
        result = sync(github, index)
        if result.fetched.error is None and not index.cursor.pending:
            break
        if result.fetched.error is not None:
            assert isinstance(result.fetched.error, SourceRateLimited)
            assert result.fetched.error.fields["reset_at"] >= iso(github.now)
            assert not result.fetched.complete
        github.tick(hours=1)

    assert index.threads == wanted
    assert index.cursor.known == frozenset(range(1, 41))


def test_a_short_wait_is_announced_and_waited_for(github: GithubServer) -> None:
    fill(github.repository(REPO), 3, 1)
    github.left, github.resets_at = 1, github.now + timedelta(seconds=40)

    result = run(github)

    assert result.fetched.error is None
    assert len(result.documents) == 3
    assert any("primary rate limit; waiting 41 s" in line for line in result.said)


def test_the_waits_of_a_run_are_bounded_together(github: GithubServer) -> None:
    fill(github.repository(REPO), 3)
    again = {"Retry-After": "100"}
    body = json.dumps({"message": SECONDARY_MESSAGE}).encode()
    github.faults = {number: Fault(403, again, body) for number in range(1, 20)}
    before = github.now

    error = stopped_by(github, max_wait=250.0)

    assert isinstance(error, SourceRateLimited)
    assert (github.now - before).total_seconds() == 200


@pytest.mark.parametrize(
    ("fault", "waited"),
    [
        (Fault(403, {"Retry-After": "7"}, json.dumps({"message": SECONDARY_MESSAGE}).encode()), 7),
        (Fault(403, {}, json.dumps({"message": SECONDARY_MESSAGE}).encode()), 60),
        (Fault(429, {"Retry-After": "9"}, b'{"message": "Too many requests"}'), 9),
        (Fault(403, {"Retry-After": "Mon, 01 Jun 2026 12:00:30 GMT"}, b'{"message": "abuse detection"}'), 30),
    ],
    ids=["retry-after", "message only", "429", "retry-after as a date"],
)
def test_secondary_limits_are_distinguished_from_refusals_and_waited_for(
    github: GithubServer, fault: Fault, waited: int
) -> None:
    fill(github.repository(REPO), 3)
    github.faults = {1: fault}
    before = github.now

    result = run(github)

    assert result.fetched.error is None
    assert len(result.documents) == 3
    assert (github.now - before).total_seconds() == waited


@pytest.mark.parametrize(
    "fault",
    [
        Fault(500),
        Fault(502, {"Content-Type": "text/html"}, b"<html>Bad Gateway</html>"),
        Fault(503, {"Retry-After": "1"}),
        Fault(truncate=True),
        Fault(200, cut=50, body=b"[{"),
        Fault(200, body=b"<html>a proxy's page</html>"),
        Fault(200, body=b""),
        Fault(200, body=b'{"message": "an object, no list"}'),
        Fault(202, body=b"{}"),
    ],
    ids=["500", "502", "503", "truncated", "cut off", "html", "empty", "object", "202"],
)
def test_broken_pages_are_asked_for_again(github: GithubServer, fault: Fault) -> None:
    fill(github.repository(REPO), 8, 1)
    wanted = clean(github)
    github.faults = {github.calls + number: fault for number in (1, 2, 4)}

    result = run(github)

    assert result.fetched.error is None
    assert {document.document_id: document.text for document in result.raw} == wanted


def test_a_host_that_stays_broken_stops_the_run_and_keeps_what_was_read(github: GithubServer) -> None:
    repository = github.repository(REPO)
    fill(repository, 3, 2)
    wanted = clean(github)
    index = Index()
    begun = github.calls

    def broken(number: int, request: Any) -> None:
        # The listing and the comments of the first issue are good.
        if number > begun + 2:
            github.faults[number] = Fault(503)

    github.before = broken

    result = sync(github, index)

    assert isinstance(result.fetched.error, SourceUnreachable)
    assert not result.fetched.complete
    assert set(result.documents) == {1}
    github.before, github.faults = (lambda number, request: None), {}
    assert set(sync(github, index).documents) == {2, 3}
    assert index.threads == wanted


def test_a_host_that_links_its_pages_in_a_circle_does_not_hold_the_run(github: GithubServer) -> None:
    repository = github.repository(REPO)
    for number in range(1, 4):
        repository.open(f"One of {number}")
    page = github._page
    github._page = lambda *args: (
        200,
        {"Link": f'<{github.url}/repos/{REPO}/issues?page=2>; rel="next"'},
        page(*args)[2],
    )  # type: ignore[method-assign]

    assert isinstance(stopped_by(github), SourceUnreachable)


# Refusals, each with its own remedy.


@pytest.mark.parametrize(
    ("status", "message", "error_class", "says"),
    [
        (401, "Bad credentials", SourceUnauthenticated, "Renew GITHUB_TOKEN"),
        (403, "Resource not accessible by personal access token", SourceForbidden, "read access to issues"),
        (403, "Resource protected by organization SAML enforcement", SourceForbidden, "single sign-on"),
        (404, "Not Found", RepositoryNotFound, "Check `repo` in the catalogue"),
        (410, "Issues are disabled for this repo", RepositoryNotFound, "Issues are switched off"),
        (451, "Repository access blocked", SourceForbidden, "legal reasons"),
        (422, "Validation Failed", SourceError, "GitHub answered 422"),
    ],
)
def test_refusals_are_distinguished(
    github: GithubServer, status: int, message: str, error_class: type[SourceError], says: str
) -> None:
    github.repository(REPO)
    github.faults = {1: Fault(status, {}, json.dumps({"message": message}).encode())}

    error = stopped_by(github, token=TOKEN)

    assert type(error) is error_class
    assert REPO in str(error) and message in str(error) and says in str(error)
    assert error.fields["source"] == "kfp-issues" and error.fields["status"] == status
    assert github.calls == 1


def test_the_token_is_sent_and_shows_in_no_error_log_cursor_or_document(
    github: GithubServer, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    fill(github.repository(REPO), 3, 1)
    echo = json.dumps({"message": f"no access for {TOKEN}"}).encode()
    shown = []
    for fault in (None, Fault(401, {}, echo), Fault(403, {}, echo), Fault(500, {}, echo), Fault(422, {}, echo)):
        if fault is not None:
            github.faults = {github.calls + number: fault for number in range(1, 9)}
        result = run(github, token=TOKEN)
        github.faults = {}
        error = result.fetched.error
        shown += [*result.said, result.fetched.cursor.to_text(), *(document.text for document in result.raw)]
        if error is not None:
            shown += [repr(error.fields), *traceback.format_exception(error)]

    assert all(TOKEN in request.headers["authorization"] for request in github.requests)
    # PyGithub logs whole answers at DEBUG: what a host echoes there is the host's, the request's own header is masked.
    requests = [record.getMessage() for record in caplog.records if "no access for" not in record.getMessage()]
    captured = capsys.readouterr()
    assert TOKEN not in "\n".join([*shown, *requests, captured.out, captured.err])


def test_without_a_token_a_small_repository_is_read_and_the_calls_that_are_left_are_said(github: GithubServer) -> None:
    fill(github.repository(REPO), 12, 2)
    github.left = 60

    result = run(github)

    assert len(result.documents) == 12
    assert result.fetched.counts["calls_left"] == 60 - (result.calls - 1)
    assert result.said[-1].endswith(f"{result.fetched.counts['calls_left']} left")


def test_a_limit_without_a_token_names_the_token_as_a_remedy(github: GithubServer) -> None:
    github.repository(REPO)
    github.left = 0

    assert "GITHUB_TOKEN" in stopped_by(github).remedy


# Addresses.


def test_github_enterprise_below_a_path_is_read(github: GithubServer) -> None:
    with serve(prefix="/api/v3", token=TOKEN) as enterprise:
        fill(enterprise.repository(REPO), 230, 1)

        result = run(enterprise, token=TOKEN)

        assert result.fetched.error is None
        assert len(result.documents) == 230
        assert all(path.startswith("/api/v3/") for path in enterprise.paths())


def test_a_renamed_repository_is_followed_with_the_query_and_announced(github: GithubServer) -> None:
    fill(github.repository("kubeflow/trainer"), 130, 1)
    github.repository("kubeflow/trainer").close(3)
    github.renamed = {REPO: "kubeflow/trainer"}

    result = run(github)

    assert len(result.documents) == 130
    assert any("has moved" in line for line in result.said)


def test_a_redirect_to_another_host_is_not_followed(github: GithubServer) -> None:
    github.repository(REPO)
    github.faults = {1: Fault(301, {"Location": "http://evil.example/repos/a/b/issues"})}

    error = stopped_by(github, token=TOKEN)

    assert "another host" in str(error)
    assert github.calls == 1


# Sizes.


def test_a_thread_of_two_thousand_comments_is_read_whole(github: GithubServer) -> None:
    repository = github.repository(REPO)
    fill(repository, 1, 2000)

    result = run(github)

    assert len(result.documents[1]["comments"]) == 2000
    assert result.documents[1]["comments_left_out"] == 0


def test_bodies_beyond_every_bound_are_cut_in_the_middle_and_say_so(github: GithubServer) -> None:
    repository = github.repository(REPO)
    issue = repository.open("A log", "a" * 1_500_000 + "THE END")
    repository.comment(issue.number, "b" * 300_000)

    thread = run(github).documents[1]

    assert len(thread["body"]) < 1_100_000 and thread["body"].endswith("THE END")
    assert "characters left out" in thread["body"] and "characters left out" in thread["comments"][0]["body"]


def test_too_many_characters_of_comments_leave_out_the_middle_of_the_thread(
    github: GithubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubeflow_corpus.sources.github.crawl.MAX_THREAD_LENGTH", 3000)
    repository = github.repository(REPO)
    fill(repository, 1, 50)

    thread = run(github).documents[1]

    kept = [comment["id"] for comment in thread["comments"]]
    assert kept[0] == 1 and kept[-1] == 50 and kept == sorted(kept)
    assert thread["comments_left_out"] == 50 - len(kept) > 0


# The cursor.


@hypothesis_settings(max_examples=30, deadline=None)
@given(
    st.frozensets(st.integers(1, 20_000), max_size=200),
    st.dictionaries(st.integers(1, 1 << 40), st.just(iso(START)), max_size=20),
    st.dictionaries(st.integers(1, 9999), st.lists(st.integers(1, 9999), unique=True).map(lambda n: tuple(sorted(n)))),
)
def test_a_cursor_comes_back_from_its_text(
    known: frozenset[int], seen: dict[int, str], closing: dict[int, tuple[int, ...]]
) -> None:
    cursor = Cursor("entry", iso(START), seen, iso(START), seen, known, known, iso(START), (3, 4), closing, -1)

    assert Cursor.from_text(cursor.to_text()) == cursor


@given(st.text())
def test_text_that_is_not_a_cursor_means_a_full_listing(text: str) -> None:
    assert Cursor.from_text(text) == Cursor()


def test_the_cursor_of_a_large_repository_fits_into_a_property() -> None:
    numbers = frozenset(number for number in range(1, 14_000) if number % 3)
    closing = {number: (number - 1,) for number in range(3, 14_000, 9)}
    seen = {number: iso(START) for number in range(1, 200)}

    assert len(Cursor(known=numbers, listed=numbers, closing=closing, seen=seen).to_text()) < 20_000


@pytest.mark.slow
@hypothesis_settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_sequence_of_changes_and_limits_ends_with_the_rows_of_one_clean_run(data: st.DataObject) -> None:
    with serve() as github:
        repository, other = github.repository(REPO), github.repository("kubeflow/katib")
        fill(repository, 12, 1)
        index = Index()
        for _ in range(data.draw(st.integers(1, 4))):
            for _ in range(data.draw(st.integers(0, 4))):
                github.tick(seconds=data.draw(st.sampled_from([0, 1, 30, 700])))
                numbers = sorted(n for n, issue in repository.issues.items() if not issue.pull_request)
                number = data.draw(st.sampled_from(numbers))
                change = data.draw(
                    st.sampled_from(["edit", "comment", "edit comment", "delete", "transfer", "new", "pr"])
                )
                comments = repository.issues[number].comments
                if change == "edit":
                    repository.edit(number, title=f"Edited at {iso(github.now)}")
                elif change == "comment":
                    repository.comment(number, "Another")
                elif change == "edit comment" and comments:
                    repository.edit_comment(number, comments[-1], f"Edited at {iso(github.now)}", bump=False)
                elif change == "delete" and len(numbers) > 3:
                    repository.delete(number)
                elif change == "transfer" and len(numbers) > 3:
                    repository.transfer(number, other)
                elif change == "new":
                    repository.open("Another problem")
                elif change == "pr":
                    repository.merge("fix", f"Fixes #{number}")
            github.left = data.draw(st.sampled_from([None, 1, 4, 8]))
            github.resets_at = github.now + timedelta(hours=1)
            sync(github, index)
            github.tick(hours=1)
        github.left = None
        for _ in range(2):
            github.tick(hours=1)
            assert sync(github, index).fetched.error is None

        assert index.threads == clean(github)
