"""Indexes the real sources beside the checkout and asks the development questions of them: ``make eval``.

What lies there is read in place; the database, the vectors and the report go below ``local/``, so that a second run
embeds what changed only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kubeflow_corpus.sources.catalogue import PACKAGED
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
QUESTIONS = SHARED / "eval" / "dev_queries.jsonl"
LOCAL = ROOT / "local"
# Source of the packaged catalogue, and the folder that holds a copy of it.
FOLDERS: Mapping[str, str] = {
    "kubeflow-website": "docs/kubeflow-website",
    "kserve-website": "docs/kserve-website",
    "pipelines-code": "manifests/pipelines",
    "katib-code": "manifests/katib",
    "trainer-code": "manifests/trainer",
    "kserve-code": "manifests/kserve",
}
FLOORS: Mapping[str, float] = {"hit@1": 0.80, "hit@5": 0.97, "mrr@10": 0.88, "evidence": 0.95}


def catalogue(corpus: Path) -> dict[str, Any]:
    """Returns the packaged catalogue with the sources that are there, each at its folder."""
    data = YAML(typ="safe").load(PACKAGED.read_text("utf-8"))
    held = [source for source in data["sources"] if (corpus / FOLDERS.get(source["name"], "?")).is_dir()]
    return {"sources": [_at_folder(source, corpus / FOLDERS[source["name"]]) for source in held]}


def _at_folder(source: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    # A plain folder has no refs.
    return {**{key: value for key, value in source.items() if key != "ref"}, "url": str(folder)}


def main(words: Sequence[str]) -> int:
    """Runs everything; further words go to ``eval run``."""
    if not QUESTIONS.is_file():
        print(f"skipped: no development questions at {QUESTIONS}")
        return 0
    LOCAL.mkdir(exist_ok=True)
    file = LOCAL / "eval-catalogue.yaml"
    # JSON is YAML.
    file.write_text(json.dumps(catalogue(SHARED / "corpus"), indent=1), "utf-8")
    environment = {
        **os.environ,
        "MILVUS_URI": str(LOCAL / "eval.db"),
        "EMBEDDING_CACHE": os.environ.get("EMBEDDING_CACHE") or str(LOCAL / "eval-vectors"),
    }
    for collection in ("docs", "code"):
        command = [
            sys.executable,
            "-m",
            "pipelines",
            "run",
            collection,
            "--catalogue",
            str(file),
            "--local",
            str(LOCAL),
        ]
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        if code:
            return code
    floors = [word for name, least in FLOORS.items() for word in ("--floor", f"{name}={least}")]
    report = ["--report", str(LOCAL / "eval.html")]
    command = [
        sys.executable,
        "-m",
        "kubeflow_corpus.cli.main",
        "eval",
        "run",
        str(QUESTIONS),
        *floors,
        *report,
        *words,
    ]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
