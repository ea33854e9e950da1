"""The steps of a run that know the embedding model: what it is, and the vectors of one shard of texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from kubeflow_corpus.embedding.embedder import Embedder
from kubeflow_corpus.embedding.factory import cache_from_settings, embedder_from_settings
from kubeflow_corpus.embedding.shards import embed_shard as embed_texts
from kubeflow_corpus.errors import ModelMismatch
from kubeflow_corpus.ingest.model import recipe_facts, recipe_of
from kubeflow_corpus.ingest.outcomes import VECTORS_FILE, Outcome, fresh_folder, hand_on, read_outcome
from kubeflow_corpus.ingest.progress import step
from kubeflow_corpus.model import ModelIdentity, make_recipe
from kubeflow_corpus.settings import Settings


def describe_model(collection: str, begun: str, target: str) -> dict[str, Any]:
    """Writes what the embedding model of this run is.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        begun: Folder that `list_sources` wrote.
        target: Folder for the outcome, with the fact of `recipe_facts`.

    Returns:
        Metadata for the artifact.
    """
    before = read_outcome(Path(begun)).begin("describe_model")

    def work() -> Outcome:
        with step("describe_model", collection=collection):
            settings = Settings.from_env()
            embedder = embedder_from_settings(settings)
            try:
                return replace(before, facts=recipe_facts(make_recipe(embedder.identity, settings.chunk_tokens)))
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
            settings = Settings.from_env()
            embedder = embedder_from_settings(settings)
            try:
                _check_identity(embedder, recipe_of(before).identity)
                report = embed_texts(
                    Path(planned) / shard,
                    folder / VECTORS_FILE,
                    embedder,
                    cache=cache_from_settings(settings, embedder.identity),
                    progress=lambda done: watch.progress(done, total, "texts"),
                )
            finally:
                embedder.close()
            watch.count(**report.counts())
        return Outcome("", "embed", counts=report.counts())

    return hand_on(folder, start, work).metadata()


def _check_identity(embedder: Embedder, planned: ModelIdentity) -> None:
    if embedder.identity != planned:
        raise ModelMismatch(
            f"The embedding service changed its model during the run: {planned.model}, then {embedder.identity.model}",
            remedy="Run again: the rows are then cut and embedded for the model that the service has now",
        )
