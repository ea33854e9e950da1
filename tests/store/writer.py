"""One run of a collection in its own process, so that a test can kill it at any moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from kubeflow_corpus.milvus import connected, load_pymilvus
from kubeflow_corpus.records import Chunk
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store import apply, manual, rows, writer
from kubeflow_corpus.store.plan import Mode

from tests.store.synthetic import Run, page, result

# Imported in the fork server, so that a run does not pay for the import.
load_pymilvus()

# Small batches: a run of a hundred rows then has as many calls as one of ten thousand.
_BATCH_ROWS = 6
_WRITES = frozenset(
    ("create_collection", "create_index", "load_collection", "upsert", "flush", "delete", "drop_collection")
    + ("alter_collection_properties", "create_alias", "alter_alias")
)


@dataclass(frozen=True)
class Job:
    """What a process does.

    Attributes:
        uri: Milvus.
        prefix: Of the collection.
        folder: Scratch space.
        state: Which of the corpus's states to bring the collection to.
        mode: Kind of run.
        log: Gets a line before each call that writes.
        die_at: SIGKILL itself right before (even) or right after (odd) write call number `die_at // 2`; -1 for never.
    """

    uri: str
    prefix: str
    folder: Path
    state: int
    mode: Mode
    log: Path
    die_at: int = -1


def states(state: int) -> dict[str, list[list[Chunk]]]:
    """Two sources, of which pages come, go, change, shrink and are renamed from one state to the next."""
    revision = f"c{state}"
    site = []
    for number in range(16):
        if (number + state) % 8 == 0:
            continue
        sections = 1 + (number + (state if number % 3 == 0 else 0)) % 4
        edit = f" in state {state}" if number % 4 == 1 else ""
        texts = [f"Part {part}: text {part} of page {number}{edit if part == 0 else ''}" for part in range(sections)]
        name = f"renamed-{state % 2}-{number}.md" if number == 5 else f"page-{number}.md"
        site.append(page("site", name, texts, revision=revision, title=f"Page {number}"))
    other = [page("other", f"o-{number}.md", [f"Other: {number}"], revision=revision) for number in range(6)]
    return {"site": site, "other": other}


def documents(state: int) -> set[str]:
    return {chunks[0].document_id for pages in states(state).values() for chunks in pages}


class _Watched:
    """The client, with a log of its writes and a place to die."""

    def __init__(self, client: Any, job: Job) -> None:
        self._client = client
        self._job = job
        self._calls = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name not in _WRITES:
            return method

        def call(*args: Any, **values: Any) -> Any:
            number, self._calls = self._calls, self._calls + 1
            with self._job.log.open("a") as log:
                log.write(f"{name}\n")
            if self._job.die_at == 2 * number:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = method(*args, **values)
            if self._job.die_at == 2 * number + 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return call


def work(job: Job) -> None:
    """Runs a job; the body of the process."""
    apply.UPSERT_ROWS = apply._VECTOR_KEYS = manual._VECTOR_KEYS = _BATCH_ROWS  # type: ignore[misc]
    for module in (apply, manual, rows, writer):
        module.KEYS_PER_FILTER = _BATCH_ROWS  # type: ignore[attr-defined]
    settings = Settings(milvus_uri=job.uri, collection_prefix=job.prefix)
    folder = job.folder / f"{os.getpid()}"
    folder.mkdir(parents=True)
    fetched = [result(folder, source, pages, revision=f"c{job.state}") for source, pages in states(job.state).items()]
    with connected(settings) as client:
        Run(
            _Watched(client, job),
            folder / "work",
            fetched,
            mode=job.mode,
            prefix=job.prefix,
            embedded=settings.embedded_milvus,
            options={"max_deleted_share": 1.0},
        ).all()


def context() -> ForkServerContext:
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(["tests.store.writer"])
    return forkserver


def start(job: Job) -> ForkServerProcess:
    process = context().Process(target=work, args=(job,))
    process.start()
    return process
