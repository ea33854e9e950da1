import pytest
from kubeflow_corpus.chunking.docs.releases import page_versions
from kubeflow_corpus.sites.base import Page, Site
from kubeflow_corpus.sites.front_matter import FrontMatter

from tests.chunking.doc_samples import page


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
    assert page_versions(Page(page("x", "", path, version=listed), Site(), FrontMatter(front))) == versions
