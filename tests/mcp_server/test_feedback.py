"""Callers say whether an answer helped, if the operator asks for it."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.cli import serve_mcp
from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.mcp_server.assembly import StatusReader
from kubeflow_corpus.mcp_server.server import build_server
from kubeflow_corpus.mcp_server.service import Service
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.query.client import AsyncCorpusClient
from kubeflow_corpus.query.question_log import find_question, read_log
from kubeflow_corpus.settings import Settings
from mcp import Client

from tests.mcp_server.harness import text_of
from tests.query.corpus import MODEL


def talk(uri: str, log: Path | None, settings: ServerSettings, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Lists the tools, then makes the calls; an argument `LAST` is the request id of the call before."""

    async def session() -> list[Any]:
        corpus_settings = Settings(milvus_uri=uri, question_log=str(log or ""))
        async with AsyncCorpusClient(settings=corpus_settings, embeddings=MODEL, timeout=60) as corpus:
            service = Service(corpus, settings)
            async with Client(build_server(service, StatusReader(Settings(milvus_uri=uri)))) as client:
                found: list[Any] = [{tool.name: tool for tool in (await client.list_tools()).tools}]
                for name, arguments in calls:
                    last = found[-1].structured_content if len(found) > 1 else None
                    given = {key: last["request_id"] if value == "LAST" else value for key, value in arguments.items()}
                    found.append(await client.call_tool(name, given))
                return found

    return asyncio.run(session())


ASK = ("search_kubeflow_docs", {"query": "how do I switch caching off?"})


def test_it_is_off_by_default(corpus_uri: str, tmp_path: Path) -> None:
    tools, refused = talk(
        corpus_uri, tmp_path / "q.db", ServerSettings(), ("report_answer", {"request_id": "x", "helpful": True})
    )
    assert "report_answer" not in tools
    assert refused.is_error and "Unknown tool" in text_of(refused)


def test_a_verdict_is_kept_beside_the_question(corpus_uri: str, tmp_path: Path) -> None:
    log = tmp_path / "q.db"
    settings = ServerSettings(feedback_enabled=True)
    tools, _, kept, unknown = talk(
        corpus_uri,
        log,
        settings,
        ASK,
        ("report_answer", {"request_id": "LAST", "helpful": False, "note": "only v1, says jane@acme.example"}),
        ("report_answer", {"request_id": "nothing", "helpful": True}),
    )
    assert tools["report_answer"].annotations.read_only_hint is False
    assert tools["report_answer"].annotations.destructive_hint is False
    assert kept.structured_content["kept"] and text_of(kept) == "Kept."
    assert not unknown.structured_content["kept"]
    (asked,) = read_log(log)
    found = find_question(log, asked.request_id)
    assert found and found.verdict and not found.verdict.helpful
    assert found.verdict.note == "only v1, says {email}"


def test_hosts_that_show_the_text_alone_find_the_request_in_it(corpus_uri: str, tmp_path: Path) -> None:
    log = tmp_path / "q.db"
    _, answer = talk(corpus_uri, log, ServerSettings(feedback_enabled=True, citations="text"), ASK)
    assert text_of(answer).endswith(f"request_id: {read_log(log)[0].request_id}")
    _, answer = talk(corpus_uri, log, ServerSettings(citations="text"), ASK)
    assert "request_id" not in text_of(answer)


@pytest.mark.parametrize("wrong", [{"request_id": "x"}, {"helpful": True}, {"request_id": "x", "helpful": "perhaps"}])
def test_wrong_arguments_are_refused(corpus_uri: str, tmp_path: Path, wrong: dict[str, Any]) -> None:
    settings = ServerSettings(feedback_enabled=True)
    _, refused = talk(corpus_uri, tmp_path / "q.db", settings, ("report_answer", wrong))
    assert refused.is_error


def test_a_server_that_could_keep_nothing_does_not_start(monkeypatch: pytest.MonkeyPatch, corpus_uri: str) -> None:
    monkeypatch.setenv("MILVUS_URI", corpus_uri)
    monkeypatch.setenv("MCP_FEEDBACK_ENABLED", "true")
    monkeypatch.delenv("QUESTION_LOG", raising=False)
    parser = argparse.ArgumentParser()
    serve_mcp.add_arguments(parser)
    with pytest.raises(SettingsError, match="QUESTION_LOG"):
        serve_mcp.run(parser.parse_args([]))
