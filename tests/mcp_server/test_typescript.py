"""The official TypeScript client against the server, where node and the package are there.

``npm install @modelcontextprotocol/sdk`` in any folder, and ``MCP_TYPESCRIPT_SDK`` names the folder of the package in
its ``node_modules``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SDK = os.environ.get("MCP_TYPESCRIPT_SDK", "")
CLIENT = Path(__file__).with_name("client.mjs")

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(not SDK, reason="MCP_TYPESCRIPT_SDK does not name the folder of @modelcontextprotocol/sdk"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


@pytest.mark.parametrize("citations", ["text", "structured", "meta"])
def test_the_official_client_understands_tools_resources_templates_and_prompts(
    corpus_uri: str, citations: str, tmp_path: Path
) -> None:
    copy = shutil.copytree(corpus_uri, tmp_path / "corpus.db") if Path(corpus_uri).is_dir() else None
    uri = str(copy or shutil.copy(corpus_uri, tmp_path / "corpus.db"))
    command = ["node", str(CLIENT), sys.executable, "-m", "kubeflow_corpus.cli.main", "mcp"]
    environ = {**os.environ, "MILVUS_URI": uri, "MCP_SEARCH_SECONDS": "60", "MCP_CITATIONS": citations}

    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=500)

    assert ran.returncode == 0, ran.stderr
    answered = json.loads(ran.stdout)
    text = answered["found"]["content"][0]["text"]
    assert "set_caching_options" in text and "site:caching.md#use" in text
    assert ("https://" in text) == (citations == "text")
    assert ("structuredContent" in answered["found"]) == (citations == "structured")
    assert "set_caching_options" in answered["unit"]["contents"][0]["text"]
    assert [template["uriTemplate"] for template in answered["resourceTemplates"]] == ["corpus://unit/{unit_id}"]
    assert len(answered["tools"]) == 5 and len(answered["resources"]) == 3 and answered["prompt"]["messages"]
