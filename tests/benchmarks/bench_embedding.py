"""Embedding: the embedded model against a raw onnxruntime loop, the TEI client against a bare client that saturates."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import requests
from kubeflow_corpus.embedding.batching import plan_batches
from kubeflow_corpus.embedding.embedded import BATCH, EmbeddedModel, available_cores, load_session, load_weights
from kubeflow_corpus.embedding.tei import TeiClient
from kubeflow_corpus.tokens import load_tokenizer

from tests.benchmarks.harness import Row, in_turns, peak_memory_mb, shared
from tests.servers.tei import tei_process

LATENCIES = (0.005, 0.05, 0.5)
PERMITS, BATCH_INPUTS = 512, 32
WORDS = "the pod controller reconciles each InferenceService and scales minReplicas of a Katib trial in its namespace"


def measure(scale: float) -> Iterator[Row]:
    """Yields the rows of this benchmark."""
    yield from embedded(scale)
    for latency in LATENCIES:
        yield client(latency, scale)
    yield streaming_memory(scale)


def sample(number: int, *, real: bool = False) -> list[str]:
    """Returns texts as long as sections of documentation; on request real ones, where they are at hand."""
    generator = random.Random(7)
    folder = shared("corpus/docs") if real else None
    texts: list[str] = []
    for page in sorted(folder.rglob("*.md")) if folder else ():
        text = page.read_text("utf-8", "replace")
        texts += [text[start : start + 800] for start in range(0, len(text), 800) if text[start : start + 800].strip()]
    generator.shuffle(texts)
    words = WORDS.split()
    while len(texts) < number:
        texts.append(" ".join(generator.choices(words, k=generator.randint(20, 180))))
    # The same beginning twice would let a server answer from its memory.
    return [f"{index} {text}" for index, text in enumerate(texts[:number])]


def embedded(scale: float) -> Iterator[Row]:
    """Compares with sessions that are fed the very same batches, tokenized and padded beforehand."""
    texts = sample(max(32, int(192 * scale)), real=True)
    model = EmbeddedModel()
    model.embed(texts[:8])
    inputs = [encoding.ids[:256] for encoding in load_tokenizer().encode_batch_fast(texts)]
    feeds = []
    for batch in plan_batches([len(ids) for ids in inputs], BATCH):
        ids = np.zeros((len(batch), max(len(inputs[position]) for position in batch)), np.int64)
        for row, position in enumerate(batch):
            ids[row, : len(inputs[position])] = inputs[position]
        feeds.append({"input_ids": ids, "attention_mask": (ids > 0).astype(np.int64), "token_type_ids": ids * 0})

    import onnxruntime

    plain = onnxruntime.InferenceSession(load_weights(), providers=["CPUExecutionProvider"])
    single = load_session(load_weights())
    pool = ThreadPoolExecutor(available_cores())
    loop = lambda: [plain.run(None, feed) for feed in feeds]  # noqa: E731
    threads = lambda: list(pool.map(lambda feed: single.run(None, feed), feeds))  # noqa: E731
    ours, baseline = in_turns(2, lambda: model.embed(texts), loop)
    name = "embedded model, tokenizing included"
    yield Row(name, len(texts) / ours, "texts/s", len(texts) / baseline, "onnxruntime loop, all cores a batch", 0.95)
    ours, baseline = in_turns(2, lambda: model.embed(texts), threads, clock=time.process_time)
    against = "onnxruntime loop, one core a batch"
    yield Row(name, len(texts) / ours, "texts/CPU-s", len(texts) / baseline, against, 0.95)


def client(latency: float, scale: float) -> Row:
    """Compares with the least code that keeps every permit in use: same server, same batches, same connections."""
    # Sixteen batches are in flight at a time: enough rounds of them to outweigh the first and the last.
    rounds = max(4, int(12 * scale))
    texts = sample(PERMITS * rounds)
    with tei_process("--latency", str(latency), "--dimension", "768") as url:
        ours = TeiClient(url)
        ours.embed(texts)
        bare = bare_client(url, texts)
        bare()
        client_seconds, bare_seconds = in_turns(3, lambda: ours.embed(texts), bare)
        ours.close()
    name = f"TEI client at {latency * 1000:g} ms"
    return Row(name, len(texts) / client_seconds, "texts/s", len(texts) / bare_seconds, "bare saturating client", 0.95)


def bare_client(url: str, texts: list[str]) -> Callable[[], object]:
    """Returns the bare client: batches and bodies are made beforehand, answers become arrays, nothing is checked."""
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]), reverse=True)
    batches = [order[start : start + BATCH_INPUTS] for start in range(0, len(order), BATCH_INPUTS)]
    bodies = [
        json.dumps({"inputs": [texts[n] for n in batch], "normalize": True, "truncate": False}).encode()
        for batch in batches
    ]
    session = requests.Session()
    session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=PERMITS // BATCH_INPUTS))
    pool = ThreadPoolExecutor(PERMITS // BATCH_INPUTS)
    headers = {"Content-Type": "application/json"}

    def post(body: bytes) -> np.ndarray:
        return np.array(session.post(f"{url}/embed", data=body, headers=headers, timeout=60).json(), np.float32)

    return lambda: list(pool.map(post, bodies))


def streaming_memory(scale: float) -> Row:
    """Streams ever more texts and looks at the most memory held after each share."""
    points = []
    with tei_process("--dimension", "384") as url:
        stream = TeiClient(url)
        total = int(20_000 * scale)
        seen = 0
        for keys, _ in stream.embed_stream((number, f"text {number % 4000} of a stream") for number in range(total)):
            seen += len(keys)
            points.append((float(seen), peak_memory_mb()))
        stream.close()
    growth = points[-1][1] - points[len(points) // 4][1]
    return Row("memory growth of a stream after its first quarter", growth, "MB", most=20.0, points=points)
