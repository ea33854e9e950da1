"""The edge chart: one values file with a schema, and objects that fit together."""

from __future__ import annotations

from typing import Any

import pytest

from tests.edge.rendering import CHART, NAMESPACE, chart, example_values, helm, merged, of_kind, render

LINT_ERROR = 3


@pytest.mark.parametrize("kubernetes", ["v1.32.0", "v1.37.0"])
def test_it_passes_helms_strict_lint(kubernetes: str) -> None:
    report = helm().lint(str(CHART), example_values(), strict=True, kube_version=kubernetes)
    problems = [message for message in report["messages"] if message["severity"] >= 2]
    assert (report["total_charts_linted"], problems, report["errors"]) == (1, [], [])


@pytest.mark.parametrize(
    "changes",
    [
        {"hosts": []},
        {"hosts": ["*.example.org"]},
        {"hosts": ["corpus"]},
        {"origins": ["*"]},
        {"origins": ["http://www.kubeflow.org"]},
        {"origins": ["https://www.kubeflow.org/path"]},
        {"image": {"digest": "latest"}},
        {"image": {"tag": "1.0"}},
        {"limits": {"session": {"perMinute": 0}}},
        {"limits": {"session": {"perMinute": "30"}}},
        {"limits": {"sesion": {"perMinute": 30, "burst": 1}}},
        {"session": {"seconds": 100_000}},
        {"session": {"publishSeconds": 60}},
        {"gateway": {"service": {"type": "ClusterIP"}}},
        {"mesh": {"ingestion": {"podNetworks": ["10.0.0.0"]}}},
        {"unknown": True},
    ],
)
def test_wrong_values_are_refused(changes: dict[str, Any]) -> None:
    from helm_python.errors import HelmError

    with pytest.raises(HelmError):
        render(changes)


def test_without_values_nothing_is_rendered() -> None:
    from helm_python.errors import HelmError

    with pytest.raises(HelmError), helm().Chart.load(str(CHART)) as chart:
        chart.render({}, name="edge", namespace=NAMESPACE)


def test_every_policy_of_the_gateway_selects_it_and_nothing_else() -> None:
    objects = render()
    (deployment,) = of_kind(objects, "Deployment", "corpus-edge")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels["istio"] == "corpus-edge"
    (gateway,) = of_kind(objects, "Gateway")
    assert gateway["spec"]["selector"] == {"istio": "corpus-edge"}
    for item in of_kind(objects, "EnvoyFilter"):
        assert item["spec"]["workloadSelector"]["labels"] == {"istio": "corpus-edge"}
    for item in of_kind(objects, "RequestAuthentication"):
        assert item["spec"]["selector"]["matchLabels"] == {"istio": "corpus-edge"}


def test_the_three_limits_are_the_ones_of_the_values() -> None:
    limits = {"session": {"perMinute": 7, "burst": 5}, "address": {"perMinute": 9, "burst": 8}}
    limits |= {"replica": {"perMinute": 70, "burst": 60}, "issuing": {"perMinute": 11, "burst": 10}}
    filters = {
        patch["patch"]["value"]["name"]: patch["patch"]["value"]["typed_config"]
        for item in of_kind(render({"limits": limits}), "EnvoyFilter")
        for patch in item["spec"]["configPatches"]
    }

    def bucket(limit: str) -> dict[str, Any]:
        wanted = limits[limit]
        return {"max_tokens": wanted["burst"], "tokens_per_fill": wanted["perMinute"], "fill_interval": "60s"}

    assert filters["corpus.limit.replica"]["token_bucket"] == bucket("replica")
    assert filters["corpus.limit.session"]["token_bucket"] == bucket("issuing")
    assert filters["corpus.limit.session"]["descriptors"][0]["token_bucket"] == bucket("session")
    assert filters["corpus.limit.address"]["descriptors"][0]["token_bucket"] == bucket("address")
    for name, config in filters.items():
        if name.startswith("corpus.limit."):
            for switch in ("filter_enabled", "filter_enforced"):
                assert config[switch]["default_value"] == {"numerator": 100, "denominator": "HUNDRED"}


def test_the_issuer_signs_what_the_gateway_asks_for() -> None:
    objects = render()
    (issuer,) = of_kind(objects, "Deployment", "issuer")
    environment = {
        entry["name"]: entry["value"] for entry in issuer["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    (authentication,) = of_kind(objects, "RequestAuthentication")
    (rule,) = authentication["spec"]["jwtRules"]
    assert (rule["issuer"], rule["audiences"]) == (environment["ISSUER_URL"], [environment["ISSUER_AUDIENCE"]])
    (service,) = of_kind(objects, "Service", "issuer")
    port = service["spec"]["ports"][0]["port"]
    assert rule["jwksUri"] == f"http://issuer.{NAMESPACE}.svc.cluster.local:{port}/.well-known/jwks.json"
    (rotation,) = of_kind(objects, "CronJob")
    (container,) = rotation["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    rotating = {entry["name"]: entry["value"] for entry in container["env"]}
    assert rotating.items() <= environment.items()


def test_milvus_and_tei_answer_only_the_accounts_that_need_them() -> None:
    objects = render()
    own = "cluster.local/ns/kubeflow-corpus/sa"
    for name, extra in (("milvus", [f"{own}/milvus-bootstrap"]), ("tei", [])):
        (policy,) = of_kind(objects, "AuthorizationPolicy", name)
        first = policy["spec"]["rules"][0]["from"]
        assert [source["source"]["principals"] for source in first] == [
            [f"{own}/mcp", f"{own}/contract", *extra, "cluster.local/ns/kubeflow/sa/pipeline-runner"]
        ]
        (peers,) = of_kind(objects, "PeerAuthentication", name)
        metrics = {"milvus": 9091, "tei": 8080}[name]
        assert peers["spec"]["mtls"] == {"mode": "STRICT"}
        assert peers["spec"]["portLevelMtls"] == {metrics: {"mode": "PERMISSIVE"}}


def test_who_has_no_identity_reads_metrics_and_nothing_else() -> None:
    objects = render()
    for policy in of_kind(objects, "AuthorizationPolicy"):
        if policy["metadata"]["namespace"] == NAMESPACE:
            continue
        for rule in policy["spec"]["rules"]:
            if "from" not in rule:
                (operation,) = (entry["operation"] for entry in rule["to"])
                assert (operation["methods"], operation["paths"]) == (["GET"], ["/metrics"])


def test_an_acme_authority_reaches_the_answer_to_its_challenge_and_everything_else_is_sent_to_https() -> None:
    objects = render({"tls": {"acme": {"email": "operators@example.org"}}})
    (routes,) = of_kind(objects, "VirtualService")
    first, second = routes["spec"]["http"][:2]
    assert first["match"] == [{"uri": {"prefix": "/.well-known/acme-challenge/"}, "port": 80}]
    assert second["match"] == [{"uri": {"prefix": "/"}, "port": 80}]
    assert second["redirect"] == {"scheme": "https", "redirectCode": 301}
    (solver,) = of_kind(objects, "Service", "acme-solver")
    assert first["route"][0]["destination"]["host"].startswith("acme-solver.")
    (certificate,) = of_kind(objects, "Certificate")
    (gateway,) = of_kind(objects, "Gateway")
    https = next(server for server in gateway["spec"]["servers"] if server["port"]["number"] == 443)
    assert certificate["spec"]["secretName"] == https["tls"]["credentialName"]
    assert certificate["spec"]["dnsNames"] == https["hosts"]
    assert not of_kind(render(), "Certificate") and not of_kind(render(), "Issuer")


def test_labels_tolerations_and_affinity_reach_every_part() -> None:
    nodes = {"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "b", "operator": "Exists"}], "affinity": {"c": {}}}
    objects = render({"labels": {"team": "x"}, "gateway": nodes, "issuer": nodes})
    assert all(item["metadata"]["labels"]["team"] == "x" for item in objects)
    found = [item["spec"]["template"]["spec"] for kind in ("Deployment", "Job") for item in of_kind(objects, kind)]
    found += [item["spec"]["jobTemplate"]["spec"]["template"]["spec"] for item in of_kind(objects, "CronJob")]
    assert len(found) == 5
    for pod in found:
        assert {key: pod[key] for key in nodes} == nodes


def test_notes_say_what_is_left_to_do() -> None:
    files = chart().render(merged(example_values(), {"origins": []}), name="edge", namespace=NAMESPACE)
    (notes,) = (text for name, text in files.items() if name.endswith("NOTES.txt"))
    for line in ("https://corpus.example.org", "helm test edge --namespace corpus-edge", "No browser may call"):
        assert line in notes


def test_steps_without_a_sidecar_are_let_in_by_their_network_alone() -> None:
    objects = render({"mesh": {"ingestion": {"podNetworks": ["10.244.0.0/16"]}}})
    (policy,) = of_kind(objects, "AuthorizationPolicy", "tei")
    assert policy["spec"]["rules"][0]["from"][1] == {"source": {"notPrincipals": ["*"], "ipBlocks": ["10.244.0.0/16"]}}
    (peers,) = of_kind(objects, "PeerAuthentication", "tei")
    assert {str(port): mode for port, mode in peers["spec"]["portLevelMtls"].items()} == {
        "8080": {"mode": "PERMISSIVE"}
    }


def test_without_a_mesh_there_are_no_policies_inside_it() -> None:
    objects = render({"mesh": {"enabled": False}})
    assert not of_kind(objects, "PeerAuthentication")
    assert {item["metadata"]["namespace"] for item in objects} == {NAMESPACE}


def test_no_origin_means_no_browser() -> None:
    objects = render({"origins": []})
    (policy,) = of_kind(objects, "AuthorizationPolicy", "corpus-edge-origins")
    assert policy["spec"]["rules"][0]["when"][0]["notValues"] == ["https://nobody.invalid"]
