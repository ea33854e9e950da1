"""``kubeflow-corpus contract``: checks that a Milvus and an embedding service do what this package relies on."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubeflow_corpus.errors import SettingsError

if TYPE_CHECKING:
    from kubeflow_corpus.operations.contract.promises import Promise
    from kubeflow_corpus.operations.contract.trial import Trial


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments; the server and the service come from the environment."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.epilog = (
        "Reads MILVUS_URI, credentials, and EMBEDDINGS_URL (without it, the embedded model). Works in a database that "
        "it makes and drops, so its user must be allowed to."
    )


def run(args: argparse.Namespace) -> int:
    """Prints one line per promise; returns 1 where one does not hold."""
    from kubeflow_corpus.embedding.factory import embedder_from_settings
    from kubeflow_corpus.milvus import detect_backend
    from kubeflow_corpus.operations.contract.promises import PROMISES
    from kubeflow_corpus.operations.contract.trial import open_trial
    from kubeflow_corpus.settings import Settings

    settings = Settings.from_env()
    settings.require_milvus_uri()
    if settings.embedded_milvus:
        raise SettingsError(
            "The contract is checked against a server, and MILVUS_URI is a path",
            remedy="Set MILVUS_URI to its http(s) URL; `milvus-lite server` starts one",
            setting="MILVUS_URI",
        )
    embedder = embedder_from_settings(settings)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as folder:
        try:
            # A service that does not answer is one clear line, not one broken promise after the other.
            identity = embedder.identity
            with open_trial(settings, embedder, Path(folder)) as trial:
                about = {
                    "milvus": detect_backend(trial.client).version,
                    "model": identity.model,
                    "throw_away": trial.settings.milvus_database,
                }
                for promise in PROMISES:
                    outcomes.append(_try(promise, trial))
                    if not args.json:
                        print(_line(outcomes[-1]), flush=True)
        finally:
            embedder.close()
    broken = [outcome for outcome in outcomes if outcome["problem"]]
    if args.json:
        print(json.dumps({**about, "promises": outcomes}, ensure_ascii=False, indent=2))
    else:
        print(
            f"{len(outcomes) - len(broken)} of {len(outcomes)} promises hold on Milvus {about['milvus']} with "
            f"{about['model']}; dropped: database {about['throw_away']}"
        )
    return 1 if broken else 0


def _try(promise: Promise, trial: Trial) -> dict[str, Any]:
    begun = time.monotonic()
    problem = ""
    try:
        promise.check(trial)
    # Whatever a server or its client raises is a finding: it is printed, and the next promise is tried.
    except Exception as error:
        first = str(error).strip().splitlines()
        problem = f"{type(error).__name__}: {first[0] if first else ''}"
    return {
        "area": promise.area,
        "promise": promise.sentence,
        "problem": problem,
        "seconds": round(time.monotonic() - begun, 2),
    }


def _line(outcome: dict[str, Any]) -> str:
    verdict = "BROKEN" if outcome["problem"] else "holds "
    line = f"{verdict}  {outcome['area']:9}  {outcome['promise']}"
    return f"{line}\n            {outcome['problem']}" if outcome["problem"] else line
