"""The documents lead where they say: links, sections and files exist; pages made from the code are what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from kubeflow_corpus.sites.registry import GENERATORS
from kubeflow_corpus.sources import catalogue
from ruamel.yaml import YAML

from tests.documents.reference import DOCUMENTS, PAGES

REPOSITORY = Path(__file__).parents[2]
PAGES_OF_PEOPLE = sorted(
    [*REPOSITORY.glob("*.md"), *(path for path in REPOSITORY.glob("docs/**/*.md") if path.name not in PAGES)]
)
SCHEMA = json.loads((Path(catalogue.__file__).parent / "catalogue.schema.json").read_text("utf-8"))
README_LINES = 200


def prose(text: str) -> str:
    return re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """As GitHub makes them of headings: lower case, no punctuation, hyphens for blanks."""
    headings = re.findall(r"^#+ (.+)$", prose(path.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES_OF_PEOPLE, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_leads_to_a_file_and_a_section_that_exist(page: Path) -> None:
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text("utf-8"))):
        if "://" in link:
            continue
        file, _, section = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (section and section not in anchors(target)):
            wrong.append(link)
    assert not wrong


@pytest.mark.parametrize("page", PAGES_OF_PEOPLE, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_file_of_the_project_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(r"`((?:components|pipelines|tests|manifests|docs)/[\w./-]+)`", page.read_text("utf-8")))
    assert not [path for path in sorted(named) if not (REPOSITORY / path).exists()]


def test_the_readme_is_an_introduction() -> None:
    assert len((REPOSITORY / "README.md").read_text("utf-8").splitlines()) <= README_LINES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_is_made_from_the_code_is_what_the_code_says(name: str) -> None:
    assert (DOCUMENTS / name).read_text("utf-8") == PAGES[name](), "run `make docs` and commit docs/reference"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "tutorial" / "index.html").is_file()


def complete(folder: Path) -> Path:
    """A catalogue that has every key."""
    file = folder / "catalogue.yaml"
    file.write_text(
        """
sources:
  - name: a-docs
    type: docs
    repo: example/a
    url: .
    ref: main
    include: ["**/*.md"]
    exclude: ["drafts/**"]
    product_area: {"a/**": [pipelines, katib], "**": platform}
    version: "1.10"
    site: {generator: hugo, root: content/en, base_url: "https://a.example/", params: {version: v1.9}}
  - {name: a-code, type: code, repo: example/a, url: ., product_area: platform}
  - {name: a-issues, type: issue, repo: example/a, product_area: platform}
"""
    )
    return file


def test_what_the_program_reads_the_schema_takes(tmp_path: Path) -> None:
    packaged = Path(catalogue.__file__).parent / "catalogue.yaml"
    for path in (packaged, REPOSITORY / "tests/corpus/catalogue.yaml", complete(tmp_path)):
        assert catalogue.load_catalogue(path).sources
        jsonschema.validate(YAML(typ="safe").load(path), SCHEMA)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: a-docs", "name: A Docs"),
        ("repo: example/a\n    url: .\n    ref", "repo: example\n    url: .\n    ref"),
        ("type: code", "type: wiki"),
        ("generator: hugo", "generator: jekyll"),
        ('base_url: "https://a.example/"', 'base_url: "a.example"'),
        ("type: issue, repo: example/a", "type: issue, repo: example/a, url: ."),
        ("sources:", "vocab: x\nsources:"),
        ("ref: main", "branch: main"),
    ],
)
def test_what_the_program_refuses_the_schema_refuses(tmp_path: Path, old: str, new: str) -> None:
    path = complete(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(catalogue.CatalogueError):
        catalogue.load_catalogue(path)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(YAML(typ="safe").load(path), SCHEMA)


def test_the_schema_has_the_keys_that_the_program_knows() -> None:
    for kind, keys in catalogue.KEYS.items():
        assert set(SCHEMA["$defs"][kind]["properties"]) == set(keys)
    assert SCHEMA["$defs"]["site"]["properties"]["generator"]["enum"] == list(GENERATORS)
