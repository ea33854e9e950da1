from __future__ import annotations

import pytest
from kubeflow_corpus.retry import Backoff, retry, until_empty


def test_pauses_grow_up_to_the_cap_and_none_follows_the_last_try() -> None:
    pauses: list[float] = []
    assert list(Backoff(attempts=5, base=1.0, cap=3.0).tries(pauses.append)) == [1, 2, 3, 4, 5]
    assert pauses == [1.0, 2.0, 3.0, 3.0]


def test_a_server_may_ask_for_a_longer_pause_up_to_a_limit() -> None:
    backoff = Backoff(attempts=2, base=1.0, longest_request=60.0)
    assert [backoff.pause(1, 0.5), backoff.pause(1, 7.0), backoff.pause(1, 10**9)] == [1.0, 7.0, 60.0]


def test_a_call_is_repeated_only_while_its_error_passes() -> None:
    pauses: list[float] = []
    answers: list[Exception | str] = [TimeoutError(), TimeoutError(), "rows"]

    def call() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def passes(error: Exception) -> bool:
        return isinstance(error, TimeoutError)

    backoff = Backoff(attempts=3, base=0.1)
    assert retry(call, passes, backoff, sleep=pauses.append) == "rows"
    assert pauses == [0.1, 0.2]
    answers[:] = [TimeoutError(), ValueError("for good"), "never"]
    with pytest.raises(ValueError, match="for good"):
        retry(call, passes, backoff, sleep=pauses.append)
    answers[:] = [TimeoutError("1"), TimeoutError("2"), TimeoutError("3"), "never"]
    with pytest.raises(TimeoutError, match="3"):
        retry(call, passes, backoff, sleep=pauses.append)


def test_looking_ends_when_nothing_is_found_and_returns_what_is_left_otherwise() -> None:
    looks = [["a", "b"], ["b"], [], ["never"]]
    assert until_empty(lambda: looks.pop(0), Backoff(4, 0.0), sleep=lambda seconds: None) == []
    assert until_empty(lambda: ["c"], Backoff(2, 0.0), sleep=lambda seconds: None) == ["c"]
