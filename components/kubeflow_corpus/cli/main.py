"""The program ``kubeflow-corpus``: one table of commands, each imported only when it is called."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Final, NamedTuple

from kubeflow_corpus.errors import CorpusError, SettingsError
from kubeflow_corpus.processes import exit_code

PROGRAM: Final = "kubeflow-corpus"
_DESCRIPTION: Final = "A project's documentation, issue threads and code as three searchable collections in Milvus."
_EXIT_CODES: Final = (
    "exit codes: 0 the command did what it was asked; 1 it failed, and the last line names what and the remedy; 2 the "
    "command line is wrong; 130 interrupted, 129 and 143 ended by SIGHUP and SIGTERM. Settings come from environment "
    "variables, such as MILVUS_URI."
)


class Command(NamedTuple):
    """A command of the program.

    Attributes:
        module: Module with ``add_arguments(parser)`` and ``run(args) -> exit code``.
        extra: The extra that it needs beyond the base install; empty is none.
        summary: What it does, for the help.
    """

    module: str
    extra: str
    summary: str


# A module is imported only for its own command: `search` must not pay for `kfp`.
COMMANDS: Final[dict[str, Command]] = {
    "demo": Command("pipelines.demo", "ingest,local", "index a small sample and ask it: to see what this is"),
    "run": Command("pipelines.run", "ingest", "read the sources of a collection and index them, on this machine"),
    "compile": Command("pipelines.compile", "ingest", "write the pipelines as YAML for a cluster"),
    "submit": Command("pipelines.submit", "ingest", "upload a pipeline to a cluster and start it once"),
    "schedule": Command("pipelines.schedule", "ingest", "make a cluster's recurring runs match a YAML file"),
    "search": Command("kubeflow_corpus.cli.search", "", "search the docs, the issue threads or the code"),
    "explore": Command("kubeflow_corpus.cli.explore", "mcp", "open a page to search, browse and understand a corpus"),
    "init": Command("kubeflow_corpus.cli.init", "ingest", "write a catalogue for a repository or folder that has none"),
    "inspect": Command("kubeflow_corpus.cli.inspect", "ingest", "show how one file is chunked, or why it is skipped"),
    "status": Command("kubeflow_corpus.cli.status", "", "show what each alias serves, its age and the last run"),
    "versions": Command("kubeflow_corpus.cli.versions", "", "list the kept versions of each collection"),
    "rollback": Command("kubeflow_corpus.cli.rollback", "", "serve an earlier version again"),
    "prune": Command("kubeflow_corpus.cli.prune", "", "drop versions that nothing serves, and old run artifacts"),
    "questions": Command(
        "kubeflow_corpus.cli.questions", "", "report what was asked and found nothing, little or late"
    ),
    "eval": Command("kubeflow_corpus.cli.evaluate", "ingest", "measure retrieval against known answers"),
    "mcp": Command("kubeflow_corpus.cli.serve_mcp", "mcp", "serve the tools over MCP"),
    "mcp-query": Command("kubeflow_corpus.cli.mcp_query", "mcp", "call one MCP tool in memory"),
    "issuer": Command("kubeflow_corpus.cli.issuer", "mcp", "issue anonymous sessions for the edge, rotate their keys"),
    "milvus-bootstrap": Command(
        "kubeflow_corpus.cli.milvus_bootstrap", "mcp", "create the database, roles and users of a Milvus server"
    ),
    "contract": Command(
        "kubeflow_corpus.cli.contract", "ingest", "check that a Milvus and an embedding service do what is relied on"
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: Arguments without the program's name; None takes the process's own.

    Returns:
        The exit code.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in words if not word.startswith("-")), "")
    try:
        args = _parser(chosen).parse_args(words)
        return int(args.run(args))
    except CorpusError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(f"error: {_explain(error, chosen)}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt as interrupt:
        print("interrupted: what was served before is still served; run the command again to continue", file=sys.stderr)
        return exit_code(interrupt)


def _parser(chosen: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=_DESCRIPTION, epilog=_EXIT_CODES)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.summary, description=_sentence(command.summary))
        if name == chosen:
            module = import_module(command.module)
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.run)
    return parser


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


def _version() -> str:
    try:
        return version(PROGRAM)
    except PackageNotFoundError:
        return "(not installed)"


def _explain(error: ModuleNotFoundError, command: str) -> SettingsError:
    """Returns the error of a command whose requirements are not installed.

    Raises:
        ModuleNotFoundError: A module of ours is missing, or one of the base install: that is a defect.
    """
    package = (error.name or "").partition(".")[0]
    if package == "pipelines":
        return SettingsError(
            f"`{PROGRAM} {command}` needs the package `pipelines`, which is not installed",
            remedy="Reinstall kubeflow-corpus: its wheel holds both packages",
        )
    extra = COMMANDS[command].extra
    if not extra or package == "kubeflow_corpus":
        raise error
    return SettingsError(
        f"`{PROGRAM} {command}` needs {error.name}, which is not installed",
        remedy=f"Install the extra: pip install 'kubeflow-corpus[{extra}]'",
    )


if __name__ == "__main__":
    sys.exit(main())
