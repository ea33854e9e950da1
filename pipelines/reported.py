"""Graphs of collections side by side, and what is said of them once all of them ended, or one broke off."""

from collections.abc import Mapping
from typing import Any, Dict, List  # noqa: UP035

from kfp import dsl
from kfp.dsl import PipelineTask
from kubeflow_corpus.ingest.components.report import report, report_corpus, tell_of_crash

from pipelines.placement import Placement

# KFP shows these beside the fields of its form.
PARAMETERS = """Args:
    catalogue: Path of the catalogue of sources inside the steps; empty is the packaged one.
    sources: Names of the sources to read; empty is all of them.
    changed_paths: Documents to bring up to date, as source:path or source:number; empty is whole sources.
    rebuild: Fill a new version beside the one that is served, and serve it if its evaluation passes.
    allow_deletions: Names of the sources of which more may be deleted than the guard lets pass.
    questions: Path of a question set that is asked before a new version is served; empty asks nothing.
    floors: Metric of the evaluation to the least mean with which a new version is served, such as hit@5 to 0.9.
    wait_seconds: How long to wait for another run that writes the same collection.
    build: Which build of the program this is; empty where an image digest says so.
"""


def reported_pipeline(name: str, title: str, parts: Mapping[str, Any], placement: Placement) -> Any:
    """Returns the pipeline that runs the graphs of collections and reports when all of them ended.

    No graph waits for another. A graph hands on every failure that its steps understand, and the report tells of it:
    a graph that *fails* lost a step to a kill, a lack of memory or a defect, so that there will be no report. That
    is told by a task of its own, which KFP starts whatever became of the graph: never both of one failure.

    Args:
        name: Name of the pipeline.
        title: What it does, for the KFP UI.
        parts: Collection to the pipeline of its steps.
        placement: Where it will run.
    """

    def whole_pipeline(
        catalogue: str = "",
        sources: List[str] = [],  # noqa: B006, UP006
        changed_paths: List[str] = [],  # noqa: B006, UP006
        rebuild: bool = False,
        allow_deletions: List[str] = [],  # noqa: B006, UP006
        questions: str = "",
        floors: Dict[str, float] = {},  # noqa: B006, UP006
        wait_seconds: int = 0,
        build: str = "",
    ) -> None:
        graphs = {
            collection: part(
                catalogue=catalogue,
                sources=sources,
                changed_paths=changed_paths,
                rebuild=rebuild,
                allow_deletions=allow_deletions,
                questions=questions,
                floors=floors,
                wait_seconds=wait_seconds,
                build=build,
            )
            for collection, part in parts.items()
        }
        placement.place(_report(graphs))
        if placement.crash_notice:
            for collection, graph in graphs.items():
                placement.place(_crash_notice(collection, graph))

    whole_pipeline.__doc__ = f"{title}\n\n{PARAMETERS}"
    return dsl.pipeline(name=name, description=title)(whole_pipeline)


def _report(graphs: Mapping[str, PipelineTask]) -> PipelineTask:
    if len(graphs) > 1:
        return report_corpus(**{collection: graph.output for collection, graph in graphs.items()})
    ((collection, graph),) = graphs.items()
    return report(collection=collection, published=graph.output)


def _crash_notice(collection: str, graph: PipelineTask) -> PipelineTask:
    told = tell_of_crash(
        collection=collection,
        run_name=dsl.PIPELINE_JOB_NAME_PLACEHOLDER,
        run_id=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
    )
    return told.after(graph).ignore_upstream_failure()
