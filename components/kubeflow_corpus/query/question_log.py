"""The log of questions: what was asked, what was found, and what somebody said of it. Off unless a file is named.

One SQLite file that several programs may write at once. A question is scrubbed before it is stored, and nothing says
who asked. What was stored stays when its program is killed; a file that cannot be written costs no answer.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.query.intent import content_words
from kubeflow_corpus.query.ranking import coverage
from kubeflow_corpus.query.scrubbing import scrub
from kubeflow_corpus.query.tuning import MAX_NOTE_CHARACTERS

if TYPE_CHECKING:
    from kubeflow_corpus.query.results import SearchResult

LOGGER: Final = logging.getLogger("kubeflow_corpus.query")
# Units of an answer that are kept.
KEPT_UNITS: Final = 10
# How long a writer waits for another one.
_BUSY_SECONDS: Final = 2.0
DAY_SECONDS: Final = 86_400.0
_FORMAT: Final = 1
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS questions (
    request_id TEXT NOT NULL, at REAL NOT NULL, collection TEXT NOT NULL, question TEXT NOT NULL, intent TEXT NOT NULL,
    mode TEXT NOT NULL, filters TEXT NOT NULL, areas TEXT NOT NULL, units TEXT NOT NULL, cosine REAL, coverage REAL,
    degraded INTEGER NOT NULL, total_ms REAL NOT NULL, code TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS questions_at ON questions (at);
CREATE INDEX IF NOT EXISTS questions_request ON questions (request_id);
CREATE TABLE IF NOT EXISTS verdicts (
    request_id TEXT NOT NULL, at REAL NOT NULL, helpful INTEGER NOT NULL, note TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS verdicts_request ON verdicts (request_id);
CREATE TABLE IF NOT EXISTS readings (at REAL NOT NULL);
"""
_COLUMNS: Final = (
    *("request_id", "at", "collection", "question", "intent", "mode", "filters", "areas", "units", "cosine"),
    *("coverage", "degraded", "total_ms", "code"),
)
_INSERT: Final = f"INSERT INTO questions VALUES ({', '.join('?' * len(_COLUMNS))})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What somebody said of an answer.

    Attributes:
        helpful: Whether it helped.
        note: Why, without secrets.
    """

    helpful: bool
    note: str


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question that was asked.

    Attributes:
        request_id: Of the search.
        at: When, as seconds since 1970.
        collection: Name of the collection.
        question: Without secrets.
        intent: What it was read as.
        mode: How it was searched.
        filters: That the caller set.
        areas: Products that it named, or that its best hit is of.
        units: Keys and scores of the hits, best first.
        cosine: Of the nearest row; None where no vectors were compared.
        coverage: Share of its words that the best hit has; None without a hit.
        degraded: Whether one of the lists was missing.
        total_ms: Of the search.
        code: ``OK``, or the code of the error that ended the search.
        verdict: The last that was said of the answer.
    """

    request_id: str
    at: float
    collection: str
    question: str
    intent: str = ""
    mode: str = ""
    filters: Mapping[str, Any] = field(default_factory=dict)
    areas: tuple[str, ...] = ()
    units: tuple[tuple[str, float], ...] = ()
    cosine: float | None = None
    coverage: float | None = None
    degraded: bool = False
    total_ms: float = 0.0
    code: str = "OK"
    verdict: Verdict | None = None


class QuestionLog:
    """A log of questions in a file.

    Args:
        path: The file; it is made if it is missing, for its owner alone.
        days: How long a question is kept.
        clock: Seconds since 1970, for tests.
    """

    def __init__(self, path: Path, days: float, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._days = days
        self._clock = clock
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._swept = float("-inf")
        self._complained = False

    def record(self, collection: str, query: str, result: SearchResult) -> None:
        """Stores a question with its answer; never fails."""
        with self._forgiving():
            best = result.hits[0] if result.hits else None
            words = content_words(query)
            nearest = result.stages.lists.get("dense") or ()
            named = result.filters_inferred.get("product_area") or (best.product_area if best else ())
            self._add(
                (
                    result.request_id,
                    self._clock(),
                    collection,
                    scrub(query),
                    result.intent.name,
                    result.intent.mode,
                    _json(_scrubbed(result.filters)),
                    _json(list(named)),
                    _json([[hit.unit_id, round(hit.score, 4)] for hit in result.hits[:KEPT_UNITS]]),
                    round(nearest[0].score, 4) if nearest else None,
                    round(coverage(words, f"{best.title} {best.section_path} {best.content_text}"), 4)
                    if best
                    else None,
                    "degraded" in result.stages.data,
                    round(result.total_ms, 2),
                    "OK",
                )
            )

    def record_failure(self, request_id: str, collection: str, query: str, code: str, total_ms: float) -> None:
        """Stores a question that was not answered; never fails."""
        with self._forgiving():
            empty = _json([])
            self._add(
                (request_id, self._clock(), collection, scrub(query), "", "", "{}", empty, empty, None, None, False)
                + (round(total_ms, 2), code)
            )

    def report(self, request_id: str, helpful: bool, note: str = "") -> bool:
        """Stores what somebody said of an answer.

        Args:
            request_id: Of its search.
            helpful: Whether it helped.
            note: Why.

        Returns:
            Whether the log has this question.
        """
        with self._forgiving(), self._lock:
            database = self._open()
            known = database.execute("SELECT 1 FROM questions WHERE request_id = ? LIMIT 1", (request_id,)).fetchone()
            if known is None:
                return False
            shown = scrub(note)[:MAX_NOTE_CHARACTERS]
            database.execute("INSERT INTO verdicts VALUES (?, ?, ?, ?)", (request_id, self._clock(), helpful, shown))
            return True
        return False

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    # ---- writing

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        """A full disk or a file of somebody else must not take an answer from a caller; it is said once."""
        try:
            yield
        except (sqlite3.Error, OSError, SettingsError) as error:
            if not self._complained:
                self._complained = True
                event = {"event": "question_not_logged", "path": str(self.path), "error": str(error)}
                LOGGER.warning(json.dumps(event), extra={"event": event})

    def _add(self, values: Sequence[Any]) -> None:
        with self._lock:
            database = self._open()
            database.execute(_INSERT, values)
            if self._clock() - self._swept > DAY_SECONDS:
                self._swept = self._clock()
                self._sweep(database)

    def _sweep(self, database: sqlite3.Connection) -> None:
        """Deletes what is older than it may be; the file keeps no trace of it."""
        oldest = self._clock() - self._days * DAY_SECONDS
        database.execute("DELETE FROM questions WHERE at < ?", (oldest,))
        database.execute("DELETE FROM verdicts WHERE at < ?", (oldest,))

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Questions of people: for the owner alone, from the first byte on.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            self._database = _connect(self.path)
        return self._database


def read_log(path: Path, since: float = 0.0, until: float = float("inf")) -> list[AskedQuestion]:
    """Returns the questions of a log in the order in which they were asked.

    Args:
        path: The file.
        since: Seconds since 1970.
        until: Seconds since 1970, exclusive.

    Raises:
        SettingsError: The file is missing, or it is not a log of questions.
    """
    with _reading(path) as database:
        verdicts = {
            request: Verdict(bool(helpful), note)
            for request, helpful, note in database.execute("SELECT request_id, helpful, note FROM verdicts ORDER BY at")
        }
        found = database.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM questions WHERE at >= ? AND at < ? ORDER BY at, rowid", (since, until)
        )
        return [_read_row(row, verdicts.get(row[0])) for row in found]


def find_question(path: Path, request_id: str) -> AskedQuestion | None:
    """Returns the question of a request, or None.

    Raises:
        SettingsError: The file is missing, or it is not a log of questions.
    """
    with _reading(path) as database:
        row = database.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM questions WHERE request_id = ? ORDER BY at DESC", (request_id,)
        ).fetchone()
        if row is None:
            return None
        said = database.execute(
            "SELECT helpful, note FROM verdicts WHERE request_id = ? ORDER BY at DESC", (request_id,)
        ).fetchone()
        return _read_row(row, Verdict(bool(said[0]), said[1]) if said else None)


def last_reading(path: Path) -> float:
    """Returns when `note_reading` was called last, as seconds since 1970; 0 is never."""
    with _reading(path) as database:
        return float(database.execute("SELECT max(at) FROM readings").fetchone()[0] or 0.0)


def note_reading(path: Path, at: float) -> None:
    """Notes that somebody read the log: what was asked later is new."""
    with _reading(path) as database:
        database.execute("DELETE FROM readings")
        database.execute("INSERT INTO readings VALUES (?)", (at,))


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise SettingsError(
            f"There is no log of questions at {path}", remedy="Set QUESTION_LOG where searches run, and ask something"
        )
    database = _connect(path)
    try:
        yield database
    finally:
        database.close()


def _connect(path: Path) -> sqlite3.Connection:
    # Every statement is a transaction of its own; threads take turns with a lock.
    database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        # Writers do not wait for readers, and a commit does not wait for the disk: what the operating system has
        # outlives a program that is killed.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA secure_delete = ON")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _FORMAT):
            raise SettingsError(f"{path} is a log of another release ({version})", remedy="Name another file")
        if version == 0:
            database.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {_FORMAT}; COMMIT;")
    except sqlite3.DatabaseError as error:
        database.close()
        if isinstance(error, sqlite3.OperationalError):
            raise
        raise SettingsError(f"{path} is not a log of questions: {error}", remedy="Name another file") from error
    return database


def _read_row(row: Sequence[Any], verdict: Verdict | None) -> AskedQuestion:
    values = dict(zip(_COLUMNS, row, strict=True))
    return AskedQuestion(
        **{
            **values,
            "filters": json.loads(values["filters"]),
            "areas": tuple(json.loads(values["areas"])),
            "units": tuple((str(unit), float(score)) for unit, score in json.loads(values["units"])),
            "degraded": bool(values["degraded"]),
        },
        verdict=verdict,
    )


def _scrubbed(filters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: [scrub(str(item)) for item in value] if isinstance(value, (list, tuple)) else _plain(value)
        for name, value in filters.items()
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool) else scrub(str(value))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
