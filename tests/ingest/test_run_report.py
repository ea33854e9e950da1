"""What a run leaves for programs and for people: everything by source, nothing that a page could run."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from kubeflow_corpus.ingest.progress import Event
from kubeflow_corpus.ingest.report import report as last_step
from kubeflow_corpus.ingest.results import SourceState, StepResult
from kubeflow_corpus.ingest.run_report import EXAMPLES, past_reports, run_page, run_report, with_examples
from kubeflow_corpus.ingest.summary import summary_lines
from kubeflow_corpus.records import Skip

from tests.retrieval.samples import environment, run

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.found.update(name for name, _ in attrs if name.startswith("on"))


def test_names_documents_that_gave_nothing_by_reason() -> None:
    skips = [Skip(f"site:{number}", f"docs/{number}.md", "draft", "") for number in range(EXAMPLES + 3)]
    state = SourceState(collection="docs", step="chunk", source="site", left_out={"draft": 8, "empty": 1})

    state = with_examples(state, [*skips, Skip("site:x", "docs/x.md", "empty", "")])
    (part,) = run_report([StepResult(collection="docs", step="publish", sources=(state,))])["collections"]
    given = {row["what"]: row for row in part["sources"][0]["given_nothing"]}

    assert given["left out: draft"]["examples"] == [f"docs/{number}.md" for number in range(EXAMPLES)]
    assert given["left out: empty"] == {"what": "left out: empty", "count": 1, "examples": ["docs/x.md"]}
    assert SourceState.from_json(state.to_json()) == state


def test_a_page_shows_what_anybody_wrote_as_text() -> None:
    state = SourceState(
        collection="docs", step="fetch", status="failed", source=HOSTILE, problem=HOSTILE, alarms=(HOSTILE,),
        left_out={HOSTILE: 1}, details={HOSTILE: 1}, examples={HOSTILE: [HOSTILE]},
    )  # fmt: skip
    events = [Event(HOSTILE, "docs", HOSTILE, "failed", problem=HOSTILE, seconds=1.5, memory_mb=7)]
    page = run_page(run_report([StepResult(collection="docs", step="publish", run=HOSTILE, sources=(state,))], events))
    tags = _Tags()
    tags.feed(page)

    assert HOSTILE not in page and page.count("&lt;script&gt;") > 8
    assert not tags.found & {"script", "img", "onerror"}


def test_a_page_shows_the_last_runs(tmp_path: Path) -> None:
    for number in range(3):
        folder = tmp_path / f"2026010{number}-docs"
        folder.mkdir()
        result = StepResult(collection="docs", step="publish", run=folder.name, counts={"rows": 10 * number + 5})
        (folder / "report.json").write_text(json.dumps(run_report([result])))
    (tmp_path / "20260103-docs").mkdir()
    (tmp_path / "20260103-docs" / "report.json").write_text("{ half")
    now = run_report([StepResult(collection="docs", step="publish", run="20260104-docs", counts={"rows": 35})])

    before = past_reports(tmp_path, "20260104-docs")

    assert [report["run"] for report in before] == ["20260100-docs", "20260101-docs", "20260102-docs"]
    assert "rows over 4 runs: from 5 to 35" in run_page(now, before)
    assert past_reports(tmp_path, "20260101-docs") == before[:1]
    assert "last runs" not in run_page(now)


def _changes(result: StepResult) -> dict[str, tuple[int, int]]:
    (part,) = run_report([result])["collections"]
    return {change["what"]: (change["before"], change["now"]) for change in part["changes"]}


@pytest.mark.slow
def test_a_source_that_left_the_catalogue_is_reported_and_can_be_removed(tmp_path: Path) -> None:
    entry = "  - {{name: {0}, type: docs, repo: acme/{0}, url: {0}, product_area: platform, site: {{generator: hugo, root: '', base_url: 'https://{0}.example/'}}}}\n"  # noqa: E501
    for name in ("apples", "bees"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "page.md").write_text(f"# About {name}\n\nAll about {name}.\n")
    (tmp_path / "apples" / "draft.md").write_text("---\ndraft: true\n---\n# Draft\n\nNothing.\n")
    both, one = tmp_path / "both.yaml", tmp_path / "one.yaml"
    both.write_text("sources:\n" + entry.format("apples") + entry.format("bees"))
    one.write_text("sources:\n" + entry.format("apples"))

    with environment(str(tmp_path / "corpus.db"), tmp_path / "vectors"):
        run("docs", tmp_path / "1", catalogue=both)
        left = run("docs", tmp_path / "2", catalogue=one)
        page = (tmp_path / "2" / "docs" / "run.html").read_text()
        removed = run("docs", tmp_path / "3", catalogue=one, allow_deletions=["bees"])
        after = run("docs", tmp_path / "4", catalogue=one)

    line = (
        "bees: 1 documents are stored, and the catalogue no longer has the source. "
        "Remove them with --allow-deletions bees"
    )
    assert line in summary_lines(left) and line in page
    last_step([str(tmp_path / "2" / "docs" / "publish")])
    (part,) = run_report([left])["collections"]
    assert part["left_catalogue"] == [line] and json.loads(json.dumps(part)) == part
    (source,) = part["sources"]
    assert source["given_nothing"] == [{"what": "left out: draft", "count": 1, "examples": ["draft.md"]}]
    assert removed.applied.documents["bees"]["deleted"] == 1
    assert "bees" not in " ".join([*summary_lines(removed), *summary_lines(after)])
    assert _changes(removed)["rows"] == (2, 1) and not _changes(after)
