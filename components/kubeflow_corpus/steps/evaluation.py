"""The step of a run that asks questions of what was written, before readers do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubeflow_corpus.steps.outcomes import fresh_folder, hand_on, read_outcome


def evaluate_collection(collection: str, applied: str, target: str) -> dict[str, Any]:
    """Passes on what was written: the store's own gate, in `publish`, is all that is asked so far.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        applied: Folder that `apply_collection` wrote.
        target: Folder for the outcome.

    Returns:
        Metadata for the artifact.
    """
    folder = fresh_folder(target)
    outcome = read_outcome(Path(applied)).begin("evaluate")
    return hand_on(folder, outcome, lambda: outcome).metadata()
