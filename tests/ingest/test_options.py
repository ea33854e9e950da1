"""The options of a run: one value that survives JSON, and refuses what no step would look at."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kubeflow_corpus.errors import InvalidArgument
from kubeflow_corpus.ingest.options import RunOptions

FULL = RunOptions(
    catalogue="/etc/c.yaml",
    sources=("a", "b"),
    changed_paths=("a:docs/x.md",),
    rebuild=True,
    allow_deletions=("a",),
    questions="/q.jsonl",
    floors={"hit@5": 0.9},
    wait_seconds=60,
    run="nightly",
    runner="local",
    process="17@4242",
)


@pytest.mark.parametrize("options", [RunOptions(), FULL])
def test_options_survive_their_way_through_json(options: RunOptions) -> None:
    assert RunOptions.from_dict(json.loads(json.dumps(options.to_dict()))) == options


def test_what_is_left_out_has_its_default() -> None:
    assert RunOptions.from_dict({"rebuild": True}) == RunOptions(rebuild=True)


def test_a_whole_number_that_kfp_made_a_float_is_a_whole_number() -> None:
    options = RunOptions.from_dict({"wait_seconds": 3600.0, "floors": {"hit@1": 1}})
    assert options == RunOptions(wait_seconds=3600, floors={"hit@1": 1.0})
    assert isinstance(options.wait_seconds, int)


def test_an_unknown_option_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidArgument, match="no parameter catalog") as caught:
        RunOptions.from_dict({"catalog": "x"})
    assert "catalogue" in caught.value.remedy


@pytest.mark.parametrize(
    "wrong",
    [
        {"catalogue": None},
        {"sources": "a"},
        {"sources": [1]},
        {"rebuild": "yes"},
        {"rebuild": 1},
        {"wait_seconds": -1},
        {"wait_seconds": 1.5},
        {"wait_seconds": True},
        {"wait_seconds": "60"},
        {"floors": ["hit@5"]},
        {"floors": {"hit@5": "high"}},
        {"floors": {"hit@5": True}},
        {"runner": "elsewhere"},
    ],
)
def test_a_value_of_another_kind_is_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidArgument, match=f"^{name} is ") as caught:
        RunOptions.from_dict(wrong)
    assert caught.value.remedy.startswith("Give ")
