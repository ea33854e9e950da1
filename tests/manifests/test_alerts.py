"""Alerts and dashboard: they ask for figures that exist, fire when they should, and say what to do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from kubeflow_corpus.mcp_server.failures import PUBLIC_CODES
from kubeflow_corpus.mcp_server.freshness import Freshness
from kubeflow_corpus.mcp_server.metrics import Metrics
from kubeflow_corpus.settings import Settings

from tests.manifests.rendering import MANIFESTS, load, rendered
from tests.manifests.schemas import DASHBOARD

FOLDER = MANIFESTS / "components" / "monitoring"
CASES = Path(__file__).with_name("alerts.yaml")
# Of Kubernetes, TEI, cert-manager, Istio, and of the issuer, which has no registry.
OTHERS = {
    "up", "te_queue_size", "kubelet_volume_stats_used_bytes", "kubelet_volume_stats_capacity_bytes",
    "certmanager_certificate_expiration_timestamp_seconds", "istio_requests_total",
    "kubeflow_corpus_session_key_made_timestamp_seconds",
}  # fmt: skip


def rules() -> list[dict[str, Any]]:
    (found,) = (item for item in rendered("oke") if item["kind"] == "PrometheusRule")
    return [rule for group in found["spec"]["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    (held,) = (item for item in rendered("oke") if item["metadata"]["name"] == "kubeflow-corpus-dashboard")
    assert held["metadata"]["labels"]["grafana_dashboard"] == "1"
    (text,) = held["data"].values()
    return dict(json.loads(text))


def expressions() -> list[str]:
    shown = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    return [*(rule["expr"] for rule in rules()), *shown]


def known_figures() -> set[str]:
    metrics = Metrics()
    Freshness(Settings(milvus_uri="corpus.db"), metrics.registry)
    names = set()
    for family in metrics.registry.collect():
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        names |= {family.name + suffix for suffix in suffixes}
    return names | OTHERS


def test_every_figure_that_is_asked_for_exists() -> None:
    for expression in expressions():
        bare = re.sub(r"\{[^}]*\}|\"[^\"]*\"|by \([^)]*\)", "", expression)
        names = set(re.findall(r"\b([a-z]+_[a-z_]+|up)\b", bare)) - {"histogram_quantile", "__rate_interval"}
        assert names and names <= known_figures(), expression


def test_every_code_that_is_asked_for_can_be_answered() -> None:
    codes = {
        code
        for text in expressions()
        for list_ in re.findall(r'code=~?"([A-Z_|]+)"', text)
        for code in list_.split("|")
    }
    assert codes and codes <= set(PUBLIC_CODES)


def test_every_alert_has_a_page_that_says_what_to_do() -> None:
    text = (MANIFESTS.parent / "docs" / "how-to" / "alerts.md").read_text(encoding="utf-8")
    pages = re.findall(r"^## (\w+)\n\n\S", text, re.M)
    assert pages == [rule["alert"] for rule in rules()]
    for rule in rules():
        assert rule["annotations"]["runbook_url"].endswith(f"/blob/main/docs/how-to/alerts.md#{rule['alert'].lower()}")
        assert rule["annotations"]["summary"] and rule["labels"]["severity"] in ("warning", "critical")


def test_every_alert_fires_and_is_quiet_when_it_should(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool (Debian: prometheus)")
    cases = load(CASES)[0]
    tried = {sample["labels"].split('"')[1] for sample in cases["tests"][1]["promql_expr_test"][0]["exp_samples"]}
    assert (
        tried == {case["alertname"] for case in cases["tests"][0]["alert_rule_test"]} == {r["alert"] for r in rules()}
    )
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(load(FOLDER / "rules.yaml")[0]["spec"]))
    shutil.copy(CASES, tmp_path / "cases.yaml")
    for words in (["check", "rules", "rules.yaml"], ["test", "rules", "cases.yaml"]):
        done = subprocess.run([promtool, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_is_one_that_grafana_reads_and_its_panels_do_not_overlap() -> None:
    found = dashboard()
    jsonschema.validate(found, DASHBOARD)
    places = set()
    for panel in found["panels"]:
        where = panel["gridPos"]
        own = {
            (x, y)
            for x in range(where["x"], where["x"] + where["w"])
            for y in range(where["y"], where["y"] + where["h"])
        }
        assert not own & places and where["x"] + where["w"] <= 24
        places |= own
    assert len({panel["id"] for panel in found["panels"]}) == len(found["panels"])
