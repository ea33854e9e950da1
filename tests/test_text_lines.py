import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeflow_corpus.text_lines import is_blank, split_lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a", ["a"]),
        ("a\r\nb\n", ["a", "b"]),
        ("a\n\n", ["a", ""]),
        ("a\x1f\u2028b\n\0", ["a\x1f\u2028b", "\0"]),
    ],
)
def test_a_line_ends_where_an_editor_ends_it(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


@given(st.text(st.sampled_from("a\n\r\0\x1f\x85 ")))
def test_a_text_has_as_many_lines_as_line_ends_and_one_more_for_what_follows_the_last(text: str) -> None:
    assert len(split_lines(text)) == text.count("\n") + (not text.endswith("\n") and text != "")


@pytest.mark.parametrize("line", ["", " ", "\t", "\x0c", "\x1f", "\x85", "\xa0", "\u2028"])
def test_white_space_of_any_kind_is_blank(line: str) -> None:
    assert is_blank(line)
