"""The steps of one collection, from its sources to what readers see. Each of the four pipelines is built of it."""

from dataclasses import dataclass
from typing import Any, Final

from kfp import dsl
from kfp.dsl import PipelineTask
from kubeflow_corpus.ingest.components.chunking import chunk
from kubeflow_corpus.ingest.components.embedding import describe_model, embed
from kubeflow_corpus.ingest.components.evaluation import evaluate
from kubeflow_corpus.ingest.components.sources import fetch, fetch_threads, list_sources, resolve_revision
from kubeflow_corpus.ingest.components.store import apply, plan, publish, read_state

from pipelines.placement import Placement

COLLECTIONS: Final = ("docs", "issues", "code")


@dataclass(frozen=True, slots=True)
class Options:
    """The parameters of a pipeline, as placeholders that KFP fills when it runs.

    Attributes:
        catalogue: Path of the catalogue.
        sources: Names of sources.
        changed_paths: Documents, as ``source:path``.
        rebuild: Whether to fill a new version.
        allow_deletions: Names of sources.
        questions: Path of a question set.
        floors: Metric to its least mean.
        wait_seconds: How long to wait for another writer.
        build: Which build of the program this is.
    """

    catalogue: Any
    sources: Any
    changed_paths: Any
    rebuild: Any
    allow_deletions: Any
    questions: Any
    floors: Any
    wait_seconds: Any
    build: Any


def collection_steps(collection: str, options: Options, placement: Placement) -> PipelineTask:
    """Adds the steps of a collection to the pipeline that is being defined.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        options: The pipeline's parameters.
        placement: Where it will run.

    Returns:
        The last of them, `publish`, whose output ``published`` says how it went.
    """
    place = placement.place
    listed = place(
        list_sources(
            catalogue=options.catalogue,
            collection=collection,
            names=options.sources,
            changed_paths=options.changed_paths,
            rebuild=options.rebuild,
        )
    )
    model = place(describe_model(collection=collection, begun=listed.outputs["begun"]))
    state = place(
        read_state(
            collection=collection,
            model=model.outputs["model"],
            sources=listed.outputs["Output"],
            rebuild=options.rebuild,
        )
    )
    with dsl.ParallelFor(listed.outputs["Output"], parallelism=placement.parallel) as source:
        resolved = place(
            resolve_revision(
                catalogue=options.catalogue,
                collection=collection,
                source=source,
                changed_paths=options.changed_paths,
                state=state.outputs["state"],
            )
        )
        fetched = place(_fetch(collection, options, resolved, state))
        chunked = place(
            chunk(
                collection=collection,
                build=options.build,
                documents=fetched.outputs["documents"],
            )
        )

    # `Collected` remembers its consumer: one for each.
    planned = place(
        plan(
            collection=collection,
            state=state.outputs["state"],
            chunks=dsl.Collected(chunked.outputs["chunks"]),
            rebuild=options.rebuild,
            allow_deletions=options.allow_deletions,
            sources=listed.outputs["Output"],
            names=options.sources,
            job_id=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
        )
    )
    with dsl.ParallelFor(planned.outputs["Output"], parallelism=placement.parallel) as shard:
        embedded = place(embed(collection=collection, shard=shard, planned=planned.outputs["planned"]))
    applied = place(
        apply(
            collection=collection,
            planned=planned.outputs["planned"],
            chunks=dsl.Collected(chunked.outputs["chunks"]),
            wait_seconds=options.wait_seconds,
            vectors=dsl.Collected(embedded.outputs["vectors"]),
        )
    )
    evaluated = place(
        evaluate(
            collection=collection,
            applied=applied.outputs["applied"],
            questions=options.questions,
            floors=options.floors,
        )
    )
    return place(
        publish(
            collection=collection,
            evaluated=evaluated.outputs["evaluated"],
            wait_seconds=options.wait_seconds,
        )
    )


def _fetch(collection: str, options: Options, resolved: PipelineTask, state: PipelineTask) -> PipelineTask:
    if collection == "issues":
        return fetch_threads(catalogue=options.catalogue, resolved=resolved.output, state=state.outputs["state"])
    # Without the state among its inputs, so that the commit is all that its cache depends on.
    return fetch(catalogue=options.catalogue, collection=collection, resolved=resolved.output, build=options.build)
