"""`python -m tests.benchmarks.steps STEP FOLDER ROWS`: one step of a run over made-up pages, in a process of its own.

Prints what it took as JSON. Pipelines run steps like this, so this is the memory that a pod needs.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from kubeflow_corpus.artifacts import write_jsonl
from kubeflow_corpus.embedding.shards import embed_shard
from kubeflow_corpus.ingest import chunking, store
from kubeflow_corpus.ingest.results import RowInputs, SourceState, StepResult
from kubeflow_corpus.ingest.step import ROWS_FILE, VECTORS_FILE, read_result, write_result
from kubeflow_corpus.model import make_recipe
from numpy.typing import NDArray

from tests.benchmarks.harness import peak_memory_mb
from tests.benchmarks.material import DIMENSION, IDENTITY, REVISION, SOURCE, documents

COLLECTION = "docs"
RECIPE = make_recipe(IDENTITY)


class StubEmbedder:
    """Vectors at no cost, as streams: what a model takes is not part of this measurement."""

    identity = IDENTITY
    truncated = 0

    def embed_stream(self, texts: Iterable[tuple[str, str]]) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
        generator = np.random.default_rng(1)
        keys: list[str] = []
        for key, _ in texts:
            keys.append(key)
            if len(keys) == 32:
                yield keys, self._vectors(generator, 32)
                keys = []
        if keys:
            yield keys, self._vectors(generator, len(keys))

    @staticmethod
    def _vectors(generator: np.random.Generator, number: int) -> NDArray[np.float32]:
        vectors = generator.standard_normal((number, DIMENSION), dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def fetch(folder: Path, rows: int) -> None:
    """Writes what `fetch` and `read_state` leave."""
    count = write_jsonl(made(folder, "fetch") / ROWS_FILE, (page.to_dict() for page in documents(rows)))
    inputs = RowInputs(RECIPE, "made up", REVISION)
    source = SourceState(collection=COLLECTION, step="fetch", source=SOURCE, inputs=inputs, counts={"documents": count})
    write_result(folder / "fetch", source)
    state = StepResult(collection=COLLECTION, step="read_state", run=f"scale-{rows}", names=(SOURCE,), recipe=RECIPE)
    write_result(made(folder, "state"), state)


def chunk(folder: Path, rows: int) -> None:
    """Cuts the pages."""
    chunking.chunk(str(folder / "fetch"), str(folder / "chunk"))


def plan(folder: Path, rows: int) -> None:
    """Compares with the empty collection and lists the texts."""
    store.plan(str(folder / "state"), [str(folder / "chunk")], str(folder / "plan"))


def embed(folder: Path, rows: int) -> None:
    """Embeds every shard, one after the other."""
    planned = read_result(folder / "plan")
    for number, shard in enumerate(planned.shards):
        target = made(folder, f"embed-{number}")
        embed_shard(folder / "plan" / shard, target / VECTORS_FILE, StubEmbedder())  # type: ignore[arg-type]
        write_result(target, planned.begin("embed"))


def apply(folder: Path, rows: int) -> None:
    """Writes the rows."""
    vectors = [str(path) for path in sorted(folder.glob("embed-*"))]
    store.apply(str(folder / "plan"), [str(folder / "chunk")], vectors, str(folder / "apply"))


def publish(folder: Path, rows: int) -> None:
    """Serves them."""
    store.publish(str(folder / "apply"), str(folder / "publish"), str(folder / "summary.md"))


STEPS: Mapping[str, Callable[[Path, int], None]] = {
    step.__name__: step for step in (fetch, chunk, plan, embed, apply, publish)
}


def made(folder: Path, name: str) -> Path:
    """Returns a folder that is there."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    return folder / name


def main() -> None:
    """Runs one step."""
    step, folder, rows = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    before, processor = time.perf_counter(), time.process_time()
    STEPS[step](folder, rows)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "seconds": time.perf_counter() - before,
        "cpu": time.process_time() - processor + children.ru_utime + children.ru_stime,
        "memory": peak_memory_mb(),
        # The largest of the processes that the step started.
        "worker": children.ru_maxrss / 1e3,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
