from datetime import date

import pytest
from kubeflow_corpus.sites.base import Page, Site
from kubeflow_corpus.sites.front_matter import FrontMatter
from kubeflow_corpus.sites.hugo import GENERATOR, page_path

from tests.chunking.doc_samples import page


@pytest.mark.parametrize(
    ("path", "front", "address"),
    [
        ("_index.md", {}, "/"),
        ("docs/_index.md", {}, "/docs/"),
        ("docs/about/ai_policy.md", {}, "/docs/about/ai_policy/"),
        ("docs/releases/kubeflow-1.9.md", {}, "/docs/releases/kubeflow-1.9/"),
        ("docs/started/installing-kubeflow/index.md", {}, "/docs/started/installing-kubeflow/"),
        ("docs/Components/My Page.md", {}, "/docs/components/my-page/"),
        ("docs/a (b), c!.md", {}, "/docs/a-b-c/"),
        ("docs/c++.md", {}, "/docs/c++/"),
        ("docs/page.en.md", {}, "/docs/page/"),
        ("docs/page.md", {"slug": "Other Name"}, "/docs/other-name/"),
        ("docs/page.md", {"url": "/somewhere/Else"}, "/somewhere/Else/"),
        ("docs/page.md", {"url": "old.html"}, "/old.html"),
        ("docs/page.md", {"aliases": ["/gone/"]}, "/docs/page/"),
        ("docs/émigré.md", {}, "/docs/%C3%A9migr%C3%A9/"),
    ],
)
def test_hugo_serves_a_page_at(path: str, front: dict[str, object], address: str) -> None:
    assert page_path(path, FrontMatter(front), {}) == address


def test_hugo_permalinks_of_a_section_decide_the_address() -> None:
    params = {"permalinks": {"page": {"blog": "/:year/:month/:slugorcontentbasename/"}}}
    front = FrontMatter({"date": "2026-03-04T00:00:00Z"})
    assert page_path("blog/News.md", front, params) == "/2026/03/news/"
    assert page_path("docs/News.md", front, params) == "/docs/news/"


def test_a_section_page_hands_its_draft_down_unless_a_page_says_otherwise() -> None:
    section = page(
        "---\ncascade:\n  - draft: true\n    _target:\n      path: /docs/new/**\n---\n",
        path="content/en/docs/_index.md",
    )
    (cascade,) = GENERATOR.inheritances(section)
    assert cascade.covers("content/en/docs/new/a.md")
    assert not cascade.covers("content/en/docs/old/a.md")
    below = page("x", inherited=dict(cascade.values))
    assert GENERATOR.hidden_reason(Page(below, Site())) == "draft_section"
    assert GENERATOR.hidden_reason(Page(below, Site(), FrontMatter({"draft": False}))) == ""


def test_a_page_inherits_from_the_section_pages_of_the_folders_above_it() -> None:
    assert list(GENERATOR.inheritance_pages("content/en/a.md")) == [
        "_index.md",
        "content/_index.md",
        "content/en/_index.md",
    ]


@pytest.mark.parametrize(
    ("front", "reason"),
    [
        ({"date": "2999-01-01"}, "future"),
        ({"publishDate": date(2999, 1, 1)}, "future"),
        ({"publishDate": "2999-01-01T00:00:00Z", "date": "2001-01-01"}, "future"),
        ({"expiryDate": "2001-01-01T00:00:00+02:00"}, "expired"),
        ({"headless": True}, "not_rendered"),
        ({"build": {"render": "never"}}, "not_rendered"),
        ({"_build": {"render": False}}, "not_rendered"),
        ({"date": "2001-01-01", "expiryDate": "2999-01-01"}, ""),
        ({"date": "someday"}, ""),
    ],
)
def test_pages_that_hugo_does_not_build_are_hidden_with_the_reason(front: dict[str, object], reason: str) -> None:
    assert GENERATOR.hidden_reason(Page(page("x"), Site(), FrontMatter(front))) == reason


@pytest.mark.parametrize(
    ("path", "content", "version"),
    [
        ("netlify.toml", b'[build.environment]\nHUGO_VERSION = "0.124.1"\n', "0.124.1"),
        ("package.json", b'{"devDependencies": {"hugo-extended": "^0.147.3"}}', "0.147.3"),
        ("site/netlify.toml", b'HUGO_VERSION="v0.165.0"', "0.165.0"),
        (".hugo-version", b"0.150.0\n", "0.150.0"),
        ("netlify.toml", b"\xff\xfe", ""),
    ],
)
def test_the_version_of_hugo_is_the_one_that_the_site_pins(path: str, content: bytes, version: str) -> None:
    site = Site("hugo", "site/content/en" if path.startswith("site/") else "content")
    assert GENERATOR.is_config(path, site)
    assert GENERATOR.read_config({path: content}, site).get("hugo_version", "") == version
