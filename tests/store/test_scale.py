"""Memory of a large sync: the process that plans and writes, apart from the server that holds the rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.milvus_lite import milvus_lite_server

REPOSITORY = Path(__file__).parents[2]
# By hand: SCALE_ROWS=50000.
ROWS = int(os.environ.get("SCALE_ROWS", "10000"))
DIMENSION = 384
# Text and vectors of 10,000 rows take 40 MB packed and several times that as Python objects.
GROWTH_MIB = 120

SCRIPT = """
import json, resource, sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
import numpy as np
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.milvus import connected
from tests.store.synthetic import MODEL, HashEmbedder, Run, page, result

uri, folder, rows, dimension = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])

class Embedder(HashEmbedder):
    def embed(self, texts, *, timeout=None):
        self.embedded += len(texts)
        vectors = np.random.default_rng(self.embedded).standard_normal((len(texts), dimension)).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

def pages(edited):
    for number in range(rows // 10):
        texts = [f"Part {part}: text {part} of page {number}" + " lorem ipsum" * 60 for part in range(10)]
        if number < edited:
            texts[0] += " edited"
        yield page("site", f"docs/page-{number:06d}.md", texts)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

with connected(Settings(milvus_uri=uri)) as client:
    print(json.dumps({"run": "start", "peak": peak()}), flush=True)
    for name, edited in (("first", 0), ("unchanged", 0), ("one percent", rows // 100)):
        embedder = Embedder(replace(MODEL, dimension=dimension))
        record = Run(client, folder, [result(folder, "site", pages(edited))], embedder, embedded=False).all()
        rows_done = {name.removeprefix("rows_"): count for name, count in record.rows.items()}
        figures = {**rows_done, "embedded": record.embedded}
        print(json.dumps({"run": name, "peak": peak(), "seconds": record.seconds, **figures}), flush=True)
"""


@pytest.mark.slow
@pytest.mark.lengthy
@pytest.mark.timeout(1800)
def test_a_large_sync_holds_neither_all_vectors_nor_all_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "scale.py"
    script.write_text(SCRIPT)
    with milvus_lite_server(tmp_path / "data") as server:
        done = subprocess.run(
            [sys.executable, str(script), server.uri, str(tmp_path / "work"), str(ROWS), str(DIMENSION)],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    start, first, unchanged, edited = (json.loads(line) for line in done.stdout.splitlines())
    with capsys.disabled():
        print(f"\n{ROWS} rows of {DIMENSION} dimensions, peak MiB: ", end="")
        print(", ".join(f"{line['run']} {line['peak']}" for line in (start, first, unchanged, edited)))
    assert (first["written"], first["held"]) == (ROWS, ROWS)
    assert (unchanged["written"], unchanged["embedded"]) == (0, 0)
    # A page of ten sections is written as a whole; only the edited section is embedded.
    assert (edited["written"], edited["embedded"], edited["held"]) == (ROWS // 10, ROWS // 100, ROWS)
    assert edited["peak"] - start["peak"] < GROWTH_MIB
