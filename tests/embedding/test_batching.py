"""Batches: every text once, every limit kept, neighbours in length together."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from kubeflow_corpus.embedding.batching import BatchLimits, plan_batches, windows

TEXTS = st.lists(st.tuples(st.integers(1, 400), st.integers(1, 3000)), max_size=80)
LIMITS = st.builds(BatchLimits, st.integers(1, 40), st.integers(1, 5000), st.integers(1, 20_000))


@settings(max_examples=60)
@given(TEXTS, LIMITS)
def test_every_text_travels_once_and_only_a_text_that_breaks_a_limit_by_itself_breaks_it(
    texts: list[tuple[int, int]], limits: BatchLimits
) -> None:
    tokens, sizes = [text[0] for text in texts], [text[1] for text in texts]
    batches = list(plan_batches(tokens, limits, sizes))
    assert sorted(position for batch in batches for position in batch) == list(range(len(texts)))
    for batch in batches:
        assert 1 <= len(batch) <= limits.inputs
        if len(batch) > 1:
            assert max(tokens[position] for position in batch) * len(batch) <= limits.tokens
            assert sum(sizes[position] for position in batch) <= limits.bytes


@settings(max_examples=60)
@given(TEXTS, LIMITS)
def test_batches_run_from_the_longest_text_to_the_shortest(texts: list[tuple[int, int]], limits: BatchLimits) -> None:
    tokens = [text[0] for text in texts]
    order = [tokens[position] for batch in plan_batches(tokens, limits) for position in batch]
    assert order == sorted(tokens, reverse=True)


def test_equal_token_bounds_are_sorted_by_bytes() -> None:
    batches = list(plan_batches([9, 9, 9, 9], BatchLimits(2, 1000, 1000), [1, 40, 2, 30]))
    assert batches == [[1, 3], [2, 0]]


def test_windows_are_read_no_further_ahead_than_asked() -> None:
    source = iter(range(10))
    ahead = windows(source, 4)
    assert next(ahead) == [0, 1, 2, 3]
    assert next(source) == 4
    assert [len(window) for window in ahead] == [4, 1]
