"""What one laptop has open at once on one `.db`: two editors, a server for the team, a shell, a run of the pipeline."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.mcp_server.harness import running
from tests.pipelines.test_run import Ran, rows, run, write_catalogue, write_site

# More of both by hand: SHARING_SEARCHES=200 SHARING_KILLS=20.
SEARCHES = int(os.environ.get("SHARING_SEARCHES", "15"))
KILLS = int(os.environ.get("SHARING_KILLS", "4"))
TREES = ("apple", "pear", "plum", "cherry", "quince", "medlar", "walnut", "hazel", "almond", "fig")
QUESTION = "When are apple trees pruned?"
SHARED = {"MILVUS_SHARING": "true", "MCP_SEARCH_SECONDS": "60"}


@dataclass
class Editor:
    """`kubeflow-corpus mcp` on stdio, as an editor starts it."""

    uri: str
    process: subprocess.Popen[str] = field(init=False)
    calls: int = 0

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kubeflow_corpus.cli.main", "mcp"],
            env={**os.environ, **SHARED, "MILVUS_URI": self.uri},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "editor", "version": "1"}}
        self._send("initialize", info)
        assert self.process.stdin is not None
        self.process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')

    def _send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.calls += 1
        message = {"jsonrpc": "2.0", "id": self.calls, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        while line := self.process.stdout.readline():
            answer = dict(json.loads(line))
            if answer.get("id") == self.calls:
                return answer
        raise AssertionError("the server ended")

    def ask(self) -> str:
        found = self._send("tools/call", {"name": "search_kubeflow_docs", "arguments": {"query": QUESTION}})
        return str(found["result"]["content"][0]["text"])

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def ask_http(url: str) -> str:
    body = {"name": "search_kubeflow_docs", "arguments": {"query": QUESTION}}
    headers = {"Accept": "application/json, text/event-stream"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": body}
    answer = requests.post(f"{url}/mcp", json=message, headers=headers, timeout=120)
    return str(answer.json()["result"]["content"][0]["text"])


def ask_shell(uri: str) -> str:
    words = ["search", "docs", QUESTION, "--timeout", "60"]
    done = subprocess.run(
        [sys.executable, "-m", "kubeflow_corpus.cli.main", *words],
        env={**os.environ, **SHARED, "MILVUS_URI": uri},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def write_pages(folder: Path, count: int) -> Path:
    pages = {f"{tree}-{number}": f"Prune {tree} trees of kind {number} in winter." for tree in TREES[:count]
             for number in range(4)}  # fmt: skip
    write_site(folder / "orchard", **pages)
    return write_catalogue(folder, orchard="orchard")


def index(folder: Path, catalogue: Path, **environment: str) -> Ran:
    return run(folder, "docs", "--catalogue", str(catalogue), "--wait", "120", **environment)


def rows_alone(folder: Path, catalogue: Path) -> list[list[str]]:
    """What one run that nobody disturbs makes of the same pages."""
    assert index(folder, catalogue, MILVUS_SHARING="false").code == 0
    return rows(folder)


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder with an index of two kinds of trees, and the database in it."""
    catalogue = write_pages(tmp_path, 2)
    first = index(tmp_path, catalogue, **SHARED)
    assert first.code == 0, first.err
    uri = str(tmp_path / "local" / "corpus.db")
    yield tmp_path, uri
    for server in serving(uri):
        os.kill(server, signal.SIGTERM)


def serving(uri: str) -> list[int]:
    from tests.test_milvus_sharing import servers

    return servers(Path(uri))


@pytest.mark.slow
@pytest.mark.lengthy
@pytest.mark.timeout(3600)
def test_two_editors_a_team_server_a_shell_and_a_run_work_on_one_file(laptop: tuple[Path, str]) -> None:
    folder, uri = laptop
    wrong: list[str] = []

    def many(ask: Callable[[], str], times: int) -> None:
        wrong.extend(text for text in (ask() for _ in range(times)) if "[c1]" not in text)

    ran: list[Ran] = []
    with ExitStack() as stack:
        editors = [Editor(uri) for _ in range(2)]
        for editor in editors:
            stack.callback(editor.kill)
        team = stack.enter_context(running(uri, MILVUS_SHARING="true"))
        catalogue = write_pages(folder, len(TREES))
        threads = [threading.Thread(target=many, args=(editor.ask, SEARCHES)) for editor in editors]
        threads += [
            threading.Thread(target=many, args=(lambda: ask_http(team.url), SEARCHES)),
            threading.Thread(target=many, args=(lambda: ask_shell(uri), max(SEARCHES // 5, 3))),
            threading.Thread(target=lambda: ran.append(index(folder, catalogue, **SHARED))),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(serving(uri)) == 1
    assert not wrong, wrong[:3]
    assert ran[0].code == 0, ran[0].err
    for server in serving(uri):
        os.kill(server, signal.SIGTERM)
        wait_for_end(server)
    assert key(rows(folder)) == key(rows_alone(folder / "alone", catalogue))


def key(found: list[list[str]]) -> list[tuple[str, str]]:
    """Rows but for their revision: a plain folder has that of its whole content."""
    return [(row[0], row[4]) for row in found]


def wait_for_end(process: int) -> None:
    deadline = 600
    while Path(f"/proc/{process}").exists() and deadline:
        deadline -= 1
        threading.Event().wait(0.1)


@pytest.mark.slow
@pytest.mark.lengthy
@pytest.mark.timeout(3600)
def test_whoever_is_killed_the_others_finish(laptop: tuple[Path, str]) -> None:
    folder, uri = laptop
    catalogue = write_pages(folder, len(TREES))
    dice = random.Random(7)
    command = [sys.executable, "-m", "pipelines", "run", "docs", "--catalogue", str(catalogue), "--wait", "120"]
    with ExitStack() as stack:
        editors = [Editor(uri) for _ in range(2)]
        for editor in editors:
            stack.callback(editor.kill)
        team = stack.enter_context(running(uri, MILVUS_SHARING="true"))
        for _ in range(KILLS):
            writer = subprocess.Popen(
                [*command, "--local", str(folder / "local")],
                env={**os.environ, **SHARED},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            threading.Event().wait(dice.uniform(0, 8))
            victim = dice.choice(["editor", "run", "run"])
            if victim == "editor":
                dead = dice.choice(editors)
                dead.kill()
                assert all("[c1]" in editor.ask() for editor in editors if editor is not dead)
                assert writer.wait() == 0
                dead.start()
            else:
                os.killpg(writer.pid, signal.SIGKILL)
                writer.wait()
            assert all("[c1]" in editor.ask() for editor in editors)
            assert "[c1]" in ask_http(team.url)
            assert "[c1]" in ask_shell(uri)
    last = index(folder, catalogue, **SHARED)
    assert last.code == 0, last.err
    for server in serving(uri):
        os.kill(server, signal.SIGTERM)
        wait_for_end(server)
    assert key(rows(folder)) == key(rows_alone(folder / "alone", catalogue))
