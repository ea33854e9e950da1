"""``init``: a catalogue for a project that nobody has described, which runs as it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from kubeflow_corpus.cli.main import main
from kubeflow_corpus.sources.catalogue import load_catalogue

FILES = {
    "hugo.toml": 'baseURL = "https://mill.test/"\n',
    "content/en/docs/sails.md": "---\ntitle: Sails\n---\nSails turn the mill.\n",
    "content/zh/docs/sails.md": "---\ntitle: Sails\n---\nNot read.\n",
    "README.md": "# Mill\n\nA mill.\n",
    "proposals/a: #b.md": "# A\n\nA proposal.\n",
    "pkg/mill.go": "package mill\n\n// Turn turns.\nfunc Turn() {}\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "Wind Mill"
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_a_folder_gets_a_catalogue_that_runs(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", str(project), "--out", "made"]) == 0
    said = capsys.readouterr().out
    assert "hugo site in content/en: 1 pages, https://mill.test/" in said
    assert "issues none: --repo OWNER/NAME" in said
    assert "kubeflow-corpus run docs --catalogue made/catalogue.yaml" in said
    catalogue = load_catalogue("made/catalogue.yaml")
    assert [(source.name, source.repo) for source in catalogue.sources] == [
        ("wind-mill-docs", "local/wind-mill"),
        ("wind-mill-pages", "local/wind-mill"),
        ("wind-mill-code", "local/wind-mill"),
    ]
    assert catalogue.vocabulary.areas == ("wind-mill",)
    for collection, documents in (("docs", 3), ("code", 1)):
        assert main(["run", collection, "--catalogue", "made/catalogue.yaml", "--dry-run", "--local", "local"]) == 0
        assert f"{documents} documents" in capsys.readouterr().out


def test_pages_of_a_site_that_is_published_nowhere_are_cited_as_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mill/docs").mkdir(parents=True)
    (tmp_path / "mill/mkdocs.yml").write_text("site_name: Mill\n")
    (tmp_path / "mill/docs/sails.md").write_text("# Sails\n\nFour of them.\n")
    assert main(["init", str(tmp_path / "mill"), "--out", str(tmp_path)]) == 0
    assert "published nowhere: cited as files" in capsys.readouterr().out
    source = load_catalogue(tmp_path / "catalogue.yaml").sources[0]
    assert source.site is not None
    assert (source.site.generator, source.site.base_url) == ("mkdocs", "")


def test_a_clone_knows_where_its_issues_are(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b.test"]
    for command in (["init", "-q"], ["remote", "add", "origin", "git@github.com:mills/wind.git"], ["add", "."]):
        subprocess.run([*git, *command], check=True)
    subprocess.run([*git, "commit", "-qm", "all"], check=True)
    assert main(["init", str(project), "--out", str(tmp_path / "made")]) == 0
    assert "issues of github.com/mills/wind" in capsys.readouterr().out
    catalogue = load_catalogue(tmp_path / "made/catalogue.yaml")
    assert [(source.name, source.repo) for source in catalogue.select("issue")] == [("wind-issues", "mills/wind")]


def test_files_that_are_there_are_kept(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "vocabulary.yaml").write_text("mine")
    assert main(["init", str(project), "--out", str(tmp_path)]) == 1
    assert "vocabulary.yaml is there already. Name another folder with --out" in capsys.readouterr().err
    assert (tmp_path / "vocabulary.yaml").read_text() == "mine"
    assert main(["init", str(project), "--out", str(tmp_path), "--force"]) == 0
    assert (tmp_path / "vocabulary.yaml").read_text() != "mine"


@pytest.mark.parametrize("name", ["no/such/folder", "ssh://x", "-x", "", "a b/c"])
def test_what_is_neither_a_folder_nor_a_repository_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--out", "made", "--", name]) == 1
    assert "error: " in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_a_folder_without_anything_to_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["init", str(tmp_path / "empty"), "--out", str(tmp_path / "made")]) == 1
    assert "holds no documentation and no code" in capsys.readouterr().err
