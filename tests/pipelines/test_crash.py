"""Steps that are killed, through KFP's local runner: one notice, which names the run and the step, and never two."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubeflow_corpus.ingest.options import RunOptions

from pipelines.graph import reported_pipeline
from pipelines.local import LocalRun, Workplace, run_pipeline
from pipelines.placement import Placement
from tests.pipelines.graphs import ending_graph
from tests.pipelines.test_run import run, write_catalogue, write_site
from tests.servers.webhook import Webhook, serve_webhook

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with serve_webhook() as server:
        monkeypatch.setenv("NOTIFY_WEBHOOK_URL", server.url)
        yield server


def ended(folder: Path, how: str) -> LocalRun:
    """The pipeline of a cluster, with the task that notifies of a crash, around a graph of one step."""
    pipeline = reported_pipeline("docs", "Docs.", {"docs": ending_graph("docs", how)}, Placement(crash_notice=True))
    return run_pipeline(pipeline, RunOptions(), Workplace.new(folder, "docs"))


def test_killed_steps_are_notified_once_though_there_is_no_report(tmp_path: Path, webhook: Webhook) -> None:
    result = ended(tmp_path, "killed")
    assert "FAILURE" in result.error
    assert result.published == {}
    (told,) = webhook.told
    assert told.startswith("docs: run docs")
    assert "ended before its report: Task docs failed." in told


def test_a_failure_that_steps_understand_is_notified_by_the_report_alone(tmp_path: Path, webhook: Webhook) -> None:
    result = ended(tmp_path, "failed")
    assert "FAILURE" in result.error, "the run is marked as failed"
    assert webhook.told == ["docs: collection failed at apply: the disk is full. Free some space"]


# Read by every Python process of the run: the step that cuts pages is killed as it starts the first process that cuts.
KILLER = """
import os, signal, sys
class Killer:
    def find_spec(self, name, path=None, target=None):
        if name == "multiprocessing.popen_spawn_posix":
            os.kill(os.getpid(), signal.SIGKILL)
sys.meta_path.insert(0, Killer())
"""


def test_a_killed_step_of_a_local_run_is_named_and_the_program_that_started_it_notifies_once(
    tmp_path: Path, webhook: Webhook
) -> None:
    write_site(tmp_path / "bees", hives="Look into each hive once a week.")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(KILLER)
    catalogue = str(write_catalogue(tmp_path, bees="bees"))
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    ran = run(tmp_path, "docs", "--catalogue", catalogue, PYTHONPATH=path)
    assert ran.code == 1
    assert ran.error.startswith("error: docs: source bees failed at chunk: its process ended without a message: killed")
    (told,) = webhook.told
    assert told == f"run {next((tmp_path / 'local' / 'runs').iterdir()).name}: {ran.error.removeprefix('error: ')}"
