"""``kubeflow-corpus explore``: a page on this machine to search, browse and understand a corpus."""

from __future__ import annotations

import argparse
import logging
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubeflow_corpus.collections import COLLECTION_NAMES
from kubeflow_corpus.errors import CollectionNotFound, SettingsError
from kubeflow_corpus.reports.pages import EXPLORER_PORT

if TYPE_CHECKING:
    from kubeflow_corpus.query.client import CorpusClient

# A person waits for an answer, on a machine that may be busy.
TIMEOUT_SECONDS: Final = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--port", type=int, default=EXPLORER_PORT, help="port on 127.0.0.1 (default: %(default)s)")
    parser.add_argument(
        "--questions", type=Path, metavar="FILE", help="question set (JSONL) that tests are added to; default: none"
    )
    parser.add_argument(
        "--local", type=Path, default=Path("local"), metavar="DIR", help="folder of local runs, which keep originals"
    )


def run(args: argparse.Namespace) -> int:
    """Serves the page until it is ended."""
    from kubeflow_corpus.explore.app import Explorer
    from kubeflow_corpus.explore.asked import AskedLog, Tests
    from kubeflow_corpus.explore.corpus import Corpus
    from kubeflow_corpus.explore.guard import WriteToken
    from kubeflow_corpus.explore.originals import Originals
    from kubeflow_corpus.explore.serving import HOST, serve
    from kubeflow_corpus.query.client import CorpusClient
    from kubeflow_corpus.settings import Settings

    logging.getLogger("kubeflow_corpus").addHandler(logging.NullHandler())
    settings = Settings.from_env()
    # What is tried here, nobody asked.
    _check_port(HOST, args.port)
    token = WriteToken()
    with CorpusClient(settings=settings.unlogged(), timeout=TIMEOUT_SECONDS) as client:
        _require_any(client)
        # So that the first question is answered as fast as the others.
        client.warm_up()
        log = AskedLog(Path(settings.question_log) if settings.question_log else None)
        tests = Tests(client, args.questions, token)
        explorer = Explorer(Corpus(client, settings), Originals(args.local), log, tests)
        shown = token.text if args.questions else ""
        serve(explorer.app(), args.port, lambda port: _announce(HOST, port, shown))
    return 0


def _require_any(client: CorpusClient) -> None:
    """Refuses a corpus in which nothing is served: that is a path or a prefix that was meant otherwise.

    Raises:
        CollectionNotFound: None of the collections is served.
    """
    missing = []
    for name in COLLECTION_NAMES:
        try:
            client.served_version(name)
        except CollectionNotFound as error:
            missing.append(error)
    if len(missing) == len(COLLECTION_NAMES):
        raise missing[0]


def _announce(host: str, port: int, token: str) -> None:
    if token:
        print(f"Write token: {token}")
    print(f"Open http://{host}:{port}/ (end with Ctrl-C)", flush=True)


def _check_port(host: str, port: int) -> None:
    """Refuses a port that is taken before a corpus is opened for nothing."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise SettingsError(
                f"Port {port} of {host} cannot be used: {getattr(error, 'strerror', None) or error}",
                remedy="Name another (--port), or 0 for a free one",
            ) from error
