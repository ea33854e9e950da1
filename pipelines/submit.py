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
from kubeflow_corpus.sources.named import parse_named

from pipelines.arguments import add_changed_paths_argument
from pipelines.cluster import Cluster, KfpSettings
from pipelines.compile import add_crash_notice_argument, add_image_argument, check_image, compile_pipeline
from pipelines.registry import PIPELINES

NAME_PREFIX: Final = "kubeflow-corpus"
_VERSION_CHARACTERS: Final = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("pipeline", choices=PIPELINES)
    add_image_argument(parser)
    add_crash_notice_argument(parser)
    add_changed_paths_argument(parser)
    parser.add_argument("--experiment", default=NAME_PREFIX, metavar="NAME", help="experiment that the run belongs to")
    parser.add_argument(
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="parameter of the pipeline; VALUE is JSON where it is no plain text; may be given more than once",
    )


def run(args: argparse.Namespace) -> int:
    """Uploads the pipeline unless this version is there, starts a run, and prints its id.

    Raises:
        CorpusError: A setting, the host or the token is wrong.
    """
    check_image(args.image)
    parameters = parse_parameters(args.parameter)
    if args.changed_paths:
        # The catalogue is the cluster's: whether it has such sources is found there.
        parse_named(args.changed_paths)
        parameters["changed_paths"] = args.changed_paths
    cluster = Cluster(KfpSettings.from_env())
    version = upload(cluster, args.pipeline, args.image, parameters, crash_notice=args.crash_notice)
    experiment = cluster.ensure_experiment(args.experiment)
    name = f"{NAME_PREFIX}-{args.pipeline}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    print(f"{name}: {cluster.start_run(name, experiment, version, parameters)}")
    return 0


def upload(
    cluster: Cluster, pipeline: str, image: str, parameters: Mapping[str, Any], *, crash_notice: bool = True
) -> Any:
    """Uploads a pipeline unless this version is there.

    Args:
        cluster: The server.
        pipeline: Which one.
        image: Image of every step, by digest.
        parameters: Arguments that will be given to it: checked against what it takes.
        crash_notice: As in `Placement`.

    Returns:
        The reference to its version.

    Raises:
        SettingsError: The pipeline has no such parameter.
    """
    with tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as folder:
        file = compile_pipeline(pipeline, image, Path(folder), crash_notice=crash_notice)
        check_parameters(pipeline, file, parameters)
        # Compiled YAML is the same for the same program and image: so is the version's name.
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:_VERSION_CHARACTERS]
        return cluster.ensure_version(f"{NAME_PREFIX}-{pipeline}", f"{pipeline}-{digest}", file)


def check_parameters(pipeline: str, file: Path, parameters: Mapping[str, Any]) -> None:
    """Refuses a parameter that a pipeline does not take: the server would find that only when it runs.

    Raises:
        SettingsError: It has no such parameter.
    """
    from pipelines.compile import read_spec

    known = sorted(read_spec(file)[0].root.input_definitions.parameters)
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise SettingsError(
            f"Pipeline {pipeline} has no parameter {', '.join(unknown)}", remedy=f"It has {', '.join(known)}"
        )


def parse_parameters(words: Sequence[str]) -> dict[str, Any]:
    """Reads ``NAME=VALUE``: a value that is JSON is read as such, everything else is text.

    Raises:
        SettingsError: A word has no equals sign.
    """
    parameters: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not name or not equals:
            raise SettingsError(f"{word!r} is no parameter", remedy="Write NAME=VALUE")
        try:
            parameters[name] = json.loads(text)
        except ValueError:
            parameters[name] = text
    return parameters
