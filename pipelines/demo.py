"""``kubeflow-corpus demo``: indexes the sample that travels with the package, and asks it one question."""

import argparse
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from kubeflow_corpus.cli.main import PROGRAM, main
from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.sources.catalogue import CATALOGUE_FILE

QUESTION: Final = "How do I install Orchard?"
_PAGE: Final = Path("docs", "hugo", "content", "en", "docs", "started", "installation.md")
# In a wheel, and in a checkout.
_SAMPLES: Final = (Path(__file__).with_name("sample"), Path(__file__).parents[1] / "tests" / "corpus")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "folder",
        nargs="?",
        default="kubeflow-corpus-demo",
        help="where pages and database are kept (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Copies the sample, indexes its documentation, asks one question, and says what to try next.

    Raises:
        SettingsError: This installation has no sample, or the folder cannot take it.
    """
    folder = Path(args.folder)
    catalogue = folder / CATALOGUE_FILE
    if not catalogue.exists():
        _copy_sample(folder)
    local = folder / "local"
    database = local / "corpus.db"
    # Whatever the shell is set up for: a demonstration writes into its own folder.
    os.environ["MILVUS_URI"] = str(database)
    os.environ.pop("COLLECTION_PREFIX", None)
    if failed := main(["run", "docs", "--catalogue", str(catalogue), "--local", str(local)]):
        return failed
    print()
    if failed := main(["search", "docs", QUESTION, "--limit", "2"]):
        return failed
    print("\n".join(_next_steps(folder, catalogue, database)))
    return 0


def _copy_sample(folder: Path) -> None:
    """Copies the sample into a folder: its pages can then be changed, and are not part of the installation."""
    sample = next((path for path in _SAMPLES if path.is_dir()), None)
    if sample is None:
        raise SettingsError(
            "This installation has no sample", remedy="Install the wheel of kubeflow-corpus, or use a checkout"
        )
    if folder.is_dir() and any(folder.iterdir()):
        raise SettingsError(f"{folder} holds something else", remedy="Name another folder: demo FOLDER")
    try:
        shutil.copytree(sample, folder, dirs_exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"{folder} cannot be written ({error.strerror or error})", remedy="Name another folder: demo FOLDER"
        ) from error


def _next_steps(folder: Path, catalogue: Path, database: Path) -> list[str]:
    """Returns commands that work as printed, in the shell that started this one."""
    program = f"{shlex.quote(sys.executable)} -m pipelines"
    if Path(sys.argv[0]).name == PROGRAM:
        program = PROGRAM if shutil.which(PROGRAM) == sys.argv[0] else shlex.quote(sys.argv[0])
    uri = f"MILVUS_URI={shlex.quote(str(database))}"
    page, question = folder / _PAGE, shlex.quote(QUESTION)
    source = f"--source orchard-website --catalogue {shlex.quote(str(catalogue))}"
    return [
        "",
        "Try next:",
        f"  {uri} {program} search docs {question} --limit 5 --trace",
        f"  {uri} {program} status",
        f"  {program} inspect {shlex.quote(str(page))} {source}",
        "",
        f"Change {page} and run the same command again: only what changed is embedded.",
    ]
