"""Every command of the README and of the tutorial, run as printed, in order, in a copy of what is committed.

A block after the line ``<!-- needs the network -->`` is left out: nothing in a test leaves this machine.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_milvus_sharing import servers

REPOSITORY = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- needs the network -->\n)?^```(sh|python|json)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files of the project without what was built, and an environment with what `make run` installs."""
    folder = tmp_path_factory.mktemp("clone") / "kubeflow-corpus"
    folder.mkdir()
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    ).stdout
    present = b"\0".join(name for name in listed.split(b"\0") if name and (REPOSITORY / os.fsdecode(name)).exists())
    packed = subprocess.run(
        ["tar", "--null", "-T", "-", "-cf", "-"], cwd=REPOSITORY, input=present, capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-xf", "-"], cwd=folder, input=packed, check=True)
    make_environment(folder)
    yield folder
    for database in (folder / "local").glob("*.db"):
        for server in servers(database):
            os.kill(server, signal.SIGTERM)


def make_environment(folder: Path) -> None:
    """Installs nothing from afar: `.venv` sees the packages of this interpreter, and has the copy's own program."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=folder, check=True)
    (site,) = (folder / ".venv" / "lib").glob("python*/site-packages")
    outer = [path for path in sys.path if path.endswith("site-packages")]
    # The copy comes first: an editable install of another checkout may be among the packages.
    (site / "copy.pth").write_text("\n".join([str(folder / "components"), str(folder), *outer]) + "\n")
    program = folder / ".venv" / "bin" / "kubeflow-corpus"
    python = folder / ".venv" / "bin" / "python"
    program.write_text(f"#!{python}\nimport sys\nfrom kubeflow_corpus.cli.main import main\nsys.exit(main())\n")
    program.chmod(0o755)
    (folder / ".venv" / ".runtime").touch()


def run(clone: Path, program: list[str], code: str) -> str:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    environment = {**kept, "MCP_SEARCH_SECONDS": "60"}
    done = subprocess.run(
        [*program, code], cwd=clone, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, f"{code}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_every_command_runs_as_printed(clone: Path, page: str) -> None:
    blocks = BLOCK.findall((REPOSITORY / page).read_text("utf-8"))
    answers = []
    for far, language, code in blocks:
        if far or language == "json":
            continue
        if language == "python":
            code = f". .venv/bin/activate\nexport MILVUS_URI=local/corpus.db\npython - <<'CODE'\n{code}CODE\n"
        answers.append(run(clone, ["bash", "-euo", "pipefail", "-c"], code))
    assert sum("[c1]" in answer for answer in answers) >= 3
    if page.endswith("tutorial.md"):
        assert "behind the watering can" in answers[-2] and "with the neighbour" in answers[-1]
        assert "behind the watering can" not in answers[-1]
