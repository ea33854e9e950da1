"""The programs that make and run the image, as a few calls."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = ("buildah", "debootstrap", "dockerd")
DEBIAN = "trixie"
BASE = f"localhost/python:3.13-{DEBIAN}"
BUILT = "localhost/kubeflow-corpus:test"
LOADED = "kubeflow-corpus:test"
START_SECONDS = 60


class MachineLacks(RuntimeError):
    """This machine has the tools and may not use them."""


def missing_tools() -> list[str]:
    return [tool for tool in TOOLS if shutil.which(tool) is None] + (["root"] if os.getuid() else [])


def call(*words: str, **environment: str) -> str:
    """Runs a program and returns what it printed; its own words are the error where it fails."""
    done = subprocess.run(words, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[:3])} failed: {(done.stdout + done.stderr)[-3000:]}")
    return done.stdout.strip()


def build_image(folder: Path) -> None:
    """Builds the image as a person does, on a Debian base of this machine's own making."""
    if BASE not in call("buildah", "images", "--format", "{{.Name}}:{{.Tag}}"):
        _make_base(folder / "root")
    digest = call("buildah", "images", "--format", "{{.Digest}}", BASE)
    call(
        "manifests/image/build.sh",
        *("--isolation", "chroot", "--network", "host", "--pull-never"),
        # The certificates of the machine are in the base; pip brings its own otherwise.
        *("--env", "PIP_CERT=/etc/ssl/certs/ca-certificates.crt"),
        BUILDER="buildah",
        IMAGE=BUILT,
        PYTHON_IMAGE=f"{BASE.partition(':')[0]}@{digest}",
    )


def _make_base(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    packages = "python3,python3-venv,ca-certificates"
    call("debootstrap", "--variant=minbase", f"--include={packages}", DEBIAN, str(root), "http://deb.debian.org/debian")
    (root / "usr/bin/python").symlink_to("python3")
    own = Path("/usr/local/share/ca-certificates")
    for certificate in own.glob("*.crt"):
        shutil.copy(certificate, root / own.relative_to("/"))
    call("chroot", str(root), "update-ca-certificates")
    for left in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(root / left, ignore_errors=True)
    container = call("buildah", "from", "scratch")
    call("buildah", "add", "-q", container, str(root), "/")
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    call("buildah", "config", "--env", path, container)
    call("buildah", "commit", "-q", "--rm", container, BASE)


def megabytes(image: str) -> float:
    """The size of an image, unpacked."""
    said = call("buildah", "images", "--format", "{{.Size}}", image)
    number, unit = re.fullmatch(r"([\d.]+) ?([KMG]B)", said).groups()  # type: ignore[union-attr]
    return float(number) * {"KB": 0.001, "MB": 1, "GB": 1000}[unit]


@contextmanager
def docker(image: str) -> Iterator[str]:
    """Runs dockerd with no network of its own and with one image; yields the address of its socket."""
    with tempfile.TemporaryDirectory(prefix="corpus-docker-") as folder:
        address = f"unix://{folder}/docker.sock"
        log = Path(folder, "dockerd.log")
        process = subprocess.Popen(
            ["dockerd", "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "-H", address]
            + ["--pidfile", f"{folder}/pid", "--iptables=false", "--ip6tables=false", "--ip-forward=false"]
            + ["--bridge=none", "--storage-driver", "overlay2", "--default-ulimit", "nofile=20000:20000"],
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_until_ready(process, address, log)
            call("buildah", "push", "-q", image, f"docker-archive:{folder}/image.tar:{LOADED}")
            call("docker", "-H", address, "load", "-q", "-i", f"{folder}/image.tar")
            yield address
        finally:
            process.terminate()
            process.wait(60)
            # dockerd leaves the network of the host mounted there.
            subprocess.run(["umount", f"{folder}/exec/netns/default"], capture_output=True, check=False)


def _wait_until_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while subprocess.run(["docker", "-H", address, "info"], capture_output=True, check=False).returncode:
        if process.poll() is not None or time.monotonic() > deadline:
            raise MachineLacks(f"dockerd did not start: {log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.2)
