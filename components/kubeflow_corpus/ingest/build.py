"""What a source's rows are made of, in one digest: the program, the commit, the entry in the catalogue, the model."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Final

from kubeflow_corpus.ingest.results import SourceState

_PACKAGE: Final = Path(__file__).parents[1]


@cache
def build_digest() -> str:
    """Returns a digest of the program: what another build made must not pass for what this one would make."""
    digest = hashlib.sha256(sys.version.encode())
    for file in sorted(_PACKAGE.rglob("*")):
        if file.suffix in (".py", ".yaml", ".json"):
            digest.update(file.relative_to(_PACKAGE).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def fingerprint(state: SourceState) -> str:
    """Returns a digest of everything that the rows of a source are made of.

    Returns:
        The digest; empty if no commit identifies the documents, the run asks for some of them only, or some failed.
    """
    # Documents that failed have to be tried again, whatever the revision is.
    if not state.ok or state.named is not None or not state.made_of.revision or state.failed_documents:
        return ""
    return hashlib.sha256(json.dumps([build_digest(), asdict(state.made_of)], sort_keys=True).encode()).hexdigest()
