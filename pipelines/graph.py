"""The graphs of the pipelines: the steps of each collection, and what is said of them once all of them ended."""

from collections.abc import Mapping
from typing import Any, Dict, Final  # noqa: UP035

from kfp import dsl
from kfp.dsl import Dataset, PipelineTask
from kubeflow_corpus.ingest.components import (
    apply,
    begin,
    chunk,
    embed,
    evaluate,
    fetch,
    fetch_threads,
    notify_crash,
    plan,
    publish,
    report,
    report_corpus,
)
from kubeflow_corpus.ingest.options import RunOptions

from pipelines.placement import Placement
from pipelines.registry import PIPELINES

# KFP shows it beside the field of its form.
_OPTIONS: Final = "What the run is asked for, as a mapping; what it leaves out has its default."


def build_pipeline(name: str, placement: Placement) -> Any:
    """Returns a pipeline.

    Args:
        name: One of `PIPELINES`.
        placement: Where it will run.
    """
    pipeline = PIPELINES[name]
    parts = {collection: _collection_pipeline(collection, placement) for collection in pipeline.collections}
    return reported_pipeline(name, pipeline.title, parts, placement)


def _collection_pipeline(collection: str, placement: Placement) -> Any:
    def steps(options: Dict[str, Any] = {}) -> Dataset:  # noqa: B006, UP006
        return collection_steps(collection, options, placement).outputs["published"]

    return dsl.pipeline(name=collection, description=PIPELINES[collection].title)(steps)


def reported_pipeline(name: str, title: str, parts: Mapping[str, Any], placement: Placement) -> Any:
    """Returns the pipeline that runs the graphs of collections side by side and reports when all of them ended.

    No graph waits for another. A graph passes on every failure that its steps understand, and the report names it: a
    graph that *fails* lost a step to a kill, a lack of memory or a defect, and there will not be a report. A task of
    its own, which KFP starts however the graph ended, notifies of that: never both of one failure.

    Args:
        name: Name of the pipeline.
        title: What it does, for the KFP UI.
        parts: Collection to the pipeline of its steps.
        placement: Where it will run.
    """

    def whole_pipeline(options: Dict[str, Any] = {}) -> None:  # noqa: B006, UP006
        graphs = {collection: part(options=options) for collection, part in parts.items()}
        placement.place(_report(graphs))
        if placement.crash_notice:
            for collection, graph in graphs.items():
                placement.place(_crash_notice(collection, graph))

    whole_pipeline.__doc__ = f"{title}\n\nArgs:\n    options: {_OPTIONS} {_described_options()}\n"
    return dsl.pipeline(name=name, description=title)(whole_pipeline)


def _described_options() -> str:
    """Returns the options of a run with their descriptions, as one paragraph."""
    lines = (RunOptions.__doc__ or "").partition("Attributes:\n")[2].split("\n")
    return " ".join(" ".join(lines).split())


def _report(graphs: Mapping[str, PipelineTask]) -> PipelineTask:
    if len(graphs) > 1:
        return report_corpus(**{collection: graph.output for collection, graph in graphs.items()})
    (graph,) = graphs.values()
    return report(published=graph.output)


def _crash_notice(collection: str, graph: PipelineTask) -> PipelineTask:
    notice = notify_crash(
        collection=collection,
        run_name=dsl.PIPELINE_JOB_NAME_PLACEHOLDER,
        run_id=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
    )
    return notice.after(graph).ignore_upstream_failure()


def collection_steps(collection: str, options: Any, placement: Placement) -> PipelineTask:
    """Adds the steps of a collection to the pipeline that is being defined.

    Only the first step takes the options: each result carries them on. So `fetch` and `chunk`, which KFP caches, see
    nothing but where their source stands.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        options: The pipeline's parameter.
        placement: Where it will run.

    Returns:
        The last of them, `publish`, whose output ``published`` says how it went.
    """
    place = placement.place
    begun = place(begin(collection=collection, options=options, job_id=dsl.PIPELINE_JOB_ID_PLACEHOLDER))
    state = begun.outputs["state"]
    with dsl.ParallelFor(begun.outputs["Output"], parallelism=placement.parallel) as resolved:
        if collection == "issues":
            fetched = place(fetch_threads(resolved=resolved, state=state))
        else:
            # Without the state among its inputs, so that the commit is all that its cache depends on.
            fetched = place(fetch(resolved=resolved))
        chunked = place(chunk(documents=fetched.outputs["documents"]))

    # `Collected` remembers its consumer: one for each.
    planned = place(plan(state=state, chunks=dsl.Collected(chunked.outputs["chunks"])))
    with dsl.ParallelFor(planned.outputs["Output"], parallelism=placement.parallel) as shard:
        embedded = place(embed(shard=shard, planned=planned.outputs["planned"]))
    applied = place(
        apply(
            planned=planned.outputs["planned"],
            chunks=dsl.Collected(chunked.outputs["chunks"]),
            vectors=dsl.Collected(embedded.outputs["vectors"]),
        )
    )
    evaluated = place(evaluate(applied=applied.outputs["applied"]))
    return place(publish(evaluated=evaluated.outputs["evaluated"]))
