"""Sphinx sites of MyST pages: addresses, ids, what is left out, directives and roles, and files that are included."""

from __future__ import annotations

from typing import Any

import pytest
from kubeflow_corpus.chunking.docs import markdown
from kubeflow_corpus.sites.anchors import HeadingSource
from kubeflow_corpus.sites.base import Page, Site
from kubeflow_corpus.sites.front_matter import FrontMatter
from kubeflow_corpus.sites.sphinx import GENERATOR, DocutilsAnchors

from tests.chunking.doc_samples import SitePages, budget, page, partition_problem

SITE = {"generator": "sphinx", "root": "docs", "base_url": "https://trainer.test/en/latest/"}
SAMPLE = SitePages(SITE, "docs/guides/page.md")
cut, content = SAMPLE.cut, SAMPLE.content


@pytest.mark.parametrize(
    ("path", "params", "address"),
    [
        ("docs/index.md", {}, "https://trainer.test/en/latest/"),
        ("docs/guides/index.md", {}, "https://trainer.test/en/latest/guides/index.html"),
        ("docs/guides/A b.md", {}, "https://trainer.test/en/latest/guides/A%20b.html"),
        ("docs/guides/index.md", {"builder": "dirhtml"}, "https://trainer.test/en/latest/guides/"),
        ("docs/guides/a.md", {"builder": "dirhtml"}, "https://trainer.test/en/latest/guides/a/"),
    ],
)
def test_a_page_is_served_under_its_name(path: str, params: dict[str, Any], address: str) -> None:
    assert cut("Some text.\n", path, params=params).chunks[0].citation_url == address


def test_ids_are_those_of_docutils() -> None:
    # Built with Sphinx 9.0 and myst-parser 5.2 of the same headings.
    anchors = DocutilsAnchors()
    headings = ["What's new in v2.0?", "Überblick: Straße", "2024 plans", "What's new in v2.0?", "中文", "a--b_c"]
    wanted = ["what-s-new-in-v2-0", "uberblick-strasze", "plans", "id1", "id2", "a-b-c"]
    assert [anchors.next(HeadingSource(text, text)).id for text in headings] == wanted


@pytest.mark.parametrize(
    ("pattern", "path", "hidden"),
    [
        ("README.md", "docs/README.md", True),
        ("README.md", "docs/a/README.md", False),
        ("release", "docs/release/a/b.md", True),
        ("**/drafts", "docs/a/drafts/b.md", True),
        ("a/*.md", "docs/a/b.md", True),
        ("a/*.md", "docs/a/b/c.md", False),
        ("*" * 100 + "a" * 50, "docs/" + "a" * 200 + ".md", False),
    ],
)
def test_pages_that_the_configuration_excludes_are_hidden(pattern: str, path: str, hidden: bool) -> None:
    site = Site(**{**SITE, "params": {"exclude_patterns": [pattern]}})
    reason = GENERATOR.hidden_reason(Page(page("x", path=path), site, FrontMatter()))
    assert reason == ("excluded" if hidden else "")


def test_the_configuration_is_read_and_never_run() -> None:
    config = b"import os\nos.abort()\nexclude_patterns = ['a', *x]\nmyst_substitutions = {'v': '1.2', 'f': f()}\n"
    assert GENERATOR.is_config("docs/conf.py", Site(**SITE))
    assert GENERATOR.read_config({"docs/conf.py": config}, Site(**SITE)) == {}
    good = b"exclude_patterns = ['a', 1]\nmyst_substitutions = {'v': 1.2}\nproject = 'x'\n"
    assert GENERATOR.read_config({"docs/conf.py": good}, Site(**SITE)) == {
        "exclude_patterns": ["a"],
        "myst_substitutions": {"v": "1.2"},
    }
    for broken in (b"def (", b"\xff", b"x = " + b"(" * 10_000, b""):
        assert GENERATOR.read_config({"docs/conf.py": broken}, Site(**SITE)) == {}


def test_directives_show_their_title_and_text() -> None:
    shown = content(
        "# T\n\n:::{note}\n:class: x\nMind *this*.\n:::\n\n```{admonition} Own title\nBody `a`.\n```\n\n"
        "::::{tab-set}\n:::{tab-item} Python\n```python\nx = *1*\n```\n:::\n:::{tab-item} Bash\n```{code-block} bash\n"
        ":linenos:\nls *.py\n```\n:::\n::::\n\n```{versionadded} 2.1\nNew.\n```\n\n"
        "```{toctree}\n:hidden:\na\nb\n```\n\n% a comment\n(target)=\n\nEnd {octicon}`rocket` of {ref}`the text <t>`.\n"
    )
    for line in ("Note:", "Mind this.", "Own title", "Body `a`.", "Python", "x = *1*", "Bash", "ls *.py", "New."):
        assert line in shown
    assert "New in version 2.1:" in shown and "End  of the text." in shown
    for gone in (":::", "{note}", "linenos", "hidden", "a comment", "target", "class: x"):
        assert gone not in shown


def test_files_are_included_only_from_the_repository_and_never_without_an_end() -> None:
    files = {
        "examples/a.py": "import a\n# start\nrun()\n# end\nstop()\n",
        "docs/part.md": "---\nx: 1\n---\nPart text.\n\n```{include} part.md\n```\n",
    }
    text = (
        "Lead.\n\n```{literalinclude} ../../examples/a.py\n:start-after: start\n:end-before: end\n```\n\n"
        "```{include} /part.md\n```\n\n```{include} ../../../../etc/passwd\n```\n\nLast.\n"
    )
    chunked = cut(text, files=files)
    shown = "\n".join(row.content_text for row in chunked.chunks)
    assert "```py\nrun()\n```" in shown and "import a" not in shown
    assert 1 < shown.count("Part text.") <= 8 and "Last." in shown
    assert chunked.counts["include:../../../../etc/passwd"] == 1
    named = set(GENERATOR.companions("docs/guides/page.md", text, Site(**SITE), None))  # type: ignore[arg-type]
    assert {"examples/a.py", "docs/part.md"} < named


def test_substitutions_of_the_site_and_of_the_page_are_filled_in() -> None:
    text = "---\nmyst:\n  substitutions: {own: mine}\n---\n`v{{ v }}` {{own}} {{ unknown }}\n"
    assert content(text, params={"myst_substitutions": {"v": "1.2"}}) == "`v1.2` mine {{ unknown }}"


def test_an_unknown_directive_keeps_its_text_and_is_counted() -> None:
    chunked = cut("```{my-widget} Title\nInside.\n```\n")
    assert "Title" in chunked.chunks[0].content_text and "Inside." in chunked.chunks[0].content_text
    assert chunked.counts["directive:my-widget"] == 1


@pytest.mark.parametrize("piece", ["```{note}\n", ":::{a}\n", "```{include} x\n", "{ref}`", "```{code} x\n", "(a)=\n"])
def test_hostile_pages_neither_hang_nor_crash(piece: str) -> None:
    document = page(piece * 5_000, path="docs/a.md", site=SITE)
    assert partition_problem(document, markdown.chunk(document, budget())) == ""


def test_markdown_without_a_site_is_cited_where_the_repository_shows_it() -> None:
    document = page("# T\n\n## A b\n\nText.\n", path="keps/a.md", site={"generator": "markdown", "base_url": ""})
    assert markdown.chunk(document, budget()).chunks[0].citation_url == f"{document.url}#a-b"
