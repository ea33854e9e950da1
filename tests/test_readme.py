"""The documents lead where they say: links to sections have these sections, the files that they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
TEXT = (REPOSITORY / "README.md").read_text("utf-8")


def anchor(heading: str) -> str:
    """As GitHub makes it of a heading: lower case, no punctuation, hyphens for blanks."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def test_every_link_to_a_section_has_that_section() -> None:
    prose = re.sub(r"^```.*?^```", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    sections = {anchor(heading) for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE)}
    linked = set(re.findall(r"\]\(#([^)]+)\)", prose))
    assert linked and linked <= sections


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_every_file_of_the_project_that_is_named_exists(document: str) -> None:
    text = (REPOSITORY / document).read_text("utf-8")
    named = set(re.findall(r"`((?:components|pipelines|tests|manifests)/[\w./-]+)`", text))
    assert named and not [path for path in sorted(named) if not (REPOSITORY / path).exists()]
