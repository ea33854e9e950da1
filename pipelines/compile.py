"""``kubeflow-corpus compile``: the pipelines as KFP's YAML, for a cluster."""

import argparse
import os
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from google.protobuf import json_format
from kfp import compiler
from kfp.pipeline_spec import pipeline_spec_pb2
from kubeflow_corpus.errors import SettingsError
from ruamel.yaml import YAML

from pipelines.graph import build_pipeline
from pipelines.placement import Placement
from pipelines.registry import PIPELINES

IMAGE_VARIABLE: Final = "KUBEFLOW_CORPUS_IMAGE"
# KFP's cache knows an image by this string: a tag that moves would answer new code with old results.
_PINNED: Final = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("pipeline", nargs="*", choices=[[], *PIPELINES], help="which pipelines (default: all four)")
    add_image_argument(parser)
    add_crash_notice_argument(parser)
    parser.add_argument("--out", default="dist/pipelines", metavar="DIR", help="folder for the YAML files")


def add_image_argument(parser: argparse.ArgumentParser) -> None:
    """Declares ``--image``."""
    parser.add_argument(
        "--image",
        default=os.environ.get(IMAGE_VARIABLE, ""),
        metavar="IMAGE@DIGEST",
        help=f"image of every step, by digest (default: {IMAGE_VARIABLE})",
    )


def add_crash_notice_argument(parser: argparse.ArgumentParser) -> None:
    """Declares ``--no-crash-notice``."""
    parser.add_argument(
        "--no-crash-notice",
        dest="crash_notice",
        action="store_false",
        help="without the task that notifies of killed steps: servers before 2.14 do not know how it is started",
    )


def run(args: argparse.Namespace) -> int:
    """Compiles, and prints one line per file.

    Raises:
        SettingsError: The image is missing or not pinned.
    """
    for name in args.pipeline or PIPELINES:
        file = compile_pipeline(name, args.image, Path(args.out), crash_notice=args.crash_notice)
        print(file)
    return 0


def compile_pipeline(name: str, image: str, folder: Path, *, crash_notice: bool = True) -> Path:
    """Writes one pipeline.

    Args:
        name: Which one.
        image: Image of every step, by digest.
        folder: Where to write ``<name>.yaml``.
        crash_notice: As in `Placement`.

    Raises:
        SettingsError: The image is missing or not pinned.
    """
    check_image(image)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(compiled(name, image, crash_notice), encoding="utf-8")
    return file


@cache
def compiled(name: str, image: str, crash_notice: bool = True) -> str:
    """Returns one pipeline as YAML, read back once: several schedules of one pipeline share it."""
    with tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as folder:
        file = Path(folder) / f"{name}.yaml"
        placement = Placement(image=image, crash_notice=crash_notice)
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
