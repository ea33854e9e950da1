"""Rows beside the page that a generator built: what a reader sees, what rows hold, which anchors exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubeflow_corpus.chunking.docs import markdown
from kubeflow_corpus.chunking.docs.built_site import compare_site, compared, visible
from kubeflow_corpus.cli.main import main

from tests.chunking.doc_samples import budget, page

BUILT = """<html><head><title>No</title></head><body><nav>Menu</nav><main>
<h1 id="t">Title</h1><p>One <b>bold</b> and <code>code</code>
line.</p><script>no()</script><div hidden>Unseen</div>
<h2 id="a-b">A b<a class="headerlink" href="#a-b">#</a></h2><pre><code>x = 1
y = 2</code></pre><table><tr><td>c1</td><td>c2</td></tr></table><hr>)</main><footer>End</footer></body></html>"""


def test_what_a_reader_sees_is_read_line_by_line() -> None:
    lines, ids = visible(BUILT)
    assert lines == ["Title", "One bold and code line.", "A b", "x = 1", "y = 2", "c1", "c2"]
    assert ids == {"t", "a-b"}


def test_missing_lines_wrong_anchors_and_unbuilt_pages_are_named(tmp_path: Path) -> None:
    (tmp_path / "docs/page").mkdir(parents=True)
    (tmp_path / "docs/page/index.html").write_text(BUILT)
    words = "word " * 60
    text = f"# Title\n\nOne **bold** and `code` line.\n\n## A b\n\n{words}\n\n```\nx = 1\n```\n\n"
    text += f"| c1 | c2 |\n| - | - |\n\n## Other\n\n{words}\n"
    one = markdown.chunk(page(text), budget()).chunks
    two = markdown.chunk(page("Text.", path="content/en/docs/gone.md"), budget()).chunks
    first, second = compare_site(
        [("one.md", one), ("two.md", two), ("none.md", ())], "https://www.kubeflow.org/", tmp_path
    )
    assert (first.lines, first.missing, first.wrong) == (7, ("y = 2",), ("other",))
    assert second.unbuilt == "https://www.kubeflow.org/docs/gone/"
    report = "\n".join(compared([first, second]))
    assert "7 visible lines, 0.8571 of them in rows" in report and "1 wrong; 1 addresses without a page" in report


def test_inspect_compares_a_source_with_its_built_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "repo/docs").mkdir(parents=True)
    (tmp_path / "repo/docs/a.md").write_text("# T\n\nSome text.\n")
    (tmp_path / "built").mkdir()
    (tmp_path / "built/a.html").write_text('<main><h1 id="t">T</h1><p>Some text.</p></main>')
    catalogue = tmp_path / "catalogue.yaml"
    catalogue.write_text(
        "sources:\n  - {name: d, type: docs, repo: a/b, url: repo, product_area: platform,"
        " site: {generator: sphinx, root: docs, base_url: 'https://x.test/'}}\n"
    )
    arguments = ["inspect", "--catalogue", str(catalogue), "--source", "d", "--against", str(tmp_path / "built")]
    assert main(arguments) == 0
    assert "1 pages, 2 visible lines, 1.0000 of them in rows" in capsys.readouterr().out
    (tmp_path / "built/a.html").unlink()
    assert main(arguments) == 1
