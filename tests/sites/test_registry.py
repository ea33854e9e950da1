import pytest
from kubeflow_corpus.chunking.run import chunk_document, chunk_documents
from kubeflow_corpus.errors import CatalogueError
from kubeflow_corpus.sites.base import Page, Site, page_address
from kubeflow_corpus.sites.front_matter import FrontMatter
from kubeflow_corpus.sites.registry import GENERATORS, generator_named
from kubeflow_corpus.sources.named import section_pages

from tests.chunking.doc_samples import budget, page


@pytest.mark.parametrize("name", ["", *GENERATORS])
def test_every_generator_is_found_by_the_name_that_it_has(name: str) -> None:
    assert generator_named(name).name == name


def test_an_unknown_generator_is_refused_everywhere_with_the_known_names() -> None:
    document = page("# A\n\ntext", site={"generator": "sphynx"})
    refusals = (
        lambda: generator_named("sphynx"),
        lambda: chunk_document(document, budget()),
        lambda: list(chunk_documents([document], budget())),
        lambda: section_pages(["docs/a.md"], "sphynx"),
    )
    for refuse in refusals:
        with pytest.raises(CatalogueError, match="no site generator 'sphynx'.*hugo, docusaurus"):
            refuse()


def test_without_an_address_of_its_site_a_page_is_read_at_its_source() -> None:
    for generator in ("", *GENERATORS):
        document = page("x", path="README.md", site={"generator": generator, "base_url": ""})
        assert page_address(generator_named(generator), Page.read(document)) == document.url


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
    assert generator_named(generator).hidden_reason(Page(document, Site.of(document), FrontMatter(front))) == reason
