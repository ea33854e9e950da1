"""``make deploy OVERLAY=oke``: applies an overlay in the order that is right, waits for each part, asks a question.

Everything that has to be there before is looked at first and named together; nothing is applied while something is
missing. ``--dry-run`` prints the steps and what is not filled in yet, and calls no cluster.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

MANIFESTS: Final = Path(__file__).parent
OVERLAYS: Final = tuple(sorted(folder.name for folder in (MANIFESTS / "overlays").iterdir() if folder.is_dir()))
MILVUS_CHART: Final = ("milvus", "--repo", "https://zilliztech.github.io/milvus-helm", "--version", "5.0.19")
CORPUS: Final = "kubeflow-corpus"
MILVUS: Final = "milvus"
EDGE: Final = "corpus-edge"
QUESTION: Final = "How do I install Kubeflow?"
# What stands in an overlay until somebody fills it in, and what goes there.
PLACEHOLDERS: Final = {
    "sha256:" + "0" * 64: "the digest of the image",
    "region.ocir.io/tenancy": "the registry of the image",
    "registry.invalid": "the registry of the image",
    "ocid1.vault.oc1.region.vault": "the OCID of the vault",
    "corpus.example.org": "the host of the edge",
    "corpus.localdev.example.org": "the host of the edge",
}
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """Something that has to be in the cluster before.

    Attributes:
        name: What it is.
        command: Arguments of kubectl; it is there when they succeed and print something.
        remedy: How it gets there.
    """

    name: str
    command: tuple[str, ...]
    remedy: str


@dataclass(frozen=True, slots=True)
class Action:
    """One call of a program.

    Attributes:
        command: The words.
        objects: What it reads from its standard input, as manifests.
    """

    command: tuple[str, ...]
    objects: tuple[Object, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yields what a dry run prints."""
        if self.objects:
            yield f"# {', '.join(_label(item) for item in self.objects)}"
        yield shlex.join(self.command)


@dataclass(frozen=True, slots=True)
class Step:
    """What is applied together, with what is waited for."""

    title: str
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Deployment:
    """One overlay with what is chosen beside it.

    Attributes:
        overlay: Its name.
        objects: What it renders to.
        cluster_milvus: Whether Milvus runs as separate parts with an object store outside of the cluster.
        edge: Whether the public edge is installed too.
        question: What is asked at the end.
    """

    overlay: str
    objects: tuple[Object, ...]
    cluster_milvus: bool = False
    edge: bool = False
    question: str = QUESTION

    @property
    def runs_namespace(self) -> str:
        """Where the pipelines run."""
        return next(
            str(item["metadata"]["namespace"]) for item in self.objects if _is_job(item, "kubeflow-corpus-schedule")
        )

    def has(self, *kinds: str) -> bool:
        """Whether it renders an object of one of these kinds."""
        return any(item["kind"] in kinds for item in self.objects)

    def chosen(self, namespace: str = "", *kinds: str, without: Sequence[str] = ()) -> tuple[Object, ...]:
        """Returns its objects of a namespace ("" is every one) and of some kinds (none is all)."""
        return tuple(
            item
            for item in self.objects
            if (not namespace or item["metadata"].get("namespace") == namespace)
            and (not kinds or item["kind"] in kinds)
            and item["kind"] not in without
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overlay", choices=OVERLAYS)
    parser.add_argument("--dry-run", action="store_true", help="print the steps and apply nothing")
    parser.add_argument("--cluster-milvus", action="store_true", help="Milvus in separate parts (values-cluster.yaml)")
    parser.add_argument("--edge", action="store_true", help="install the public edge too (needs Istio)")
    parser.add_argument("--question", default=QUESTION, help="what is asked at the end")
    options = parser.parse_args(arguments)
    if options.edge and not (MANIFESTS / "overlays" / options.overlay / "edge-values.yaml").exists():
        parser.error(f"the overlay {options.overlay} has no edge-values.yaml")
    deployment = Deployment(
        options.overlay, render(options.overlay), options.cluster_milvus, options.edge, options.question
    )
    left = unfilled(deployment)
    if options.dry_run:
        print_plan(deployment, left)
        return 0
    if missing := [*left, *unmet(deployment)]:
        print(
            "error: nothing was applied. Before that:\n" + "\n".join(f"- {line}" for line in missing), file=sys.stderr
        )
        return 1
    return apply(deployment)


def render(overlay: str) -> tuple[Object, ...]:
    """Returns the objects of an overlay."""
    done = subprocess.run(
        [program("kubectl"), "kustomize", str(MANIFESTS / "overlays" / overlay)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"error: the overlay {overlay} cannot be rendered: {done.stderr.strip()}")
    return tuple(item for item in YAML(typ="safe").load_all(done.stdout) if item)


def program(name: str) -> str:
    """Returns where a program is: on the path, or beside this Python."""
    beside = Path(sys.executable).parent / name
    found = shutil.which(name) or (str(beside) if beside.exists() else None)
    if found is None:
        raise SystemExit(f"error: there is no {name}. Install it, or put it on the PATH")
    return found


def unfilled(deployment: Deployment) -> list[str]:
    """Returns what still has to be filled in, with the file."""
    folder = MANIFESTS / "overlays" / deployment.overlay
    files = [file for file in sorted(folder.glob("*.yaml")) if deployment.edge or file.name != "edge-values.yaml"]
    found = []
    for file in files:
        text = "\n".join(
            line for line in file.read_text(encoding="utf-8").splitlines() if not line.strip().startswith("#")
        )
        found += [
            f"{file.relative_to(MANIFESTS.parent)}: fill in {what} ({place})"
            for place, what in PLACEHOLDERS.items()
            if place in text
        ]
    return found


def prerequisites(deployment: Deployment) -> list[Prerequisite]:
    """Returns what has to be in the cluster before."""
    found = [
        Prerequisite("a cluster that answers", ("version",), "point kubectl to it: kubectl config use-context NAME"),
        Prerequisite(
            "Kubeflow Pipelines",
            ("-n", deployment.runs_namespace, "get", "service", "ml-pipeline", "-o", "name"),
            "install Kubeflow Pipelines 2.15 to 2.17",
        ),
        Prerequisite(
            "an engine for network policies",
            (
                "get",
                "daemonsets",
                "-A",
                "-l",
                "k8s-app in (calico-node,cilium,kindnet,kube-router,canal)",
                "-o",
                "name",
            ),
            "install Calico: without an engine every policy is void, and the MCP server takes calls without a token",
        ),
        Prerequisite(
            "the Metrics Server", ("get", "apiservice", "v1beta1.metrics.k8s.io", "-o", "name"), "autoscalers ask it"
        ),
    ]
    for kind, name in (
        ("ExternalSecret", "externalsecrets.external-secrets.io"),
        ("ServiceMonitor", "servicemonitors.monitoring.coreos.com"),
    ):
        if deployment.has(kind):
            found.append(_crd(name))
    if deployment.edge or _in_mesh(deployment):
        found.append(_crd("virtualservices.networking.istio.io"))
    if deployment.edge:
        found += _edge_prerequisites(deployment)
    found += [
        Prerequisite(
            f"nodes with the label {label}={value}",
            ("get", "nodes", "-l", f"{label}={value}", "-o", "name"),
            f"label them: kubectl label node NAME {label}={value}",
        )
        for label, value in sorted(_node_labels(deployment))
    ]
    return [*found, *_secrets(deployment)]


def _crd(name: str) -> Prerequisite:
    return Prerequisite(f"the kind {name}", ("get", "crd", name, "-o", "name"), "install the operator that brings it")


def _edge_prerequisites(deployment: Deployment) -> Iterator[Prerequisite]:
    """Yields what the gateway and the issuer find in their namespace; the chart makes neither."""
    file = MANIFESTS / "overlays" / deployment.overlay / "edge-values.yaml"
    # The other parser knows no URL in a list in brackets.
    values = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    wanted = {name: "docker-registry" for name in values["image"].get("pullSecrets", [])}
    tls = values.get("tls", {})
    if tls.get("acme", {}).get("email"):
        yield _crd("certificates.cert-manager.io")
    else:
        wanted[tls.get("secretName", "corpus-edge-tls")] = "tls"
    for name, kind in wanted.items():
        yield Prerequisite(
            f"the Secret {name} in {EDGE}",
            ("-n", EDGE, "get", "secret", name, "-o", "name"),
            f"kubectl create namespace {EDGE}; kubectl -n {EDGE} create secret {kind} {name} ...",
        )


def _in_mesh(deployment: Deployment) -> bool:
    return any("istio-injection" in item["metadata"].get("labels", {}) for item in deployment.chosen("", "Namespace"))


def _node_labels(deployment: Deployment) -> set[tuple[str, str]]:
    templates = [item["spec"]["template"]["spec"] for item in deployment.chosen("", "Deployment", "StatefulSet", "Job")]
    return {pair for pod in templates for pair in pod.get("nodeSelector", {}).items()}


def _secrets(deployment: Deployment) -> Iterator[Prerequisite]:
    """Yields the Secrets that pods need and that no ExternalSecret makes."""
    made = {
        (item["metadata"]["namespace"], item["spec"]["target"]["name"])
        for item in deployment.chosen("", "ExternalSecret")
    }
    optional = {"embeddings-api-key"}
    for item in YAML(typ="safe").load_all((MANIFESTS / "secrets" / "templates.yaml").read_text(encoding="utf-8")):
        namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
        if name not in optional and (namespace, name) not in made:
            keys = " ".join(f"--from-literal={key}=..." for key in item["stringData"])
            yield Prerequisite(
                f"the Secret {name} in {namespace}",
                ("-n", namespace, "get", "secret", name, "-o", "name"),
                f"kubectl create namespace {namespace}; kubectl -n {namespace} create secret generic {name} {keys}",
            )


def unmet(deployment: Deployment) -> list[str]:
    """Returns the prerequisites that are missing, with their remedies."""
    kubectl = program("kubectl")
    program("helm")
    missing = []
    for wanted in prerequisites(deployment):
        done = subprocess.run([kubectl, *wanted.command], capture_output=True, text=True, check=False)
        if done.returncode or not done.stdout.strip():
            missing.append(f"{wanted.name} is missing: {wanted.remedy}")
            if wanted.command == ("version",):
                # Without a cluster everything else would be missing, too.
                break
    return missing


def steps(deployment: Deployment) -> list[Step]:
    """Returns what is done, in order."""
    found = [
        Step("Namespaces, with the labels of the mesh before any pod", (_apply(deployment.chosen("", "Namespace")),)),
        *_secret_steps(deployment),
        _milvus_step(deployment),
        _serving_step(deployment),
        _runs_step(deployment),
    ]
    if deployment.edge:
        found.append(_edge_step(deployment))
    ask = ("exec", "deployment/mcp", "-c", "mcp", "--", "kubeflow-corpus", "search", "docs", deployment.question)
    return [*found, Step("A question", (_kubectl(CORPUS, *ask, "--limit", "1"),))]


_SECRET_KINDS: Final = ("SecretStore", "ExternalSecret")


def _secret_steps(deployment: Deployment) -> Iterator[Step]:
    if deployment.has("ExternalSecret"):
        readers = tuple(
            item for item in deployment.chosen("", "ServiceAccount") if item["metadata"]["name"] == "vault-reader"
        )
        namespaces = sorted({item["metadata"]["namespace"] for item in deployment.chosen("", "ExternalSecret")})
        waits = [
            _kubectl(namespace, "wait", "externalsecret", "--all", "--for=condition=Ready", "--timeout=3m")
            for namespace in namespaces
        ]
        yield Step("Secrets from the vault", (_apply((*readers, *deployment.chosen("", *_SECRET_KINDS))), *waits))


def _milvus_step(deployment: Deployment) -> Step:
    values = "values-cluster.yaml" if deployment.cluster_milvus else "values-standalone.yaml"
    files = [values] + (["values-monitoring.yaml"] if deployment.has("ServiceMonitor") else [])
    chosen = [word for file in files for word in ("-f", f"manifests/milvus/{file}")]
    # A laptop has less than the values ask for.
    small = ["--set", "standalone.resources=null"] if deployment.overlay == "kind" else []
    actions = [_apply(deployment.chosen(MILVUS, without=_SECRET_KINDS))]
    if deployment.cluster_milvus:
        actions.append(Action(("kubectl", "apply", "-k", "manifests/milvus/object-store")))
    chart = ("helm", "upgrade", "--install", "milvus", *MILVUS_CHART, "--namespace", MILVUS, *chosen, *small)
    return Step("Milvus", (*actions, Action((*chart, "--wait", "--timeout", "15m"))))


def _serving_step(deployment: Deployment) -> Step:
    waits = [
        _kubectl(CORPUS, "rollout", "status", f"statefulset/{item['metadata']['name']}", "--timeout=20m")
        for item in deployment.chosen(CORPUS, "StatefulSet")
    ]
    return Step(
        "Embeddings, the bootstrap of Milvus, the MCP server",
        (
            *_replace_jobs(deployment, CORPUS),
            *waits,
            _kubectl(CORPUS, "wait", "job/milvus-bootstrap", "--for=condition=Complete", "--timeout=30m"),
            _kubectl(CORPUS, "rollout", "status", "deployment/mcp", "--timeout=10m"),
        ),
    )


def _runs_step(deployment: Deployment) -> Step:
    wait = ("wait", "job/kubeflow-corpus-schedule", "--for=condition=Complete", "--timeout=30m")
    namespace = deployment.runs_namespace
    return Step("The recurring runs", (*_replace_jobs(deployment, namespace), _kubectl(namespace, *wait)))


def _edge_step(deployment: Deployment) -> Step:
    labels: Object = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EDGE, "labels": labels}}
    values = f"manifests/overlays/{deployment.overlay}/edge-values.yaml"
    install = ("helm", "upgrade", "--install", EDGE, "manifests/edge", "--namespace", EDGE, "-f", values)
    test = ("helm", "test", EDGE, "--namespace", EDGE)
    return Step("The edge", (_apply((namespace,)), Action((*install, "--wait", "--timeout", "10m")), Action(test)))


def _replace_jobs(deployment: Deployment, namespace: str) -> tuple[Action, ...]:
    """Applies a namespace; its Jobs are deleted first, because what a Job runs cannot be changed."""
    jobs = [
        _kubectl(namespace, "delete", "job", item["metadata"]["name"], "--ignore-not-found")
        for item in deployment.chosen(namespace, "Job")
    ]
    return (*jobs, _apply(deployment.chosen(namespace, without=_SECRET_KINDS)))


def _kubectl(namespace: str, *words: str) -> Action:
    return Action(("kubectl", "-n", namespace, *words))


def _apply(objects: tuple[Object, ...]) -> Action:
    return Action(("kubectl", "apply", "-f", "-"), objects)


def _is_job(item: Object, name: str) -> bool:
    return bool(item["kind"] == "Job" and item["metadata"]["name"] == name)


def _label(item: Object) -> str:
    return f"{item['kind']} {item['metadata']['name']}"


def print_plan(deployment: Deployment, left: Sequence[str]) -> None:
    """Prints what would be done."""
    print("# Looked at first; nothing is applied while one is missing")
    for wanted in prerequisites(deployment):
        print(shlex.join(("kubectl", *wanted.command)) + f"   # {wanted.name}")
    for number, step in enumerate(steps(deployment), start=1):
        print(f"\n# {number}. {step.title}")
        for action in step.actions:
            print("\n".join(action.lines()))
    for line in left:
        print(f"\n# Not filled in yet: {line}", end="")
    print()


def apply(deployment: Deployment) -> int:
    """Does it, and says where it stopped.

    Returns:
        The exit code.
    """
    for number, step in enumerate(steps(deployment), start=1):
        print(f"# {number}. {step.title}", flush=True)
        for action in step.actions:
            if _run(action):
                said = "See above. What is done stays; run it again when the reason is gone"
                if step.title == "A question":
                    said = "The parts run. Without a corpus there is nothing to find: `kubeflow-corpus submit corpus`"
                print(
                    f"error: step {number} ({step.title}) stopped at: {shlex.join(action.command)}\n{said}",
                    file=sys.stderr,
                )
                return 1
    return 0


def _run(action: Action) -> int:
    text = None
    if action.objects:
        # JSON is YAML, and kubectl reads a List of anything.
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(action.objects)})
    command = [program(action.command[0]), *action.command[1:]]
    return subprocess.run(command, input=text, text=True, check=False, cwd=MANIFESTS.parent).returncode


if __name__ == "__main__":
    sys.exit(main())
