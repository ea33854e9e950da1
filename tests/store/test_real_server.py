"""The same promises on a real Milvus server: the tests that take the fixture `store`, run again against it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.milvus_server import can_isolate, isolated

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.lengthy
@pytest.mark.timeout(1800)
def test_sync_rebuild_rollback_and_keys_hold_on_a_real_server(tmp_path: Path) -> None:
    binary = os.environ.get("MILVUS_SERVER_BIN", "")
    if not binary:
        pytest.skip("MILVUS_SERVER_BIN is not set: pip install --no-deps milvus==2.3.5 into its own environment")
    if not can_isolate():
        pytest.skip("the server listens on every address, and a network namespace cannot be made here")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "real"]
    tests = [f"tests/store/test_{name}.py" for name in ("sync", "rebuild", "lease", "databases")]
    done = subprocess.run(
        isolated(binary, tmp_path / "milvus", [*command, *tests]),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout[-4000:])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
