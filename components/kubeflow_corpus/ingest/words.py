"""The words of the project on their way through a run: from the catalogue to the chunkers and to what readers find."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kubeflow_corpus.vocabulary import Vocabulary, recorded_vocabulary

# Beside the documents and the rows of a source: what KFP caches with them is what they were made with.
VOCABULARY_FILE: Final = "vocabulary.json"


def write_vocabulary(folder: Path, vocabulary: Vocabulary) -> None:
    """Keeps a vocabulary beside what is made with it."""
    (folder / VOCABULARY_FILE).write_text(vocabulary.to_property(), encoding="utf-8")


def read_vocabulary(folders: Sequence[str | Path]) -> Vocabulary | None:
    """Returns the vocabulary in the first of several folders that holds one: all sources of a run share it."""
    files = (Path(folder, VOCABULARY_FILE) for folder in folders)
    found = next((file for file in files if file.exists()), None)
    return None if found is None else recorded_vocabulary(found.read_text(encoding="utf-8"))
