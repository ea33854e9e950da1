import pytest
from kubeflow_corpus.plain_yaml import MAX_ALIASES, is_plain
from kubeflow_corpus.sites.front_matter import parse_mapping

MERGES = "\n".join(
    ["a0: &a0 {k: 1}", *(f"a{n}: &a{n}\n  <<: [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))],
)


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 100_000,
        "a: " + "{b: " * 50_000,
        "- " * 50_000,
        "\n".join(" " * depth + "a:" for depth in range(500)),
        MERGES,
        "a: &a [1]\nb: [" + "*a, " * (MAX_ALIASES + 1) + "]",
        "a: 'never closed",
        "a: \x00",
        "a: \ud800",
    ],
    ids=["brackets", "braces", "dashes", "indents", "merges", "aliases", "no YAML", "NUL", "surrogate"],
)
def test_a_text_that_would_end_or_stop_the_process_is_not_plain(text: str) -> None:
    """A loader that is given the brackets ends the process, and one that is given the merges never returns."""
    assert not is_plain(text)
    assert parse_mapping(text, "yaml") is None


@pytest.mark.parametrize("text", ["", "title: a\ntags: [a, b]\ndate: 2026-03-04", "a: &a {b: 1}\nc: *a"])
def test_what_pages_have_is_plain(text: str) -> None:
    assert is_plain(text)
    assert parse_mapping(text, "yaml") is not None
