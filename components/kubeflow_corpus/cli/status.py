"""``kubeflow-corpus status``: what each alias serves, its age and the last run."""

from __future__ import annotations

import argparse
import json

from kubeflow_corpus.cli.arguments import add_collection_argument
from kubeflow_corpus.collections import COLLECTIONS
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.status import collect_status, readable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_collection_argument(parser, nargs="?", help="only this one")
    parser.add_argument("--json", action="store_true", help="print one JSON list")


def run(args: argparse.Namespace) -> int:
    """Prints the state of one collection or of every one; 1 where nothing is served at all."""
    settings = Settings.from_env()
    specs = (args.collection,) if args.collection else COLLECTIONS
    with connected(settings) as client:
        states = collect_status(client, settings.collection_prefix, specs)
    print(json.dumps(states, ensure_ascii=False, indent=2) if args.json else readable(states))
    return 0 if any(state["live"] for state in states) else 1
