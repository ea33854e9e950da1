"""No process of a run outlives the one that started it, however that one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubeflow_corpus.processes import Terminated, descendants, exit_code, process_name, process_start

# A program with three generations below it: a shell, a step in a session of its own that will not end when asked, and
# a process of that step. The main thread waits for a thread, as KFP's does.
PROGRAM = """
import subprocess, sys, threading
from kubeflow_corpus.processes import ending_together
with ending_together():
    command = [sys.executable, "-c", sys.argv[1]]
    step = subprocess.Popen(["sh", "-c", '"$@"; true', "sh", *command], start_new_session=True)
    thread = threading.Thread(target=step.wait)
    thread.start()
    thread.join()
"""
STEP = """
import os, signal, subprocess, sys, time
from kubeflow_corpus.processes import end_with_run
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end_with_run()
subprocess.Popen([sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(300)"])
time.sleep(300)
"""


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    # The program names itself to its steps, as the runner of a pipeline does.
    named = "import os; from kubeflow_corpus.processes import *; "
    named += "os.environ[RUN_PROCESS_VARIABLE] = process_name(os.getpid())"
    process = subprocess.Popen([sys.executable, "-c", named + PROGRAM, STEP], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    for pid in [*descendants(process.pid), process.pid]:
        with_pid = Path(f"/proc/{pid}")
        if with_pid.exists():
            os.kill(pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def _gone(names: list[str]) -> bool:
    """Waits until none of these processes is there; the test's own time limit ends a wait in vain."""
    while any(process_start(int(name.partition("@")[0])) == name.partition("@")[2] for name in names):
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_everything_below_ends_with_the_program(program: subprocess.Popen[str], number: signal.Signals) -> None:
    below = [process_name(pid) for pid in descendants(program.pid)]
    assert len(below) == 3

    program.send_signal(number)

    code = program.wait()
    assert _gone(below)
    assert code == -number if number == signal.SIGKILL else code in (1, 128 + number, -number)


def test_a_signal_that_is_ignored_stays_so() -> None:
    script = (
        "import os, signal; from kubeflow_corpus.processes import *; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with ending_together():\n    os.kill(os.getpid(), signal.SIGHUP)\nprint('went on')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "went on\n"


def test_codes_are_those_of_a_shell() -> None:
    assert [exit_code(Terminated(number)) for number in (signal.SIGHUP, signal.SIGTERM)] == [129, 143]
    assert exit_code(KeyboardInterrupt()) == 130
