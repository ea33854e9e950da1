"""What all steps do alike: a fresh folder, an event when they begin and end, and a result that the next step reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from kubeflow_corpus.errors import ArtifactError, CorpusError
from kubeflow_corpus.ingest.progress import StepWatch, step
from kubeflow_corpus.ingest.results import Result, SourceState, StepResult
from kubeflow_corpus.processes import end_with_run
from kubeflow_corpus.tracing import start_tracing, step_span

ROWS_FILE: Final = "rows.jsonl.zst"
SKIPS_FILE: Final = "skips.jsonl.zst"
VECTORS_FILE: Final = "vectors.parquet"
# Texts of a shard that the embedding service fails, and why.
REFUSED_FILE: Final = "refused.jsonl.zst"
# Documents that are not cut themselves: what those that a run is asked for by name need to be cut like in a whole run.
AROUND_FILE: Final = "around.jsonl.zst"
# Documents that could not be read, cut or stored: their stored rows stay.
FAILED_FILE: Final = "failed.jsonl.zst"
RESULT_FILE: Final = "result.json"
# What a collector of traces knows the steps as.
TRACED_AS: Final = "kubeflow-corpus-ingest"

R = TypeVar("R", bound=Result)
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Work(Generic[R]):
    """What the body of a step gets.

    Attributes:
        before: How it went so far, under the name of this step.
        folder: Where the step writes.
        watch: What the step reports progress and figures to.
    """

    before: R
    folder: Path
    watch: StepWatch


def run_step(
    before: R, target: str, body: Callable[Concatenate[Work[R], P], R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Runs the body of a step in a fresh folder, and leaves its result there.

    Args:
        before: How it went so far, under the name of this step.
        target: The step's folder.
        body: What to do: gets a `Work` and the other arguments, returns the result.
        *args: Further arguments of the body.
        **kwargs: Further arguments of the body.

    Returns:
        As `attempt`.
    """
    end_with_run()
    folder = fresh_folder(target)
    result = attempt(before, folder, body, *args, **kwargs)
    if result.failed:
        # Half-written rows are of no use, and on a full disk the result needs their room.
        fresh_folder(target)
    write_result(folder, result)
    return result


def attempt(
    before: R, folder: Path, body: Callable[Concatenate[Work[R], P], R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Runs the body of a step, or passes through what it starts with, unless that is ok.

    Returns:
        The body's result. A `CorpusError` that it raises becomes a failed one; anything else is a defect or a lost
        machine, which KFP tries again.
    """
    if not before.ok:
        return before
    try:
        start_tracing(TRACED_AS)
        with (
            step_span(before.step, getattr(before, "run", ""), collection=before.collection, item=before.item),
            step(before.step, collection=before.collection, item=before.item) as watch,
        ):
            return body(Work(before, folder, watch), *args, **kwargs)
    except CorpusError as error:
        return before.fail(error)


def fresh_folder(path: str) -> Path:
    """Returns an empty folder: a step that is retried finds what the failed attempt left."""
    folder = Path(path)
    if folder.is_dir():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)
    folder.mkdir(parents=True)
    return folder


def write_result(folder: Path, result: Result) -> None:
    """Writes a result into a step's folder."""
    (folder / RESULT_FILE).write_text(
        json.dumps(result.to_dict(), ensure_ascii=False, indent=1, sort_keys=True), encoding="utf-8"
    )


def read_result(folder: str | Path) -> StepResult:
    """Reads how it went with a collection.

    Raises:
        ArtifactError: There is no result, or it is damaged.
    """
    return StepResult.from_dict(_read_json(Path(folder, RESULT_FILE)))


def read_source(folder: str | Path) -> SourceState:
    """Reads how it went with a source.

    Raises:
        ArtifactError: There is no result, or it is damaged.
    """
    return SourceState.from_dict(_read_json(Path(folder, RESULT_FILE)))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path} is damaged: {error}", remedy="Run the step that wrote it again") from error
    if not isinstance(data, dict):
        raise ArtifactError(f"{path} is damaged: not an object", remedy="Run the step that wrote it again")
    return data
