"""The rows of the sample corpus, as one digest per source: a chunker that makes other rows says so in its version.

A collection holds rows of one `CHUNKER_VERSION`: where it is raised, the next run fills a new version beside the served
one. Rows that change without it would stand beside old ones whose documents did not change.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.ingest.options import RunOptions
from kubeflow_corpus.ingest.runner import RunFolders, dry_run_collection, row_digest
from kubeflow_corpus.model import CHUNKER_VERSION

from tests.retrieval.samples import CATALOGUE, COLLECTIONS, environment

RECORDED = Path(__file__).with_name("row_digests.json")
REMEDY = (
    "Rows changed. Is that what you wanted? Then raise CHUNKER_VERSION in kubeflow_corpus/model.py, unless no release "
    "has the present one, and record the new digests: python -m tests.ingest.test_row_digests. If not, look at what "
    "your change does to the rows of these sources (kubeflow-corpus run ... --dry-run --digest before and after)."
)


def digests(folder: Path) -> dict[str, list[Any]]:
    """Rows and digest of each source, as `run --dry-run --digest` prints them."""
    found = {}
    with environment(str(folder / "unused.db"), folder / "cache"):
        for collection in COLLECTIONS:
            folders = RunFolders(folder / collection)
            result = dry_run_collection(collection, RunOptions(catalogue=str(CATALOGUE)), folders)
            assert [source.error for source in result.sources if not source.ok] == []
            for source in result.sources:
                found[f"{collection}/{source.source}"] = list(row_digest(folders.rows(source.source)))
    return found


def test_the_rows_of_every_source_are_those_of_the_recorded_chunker_version(tmp_path: Path) -> None:
    recorded = json.loads(RECORDED.read_text())
    assert recorded["chunker_version"] == CHUNKER_VERSION, f"CHUNKER_VERSION was raised. {REMEDY}"
    now = digests(tmp_path)
    changed = [
        source for source in {**recorded["sources"], **now} if recorded["sources"].get(source) != now.get(source)
    ]
    if changed:
        pytest.fail(f"{', '.join(changed)}: {REMEDY}")


def record(folder: Path) -> None:
    """Writes the digests of this program."""
    data = {"chunker_version": CHUNKER_VERSION, "sources": digests(folder)}
    RECORDED.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        record(Path(name))
