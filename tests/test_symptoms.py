"""What changes from one occurrence of an error to the next is left out, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeflow_corpus.symptoms import stable_text, symptom_key, thread_standing


@pytest.mark.parametrize(
    ("pasted", "stable"),
    [
        ("pod ml-pipeline-ui-5d8f7c9b6d-x7k2p failed", "pod ml-pipeline-ui failed"),
        ("train-9xk2d-4021337702 exited", "train exited"),
        ("E0312 09:12:08.123456       1 mysql.go:62] Ping failed", " mysql.go] Ping failed"),
        ("dial tcp 10.96.12.13:5556: connect: connection refused", "dial tcp : connect: connection refused"),
        ("volume pvc-6f7d3a52-8a53-4b43-9b2d-1e8a9b7c6d5e is used", "volume pvc- is used"),
        ('File "/home/ana/train.py", line 23, in <module>', 'File "/home/train.py" , in <module>'),
        ("image x@sha256:0123456789abcdef is missing", "image x@ is missing"),
        ("at 0xc000db2780 +0x4a", "at "),
    ],
)
def test_names_lose_their_random_parts_and_numbers_that_vary_go(pasted: str, stable: str) -> None:
    assert " ".join(stable_text(pasted).split()) == " ".join(stable.split())


@pytest.mark.parametrize(
    "text",
    ["Error 1452: a foreign key", "kserve v0.11.2", "exit code 137", "https-proxy", "port 8443", "deadbeef feed"],
)
def test_versions_codes_ports_and_words_stay(text: str) -> None:
    assert stable_text(text) == text


def test_two_occurrences_of_one_error_have_one_key() -> None:
    first = symptom_key("2024-05-01T10:00:00Z pod a-5d8f7c9b6d-x7k2p: retry 3 failed")
    assert first == symptom_key("2026-11-30T23:59:59Z pod a-7c6d5b8f9d-q2w4z: retry 17 failed")


@given(st.text())
def test_any_text_can_be_made_stable(text: str) -> None:
    assert isinstance(stable_text(text), str)


def test_a_thread_with_a_fix_stands_before_an_open_one_and_that_before_a_duplicate() -> None:
    fixed = thread_standing(resolved=True, state="closed", state_reason="completed")
    unanswered = thread_standing(resolved=False, state="open")
    duplicate = thread_standing(resolved=False, state="closed", state_reason="duplicate")
    assert fixed > unanswered > duplicate >= 0.8 * fixed
