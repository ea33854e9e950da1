from hypothesis import given, settings
from hypothesis import strategies as st
from kubeflow_corpus.chunking.compose import HEADER_SHARE, SPECIAL_TOKENS, fit_bytes, framed, search_text
from kubeflow_corpus.tokens import wordpiece_counter

from tests.chunking.doc_samples import budget


def test_a_header_takes_no_more_than_its_share() -> None:
    some = budget(64)
    header = some.header("title " * 100, "A > B")
    assert wordpiece_counter().count(header) == 64 // HEADER_SHARE


def test_headers_counted_together_are_those_counted_alone() -> None:
    some = budget(64)
    places = [("T", "A > B"), ("T", ""), ("word " * 50, "A"), ("T", "A > B")]
    for place, header in some.headers(places).items():
        assert header.text == some.header(*place)
        assert header.room == some.room(header.text)


@settings(deadline=None, max_examples=40)
@given(title=st.text(max_size=80), content=st.text(max_size=600))
def test_an_embedding_text_fits_the_model_and_says_when_it_was_cut(title: str, content: str) -> None:
    some = budget(48)
    counter = wordpiece_counter()
    header = some.header(title, "")
    text, cut = some.embedding_text(header, content)
    assert counter.count(text) <= 48 - SPECIAL_TOKENS
    assert cut == (counter.count(content) > some.room(header))
    assert cut or text == framed(header, content)


def test_without_a_header_an_embedding_text_is_its_content() -> None:
    assert budget().embedding_text("", "content") == ("content", False)


def test_bm25_reads_the_title_twice_the_breadcrumb_once_and_the_parts_of_identifiers() -> None:
    assert search_text("T", "A > B", "set minReplicas, minReplicas") == (
        "T\nT\nA > B\nset minReplicas, minReplicas\nmin replicas minreplicas"
    )
    assert search_text("T", "", "set minReplicas", identifiers=False) == "T\nT\nset minReplicas"


@given(text=st.text(max_size=50), limit=st.integers(0, 60))
def test_a_text_is_cut_between_characters(text: str, limit: int) -> None:
    cut = fit_bytes(text, limit)
    assert text.startswith(cut)
    assert len(cut.encode()) <= limit
