"""``python -m pipelines``: run, compile, submit and schedule the pipelines.

Exit codes: 0 everything asked for is done; 1 something failed, and the last line names it (what was indexed before, and
what did not fail, is served); 2 the command line is wrong; 130 interrupted.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from kubeflow_corpus.errors import CorpusError

# Command: (module with add_arguments(parser) and run(args) -> exit code, help). Only the chosen one is imported.
COMMANDS: Final = {
    "run": ("pipelines.run", "read the sources of a collection and index them, on this machine"),
    "compile": ("pipelines.compile", "write the pipelines as YAML for a cluster"),
    "submit": ("pipelines.submit", "upload a pipeline to a cluster and start it once"),
    "schedule": ("pipelines.schedule", "make the recurring runs of a cluster what a YAML file says"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    Args:
        argv: Arguments without the program's name; None takes the process's own.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="python -m pipelines", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = next((word for word in words if not word.startswith("-")), "")
    for name, (module, summary) in COMMANDS.items():
        subparser = commands.add_parser(name, help=summary, description=summary)
        if name == chosen:
            command = import_module(module)
            command.add_arguments(subparser)
            subparser.set_defaults(run=command.run)
    args = parser.parse_args(words)
    try:
        return int(args.run(args))
    except CorpusError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: what was served before is served still; run again to go on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
