"""What client and test server say to each other is what TEI's own OpenAPI description allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import requests
from kubeflow_corpus.embedding.tei import TeiClient
from kubeflow_corpus.errors import EmbedderRefused
from kubeflow_corpus.retry import Backoff

from tests.servers.tei import TeiServer, script

CONTRACT: Final = Path(__file__).parents[3] / "shared" / "contracts" / "tei-openapi.json"
SCHEMAS: Final = {
    ("/info", "response"): "Info",
    ("/embed", "request"): "EmbedRequest",
    ("/embed", "response"): "EmbedResponse",
    ("/tokenize", "request"): "TokenizeRequest",
    ("/tokenize", "response"): "TokenizeResponse",
    ("/rerank", "request"): "RerankRequest",
    ("/rerank", "response"): "RerankResponse",
}

pytestmark = pytest.mark.skipif(not CONTRACT.exists(), reason="the folder ../shared with TEI's contract is absent")


def json_schema(value: Any) -> Any:
    """Returns an OpenAPI 3.0 schema as JSON Schema: `nullable` is a type there, and has no meaning here."""
    if isinstance(value, list):
        return [json_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    converted = {key: json_schema(item) for key, item in value.items()}
    if converted.pop("nullable", False) and "type" in converted:
        converted["type"] = [converted["type"], "null"]
    return converted


class Checker:
    """Validates every request, answer and error that the server sees, and remembers which."""

    def __init__(self) -> None:
        contract = json.loads(CONTRACT.read_text())
        self._components = json_schema(contract["components"])
        self.statuses = {
            path: set(methods[next(iter(methods))]["responses"]) for path, methods in contract["paths"].items()
        }
        self.seen: set[tuple[str, str]] = set()

    def __call__(self, path: str, side: str, value: Any) -> None:
        name = "ErrorResponse" if side == "error" else SCHEMAS[path, side]
        schema = {"$ref": f"#/components/schemas/{name}", "components": self._components}
        jsonschema.Draft202012Validator(schema).validate(value)
        self.seen.add((path, side))


@pytest.mark.parametrize("version", ["1.8.3", "1.9.3"])
def test_every_exchange_of_the_client_is_within_the_contract(version: str) -> None:
    checker = Checker()
    quick = Backoff(5, 0.001, 0.01)
    with TeiServer(version=version, check=checker, poison="POISON", vectors="minilm") as server:
        client = TeiClient(server.url, work=quick)
        _ = client.identity
        server.faults = script([None, "429", "503"])
        client.embed(["short", 'é \ud800 \n"quoted"', "pod " * 600])
        with pytest.raises(EmbedderRefused):
            client.embed(["fine", "POISON"])
        client.close()
        answered = {(request.path, str(request.status)) for request in server.log.requests}
    assert checker.seen >= {pair for pair in SCHEMAS if pair[0] != "/rerank"} | {("/embed", "error")}
    # Not in the description, and seen in the wild: 503 of a proxy or of an unhealthy backend.
    assert all(status in checker.statuses[path] for path, status in answered if status != "503")


def test_the_reranker_of_the_test_server_is_within_the_contract() -> None:
    checker = Checker()
    with TeiServer(reranker=True, check=checker) as server:
        body = {"query": "scale to zero", "texts": ["nothing", "scale to zero", "to"], "return_text": True}
        ranks = requests.post(f"{server.url}/rerank", json=body, timeout=10).json()
        assert [rank["index"] for rank in ranks] == [1, 2, 0]
        assert requests.post(f"{server.url}/rerank", json={**body, "texts": []}, timeout=10).status_code == 400
        assert requests.get(f"{server.url}/info", timeout=10).json()["model_type"].keys() == {"reranker"}
    assert checker.seen == {
        ("/rerank", "request"),
        ("/rerank", "response"),
        ("/rerank", "error"),
        ("/info", "response"),
    }
