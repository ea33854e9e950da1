"""One program: its help, its errors, and its other name."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Any

import pytest
from kubeflow_corpus.cli import main as main_module
from kubeflow_corpus.cli.main import COMMANDS, main


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])

    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: kubeflow-corpus {command}")
    assert "``" not in shown


def test_the_help_lists_every_command_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])

    shown = capsys.readouterr().out
    assert all(f"\n    {name}" in shown for name in COMMANDS)
    assert "exit codes:" in shown and "``" not in shown


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])

    assert capsys.readouterr().out == f"kubeflow-corpus {version('kubeflow-corpus')}\n"


def test_python_m_pipelines_is_the_same_program() -> None:
    ran = [
        subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
        for words in (("pipelines", "search", "wiki", "x"), ("kubeflow_corpus.cli.main", "search", "wiki", "x"))
    ]

    assert (ran[0].returncode, ran[0].stderr) == (ran[1].returncode, ran[1].stderr)
    assert ran[0].returncode == 2


MISSING = {
    "kfp": ("run", "kubeflow-corpus[ingest]"),
    "tree_sitter": ("inspect", "kubeflow-corpus[ingest]"),
    "prometheus_client": ("mcp", "kubeflow-corpus[mcp]"),
    "jwt": ("issuer", "kubeflow-corpus[mcp]"),
}
ARGUMENTS = {"inspect": [main_module.__file__], "run": ["docs"], "issuer": ["serve"], "mcp": []}


@pytest.mark.parametrize("package", MISSING)
def test_a_command_without_its_extra_names_the_package_and_the_extra(package: str) -> None:
    command, remedy = MISSING[package]
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from kubeflow_corpus.cli.main import main\n"
        f"sys.exit(main({[command, *ARGUMENTS[command]]!r}))"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert f"`kubeflow-corpus {command}` needs {package}" in ran.stderr and remedy in ran.stderr


def test_without_the_pipelines_package_a_run_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pipelines", None)
    monkeypatch.delitem(sys.modules, "pipelines.run", raising=False)

    assert main(["run", "docs"]) == 1
    assert "needs the package `pipelines`" in capsys.readouterr().err


def test_a_missing_module_of_our_own_is_a_defect_and_no_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubeflow_corpus.cli.status", None)

    with pytest.raises(ModuleNotFoundError):
        main(["status"])


def test_an_interrupted_command_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("kubeflow_corpus.cli.status"), "run", interrupt)

    assert main(["status"]) == 130
    assert capsys.readouterr().err.startswith("interrupted")
