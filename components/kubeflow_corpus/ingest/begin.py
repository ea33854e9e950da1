"""How a run begins: everything that only looks and decides, as one step of the graph.

On a cluster a step costs two pods and most of a minute: what is read here takes seconds, and none of it is cached.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from kubeflow_corpus.ingest.embedding import describe_model
from kubeflow_corpus.ingest.results import NO_SOURCE
from kubeflow_corpus.ingest.sources import list_sources, resolve_revision
from kubeflow_corpus.ingest.store import read_state

# Sources that are asked at a time where they stand: each waits for a server.
_AT_A_TIME: Final = 4


def begin(collection: str, options: Mapping[str, Any], run: str, target: str) -> list[str]:
    """Reads the options, the model and the state of a collection, and finds where each source stands.

    Args:
        collection: ``docs``, ``issues`` or ``code``.
        options: What the run is asked for, as a mapping that `RunOptions` reads.
        run: Name of the run where the options have none.
        target: Folder for the result: cursors, failures of the last run, and how it went so far.

    Returns:
        JSON of where each source stands, the key by which fetching it is cached; at least one, which names no source
        if there is no source.
    """
    with tempfile.TemporaryDirectory(prefix="kubeflow-corpus-") as folder:
        listed, model = str(Path(folder, "list_sources")), str(Path(folder, "describe_model"))
        names = list_sources(collection, options, run, listed).names or (NO_SOURCE,)
        describe_model(listed, model)
        read_state(model, target)
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return [state.to_json() for state in pool.map(lambda name: resolve_revision(name, target), names)]
