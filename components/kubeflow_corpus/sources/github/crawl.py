"""Issue threads of a repository, in few calls and without losing or inventing any.

A run lists what changed since the cursor, in ascending order of ``updated_at``, and passes on whole threads: whatever
stops it, everything up to the cursor that it ends with is passed on. Pages are asked for by time (``since`` the last
record) and not by number: an issue that changes while it is listed moves to the end, and with page numbers the one
behind it would be skipped.

Calls, for n changed issues: the listing (one per 100), the comments listing of the repository since the cursor (finds
edited comments, one per 100), one count (finds deleted and transferred issues), and the comments of the changed
issues. Those come from the repository's comments listing where that takes fewer calls than one per issue (a first run:
one per 100 comments), else issue by issue. With nothing changed that is three calls.

A thread becomes a `Document` whose text is one JSON object; see `thread_document`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kubeflow_corpus.errors import (
    RepositoryNotFound,
    SourceError,
    SourceRateLimited,
    SourceRefused,
    SourceUnauthenticated,
    SourceUnreachable,
)
from kubeflow_corpus.records import Document, FailedDocument, Skip
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.sources.catalogue import Source
from kubeflow_corpus.sources.github.api import (
    MAX_WAIT_SECONDS,
    PER_PAGE,
    GithubApi,
    ListingPage,
    Moved,
    Parameters,
    utc_now,
)
from kubeflow_corpus.sources.github.cursor import Cursor

# Raise it when the JSON of a thread changes: every thread is then read again.
THREAD_FORMAT: Final = "1"
# GitHub's listings lag behind its writes by seconds, and its hosts' clocks differ.
OVERLAP: Final = timedelta(minutes=10)
# Deleted comments leave no trace in any listing: after so long, everything is read again.
FULL_LISTING_EVERY: Final = timedelta(days=7)
# At most this share of the calls that are left goes into listing issues before their comments are read: a small
# allowance then still passes on whole threads, and the next run starts behind them.
LISTING_SHARE: Final = 8
# So few issues are read one by one without asking what the repository's listing would take.
FEW_CALLS: Final = 3
# Issues that are gone from a full listing are asked for one by one, up to this many.
CONFIRM_AT_MOST: Final = 20
# A listing that lost comments (they were edited while it was read) is mended issue by issue, up to this many.
MEND_AT_MOST: Final = 25
# With more threads that cannot be read, it is not the threads: the run stops.
FAILED_AT_MOST: Final = 50
MAX_SEEN: Final = 2000

# GitHub's own limits are 65,536 characters and 2,500 comments; another host's may be none.
MAX_BODY_LENGTH: Final = 1 << 20
MAX_COMMENT_LENGTH: Final = 1 << 17
MAX_THREAD_LENGTH: Final = 16 << 20
MAX_NUMBER: Final = 5_000_000
CUT_MARK: Final = "\n[... {count:,} characters left out ...]\n"

# Stands for the number of comments of a pull request: those are not wanted.
NO_ISSUE: Final = -1
# A host that lists without end must not keep a run busy without end.
MAX_PAGES: Final = 50_000

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_UNUSABLE: Final = re.compile("[\x00\ud800-\udfff]")
_NUMBER_IN_URL: Final = re.compile(r"/(?:issues|pull)/(\d{1,7})(?:[/#?]|$)")
# What makes GitHub close an issue when the pull request is merged.
_CLOSES: Final = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b:?\s{1,3}"
    r"(?:(?:([\w.-]{1,100}/[\w.-]{1,100}))?#|https?://[\w.:-]{1,200}/([\w.-]{1,100}/[\w.-]{1,100})/issues/)(\d{1,7})\b",
    re.IGNORECASE,
)
_MAX_SCANNED: Final = 20_000

Clock = Callable[[], datetime]
Sleep = Callable[[float], None]
Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Fetched:
    """How reading the threads of one source went; the last thing that `fetch_threads` yields.

    Attributes:
        cursor: To be kept once the rows of the threads are verified. Always right, whatever stopped the run.
        complete: Whether every thread of the repository was passed on in this run, so that whatever else is stored of
            the source is stale.
        removed: Documents that are gone, with the reason ``deleted`` or ``transferred``.
        error: What stopped the run before its end; None where nothing did. The threads before it are good.
        counts: ``threads``, ``pull_requests``, ``calls_used``, and where the host has a limit ``calls_left``.
    """

    cursor: Cursor
    complete: bool = False
    removed: tuple[Skip, ...] = ()
    error: SourceError | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


def fetch_threads(
    source: Source,
    settings: Settings,
    cursor: Cursor,
    *,
    full: bool = False,
    now: Clock = utc_now,
    sleep: Sleep = time.sleep,
    progress: Announce = print,
    max_wait: float = MAX_WAIT_SECONDS,
) -> Iterator[Document | Skip | FailedDocument | Fetched]:
    """Reads the threads that changed since the cursor.

    Args:
        source: The catalogue entry, of type ``issue``.
        settings: `github_api_url` and `github_token`; without a token GitHub allows 60 calls an hour.
        cursor: Where the last run ended; ``Cursor()`` reads everything.
        full: Whether to read everything again. That also happens by itself after `FULL_LISTING_EVERY`.
        now: The clock.
        sleep: Waits for a number of seconds.
        progress: Told in one line about waits, retries and how many calls are left.
        max_wait: Seconds that the run may wait for rate limits in all, before it stops.

    Yields:
        The document of each thread, oldest change first; a `Skip` for each record without a number; a
        `FailedDocument` for each thread that cannot be read; at the end, always, one `Fetched`. A `SourceError` is
        not raised: it is in `Fetched.error`.
    """
    api = GithubApi(settings, source.repo, source.name, now=now, sleep=sleep, announce=progress, max_wait=max_wait)
    with closing(api):
        yield from _Run(source, api, cursor, full, settings.github_api_url).run()


def fetch_named_threads(
    source: Source,
    settings: Settings,
    cursor: Cursor,
    numbers: Iterable[int],
    *,
    now: Clock = utc_now,
    sleep: Sleep = time.sleep,
    progress: Announce = print,
    max_wait: float = MAX_WAIT_SECONDS,
) -> Iterator[Document | Skip | FailedDocument | Fetched]:
    """Reads some threads, whether or not they changed: one call for each, and one for each 100 of its comments.

    Args:
        source: The catalogue entry, of type ``issue``.
        settings: As in `fetch_threads`.
        cursor: Where the last run ended: it knows which merged pull requests close which issue.
        numbers: Which threads. Numbers of pull requests are passed over.
        now: The clock.
        sleep: Waits for a number of seconds.
        progress: As in `fetch_threads`.
        max_wait: As in `fetch_threads`.

    Yields:
        The document of each thread; at the end, always, one `Fetched` that names those that are gone. Its cursor is
        not to be kept: nothing was read but these.
    """
    api = GithubApi(settings, source.repo, source.name, now=now, sleep=sleep, announce=progress, max_wait=max_wait)
    with closing(api):
        yield from _Run(source, api, cursor, False, settings.github_api_url).named(sorted(set(numbers)))


def thread_document(
    source: Source, issue: Mapping[str, Any], comments: list[dict[str, Any]], left_out: int = 0
) -> Document:
    """Makes the document of one thread.

    Its text is one JSON object with sorted keys: ``number``, ``title``, ``url``, ``author``, ``author_association``,
    ``bot``, ``state``, ``state_reason``, ``labels``, ``created_at``, ``updated_at``, ``closed_at``, ``reactions``,
    ``body``, ``closed_by`` (numbers of merged pull requests that close it), ``comments_left_out`` (a number) and
    ``comments``, oldest first: ``id``, ``author``, ``author_association``, ``bot``, ``created_at``, ``updated_at``,
    ``reactions``, ``body``.

    Args:
        source: The catalogue entry.
        issue: The issue as `_issue_record` keeps it.
        comments: Its comments as `_comment_record` keeps them, oldest first.
        left_out: Comments that are too much for one thread.
    """
    number = issue["number"]
    path = f"issues/{source.repo}/{number}"
    labelled = dict(source.labels)
    areas = [*source.areas(path), *(labelled[label] for label in issue["labels"] if label in labelled)]
    thread = {**issue, "comments": comments, "comments_left_out": left_out}
    return Document(
        document_id=f"{source.name}:{number}",
        source=source.name,
        source_type="issue",
        repo=source.repo,
        revision="",
        path=path,
        url=issue["url"],
        title=issue["title"],
        text=json.dumps(thread, ensure_ascii=False, sort_keys=True),
        metadata={
            "product_area": sorted(dict.fromkeys(areas)),
            "version": list(source.versions(path)),
            "updated_at": issue["updated_at"],
        },
    )


class _Run:
    """One run over one repository. Its attributes are what the next cursor is made of."""

    def __init__(self, source: Source, api: GithubApi, cursor: Cursor, full: bool, api_url: str) -> None:
        self.source, self.api = source, api
        entry = _entry(source, api_url)
        changed = cursor.entry != entry
        due = cursor.listed is None and _older(cursor.full_at, api.now() - FULL_LISTING_EVERY)
        # A full listing that several runs share does not pass on everything in the last of them.
        self.resumed = cursor.listed is not None and bool(cursor.position) and not changed and not full
        if changed or full or due or not cursor.position:
            # The numbers stay: they tell which documents of the source are gone afterwards.
            held = {} if changed else cursor.closing
            cursor = Cursor(entry=entry, known=cursor.known, listed=frozenset(), closing=held)
        self.cursor = cursor
        self.position = cursor.position
        self.seen = dict(cursor.seen)
        self.known = set(cursor.known)
        self.listed = None if cursor.listed is None else set(cursor.listed)
        self.pending = set(cursor.pending)
        self.closing = dict(cursor.closing)
        self.closers: dict[int, set[int]] = {}
        for pull_request, issues in cursor.closing.items():
            self._link(pull_request, issues)
        self.comments_seen: dict[int, str] = {}
        self.passed_on: set[int] = set()
        self.pull_requests = 0
        self.removed: dict[int, str] = {}
        self.mended = 0
        self.failed: set[int] = set()
        self.complete = False
        self.drift = cursor.drift
        self.full_at = cursor.full_at
        self.comments_position = cursor.comments_position

    def run(self) -> Iterator[Document | Skip | FailedDocument | Fetched]:
        error: SourceError | None = None
        try:
            yield from self._changed()
            yield from self._fetch_touched()
            if self.listed is not None:
                self._end_full_listing()
            yield from self._fetch_missing()
        except SourceError as stopped:
            error = stopped
        yield self._fetched(error)

    def named(self, numbers: list[int]) -> Iterator[Document | FailedDocument | Fetched]:
        error: SourceError | None = None
        # One that is gone has to go whether or not a run before passed it on.
        self.known.update(numbers)
        try:
            for number in numbers:
                document = self._fetch_again(number)
                if document is not None:
                    yield document
        except SourceError as stopped:
            error = stopped
        yield self._fetched(error)

    # Changed issues, in blocks that leave calls for their comments.

    def _changed(self) -> Iterator[Document | Skip | FailedDocument]:
        pages = self._by_time("/issues", {"state": "all"}, self._since(self.position), "number")
        exhausted = False
        while not exhausted:
            with _Spool() as spool:
                exhausted = yield from self._list_block(pages, spool)
                yield from self._pass_on(spool)

    def _list_block(
        self, pages: Iterator[list[dict[str, Any]]], spool: _Spool
    ) -> Generator[Skip | FailedDocument, None, bool]:
        left_for_pages: float = 1
        while left_for_pages > 0:
            page = next(pages, None)
            if page is None:
                return True
            for record in page:
                try:
                    skip: Skip | FailedDocument | None = self._take(record, spool)
                except Exception as error:
                    skip = self._damaged(record, error)
                if skip is not None:
                    yield skip
            left = self.api.calls.left
            spool.pages += 1
            left_for_pages = 1 if left is None else left // LISTING_SHARE - spool.pages
        return False

    def _take(self, record: dict[str, Any], spool: _Spool) -> Skip | None:
        issue = _issue_record(record)
        if issue is None:
            return Skip(f"{self.source.name}:?", f"issues/{self.source.repo}/?", "malformed", "no number or no date")
        number, updated_at = issue["number"], issue["updated_at"]
        if "pull_request" in record:
            self._take_pull_request(record, number)
            spool.add_mark(number, updated_at, is_issue=False)
        elif self.seen.get(number) == updated_at:
            spool.add_mark(number, updated_at, is_issue=True)
        else:
            spool.add_issue(number, updated_at, issue, record.get("comments"))
        return None

    def _damaged(self, record: Any, error: Exception) -> Skip | FailedDocument:
        """Records that nothing can be made of what the listing says of an issue."""
        number, said = record.get("number") if isinstance(record, dict) else None, f"{type(error).__name__}: {error}"
        if not isinstance(number, int):
            return Skip(f"{self.source.name}:?", f"issues/{self.source.repo}/?", "malformed", said)
        if self.listed is not None:
            self.listed.add(number)
        return self._note_failed(number, "defect", said)

    def _take_pull_request(self, record: Mapping[str, Any], number: int) -> None:
        self.pull_requests += 1
        closes = _closes(record, self.source.repo)
        closed = self.closing.pop(number, ())
        changed = set(closes) ^ set(closed)
        for issue in closed:
            self.closers[issue].discard(number)
        if closes:
            self.closing[number] = closes
            self._link(number, closes)
        # Threads that were passed on before they had this reference; those still to come will have it anyway.
        self.pending |= changed & self.known

    def _link(self, pull_request: int, issues: Iterable[int]) -> None:
        for issue in issues:
            self.closers.setdefault(issue, set()).add(pull_request)

    def _pass_on(self, spool: _Spool) -> Iterator[Document | FailedDocument]:
        one_by_one = self._read_comments(spool)
        stopped: SourceError | None = one_by_one if isinstance(one_by_one, SourceError) else None
        for number, updated_at, issue, wanted in spool.in_order():
            if issue is not None:
                held = spool.count_comments(number)
                if held < wanted:
                    if stopped is not None:
                        break
                    document = self._read_alone(number, issue, spool, mend=one_by_one is False)
                else:
                    document = self._document(issue, spool)
                if document is not None:
                    yield document
                if isinstance(document, Document):
                    self.seen[number] = updated_at
            # Only now: a run that is stopped in between reads this thread again.
            self.position = max(self.position, updated_at)
            if self.listed is not None and wanted != NO_ISSUE and number not in self.removed:
                self.listed.add(number)
        if stopped is not None:
            raise stopped

    def _read_comments(self, spool: _Spool) -> bool | SourceError:
        """Reads the comments of a block through the repository's listing, if that is the cheaper way.

        Returns:
            True where the issues are to be read one by one, False where the listing was read, or what stopped it.
        """
        calls, since = spool.cost()
        left = self.api.calls.left
        if calls <= FEW_CALLS or (left is not None and left <= FEW_CALLS):
            return True
        pages = self._pages("/issues/comments", {}, since, "id")
        try:
            first = next(pages)
            left = self.api.calls.left
            # Without a number of pages (hosts may leave it out) a full listing is the case that the listing is for.
            unknown = calls + 1 if self.listed is None else calls // 2
            expected = first.last_page or (unknown if first.next else 1)
            if expected - 1 >= calls or (left is not None and expected > left):
                return True
            self._keep_comments(first.data, spool)
            for page in pages:
                self._keep_comments(page.data, spool)
        except SourceError as error:
            return error
        return False

    def _keep_comments(self, records: list[Any], spool: _Spool) -> None:
        for record in records:
            comment = _comment_record(record)
            if comment is not None and spool.wants(comment["number"]):
                spool.add_comment(comment)
                self._note_comment(comment)

    def _read_alone(
        self, number: int, issue: dict[str, Any], spool: _Spool, *, mend: bool = False
    ) -> Document | FailedDocument | None:
        """Reads the comments of one issue; returns its document, or why there is none, or None where it is gone."""
        try:
            self._read_one(number, spool, mend=mend)
        except (SourceError, Moved) as error:
            return self._not_read(number, error)
        return self._document(issue, spool)

    def _not_read(self, number: int, error: SourceError | Moved) -> FailedDocument | None:
        """Finds out what is wrong with one thread; what concerns all of them is raised."""
        if isinstance(error, SourceRateLimited | SourceUnauthenticated | SourceRefused):
            raise error
        # A repository that does not answer either is to blame for all of its threads.
        self.api.page("/issues", {"state": "all", "per_page": 1})
        try:
            record = self._fetch_issue(number)
        except SourceError as failure:
            record, error = {}, failure
        if isinstance(record, str):
            self._remove(number, record)
            return None
        return self._note_failed(number, "not read", str(error))

    def _note_failed(self, number: int, reason: str, detail: str) -> FailedDocument:
        """Records a thread that could not be read; the next run reads it whether or not it changed."""
        self.failed.add(number)
        if len(self.failed) > FAILED_AT_MOST:
            raise SourceUnreachable(
                f"{len(self.failed)} threads of {self.source.repo} cannot be read, the last one: {detail}",
                remedy="Run again later; what was read so far is kept",
                source=self.source.name,
            )
        key, path = f"{self.source.name}:{number}", f"issues/{self.source.repo}/{number}"
        return FailedDocument(key, path, reason, " ".join(detail.split()))

    def _read_one(self, number: int, spool: _Spool, *, mend: bool = False) -> None:
        if mend:
            self.mended += 1
            if self.mended > MEND_AT_MOST:
                return
        page = self.api.page(f"/issues/{number}/comments", {"per_page": PER_PAGE})
        while True:
            for record in page.data:
                comment = _comment_record(record)
                if comment is not None:
                    spool.add_comment({**comment, "number": number})
                    self._note_comment(comment)
            if not page.next:
                return
            page = self.api.page_after(page)

    def _note_comment(self, comment: Mapping[str, Any]) -> None:
        if comment["updated_at"] >= self.comments_floor:
            self.comments_seen[comment["id"]] = comment["updated_at"]

    def _document(self, issue: dict[str, Any], spool: _Spool) -> Document:
        number = issue["number"]
        comments, left_out = spool.comments(number)
        closed_by = sorted(self.closers.get(number, ()))
        self.passed_on.add(number)
        self.known.add(number)
        self.pending.discard(number)
        self.removed.pop(number, None)
        return thread_document(self.source, {**issue, "closed_by": closed_by}, comments, left_out)

    # Issues that changed without saying so: an edited comment, a pull request that closes them.

    def _fetch_touched(self) -> Iterator[Document | FailedDocument]:
        if self.comments_position:
            for page in self._by_time("/issues/comments", {}, self._since(self.comments_position), "id"):
                for record in page:
                    self._touch(record)
        self.comments_position = _iso(self._started())
        # What was passed on in this run already stays for the next one: a run has one document for a thread.
        for number in sorted(self.pending - self.passed_on - self.failed):
            document = self._fetch_again(number)
            if document is not None:
                yield document
            self.pending.discard(number)

    def _touch(self, record: Any) -> None:
        comment = _comment_record(record)
        if comment is None or "/pull/" in str(record.get("html_url", "")):
            return
        known_at = self.comments_seen.get(comment["id"]) or self.cursor.comments_seen.get(comment["id"])
        if known_at != comment["updated_at"]:
            self.pending.add(comment["number"])
        self._note_comment(comment)

    def _fetch_again(self, number: int) -> Document | FailedDocument | None:
        try:
            record = self._fetch_issue(number)
        except SourceError as error:
            return self._not_read(number, error)
        if isinstance(record, str):
            if number in self.known:
                self._remove(number, record)
            return None
        issue = _issue_record(record)
        if issue is None or "pull_request" in record:
            return None
        with _Spool() as spool:
            if record.get("comments") == 0:
                return self._document(issue, spool)
            return self._read_alone(number, issue, spool)

    def _fetch_issue(self, number: int) -> dict[str, Any] | str:
        """Returns the record of an issue, or why it is gone."""
        try:
            return self.api.item(f"/issues/{number}")
        except Moved:
            return "transferred"
        except RepositoryNotFound:
            return "deleted"

    # Issues that are gone: nothing lists them, so what is listed is compared with what was known.

    def _end_full_listing(self) -> None:
        self._remove_all(self.known - (self.listed or set()))
        self.complete = not self.resumed
        self.listed = None
        self.full_at = _iso(self._started())
        # As many as were listed: a lower count means that one was deleted after the listing passed it.
        self.drift = 0

    def _fetch_missing(self) -> Iterator[Document | FailedDocument]:
        counted = self.api.count_issues()
        if counted is None:
            return
        more = counted - len(self.known)
        if self.drift is None or more >= self.drift:
            # The count lags behind the listing; what it lacked last time it may have now.
            self.drift = more
            return
        listed = self._list_numbers()
        if listed is None:
            return
        self._remove_all(self.known - listed)
        for number in sorted(listed - self.known):
            document = self._fetch_again(number)
            if document is not None:
                yield document
        self.drift = counted - len(self.known)

    def _list_numbers(self) -> set[int] | None:
        """Returns the numbers of all issues, or None where the calls that are left do not suffice."""
        listed: set[int] = set()
        for page in self._pages("/issues", {"state": "all"}, "", "number"):
            left = self.api.calls.left
            if not listed and left is not None and page.last_page > left:
                self.api.announce(f"{self.source.name}: an issue is gone; too few calls are left to find out which")
                return None
            for record in page.data:
                issue = _issue_record(record)
                if issue is not None and "pull_request" not in record:
                    listed.add(issue["number"])
        return listed

    def _remove_all(self, numbers: set[int]) -> None:
        confirm = len(numbers) <= CONFIRM_AT_MOST
        for number in sorted(numbers):
            answer = self._fetch_issue(number) if confirm else "deleted"
            if isinstance(answer, str):
                self._remove(number, answer)

    def _remove(self, number: int, reason: str) -> None:
        self.removed[number] = reason
        self.known.discard(number)
        self.pending.discard(number)
        self.seen.pop(number, None)

    # Listings by time.

    def _by_time(self, path: str, query: Parameters, since: str, key: str) -> Iterator[list[dict[str, Any]]]:
        for page in self._pages(path, query, since, key):
            yield page.data

    def _pages(self, path: str, query: Parameters, since: str, key: str) -> Iterator[ListingPage]:
        """Yields the pages of a listing in ascending order of change, without records that were there before."""
        fixed: Parameters = {**query, "sort": "updated", "direction": "asc", "per_page": PER_PAGE}
        passed: set[tuple[str, str]] = set()
        stale = 0
        page = self.api.page(path, {**fixed, "since": since} if since else fixed)
        for _ in range(MAX_PAGES):
            records = [(record, _key(record, key)) for record in page.data if isinstance(record, dict)]
            fresh = [record for record, k in records if k not in passed]
            yield replace(page, data=fresh)
            if not page.next:
                return
            stale = 0 if fresh else stale + 1
            last = max((k[1] for _, k in records), default="")
            if last > since:
                since = last
                passed = {k for _, k in records if k[1] >= since}
                page = self.api.page(path, {**fixed, "since": since})
                if page.data and not any(_key(record, key)[1] == since for record in page.data):
                    # A host that reads `since` as "after" would hide what else changed in that second.
                    page = self.api.page(path, {**fixed, "since": _earlier(since, timedelta(seconds=1))})
            elif stale <= len(passed) // PER_PAGE + 1:
                # More than a page changed in one second: only the link goes on from there.
                passed |= {k for _, k in records}
                page = self.api.page_after(page)
            else:
                break
        raise SourceUnreachable(f"GitHub lists {path} of {self.source.repo} without end", source=self.source.name)

    # The next cursor.

    def _since(self, position: str) -> str:
        return _earlier(position, OVERLAP) if position else ""

    def _started(self) -> datetime:
        return self.api.server_time or self.api.now()

    @property
    def comments_floor(self) -> str:
        """Comments that changed before this are behind the comments listing of this run and of the next one."""
        return self._since(self.cursor.comments_position or _iso(self._started()))

    def _fetched(self, error: SourceError | None) -> Fetched:
        floor = self._since(self.position)
        newest = sorted(((at, number) for number, at in self.seen.items() if at >= floor), reverse=True)[:MAX_SEEN]
        stopped = error is not None
        # A run that was stopped has not passed all comments: the next one begins where this one began.
        passed = (self.cursor.comments_position or _iso(self._started())) if stopped else self.comments_position
        seen_comments = {**self.cursor.comments_seen, **self.comments_seen}
        comment_floor = self._since(passed)
        cursor = Cursor(
            entry=self.cursor.entry,
            position=self.position,
            seen={number: at for at, number in newest},
            comments_position=passed,
            comments_seen=_newest({key: at for key, at in seen_comments.items() if at >= comment_floor}),
            known=frozenset(self.known),
            listed=None if self.listed is None else frozenset(self.listed & self.known),
            full_at=self.full_at,
            pending=tuple(sorted(self.pending | self.failed)),
            closing=self.closing,
            drift=self.drift,
        )
        counts = {
            "threads": len(self.passed_on),
            "pull_requests": self.pull_requests,
            "calls_used": self.api.calls.used,
        }
        if self.api.calls.left is not None:
            counts["calls_left"] = self.api.calls.left
        left = "no limit given" if self.api.calls.left is None else f"{self.api.calls.left:,} left"
        self.api.announce(f"{self.source.name}: {len(self.passed_on):,} threads, {self.api.calls.used:,} calls, {left}")
        removed = tuple(
            Skip(f"{self.source.name}:{number}", f"issues/{self.source.repo}/{number}", reason)
            for number, reason in sorted(self.removed.items())
        )
        return Fetched(cursor, self.complete and not stopped, removed, error, counts)


class _Spool:
    """The records of one block, on disk: a repository's comments need not fit into memory."""

    def __init__(self) -> None:
        # An empty name is a temporary file that SQLite deletes by itself.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("CREATE TABLE issue (number INTEGER PRIMARY KEY, updated TEXT, wanted INTEGER, record TEXT)")
        self._db.execute(
            "CREATE TABLE comment (id INTEGER PRIMARY KEY, number INTEGER, created TEXT, size INTEGER, record TEXT)"
        )
        self._db.execute("CREATE INDEX of_issue ON comment (number, created, id)")
        self._wanted: set[int] = set()
        self.pages = 0

    def __enter__(self) -> _Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def add_issue(self, number: int, updated_at: str, record: Mapping[str, Any], comments: Any) -> None:
        """Keeps an issue; `comments` is how many it has, as far as the listing says."""
        wanted = comments if isinstance(comments, int) and comments >= 0 else 1
        self._db.execute(
            "INSERT OR REPLACE INTO issue VALUES (?, ?, ?, ?)", (number, updated_at, wanted, json.dumps(record))
        )
        self._wanted.add(number)

    def add_mark(self, number: int, updated_at: str, *, is_issue: bool) -> None:
        """Keeps that the listing passed this number, with nothing to pass on."""
        if number not in self._wanted:
            row = (number, updated_at, 0 if is_issue else NO_ISSUE)
            self._db.execute("INSERT OR REPLACE INTO issue VALUES (?, ?, ?, NULL)", row)

    def wants(self, number: int) -> bool:
        """Returns whether a comment of this issue is needed."""
        return number in self._wanted

    def add_comment(self, comment: Mapping[str, Any]) -> None:
        """Keeps a comment, replacing an older state of it."""
        record = json.dumps(comment)
        row = (comment["id"], comment["number"], comment["created_at"], len(record), record)
        self._db.execute("INSERT OR REPLACE INTO comment VALUES (?, ?, ?, ?, ?)", row)

    def cost(self) -> tuple[int, str]:
        """Returns how many calls it takes to read the comments one by one, and when the oldest such issue was made."""
        calls, oldest = 0, "9"
        for wanted, record in self._db.execute("SELECT wanted, record FROM issue WHERE wanted > 0"):
            calls += -(-wanted // PER_PAGE)
            oldest = min(oldest, json.loads(record)["created_at"] or "")
        return calls, oldest

    def in_order(self) -> Iterator[tuple[int, str, dict[str, Any] | None, int]]:
        """Yields number, time of change, record (None for a mark) and number of comments, oldest change first."""
        for number, updated, wanted, record in self._db.execute(
            "SELECT number, updated, wanted, record FROM issue ORDER BY updated, number"
        ):
            yield number, updated, json.loads(record) if record else None, wanted

    def count_comments(self, number: int) -> int:
        """Returns how many comments of an issue are here."""
        return int(self._db.execute("SELECT count(*) FROM comment WHERE number = ?", (number,)).fetchone()[0])

    def comments(self, number: int) -> tuple[list[dict[str, Any]], int]:
        """Returns the comments of an issue, oldest first, and how many in the middle are too much for one thread."""
        sizes = self._db.execute(
            "SELECT id, size FROM comment WHERE number = ? ORDER BY created, id", (number,)
        ).fetchall()
        kept = _keep_both_ends(sizes, MAX_THREAD_LENGTH)
        records = []
        for identifier in kept:
            (record,) = self._db.execute("SELECT record FROM comment WHERE id = ?", (identifier,)).fetchone()
            comment = json.loads(record)
            del comment["number"]
            records.append(comment)
        return records, len(sizes) - len(kept)


def _keep_both_ends(sizes: list[tuple[int, int]], limit: int) -> list[int]:
    """Returns the keys from both ends whose sizes fit: a thread begins with the problem and ends with the fix."""
    front: list[int] = []
    back: list[int] = []
    first, last, used = 0, len(sizes) - 1, 0
    while first <= last:
        from_front = len(front) <= len(back)
        key, size = sizes[first] if from_front else sizes[last]
        used += size
        if used > limit:
            break
        if from_front:
            front.append(key)
            first += 1
        else:
            back.append(key)
            last -= 1
    return front + back[::-1]


def _issue_record(record: Any) -> dict[str, Any] | None:
    """Keeps what a thread needs of an issue, or nothing where it has no number or date."""
    if not isinstance(record, dict):
        return None
    number, updated_at = record.get("number"), _time(record.get("updated_at"))
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= MAX_NUMBER or not updated_at:
        return None
    labels = record.get("labels")
    listed = labels if isinstance(labels, list) else []
    names = [label.get("name") if isinstance(label, dict) else label for label in listed if label]
    return {
        "number": number,
        "title": _text(record.get("title"), MAX_COMMENT_LENGTH),
        "url": _text(record.get("html_url"), MAX_COMMENT_LENGTH),
        "state": "closed" if record.get("state") == "closed" else "open",
        "state_reason": _text(record.get("state_reason"), MAX_COMMENT_LENGTH),
        "labels": sorted({_text(name, MAX_COMMENT_LENGTH) for name in names if isinstance(name, str)}),
        "created_at": _time(record.get("created_at")),
        "updated_at": updated_at,
        "closed_at": _time(record.get("closed_at")),
        **_post_record(record, MAX_BODY_LENGTH),
    }


def _comment_record(record: Any) -> dict[str, Any] | None:
    """Keeps what a thread needs of a comment, or nothing where it is not clear whose it is."""
    if not isinstance(record, dict):
        return None
    identifier, updated_at = record.get("id"), _time(record.get("updated_at"))
    number = _NUMBER_IN_URL.search(str(record.get("issue_url", ""))[-40:])
    if not isinstance(identifier, int) or not 0 < identifier < 1 << 62 or not updated_at or number is None:
        return None
    return {
        "id": identifier,
        "number": int(number[1]),
        "created_at": _time(record.get("created_at")) or updated_at,
        "updated_at": updated_at,
        **_post_record(record, MAX_COMMENT_LENGTH),
    }


def _post_record(record: Mapping[str, Any], limit: int) -> dict[str, Any]:
    user = record.get("user")
    user = user if isinstance(user, dict) else {}
    reactions = record.get("reactions")
    counts = reactions.items() if isinstance(reactions, dict) else ()
    return {
        # The account of somebody who left GitHub is null.
        "author": _text(user.get("login"), MAX_COMMENT_LENGTH),
        "bot": user.get("type") == "Bot",
        "author_association": _text(record.get("author_association"), MAX_COMMENT_LENGTH),
        "reactions": {
            str(name): count
            for name, count in counts
            if isinstance(count, int) and not isinstance(count, bool) and count > 0 and name != "total_count"
        },
        "body": _text(record.get("body"), limit),
    }


def _text(value: Any, limit: int) -> str:
    """Returns a text that can be stored: no NUL, no half characters, and cut in the middle beyond a limit."""
    if not isinstance(value, str):
        return ""
    text = _UNUSABLE.sub("\ufffd", value)
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4
    return text[:head] + CUT_MARK.format(count=len(text) - head - tail) + text[-tail:]


def _closes(record: Mapping[str, Any], repo: str) -> tuple[int, ...]:
    """Returns the issues of this repository that a pull request closes; none unless it is merged."""
    pull_request = record.get("pull_request")
    if not isinstance(pull_request, dict) or not pull_request.get("merged_at"):
        return ()
    text = f"{record.get('title') or ''}\n{record.get('body') or ''}"[:_MAX_SCANNED]
    numbers = set()
    for short, long, number in _CLOSES.findall(text):
        if (short or long or repo).casefold() == repo.casefold() and int(number) <= MAX_NUMBER:
            numbers.add(int(number))
    return tuple(sorted(numbers))


def _entry(source: Source, api_url: str) -> str:
    labels = dict(source.labels)
    made_with = (THREAD_FORMAT, api_url, source.name, source.repo, source.product_area, source.version, labels)
    return hashlib.sha256(repr(made_with).encode()).hexdigest()[:16]


def _time(value: Any) -> str:
    """Returns a time as GitHub writes it (they then sort as text), or empty where it is none."""
    if not isinstance(value, str):
        return ""
    if _TIME.fullmatch(value):
        return value
    try:
        parsed = datetime.fromisoformat(value)
        return _iso(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return ""


def _iso(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _earlier(moment: str, span: timedelta) -> str:
    try:
        return _iso(datetime.fromisoformat(moment) - span)
    except (ValueError, OverflowError):
        return ""


def _older(moment: str, than: datetime) -> bool:
    return bool(moment) and moment < _iso(than)


def _key(record: Any, key: str) -> tuple[str, str]:
    """Returns which record this is and of which time: the two by which the overlaps of a listing are recognised."""
    return (str(record.get(key)), _time(record.get("updated_at"))) if isinstance(record, dict) else ("", "")


def _newest(times: dict[int, str]) -> dict[int, str]:
    kept = sorted(((at, key) for key, at in times.items()), reverse=True)[:MAX_SEEN]
    return {key: at for at, key in kept}
