"""Arguments that several commands share."""

import argparse


def add_changed_paths_argument(parser: argparse.ArgumentParser) -> None:
    """Declares ``--changed-paths``."""
    parser.add_argument(
        "--changed-paths",
        action="extend",
        nargs="+",
        default=[],
        metavar="SOURCE:PATH",
        help="bring only these documents up to date (SOURCE:NUMBER for an issue), and leave every other one alone",
    )
