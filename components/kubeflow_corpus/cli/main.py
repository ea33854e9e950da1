"""The console script ``kubeflow-corpus``: one table of commands, each loaded when it is asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from kubeflow_corpus.errors import CorpusError


class Command(Protocol):
    """What a module named in `COMMANDS` provides."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the command's arguments."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Runs the command and returns its exit code."""
        ...


# Command: (module, help). A module is imported only for its own command: `search` must not pay for `kfp`.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "search": ("kubeflow_corpus.cli.search", "ask the docs, the issue threads or the code"),
    "inspect": ("kubeflow_corpus.cli.inspect", "show how one file is chunked, or why it is skipped"),
    "status": (
        "kubeflow_corpus.cli.status",
        "what each alias serves, its age and the last run",
    ),
    "versions": ("kubeflow_corpus.cli.versions", "the kept versions of each collection"),
    "rollback": ("kubeflow_corpus.cli.rollback", "serve an earlier version again"),
    "prune": (
        "kubeflow_corpus.cli.prune",
        "drop versions that nothing serves, and old run artifacts",
    ),
    "eval": ("kubeflow_corpus.cli.evaluate", "measure retrieval against known answers"),
    "mcp": ("kubeflow_corpus.cli.serve_mcp", "serve the three search tools over MCP"),
    "issuer": (
        "kubeflow_corpus.cli.issuer",
        "hand out anonymous sessions for the edge, and rotate their keys",
    ),
    "milvus-bootstrap": (
        "kubeflow_corpus.cli.milvus_bootstrap",
        "make the database, the roles and the users of a Milvus server",
    ),
    "contract": (
        "kubeflow_corpus.cli.contract",
        "hold a Milvus and an embedding service to what this package relies on",
    ),
    "mcp-query": ("kubeflow_corpus.cli.mcp_query", "call one MCP tool in memory"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: Arguments without the program's name; None takes the process's own.

    Returns:
        0 where the command did what it was asked, 1 where it failed with a clear error, 2 for a wrong call.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="kubeflow-corpus", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = next((word for word in words if not word.startswith("-")), "")
    for name, (module, summary) in COMMANDS.items():
        subparser = commands.add_parser(name, help=summary, description=summary)
        if name == chosen:
            command = cast(Command, import_module(module))
            command.add_arguments(subparser)
            subparser.set_defaults(run=command.run)
    args = parser.parse_args(words)
    try:
        return int(args.run(args))
    except CorpusError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
