"""GitHub's REST API: one page at a time, with every wait bounded and announced, and every failure told apart.

The requests go through PyGithub's `Requester`, never through its objects: those complete themselves with calls that
nobody asked for. PyGithub's own retries and pauses are off, because they sleep for up to an hour without a message, and
its redirects are off, because they lose the query (a renamed repository would be listed with default parameters).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Never, Self
from urllib.parse import parse_qsl, urlsplit

from kubeflow_corpus.errors import (
    RepositoryNotFound,
    SourceError,
    SourceForbidden,
    SourceRateLimited,
    SourceRefused,
    SourceUnauthenticated,
    SourceUnreachable,
)
from kubeflow_corpus.retry import Backoff
from kubeflow_corpus.settings import Settings

PER_PAGE: Final = 100
USER_AGENT: Final = "kubeflow-corpus"
TIMEOUT_SECONDS: Final = 30
# What one run may wait for rate limits in all, before it stops and leaves the rest to the next run.
MAX_WAIT_SECONDS: Final = 300.0
# A secondary limit without a Retry-After header: GitHub asks for at least a minute.
SECONDARY_WAIT_SECONDS: Final = 60.0
# Waits between tries of a request that broke: the host is well again after seconds, or not soon.
BACKOFF: Final = Backoff(attempts=5, base=1.0)
MAX_REDIRECTS: Final = 3
_MOVED: Final = (301, 302, 307, 308)
# 202 is PyGithub's reason to ask again for ever; the API says it for nothing that is asked here.
_NOT_NOW: Final = 202
_MESSAGE_LENGTH: Final = 200

# What PyGithub makes of a page that is not JSON, such as a proxy's.
_NOT_JSON: Final = {"data", "url"}
# The root that a listing was redirected to: a renamed repository has a number instead of its name.
_LISTING: Final = re.compile(r"(/repos/[^/?]+/[^/?]+|/repositories/\d+)/issues")
_OF_ONE_ISSUE: Final = re.compile(r"/issues/\d+/")
_LINK: Final = re.compile(r'<([^<>]{1,2000})>;\s?rel="(\w{1,20})"')

if TYPE_CHECKING:
    from types import TracebackType

    from urllib3.connectionpool import ConnectionPool
    from urllib3.response import BaseHTTPResponse

Parameters = Mapping[str, str | int]


class Moved(Exception):
    """The thing that was asked for has another address now."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


class _Broken(Exception):
    """A try that another try may mend."""

    def __init__(self, problem: str, wait: float = 0.0) -> None:
        super().__init__(problem)
        self.wait = wait


class _Limited(Exception):
    """A rate limit, and how long to wait for its end."""

    def __init__(self, wait: float, kind: str) -> None:
        super().__init__(kind)
        self.wait, self.kind = wait, kind


@dataclass(frozen=True, slots=True)
class ListingPage:
    """One answer.

    Attributes:
        data: The JSON value.
        next: Path and query of the next page, or empty.
        last_page: Number of the last page where the host says it, else 0.
    """

    data: Any
    next: str = ""
    last_page: int = 0


@dataclass(slots=True)
class CallCount:
    """How many calls were made, and how many the host still allows.

    Attributes:
        used: Calls made, tries included.
        left: Calls left until `resets_at`; None where the host sets no limit or has not been asked yet.
        resets_at: When the limit starts again.
    """

    used: int = 0
    left: int | None = None
    resets_at: datetime | None = None


def utc_now() -> datetime:
    """Returns the current time."""
    return datetime.now(UTC)


@dataclass(slots=True)
class GithubApi:
    """Reads pages of one repository.

    Attributes:
        settings: Where the API is, and the token.
        repo: ``owner/name``.
        source: Name of the catalogue entry, for errors.
        now: The clock.
        sleep: Waits for a number of seconds.
        announce: Told in one line about every wait, every retry and every move.
        max_wait: Seconds that this object may wait for rate limits in all.
        calls: What was used.
        server_time: The host's time at its first answer.
    """

    settings: Settings
    repo: str
    source: str
    now: Callable[[], datetime] = utc_now
    sleep: Callable[[float], None] = time.sleep
    announce: Callable[[str], None] = print
    max_wait: float = MAX_WAIT_SECONDS
    calls: CallCount = field(default_factory=CallCount)
    server_time: datetime | None = None
    _requester: Any = None
    _waited: float = 0.0
    _root: str = ""

    def __post_init__(self) -> None:
        self._requester = _requester(self.settings)
        self._root = f"/repos/{self.repo}"

    def close(self) -> None:
        """Gives the connection back."""
        self._requester.close()

    def page(self, path: str, parameters: Parameters | None = None) -> ListingPage:
        """Reads one page of a listing of the repository.

        Args:
            path: Path below the repository, such as ``/issues``.
            parameters: The query.

        Raises:
            Moved: It is a listing of one issue, which was transferred to another repository.
            SourceError: The page cannot be had; its class says why.
        """
        return self._listing(self._root + path, dict(parameters or {}))

    def page_after(self, page: ListingPage) -> ListingPage:
        """Reads the page that follows another one, which must have a `Page.next`.

        Raises:
            SourceError: The page cannot be had; its class says why.
        """
        return self._listing(page.next, {})

    def item(self, path: str) -> dict[str, Any]:
        """Reads one object of the repository.

        Raises:
            Moved: It was transferred to another repository.
            SourceError: It cannot be had.
        """
        data: dict[str, Any] = self._get(self._root + path, {}, dict).data
        return data

    def count_issues(self) -> int | None:
        """Returns how many issues the repository has, or None where the host will not say (it has its own limit)."""
        query: Parameters = {"q": f"repo:{self.repo} is:issue", "per_page": 1}
        try:
            data = self._try("/search/issues", query, dict).data
        except (SourceError, Moved, _Broken, _Limited) as error:
            self.announce(f"{self.source}: GitHub does not count the issues now ({type(error).__name__})")
            return None
        total = data.get("total_count")
        return total if isinstance(total, int) and not data.get("incomplete_results") else None

    def _listing(self, path: str, parameters: dict[str, str | int]) -> ListingPage:
        for _ in range(MAX_REDIRECTS):
            try:
                return self._get(path, parameters, list)
            except Moved as moved:
                if _OF_ONE_ISSUE.search(path):
                    # An issue that was transferred: the repository is where it was.
                    raise
                target = self._relative(moved.location)
                match = _LISTING.match(target)
                if match is None:
                    break
                self._root = match[1]
                self.announce(f"{self.source}: {self.repo} has moved to {self._root}; correct it in the catalogue")
                path, parameters = target, {}
        raise SourceUnreachable(
            f"{self.repo} leads from one address to another",
            remedy="Correct `repo` in the catalogue",
            source=self.source,
        )

    def _get(self, path: str, parameters: Parameters, kind: type) -> ListingPage:
        tries = 0
        while True:
            try:
                self._check_limit()
                return self._try(path, parameters, kind)
            except _Limited as limit:
                self._wait_for(limit)
            except _Broken as broken:
                tries += 1
                if tries == BACKOFF.attempts:
                    raise SourceUnreachable(
                        f"GitHub at {self.settings.github_api_url} failed {tries} times for {path}: {broken}",
                        remedy="Run again later; what was read so far is kept",
                        source=self.source,
                    ) from None
                wait = min(BACKOFF.pause(tries, broken.wait), self.max_wait)
                self.announce(f"{self.source}: {broken}; trying again in {wait:.0f} s")
                self.sleep(wait)

    def _try(self, path: str, parameters: Parameters, kind: type) -> ListingPage:
        import requests
        from github import GithubException

        self.calls.used += 1
        try:
            headers, data = self._requester.requestJsonAndCheck("GET", path, parameters=dict(parameters))
        except GithubException as error:
            self._note(error.headers or {})
            self._raise(error.status, error.headers or {}, error.data, path)
        except (requests.RequestException, ValueError, OSError, RecursionError) as error:
            raise _Broken(f"the answer ended early ({type(error).__name__})") from None
        self._note(headers)
        if not isinstance(data, kind) or (isinstance(data, dict) and data.keys() == _NOT_JSON):
            raise _Broken("the answer was not the JSON that was asked for")
        links = {name: url for url, name in _LINK.findall(str(headers.get("link", ""))[:8000])}
        return ListingPage(
            data,
            next=self._relative(links["next"]) if "next" in links else "",
            last_page=_page_number(links.get("last", "")),
        )

    def _relative(self, url: str) -> str:
        """Returns path and query below the API's address; the host's own name does not matter behind a proxy."""
        prefix = urlsplit(self.settings.github_api_url).path
        parts = urlsplit(url)
        ours = urlsplit(self.settings.github_api_url).hostname
        if parts.hostname and parts.hostname != ours:
            raise SourceRefused(
                f"{ours} sends {self.source} on to another host",
                remedy="Set GITHUB_API_URL to the address that the API gives itself",
                source=self.source,
            )
        path = parts.path.removeprefix(prefix) if prefix else parts.path
        return f"{path}?{parts.query}" if parts.query else path

    def _note(self, headers: Mapping[str, Any]) -> None:
        if self.server_time is None:
            self.server_time = _http_date(headers.get("date")) or self.now()
        if headers.get("x-ratelimit-resource", "core") != "core":
            return
        left, reset = _number(headers.get("x-ratelimit-remaining")), _number(headers.get("x-ratelimit-reset"))
        if left is not None:
            self.calls.left = int(left)
        if reset is not None:
            self.calls.resets_at = datetime.fromtimestamp(min(reset, 1e11), UTC)

    def _check_limit(self) -> None:
        # Asking again while nothing is left is what GitHub bans callers for.
        resets_at = self.calls.resets_at
        if self.calls.left == 0 and resets_at and resets_at > self.now():
            raise _Limited((resets_at - self.now()).total_seconds() + 1, "primary")

    def _wait_for(self, limit: _Limited) -> None:
        resets_at = self.now() + timedelta(seconds=limit.wait)
        if self._waited + limit.wait > self.max_wait:
            anonymous = not self.settings.github_token
            raise SourceRateLimited(
                f"GitHub's {limit.kind} rate limit stops {self.repo} until {resets_at:%Y-%m-%dT%H:%M:%SZ}",
                remedy="Run again then, it goes on where it stopped"
                + ("; with GITHUB_TOKEN set, GitHub allows 5,000 calls an hour instead of 60" if anonymous else ""),
                source=self.source,
                reset_at=f"{resets_at:%Y-%m-%dT%H:%M:%SZ}",
            ) from None
        self._waited += limit.wait
        self.announce(f"{self.source}: GitHub's {limit.kind} rate limit; waiting {limit.wait:.0f} s")
        self.sleep(limit.wait)
        self.calls.left = None

    def _raise(self, status: int, headers: Mapping[str, Any], body: Any, path: str) -> Never:
        message = self._message(body)
        limited = _limit(status, headers, message, self.now())
        if limited is not None:
            raise limited from None
        if status >= 500 or status == _NOT_NOW:
            raise _Broken(f"GitHub answered {status}", _retry_after(headers, self.now()) or 0.0) from None
        asked = f"{self.repo} ({path})"
        make, problem, remedy = _REFUSALS.get(status, _OTHER)
        if status == 401 and not self.settings.github_token:
            remedy = "Set GITHUB_TOKEN"
        detail = f"{problem.format(asked=asked, status=status)}{f': {message}' if message else ''}"
        raise make(detail, remedy=remedy, source=self.source, status=status) from None

    def _message(self, body: Any) -> str:
        message = body.get("message", "") if isinstance(body, dict) else ""
        text = " ".join(str(message).split())[:_MESSAGE_LENGTH].rstrip(". ")
        token = self.settings.github_token.reveal()
        # A host that echoes the request must not get the token into an error.
        return text.replace(token, "***") if token else text


# Status: (error, problem, remedy). What is not here is a bug of ours or of the host.
_REFUSALS: Final[dict[int, tuple[type[SourceError], str, str]]] = {
    401: (SourceUnauthenticated, "GitHub refuses the token for {asked}", "Renew GITHUB_TOKEN: it is wrong or expired"),
    403: (
        SourceForbidden,
        "GITHUB_TOKEN may not read {asked}",
        "Give the token read access to issues, and authorise it for the organisation's single sign-on",
    ),
    404: (
        RepositoryNotFound,
        "GitHub has no {asked}, or the token may not see it",
        "Check `repo` in the catalogue; a private repository needs a GITHUB_TOKEN that may read it",
    ),
    410: (
        RepositoryNotFound,
        "Issues are switched off or gone in {asked}",
        "Take the source out of the catalogue",
    ),
    451: (
        SourceForbidden,
        "{asked} is blocked for legal reasons",
        "Take the source out of the catalogue",
    ),
}
_OTHER: Final = (SourceError, "GitHub answered {status} for {asked}", "Check GITHUB_API_URL and the repository's name")


def _requester(settings: Settings) -> Any:
    from github import Auth, Github
    from urllib3 import Retry

    class NoRetry(Retry):
        """Never tries again, and turns a redirect into `Moved` before PyGithub follows it without its query."""

        def increment(  # noqa: D102
            self,
            method: str | None = None,
            url: str | None = None,
            response: BaseHTTPResponse | None = None,
            error: Exception | None = None,
            _pool: ConnectionPool | None = None,
            _stacktrace: TracebackType | None = None,
        ) -> Self:
            if response is not None and response.status in _MOVED:
                # Its body is not read, so its connection cannot be used again.
                response.close()
                raise Moved(str(response.headers.get("location", "")))
            if response is not None and response.status == _NOT_NOW:
                response.close()
                raise _Broken(f"GitHub answered {_NOT_NOW}")
            return super().increment(method, url, response, error, _pool, _stacktrace)

    token = settings.github_token.reveal()
    return Github(
        base_url=settings.github_api_url,
        auth=Auth.Token(token) if token else None,
        user_agent=USER_AGENT,
        per_page=PER_PAGE,
        timeout=TIMEOUT_SECONDS,
        retry=NoRetry(total=0, status_forcelist=(*_MOVED, _NOT_NOW), respect_retry_after_header=False),
        seconds_between_requests=None,
        seconds_between_writes=None,
    ).requester


def _limit(status: int, headers: Mapping[str, Any], message: str, now: datetime) -> _Limited | None:
    """Tells a rate limit from a refusal: both are 403, and secondary limits say so in the body only."""
    if status not in (403, 429):
        return None
    words = message.lower()
    secondary = "secondary rate limit" in words or "abuse detection" in words
    primary = _number(headers.get("x-ratelimit-remaining")) == 0 and not secondary
    retry_after = _retry_after(headers, now)
    if not (primary or secondary or retry_after is not None or "rate limit" in words or status == 429):
        return None
    reset = _number(headers.get("x-ratelimit-reset"))
    if retry_after is not None:
        wait = retry_after
    elif primary and reset is not None:
        # One second more: it is not known when in that second the limit starts again.
        wait = max(reset - now.timestamp(), 0.0) + 1
    else:
        wait = SECONDARY_WAIT_SECONDS
    return _Limited(max(wait, 1.0), "primary" if primary else "secondary")


def _retry_after(headers: Mapping[str, Any], now: datetime) -> float | None:
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return max(seconds, 0.0)
    date = _http_date(value)
    return max((date - now).total_seconds(), 0.0) if date else None


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 1e12 else None


def _http_date(value: Any) -> datetime | None:
    try:
        date = parsedate_to_datetime(str(value))
    except (TypeError, ValueError):
        return None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)


def _page_number(url: str) -> int:
    digits = dict(parse_qsl(urlsplit(url).query)).get("page", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 9 else 0
