"""The manifests hold what they promise: they render, they are valid, and they give away no more than they must."""

from __future__ import annotations

import argparse
import copy
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import jsonschema
import pytest
import yaml
from kubeflow_corpus.collections import COLLECTIONS
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.sources.catalogue import load_catalogue

from pipelines import placement, schedule
from pipelines.schedule import read_schedules
from tests.manifests.rendering import (
    MANIFESTS,
    NAMES,
    OVERLAYS,
    built_in,
    containers,
    everything,
    group,
    label,
    load,
    pod_template,
    pods,
    rendered,
)
from tests.manifests.schemas import schema_of

# The oldest and the newest for every change, those between them with the slow tests.
KUBERNETES = ("1.32", *(pytest.param(f"1.{minor}", marks=pytest.mark.slow) for minor in range(33, 37)), "1.37")
DIGEST = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
VERSION = re.compile(r"[^@:\s]+(:[0-9]+)?/[^@:\s]+:[A-Za-z-]*v?\d+\.\d+\.\d+[A-Za-z0-9.-]*")
COMMIT = re.compile(r"[0-9a-f]{40}")
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
# The mesh's injector replaces this one with the proxy of its own version.
INJECTED = "auto"


@pytest.fixture(scope="module")
def kubernetes_validate() -> Iterator[Any]:
    """The validator, with each of its schema files read once and not once for every object."""
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validate.utils, "schema_contents", cache(validate.utils.schema_contents))
        yield validate


@pytest.mark.parametrize("name", NAMES)
def test_everything_renders_and_nothing_twice(name: str) -> None:
    twice = [key for key, count in Counter(map(label, rendered(name))).items() if count > 1]
    assert rendered(name) and not twice


@pytest.mark.parametrize("version", KUBERNETES)
def test_built_in_kinds_are_valid_for_every_kubernetes(kubernetes_validate: Any, version: str) -> None:
    distinct = {json.dumps([item["kind"], item.get("spec")], sort_keys=True): item for _, item in everything()}
    checked = [item for item in distinct.values() if built_in(item)]
    assert len(checked) > 50
    for item in checked:
        assert kubernetes_validate.validate(item, version, strict=True) == version, label(item)


def test_a_misspelt_field_of_a_built_in_kind_is_found(kubernetes_validate: Any) -> None:
    item = copy.deepcopy(next(item for _, item, _ in pods() if item["kind"] == "Deployment"))
    item["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(item, "1.37", strict=True)


def test_custom_kinds_are_valid_and_stated() -> None:
    found = set()
    for name, item in everything():
        if not built_in(item):
            found.add(item["kind"])
            errors = list(
                jsonschema.Draft202012Validator(schema_of(item["apiVersion"], item["kind"])).iter_errors(item)
            )
            assert not errors, f"{name} {label(item)}: {errors[0].message} at {list(errors[0].path)}"
    assert found >= {"EnvoyFilter", "RequestAuthentication", "RemoteMCPServer", "ServiceMonitor", "ExternalSecret"}


def objects_within(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for entry in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects_within(entry)


# Labels, selectors by label and what Envoy itself reads have keys of their own.
FREE = {"labels", "matchLabels", "annotations", "selector", "portLevelMtls", "value", "typed_config"}


def test_a_misspelt_or_missing_field_of_a_custom_kind_is_found() -> None:
    for kind in {item["kind"]: item for _, item in everything() if not built_in(item)}.values():
        validator = jsonschema.Draft202012Validator(schema_of(kind["apiVersion"], kind["kind"]))
        for name in kind["spec"]:
            changed = copy.deepcopy(kind)
            changed["spec"][f"{name}x"] = changed["spec"].pop(name)
            assert not validator.is_valid(changed), f"{label(kind)}: {name}"
        places = [place for place in objects_within(kind["spec"]) if not free_form(kind["spec"], place)]
        for number in range(len(places)):
            changed = copy.deepcopy(kind)
            held = [place for place in objects_within(changed["spec"]) if not free_form(changed["spec"], place)]
            held[number]["unknownField"] = {}
            assert not validator.is_valid(changed), f"{label(kind)}: {places[number]}"


def free_form(within: Any, place: dict[str, Any]) -> bool:
    """Whether an object is below a field whose keys are anybody's."""
    return any(
        place is below
        for holder in objects_within(within)
        for name, value in holder.items()
        if name in FREE
        for below in objects_within(value)
    )


def test_pods_run_as_nobody_with_a_root_that_cannot_be_written() -> None:
    for name, item, template in pods():
        where = f"{name} {label(item)}"
        pod = template["spec"]["securityContext"]
        assert (pod["runAsNonRoot"], pod["seccompProfile"]["type"]) == (True, "RuntimeDefault"), where
        assert pod["runAsUser"] > 0 and pod["runAsGroup"] > 0, where
        for container in containers(template):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, where


def test_pods_share_nothing_with_their_node() -> None:
    for name, item, template in pods():
        spec = template["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), f"{name} {label(item)}"
        for volume in spec.get("volumes", []):
            kinds = {"emptyDir", "secret", "configMap", "projected", "persistentVolumeClaim"}
            assert volume.keys() & kinds, f"{name} {label(item)}: {volume}"
            assert volume.get("emptyDir", {"sizeLimit": "1"}).get("sizeLimit"), f"{label(item)}: unbounded {volume}"


def test_every_image_is_pinned() -> None:
    for name, item, template in pods():
        for container in containers(template):
            image = container["image"]
            assert "latest" not in image
            injected = image == INJECTED and "inject.istio.io/templates" in template["metadata"].get("annotations", {})
            assert DIGEST.fullmatch(image) or VERSION.fullmatch(image) or injected, f"{name} {label(item)}: {image}"
            ours = container.get("args", [""])[0] in ("mcp", "milvus-bootstrap", "issuer", "contract")
            assert DIGEST.fullmatch(image) or not ours, f"{name} {label(item)}: ours goes by digest"


def test_resources_and_probes_are_set() -> None:
    for name, item, template in pods():
        for container in containers(template):
            where = f"{name} {label(item)}"
            resources = container["resources"]
            assert {"cpu", "memory"} <= resources["requests"].keys() and "memory" in resources["limits"], where
            if item["kind"] in ("Deployment", "StatefulSet"):
                assert {"readinessProbe", "livenessProbe"} <= container.keys(), where


def test_jobs_end() -> None:
    for _, item, _ in pods():
        if item["kind"] in ("Job", "CronJob"):
            spec = item["spec"] if item["kind"] == "Job" else item["spec"]["jobTemplate"]["spec"]
            assert {"backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"} <= spec.keys(), label(item)


def test_no_secret_has_a_value() -> None:
    for name, item in everything():
        if item["kind"] == "Secret":
            assert not item.get("data") and not item.get("stringData"), f"{name} {label(item)}"
        for container in containers(template) if (template := pod_template(item)) else ():
            for variable in container.get("env", []):
                secret = re.search("PASSWORD|TOKEN|API_KEY|SECRET", variable["name"])
                harmless = variable["name"].endswith("_PATH")
                assert not secret or harmless or "secretKeyRef" in variable["valueFrom"], variable
    for item in load(MANIFESTS / "secrets" / "templates.yaml"):
        assert set(item["stringData"].values()) == {""}


def _referenced_secrets() -> dict[tuple[str, str], set[str]]:
    """Secrets that pods name, with the keys that must be there."""
    found: dict[tuple[str, str], set[str]] = {}
    for name in (*OVERLAYS, "contract"):
        for item in rendered(name):
            template = pod_template(item)
            for container in containers(template) if template else ():
                for variable in container.get("env", []):
                    ref = variable.get("valueFrom", {}).get("secretKeyRef")
                    if ref:
                        found.setdefault((item["metadata"]["namespace"], ref["name"]), set()).add(ref["key"])
    return found


def test_every_secret_that_a_pod_names_has_a_template_with_its_keys() -> None:
    templates = {
        (item["metadata"]["namespace"], item["metadata"]["name"]): set(item["stringData"])
        for item in load(MANIFESTS / "secrets" / "templates.yaml")
    }
    for secret, keys in _referenced_secrets().items():
        assert keys <= templates[secret], secret


def test_the_vault_of_oke_fills_every_secret_that_a_pod_names() -> None:
    filled = {
        (item["metadata"]["namespace"], item["spec"]["target"]["name"]): {
            entry["secretKey"] for entry in item["spec"]["data"]
        }
        for item in rendered("oke")
        if item["kind"] == "ExternalSecret"
    }
    for secret, keys in _referenced_secrets().items():
        assert keys <= filled[secret], secret
    assert filled["kubeflow", placement.SECRET] >= {"MILVUS_USER", "MILVUS_PASSWORD", "GITHUB_TOKEN"}
    for _, item, template in (entry for entry in pods() if entry[0] == "oke"):
        (pull,) = template["spec"]["imagePullSecrets"]
        assert (item["metadata"]["namespace"], pull["name"]) in filled


def test_namespaces_deny_by_default() -> None:
    for name in (*OVERLAYS, "edge"):
        policies = [item for item in rendered(name) if item["kind"] == "NetworkPolicy"]
        denied = {
            item["metadata"]["namespace"]
            for item in policies
            if item["spec"]["podSelector"] == {}
            and sorted(item["spec"]["policyTypes"]) == ["Egress", "Ingress"]
            and not item["spec"].keys() & {"ingress", "egress"}
        }
        assert denied == ({"corpus-edge"} if name == "edge" else {"kubeflow-corpus", "milvus"})


def test_every_pod_is_named_by_a_network_policy_that_lets_it_do_its_work() -> None:
    for name, item, template in pods():
        if name in ("kagent",):
            continue
        labels = template["metadata"]["labels"]
        namespace = item["metadata"]["namespace"]
        selected = [
            policy
            for policy in rendered(name)
            if policy["kind"] == "NetworkPolicy"
            and policy["metadata"]["namespace"] == namespace
            and (wanted := policy["spec"]["podSelector"].get("matchLabels"))
            and wanted.items() <= labels.items()
        ]
        assert selected, f"{name} {label(item)}"


def test_a_network_policy_opens_only_named_ports() -> None:
    for name, item in everything():
        if item["kind"] == "NetworkPolicy":
            for rule in [*item["spec"].get("ingress", []), *item["spec"].get("egress", [])]:
                within = rule.get("from") == [{"podSelector": {}}] or rule.get("to") == [{"podSelector": {}}]
                assert rule.get("ports") or within, f"{name} {label(item)}"


def test_rights_are_few_and_without_wildcards() -> None:
    for name, item in everything():
        assert item["kind"] not in ("ClusterRole", "ClusterRoleBinding"), f"{name} {label(item)}"
        for rule in item.get("rules", []) if item["kind"] == "Role" else ():
            assert not any("*" in values for values in rule.values()), f"{name} {label(item)}"
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), f"{name} {label(item)}"
            if "secrets" in rule["resources"]:
                assert rule["resourceNames"] and not {"create", "delete"} & set(rule["verbs"])


def test_only_pods_that_call_kubernetes_get_a_token_for_it() -> None:
    for name, item, template in pods():
        account = template["spec"]["serviceAccountName"]
        needs_one = account in ("key-rotation", "corpus-edge")
        assert template["spec"].get("automountServiceAccountToken", True) is needs_one, f"{name} {label(item)}"


def test_service_accounts_and_config_maps_that_pods_name_exist() -> None:
    for name, item, template in pods():
        if name == "contract":
            continue
        namespace = item["metadata"]["namespace"]
        there = {
            (other["kind"], other["metadata"]["name"])
            for other in rendered(name)
            if other["metadata"].get("namespace") == namespace
        }
        assert ("ServiceAccount", template["spec"]["serviceAccountName"]) in there, f"{name} {label(item)}"
        named = [volume["configMap"]["name"] for volume in template["spec"].get("volumes", []) if "configMap" in volume]
        for container in containers(template):
            named += [source["configMapRef"]["name"] for source in container.get("envFrom", [])]
        assert {("ConfigMap", other) for other in named} <= there, f"{name} {label(item)}"


def test_services_find_their_pods_and_their_ports() -> None:
    for name, item in everything():
        if item["kind"] != "Service":
            continue
        selector = item["spec"]["selector"]
        if "acme.cert-manager.io/http01-solver" in selector:
            # Its pods come and go with cert-manager's challenges.
            continue
        matching = [
            template
            for other, workload, template in pods()
            if other == name
            and workload["metadata"]["namespace"] == item["metadata"]["namespace"]
            and selector.items() <= template["metadata"]["labels"].items()
        ]
        assert matching, f"{name} {label(item)}"
        ports = [port for container in containers(matching[0]) for port in container["ports"]]
        known = {port.get("name") for port in ports} | {port["containerPort"] for port in ports}
        assert all(port["targetPort"] in known for port in item["spec"]["ports"]), f"{name} {label(item)}"


@pytest.mark.parametrize("name", OVERLAYS)
def test_steps_run_the_image_that_compiled_them(name: str) -> None:
    (job,) = (item for item in rendered(name) if label(item) == "Job/kubeflow/kubeflow-corpus-schedule")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    assert environment["KUBEFLOW_CORPUS_IMAGE"] == container["image"]
    assert container["command"][:4] == ["python", "-m", "pipelines", "schedule"]


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_objects_that_compiled_pipelines_name_are_there(name: str) -> None:
    held = {item["metadata"]["name"]: item for item in rendered(name) if item["kind"] == "ConfigMap"}
    wanted = {key for policy in placement.POLICIES.values() for key in policy.config}
    assert wanted <= held[placement.CONFIG_MAP]["data"].keys()
    assert "catalogue.yaml" in held[placement.CATALOGUE_CONFIG_MAP]["data"]
    template = next(
        item for item in load(MANIFESTS / "secrets" / "templates.yaml") if item["metadata"]["name"] == placement.SECRET
    )
    assert {key for policy in placement.POLICIES.values() for key in policy.secrets} <= template["stringData"].keys()


def test_the_catalogue_of_the_cluster_is_the_packaged_one() -> None:
    own = load_catalogue(MANIFESTS / "runs" / "catalogue.yaml")
    assert own.select("", ()) == load_catalogue().select("", ())


def test_the_schedules_can_be_read_and_use_the_mounted_catalogue() -> None:
    experiment, schedules = read_schedules(MANIFESTS / "runs" / "schedules.yaml")
    assert (experiment, {schedule.pipeline for schedule in schedules}) == (
        "kubeflow-corpus",
        {"docs", "issues", "code"},
    )
    assert {schedule.parameters["catalogue"] for schedule in schedules} == {
        f"{placement.CATALOGUE_FOLDER}/catalogue.yaml"
    }


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_server_starts_with_the_settings_of_its_deployment(name: str) -> None:
    (deployment,) = (item for item in rendered(name) if label(item) == "Deployment/kubeflow-corpus/mcp")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {variable["name"]: variable.get("value", "from-a-secret") for variable in container["env"]}
    named = {name for name in environment if name.startswith("MCP_")}
    assert named <= set(map(ServerSettings.variable, ServerSettings.model_fields))
    settings = ServerSettings.from_env(environment, host="0.0.0.0", port=8000)
    grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert settings.shutdown_seconds + container["lifecycle"]["preStop"]["sleep"]["seconds"] < grace
    (shared,) = (
        item
        for item in rendered(name)
        if item["kind"] == "ConfigMap" and item["metadata"]["name"].startswith("corpus-settings-")
    )
    assert Settings.from_env(shared["data"]).milvus_uri == "http://milvus.milvus.svc.cluster.local:19530"


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_model_is_pinned_by_commit_and_its_port_is_waited_for(name: str) -> None:
    (tei,) = (item for item in rendered(name) if label(item) == "StatefulSet/kubeflow-corpus/tei")
    (container,) = tei["spec"]["template"]["spec"]["containers"]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert COMMIT.fullmatch(environment["REVISION"])
    assert environment["DTYPE"] == "float32"
    probe = container["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 600
    assert {mount["mountPath"] for mount in container["volumeMounts"]} >= {environment["HUGGINGFACE_HUB_CACHE"], "/tmp"}


def test_autoscaled_workloads_do_not_fix_their_replicas() -> None:
    for name, item in everything():
        if item["kind"] == "HorizontalPodAutoscaler":
            target = item["spec"]["scaleTargetRef"]
            (workload,) = (
                other
                for other in rendered(name)
                if (other["kind"], other["metadata"]["name"]) == (target["kind"], target["name"])
                and other["metadata"]["namespace"] == item["metadata"]["namespace"]
            )
            assert "replicas" not in workload["spec"], f"{name} {label(item)}"


def test_oke_uses_its_block_volumes_and_node_pools() -> None:
    (tei,) = (item for item in rendered("oke") if label(item) == "StatefulSet/kubeflow-corpus/tei")
    (claim,) = tei["spec"]["volumeClaimTemplates"]
    assert (claim["spec"]["storageClassName"], claim["spec"]["resources"]["requests"]["storage"]) == ("oci-bv", "50Gi")
    assert tei["spec"]["template"]["spec"]["nodeSelector"] == {"kubeflow-corpus/pool": "embeddings"}
    (service,) = (item for item in rendered("edge-oke") if label(item) == "Service/corpus-edge/corpus-edge")
    assert service["metadata"]["annotations"]["oci.oraclecloud.com/load-balancer-type"] == "nlb"


def test_agents_of_kagent_reach_the_server_under_a_name_that_it_answers() -> None:
    held = {item["kind"]: item for item in rendered("kagent")}
    remote, agent = held["RemoteMCPServer"], held["Agent"]["spec"]["declarative"]
    (tool,) = agent["tools"]
    assert tool["mcpServer"]["name"] == remote["metadata"]["name"]
    assert set(tool["mcpServer"]["toolNames"]) == {collection.tool for collection in COLLECTIONS}
    assert agent["modelConfig"] == held["ModelConfig"]["metadata"]["name"]
    (deployment,) = (item for item in rendered("oke") if label(item) == "Deployment/kubeflow-corpus/mcp")
    environment = {
        variable["name"]: variable.get("value")
        for variable in deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    host = remote["spec"]["url"].removeprefix("http://").removesuffix(":8000/mcp")
    assert f"{host}:*" in environment["MCP_ALLOWED_HOSTS"].split(",")


VALUES = ("values-standalone.yaml", "values-cluster.yaml")
# The switches of the Milvus chart 5.0 that these values turn; a misspelt one would be ignored silently.
MILVUS_KEYS = {
    "cluster", "image", "streaming", "standalone", "proxy", "mixCoordinator", "queryNode", "dataNode", "streamingNode",
    "extraConfigFiles", "minio", "etcd", "pulsarv3", "externalS3", "metrics", "woodpecker",
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_milvus_asks_for_passwords_and_its_values_hold_none(name: str) -> None:
    (values,) = load(MANIFESTS / "milvus" / name)
    assert values.keys() <= MILVUS_KEYS
    inner = yaml.safe_load(values["extraConfigFiles"]["user.yaml"])
    assert inner["common"]["security"] == {"authorizationEnabled": True}
    assert re.fullmatch(r"v2\.6\.\d+", values["image"]["all"]["tag"])
    # The chart names a queue for one of these switches only; without a name Milvus takes Pulsar.
    queues = [
        values.get("woodpecker", {}).get("enabled"),
        values.get("standalone", {}).get("messageQueue") == "woodpecker",
    ]
    assert not values["pulsarv3"]["enabled"] and any(queues)
    text = (MANIFESTS / "milvus" / name).read_text(encoding="utf-8")
    assert not re.search(r"(accessKey|secretKey|password)\s*:\s*[^{\s]", text)
    parts = [part for part in values.values() if isinstance(part, dict) and "extraEnv" in part]
    assert len(parts) == (1 if "standalone" in name else 5)
    for part in parts:
        assert {entry["valueFrom"]["secretKeyRef"]["name"] for entry in part["extraEnv"]} == {"milvus-object-store"}


def test_milvus_reaches_an_object_store_outside_of_the_cluster_where_its_values_name_one() -> None:
    (values,) = load(MANIFESTS / "milvus" / "values-cluster.yaml")
    (policy,) = rendered("object-store")
    (rule,) = policy["spec"]["egress"]
    assert values["externalS3"]["enabled"]
    assert (policy["metadata"]["namespace"], policy["spec"]["policyTypes"]) == ("milvus", ["Egress"])
    assert str(rule["ports"][0]["port"]) == values["externalS3"]["port"]


def images_in(values: Any) -> Iterator[str]:
    for name, value in values.items() if isinstance(values, dict) else ():
        if name == "repository":
            yield value
        yield from images_in(value)


def test_every_image_names_its_registry() -> None:
    # Nodes of OKE refuse a short name: which registry is meant would be a guess.
    images = {container["image"] for _, _, template in pods() for container in containers(template)} - {INJECTED}
    for file in VALUES:
        own = set(images_in(load(MANIFESTS / "milvus" / file)[0]))
        assert own
        images |= own
    for image in images:
        registry = image.partition("/")[0]
        assert "/" in image and ("." in registry or ":" in registry), image


def test_the_minio_of_the_chart_is_named_where_it_runs() -> None:
    for file in VALUES:
        minio = load(MANIFESTS / "milvus" / file)[0]["minio"]
        assert minio.get("enabled") is False or minio["image"]["repository"].count("/") == 2


def test_a_job_in_the_mesh_ends_because_its_sidecar_does() -> None:
    for name, item, template in pods():
        if item["kind"] in ("Job", "CronJob"):
            metadata = template["metadata"]
            outside = metadata["labels"].get("sidecar.istio.io/inject") == "false"
            native = metadata.get("annotations", {}).get("sidecar.istio.io/nativeSidecar") == "true"
            assert outside or native, f"{name} {label(item)}"


def test_the_steps_of_oke_pull_with_the_secret_that_the_vault_fills_in_their_namespace() -> None:
    (job,) = (item for item in rendered("oke") if label(item) == "Job/kubeflow/kubeflow-corpus-schedule")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    words = container["command"]
    (pull,) = job["spec"]["template"]["spec"]["imagePullSecrets"]
    assert words[words.index("--pull-secret") + 1] == pull["name"]
    parser = argparse.ArgumentParser()
    schedule.add_arguments(parser)
    assert parser.parse_args(words[4:]).pull_secret == [pull["name"]]


def monitors(name: str) -> list[Any]:
    return [item for item in rendered(name) if item["kind"] in ("ServiceMonitor", "PodMonitor")]


def test_prometheus_selects_every_monitor_and_reaches_what_it_names() -> None:
    found = [(name, item) for name in ("oke", "edge-oke", "edge-acme") for item in monitors(name)]
    assert {item["metadata"]["name"] for _, item in found} == {"mcp", "tei", "corpus-edge", "issuer"}
    for _, item in found:
        assert item["metadata"]["labels"]["release"] == "kube-prometheus-stack", label(item)
    (values,) = load(MANIFESTS / "milvus" / "values-monitoring.yaml")
    assert values["metrics"]["serviceMonitor"]["additionalLabels"] == {"release": "kube-prometheus-stack"}
    # Pods, and the port of their metrics.
    wanted = {("oke", "mcp"): 8000, ("oke", "tei"): 8080, ("oke", "tei-query"): 8080, ("oke", "milvus"): 9091}
    for (name, pod), port in (wanted | {("edge-oke", "corpus-edge"): 15090, ("edge-oke", "issuer"): 8001}).items():
        assert port in ports_open_to("monitoring", name, pod), pod


def ports_open_to(namespace: str, name: str, pod: str) -> set[int]:
    """Ports of the pods of a name that network policies open to a namespace."""
    labels = {"app.kubernetes.io/name": pod, "istio": pod}
    opened = set()
    for policy in (item for item in rendered(name) if item["kind"] == "NetworkPolicy"):
        chosen = policy["spec"]["podSelector"]
        named = chosen.get("matchLabels", {}).items() <= labels.items() and all(
            labels.get(term["key"]) in term["values"] for term in chosen.get("matchExpressions", [])
        )
        for rule in policy["spec"].get("ingress", []) if chosen and named else ():
            if any(peer.get("namespaceSelector", {}).get("matchLabels", {}) == {NAMESPACE_LABEL: namespace}
                   for peer in rule.get("from", [])):  # fmt: skip
                opened |= {port["port"] for port in rule["ports"]}
    return opened


def test_queries_have_embeddings_of_their_own_on_oke_of_the_same_model() -> None:
    held = {label(item): item for item in rendered("oke")}
    runs, queries = (held[f"StatefulSet/kubeflow-corpus/{name}"]["spec"] for name in ("tei", "tei-query"))
    assert runs["template"]["spec"]["containers"] == queries["template"]["spec"]["containers"]
    assert queries["selector"]["matchLabels"] == {"app.kubernetes.io/name": "tei-query"}
    assert held["HorizontalPodAutoscaler/kubeflow-corpus/tei-query"]["spec"]["minReplicas"] == 2
    mcp = held["Deployment/kubeflow-corpus/mcp"]["spec"]["template"]["spec"]["containers"][0]
    environment = {variable["name"]: variable.get("value") for variable in mcp["env"]}
    assert environment["EMBEDDINGS_URL"] == "http://tei-query.kubeflow-corpus.svc.cluster.local:8080"
    (ingress,) = held["NetworkPolicy/kubeflow-corpus/tei-query"]["spec"]["ingress"]
    assert ingress["from"] == [{"podSelector": {"matchLabels": {"kubeflow-corpus/embeds": "true"}}}]
    guarded = {item["metadata"]["name"] for item in rendered("edge-oke") if item["kind"] == "PeerAuthentication"}
    assert guarded >= {"tei", "tei-query", "mcp", "milvus"}


def server_of(name: str) -> Any:
    (deployment,) = (item for item in rendered(name) if label(item) == "Deployment/kubeflow-corpus/mcp")
    return deployment["spec"]["template"]["spec"]


@pytest.mark.parametrize("name", OVERLAYS)
def test_no_overlay_logs_questions_by_itself(name: str) -> None:
    (container,) = server_of(name)["containers"]
    assert not [variable for variable in container["env"] if variable["name"].startswith("QUESTION_LOG")]


def test_the_log_of_questions_is_on_a_volume_that_every_replica_may_write_and_is_kept_for_a_while() -> None:
    pod = server_of("questions")
    (container,) = pod["containers"]
    environment = {variable["name"]: variable.get("value", "") for variable in container["env"]}
    log = PurePosixPath(environment["QUESTION_LOG"])
    (mount,) = (mount for mount in container["volumeMounts"] if log.is_relative_to(mount["mountPath"]))
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == mount["name"])
    (claim,) = (item for item in rendered("questions") if item["kind"] == "PersistentVolumeClaim")
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    # Such a volume is of one node: so are its writers, and the file is theirs.
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    (term,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"] == {"matchLabels": {"app.kubernetes.io/name": "mcp"}}
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
    # The settings read what is set here; an empty word would be the default again.
    assert 0 < int(environment["QUESTION_LOG_DAYS"]) < Settings(milvus_uri="x").question_log_days


def test_groups_are_known() -> None:
    assert all("." in group(item) or built_in(item) for _, item in everything())
