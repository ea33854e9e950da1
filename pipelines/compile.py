"""``kubeflow-corpus compile``: the pipelines as KFP's YAML, for a cluster."""

import argparse
import os
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final, Optional, cast

from google.protobuf import json_format
from kfp import compiler
from kfp.pipeline_spec import pipeline_spec_pb2
from kubeflow_corpus.errors import SettingsError
from ruamel.yaml import YAML

from pipelines.graph import build_pipeline
from pipelines.placement import KFP_RELEASES, Effect, Placement, Toleration
from pipelines.registry import PIPELINES

IMAGE_VARIABLE: Final = "KUBEFLOW_CORPUS_IMAGE"
# KFP's cache knows an image by this string: a tag that moves would answer new code with old results.
_PINNED: Final = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("pipeline", nargs="*", choices=[[], *PIPELINES], help="which pipelines (default: all four)")
    add_placement_arguments(parser)
    parser.add_argument("--out", default="dist/pipelines", metavar="DIR", help="folder for the YAML files")


def add_placement_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares what a cluster has to be told about the pods of the steps."""
    parser.add_argument(
        "--image",
        default=os.environ.get(IMAGE_VARIABLE, ""),
        metavar="IMAGE@DIGEST",
        help=f"image of every step, by digest (default: {IMAGE_VARIABLE})",
    )
    parser.add_argument(
        "--kfp-version",
        choices=KFP_RELEASES,
        default=KFP_RELEASES[0],
        help="release of Kubeflow Pipelines; later ones take it too (default: %(default)s)",
    )
    parser.add_argument(
        "--pull-secret",
        action="append",
        default=[],
        metavar="NAME",
        help="Secret in the namespace of the runs with which nodes pull the image; may be given more than once",
    )
    parser.add_argument(
        "--node-label",
        action="append",
        type=_node_label,
        default=[],
        metavar="NAME=VALUE",
        help="label that a node must have to run steps; may be given more than once",
    )
    parser.add_argument(
        "--toleration",
        action="append",
        type=_toleration,
        default=[],
        metavar="KEY[=VALUE][:EFFECT]",
        help="taint that steps tolerate; may be given more than once",
    )
    parser.add_argument(
        "--no-crash-notice",
        dest="crash_notice",
        action="store_false",
        help="without the task that notifies of killed steps: one pod less a collection",
    )


def _node_label(word: str) -> tuple[str, str]:
    label, equals, value = word.partition("=")
    if not label or not equals:
        raise argparse.ArgumentTypeError(f"{word!r} is not NAME=VALUE")
    return label, value


def _toleration(word: str) -> Toleration:
    taint, colon, effect = word.partition(":")
    key, _, value = taint.partition("=")
    if not key or (colon and effect not in _EFFECTS):
        raise argparse.ArgumentTypeError(f"{word!r} is not KEY[=VALUE][:EFFECT] with one of {', '.join(_EFFECTS)}")
    return Toleration(key, value, cast(Optional[Effect], effect or None))


def placement_of(args: argparse.Namespace) -> Placement:
    """Returns where the steps run, as the command line says it.

    Raises:
        SettingsError: The image is missing or not pinned.
    """
    check_image(args.image)
    return Placement(
        image=args.image,
        crash_notice=args.crash_notice,
        kfp_version=args.kfp_version,
        pull_secrets=tuple(args.pull_secret),
        node_labels=tuple(args.node_label),
        tolerations=tuple(args.toleration),
    )


def run(args: argparse.Namespace) -> int:
    """Compiles, and prints one line per file.

    Raises:
        SettingsError: The image is missing or not pinned.
    """
    placement = placement_of(args)
    for name in args.pipeline or PIPELINES:
        print(compile_pipeline(name, placement, Path(args.out)))
    return 0


def compile_pipeline(name: str, placement: Placement, folder: Path) -> Path:
    """Writes one pipeline.

    Args:
        name: Which one.
        placement: Where its steps run.
        folder: Where to write ``<name>.yaml``.

    Raises:
        SettingsError: The image is missing or not pinned.
    """
    check_image(placement.image)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(compiled(name, placement), encoding="utf-8")
    return file


@cache
def compiled(name: str, placement: Placement) -> str:
    """Returns one pipeline as YAML, read back once: several schedules of one pipeline share it."""
    with tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as folder:
        file = Path(folder) / f"{name}.yaml"
        compiler.Compiler().compile(build_pipeline(name, placement), package_path=str(file))
        read_spec(file)
        return file.read_text(encoding="utf-8")


def check_image(image: str) -> None:
    """Refuses an image that is not named by digest.

    Raises:
        SettingsError: It is missing or not pinned.
    """
    if not _PINNED.fullmatch(image):
        raise SettingsError(
            f"The image of the steps is not pinned by digest: {image!r}",
            remedy=f"Give --image REGISTRY/NAME@sha256:DIGEST, or set {IMAGE_VARIABLE}",
            setting=IMAGE_VARIABLE,
        )


def read_spec(file: Path) -> tuple[Any, dict[str, Any]]:
    """Reads a compiled pipeline back, which checks it.

    Returns:
        The `PipelineSpec`, and the platform spec as plain data.

    Raises:
        ParseError: It is not a valid specification.
    """
    documents = list(YAML(typ="safe").load_all(file))
    spec = json_format.ParseDict(documents[0], pipeline_spec_pb2.PipelineSpec())
    platform = documents[1] if len(documents) > 1 else {}
    json_format.ParseDict(platform, pipeline_spec_pb2.PlatformSpec())
    return spec, platform
