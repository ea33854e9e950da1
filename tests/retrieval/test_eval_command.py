"""The command over the sample corpus: exit codes, files, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from kubeflow_corpus.cli.main import main
from kubeflow_corpus.evaluation.questions import load_questions

from tests.retrieval.conftest import Indexed
from tests.retrieval.samples import QUESTION_FILE

pytestmark = pytest.mark.timeout(900)
IDS = ("d001", "d013", "d024", "i001", "c001")


def write(file: Path, lines: Sequence[dict[str, object]]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@pytest.fixture
def right(tmp_path: Path) -> Path:
    """A few questions of the gate."""
    lines = map(json.loads, QUESTION_FILE.read_text().splitlines())
    return write(tmp_path / "right.jsonl", [line for line in lines if line["id"] in IDS])


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A question whose answer is not there."""
    asked = {"id": "w1", "query": "CULL_IDLE_TIME", "tool": "docs", "kind": "key"}
    return write(tmp_path / "wrong.jsonl", [{**asked, "expected": ["example/orchard-website:nowhere.md"]}])


@pytest.fixture
def command(
    indexed: Indexed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """The command in this process, over a copy of the sample corpus."""
    monkeypatch.setenv("MILVUS_URI", indexed.copy)
    for name in ("EMBEDDINGS_URL", "COLLECTION_PREFIX", "RERANK_URL"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: object) -> tuple[int, str, str]:
        code = main(["eval", *map(str, words)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.mark.slow
def test_a_run_whose_questions_are_answered_passes_and_prints_every_metric(
    command: Callable[..., tuple[int, str, str]], right: Path
) -> None:
    code, out, _ = command("run", right)
    assert code == 0
    assert "5 questions, p50" in out
    assert {"hit@1", "hit@5", "mrr@10", "ndcg@10", "evidence", "empty"} <= {
        line.split()[0] for line in out.splitlines()
    }


@pytest.mark.slow
def test_a_floor_that_is_missed_fails_and_names_metric_question_and_place(
    command: Callable[..., tuple[int, str, str]], wrong: Path
) -> None:
    code, out, _ = command("run", wrong, "--floor", "hit@5=0.9")
    assert code == 1
    assert "FAILED: hit@5 is 0.000, the floor is 0.900" in out
    assert "miss w1: 'CULL_IDLE_TIME': not found; bm25: absent" in out
    assert command("run", wrong)[0] == 0, "without a floor or a baseline a run only measures"


@pytest.mark.slow
def test_reports_are_written_for_people_and_for_machines(
    command: Callable[..., tuple[int, str, str]], wrong: Path, tmp_path: Path
) -> None:
    page, junit = tmp_path / "new" / "report.html", tmp_path / "new" / "junit.xml"
    code, out, _ = command("run", wrong, "--report", page, "--junit", junit, "--json")
    assert code == 0
    assert json.loads(out)["metrics"]["hit@5"] == 0.0
    assert "Misses (1 of 1)" in page.read_text()
    assert "nowhere.md" in page.read_text()
    assert ElementTree.parse(junit).getroot().get("failures") == "1"


@pytest.mark.slow
def test_a_run_is_compared_with_its_baseline_and_a_baseline_of_other_questions_is_refused(
    command: Callable[..., tuple[int, str, str]], right: Path, wrong: Path, tmp_path: Path
) -> None:
    baseline = tmp_path / "baseline.json"
    assert command("run", right, "--save-baseline", baseline)[0] == 0
    assert command("run", right, "--against", baseline)[0] == 0
    better = json.loads(baseline.read_text())
    assert better["setup"]["heads"].keys() >= {"head:orchard-website", "head:orchard-code", "head:pipelines-issues"}
    assert "MiniLM" in better["setup"]["model"]
    once = tmp_path / "once.json"
    command("run", wrong, "--save-baseline", once)
    once.write_text(once.read_text().replace('"hit@5": 0.0', '"hit@5": 1.0'))
    code, out, _ = command("run", wrong, "--against", once)
    assert code == 1
    assert "FAILED: hit@5 changed by -1.000" in out
    assert command("run", wrong, "--against", once, "--tolerance", "1")[0] == 0
    code, _, err = command("run", wrong, "--against", baseline)
    assert code == 1
    assert "another question set" in err and "--save-baseline" in err


@pytest.mark.slow
def test_an_ablation_is_one_table_with_the_default_first(
    command: Callable[..., tuple[int, str, str]], right: Path, indexed: Indexed
) -> None:
    code, out, _ = command("ablate", right, "--group", "mode", "--corpus", f"again={indexed.copy}")
    assert code == 0
    lines = [line.split("|")[1:3] for line in out.splitlines() if line.startswith("| ")]
    assert [(group.strip(), name.strip()) for group, name in lines[2:]] == [
        ("default", "default"),
        ("mode", "hybrid"),
        ("mode", "dense"),
        ("mode", "bm25"),
        ("corpus", "again"),
    ]


@pytest.mark.slow
def test_only_the_questions_of_the_named_tools_are_asked(
    command: Callable[..., tuple[int, str, str]], right: Path
) -> None:
    assert "1 questions" in command("run", right, "--tool", "issues")[1]


def test_a_failure_becomes_a_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "questions.jsonl"
    words = ["eval", "add", str(file), "why is my pod pending", "--tool", "issues", "--kind", "symptom"]
    path = "kubeflow/pipelines:issues/kubeflow/pipelines/103"
    assert main([*words, "--expected", path, "--must-contain", "VolumeOp", "--product-area", "pipelines"]) == 0
    assert main([*words, "--expected", f"{path}=3", "--expected", f"{path}4=1"]) == 0
    first, second = load_questions(file)
    assert (first.id, first.query, first.expected) == ("i001", "why is my pod pending", {path: 3})
    assert first.must_contain == ("VolumeOp",)
    assert (second.id, second.expected, second.any_of) == ("i002", {path: 3, f"{path}4": 1}, False)
    assert "added i001" in capsys.readouterr().out


def test_a_question_is_about_the_products_of_the_catalogue_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "words.yaml").write_text("project: Windmill\nproducts: [{name: sails}]\n")
    catalogue = tmp_path / "catalogue.yaml"
    catalogue.write_text("vocabulary: words.yaml\nsources: []\n")
    add = ["eval", "add", str(tmp_path / "q.jsonl"), "why", "--tool", "docs", "--kind", "k", "--expected", "a/b:c"]

    assert main([*add, "--product-area", "sails", "--catalogue", str(catalogue)]) == 0
    assert main([*add, "--product-area", "katib", "--catalogue", str(catalogue)]) == 1
    assert main([*add, "--product-area", "sails"]) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--expected", "no-repo.md"], "is not 'owner/repo:path'"),
        (["--expected", "a/b:c=7"], "grade 7"),
        (["--expected", "a/b:c", "--product-area", "kserv"], "product area 'kserv'"),
        (["--expected", "a/b:c", "--id", "q1"], "id 'q1' is there twice"),
    ],
)
def test_a_wrong_question_is_refused_and_the_set_stays_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    file = write(tmp_path / "q.jsonl", [{"id": "q1", "query": "?", "tool": "docs", "kind": "k", "expected": ["a/b:c"]}])
    before = file.read_text()
    assert main(["eval", "add", str(file), "query", "--tool", "docs", "--kind", "howto", *words]) == 1
    assert said in capsys.readouterr().err
    assert file.read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["q.jsonl"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "{folder}/none.jsonl"], "none.jsonl cannot be read"),
        (["run", "{folder}/q.jsonl", "--tool", "code"], "no question for code"),
        (["run", "{folder}/q.jsonl", "--floor", "hit@5"], "--floor 'hit@5' is not METRIC=VALUE"),
        (["run", "{folder}/q.jsonl", "--floor", "hit@7=0.5"], "There is no metric 'hit@7'"),
        (["run", "{folder}/q.jsonl", "--against", "{folder}/none.json"], "none.json cannot be read"),
        (["ablate", "{folder}/q.jsonl", "--group", "weights"], "There is no setting 'weights'"),
        (["ablate", "{folder}/q.jsonl", "--corpus", "local.db"], "is not NAME=MILVUS_URI"),
    ],
)
def test_a_wrong_argument_is_one_clear_error_before_anything_is_searched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.delenv("MILVUS_URI", raising=False)
    write(tmp_path / "q.jsonl", [{"id": "q1", "query": "?", "tool": "docs", "kind": "k", "expected": ["a/b:c"]}])
    assert main(["eval", *(word.format(folder=tmp_path) for word in words)]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_corpus_is_asked_for_its_own_headings_and_symbols(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    page, saved = tmp_path / "report.html", tmp_path / "own" / "items.jsonl"
    words = ("known-items", "--tool", "docs", "--tool", "code", "--tool", "issues", "--sample", "12")
    code, out, _ = command(*words, "--report", page, "--save", saved)
    assert code == 0
    assert "kind docs section" in out and "kind issues title" in out and "product " in out
    assert {question.tool for question in load_questions(saved)} == {"docs", "code", "issues"}
    assert "By product" in page.read_text()
    assert command("run", saved, "--floor", "hit@1=0.8")[0] == 0


@pytest.mark.slow
def test_known_items_are_in_the_report_of_a_question_set(
    command: Callable[..., tuple[int, str, str]], right: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    code, out, _ = command("run", right, "--tool", "docs", "--known-items", "4", "--report", page)
    assert code == 0
    assert "7 questions, p50" in out and "known item: " in page.read_text()


def test_a_sample_of_nothing_is_refused(command: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = command("known-items", "--sample", "0")
    assert code != 0 and "Ask at least 1" in err
