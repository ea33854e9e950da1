"""Writes down what the Kubernetes configuration of a step may say to one release of Kubeflow Pipelines.

::

    python -m tests.pipelines.kfp_releases 2.15.2

The server parses that configuration strictly, with the protos that the SDK of its release carries. This reads them
from the wheel (from the package index of pip) and writes ``<minor>.json`` beside this file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MODULE = "kfp/kubernetes/kubernetes_executor_config_pb2.py"
# In a process of its own: a descriptor pool takes one version of a file.
READ = """
import sys
from google.protobuf import descriptor_pb2, json_format
from kfp.pipeline_spec import pipeline_spec_pb2
scope = {"__name__": "read"}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), scope)
file = descriptor_pb2.FileDescriptorProto()
scope["DESCRIPTOR"].CopyToProto(file)
print(json_format.MessageToJson(file))
"""


def main(version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", folder]
        subprocess.run([*pip, f"kfp-kubernetes=={version}"], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        module = zipfile.ZipFile(wheel).extract(MODULE, folder)
        read = subprocess.run([sys.executable, "-c", READ, module], check=True, capture_output=True, text=True)
    minor = version.rpartition(".")[0]
    found = {"release": version, "file": json.loads(read.stdout)}
    Path(__file__).with_name(f"{minor}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
