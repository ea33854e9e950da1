"""``kubeflow-corpus versions``: the kept versions of each collection."""

from __future__ import annotations

import argparse
import json
from typing import Any

from kubeflow_corpus.cli.arguments import add_collection_argument
from kubeflow_corpus.collections import COLLECTIONS
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.status import collect_status


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_collection_argument(parser, nargs="?", help="only this one")
    parser.add_argument("--json", action="store_true", help="print one JSON object: collection to list of versions")


def run(args: argparse.Namespace) -> int:
    """Prints the versions."""
    settings = Settings.from_env()
    specs = (args.collection,) if args.collection else COLLECTIONS
    with connected(settings) as client:
        states = collect_status(client, settings.collection_prefix, specs)
    if args.json:
        print(json.dumps({state["alias"]: state["versions"] for state in states}, ensure_ascii=False, indent=2))
        return 0
    for state in states:
        print(f"{state['served_as']}:")
        for version in state["versions"]:
            print(f"  {_line(version)}")
        if not state["versions"]:
            print("  no version")
    return 0


def _line(version: dict[str, Any]) -> str:
    when = version["published_at"] or version["created_at"]
    return (
        f"v{version['version']:<4} {version['state']:<10} {version['rows']:>9,} rows  {when}  {version['model']} "
        f"({version['dimension']})  chunker {version['chunker_version']}"
    )
