"""``kubeflow-corpus rollback``: serve an earlier version again."""

from __future__ import annotations

import argparse

from kubeflow_corpus.cli.arguments import add_collection_argument
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.versions import rollback


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_collection_argument(parser)
    parser.add_argument("--to", type=int, metavar="N", help="version to serve; default: the one before")


def run(args: argparse.Namespace) -> int:
    """Moves the alias."""
    spec = args.collection
    settings = Settings.from_env()
    with connected(settings) as client:
        before, after = rollback(client, spec, settings.collection_prefix, args.to)
    print(f"{spec.alias} now serves {after}" + (f" (before: {before})" if before != after else ", as before"))
    return 0
