from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeflow_corpus.sources.decoding import REASONS, decode, unsafe_path


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain\n", "plain\n"),
        (b"\xef\xbb\xbfwith a mark\n", "with a mark\n"),
        (b"a\r\nb\rc\n", "a\nb\nc\n"),
        ("é 漢 🚀".encode(), "é 漢 🚀"),
        (b"", ""),
    ],
)
def test_utf8_is_text_without_its_mark_and_with_one_kind_of_line_end(data: bytes, text: str) -> None:
    assert decode(data) == (text, "")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a\0b", "binary"),
        ("text".encode("utf-16"), "binary"),
        (b"caf\xe9", "not_utf8"),
        (b"\xed\xa0\x80", "not_utf8"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "lfs_pointer"),
    ],
)
def test_what_is_not_utf8_text_gives_a_reason(data: bytes, reason: str) -> None:
    assert decode(data) == ("", reason)


@given(st.binary(max_size=200))
def test_any_bytes_are_text_or_have_a_known_reason(data: bytes) -> None:
    text, reason = decode(data)
    assert reason in REASONS if reason else "\r" not in text
    text.encode("utf-8")


@pytest.mark.parametrize(
    "path", ["../a", "a/../b", "a//b", "./a", "a/.git/config", "a/.GIT/x", "a\nb", "a\x1bb", "a/\u202eb", "x" * 800]
)
def test_a_path_that_could_mislead_is_unsafe(path: str) -> None:
    assert unsafe_path(path)


@pytest.mark.parametrize("path", ["a", "docs/a b.md", "docs/é/漢.md", ".github/x.yaml", "a..b/c"])
def test_an_ordinary_path_is_safe(path: str) -> None:
    assert not unsafe_path(path)
