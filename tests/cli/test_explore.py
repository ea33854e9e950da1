"""The command that serves the page: what it prints, and what it refuses before it opens anything."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from kubeflow_corpus.cli.main import main

from tests.query.corpus import database


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return database(tmp_path_factory.mktemp("explore"))


def test_a_port_that_is_taken_is_named(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MILVUS_URI", uri)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert main(["explore", "--port", str(other.getsockname()[1])]) == 1
    assert "--port" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["-1", "70000"])
def test_a_port_that_does_not_exist_is_refused(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], port: str
) -> None:
    monkeypatch.setenv("MILVUS_URI", uri)
    assert main(["explore", "--port", port]) == 1
    assert "cannot be used" in capsys.readouterr().err


def test_a_missing_corpus_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MILVUS_URI", str(tmp_path / "none.db"))
    assert main(["explore", "--port", "0"]) == 1
    assert "none.db" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_listens_on_this_machine_alone_and_ends_in_order(uri: str, tmp_path: Path, number: signal.Signals) -> None:
    copy = shutil.copytree(uri, tmp_path / "corpus.db")
    environ = {**os.environ, "MILVUS_URI": str(copy), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "kubeflow_corpus.cli.main", "explore", "--port", "0"]
    process = subprocess.Popen(command, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("Open http://127.0.0.1:")
    url = line.split()[1]
    with urllib.request.urlopen(url) as answer:
        assert answer.status == 200
    with socket.socket() as elsewhere, pytest.raises(OSError):
        # Another address of the loopback network is this machine, too, and is not listened on.
        elsewhere.connect(("127.0.0.2", int(url.rstrip("/").rpartition(":")[2])))
    process.send_signal(number)
    # Without a question set there is nothing to write, and no token.
    assert "token" not in process.communicate(timeout=60)[0]
    assert process.returncode == 0
