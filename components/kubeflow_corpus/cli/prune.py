"""``kubeflow-corpus prune``: drop versions that nothing serves, and what old local runs left on disk."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Final

from kubeflow_corpus.cli.arguments import add_collection_argument
from kubeflow_corpus.collections import COLLECTIONS
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.schema import served_name
from kubeflow_corpus.store.versions import KEPT_VERSIONS, prune_versions

_KEPT_RUNS: Final = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_collection_argument(parser, nargs="*", help="only these; default: all")
    parser.add_argument(
        "--keep", type=_count, default=KEPT_VERSIONS, metavar="N", help="earlier versions to keep (%(default)s)"
    )
    parser.add_argument(
        "--keep-runs", type=_count, default=_KEPT_RUNS, metavar="N", help="local runs to keep (%(default)s)"
    )
    parser.add_argument(
        "--local", type=Path, default=Path("local"), metavar="DIR", help="folder of local runs (%(default)s)"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return number


def run(args: argparse.Namespace) -> int:
    """Drops versions and removes folders; never what an alias serves."""
    specs = args.collection or COLLECTIONS
    verb = "would drop" if args.dry_run else "dropped"
    settings = Settings.from_env()
    with connected(settings) as client:
        for spec in specs:
            served = served_name(settings.collection_prefix, spec.alias)
            for version in prune_versions(client, served, args.keep, dry_run=args.dry_run):
                print(f"{verb} {version.name}")
    for folder in prune_runs(args.local, args.keep_runs, dry_run=args.dry_run):
        print(f"{verb} {folder}")
    return 0


def prune_runs(local: Path, keep: int, *, dry_run: bool = False) -> list[Path]:
    """Removes the folders of old local runs, and what the cache remembers of them.

    Args:
        local: Folder that holds ``runs`` (named by time) and ``cache``.
        keep: Newest runs to keep.
        dry_run: Only say which.

    Returns:
        The folders.
    """
    root = local / "runs"
    # A link is not followed: what it leads to is not ours.
    runs = sorted(path for path in root.iterdir() if path.is_dir() and not path.is_symlink()) if root.is_dir() else []
    doomed = runs[: max(0, len(runs) - keep)]
    if not dry_run:
        for folder in doomed:
            shutil.rmtree(folder)
        _forget(local / "cache", [folder.name for folder in doomed])
    return doomed


def _forget(cache: Path, runs: list[str]) -> None:
    """A cached step whose artifacts are gone must run again."""
    if not runs or not cache.is_dir():
        return
    names = [name.encode() for name in runs]
    for path in cache.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            if any(name in data for name in names):
                path.unlink()
