"""The four pipelines by name."""

from dataclasses import dataclass
from typing import Final

from kubeflow_corpus.collections import COLLECTION_NAMES


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline.

    Attributes:
        title: What it does, for the KFP UI.
        collections: Which collections it fills.
    """

    title: str
    collections: tuple[str, ...]


PIPELINES: Final = {
    "docs": Pipeline("Indexes the documentation sites of the catalogue.", ("docs",)),
    "issues": Pipeline("Indexes the issue threads of the catalogue.", ("issues",)),
    "code": Pipeline("Indexes the code and the manifests of the catalogue.", ("code",)),
    "corpus": Pipeline("Indexes the documentation, the issue threads and the code of the catalogue.", COLLECTION_NAMES),
}
