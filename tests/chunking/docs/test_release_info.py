import json

import pytest
from kubeflow_corpus.chunking.docs.release_info import chunk
from kubeflow_corpus.records import Chunk, Chunked

from tests.chunking.doc_samples import budget, needs_real_pages, page, partition_problem, real_pages

RELEASE = {
    "tag": "v1.9.1",
    "url": "https://github.com/kubeflow/manifests/releases/tag/v1.9.1",
    "commit_date": "2024-10-24T20:57:31Z",
    "publish_date": "2024-10-28T14:09:47Z",
}


def cut(data: object, name: str = "v1.9.1.json") -> Chunked:
    text = data if isinstance(data, str) else json.dumps(data, indent=2) + "\n"
    document = page(text, path=f"content/en/docs/release-info/{name}", site={"params": {"product_name": "Kubeflow"}})
    chunked = chunk(document, budget())
    assert partition_problem(document, chunked) == ""
    return chunked


def only(data: object, name: str = "v1.9.1.json") -> Chunk:
    (row,) = cut(data, name).chunks
    return row


def test_a_release_is_a_sentence_that_answers_when_it_was_published() -> None:
    row = only(RELEASE)
    assert row.content_text.split("\n")[:2] == [
        "Kubeflow 1.9.1 (tag v1.9.1) was released and published on 2024-10-28 (October 28, 2024).",
        "Release date of Kubeflow 1.9.1: 2024-10-28, 28 October 2024.",
    ]
    assert "October 24, 2024" in row.content_text
    assert "://" not in row.content_text
    assert row.title == "Kubeflow 1.9.1 release date"


def test_it_carries_version_date_and_kind_and_cites_the_release() -> None:
    row = only(RELEASE)
    assert row.version == ("1.9.1", "1.9")
    assert dict(row.fields) == {"doc_type": "release_notes", "release_date": "2024-10-28"}
    assert row.citation_url == RELEASE["url"]
    assert (row.unit_id, row.start_line, row.end_line) == (row.document_id, 1, 6)


def test_a_calendar_version_is_a_version() -> None:
    assert only({"tag": "26.03.1", "publish_date": "2026-06-15T09:56:57Z"}).version == ("26.03.1", "26.03")


def test_the_file_named_latest_says_which_release_is_the_latest() -> None:
    row = only({**RELEASE, "tag": "v26.03.1"}, "latest.json")
    assert row.content_text.startswith("The latest release of Kubeflow is 26.03.1.\n")
    assert row.title == "Latest Kubeflow release"


def test_without_a_day_of_publication_the_commit_gives_it_and_a_bad_link_is_not_cited() -> None:
    row = only({"tag": "v1.9.1", "commit_date": "2024-10-24", "url": "javascript:alert(1)"})
    assert row.fields["release_date"] == "2024-10-24"
    assert row.citation_url.startswith("https://github.com/example/site/")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "empty"),
        ("{", "malformed_json"),
        ("[" * 100_000, "malformed_json"),
        ([], "not_release_info"),
        ({"tag": "v1.9.1"}, "not_release_info"),
        ({"tag": "nightly", "publish_date": "2024-10-28"}, "not_release_info"),
        ({"tag": "v1.9.1", "publish_date": "soon"}, "not_release_info"),
        ({"tag": 1, "publish_date": None}, "not_release_info"),
    ],
)
def test_other_json_is_left_out_with_a_reason(data: object, reason: str) -> None:
    skipped = cut(data).skipped
    assert skipped is not None
    assert skipped.reason == reason


@needs_real_pages
def test_every_real_release_info_file_is_answerable() -> None:
    documents = list(real_pages((".json",)))
    rows = [row for document in documents for row in chunk(document, budget()).chunks]
    assert len(rows) == len(documents) == 26
    assert all(row.fields["release_date"] in row.content_text for row in rows)
