"""``kubeflow-corpus submit``: one run of a pipeline on a cluster."""

import argparse
import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.ingest.options import RunOptions
from kubeflow_corpus.sources.named import parse_named

from pipelines.arguments import add_changed_paths_argument
from pipelines.cluster import Cluster, KfpSettings
from pipelines.compile import add_placement_arguments, compile_pipeline, placement_of
from pipelines.placement import Placement
from pipelines.registry import PIPELINES

NAME_PREFIX: Final = "kubeflow-corpus"
_VERSION_CHARACTERS: Final = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("pipeline", choices=PIPELINES)
    add_placement_arguments(parser)
    add_changed_paths_argument(parser)
    parser.add_argument("--experiment", default=NAME_PREFIX, metavar="NAME", help="experiment that the run belongs to")
    parser.add_argument(
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="parameter of the pipeline; VALUE is JSON or plain text; may be given more than once",
    )


def run(args: argparse.Namespace) -> int:
    """Uploads the pipeline unless this version is there, starts a run, and prints its id.

    Raises:
        CorpusError: A setting, the host or the token is wrong.
    """
    placement = placement_of(args)
    parameters = parse_parameters(args.parameter)
    if args.changed_paths:
        parameters["changed_paths"] = args.changed_paths
    arguments = pipeline_arguments(parameters)
    cluster = Cluster(KfpSettings.from_env())
    version = upload(cluster, args.pipeline, placement)
    experiment = cluster.ensure_experiment(args.experiment)
    name = f"{NAME_PREFIX}-{args.pipeline}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    print(f"{name}: {cluster.start_run(name, experiment, version, arguments)}")
    return 0


def pipeline_arguments(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a pipeline for what a person writes as its parameters.

    Raises:
        InvalidArgument: A run has no such parameter, or it is of another kind. The server would find that only when
            it runs.
    """
    # The catalogue is the cluster's: whether it has such sources is found there.
    parse_named(RunOptions.from_dict(parameters).changed_paths)
    return {"options": dict(parameters)} if parameters else {}


def upload(cluster: Cluster, pipeline: str, placement: Placement) -> Any:
    """Uploads a pipeline unless this version is there.

    Args:
        cluster: The server.
        pipeline: Which one.
        placement: Where its steps run.

    Returns:
        The reference to its version.
    """
    with tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as folder:
        file = compile_pipeline(pipeline, placement, Path(folder))
        # Compiled YAML is the same for the same program and placement: so is the version's name.
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:_VERSION_CHARACTERS]
        return cluster.ensure_version(f"{NAME_PREFIX}-{pipeline}", f"{pipeline}-{digest}", file)


def parse_parameters(words: Sequence[str]) -> dict[str, Any]:
    """Reads ``NAME=VALUE``: a value that is JSON is read as such, everything else is text.

    Raises:
        SettingsError: A word has no equals sign.
    """
    parameters: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not name or not equals:
            raise SettingsError(f"{word!r} is not a parameter", remedy="Write NAME=VALUE")
        try:
            parameters[name] = json.loads(text)
        except ValueError:
            parameters[name] = text
    return parameters
