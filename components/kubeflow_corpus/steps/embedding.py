"""The steps of a run that know the embedding model: what it is, and the vectors of one shard of texts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.artifacts import read_jsonl, write_vectors
from kubeflow_corpus.embedding.embedder import Embedder, ModelIdentity
from kubeflow_corpus.embedding.factory import embedder_from_settings
from kubeflow_corpus.errors import ModelMismatch
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.steps.model import identity_facts, identity_of
from kubeflow_corpus.steps.outcomes import VECTORS_FILE, Outcome, fresh_folder, hand_on, read_outcome
from kubeflow_corpus.steps.progress import StepWatch, step

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Texts a call: enough for the embedder to sort them by length, few enough to say often how far it is.
_TEXTS_PER_CALL: Final = 256


def describe_model(collection: str, begun: str, target: str) -> dict[str, Any]:
    """Writes what the embedding model of this run is.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        begun: Folder that `list_sources` wrote.
        target: Folder for the outcome, with the facts of `identity_facts`.

    Returns:
        Metadata for the artifact.
    """
    before = read_outcome(Path(begun)).begin("describe_model")

    def work() -> Outcome:
        with step("describe_model", collection=collection):
            embedder = embedder_from_settings(Settings.from_env())
            try:
                return replace(before, facts=identity_facts(embedder.identity))
            finally:
                embedder.close()

    return hand_on(fresh_folder(target), before, work).metadata()


def embed_shard(collection: str, shard: str, planned: str, target: str) -> dict[str, Any]:
    """Writes the vectors of the texts of one shard.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        shard: Path of the texts below the plan's folder; empty where there is no plan.
        planned: Folder that `plan` wrote.
        target: Folder for vectors and outcome.

    Returns:
        Metadata for the artifact.
    """
    before = read_outcome(Path(planned)).begin("embed")
    folder = fresh_folder(target)
    start = before if shard or not before.ok else replace(before, status="none")

    def work() -> Outcome:
        total = int(before.facts[f"texts:{shard}"])
        if not total:
            return Outcome("", "embed", counts={"vectors": 0})
        with step("embed", collection=collection, item=Path(shard).name.partition(".")[0]) as watch:
            embedder = embedder_from_settings(Settings.from_env())
            try:
                _check_identity(embedder, identity_of(before))
                batches = _batches(embedder, read_jsonl(Path(planned) / shard), total, watch)
                count = write_vectors(folder / VECTORS_FILE, batches, embedder.identity.dimension)
            finally:
                embedder.close()
            watch.count(vectors=count)
        return Outcome("", "embed", counts={"vectors": count})

    return hand_on(folder, start, work).metadata()


def _check_identity(embedder: Embedder, planned: ModelIdentity) -> None:
    if embedder.identity != planned:
        raise ModelMismatch(
            f"The embedding service changed its model during the run: {planned.model}, then {embedder.identity.model}",
            remedy="Run again: the rows are then cut and embedded for the model that the service has now",
        )


def _batches(
    embedder: Embedder, texts: Iterator[dict[str, Any]], total: int, watch: StepWatch
) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
    done = 0
    while rows := list(itertools.islice(texts, _TEXTS_PER_CALL)):
        vectors = embedder.embed([row["embedding_text"] for row in rows])
        yield [row["embedding_hash"] for row in rows], vectors
        done += len(rows)
        watch.progress(done, total, "texts")
