"""``make lock-check``: a wheel for every requirement of the cluster image, for both machines that it is built for.

Reads the package index that uv is set up with, and downloads nothing. Where it cannot be reached this says so and ends
with 0.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MACHINES = ("x86_64", "aarch64")
# Pure Python that is published as source only.
SOURCE_ONLY = ("kfp-server-api",)


def resolve(machine: str, lock: Path) -> str:
    """Returns what uv says against installing a lock on a machine; empty is nothing."""
    words = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--dry-run", "--quiet", "--no-deps"]
    words += ["--require-hashes", "--only-binary", ":all:", *(f"--no-binary={name}" for name in SOURCE_ONLY)]
    words += ["--python-version", "3.13", "--python-platform", f"{machine}-manylinux_2_28", "--target", "local/wheels"]
    done = subprocess.run([*words, "-r", str(lock)], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def main() -> int:
    for machine in MACHINES:
        said = resolve(machine, ROOT / "requirements-cluster.lock")
        if "Failed to fetch" in said or "Could not connect" in said:
            print(f"lock-check: not done, the package index cannot be reached: {said.splitlines()[0]}")
            return 0
        if said:
            print(f"lock-check: the image cannot be built for {machine}: {said}")
            return 1
    print(f"lock-check: every requirement has a wheel for {' and '.join(MACHINES)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
