"""What each supported release of Kubeflow Pipelines makes of the compiled pipelines: an unknown field fails the run."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, struct_pb2
from kfp.pipeline_spec import pipeline_spec_pb2

from pipelines.__main__ import main
from pipelines.compile import compile_pipeline, read_spec
from pipelines.placement import KFP_RELEASES, POLICIES, Placement, Toleration

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

FOLDER = Path(__file__).parent / "kfp_releases"
IMAGE = "registry.example/kubeflow-corpus/python@sha256:" + "a" * 64
EVERYTHING = Placement(
    IMAGE,
    pull_secrets=("ocir", "other"),
    node_labels=(("kubernetes.io/arch", "arm64"), ("pool", "runs")),
    tolerations=(Toleration("dedicated", "runs", "NoSchedule"), Toleration("spot")),
)


def add_with_what_it_imports(pool: Any, file: Any, added: set[str]) -> None:
    for imported in file.dependencies:
        add_with_what_it_imports(pool, imported, added)
    if file.name not in added:
        added.add(file.name)
        pool.Add(descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb))


@cache
def config_class(release: str) -> Any:
    """The message that a server of this release parses a step's Kubernetes configuration as."""
    stated = json.loads((FOLDER / f"{release}.json").read_text(encoding="utf-8"))
    assert stated["release"].startswith(f"{release}.")
    pool = descriptor_pool.DescriptorPool()
    for module in (struct_pb2, pipeline_spec_pb2):
        add_with_what_it_imports(pool, module.DESCRIPTOR, set())
    pool.Add(json_format.ParseDict(stated["file"], descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("kfp_kubernetes.KubernetesExecutorConfig"))


def configurations(placement: Placement, folder: Path) -> list[dict[str, Any]]:
    _, platform = read_spec(compile_pipeline("corpus", placement, folder))
    return list(platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"].values())


def parse(release: str, found: list[dict[str, Any]]) -> list[Any]:
    return [json_format.ParseDict(configuration, config_class(release)()) for configuration in found]


@pytest.mark.parametrize("placement", [Placement(IMAGE), EVERYTHING], ids=["plain", "everything"])
@pytest.mark.parametrize("server", KFP_RELEASES)
def test_what_is_compiled_without_a_release_is_taken_by_every_one(
    server: str, placement: Placement, tmp_path: Path
) -> None:
    parsed = parse(server, configurations(placement, tmp_path))
    assert len(parsed) > len(POLICIES)
    for configuration in parsed:
        assert [secret.secret_name for secret in configuration.image_pull_secret] == list(placement.pull_secrets)
        assert dict(configuration.node_selector.labels) == dict(placement.node_labels)
        assert len(configuration.tolerations) == len(placement.tolerations)


@pytest.mark.parametrize("compiled_for", KFP_RELEASES)
def test_what_is_compiled_for_a_release_is_taken_by_it_and_later_ones(compiled_for: str, tmp_path: Path) -> None:
    found = configurations(Placement(IMAGE, kfp_version=compiled_for), tmp_path)
    for server in KFP_RELEASES[KFP_RELEASES.index(compiled_for) :]:
        parse(server, found)


def test_a_field_of_a_newer_release_is_found(tmp_path: Path) -> None:
    found = configurations(Placement(IMAGE, kfp_version="2.16"), tmp_path)
    assert all(configuration["securityContext"] == {"runAsNonRoot": True} for configuration in found)
    with pytest.raises(json_format.ParseError, match="securityContext"):
        parse("2.15", found)


def known_fields(message: Any, above: tuple[str, ...] = ()) -> set[str]:
    """Paths of what a message may hold, as its JSON names them."""
    found = {f"{message.full_name}.{field.json_name}" for field in message.fields}
    for field in message.fields:
        if field.message_type and field.message_type.full_name not in above:
            found |= known_fields(field.message_type, (*above, message.full_name))
    return found


@pytest.mark.parametrize("server", KFP_RELEASES)
def test_every_release_refuses_what_only_later_ones_know(server: str, tmp_path: Path) -> None:
    own = known_fields(config_class(server).DESCRIPTOR)
    top = config_class(server).DESCRIPTOR.full_name
    # The last one stands for what the release after these will bring.
    later = {"ofTheNextRelease"}
    for release in KFP_RELEASES[KFP_RELEASES.index(server) + 1 :]:
        news = known_fields(config_class(release).DESCRIPTOR) - own
        later |= {path.rpartition(".")[2] for path in news if path.rpartition(".")[0] == top}
    (configuration, *_) = configurations(Placement(IMAGE), tmp_path)
    for name in later:
        with pytest.raises(json_format.ParseError, match=name):
            parse(server, [configuration | {name: {}}])


def test_the_command_line_says_where_steps_run(tmp_path: Path) -> None:
    words = ["--kfp-version", "2.17", "--pull-secret", "ocir", "--node-label", "pool=runs"]
    words += ["--toleration", "dedicated=runs:NoSchedule", "--toleration", "spot"]
    assert main(["compile", "docs", "--image", IMAGE, "--out", str(tmp_path), *words]) == 0
    _, platform = read_spec(tmp_path / "docs.yaml")
    for configuration in platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"].values():
        assert [secret["secretName"] for secret in configuration["imagePullSecret"]] == ["ocir"]
        assert configuration["nodeSelector"] == {"labels": {"pool": "runs"}}
        assert configuration["tolerations"] == [
            {"key": "dedicated", "operator": "Equal", "value": "runs", "effect": "NoSchedule"},
            {"key": "spot", "operator": "Exists"},
        ]
        assert configuration["securityContext"] == {"runAsNonRoot": True}


@pytest.mark.parametrize("words", [["--node-label", "pool"], ["--toleration", "a:Never"], ["--kfp-version", "2.14"]])
def test_a_wrong_word_about_the_cluster_is_a_wrong_command_line(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compile", "docs", "--image", IMAGE, *words])
    assert ended.value.code == 2


def test_documents_overlays_and_code_name_the_releases_that_are_compiled_for() -> None:
    root = Path(__file__).parents[2]
    named = {KFP_RELEASES[0], KFP_RELEASES[-1]}
    files = [file for folder in ("docs", "manifests", "pipelines", "components") for file in (root / folder).rglob("*")]
    said = {}
    for file in [*files, root / "README.md"]:
        if file.suffix in (".md", ".yaml", ".py"):
            text = " ".join(file.read_text(encoding="utf-8").split())
            for first, last in re.findall(r"Kubeflow Pipelines (\d\.\d+) to (\d\.\d+)", text):
                said[file.relative_to(root).as_posix()] = {first, last}
            for release in re.findall(r"kubeflow/pipelines/\S+\?ref=([0-9]+\.[0-9]+)\.", text):
                assert release in KFP_RELEASES, file
    assert all(releases == named for releases in said.values()), said
    assert said.keys() >= {"README.md", "docs/how-to/cluster.md", "manifests/deploy.py"}
    assert "manifests/overlays/kind/kustomization.yaml" in said
    assert {file.stem for file in FOLDER.glob("*.json")} == set(KFP_RELEASES)
