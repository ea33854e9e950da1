"""MkDocs sites: addresses, ids, admonitions, tabs, snippets; and rows beside what MkDocs itself builds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.chunking.docs.built_site import compare_site, compared
from kubeflow_corpus.sites.anchors import HeadingSource
from kubeflow_corpus.sites.base import RepositoryPaths, Site
from kubeflow_corpus.sites.mkdocs import GENERATOR, TocAnchors

from tests.chunking.doc_samples import SitePages

SITE = {"generator": "mkdocs", "root": "docs", "base_url": "https://sails.test/"}
SAMPLE = SitePages(SITE, "docs/guide/page.md")
cut, content = SAMPLE.cut, SAMPLE.content
PAGES = {
    "index.md": "# Sails\n\nSome text about sails and wind.\n",
    "guide/README.md": "# Guide\n\nThe guide to all sails of the mill.\n",
    "guide/reef.md": """# Reefing a sail

!!! note
    A note about wind with `code`.

    ```sh
    sail reef --now
    ```

??? warning "Storms ahead"
    Take care.

    * one thing
    * another thing

=== "Cloth"

    Roll the cloth.

    !!! tip ""
        Nested advice.

=== "Wood"

    Turn the shutter.

FILLER

Back to prose :material-sail-boat: and a [button](../index.md){ .md-button .big }.

## Reefing a sail

1. First step

    !!! danger "Careful"
        Inside the list.

2. Second step

FILLER

## Own { #my-own }

FILLER

## What's *new* in v2.0?

FILLER

--8<-- "snippets/words.md"

```py
--8<-- "snippets/mill.py:turn"
```

| Part | Use |
| --- | --- |
| a | b |
""".replace("FILLER", "Words that make a section long enough for a row of its own. " * 20),
}
SNIPPETS = {
    "snippets/words.md": "Words from a file.\n",
    "snippets/mill.py": "import os\n# --8<-- [start:turn]\nturn(1)\n# --8<-- [end:turn]\nother()\n",
}
CONFIG = """site_name: Sails
site_url: https://sails.test/
markdown_extensions:
  - admonition
  - attr_list
  - md_in_html
  - tables
  - toc
  - pymdownx.details
  - pymdownx.superfences
  - pymdownx.emoji:
      emoji_index: !!python/name:material.extensions.emoji.twemoji
      emoji_generator: !!python/name:material.extensions.emoji.to_svg
  - pymdownx.tabbed: {alternate_style: true}
  - pymdownx.snippets: {base_path: ["."]}
theme: {name: material, font: false}
"""


@pytest.mark.parametrize(
    ("path", "params", "address"),
    [
        ("docs/index.md", {}, "https://sails.test/"),
        ("docs/guide/README.md", {}, "https://sails.test/guide/"),
        ("docs/guide/a b.md", {}, "https://sails.test/guide/a%20b/"),
        ("docs/guide/index.md", {"use_directory_urls": False}, "https://sails.test/guide/index.html"),
        ("docs/guide/a.md", {"use_directory_urls": False}, "https://sails.test/guide/a.html"),
    ],
)
def test_a_page_is_served_as_a_folder_or_under_its_name(path: str, params: dict[str, Any], address: str) -> None:
    assert cut("Some text.\n", path, params=params).chunks[0].citation_url == address


def test_ids_are_those_of_the_table_of_contents() -> None:
    anchors = TocAnchors()
    headings = ["What's new in v2.0?", "Überblick: Straße", "A", "A", "中文", "中文", "a--b_c", "Own { #my-own }"]
    wanted = ["whats-new-in-v20", "uberblick-strae", "a", "a_1", "_1", "_2", "a-b_c", "my-own"]
    assert [anchors.next(HeadingSource(text, text)).id for text in headings] == wanted


def test_blocks_become_labels_and_their_content_plain_markdown() -> None:
    found = content(PAGES["guide/reef.md"])
    for line in ("Note:", "sail reef --now", "Storms ahead:", "Cloth:", "Nested advice.", "Wood:", "Careful:"):
        assert line in found
    for mark in ("!!!", "???", "===", "md-button", ":material-"):
        assert mark not in found


def test_files_that_a_page_includes_are_shown_and_missing_ones_are_counted() -> None:
    known = RepositoryPaths([*SNIPPETS, "docs/guide/reef.md"])
    wanted = set(GENERATOR.companions("docs/guide/reef.md", PAGES["guide/reef.md"], Site("mkdocs", "docs"), known))
    assert wanted == set(SNIPPETS)
    shown = content(PAGES["guide/reef.md"], files=SNIPPETS)
    assert "Words from a file." in shown and "turn(1)" in shown
    assert "other()" not in shown and "8<" not in shown
    assert cut('# A\n\nText.\n\n--8<-- "../../etc/passwd"\n').counts["include:../../etc/passwd"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "!!! note\n" * 500,
        "    " * 300 + "!!! note\n",
        '=== "a"\n' + "    " * 200 + "x\n",
        "???\n!!!\n===\n",
        '!!! a "\n',
    ],
)
def test_strange_blocks_end(text: str) -> None:
    cut(f"# A\n\n{text}")


@pytest.mark.slow
def test_rows_hold_what_mkdocs_itself_shows(tmp_path: Path) -> None:
    files = {f"docs/{path}": text for path, text in PAGES.items()}
    for path, text in {"mkdocs.yml": CONFIG, **files, **SNIPPETS}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"]
    subprocess.run(command, cwd=tmp_path, check=True, env={"PATH": "/usr/bin", "NO_MKDOCS_2_WARNING": "1"})
    rows = [(path, cut(text, path, files=SNIPPETS).chunks) for path, text in files.items()]
    results = list(compare_site(rows, "https://sails.test/", tmp_path / "site"))
    report = "\n".join(compared(results))
    assert [(page.unbuilt, page.wrong) for page in results] == [("", ())] * len(PAGES), report
    # The titles of tabs share one line there, and each above its own text here.
    assert [line for page in results for line in page.missing] == ["ClothWood"], report
    assert sum(page.anchors for page in results) >= 4
