from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kubeflow_corpus.sites.hugo_config import CONFIG_FILES, read_params


def test_every_form_of_configuration_is_read_and_the_later_one_goes_over_the_earlier() -> None:
    files = {
        "config.toml": b'[params]\na = 1\nb = "config"\n[params.ui]\nx = 1\n',
        "hugo.yaml": b"params:\n  b: hugo\n  ui: {y: 2}\n",
        "config/_default/params.json": b'{"c": true}',
    }
    assert read_params(files) == {"a": 1, "b": "hugo", "ui": {"x": 1, "y": 2}, "c": True}


def test_what_no_shortcode_can_print_is_left_out() -> None:
    assert read_params({"hugo.toml": b"[params]\nday = 2026-01-01\nlist = [1]\nkept = 1.5\n"}) == {"kept": 1.5}


def test_permalinks_are_kept_because_they_decide_addresses() -> None:
    config = b'[permalinks]\nposts = "/:year/:slug/"\n[params]\na = 1\n'
    assert read_params({"hugo.toml": config}) == {"permalinks": {"posts": "/:year/:slug/"}, "a": 1}


def test_aliases_that_stand_for_millions_of_values_stay_small() -> None:
    levels = "".join(
        f"  l{level}: &l{level} {{{', '.join(f'k{n}: *l{level - 1}' if level else f'k{n}: 1' for n in range(9))}}}\n"
        for level in range(9)
    )
    params = read_params({"hugo.yaml": f"params:\n{levels}".encode()})
    assert len(str(params)) < 1_000_000


@given(st.sampled_from(CONFIG_FILES), st.binary(max_size=200))
def test_a_file_that_does_not_parse_gives_nothing_and_never_an_error(path: str, data: bytes) -> None:
    assert isinstance(read_params({path: data}), dict)


def test_deep_nesting_does_not_fail() -> None:
    assert read_params({"hugo.json": b"[" * 100_000, "hugo.toml": b"a = " + b"[" * 10_000}) == {}
