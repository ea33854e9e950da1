"""The steps of a run that know the embedding model: what it is, and the vectors of one shard of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from kubeflow_corpus.artifacts import read_jsonl, write_jsonl
from kubeflow_corpus.embedding.embedder import Embedder
from kubeflow_corpus.embedding.factory import cache_from_settings, embedder_from_settings
from kubeflow_corpus.embedding.shards import embed_shard
from kubeflow_corpus.errors import ModelMismatch
from kubeflow_corpus.ingest.results import StepResult
from kubeflow_corpus.ingest.step import REFUSED_FILE, VECTORS_FILE, Work, read_result, run_step
from kubeflow_corpus.model import ModelIdentity, make_recipe
from kubeflow_corpus.settings import Settings


def describe_model(begun: str, target: str) -> StepResult:
    """Asks what the embedding model of this run is.

    Args:
        begun: Folder that `list_sources` wrote.
        target: Folder for the result, which has the recipe.
    """
    return run_step(read_result(begun).begin("describe_model"), target, _describe_model)


def _describe_model(work: Work[StepResult]) -> StepResult:
    settings = Settings.from_env()
    embedder = embedder_from_settings(settings)
    try:
        return replace(work.before, recipe=make_recipe(embedder.identity, settings.chunk_tokens))
    finally:
        embedder.close()


def embed(shard: str, planned: str, target: str) -> StepResult:
    """Embeds the texts of one shard.

    Args:
        shard: Path of the texts below the plan's folder; empty if there is no plan.
        planned: Folder that `plan` wrote.
        target: Folder for vectors and the result.
    """
    before = replace(read_result(planned).begin("embed"), shard=shard)
    texts = before.shards.get(shard, 0)
    if before.ok and not texts:
        before = replace(before, status="none")
    return run_step(before, target, _embed, Path(planned) / shard, texts)


def _embed(work: Work[StepResult], shard: Path, texts: int) -> StepResult:
    settings = Settings.from_env()
    embedder = embedder_from_settings(settings)
    try:
        _check_identity(embedder, work.before.made_with.identity)
        report = embed_shard(
            shard,
            work.folder / VECTORS_FILE,
            embedder,
            cache=cache_from_settings(settings, embedder.identity),
            progress=partial(work.watch.progress, total=texts, unit="texts"),
        )
    finally:
        embedder.close()
    write_jsonl(work.folder / REFUSED_FILE, ({"text": text, "cause": cause} for text, cause in report.refused.items()))
    work.watch.count(**report.counts())
    return replace(work.before, counts=report.counts())


def read_refused(folders: Sequence[str]) -> dict[str, str]:
    """Returns why texts have no vector, by embedding hash.

    Args:
        folders: Folders that `embed` wrote.
    """
    files = (Path(folder, REFUSED_FILE) for folder in folders)
    return {row["text"]: row["cause"] for file in files if file.exists() for row in read_jsonl(file)}


def _check_identity(embedder: Embedder, planned: ModelIdentity) -> None:
    if embedder.identity != planned:
        raise ModelMismatch(
            f"The embedding service changed its model during the run: {planned.model}, then {embedder.identity.model}",
            remedy="Run again: the rows are then cut and embedded for the model that the service has now",
        )
