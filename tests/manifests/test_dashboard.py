"""The dashboard and the alerts over what a real server says, read by a real Prometheus."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.manifests.rendering import MANIFESTS, load
from tests.manifests.test_alerts import FOLDER, OTHERS, dashboard, rules
from tests.mcp_server.harness import running
from tests.servers.milvus_lite import free_port

ROOT = MANIFESTS.parent
PAGE = "# Installing Kubeflow\n\nApply the manifests with kubectl, then wait for the pods.\n"
DEADLINE_SECONDS = 120


class Prometheus:
    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **parameters: str) -> Any:
        answer = requests.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=30).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def values(self, expression: str) -> list[float]:
        found = self.get("query", query=expression.replace("$__rate_interval", "1m"))["result"]
        return [value for sample in found if (value := float(sample["value"][1])) == value]


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """Runs Prometheus on the loopback interface, with the rules of the alerts, over a server named as in a cluster."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed (Debian: prometheus)")
    rule_file = folder / "rules.yaml"
    rule_file.write_text(yaml.safe_dump(load(FOLDER / "rules.yaml")[0]["spec"]))
    labels = {"namespace": "kubeflow-corpus"}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rule_file)],
        "scrape_configs": [{"job_name": "mcp", "static_configs": [{"targets": [target], "labels": labels}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    process = subprocess.Popen(
        [program, *words, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"], stderr=subprocess.DEVNULL
    )
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(60)


def indexed(folder: Path) -> str:
    """Indexes one page with the real pipeline; returns the database."""
    site = folder / "site" / "docs"
    site.mkdir(parents=True)
    (site / "page.md").write_text(PAGE)
    source = {"name": "site", "type": "docs", "repo": "example/site", "url": str(site.parent), "include": ["docs/**"]}
    source |= {
        "product_area": "platform",
        "site": {"generator": "docusaurus", "root": "docs", "base_url": "https://site.example/docs/"},
    }
    catalogue = folder / "catalogue.yaml"
    catalogue.write_text(json.dumps({"sources": [source]}))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MILVUS", "EMBEDDING"))}
    words = ["run", "docs", "--catalogue", str(catalogue), "--local", str(folder / "local")]
    environ["MILVUS_URI"] = str(folder / "corpus.db")
    subprocess.run([sys.executable, "-m", "pipelines", *words], env=environ, cwd=ROOT, capture_output=True, check=True)
    return environ["MILVUS_URI"]


def ask(url: str, tool: str) -> None:
    call = {"name": tool, "arguments": {"query": "How do I install Kubeflow?"}}
    requests.post(
        f"{url}/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
        headers={"Accept": "application/json, text/event-stream"},
        timeout=60,
    ).raise_for_status()


@pytest.mark.slow
def test_every_panel_about_the_server_shows_something_and_no_alert_is_wrong(tmp_path: Path) -> None:
    database = indexed(tmp_path)
    shown = {
        (panel["title"], target["expr"])
        for panel in dashboard()["panels"]
        for target in panel["targets"]
        if not any(name in target["expr"] for name in OTHERS)
    }
    # The run has left a process that holds the database.
    with (
        running(database, MILVUS_SHARING="true") as server,
        prometheus(tmp_path, server.url.removeprefix("http://")) as watched,
    ):
        left = set(shown)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while left and time.monotonic() < deadline:
            # Nothing was indexed for the second: its calls do not end well.
            for tool in ("search_kubeflow_docs", "search_github_issues"):
                ask(server.url, tool)
            # Prometheus reads the server once a second.
            time.sleep(1)
            left -= {entry for entry in left if reachable(watched) and watched.values(entry[1])}
        assert not left, watched.get("targets")
        (group,) = watched.get("rules")["groups"]
        assert {rule["name"] for rule in group["rules"]} == {rule["alert"] for rule in rules()}
        for rule in group["rules"]:
            assert rule["health"] == "ok", rule
        firing = {rule["name"] for rule in group["rules"] if rule["alerts"]}
        # There is no Milvus to scrape, and two collections are empty; half of the calls are meant to fail.
        assert firing <= {"CorpusMilvusDown", "CorpusNotServed"}


def reachable(watched: Prometheus) -> bool:
    try:
        return bool(watched.values("up == 1"))
    except requests.ConnectionError:
        return False
