from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kubeflow_corpus.errors import StoreError, StoreFull, StoreUnavailable
from kubeflow_corpus.milvus import (
    connect,
    connected,
    disconnect,
    load_pymilvus,
    read_with_retry,
    translated,
)
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.versions import list_versions

from tests.servers.milvus_lite import MilvusLiteServer, free_port
from tests.store.synthetic import Run, corpus, result, rows_of

REPOSITORY = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "missing" / "x.db", "folder of MILVUS_URI .* does not exist"),
        (lambda folder: folder / "x.sqlite", "does not end in .db"),
        (lambda folder: Path(str(folder / "x.db")).write_text("old") and folder / "x.db", "is a file"),
    ],
    ids=["no folder", "no .db", "a plain file"],
)
def test_a_wrong_path_gives_one_clear_error(tmp_path: Path, make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(StoreUnavailable, match=message) as caught:
        connect(Settings(milvus_uri=str(make(tmp_path))))
    assert caught.value.remedy


def test_a_database_that_another_process_has_open_is_named_with_the_way_out(tmp_path: Path) -> None:
    uri = str(tmp_path / "held.db")
    holder = (
        "import sys; from pymilvus import MilvusClient; MilvusClient(sys.argv[1]); print('open', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder, uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with pytest.raises(StoreUnavailable, match="Another process has .*held.db.*MILVUS_SHARING"):
            connect(Settings(milvus_uri=uri))
        process.kill()
    with connected(Settings(milvus_uri=uri)) as client:
        assert client.list_collections() == []


def test_a_closed_database_is_free_for_another_process(tmp_path: Path) -> None:
    settings = Settings(milvus_uri=str(tmp_path / "x.db"))
    with connected(settings):
        pass
    code = f"from pymilvus import MilvusClient; print(MilvusClient({settings.milvus_uri!r}).list_collections())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_a_server_that_is_down_gives_one_clear_error() -> None:
    with pytest.raises(StoreUnavailable, match="does not answer.*Check MILVUS_URI"):
        connect(Settings(milvus_uri=f"http://127.0.0.1:{free_port()}"))


def test_a_path_in_the_environment_does_not_stop_the_client_library(tmp_path: Path) -> None:
    code = "from kubeflow_corpus.milvus import load_pymilvus as load; load(); import os, pymilvus; "
    code += "print(os.environ['MILVUS_URI'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"MILVUS_URI": "some/path.db", "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "some/path.db\n", done.stderr


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("[Errno 28] No space left on device: '/data/wal'", StoreFull),
        ("quota exceeded[reason=disk quota exceeded]", StoreFull),
        ("server unavailable: connection refused", StoreUnavailable),
        ("auth check failure, please check username and password", StoreUnavailable),
        ("something else", StoreError),
    ],
)
def test_what_milvus_says_becomes_an_error_of_this_project(message: str, kind: type[StoreError]) -> None:
    load_pymilvus()
    from pymilvus.exceptions import MilvusException

    error = translated("kubeflow_docs", MilvusException(message=message))
    assert type(error) is kind
    assert error.remedy


def test_reads_are_repeated_while_a_server_moves_an_alias() -> None:
    load_pymilvus()
    from pymilvus.exceptions import MilvusException

    answers = [MilvusException(message="failed to get delegator"), MilvusException(message="rate limit"), "rows"]
    pauses: list[float] = []

    def read() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    assert read_with_retry(read, sleep=pauses.append) == "rows"
    assert pauses == [0.1, 0.2]
    answers[:] = [MilvusException(message="no such field")]
    with pytest.raises(MilvusException, match="no such field"):
        read_with_retry(read)


DISK_FULL = """
import sys
from pathlib import Path
sys.path.insert(0, {repository!r})
from kubeflow_corpus.errors import StoreFull
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.milvus import connected
from tests.store.synthetic import Run, corpus, page, result, rows_of

disk, work = Path(sys.argv[1]), Path(sys.argv[2])
settings = Settings(milvus_uri=str(disk / "corpus.db"))
big = [page("site", f"big-{{n}}.md", ["A: " + f"{{n}} " * 12000]) for n in range(300)]
with connected(settings) as client:
    Run(client, work, [result(work, "site", corpus("site", 5))]).all()
    before = rows_of(client, "kubeflow_docs")
    try:
        Run(client, work, [result(work, "site", [*corpus("site", 5), *big])]).all()
    except StoreFull as error:
        print("full:", error)
    served = rows_of(client, "kubeflow_docs")
    print("served in the same process:", before.items() <= served.items())
with connected(settings) as client:
    client.load_collection("kubeflow_docs")
    served = rows_of(client, "kubeflow_docs")
    print("served after reopening:", before.items() <= served.items())
"""


@pytest.mark.slow
def test_a_full_disk_gives_one_clear_error_and_what_was_indexed_is_still_served(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = tmp_path / "full.py"
    script.write_text(DISK_FULL.format(repository=str(REPOSITORY)))
    mount = f"mount -t tmpfs -o size=4m none {disk} && exec {sys.executable} {script} {disk} {tmp_path / 'work'}"
    probe = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("a small file system cannot be mounted here: unshare -rm is refused")
    done = subprocess.run(["unshare", "-rm", "bash", "-c", mount], capture_output=True, text=True, check=False)
    assert "full: " in done.stdout, done.stderr[-2000:]
    assert "no space is left" in done.stdout
    assert "served in the same process: True" in done.stdout
    assert "served after reopening: True" in done.stdout


def test_several_processes_share_a_served_database(lite_server: MilvusLiteServer, tmp_path: Path) -> None:
    settings = Settings(milvus_uri=lite_server.uri, collection_prefix="shared")
    with connected(settings) as client:
        Run(client, tmp_path, [result(tmp_path, "site", corpus("site", 2))], prefix="shared", embedded=False).all()
    code = f"from pymilvus import MilvusClient; c = MilvusClient({lite_server.uri!r}); "
    code += "print(len(c.query('shared_kubeflow_docs', filter='id != \"\"', limit=100)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "6\n", done.stderr
    with connected(settings) as client:
        assert len(rows_of(client, "shared_kubeflow_docs")) == 6
        for version in list_versions(client, "shared_kubeflow_docs"):
            client.drop_collection(version.name)


def test_closing_one_client_of_an_embedded_database_leaves_the_others_open(tmp_path: Path) -> None:
    settings = Settings(milvus_uri=str(tmp_path / "corpus.db"))
    first, second = connect(settings), connect(settings)

    disconnect(first, settings)

    assert second.list_collections() == []
    disconnect(second, settings)


def test_the_last_client_of_an_embedded_database_gives_it_to_other_processes(tmp_path: Path) -> None:
    settings = Settings(milvus_uri=str(tmp_path / "corpus.db"))
    for client in [connect(settings), connect(settings)]:
        disconnect(client, settings)

    script = (
        "from kubeflow_corpus.milvus import connected; from kubeflow_corpus.settings import Settings\n"
        f"with connected(Settings(milvus_uri={settings.milvus_uri!r})) as client: print(client.list_collections())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.stdout.strip() == "[]", done.stderr
