"""Runs through KFP's local runner: real sources, real model, real Milvus Lite, and what each mistake says."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kubeflow_corpus.errors import SettingsError

from pipelines.run import add_arguments
from pipelines.run import run as run_command
from tests.retrieval.samples import run as run_steps
from tests.servers.github import serve as github

ROOT = Path(__file__).parents[2]
ROWS = """
import json, sys
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.store.rows import scan
fields = ["id", "source", "row_hash", "revision", "content_text"]
with connected(Settings(milvus_uri=sys.argv[1])) as client:
    client.load_collection(sys.argv[2])
    print(json.dumps(sorted([[row[name] for name in fields] for page in scan(client, sys.argv[2], fields)
        for row in page])))
"""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line that says what failed."""
        lines = [line for line in self.err.splitlines() if line.startswith("error:")]
        assert len(lines) == 1, self.err
        return lines[0]


def run(folder: Path, *words: str, **environment: str) -> Ran:
    """The command as a person calls it, in a process of its own."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MILVUS_U", "EMBEDDING"))}
    done = subprocess.run(
        [sys.executable, "-m", "pipelines", "run", *words, "--local", str(folder / "local")],
        cwd=ROOT,
        env={**environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert "Traceback" not in done.stderr
    assert "Traceback" not in done.stdout
    return Ran(done.returncode, done.stdout, done.stderr)


def rows(folder: Path, alias: str = "kubeflow_docs") -> list[list[str]]:
    """What readers get, from a process of its own: an embedded database belongs to one process at a time."""
    command = [sys.executable, "-c", ROWS, str(folder / "local" / "corpus.db"), alias]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=ROOT)
    return [list(row) for row in json.loads(done.stdout)]


def write_site(folder: Path, **pages: str) -> None:
    (folder / "docs").mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (folder / "docs" / f"{name}.md").write_text(f"# {name.title()}\n\n{text}\n")


def write_catalogue(folder: Path, **urls: str) -> Path:
    entries = [
        f"  - {{name: {name}, type: docs, repo: example/{name}, url: {url}, include: ['docs/**/*.md'],"
        f" site: {{generator: docusaurus, root: docs, base_url: 'https://{name}.example/docs/'}}}}\n"
        for name, url in urls.items()
    ]
    file = folder / "catalogue.yaml"
    file.write_text("sources:\n" + "".join(entries))
    return file


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """Two sites, indexed once."""
    folder = tmp_path_factory.mktemp("run")
    write_site(folder / "apples", pruning="Prune apple trees in winter.", storing="Store apples in a cool cellar.")
    write_site(folder / "bees", hives="Look into each hive once a week.")
    catalogue = write_catalogue(folder, apples="apples", bees="bees")
    question = {"id": "q1", "query": "When are apple trees pruned?", "tool": "docs", "kind": "howto"}
    expected = {"expected": {"example/apples:docs/pruning.md": 3}, "must_contain": ["winter"]}
    (folder / "questions.jsonl").write_text(json.dumps({**question, **expected}) + "\n")
    words = ["--questions", str(folder / "questions.jsonl"), "--floor", "hit@1=1.0"]
    return folder, run(folder, "docs", "--catalogue", str(catalogue), *words)


def test_a_catalogue_that_is_there_and_not_asked_for_is_said_not_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    add_arguments(parser)

    def said(*words: str) -> str:
        # Refused after the catalogue is chosen and before anything is fetched.
        with pytest.raises(SettingsError, match="dry run"):
            run_command(parser.parse_args(["docs", "--digest", *words]))
        return capsys.readouterr().err

    assert said() == ""
    write_catalogue(tmp_path, bees="bees")
    assert "--catalogue catalogue.yaml" in said()
    assert said("--catalogue", "catalogue.yaml") == ""


@pytest.mark.slow
def test_a_run_indexes_every_source_and_says_how_each_ended(indexed: tuple[Path, Ran]) -> None:
    folder, first = indexed
    assert first.code == 0, first.err
    assert sorted(row[1] for row in rows(folder)) == ["apples", "apples", "bees"]
    table = [line.split() for line in first.out.splitlines()]
    assert ["apples", "2", "2", "2", "0", "0", "ok"] in table
    assert ["bees", "1", "1", "1", "0", "0", "ok"] in table
    assert "docs embed texts-0000: done" in first.err
    assert "\r" not in first.err, "no bars where no terminal is attached"
    (page,) = (folder / "local").rglob("report.html")
    report = json.loads(page.with_suffix(".json").read_text())
    assert "apples" in page.read_text() and report["failures"] == []
    (part,) = report["collections"]
    assert (part["outcome"], [source["source"] for source in part["sources"]]) == ("published", ["apples", "bees"])
    assert {"embed", "apply"} <= {step["step"] for step in report["steps"] if step["memory_mb"] and step["seconds"]}


@pytest.mark.slow
def test_the_counts_are_in_the_metadata_of_the_artifacts(indexed: tuple[Path, Ran]) -> None:
    folder, _ = indexed
    outputs = [json.loads(file.read_text()) for file in (folder / "local").rglob("chunk/executor_output.json")]
    shown = [item["artifacts"]["chunks"]["artifacts"][0]["metadata"] for item in outputs]
    assert {(item["source"], item["status"], int(item["chunks"])) for item in shown} >= {
        ("apples", "ok", 2),
        ("bees", "ok", 1),
    }


@pytest.mark.slow
def test_what_was_written_is_asked_before_it_is_served_and_the_figures_are_metrics(indexed: tuple[Path, Ran]) -> None:
    folder, first = indexed
    assert "docs evaluate: done" in first.err
    (output,) = (folder / "local").rglob("evaluate/executor_output.json")
    metrics = json.loads(output.read_text())["artifacts"]["metrics"]["artifacts"][0]["metadata"]
    assert metrics["hit@1"] == 1.0
    assert metrics["evidence"] == 1.0
    (page,) = (folder / "local").rglob("evaluate/page")
    assert "hit@1" in page.read_text()


@pytest.mark.slow
def test_a_rebuild_that_misses_its_floor_is_not_served(indexed: tuple[Path, Ran]) -> None:
    folder, _ = indexed
    before = rows(folder)
    words = ["--rebuild", "--questions", str(folder / "questions.jsonl"), "--floor", "hit@1=1.1"]
    ran = run(folder, "docs", "--catalogue", str(folder / "catalogue.yaml"), *words)
    assert ran.code == 1
    assert "docs: collection failed at publish: The gate of kubeflow_docs failed:" in ran.error
    assert "hit@1 is 1.000, the floor is 1.100" in ran.error
    assert rows(folder) == before


@pytest.mark.slow
def test_a_second_run_embeds_nothing_writes_nothing_and_takes_documents_from_the_cache(
    indexed: tuple[Path, Ran],
) -> None:
    folder, _ = indexed
    before = rows(folder)
    second = run(folder, "docs", "--catalogue", str(folder / "catalogue.yaml"))
    assert second.code == 0, second.err
    assert "docs: 0 embedded, 0 reused, 0 rows deleted, 3 rows held, 3 rows wanted, 0 rows written" in second.out
    assert "docs fetch" not in second.err
    assert "docs chunk" not in second.err
    assert rows(folder) == before


@pytest.mark.slow
def test_failing_sources_are_named_with_step_and_cause_keep_their_rows_and_stop_no_other(
    indexed: tuple[Path, Ran], tmp_path: Path
) -> None:
    folder, _ = indexed
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "start"]):
        write_site(tmp_path / "cider", pressing="Press apples in autumn.")
        subprocess.run([*git, *words], cwd=tmp_path / "cider", check=True, capture_output=True)
    write_site(folder / "bees", smoking="Use a smoker.")
    catalogue = write_catalogue(tmp_path, apples=str(tmp_path / "gone"), bees=str(folder / "bees"), cider="cider")
    text = catalogue.read_text().replace("url: cider,", "url: cider, ref: no-such-branch,")
    catalogue.write_text(text)
    ran = run(folder, "docs", "--catalogue", str(catalogue))
    assert ran.code == 1
    assert "docs: source apples failed at resolve_revision:" in ran.error
    assert "docs: source cider failed at resolve_revision:" in ran.error
    assert "no-such-branch" in ran.error
    held = rows(folder)
    assert sorted({row[1] for row in held}) == ["apples", "bees"]
    assert any("smoker" in row[4] for row in held)


@pytest.mark.slow
def test_a_service_that_cannot_be_reached_is_one_line_and_what_was_indexed_is_served_still(
    indexed: tuple[Path, Ran],
) -> None:
    folder, _ = indexed
    before = rows(folder)
    ran = run(folder, "docs", "--catalogue", str(folder / "catalogue.yaml"), EMBEDDINGS_URL="http://127.0.0.1:1")
    assert ran.code == 1
    assert "docs: collection failed at describe_model: http://127.0.0.1:1" in ran.error
    assert "EMBEDDINGS_URL" in ran.error
    assert rows(folder) == before


@pytest.mark.slow
def test_a_path_that_cannot_hold_a_database_is_one_line_with_the_remedy(indexed: tuple[Path, Ran]) -> None:
    folder, _ = indexed
    uri = str(folder / "no" / "such" / "folder" / "corpus.db")
    ran = run(folder, "docs", "--catalogue", str(folder / "catalogue.yaml"), MILVUS_URI=uri)
    assert ran.code == 1
    assert "docs: collection failed at read_state: The folder of MILVUS_URI" in ran.error
    assert "in a folder that exists" in ran.error


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount the small disk that this test fills")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_one_line_with_the_remedy_and_the_next_run_goes_on(tmp_path: Path) -> None:
    letters = random.Random(1)
    noise = {f"page{n}": " ".join(f"{letters.getrandbits(256):x}" for _ in range(4_000)) for n in range(4)}
    write_site(tmp_path / "noise", **noise)
    write_site(tmp_path / "bees", hives="Look into each hive once a week.")
    catalogue = write_catalogue(tmp_path, noise="noise", bees="bees")
    database = {"MILVUS_URI": str(tmp_path / "corpus.db")}
    with small_disk(tmp_path / "local", 400):
        ran = run(tmp_path, "docs", "--catalogue", str(catalogue), **database)
        assert ran.code == 1
        assert "docs: source noise failed at fetch: No space left on the disk" in ran.error
        assert "Free some space and run again" in ran.error
    # The same commit again, where there is room: a failure is never served from the cache.
    again = run(tmp_path, "docs", "--catalogue", str(catalogue), "--source", "noise", "--dry-run")
    assert again.code == 0, again.err


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{name: a, type: docs, repo: example/a, urll: x, site: {}}", "urll"),
        ("{name: a, type: docz, repo: example/a}", "docz"),
    ],
)
def test_a_wrong_key_in_the_catalogue_is_one_line_with_file_and_line(tmp_path: Path, entry: str, said: str) -> None:
    file = tmp_path / "catalogue.yaml"
    file.write_text(f"sources:\n  - {entry}\n")
    ran = run(tmp_path, "docs", "--catalogue", str(file))
    assert ran.code == 1
    assert said in ran.error
    assert f"{file}:2" in ran.error
    assert not (tmp_path / "local").exists()


@pytest.mark.parametrize("option", ["--source", "--allow-deletions"])
def test_an_unknown_source_is_refused_with_the_names_that_there_are(tmp_path: Path, option: str) -> None:
    write_site(tmp_path / "bees", hives="Look into each hive once a week.")
    ran = run(tmp_path, "docs", "--catalogue", str(write_catalogue(tmp_path, bees="bees")), option, "beees")
    assert ran.code == 1
    assert "beees" in ran.error
    assert "bees" in ran.error


@pytest.mark.slow
def test_a_dry_run_counts_what_would_be_fetched_and_chunked_and_writes_nothing(tmp_path: Path) -> None:
    write_site(tmp_path / "bees", hives="Look into each hive once a week.", draft="Nothing yet.")
    (tmp_path / "bees" / "docs" / "draft.md").write_text("---\ndraft: true\n---\n# Draft\n\nNothing yet.\n")
    catalogue = write_catalogue(tmp_path, bees="bees")
    ran = run(tmp_path, "docs", "--catalogue", str(catalogue), "--dry-run", "--digest", MILVUS_URI="/no/such/place.db")
    assert ran.code == 0, ran.err
    assert ["bees", "2", "1", "1", "ok"] in [line.split() for line in ran.out.splitlines()]
    assert "bees: 1 left out: draft" in ran.out
    assert re.search(r"^digest docs/bees 1 [0-9a-f]{64}$", ran.out, re.MULTILINE)
    assert not (tmp_path / "local").exists()


@pytest.mark.slow
def test_a_dry_run_names_a_source_that_is_not_there(tmp_path: Path) -> None:
    ran = run(tmp_path, "docs", "--catalogue", str(write_catalogue(tmp_path, bees="gone")), "--dry-run")
    assert ran.code == 1
    assert "docs: source bees failed at resolve_revision:" in ran.error


def test_digests_are_of_a_dry_run_alone(tmp_path: Path) -> None:
    write_site(tmp_path / "bees", hives="Look into each hive once a week.")
    ran = run(tmp_path, "docs", "--catalogue", str(write_catalogue(tmp_path, bees="bees")), "--digest")
    assert ran.code == 1
    assert "Add --dry-run" in ran.error


def test_a_wrong_word_on_the_command_line_exits_with_two(tmp_path: Path) -> None:
    assert run(tmp_path, "dox").code == 2


@pytest.mark.slow
def test_the_corpus_is_three_collections_and_a_source_that_fails_stops_no_other_and_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_site(tmp_path / "bees", hives="Look into each hive once a week.")
    catalogue = write_catalogue(tmp_path, bees="bees")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "hive.py").write_text('"""Hives."""\n\nINTERVAL_DAYS = 7\n')
    with catalogue.open("a") as file:
        file.write("  - {name: hive-code, type: code, repo: example/hive, url: code}\n")
        file.write("  - {name: bee-issues, type: issue, repo: example/bees}\n")
        file.write("  - {name: wasp-issues, type: issue, repo: example/wasps}\n")
    (tmp_path / "local").mkdir()
    with github() as server:
        for name in ("bees", "wasps"):
            server.repository(f"example/{name}").open(f"The {name} are loud", "They hum all night, and nobody sleeps.")
        monkeypatch.setenv("MILVUS_URI", str(tmp_path / "local" / "corpus.db"))
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        assert run_steps("issues", tmp_path / "before", catalogue=catalogue).ok
        server.repository("example/bees").open("The queen is gone", "Since Monday no eggs are laid in the third hive.")
        del server.repositories["example/wasps"]
        ran = run(tmp_path, "corpus", "--catalogue", str(catalogue), GITHUB_API_URL=server.url)
    assert ran.code == 1
    assert ran.error.startswith("error: issues: source wasp-issues failed at fetch: ")
    assert ran.error.count(" failed at ") == 1, "nothing else failed"
    held = rows(tmp_path, "issues_rag")
    assert sorted(row[1] for row in held) == ["bee-issues", "bee-issues", "wasp-issues"]
    assert [row[1] for row in rows(tmp_path)] == ["bees"]
    assert {row[1] for row in rows(tmp_path, "code_rag")} == {"hive-code"}
    table = [line.split() for line in ran.out.splitlines()]
    assert ["bees", "1", "1", "1", "0", "0", "ok"] in table
    assert ["wasp-issues", "0", "0", "0", "failed", "at", "fetch"] in [[row[0], *row[-6:]] for row in table if row]
    assert ["hive-code", "1"] in [row[:2] for row in table]


@pytest.mark.slow
def test_a_run_that_is_asked_for_one_document_leaves_every_other_alone(indexed: tuple[Path, Ran]) -> None:
    folder, _ = indexed
    before = rows(folder)
    write_site(folder / "apples", pruning="Prune apple trees in March.", storing="Store apples in the attic.")
    catalogue = str(folder / "catalogue.yaml")
    wrong = run(folder, "docs", "--catalogue", catalogue, "--changed-paths", "apples:docs/*.md")
    assert wrong.code == 1
    assert "'apples:docs/*.md' is a pattern. Name each document" in wrong.error
    ran = run(folder, "docs", "--catalogue", catalogue, "--changed-paths", "apples:docs/pruning.md")
    assert ran.code == 0, ran.err
    assert ["apples", "1", "1", "0", "1", "0", "ok"] in [line.split() for line in ran.out.splitlines()]
    assert "bees" not in ran.out
    held = rows(folder)
    assert [row[4] for row in held if "March" in row[4]]
    assert not [row[4] for row in held if "attic" in row[4] or "winter" in row[4]]
    assert {tuple(row) for row in held} >= {tuple(row) for row in before if "Prune" not in row[4]}
