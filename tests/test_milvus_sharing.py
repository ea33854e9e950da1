"""One `.db` path, many processes: who serves it, who is led to it, and what is left when one of them dies."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from kubeflow_corpus import milvus_sharing
from kubeflow_corpus.errors import StoreUnavailable
from kubeflow_corpus.mcp_server.assembly import StatusReader
from kubeflow_corpus.milvus import abandon, connect, connected, disconnect
from kubeflow_corpus.milvus_sharing import (
    CLIENTS_FILE,
    SERVER_FILE,
    leave,
    private_file,
    served_at,
    try_lock,
    use,
    write_record,
)
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.plan import Mode

from tests.query.corpus import MODEL, fill
from tests.store.synthetic import Run, corpus, result, rows_of

QUESTION = "How does caching of steps work?"
CLIENT = """
import sys
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.settings import Settings
with connected(Settings(milvus_uri=sys.argv[1], milvus_sharing=True)) as client:
    print(client.list_collections(), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "corpus.db"
    yield path
    for server in servers(path):
        os.kill(server, signal.SIGKILL)


def shared(path: Path) -> Settings:
    return Settings(milvus_uri=str(path), milvus_sharing=True)


def servers(path: Path) -> list[int]:
    """Processes that serve a database, by their command lines."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if milvus_sharing.SERVER_MODULE.encode() in words and os.fsencode(os.path.realpath(path)) in words:
            found.append(int(folder.name))
    return found


def client(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.communicate(timeout=60)


def until(holds: Callable[[], bool], what: str) -> None:
    # Far beyond what it takes: a busy machine decides nothing here.
    deadline = time.monotonic() + 200
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_processes_that_start_at_once_share_one_server(path: Path) -> None:
    processes = [client(path) for _ in range(5)]
    assert [said(process) for process in processes] == ["[]"] * 5
    assert len(servers(path)) == 1
    end(*processes)


def test_what_one_process_writes_another_reads(path: Path, tmp_path: Path) -> None:
    with connected(shared(path)) as database:
        Run(database, tmp_path, [result(tmp_path, "site", corpus("site", 2))], embedded=False).all()
        process = client(path)
        assert "kubeflow_docs_v1" in said(process)
        end(process)
        assert len(rows_of(database, "kubeflow_docs")) == 6


def test_killing_a_client_harms_no_other_and_the_server_is_not_its_child(path: Path) -> None:
    first, second = client(path), client(path)
    assert said(first) == said(second) == "[]"
    with connected(shared(path)) as database:
        first.send_signal(signal.SIGKILL)
        second.send_signal(signal.SIGKILL)
        first.wait()
        second.wait()
        assert database.list_collections() == []
    end(first, second)


def test_the_locks_of_a_server_that_is_gone_are_waited_for(path: Path) -> None:
    path.mkdir()
    held = private_file(path / SERVER_FILE)
    assert try_lock(held, shared=False)
    write_record(held, {"socket": str(path / "gone")})
    # What the system does a moment after it has ended a process.
    freed = threading.Timer(0.3, held.close)
    freed.start()
    with connected(shared(path)) as database:
        assert database.list_collections() == []
    freed.join()


def test_a_search_after_the_server_was_killed_starts_another(path: Path) -> None:
    fill(str(path))
    from kubeflow_corpus.query.client import CorpusClient

    with CorpusClient(settings=shared(path), embeddings=MODEL, timeout=60) as corpus_client:
        before = corpus_client.search_docs(QUESTION).hits
        assert before
        (server,) = servers(path)
        os.kill(server, signal.SIGKILL)
        until(lambda: not served_at(path), "the lock of a killed process is free")
        assert [hit.unit_id for hit in corpus_client.search_docs(QUESTION).hits] == [hit.unit_id for hit in before]
        assert servers(path) != [server]


@pytest.mark.parametrize("name", ["create_collection", "upsert", "alter_collection_properties", "alter_alias"])
def test_a_run_whose_server_is_killed_says_so_and_the_next_one_of_this_process_need_not_wait(
    path: Path, tmp_path: Path, name: str
) -> None:
    def store(edit: str, mode: Mode, *, kills: bool = False) -> str:
        client, workdir = connect(shared(path)), Path(mkdtemp(dir=tmp_path))
        real = getattr(client, name)

        def kill_and_call(*words: Any, **named: Any) -> Any:
            for server in servers(path):
                os.kill(server, signal.SIGKILL)
            until(lambda: not served_at(path), "the lock of a killed process is free")
            return real(*words, **named)

        if kills:
            setattr(client, name, kill_and_call)
        try:
            return (
                Run(client, workdir, [result(workdir, "site", corpus("site", 4, edit=edit))], mode=mode).all().outcome
            )
        finally:
            abandon(shared(path))

    assert store("", "incremental") == "published"
    with pytest.raises(StoreUnavailable, match="the process that shares the database between programs has ended"):
        store(" changed", "rebuild", kills=True)

    assert store(" changed", "rebuild") == "published"
    with connected(shared(path)) as client:
        texts = [row["content_text"] for row in rows_of(client, "kubeflow_docs").values()]
    assert len(texts) == 12 and sum(text.endswith(" changed") for text in texts) == 1


def test_the_status_of_an_mcp_server_survives_the_server_of_the_database(path: Path) -> None:
    fill(str(path))
    # A clock that leaps: each call reads again what is there.
    status = StatusReader(shared(path), clock=map(float, count(step=1000)).__next__)
    before = asyncio.run(status())
    assert [state["live"] for state in before].count(None) < len(before)
    (server,) = servers(path)
    os.kill(server, signal.SIGKILL)
    until(lambda: not served_at(path), "the lock of a killed process is free")
    assert [state["live"] for state in asyncio.run(status())] == [state["live"] for state in before]


def test_a_reader_finds_the_database_that_took_the_place_of_a_removed_one(path: Path) -> None:
    from kubeflow_corpus.query.client import CorpusClient

    fill(str(path))
    with CorpusClient(settings=shared(path), embeddings=MODEL, timeout=60) as corpus_client:
        assert corpus_client.search_docs(QUESTION).hits
        shutil.rmtree(path)
        fill(str(path))
        process = client(path)
        said(process)
        assert corpus_client.search_docs(QUESTION).hits
        end(process)


def test_only_this_user_can_reach_the_server(path: Path) -> None:
    address = use(path)
    try:
        assert address.startswith("unix:")
        socket = Path(address.removeprefix("unix:"))
        assert stat.S_ISSOCK(socket.stat().st_mode) and not socket.stat().st_mode & 0o077
        assert not socket.parent.stat().st_mode & 0o077 and socket.parent.stat().st_uid == os.getuid()
        for name in (SERVER_FILE, CLIENTS_FILE, "server.log"):
            assert not (path / name).stat().st_mode & 0o077, name
        (server,) = servers(path)
        listening = {line.split()[3] for line in Path(f"/proc/{server}/net/tcp").read_text().splitlines()[1:]}
        own = {os.readlink(file) for file in Path(f"/proc/{server}/fd").iterdir()}
        inodes = [line.split()[9] for line in Path(f"/proc/{server}/net/tcp").read_text().splitlines()[1:]]
        assert listening is not None and not [inode for inode in inodes if f"socket:[{inode}]" in own]
    finally:
        leave(path)


def test_the_server_gets_no_secret_of_who_starts_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "hunter2")
    use(path)
    try:
        (server,) = servers(path)
        assert b"hunter2" not in Path(f"/proc/{server}/environ").read_bytes()
    finally:
        leave(path)


def test_a_module_in_the_folder_where_a_program_starts_is_not_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pymilvus", "milvus_lite", "grpc", "kubeflow_corpus"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    assert use(path)
    leave(path)
    assert not (tmp_path / "ran").exists()


@contextmanager
def impatient_server(path: Path) -> Iterator[None]:
    """A server that ends at once when nobody uses it, and not before the users of the block have come."""
    path.mkdir(exist_ok=True)
    words = [milvus_sharing.SERVER_MODULE, str(path), "--idle-seconds", "0.2"]
    with private_file(path / CLIENTS_FILE) as user:
        assert try_lock(user, shared=True)
        subprocess.run([sys.executable, "-P", "-m", *words], check=True)
        yield


def test_it_stays_while_somebody_uses_it_and_ends_when_nobody_does(path: Path) -> None:
    with impatient_server(path):
        database = connect(shared(path))
    try:
        (server,) = servers(path)
        # It looks every moment whether anybody needs it: somebody does, without a call.
        time.sleep(2)
        assert servers(path) == [server]
        assert database.list_collections() == []
    finally:
        disconnect(database, shared(path))
    until(lambda: not servers(path), "the server ends")
    assert not served_at(path)
    process = client(path)
    assert said(process) == "[]", "the next one starts it again"
    end(process)


def test_a_client_that_was_killed_does_not_keep_it(path: Path) -> None:
    with impatient_server(path):
        process = client(path)
        assert said(process) == "[]"
    process.kill()
    end(process)
    until(lambda: not servers(path), "the server ends")


def test_a_server_whose_database_was_removed_ends_and_the_next_run_begins_again(path: Path, tmp_path: Path) -> None:
    with connected(shared(path)) as database:
        Run(database, tmp_path, [result(tmp_path, "site", corpus("site", 2))], embedded=False).all()
    (server,) = servers(path)
    shutil.rmtree(path)
    with connected(shared(path)) as database:
        assert database.list_collections() == []
    until(lambda: server not in servers(path), "the server of the removed database ends")
    assert served_at(path)


def test_a_copy_and_what_takes_the_place_of_a_renamed_database_are_not_led_to_its_server(
    path: Path, tmp_path: Path
) -> None:
    with connected(shared(path)) as database:
        Run(database, tmp_path, [result(tmp_path, "site", corpus("site", 2))], embedded=False).all()
        database.flush("kubeflow_docs")
        copy, moved = tmp_path / "copy.db", tmp_path / "moved.db"
        shutil.copytree(path, copy)
        assert not served_at(copy)
        path.rename(moved)
        with connected(shared(path)) as fresh:
            assert fresh.list_collections() == []
    until(lambda: not served_at(moved), "the server of a renamed database ends")
    with connected(Settings(milvus_uri=str(moved), milvus_sharing=False)) as database:
        database.load_collection("kubeflow_docs")
        assert len(rows_of(database, "kubeflow_docs")) == 6


def test_a_database_that_a_foreign_program_holds_is_named_with_the_reason(path: Path) -> None:
    holder = "import sys; from pymilvus import MilvusClient; c = MilvusClient(sys.argv[1]); print('open', flush=True); "
    process = subprocess.Popen(
        [sys.executable, "-c", holder + "sys.stdin.read()", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert said(process) == "open"
    with pytest.raises(StoreUnavailable, match="Another program has it open.*MILVUS_SHARING=false"):
        connect(shared(path))
    end(process)
    with connected(shared(path)) as database:
        assert database.list_collections() == []


def test_a_step_that_has_the_database_to_itself_for_a_moment_is_waited_for(path: Path) -> None:
    alone = Settings(milvus_uri=str(path), milvus_sharing=False)
    database = connect(alone)
    process = client(path)
    time.sleep(2)
    disconnect(database, alone)
    assert said(process) == "[]"
    end(process)
