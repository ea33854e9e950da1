"""Runs one pipeline in the image through KFP's container runner: ``python -m tests.image.graphs docs FOLDER``.

In a process of its own, because KFP's local runner is set up once in a process.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import docker.types
from kfp import local

from pipelines.graph import build_pipeline
from pipelines.placement import Placement
from tests.image.tools import LOADED, ROOT

MEMORY = "1g"
PASSED_ON = ("MILVUS_URI", "EMBEDDINGS_URL", "GITHUB_API_URL", "GITHUB_TOKEN")


def main(name: str, folder: str) -> None:
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    # The steps run as nobody in particular.
    root.chmod(0o777)
    corpus = docker.types.Mount("/corpus", str(ROOT / "tests" / "corpus"), type="bind", read_only=True)
    local.init(
        local.DockerRunner(
            network_mode="host",
            read_only=True,
            tmpfs={"/tmp": "size=256m,mode=1777"},
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            # The runner gives the whole command, where the image has an entry point.
            entrypoint="",
            mem_limit=MEMORY,
            mounts=[corpus],
            environment={variable: os.environ[variable] for variable in PASSED_ON if variable in os.environ},
        ),
        pipeline_root=str(root),
    )
    pipeline = build_pipeline(name, Placement(image=LOADED, crash_notice=False))
    pipeline(options={"catalogue": "/corpus/catalogue.yaml"})
    results = [json.loads(file.read_text()) for file in root.rglob("result.json")]
    assert results


if __name__ == "__main__":
    main(*sys.argv[1:])
