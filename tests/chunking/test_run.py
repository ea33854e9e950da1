from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kubeflow_corpus.chunking.run import CHUNKERS, chunk_document, chunk_documents
from kubeflow_corpus.records import Document, Skip
from kubeflow_corpus.sources.catalogue import load_catalogue
from kubeflow_corpus.sources.checkout import fetch_documents, resolve_revision

from tests.chunking.doc_samples import budget, page

CATALOGUE = Path(__file__).parents[1] / "corpus" / "catalogue.yaml"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> list[Document]:
    documents: list[Document] = []
    for source in load_catalogue(CATALOGUE).select("docs"):
        found = fetch_documents(source, resolve_revision(source), tmp_path_factory.mktemp("work"))
        documents += [item for item in found if isinstance(item, Document)]
    return documents


def test_a_document_goes_to_the_chunker_of_its_type() -> None:
    assert chunk_document(page("## A\ntext"), budget()).chunks
    assert chunk_document(page("{}", path="content/en/a.json"), budget()).skipped is not None
    assert set(CHUNKERS.values()) == {
        "docs.markdown",
        "docs.release_info",
        "threads.thread",
        "manifests.objects",
        "code.symbols",
    }


def test_a_document_that_no_chunker_reads_is_counted() -> None:
    document = page("a,b", path="content/en/table.csv")
    assert chunk_document(document, budget()).skipped == Skip(
        document.document_id, document.path, "no_chunker", "docs .csv"
    )


def test_the_sample_corpus_gives_rows_for_every_page_that_its_sites_publish(sample: list[Document]) -> None:
    results = dict(zip((document.path for document in sample), chunk_documents(sample, budget()), strict=True))
    skipped = {path: result.skipped.reason for path, result in results.items() if result.skipped is not None}
    assert skipped == {
        "content/en/docs/draft.md": "draft",
        "content/en/docs/hidden/_index.md": "draft_section",
        "content/en/docs/hidden/below/plans.md": "draft_section",
        "content/en/docs/started/_index.md": "no_text",
        "docs/serving/_partial.mdx": "partial",
        "docs/serving/empty.md": "empty",
        "docs/serving/explainers/2024-06-notes.md": "unlisted",
    }
    assert all(result.chunks for path, result in results.items() if path not in skipped)


def test_a_section_page_hides_what_is_below_it_wherever_it_is_in_the_stream() -> None:
    section = page("---\ncascade:\n  draft: true\n---\n", path="content/en/docs/new/_index.md")
    below, beside = (page("text", path=f"content/en/docs/{name}.md") for name in ("new/deep/a", "newer"))
    results = list(chunk_documents([below, beside, section], budget()))
    assert [bool(result.chunks) for result in results] == [False, True, False]
    other = replace(below, source="other")
    assert list(chunk_documents([section, other], budget()))[1].chunks


@pytest.mark.slow
def test_worker_processes_give_the_same_rows_in_the_same_order(sample: list[Document]) -> None:
    alone = list(chunk_documents(sample, budget()))
    assert list(chunk_documents(iter(sample), budget(), workers=2)) == alone


def test_documents_other_than_pages_are_read_as_results_are_asked_for() -> None:
    read: list[int] = []

    def documents() -> Iterator[Document]:
        for number in range(3):
            read.append(number)
            yield replace(page("x"), source_type="code", path=f"file{number}.unknown")

    next(chunk_documents(documents(), budget()))
    assert read == [0]


def test_two_runs_give_the_same_rows(sample: list[Document]) -> None:
    first, second = ([row for result in chunk_documents(sample, budget()) for row in result.chunks] for _ in range(2))
    assert [(row.id, row.row_hash, row.embedding_hash) for row in first] == [
        (row.id, row.row_hash, row.embedding_hash) for row in second
    ]
    assert len({row.id for row in first}) == len(first)
