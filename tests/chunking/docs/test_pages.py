import pytest
from kubeflow_corpus.chunking.docs.pages import (
    FrontMatter,
    Site,
    cascades,
    docusaurus_slug,
    hidden_reason,
    hugo_path,
    page_url,
    page_versions,
    read_front_matter,
)

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
    assert hugo_path(path, FrontMatter(front), {}) == address


def test_hugo_permalinks_of_a_section_decide_the_address() -> None:
    params = {"permalinks": {"page": {"blog": "/:year/:month/:slugorcontentbasename/"}}}
    front = FrontMatter({"date": "2026-03-04T00:00:00Z"})
    assert hugo_path("blog/News.md", front, params) == "/2026/03/news/"
    assert hugo_path("docs/News.md", front, params) == "/docs/news/"


@pytest.mark.parametrize(
    ("path", "front", "slug"),
    [
        ("intro.md", {}, "/intro"),
        ("intro.mdx", {"slug": "/"}, "/"),
        ("guide/index.md", {}, "/guide/"),
        ("guide/README.md", {}, "/guide/"),
        ("guide/Guide.md", {}, "/guide/"),
        ("01-guide/02-first.md", {}, "/guide/first"),
        ("3-API/01_Core APIs/0 --- Client API.md", {}, "/API/Core APIs/Client API"),
        ("guide/2024-06-notes.md", {}, "/guide/2024-06-notes"),
        ("guide/1.9-upgrade.md", {}, "/guide/1.9-upgrade"),
        ("guide/page.md", {"id": "other"}, "/guide/other"),
        ("guide/page.md", {"id": "other", "slug": "mine"}, "/guide/mine"),
        ("guide/page.md", {"slug": "/top"}, "/top"),
        ("guide/deep/page.md", {"slug": "../up"}, "/guide/up"),
        ("guide/page.md", {"slug": "../../../out"}, "/out"),
        ("guide/CamelCase.md", {}, "/guide/CamelCase"),
    ],
)
def test_docusaurus_gives_a_page_the_slug(path: str, front: dict[str, object], slug: str) -> None:
    assert docusaurus_slug(path, FrontMatter(front)) == slug


@pytest.mark.parametrize(
    ("site", "address"),
    [
        ({}, "https://kserve.github.io/website/docs/guide/a%20b"),
        (
            {"base_url": "https://kserve.github.io/website/docs/next/"},
            "https://kserve.github.io/website/docs/next/guide/a%20b",
        ),
        ({"params": {"version_path": "next"}}, "https://kserve.github.io/website/docs/next/guide/a%20b"),
        ({"params": {"route_base_path": "/"}}, "https://kserve.github.io/website/guide/a%20b"),
        ({"params": {"trailing_slash": True}}, "https://kserve.github.io/website/docs/guide/a%20b/"),
    ],
)
def test_a_docusaurus_address_is_base_route_version_and_slug(site: dict[str, object], address: str) -> None:
    document = page("x", "docusaurus", "docs/guide/a b.md", site=site)
    assert page_url(document, FrontMatter(), Site.of(document)) == address


def test_without_a_site_a_page_is_read_at_its_source() -> None:
    document = page("x", "", "README.md")
    assert page_url(document, FrontMatter(), Site.of(document)) == document.url


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: A\ndraft: true\n---\nBody",
        '+++\ntitle = "A"\ndraft = true\n+++\nBody',
        '{\n"title": "A",\n"draft": true\n}\nBody',
        "\ufeff---\ntitle: A\ndraft: true\n---\nBody",
    ],
)
def test_yaml_toml_and_json_front_matter_say_the_same(text: str) -> None:
    lines = text.split("\n")
    front = read_front_matter(lines)
    assert (front.text("title"), front.flag("draft"), lines[front.lines]) == ("A", True, "Body")


def test_damaged_front_matter_still_gives_its_flat_lines() -> None:
    front = read_front_matter(["---", "title: A", "bad: [unclosed", "---", "Body"])
    assert (front.text("title"), front.damaged, front.lines) == ("A", True, 4)


@pytest.mark.parametrize("text", ["---\ntitle: never closed", "--- \n", "***\n---\n", "", "{\nno json\n}\n"])
def test_what_only_looks_like_front_matter_is_body(text: str) -> None:
    assert read_front_matter(text.split("\n")).lines == 0


def test_hostile_yaml_is_no_front_matter_and_no_crash() -> None:
    for body in ("a: !!python/object/apply:os.system [ls]", "a: " + "[" * 5_000, "? [a, b]\n: c"):
        assert read_front_matter(["---", *body.split("\n"), "---"]).lines in (3, 4)


@pytest.mark.parametrize(
    ("generator", "path", "front", "reason"),
    [
        ("hugo", "content/en/docs/a.md", {"draft": True}, "draft"),
        ("hugo", "content/en/docs/a.md", {"build": {"render": "never"}}, "not_rendered"),
        ("hugo", "content/en/docs/a.md", {"_build": {"list": "never"}}, "unlisted"),
        ("hugo", "content/en/docs/_a.md", {}, ""),
        ("docusaurus", "docs/a.md", {"draft": True}, "draft"),
        ("docusaurus", "docs/a.md", {"unlisted": True}, "unlisted"),
        ("docusaurus", "docs/_parts/a.md", {}, "partial"),
        ("docusaurus", "docs/a.md", {"draft": False}, ""),
    ],
)
def test_what_a_site_does_not_publish_is_left_out(
    generator: str, path: str, front: dict[str, object], reason: str
) -> None:
    document = page("x", generator, path)
    assert hidden_reason(document, FrontMatter(front), Site.of(document)) == reason


def test_a_section_page_hands_its_draft_down_unless_a_page_says_otherwise() -> None:
    section = page(
        "---\ncascade:\n  - draft: true\n    _target:\n      path: /docs/new/**\n---\n",
        path="content/en/docs/_index.md",
    )
    (cascade,) = cascades(section)
    site = Site.of(section)
    assert cascade.covers("content/en/docs/new/a.md", site)
    assert not cascade.covers("content/en/docs/old/a.md", site)
    below = page("x", cascade=dict(cascade.values))
    assert hidden_reason(below, FrontMatter(), site) == "draft_section"
    assert hidden_reason(below, FrontMatter({"draft": False}), site) == ""


@pytest.mark.parametrize(
    ("path", "listed", "front", "versions"),
    [
        ("docs/legacy-v1/a.md", [], {}, ("v1",)),
        ("versioned_docs/version-0.15/a.md", [], {}, ("0.15",)),
        ("docs/a.md", ["v1.9.1"], {}, ("1.9.1", "1.9")),
        ("docs/a.md", [], {"version": "26.03"}, ("26.03",)),
        ("docs/v1beta1-api/a.md", [], {}, ()),
    ],
)
def test_versions_come_from_catalogue_front_matter_and_folder(
    path: str, listed: list[str], front: dict[str, object], versions: tuple[str, ...]
) -> None:
    assert page_versions(page("x", "", path, version=listed), FrontMatter(front)) == versions
