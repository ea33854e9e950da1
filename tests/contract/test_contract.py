"""The contract command against `milvus-lite server`, and against the protocol of TEI with a real model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.cli import main as cli
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.operations.contract.promises import PROMISES
from kubeflow_corpus.settings import Settings

from tests.servers.milvus_lite import MilvusLiteServer, milvus_lite_server
from tests.servers.tei import TeiServer


@pytest.fixture(scope="module")
def milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusLiteServer]:
    with milvus_lite_server(tmp_path_factory.mktemp("contract") / "data") as server:
        yield server


def contract(monkeypatch: pytest.MonkeyPatch, milvus: str, embeddings: str, *options: str) -> int:
    monkeypatch.setenv("MILVUS_URI", milvus)
    monkeypatch.setenv("EMBEDDINGS_URL", embeddings)
    return cli.main(["contract", *options])


def held(uri: str) -> list[str]:
    with connected(Settings(milvus_uri=uri)) as client:
        return [*client.list_collections(), *client.list_aliases()["aliases"]]


@pytest.mark.slow
def test_every_promise_holds_and_nothing_is_left(
    milvus: MilvusLiteServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with connected(Settings(milvus_uri=milvus.uri)) as client:
        client.create_collection("somebody_elses", dimension=4)
    with TeiServer(vectors="minilm", dimension=384) as tei:
        code = contract(monkeypatch, milvus.uri, tei.url)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("BROKEN")] == []
    assert [line for line in lines if line.startswith("holds")] and code == 0
    assert re.fullmatch(rf"{len(PROMISES)} of {len(PROMISES)} promises hold on Milvus milvus_lite-3.*", lines[-1])
    assert held(milvus.uri) == ["somebody_elses"]


@pytest.mark.slow
def test_a_service_that_breaks_a_promise_is_reported_and_the_others_are_still_tried(
    milvus: MilvusLiteServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with TeiServer(vectors="minilm", dimension=384, poison="🚀") as tei:
        code = contract(monkeypatch, milvus.uri, tei.url, "--json")
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    broken = {entry["promise"] for entry in told["promises"] if entry["problem"]}
    assert code == 1 and len(told["promises"]) == len(PROMISES)
    assert "quotes, line ends, other scripts and emoji are embedded" in broken
    assert "many texts at once give the same vectors as one at a time" not in broken
    assert not [name for name in held(milvus.uri) if name.startswith("corpus_contract")]


def test_a_service_that_is_not_there_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert contract(monkeypatch, str(tmp_path / "corpus.db"), "") == 1
    said = capsys.readouterr()
    assert "The contract is checked against a server" in said.err and not said.out
    assert contract(monkeypatch, "", "") == 1
    assert "MILVUS_URI is not set" in capsys.readouterr().err


def test_the_promises_cover_all_three_areas_and_say_each_thing_once() -> None:
    sentences = [promise.sentence for promise in PROMISES]
    assert len(set(sentences)) == len(sentences) > 20
    assert {promise.area for promise in PROMISES} == {"embedding", "store", "query"}
