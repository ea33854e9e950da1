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
from kubeflow_corpus.ingest.chunking import chunk_source
from kubeflow_corpus.ingest.model import recipe_facts
from kubeflow_corpus.ingest.outcomes import ROWS_FILE, VECTORS_FILE, Outcome, write_json, write_outcome
from kubeflow_corpus.ingest.store import apply_collection, plan_collection, publish_collection
from kubeflow_corpus.model import make_recipe
from numpy.typing import NDArray

from tests.benchmarks.harness import peak_memory_mb
from tests.benchmarks.material import DIMENSION, IDENTITY, REVISION, SOURCE, documents

COLLECTION = "docs"
FACTS = {**recipe_facts(make_recipe(IDENTITY)), "entry": "made up", "revision": REVISION, "live": ""}


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
    write_outcome(folder / "fetch", Outcome(SOURCE, "fetch", counts={"documents": count}, facts=FACTS))
    write_outcome(made(folder, "state"), Outcome("", "read_state", facts=FACTS))


def chunk(folder: Path, rows: int) -> None:
    """Cuts the pages."""
    chunk_source(str(folder / "fetch"), str(folder / "chunk"), COLLECTION)


def plan(folder: Path, rows: int) -> None:
    """Compares with the empty collection and lists the texts."""
    shards, _ = plan_collection(
        COLLECTION,
        str(folder / "state"),
        [str(folder / "chunk")],
        [SOURCE],
        [],
        False,
        [],
        f"scale-{rows}",
        str(folder / "plan"),
    )
    write_json(str(folder / "shards.json"), {"shards": shards})


def embed(folder: Path, rows: int) -> None:
    """Embeds every shard, one after the other."""
    for number, shard in enumerate(json.loads((folder / "shards.json").read_text())["shards"]):
        target = made(folder, f"embed-{number}")
        embed_shard(folder / "plan" / shard, target / VECTORS_FILE, StubEmbedder())  # type: ignore[arg-type]
        write_outcome(target, Outcome("", "embed"))


def apply(folder: Path, rows: int) -> None:
    """Writes the rows."""
    vectors = [str(path) for path in sorted(folder.glob("embed-*"))]
    apply_collection(COLLECTION, str(folder / "plan"), [str(folder / "chunk")], vectors, 0, str(folder / "apply"))


def publish(folder: Path, rows: int) -> None:
    """Serves them."""
    publish_collection(COLLECTION, str(folder / "apply"), 0, str(folder / "publish"), str(folder / "summary.md"))


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
