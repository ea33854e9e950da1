import json
from pathlib import Path

import pytest
from kubeflow_corpus.cli.main import main

CORPUS = Path(__file__).parents[1] / "corpus"
CATALOGUE = str(CORPUS / "catalogue.yaml")
HUGO = CORPUS / "docs" / "hugo" / "content" / "en" / "docs"


def inspect(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["inspect", *words]) == 0
    return capsys.readouterr().out


def test_a_page_is_shown_as_rows_with_lines_tokens_and_address(capsys: pytest.CaptureFixture[str]) -> None:
    out = inspect(capsys, str(HUGO / "started" / "installation.md"), "--catalogue", CATALOGUE)
    assert "title: Install Orchard" in out
    assert "https://docs.orchard.example/docs/started/installation/#prerequisites" in out
    assert "removed lines 1-7: front_matter" in out
    assert "shortcode:nobody-knows 1" in out
    assert "[0] lines 8-" in out


def test_a_path_inside_a_named_source_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("docs/serving/serving.md", "--source", "beehive-website", "--catalogue", CATALOGUE)
    assert "https://beehive.example/website/docs/serving#protocols" in inspect(capsys, *words)


def test_a_page_that_is_skipped_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert "skipped: draft" in inspect(capsys, str(HUGO / "draft.md"), "--catalogue", CATALOGUE)


def test_json_says_what_happened_to_every_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = (str(HUGO / "started" / "architecture.md"), "--catalogue", CATALOGUE, "--json", "--budget", "48")
    found = json.loads(inspect(capsys, *words))
    lines = [*found["rows"], *found["removed"]]
    covered = {line for span in lines for line in range(span["start_line"], span["end_line"] + 1)}
    assert covered == set(range(1, found["lines"] + 1))
    assert all(row["tokens"] <= 46 for row in found["rows"])


def test_a_file_of_no_source_is_read_at_its_own_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "note.md"
    file.write_text("# Note\n\nA line.\n")
    assert "A line." in inspect(capsys, str(file))


def test_a_file_that_is_missing_or_no_text_is_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "picture.md").write_bytes(b"\x89PNG\0")
    for name, words in (("missing.md", "cannot be read"), ("picture.md", "would be skipped: binary")):
        assert main(["inspect", str(tmp_path / name)]) == 1
        error = capsys.readouterr().err
        assert words in error and name in error


def test_an_unknown_source_is_named_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "a.md", "--source", "nobody", "--catalogue", CATALOGUE]) == 1
    assert "beehive-website" in capsys.readouterr().err
