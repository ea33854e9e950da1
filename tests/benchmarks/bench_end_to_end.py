"""A first run from sources to a served collection with the embedded model: what each step takes of it.

It is `kubeflow-corpus run docs` in a process of its own, so the start of every step counts. What is not embedding
is to be a small part of it; of a cluster it is a smaller one, whose model takes fourteen times as long for a row.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kubeflow_corpus.ingest.progress import read_events

from tests.benchmarks.harness import Row, shared
from tests.retrieval.development import catalogue

MOST_SHARE = 0.20
# What takes less is not a line of the table.
LEAST_SHARE = 0.005
# One real site; below half the scale the sample corpus is enough of a look.
SITE = "kubeflow-website"
_ROOT = Path(__file__).parents[2]
_AGAIN = "a second run in which nothing changed"


def measure(scale: float) -> Iterator[Row]:
    """Yields the rows of this benchmark."""
    corpus = shared("corpus")
    with tempfile.TemporaryDirectory() as folder:
        if corpus is None or scale < 0.5:
            file, chosen = _ROOT / "tests" / "corpus" / "catalogue.yaml", []
        else:
            file, chosen = Path(folder) / "catalogue.yaml", ["--source", SITE]
            file.write_text(json.dumps(catalogue(corpus)))
        whole, steps, rows = run(file, folder, chosen)
        name = SITE if chosen else "the sample corpus"
        yield Row(f"first run of {name}, {rows:,} rows", whole, "s")
        for step, seconds in steps.most_common():
            if seconds < LEAST_SHARE * whole:
                continue
            yield Row(f"{step} of it", seconds / whole, "of the run", note=f"{seconds:.1f} s")
        started = whole - steps.total()
        yield Row("starts of processes and their imports", started / whole, "of the run", note=f"{started:.1f} s")
        rest = (whole - steps["embed"]) / whole
        # So few rows as the sample corpus has say nothing about shares.
        yield Row("everything but embedding", rest, "of the run", most=MOST_SHARE if chosen else None)
        again, steps, _ = run(file, folder, chosen)
        fetching = sum(steps[step] for step in ("list_sources", "describe_model", "read_state", "resolve_revision"))
        yield Row(_AGAIN, again, "s", whole, "the first run", note=f"{fetching:.1f} s in the steps up to fetch")


def run(file: Path, folder: str, words: list[str]) -> tuple[float, Counter[str], int]:
    """Returns the seconds of a run, those of each step, and how many rows are stored."""
    command = [sys.executable, "-m", "pipelines", "run", "docs", "--catalogue", str(file)]
    environment = {
        **{key: value for key, value in os.environ.items() if key not in ("EMBEDDINGS_URL", "EMBEDDING_CACHE")},
        "MILVUS_URI": f"{folder}/corpus.db",
    }
    started = time.perf_counter()
    done = subprocess.run(
        [*command, "--local", folder, *words], cwd=_ROOT, env=environment, capture_output=True, text=True, check=False
    )
    whole = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    events = max(Path(folder).glob("runs/*/events.jsonl"))
    with events.open() as lines:
        ended = [event for event in read_events(lines) if event.state == "done"]
    seconds: Counter[str] = Counter()
    # Sources are read and cut side by side: the clock runs once for them.
    for event in ended:
        seconds[event.step] = max(seconds[event.step], event.seconds)  # type: ignore[assignment]
    held = re.search(r"([\d,]+) rows held", done.stdout)
    return whole, seconds, int(held.group(1).replace(",", "")) if held else 0
