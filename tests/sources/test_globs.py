from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeflow_corpus.sources.globs import check_glob, compile_glob


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("README.md", ["README.md"], ["docs/README.md", "README.mdx", "readme.md"]),
        ("*.md", ["a.md", ".md"], ["docs/a.md", "a.mdx"]),
        ("**/*.md", ["a.md", "x/a.md", "x/y/a.md"], ["a.txt", "x/a.md/b"]),
        ("docs/**", ["docs/a", "docs/x/y"], ["docs", "docs2/a", "xdocs/a"]),
        ("docs/**/api/*.md", ["docs/api/a.md", "docs/x/y/api/a.md"], ["docs/api/x/a.md", "api/a.md"]),
        ("**", ["a", "a/b/c"], []),
        ("**/**/a", ["a", "x/a", "x/y/a"], ["b"]),
        ("a?c", ["abc"], ["ac", "a/c", "abbc"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "/x"]),
        ("[!a-c]x", ["dx"], ["ax", "/x"]),
        ("[]]x", ["]x"], ["[x"]),
        ("**/*.{md,mdx}", ["a.md", "x/a.mdx"], ["a.m", "a.{md,mdx}"]),
        ("{a,b/c}/d", ["a/d", "b/c/d"], ["b/d", "c/d"]),
        ("a*b*c", ["abc", "aXbYc", "abbcc"], ["ab", "acb", "a/bc"]),
        ("a.b+c", ["a.b+c"], ["axbbc"]),
        ("**/a/**/b/**/c", ["a/b/c", "x/a/y/b/z/c", "a/b/x/b/c"], ["a/c", "b/a/c"]),
    ],
)
def test_a_pattern_matches_whole_paths_segment_by_segment(pattern: str, matching: list[str], other: list[str]) -> None:
    assert check_glob(pattern) == ""
    assert [path for path in matching if not compile_glob(pattern).fullmatch(path)] == []
    assert [path for path in other if compile_glob(pattern).fullmatch(path)] == []


@pytest.mark.parametrize(
    "pattern",
    ["", "/a", "a/", "a//b", "./a", "../a", "a/..", "a**b", "**.md", "[a", "a]/[b/c]", "[z-a]", "[a--]", "{a", "a}",
     "{a,{b,c}}", "a\\b", "a\nb", "a" * 600, "{a,b}" * 12],
)  # fmt: skip
def test_a_pattern_with_no_clear_meaning_is_refused(pattern: str) -> None:
    assert check_glob(pattern) != ""


_SEGMENT = st.text("ab*?", min_size=1, max_size=5).filter(lambda text: "**" not in text)
_PATTERN = st.lists(st.one_of(_SEGMENT, st.just("**")), min_size=1, max_size=6).map("/".join)
_PATH = st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=6).map("/".join)


@given(_PATTERN, _PATH)
def test_matching_agrees_with_the_definition_by_recursion(pattern: str, path: str) -> None:
    expected = _matches(pattern.split("/"), path.split("/"))
    assert (compile_glob(pattern).fullmatch(path) is not None) == expected


@given(st.text(max_size=40))
def test_any_text_is_either_refused_or_compiles(pattern: str) -> None:
    if check_glob(pattern) == "":
        compile_glob(pattern).fullmatch("a/b/c.md")


def test_a_hostile_path_does_not_make_matching_explode() -> None:
    # With plain backtracking each of these takes longer than the universe is old.
    assert not compile_glob("*a" * 40 + "*b").fullmatch("a" * 700)
    assert not compile_glob("**/a/" * 40 + "b").fullmatch("a/" * 350 + "c")


def _matches(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(path)
        return _matches(pattern[1:], path) or (bool(path) and _matches(pattern, path[1:]))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and _matches(pattern[1:], path[1:])
