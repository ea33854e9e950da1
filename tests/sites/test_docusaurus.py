import pytest
from kubeflow_corpus.sites.base import Page
from kubeflow_corpus.sites.docusaurus import GENERATOR, page_slug
from kubeflow_corpus.sites.front_matter import FrontMatter

from tests.chunking.doc_samples import page


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
    assert page_slug(path, FrontMatter(front)) == slug


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
    assert GENERATOR.address(Page.read(document)) == address
