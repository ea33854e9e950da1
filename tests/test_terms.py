"""Terms: what a question and an index spell alike."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubeflow_corpus.terms import distinct_identifier_parts, identifier_parts, version_precisions


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("minReplicas", "min replicas minreplicas"),
        ("KF_PIPELINES_SA", "kf pipelines sa kfpipelinessa"),
        ("HTTPGet2", "http get 2 httpget2"),
        ("spec.predictor.minReplicas", "min replicas minreplicas"),
        ("KFP__API_URL", "kfp api url kfpapiurl"),
        ("__init__", ""),
        ("plain words, kebab-case and a/path.go", ""),
        ("größeWert", "e wert ewert"),
    ],
)
def test_an_identifier_of_several_words_gives_its_words_and_all_of_them_as_one(text: str, parts: str) -> None:
    assert " ".join(identifier_parts(text)) == parts


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text("aB1_. é\ud800", max_size=12), max_size=8).map(" ".join))
def test_distinct_parts_are_the_parts_once_each_in_order(text: str) -> None:
    assert distinct_identifier_parts(text) == tuple(dict.fromkeys(identifier_parts(text)))
    assert all(part.isascii() and part == part.lower() for part in identifier_parts(text))


@pytest.mark.parametrize(
    ("text", "precisions"),
    [
        ("v1.9.1", ("1.9.1", "1.9")),
        ("26.03", ("26.03",)),
        ("1.10.0-RC.1", ("1.10.0-rc.1", "1.10.0", "1.10")),
        ("V2", ("v2",)),
        ("main", ()),
    ],
)
def test_a_version_is_known_at_every_precision(text: str, precisions: tuple[str, ...]) -> None:
    assert version_precisions(text) == precisions
