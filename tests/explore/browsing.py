"""A real browser for the tests of the page: Debian's Chromium, driven by Playwright, and axe-core from npm.

``apt-get install chromium``, and ``npm pack axe-core`` unpacked anywhere, with ``AXE_CORE`` naming its ``axe.min.js``.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
AXE = os.environ.get("AXE_CORE", "")
ROOT = Path(__file__).parents[2]

needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
needs_axe = pytest.mark.skipif(not AXE, reason="AXE_CORE does not name axe.min.js of the npm package axe-core")

WIDE, NARROW = (1280, 900), (390, 844)
LOOKS = [(scheme, size) for size in (WIDE, NARROW) for scheme in ("light", "dark")]


@dataclass
class Served:
    """A page that ``kubeflow-corpus explore`` serves.

    Attributes:
        url: Where, without a slash at the end.
        token: The write token that it printed.
    """

    url: str
    token: str


@contextmanager
def served(uri: str, local: Path, questions: Path, log: Path | None = None) -> Iterator[Served]:
    """Starts the command on a free port, as a person does."""
    command = [sys.executable, "-m", "kubeflow_corpus.cli.main", "explore", "--port", str(_free_port())]
    command += ["--local", str(local), "--questions", str(questions)]
    environ = {**os.environ, "MILVUS_URI": uri, "QUESTION_LOG": str(log or "")}
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        token, url = "", ""
        while not url:
            line = process.stdout.readline()
            assert line, "explore ended before it served anything"
            token = line.partition("token: ")[2].strip() or token
            url = line.partition("Open ")[2].partition(" ")[0].rstrip("/")
        yield Served(url, token)
    finally:
        process.terminate()
        process.communicate(timeout=30)
        assert process.returncode == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def launched() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # A root user in a container has no sandbox; the texts that are shown are those of this repository.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def looking(browser: Browser, scheme: str = "light", size: tuple[int, int] = WIDE) -> Iterator[Page]:
    """A tab in which every request that leaves this machine, every message and every error of a script fails."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,  # type: ignore[arg-type]
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = context.new_page()
    problems: list[str] = []
    page.on("request", lambda request: problems.extend(_foreign(request.url)))
    page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
    yield page
    context.close()
    assert problems == []


def _foreign(url: str) -> list[str]:
    return [] if urlsplit(url).hostname == "127.0.0.1" else [f"asked {url}"]


def overflow(page: Page) -> int:
    """How many pixels a page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def faults(page: Page) -> list[str]:
    """What axe-core finds that keeps somebody out: its serious and critical faults."""
    page.evaluate(Path(AXE).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then((results) => results.violations)")
    return [
        f"{fault['id']}: {fault['help']}: {[node['html'][:160] for node in fault['nodes'][:3]]}"
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]
