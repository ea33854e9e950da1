"""Texts of anybody are text in a page."""

from __future__ import annotations

import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeflow_corpus.explore.texts import plain, shown, web_address

from tests.explore.corpus import HOSTILE


class _Reader(HTMLParser):
    """What a browser reads of a piece of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def read(markup: str) -> _Reader:
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    return reader


# The fuzz of the evidence tests draws from the same parts: markup, labels, controls and look-alikes.
texts = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=40), max_size=6).map(" ".join)


@given(texts, st.lists(st.text(max_size=6), max_size=3))
def test_a_page_adds_marks_and_nothing_of_a_text_becomes_markup(text: str, words: list[str]) -> None:
    reader = read(str(shown(text, words)))
    assert {tag for tag in reader.tags} <= {("mark", ()), ("span", (("class", "hidden"),))}
    hidden = [char for char in reader.text if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char not in "\n\t"]
    assert hidden == []
    assert reader.text == plain(text)


def test_words_are_marked_where_they_begin_a_word() -> None:
    assert shown("Cached caching <cache> uncached", ["cach"]) == (
        "<mark>Cached</mark> <mark>caching</mark> &lt;<mark>cache</mark>&gt; uncached"
    )


def test_hidden_characters_are_shown_by_their_number() -> None:
    assert shown("a\u202eb") == 'a<span class="hidden">[U+202E]</span>b'
    assert plain("a\u202eb\ud800") == "a[U+202E]b[U+D800]"


@pytest.mark.parametrize("address", ["https://docs.example.org/a?b=c#d", "http://localhost:8080/x"])
def test_a_plain_address_is_a_link(address: str) -> None:
    assert web_address(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//evil.example",
        "/path",
        "https://a\u202eb",
        "https://a b",
        "file:///etc",
        "",
    ],
)
def test_anything_else_is_text(address: str) -> None:
    assert web_address(address) == ""
