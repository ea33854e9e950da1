"""The same promises on a real Milvus server: the tests that take the fixture `store`, run again against it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.milvus_server import can_isolate, isolated

REPOSITORY = Path(__file__).parents[2]

# The modules whose tests take a real server where one is named.
MODULES = (
    "tests/store/test_sync.py",
    "tests/store/test_rebuild.py",
    "tests/store/test_lease.py",
    "tests/test_milvus_databases.py",
)


def test_every_module_that_a_real_server_is_given_to_is_there() -> None:
    """A module that moved would be missed only where a real server can be started."""
    assert [module for module in MODULES if not (REPOSITORY / module).is_file()] == []


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
    done = subprocess.run(
        isolated(binary, tmp_path / "milvus", [*command, *MODULES]),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout[-4000:])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
