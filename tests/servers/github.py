"""GitHub's REST API as far as issue threads need it: pages, links, limits, faults, moves and deletions.

The server is strict: a request that GitHub would refuse (no user agent, too many a page, a date that is none) is
refused here as well, and every request is counted. Its clock stands still until a test moves it.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

START = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
MAX_PER_PAGE = 100
SECONDARY_MESSAGE = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. "
    "If you reach out to GitHub Support for help, please include the request ID."
)


def iso(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass
class Comment:
    id: int
    body: str | None
    user: str | None
    association: str
    created_at: str
    updated_at: str
    reactions: dict[str, int] = field(default_factory=dict)


@dataclass
class Issue:
    number: int
    title: str
    body: str | None
    user: str | None
    association: str
    created_at: str
    updated_at: str
    state: str = "open"
    state_reason: str | None = None
    closed_at: str | None = None
    labels: list[str] = field(default_factory=list)
    reactions: dict[str, int] = field(default_factory=dict)
    comments: list[Comment] = field(default_factory=list)
    # Set for a pull request: when it was merged, or None for one that is not.
    pull_request: bool = False
    merged_at: str | None = None


@dataclass
class Request:
    path: str
    query: dict[str, str]
    headers: dict[str, str]


@dataclass
class Fault:
    """What is answered instead of the page: a status with headers and body, or a broken body."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b'{"message": "Server Error"}'
    # Promise this many bytes more than are sent.
    cut: int = 0
    # Break the real answer off in its middle.
    truncate: bool = False


class Repository:
    """Issues of one repository; every change bumps `updated_at` to the server's clock, as GitHub does."""

    def __init__(self, server: GithubServer, name: str, number: int) -> None:
        self.server, self.name, self.id = server, name, number
        self.issues: dict[int, Issue] = {}
        self.gone: dict[int, str] = {}

    def add(self, issue: Issue) -> Issue:
        self.issues[issue.number] = issue
        return issue

    def open(self, title: str, body: str | None = "", *, number: int = 0, user: str | None = "reporter") -> Issue:
        now = iso(self.server.now)
        number = number or max([*self.issues, *self.gone, 0]) + 1
        return self.add(Issue(number, title, body, user, "NONE", now, now))

    def comment(self, number: int, body: str, *, user: str | None = "helper", association: str = "MEMBER") -> Comment:
        now = iso(self.server.now)
        comment = Comment(self.server.next_id(), body, user, association, now, now)
        self.issues[number].comments.append(comment)
        self.issues[number].updated_at = now
        return comment

    def edit(self, number: int, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self.issues[number], name, value)
        self.issues[number].updated_at = iso(self.server.now)

    def edit_comment(self, number: int, comment: Comment, body: str, *, bump: bool = True) -> None:
        comment.body, comment.updated_at = body, iso(self.server.now)
        if bump:
            self.issues[number].updated_at = comment.updated_at

    def close(self, number: int, reason: str = "completed") -> None:
        self.edit(number, state="closed", state_reason=reason, closed_at=iso(self.server.now))

    def reopen(self, number: int) -> None:
        self.edit(number, state="open", state_reason="reopened", closed_at=None)

    def delete(self, number: int) -> None:
        del self.issues[number]
        self.gone[number] = ""

    def transfer(self, number: int, target: Repository) -> int:
        issue = self.issues.pop(number)
        issue.number = max([*target.issues, *target.gone, 0]) + 1
        issue.updated_at = iso(self.server.now)
        target.add(issue)
        self.gone[number] = f"/repositories/{target.id}/issues/{issue.number}"
        return issue.number

    def merge(self, title: str, body: str, *, number: int = 0) -> Issue:
        pull_request = self.open(title, body, number=number)
        pull_request.pull_request, pull_request.merged_at = True, iso(self.server.now)
        pull_request.state, pull_request.closed_at = "closed", iso(self.server.now)
        return pull_request


class GithubServer:
    """The API at `url`; `prefix` is the path below which GitHub Enterprise has it."""

    def __init__(self, prefix: str = "", token: str = "") -> None:
        self.prefix, self.token = prefix, token
        self.now = START
        self.requests: list[Request] = []
        self.repositories: dict[str, Repository] = {}
        self.renamed: dict[str, str] = {}
        # Calls that are left; None has no limit.
        self.left: int | None = None
        self.limit = 5000
        self.resets_at = START + timedelta(hours=1)
        self.search_fault: Fault | None = None
        # Number of the request, from 1, to what happens to it.
        self.faults: dict[int, Fault] = {}
        # Called before a request is answered: things change while somebody lists them.
        self.before: Callable[[int, Request], None] = lambda number, request: None
        self.last_links = True
        self._ids = 0
        self._lock = threading.Lock()
        self.url = ""

    def repository(self, name: str) -> Repository:
        if name not in self.repositories:
            self.repositories[name] = Repository(self, name, len(self.repositories) + 1)
        return self.repositories[name]

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    def tick(self, **span: float) -> None:
        self.now += timedelta(**(span or {"minutes": 1}))

    def clock(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @property
    def calls(self) -> int:
        return len(self.requests)

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    # Answers: (status, headers, JSON value or bytes).

    def answer(self, request: Request) -> tuple[int, dict[str, str], Any, Fault | None]:
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            self.before(number, request)
            fault = self.faults.pop(number, None)
            if request.path == f"{self.prefix}/search/issues" and self.search_fault:
                fault = self.search_fault
            limited = self._limited(request)
            if limited is not None:
                return (*limited, None)
            if fault is not None and not fault.truncate:
                return fault.status, {**self._limits(request), **fault.headers}, fault.body, fault
            status, headers, value = self._route(request)
            return status, {**self._limits(request), **headers}, value, fault

    def _limits(self, request: Request) -> dict[str, str]:
        search = request.path.endswith("/search/issues")
        left = 9 if search else self.left
        if left is None:
            return {}
        return {
            "X-RateLimit-Limit": "10" if search else str(self.limit),
            "X-RateLimit-Remaining": str(left),
            "X-RateLimit-Reset": str(int(self.resets_at.timestamp())),
            "X-RateLimit-Resource": "search" if search else "core",
        }

    def _limited(self, request: Request) -> tuple[int, dict[str, str], Any] | None:
        if self.left is None or request.path.endswith("/search/issues"):
            return None
        if self.now >= self.resets_at:
            self.left, self.resets_at = self.limit, self.now + timedelta(hours=1)
        if self.left == 0:
            return 403, self._limits(request), {"message": "API rate limit exceeded for 203.0.113.7."}
        self.left -= 1
        return None

    def _route(self, request: Request) -> tuple[int, dict[str, str], Any]:
        refused = self._refuse(request)
        if refused is not None:
            return refused
        path = request.path.removeprefix(self.prefix)
        if path == "/search/issues":
            return self._search(request)
        match = re.fullmatch(
            r"(?:/repos/([^/]+/[^/]+)|/repositories/(\d+))(/issues(?:/comments|/\d+(?:/comments)?)?)", path
        )
        if match is None:
            return 404, {}, {"message": "Not Found"}
        name, number, rest = match.groups()
        if name in self.renamed:
            target = self.repository(self.renamed[name])
            query = f"?{urlencode(request.query)}" if request.query else ""
            location = f"{self.url}/repositories/{target.id}{rest}{query}"
            return 301, {"Location": location}, {"message": "Moved Permanently", "url": location}
        found = [r for r in self.repositories.values() if r.name == name or str(r.id) == number]
        if not found:
            return 404, {}, {"message": "Not Found", "documentation_url": "https://docs.github.com/rest"}
        return self._listing(found[0], rest, request)

    def _refuse(self, request: Request) -> tuple[int, dict[str, str], Any] | None:
        if not request.headers.get("user-agent"):
            return 403, {}, {"message": "Missing or invalid User Agent string"}
        given = request.headers.get("authorization", "")
        if self.token and given and given.split()[-1] != self.token:
            return 401, {}, {"message": "Bad credentials"}
        if self.token and not given:
            return 404, {}, {"message": "Not Found"}
        since = request.query.get("since")
        if since and not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", since):
            return 422, {}, {"message": f"Invalid since {since}"}
        return None

    def _search(self, request: Request) -> tuple[int, dict[str, str], Any]:
        match = re.fullmatch(r"repo:(\S+) is:issue", request.query.get("q", ""))
        if match is None or match[1] not in self.repositories:
            return 422, {}, {"message": "Validation Failed"}
        issues = [issue for issue in self.repositories[match[1]].issues.values() if not issue.pull_request]
        return 200, {}, {"total_count": len(issues), "incomplete_results": False, "items": []}

    def _listing(self, repository: Repository, rest: str, request: Request) -> tuple[int, dict[str, str], Any]:
        if rest == "/issues":
            shown = [i for i in repository.issues.values() if request.query.get("state", "open") in ("all", i.state)]
            return self._page([(issue, issue) for issue in shown], "number", self._issue, repository, request)
        if rest == "/issues/comments":
            pairs = [(i, c) for i in repository.issues.values() for c in i.comments]
            return self._page(pairs, "id", self._comment, repository, request)
        number = int(rest.split("/")[2])
        if number in repository.gone:
            location = repository.gone[number]
            if location:
                return 301, {"Location": self.url + location}, {"message": "Moved Permanently"}
            return 410, {}, {"message": "This issue was deleted"}
        if number not in repository.issues:
            return 404, {}, {"message": "Not Found"}
        issue = repository.issues[number]
        if rest.endswith("/comments"):
            pairs = [(issue, comment) for comment in issue.comments]
            return self._page(pairs, "id", self._comment, repository, request)
        return 200, {}, self._issue(repository, issue, issue)

    def _page(
        self,
        pairs: Sequence[tuple[Issue, Any]],
        key: str,
        render: Callable[[Repository, Issue, Any], dict[str, Any]],
        repository: Repository,
        request: Request,
    ) -> tuple[int, dict[str, str], Any]:
        query = request.query
        size, page = min(int(query.get("per_page", 30)), MAX_PER_PAGE), int(query.get("page", 1))
        since = query.get("since", "")
        by_default = "created" if key == "number" else "id"
        sort = {"updated": "updated_at", "created": "created_at"}.get(query.get("sort", by_default), "id")
        descending = query.get("direction", "desc" if key == "number" else "asc") == "desc"
        records = sorted(
            (pair for pair in pairs if pair[1].updated_at >= since),
            key=lambda pair: (getattr(pair[1], sort), getattr(pair[1], key)),
            reverse=descending,
        )
        last = max(-(-len(records) // size), 1)
        links = []
        if page < last:
            links.append(self._link(request, page + 1, "next"))
            if self.last_links:
                links.append(self._link(request, last, "last"))
        if page > 1:
            links += [self._link(request, page - 1, "prev"), self._link(request, 1, "first")]
        headers = {"Link": ", ".join(links)} if links else {}
        return 200, headers, [render(repository, *pair) for pair in records[(page - 1) * size : page * size]]

    def _link(self, request: Request, page: int, rel: str) -> str:
        path = request.path.removeprefix(self.prefix)
        return f'<{self.url}{path}?{urlencode({**request.query, "page": page})}>; rel="{rel}"'

    def _user(self, login: str | None) -> dict[str, Any] | None:
        if login is None:
            return None
        return {"login": login, "id": 1, "type": "Bot" if login.endswith("[bot]") else "User"}

    def _issue(self, repository: Repository, issue: Issue, _: Issue) -> dict[str, Any]:
        kind = "pull" if issue.pull_request else "issues"
        record: dict[str, Any] = {
            "url": f"{self.url}/repos/{repository.name}/issues/{issue.number}",
            "repository_url": f"{self.url}/repos/{repository.name}",
            "html_url": f"https://github.com/{repository.name}/{kind}/{issue.number}",
            "id": repository.id * 1_000_000 + issue.number,
            "number": issue.number,
            "title": issue.title,
            "body": issue.body,
            "user": self._user(issue.user),
            "author_association": issue.association,
            "labels": [{"id": 1, "name": name, "color": "ededed"} for name in issue.labels],
            "state": issue.state,
            "state_reason": issue.state_reason,
            "locked": False,
            "comments": len(issue.comments),
            "created_at": issue.created_at,
            "updated_at": issue.updated_at,
            "closed_at": issue.closed_at,
            "reactions": _reactions(issue.reactions),
        }
        if issue.pull_request:
            record["pull_request"] = {"url": f"{self.url}/pulls/{issue.number}", "merged_at": issue.merged_at}
        return record

    def _comment(self, repository: Repository, issue: Issue, comment: Comment) -> dict[str, Any]:
        kind = "pull" if issue.pull_request else "issues"
        return {
            "url": f"{self.url}/repos/{repository.name}/issues/comments/{comment.id}",
            "issue_url": f"{self.url}/repos/{repository.name}/issues/{issue.number}",
            "html_url": f"https://github.com/{repository.name}/{kind}/{issue.number}#issuecomment-{comment.id}",
            "id": comment.id,
            "body": comment.body,
            "user": self._user(comment.user),
            "author_association": comment.association,
            "created_at": comment.created_at,
            "updated_at": comment.updated_at,
            "reactions": _reactions(comment.reactions),
        }


def _reactions(counts: dict[str, int]) -> dict[str, int]:
    names = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")
    return {"total_count": sum(counts.values()), **{name: counts.get(name, 0) for name in names}}


@contextmanager
def serve(prefix: str = "", token: str = "") -> Iterator[GithubServer]:
    """Serves an empty GitHub on a port of loopback."""
    github = GithubServer(prefix, token)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, extra, value, fault = github.answer(Request(parts.path, query, headers))
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            promised = len(body) + (fault.cut if fault else 0)
            if fault is not None and fault.truncate:
                body = body[: len(body) // 2]
                promised = len(body)
            self.send_response_only(status)
            self.send_header("Date", format_datetime(github.now, usegmt=True))
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(promised))
            for name, text in extra.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = promised != len(body)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            # A client may hang up; anything else is a mistake of this server, which a test must not miss.
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    github.url = f"http://127.0.0.1:{server.server_address[1]}{prefix}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield github
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
