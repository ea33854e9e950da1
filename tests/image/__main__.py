"""The image, built and run as a cluster runs it: ``make image-test``.

A Debian base is made with debootstrap and the image with buildah. In it, through KFP's own container runner, the whole
`docs` and `issues` graphs run over the sample corpus, then the MCP server, which SIGTERM ends: as nobody, with a root
that cannot be written, no capabilities and a limit of memory. Milvus, the embeddings and GitHub are servers on the
loopback interface.

Needs root, buildah, debootstrap and a dockerd that starts; where one is missing it says so and ends with 0
(``--required``: with 1).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import requests

from tests.image.graphs import MEMORY
from tests.image.tools import BUILT, LOADED, MachineLacks, build_image, call, docker, megabytes, missing_tools
from tests.servers.git_http import serve_git
from tests.servers.github import serve as github
from tests.servers.milvus_lite import free_port, milvus_lite_server
from tests.servers.sample_threads import fill_samples
from tests.servers.tei import TeiServer

GRAPHS = ("docs", "issues")
LOCKED = ["--read-only", "--tmpfs", "/tmp:size=256m,mode=1777", "--cap-drop", "ALL"]
LOCKED += ["--security-opt", "no-new-privileges", "--memory", MEMORY, "--network", "host"]
READY_SECONDS = 120
# With the base, which is a third of it.
LARGEST_MEGABYTES = 450


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--required", action="store_true", help="fail where it cannot run")
    parser.add_argument("--built", default="", metavar="IMAGE", help="an image that buildah holds, instead of building")
    options = parser.parse_args()
    if missing := missing_tools():
        print(f"image-test: not run on this machine: there is no {', no '.join(missing)}")
        return int(options.required)
    try:
        figures = measure(options.built)
    except MachineLacks as error:
        print(f"image-test: not run on this machine: {error}")
        return int(options.required)
    print(json.dumps(figures, indent=1))
    return 0


def measure(built: str) -> dict[str, Any]:
    """Builds the image, unless one is given, and runs everything in it; returns what it took."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="corpus-image-") as name, ExitStack() as stack:
        folder = Path(name)
        if not built:
            figures["seconds to build"] = timed(lambda: build_image(folder))
        image = built or BUILT
        figures["megabytes"] = megabytes(image)
        assert built or figures["megabytes"] < LARGEST_MEGABYTES, figures
        address = stack.enter_context(docker(image))
        environment = {"DOCKER_HOST": address, "MILVUS_URI": stack.enter_context(milvus_lite_server(folder / "db")).uri}
        environment["EMBEDDINGS_URL"] = stack.enter_context(TeiServer(vectors="minilm", dimension=384)).url
        threads = stack.enter_context(github())
        fill_samples(threads)
        environment["GITHUB_API_URL"] = threads.url
        for graph in GRAPHS:
            figures[f"seconds of {graph}"] = timed(lambda: run_graph(graph, folder / graph, environment))  # noqa: B023
        figures["seconds to clone"] = timed(lambda: clone_over_http(address, folder))
        figures |= ask_the_server(address, environment)
    return figures


def clone_over_http(address: str, folder: Path) -> None:
    """Clones as sources are fetched, without blobs and shallow: most of git is left out of the image."""
    work, served = folder / "work", folder / "served"
    (work / "docs").mkdir(parents=True)
    (work / "docs" / "page.md").write_text("# A page\n")
    git = ["git", "-C", str(work), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-qm", "a page"],
        ["clone", "-q", "--bare", ".", f"{served}/site"],
    ):
        call(*git, *words)
    with serve_git(served) as server:
        program = f"git clone -q --depth 1 --filter=blob:none {server.url}/site /tmp/site && cat /tmp/site/docs/page.md"
        said = call("docker", "-H", address, "run", "--rm", *LOCKED, "--entrypoint", "sh", LOADED, "-c", program)
    assert said == "# A page", said


def timed(work: Any) -> float:
    begun = time.monotonic()
    work()
    return round(time.monotonic() - begun, 1)


def run_graph(name: str, folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.image.graphs", name, str(folder)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed in the image:\n{done.stdout[-6000:]}\n{done.stderr[-1500:]}")


def ask_the_server(address: str, environment: dict[str, str]) -> dict[str, Any]:
    """Starts the MCP server, asks one question of each collection, and ends it; returns what it took."""
    port = free_port()
    run = ["docker", "-H", address]
    words = [word for name in ("MILVUS_URI", "EMBEDDINGS_URL") for word in ("-e", f"{name}={environment[name]}")]
    server = ["mcp", "--transport", "streamable-http", "--port", str(port)]
    log = ["--tmpfs", "/var/lib/questions:size=16m,uid=10001", "-e", "QUESTION_LOG=/var/lib/questions/questions.db"]
    begun = time.monotonic()
    container = call(*run, "run", "-d", *LOCKED, *log, *words, LOADED, *server)
    url = f"http://127.0.0.1:{port}"
    while not _ready(url):
        if time.monotonic() - begun > READY_SECONDS:
            raise RuntimeError(call(*run, "logs", container))
        time.sleep(0.2)
    figures: dict[str, Any] = {"seconds until the server is ready": round(time.monotonic() - begun, 1)}
    for tool, question in (
        ("search_kubeflow_docs", "How do I install Orchard?"),
        ("search_github_issues", "pods stay pending"),
    ):
        figures[f"seconds of {tool}"] = timed(lambda: search(url, tool, question))  # noqa: B023
    asked = json.loads(call(*run, "exec", container, "kubeflow-corpus", "questions", "--json"))
    assert asked["counts"]["asked"] == 2, asked
    figures["megabytes of the server"] = call(*run, "stats", "--no-stream", "--format", "{{.MemUsage}}", container)
    figures["seconds to stop"] = timed(lambda: call(*run, "stop", "--time", "30", container))
    code = call(*run, "inspect", "--format", "{{.State.ExitCode}}", container)
    assert code == "0", f"the server ended with {code}"
    return figures


def _ready(url: str) -> bool:
    try:
        return requests.get(f"{url}/readyz", timeout=5).status_code == 200
    except requests.ConnectionError:
        return False


def search(url: str, tool: str, question: str) -> None:
    call_of_tool = {"name": tool, "arguments": {"query": question}}
    answer = requests.post(
        f"{url}/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call_of_tool},
        headers={"accept": "application/json, text/event-stream"},
        timeout=30,
    )
    answer.raise_for_status()
    result = answer.json()["result"]
    assert not result.get("isError") and result["structuredContent"]["citations"], answer.text[:2000]


if __name__ == "__main__":
    sys.exit(main())
