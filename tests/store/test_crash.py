"""SIGKILL at random and at systematic moments: the next run ends with the rows of one clean run.

At no moment does a reader see fewer documents than it must.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.milvus import connect, connected, disconnect
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.gate import check_version
from kubeflow_corpus.store.lease import Claim
from kubeflow_corpus.store.plan import Mode
from kubeflow_corpus.store.schema import served_name
from kubeflow_corpus.store.versions import list_versions, live_name

from tests.servers.milvus_lite import MilvusLiteServer, milvus_lite_server
from tests.store.synthetic import rows_of
from tests.store.writer import Job, documents, start

# Kills of each kind of run on each backend, 24 in all; more by hand: CRASH_KILLS=60.
KILLS = int(os.environ.get("CRASH_KILLS", "6"))
RUN_SECONDS = 120


class Readers:
    """Counts documents through the alias, over and over, while writers come and die."""

    def __init__(self, uri: str, served: str) -> None:
        self._settings = Settings(milvus_uri=uri)
        self._served = served
        self._must = frozenset[str]()
        self._stop = threading.Event()
        self.reads = 0
        self.lost: list[set[str]] = []
        self.errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._read)

    def expect(self, must: set[str]) -> None:
        self._must = frozenset(must)

    def __enter__(self) -> Readers:
        # Opened here and not in the thread: one that dies says nothing.
        self._client = connect(self._settings)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        disconnect(self._client, self._settings)

    def _read(self) -> None:
        while not self._stop.is_set():
            must = self._must
            try:
                found = read_documents(self._client, self._served)
            except Exception as error:  # noqa: BLE001 - a reader must never fail, for whatever reason
                self.errors.append(error)
                continue
            self.reads += 1
            # What must be there may have grown smaller during the read, never larger.
            if missing := (must & self._must) - found:
                self.lost.append(set(missing))


def read_documents(client: Any, served: str) -> set[str]:
    rows = client.query(served, filter='id != ""', output_fields=["document_id"], limit=16_000)
    return {row["document_id"] for row in rows}


class Subject:
    """A collection whose writers are killed, and its twin whose writers are not."""

    def __init__(self, uri: str, folder: Path, name: str, mode: Mode) -> None:
        self.uri, self.folder, self.name, self.mode = uri, folder, name, mode
        self.state = 0
        self.killed = Counter[str]()
        self.survived = 0
        self.seconds = 1.0
        for twin in ("killed", "clean"):
            self.complete(twin)

    def job(self, twin: str, die_at: int = -1) -> Job:
        log = self.folder / f"{self.name}.log"
        log.unlink(missing_ok=True)
        mode: Mode = self.mode if self.state else "incremental"
        return Job(self.uri, f"{self.name}_{twin}", self.folder / "scratch", self.state, mode, log, die_at)

    def served(self, twin: str) -> str:
        return served_name(f"{self.name}_{twin}", DOCS.alias)

    def complete(self, twin: str) -> None:
        process = start(self.job(twin))
        self._until_first_write(process)
        begin = time.monotonic()
        process.join(RUN_SECONDS)
        self.seconds = time.monotonic() - begin
        assert process.exitcode == 0

    def _until_first_write(self, process: Any) -> None:
        while process.is_alive() and not (self.folder / f"{self.name}.log").exists():
            time.sleep(0.005)

    def must_be_seen(self) -> set[str]:
        return documents(self.state - 1) & documents(self.state)

    def kill_within(self, share: float) -> None:
        """Kills a writer at a share of the time from its first write to its end."""
        process = start(self.job("killed"))
        self._until_first_write(process)
        time.sleep(share * self.seconds)
        process.kill()
        self._note(process)

    def kill_at(self, call: int) -> bool:
        """Lets a writer die around one of its calls; returns whether it had that many."""
        process = start(self.job("killed", call))
        self._note(process)
        return process.exitcode == -signal.SIGKILL

    def _note(self, process: Any) -> None:
        process.join(RUN_SECONDS)
        if process.exitcode == -signal.SIGKILL:
            log = self.folder / f"{self.name}.log"
            self.killed[(log.read_text().split() or ["before the first write"])[-1] if log.exists() else "start"] += 1
        else:
            assert process.exitcode == 0
            self.survived += 1

    def check_equal(self, client: Any) -> None:
        for twin in ("killed", "clean"):
            client.load_collection(self.served(twin))
        killed, clean = (rows_of(client, self.served(twin)) for twin in ("killed", "clean"))
        assert killed == clean
        assert {row["document_id"] for row in clean.values()} == documents(self.state)
        live = live_name(client, self.served("killed"))
        assert check_version(client, live).passed
        versions = list_versions(client, self.served("killed"))
        assert all(Claim.loads(version.properties.get("lease", "")) is None for version in versions)
        # The kept versions and no heap of abandoned candidates.
        assert len(versions) <= 3

    def figures(self) -> str:
        total = sum(self.killed.values())
        return f"{self.mode} on {self.uri[:4]}: {total} kills, last call: {dict(self.killed.most_common())}"


@contextmanager
def nobody() -> Iterator[None]:
    yield None


def run_kills(subject: Subject, kill: Callable[[], None], readers: Readers | None) -> None:
    """From one state to the next: kill a writer, look at what is served, run again, compare."""
    subject.state += 1
    must = subject.must_be_seen()
    if readers is not None:
        readers.expect(must)
    kill()
    settings = Settings(milvus_uri=subject.uri)
    with connected(settings) as client:
        client.load_collection(subject.served("killed"))
        assert must <= read_documents(client, subject.served("killed"))
    subject.complete("killed")
    subject.complete("clean")
    with connected(settings) as client:
        subject.check_equal(client)
    if readers is not None:
        # Until the next writer begins, everything of this state must be seen.
        readers.expect(must)


def uri_of(request: pytest.FixtureRequest, backend: str, folder: Path) -> str:
    if backend == "embedded":
        return str(folder / "corpus.db")
    server: MilvusLiteServer = request.getfixturevalue("own_server")
    return server.uri


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[MilvusLiteServer]:
    """A server of this test alone: killed clients leave connections behind that other tests must not meet."""
    with milvus_lite_server(tmp_path / "served") as server:
        yield server


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("backend", ["embedded", "server"])
@pytest.mark.parametrize("mode", ["incremental", "rebuild"])
def test_a_run_that_is_killed_at_a_random_moment_is_finished_by_the_next_one(
    request: pytest.FixtureRequest, tmp_path: Path, backend: str, mode: Mode, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = Subject(uri_of(request, backend, tmp_path), tmp_path, f"r{mode[0]}", mode)
    moments = random.Random(20_261_130)
    readers = Readers(subject.uri, subject.served("killed")) if backend == "server" else None
    with readers or nobody():
        for _ in range(3 * KILLS):
            if sum(subject.killed.values()) == KILLS:
                break
            run_kills(subject, lambda: subject.kill_within(moments.random()), readers)
    with capsys.disabled():
        print(f"\n{subject.figures()}" + (f", {readers.reads} reads beside them" if readers else ""))
    assert sum(subject.killed.values()) == KILLS
    if readers is not None:
        assert readers.errors == []
        assert readers.lost == []
        assert readers.reads >= KILLS


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", ["incremental", "rebuild"])
def test_a_run_that_is_killed_around_any_of_its_writes_is_finished_by_the_next_one(
    tmp_path: Path, mode: Mode, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = Subject(str(tmp_path / "corpus.db"), tmp_path, f"s{mode[0]}", mode)
    step = int(os.environ.get("CRASH_STEP", "5"))
    died = True
    for call in range(0, 1000, step):
        died = False

        def kill(at: int = call) -> None:
            nonlocal died
            died = subject.kill_at(at)

        run_kills(subject, kill, None)
        if not died:
            break
    with capsys.disabled():
        print(f"\nevery {step}. place, {subject.figures()}")
    assert not died
    assert sum(subject.killed.values()) >= 5
