"""What the pages show, over a corpus with hostile texts in every collection."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from kubeflow_corpus.collections import COLLECTION_NAMES, DOCS
from starlette.testclient import TestClient

from tests.explore.corpus import HOSTILE, opened_page
from tests.query.corpus import docs_chunks, fill, sealed

CACHING = {"q": "how do I switch caching off?"}


def links(text: str, start: str) -> list[str]:
    return [unescape(found) for found in re.findall(r'href="([^"]*)"', text) if unescape(found).startswith(start)]


class _Parts(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_first_page_asks_for_a_question(page: TestClient) -> None:
    text = page.get("/").text
    assert '<input type="search" name="q"' in text
    assert text.count('name="in"') == len(COLLECTION_NAMES)


def test_three_collections_answer_side_by_side(page: TestClient) -> None:
    text = page.get("/", params=CACHING).text
    for name in COLLECTION_NAMES:
        assert f'id="in-{name}"' in text
    assert "<mark>Caching</mark>" in text
    assert links(text, "https://docs.example.org/site:caching.md#use")


def test_a_page_says_why(page: TestClient) -> None:
    text = page.get("/", params={**CACHING, "in": "docs"}).text
    why = text[text.index("<summary>Why") :]
    assert "asks how" in why or "conceptual" in why
    assert "weighted of" in why and "dense" in why and "bm25" in why
    assert "hit 1" in why and re.search(r"area [+]0\.10|heading [+]", why)


def test_evidence_is_what_a_model_gets(page: TestClient) -> None:
    text = page.get("/", params={**CACHING, "in": "docs"}).text
    tokens = re.search(r"Evidence, (\d+) tokens", text)
    assert tokens and int(tokens[1]) > 50
    assert "Retrieved fragments [c1]" in text
    assert "https://kfp.example.org/ref" not in text[text.index("Retrieved fragments") :]


def test_settings_and_filters_are_in_the_address_and_stay_in_the_form(page: TestClient) -> None:
    asked = {**CACHING, "in": "docs", "mode": "bm25", "version": "v1", "limit": "2", "dense_weight": "0.25"}
    text = page.get("/", params=asked).text
    assert "legacy-v1" in text and text.count("<article>") <= 2
    link = links(text, "/?q=")[0]
    assert page.get(link).text.count("<article>") == text.count("<article>")
    for part in ("in=docs", "mode=bm25", "version=v1", "limit=2", "dense_weight=0.25"):
        assert part in link
    assert "<option selected>bm25</option>" in text


def test_two_settings_are_compared(page: TestClient) -> None:
    text = page.get("/", params={**CACHING, "in": "docs", "compare": "1", "b_mode": "bm25", "b_limit": "1"}).text
    assert "First: the defaults" in text
    assert "Second: mode bm25, limit 1" in text
    assert "only here" in text


def test_what_should_be_found_is_marked(page: TestClient) -> None:
    asked = {**CACHING, "in": "docs"}
    found = page.get("/", params={**asked, "expected": ["acme/site:caching.md#use", "x/y:z"]}).text
    assert found.count('<span class="badge good">expected</span>') == 1
    assert "expected=acme%2Fsite" in links(found, "/?q=")[0]
    missed = page.get("/", params={**asked, "expected": HOSTILE[0]}).text
    assert "None of these hits is expected" in missed and HOSTILE[0] not in missed


def test_a_filter_that_a_collection_does_not_know_is_said(page: TestClient) -> None:
    text = page.get("/", params={**CACHING, "state": "open"}).text
    assert text.count("Not known here: state") == 2


@pytest.mark.parametrize(
    "wrong",
    [{"mode": "magic"}, {"limit": "0"}, {"limit": "a"}, {"dense_weight": "2"}, {"dense_weight": "nan"}, {"in": "x"}],
)
def test_a_wrong_setting_is_named(page: TestClient, wrong: dict[str, str]) -> None:
    answer = page.get("/", params={**CACHING, **wrong})
    assert answer.status_code == 400
    assert next(iter(wrong)) in answer.text and 'role="alert"' in answer.text


def test_a_wrong_value_of_a_filter_is_named(page: TestClient) -> None:
    assert "Known values" in page.get("/", params={**CACHING, "product_area": "nonsense"}).text


def test_sources_lead_to_documents_units_and_rows(page: TestClient) -> None:
    browse = page.get("/browse").text
    source = next(link for link in links(browse, "/source") if "in=docs" in link)
    documents = page.get(source).text
    link = next(link for link in links(documents, "/document") if quote("site:caching.md", safe="") in link)
    document = page.get(link).text
    assert "2 units" in document and "set_caching_options" in document
    unit = next(link for link in links(document, "/document") if link.endswith(quote("#use", safe="")))
    assert "1 row" in page.get(unit).text


def test_a_list_of_documents_is_searched(page: TestClient) -> None:
    text = page.get("/source", params={"in": "docs", "source": "site", "find": "LEGACY"}).text
    assert "1 document<" in text and "legacy-v1/caching.md" in text


def test_rows_are_paged(page: TestClient) -> None:
    asked = {"in": "code", "id": "manifests:crd.yaml"}
    first = page.get("/document", params=asked).text
    last = page.get(links(first, "/document?in=code&id=")[-1]).text
    assert first.count('<article class="row"') == 40 and "page 1 of 2" in first
    assert last.count('<article class="row"') == 21 and "page 2 of 2" in last
    assert page.get("/document", params={**asked, "page": "999"}).text.count("<article") == 21


def test_a_unit_is_found_without_its_document(page: TestClient) -> None:
    assert "set_caching_options" in page.get("/document?in=docs&unit=site:caching.md%23use").text


def test_an_original_that_nobody_kept_is_said(page: TestClient) -> None:
    text = page.get("/document?in=docs&id=site:caching.md&view=original").text
    assert "does not record" in text or "kept it" in text
    assert links(text, "https://docs.example.org/")


@pytest.mark.parametrize(
    "path",
    [
        "/document?in=docs&id=nothing",
        "/document?in=nothing&id=x",
        "/document",
        "/source?in=x",
        "/versions?in=docs&from=x&to=1",
        "/versions?in=docs&from=1&to=9",
    ],
)
def test_what_does_not_exist_is_said(page: TestClient, path: str) -> None:
    answer = page.get(path)
    assert answer.status_code == 400
    assert "This cannot be shown" in answer.text


def test_versions_are_listed(page: TestClient) -> None:
    assert "kubeflow_docs_v1" in page.get("/versions").text
    assert "No document differs" in page.get("/versions?in=docs&from=1&to=1").text


def test_two_versions_are_compared(tmp_path: Path) -> None:
    uri = str(tmp_path / "corpus.db")
    before = sealed([page for page in docs_chunks() if "early" not in page.document_id])
    now = sealed([page for page in docs_chunks() if "canary" not in page.document_id])
    fill(uri, [(DOCS, before)], alias=False)
    fill(uri, [(DOCS, [replace(now[0], title="Another title"), *now[1:]])], version=2)
    with opened_page(uri, tmp_path) as page:
        assert page.get("/versions").text.count("kubeflow_docs_v") == 2
        text = page.get("/versions?in=docs&from=1&to=2").text
        assert "1 added" in text and "1 changed" in text and "1 lost" in text
        assert "site:canary.md" in page.get("/versions?in=docs&from=1&to=2&state=lost").text
        added = page.get("/versions?in=docs&from=1&to=2&state=added").text
        assert "site:early.md" in added and "site:canary.md" not in added
        # What is lost cannot be opened.
        assert not [link for link in links(text, "/document") if "canary" in link]


HOSTILE_PATHS = (
    *(f"/?{urlencode({'q': text})}" for text in HOSTILE),
    *(f"/?{urlencode({'q': 'mushrooms', 'source': text})}" for text in HOSTILE),
    "/?q=poisonous+mushrooms&compare=1&b_mode=bm25",
    "/browse",
    *(f"/source?in={name}&source=site" for name in COLLECTION_NAMES),
    *(f"/source?in=docs&{urlencode({'source': text, 'find': text})}" for text in HOSTILE),
    *(f"/document?in={name}&id=evil:{name}.md" for name in COLLECTION_NAMES),
    *(f"/document?in={name}&id=evil:{name}.md&view=original" for name in COLLECTION_NAMES),
    *(f"/document?in=docs&{urlencode({'id': text})}" for text in HOSTILE),
    "/versions",
)


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_hostile_texts_are_text(page: TestClient, path: str) -> None:
    answer = page.get(path)
    assert answer.status_code in (200, 400)
    parts = _Parts(answer.text).found
    scripts = [attributes for tag, attributes in parts if tag == "script"]
    assert scripts == [{"src": "/static/explore.js", "defer": None}]
    assert not {"iframe", "img", "svg", "style", "base", "object", "embed", "b", "i", "u"} & {tag for tag, _ in parts}
    for _, attributes in parts:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action"):
            assert re.match(r"/(?!/)|https?://docs\.example\.org/|#", attributes.get(name) or "/")
    shown = re.sub(r'value="[^"]*"', "", answer.text)
    assert not re.search("[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]", shown)


def test_hostile_texts_are_found_and_readable(page: TestClient) -> None:
    text = page.get("/?q=poisonous+mushrooms").text
    assert text.count("&lt;script&gt;document.title") >= 3
    assert "[U+202E]" in text
