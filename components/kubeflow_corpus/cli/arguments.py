"""Arguments that several commands take."""

from __future__ import annotations

import argparse
from typing import Any

from kubeflow_corpus.collections import COLLECTION_NAMES, CollectionSpec, find_collection
from kubeflow_corpus.errors import InvalidArgument


def add_collection_argument(parser: argparse.ArgumentParser, **options: Any) -> None:
    """Declares the argument ``collection``, which becomes a `CollectionSpec`; any of its names is understood.

    Args:
        parser: Of the command.
        **options: `nargs` and `help`, as `add_argument` takes them.
    """
    known = ", ".join(COLLECTION_NAMES)
    text = "; ".join(filter(None, (options.pop("help", ""), f"one of {known}")))
    parser.add_argument("collection", type=_collection, metavar="COLLECTION", help=text, **options)


def _collection(text: str) -> CollectionSpec:
    try:
        return find_collection(text)
    except InvalidArgument as error:
        # A wrong call, as a misspelt option is: usage and exit code 2.
        raise argparse.ArgumentTypeError(str(error)) from error
