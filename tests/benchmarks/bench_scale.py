"""Ten, thirty and a hundred thousand rows through chunk, plan, embed (a stub), apply and publish: memory and time.

Every step runs in a process of its own, as pipelines run it, and Milvus Lite in another, as a server. Time is that of
all processors, so that other work on the machine does not look like growth.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kubeflow_corpus.ingest.step import read_result

from tests.benchmarks.harness import Row
from tests.benchmarks.steps import STEPS
from tests.servers.milvus_lite import milvus_lite_server

SIZES = (10_000, 30_000, 100_000)
MOST_MEMORY_MB = 800.0
# Time of a row among the most rows by that among the fewest.
MOST_GROWTH = 1.3
MEASURED = ("chunk", "plan", "embed", "apply", "publish")
_ROOT = Path(__file__).parents[2]


def measure(scale: float) -> Iterator[Row]:
    """Yields the rows of this benchmark."""
    sizes = [max(200, int(rows * scale) // 10 * 10) for rows in SIZES]
    taken = {rows: run(rows) for rows in sizes}
    most = sizes[-1]
    for name in MEASURED:
        memory = [(float(rows), taken[rows][name]["memory"]) for rows in sizes]
        worker = taken[most][name]["worker"]
        note = f"and {worker:.0f} MB in each worker process" if worker > 50 else ""
        yield Row(
            f"memory of {name}, {most:,} rows", memory[-1][1], "MB", most=MOST_MEMORY_MB, points=memory, note=note
        )
    for name in MEASURED:
        yield growth(f"time of {name}", sizes, [taken[rows][name]["cpu"] for rows in sizes], None)
    totals = [sum(taken[rows][name]["cpu"] for name in MEASURED) for rows in sizes]
    yield growth("time of all steps", sizes, totals, MOST_GROWTH)


def growth(name: str, sizes: list[int], seconds: list[float], most: float | None) -> Row:
    """Returns how the time of a row grows with the number of rows."""
    each = [taken * 1000 / rows for rows, taken in zip(sizes, seconds, strict=True)]
    points = [(float(rows), milliseconds) for rows, milliseconds in zip(sizes, each, strict=True)]
    note = ", ".join(f"{rows:,.0f}: {milliseconds:.2f} ms" for rows, milliseconds in points)
    return Row(f"{name} a row, {sizes[-1]:,} by {sizes[0]:,} rows", each[-1] / each[0], "times", most=most, note=note)


def run(rows: int) -> dict[str, dict[str, float]]:
    """Returns what each step took for a number of rows."""
    with tempfile.TemporaryDirectory() as folder, milvus_lite_server(Path(folder) / "data") as server:
        taken = {name: run_step(name, folder, rows, server.uri) for name in STEPS}
        held = read_result(Path(folder) / "publish")
        if not held.ok:
            raise RuntimeError(held.error)
        if held.counts["rows held"] < rows:
            raise RuntimeError(f"{held.counts['rows held']} rows of {rows} are stored")
        return taken


def run_step(name: str, folder: str, rows: int, uri: str) -> dict[str, float]:
    """Runs one step in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.steps", name, folder, str(rows)]
    path = os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "MILVUS_URI": uri, "COLLECTION_PREFIX": "", "PYTHONPATH": path}
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-3000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
