"""What somebody who installed the package sees first, from a wheel in an environment of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from kubeflow_corpus.cli.main import main

from pipelines import demo
from tests.test_milvus_sharing import servers

ROOT = Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, which sees the requirements of this interpreter and no checkout."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--no-cache-dir", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*PIP, "wheel", *options, "-w", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([*PIP, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)], check=True)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "requirements.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    return python.with_name("kubeflow-corpus")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """An empty home, in which the commands run too."""
    yield tmp_path
    for server in servers(tmp_path / "kubeflow-corpus-demo" / "local" / "corpus.db"):
        os.kill(server, signal.SIGTERM)


def shell(home: Path, command: str) -> str:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    done = subprocess.run(["sh", "-c", command], cwd=home, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.slow
def test_an_installed_package_shows_itself_and_what_it_prints_can_be_run(installed: Path, home: Path) -> None:
    assert shell(home, f"{installed} --version") == f"kubeflow-corpus {version('kubeflow-corpus')}\n"

    # A server that the shell is set up for must not get the sample.
    shown = shell(home, f"MILVUS_URI=http://127.0.0.1:9 {installed} demo")

    assert "[c1] Install Orchard" in shown and "70 embedded" in shown
    commands = [line.strip() for line in shown.partition("Try next:\n")[2].split("\n") if line.startswith("  ")]
    searched, status, inspected = (shell(home, command) for command in commands)
    assert "[c1]" in searched and "kubeflow_docs" in status and "Before you begin" in inspected
    page = home / "kubeflow-corpus-demo" / demo._PAGE
    page.write_text(page.read_text("utf-8").replace("Delete the bundle.", "Remove the bundle."), "utf-8")
    again = shell(home, f"{installed} demo")
    assert "docs: 1 embedded, 3 reused" in again


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text("mine", "utf-8")

    assert main(["demo", str(tmp_path)]) == 1

    assert "holds something else" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_an_installation_without_the_sample_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_SAMPLES", (tmp_path / "none",))

    assert main(["demo", str(tmp_path / "demo")]) == 1

    assert "This installation has no sample" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()
