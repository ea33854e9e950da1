"""What a source's rows are made of, in one digest: the program, the commit, the entry in the catalogue, the model."""

from __future__ import annotations

import hashlib
import json
import sys
from functools import cache
from pathlib import Path
from typing import Final

from kubeflow_corpus.ingest.outcomes import Outcome

_PACKAGE: Final = Path(__file__).parents[1]
# Facts that say when a source was read, and not what was read.
_TIMES: Final = frozenset({"attempt", "committed_at"})


@cache
def build_digest() -> str:
    """Returns a digest of the program: what another build made must not stand for what this one would make."""
    digest = hashlib.sha256(sys.version.encode())
    for file in sorted(_PACKAGE.rglob("*")):
        if file.suffix in (".py", ".yaml", ".json"):
            digest.update(file.relative_to(_PACKAGE).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def fingerprint(part: Outcome) -> str:
    """Returns a digest of everything that the rows of a source are made of.

    Args:
        part: The outcome that `chunk` handed on.

    Returns:
        The digest; empty where no commit stands for the documents, or the run is asked for some of them only.
    """
    if not part.ok or part.named is not None or not part.facts.get("revision"):
        return ""
    facts = {name: value for name, value in part.facts.items() if name not in _TIMES}
    return hashlib.sha256(json.dumps([build_digest(), facts], sort_keys=True).encode()).hexdigest()
