"""The guardrails of the edge, on a real Envoy in front of a real MCP server and a real issuer."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from kubeflow_corpus.cli import main as cli
from kubeflow_corpus.issuer.app import make_token
from kubeflow_corpus.issuer.keys import Key, make_key, read_key, read_keys
from kubeflow_corpus.issuer.settings import IssuerSettings
from kubeflow_corpus.issuer.stores import FolderStore

from tests.edge.conftest import HOST, ORIGIN, Edge, open_session, search
from tests.edge.gateway import Gateway, running_gateway
from tests.edge.rendering import render

pytestmark = pytest.mark.slow
SETTINGS = IssuerSettings(url=f"https://{HOST}")
_addresses = (f"198.51.100.{number}" for number in range(1, 255))


@pytest.fixture
def address() -> str:
    """A client address that no other test uses."""
    return next(_addresses)


@pytest.fixture
def key(edge: Edge) -> Key:
    """The key that signs at this moment."""
    return read_keys(FolderStore(edge.keys).read())[0]


def signed(key: Key, **changes: Any) -> str:
    claims = {"iss": f"https://{HOST}", "aud": "kubeflow-corpus", "sub": "somebody", "exp": int(time.time()) + 600}
    wanted = {name: value for name, value in (claims | changes).items() if value is not None}
    return jwt.encode(wanted, key.private, algorithm="ES256", headers={"kid": key.name})


def encoded(part: dict[str, str] | bytes) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it did not come true"
        threading.Event().wait(0.5)


def test_a_good_session_reaches_the_running_server_and_gets_evidence(gateway: Gateway, address: str) -> None:
    answer = search(gateway, open_session(gateway, address), address=address)
    assert answer.status == 200, answer.data
    result = json.loads(answer.data)["result"]
    assert "set_caching_options" in result["content"][0]["text"]
    assert result["structuredContent"]["citations"][0]["url"].startswith("https://example.org/")


def test_without_a_session_nothing_is_answered(gateway: Gateway, address: str) -> None:
    assert search(gateway, address=address).status == 403
    for method, path in [
        ("GET", "/mcp"),
        ("GET", "/"),
        ("GET", "/metrics"),
        ("GET", "/readyz"),
        ("POST", "/session/x"),
    ]:
        assert gateway.request(method, path, address=address).status == 403


def test_a_session_opens_only_the_paths_of_the_service(gateway: Gateway, address: str) -> None:
    headers = {"authorization": f"Bearer {open_session(gateway, address)}"}
    for path in ("/metrics", "/healthz", "/mcp/", "/mcp/../metrics", "/%6detrics", "//metrics"):
        assert gateway.request("GET", path, headers=headers, address=address).status in (403, 404)
    assert gateway.request("PUT", "/mcp", headers=headers, address=address).status == 403


def test_a_forged_token_is_refused(gateway: Gateway, key: Key, address: str) -> None:
    _, other_pem = make_key(time.time())
    other = Key(key.name, read_key(make_key(time.time())[0], other_pem).private)
    assert search(gateway, signed(other), address=address).status == 401
    assert search(gateway, signed(Key("unknown", key.private))[:-8] + "AAAAAAAA", address=address).status == 401
    assert search(gateway, "not-a-token", address=address).status == 401


def test_tricks_with_the_algorithm_are_refused(gateway: Gateway, key: Key, address: str) -> None:
    """RFC 8725, section 2.1: `none`, and the public key taken for a shared secret."""
    header, payload, signature = signed(key).split(".")
    none = encoded({"alg": "none", "typ": "JWT"})
    for token in (f"{none}.{payload}.", f"{none}.{payload}.{signature}"):
        assert search(gateway, token, address=address).status == 401
    public = key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    shared = f"{encoded({'alg': 'HS256', 'kid': key.name})}.{payload}"
    signature = encoded(hmac.digest(public, shared.encode(), "sha256"))
    assert search(gateway, f"{shared}.{signature}", address=address).status == 401


def test_an_expired_token_is_refused(gateway: Gateway, key: Key, address: str) -> None:
    token, _ = make_token((key,), SETTINGS, time.time() - 2 * SETTINGS.session_seconds)
    answer = search(gateway, token, address=address)
    assert (answer.status, b"expired" in answer.data.lower()) == (401, True)


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"aud": "another-service"}, 403),
        ({"iss": "https://elsewhere.example.org"}, 401),
        ({"sub": None}, 403),
        ({}, 200),
    ],
)
def test_a_token_for_another_or_of_another_is_refused(
    gateway: Gateway, key: Key, address: str, claims: dict[str, Any], status: int
) -> None:
    assert search(gateway, signed(key, **claims), address=address).status == status


def test_another_origin_is_refused_even_with_a_session(gateway: Gateway, address: str) -> None:
    token = open_session(gateway, address)
    for origin in ("https://evil.example", f"{ORIGIN}.evil.example", "http://www.kubeflow.org", "null"):
        answer = search(gateway, token, address=address, headers={"origin": origin})
        assert (answer.status, answer.headers.get("access-control-allow-origin")) == (403, None)


def test_an_allowed_origin_is_answered_and_named(gateway: Gateway, address: str) -> None:
    token = open_session(gateway, address, headers={"origin": ORIGIN})
    answer = search(gateway, token, address=address, headers={"origin": ORIGIN})
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, ORIGIN)
    assert "access-control-allow-credentials" not in answer.headers


def test_a_browser_may_ask_first_without_a_token(gateway: Gateway, address: str) -> None:
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    answer = gateway.request("OPTIONS", "/mcp", headers={"origin": ORIGIN, **asked}, address=address)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert "authorization" in answer.headers["access-control-allow-headers"]
    refused = gateway.request("OPTIONS", "/mcp", headers={"origin": "https://evil.example", **asked}, address=address)
    assert (refused.status, refused.headers.get("access-control-allow-origin")) == (403, None)


def test_a_session_over_its_limit_waits_and_another_one_does_not(gateway: Gateway, address: str) -> None:
    greedy, modest = open_session(gateway, address), open_session(gateway, address)
    answers = [search(gateway, greedy, address=address) for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    assert int(answers[-1].headers["retry-after"]) == 60
    assert search(gateway, modest, address=address).status == 200


def test_a_session_cannot_name_another_bucket(gateway: Gateway, address: str) -> None:
    token = open_session(gateway, address)
    answers = [
        search(gateway, token, address=address, headers={"x-corpus-session": f"made-up-{number}"}).status
        for number in range(5)
    ]
    assert answers == [200, 200, 200, 429, 429]


def test_an_address_over_its_limit_waits_whatever_its_sessions_and_another_one_does_not(
    gateway: Gateway, address: str
) -> None:
    statuses = [gateway.request("POST", "/session", address=address).status for _ in range(14)]
    assert statuses == [201] * 12 + [429] * 2
    other = next(_addresses)
    assert gateway.request("POST", "/session", address=other).status == 201


def test_bad_tokens_are_counted_too(gateway: Gateway, address: str) -> None:
    statuses = [search(gateway, "not-a-token", address=address).status for _ in range(14)]
    assert statuses == [401] * 12 + [429] * 2


def test_addresses_of_one_ipv6_network_are_one_client(gateway: Gateway) -> None:
    statuses = [
        gateway.request("POST", "/session", address=f"2001:db8:1:1::{number:x}").status for number in range(1, 15)
    ]
    assert statuses == [201] * 12 + [429] * 2
    assert gateway.request("POST", "/session", address="2001:db8:1:2::1").status == 201


def test_plain_http_is_sent_to_https(gateway: Gateway, address: str) -> None:
    answer = gateway.request("POST", "/mcp", body={}, address=address, plain=True)
    assert (answer.status, answer.headers["location"]) == (301, f"https://{HOST}/mcp")


class _Solver(BaseHTTPRequestHandler):
    """As cert-manager's pod answers the challenge of an authority."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the answer to " + self.path.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Writes nothing."""


def test_an_acme_authority_is_answered_on_plain_http_and_nobody_else(edge: Edge, tmp_path: Path) -> None:
    solver = ThreadingHTTPServer(("127.0.0.1", 0), _Solver)
    threading.Thread(target=solver.serve_forever, daemon=True).start()
    services = edge.services | {"acme-solver.corpus-edge.svc.cluster.local:8089": solver.server_port}
    objects = render({"tls": {"acme": {"email": "operators@example.org"}}})
    with running_gateway(objects, tmp_path, services) as running:
        path = "/.well-known/acme-challenge/token"
        answer = running.request("GET", path, plain=True)
        assert (answer.status, answer.data) == (200, b"the answer to " + path.encode())
        assert running.request("GET", "/mcp", plain=True).status == 301
        assert running.request("GET", path).status == 403
    solver.shutdown()
    solver.server_close()


@pytest.fixture
def strict(edge: Edge, tmp_path: Path) -> Iterator[Gateway]:
    """A gateway without a proxy in front, whose replica is allowed little."""
    limits = {"replica": {"perMinute": 1, "burst": 6}, "session": {"perMinute": 1, "burst": 4}}
    limits["issuing"] = {"perMinute": 1, "burst": 3}
    with running_gateway(render({"limits": limits}), tmp_path, edge.services) as running:
        yield running


def test_all_together_are_limited_and_what_another_bucket_refused_does_not_count(strict: Gateway, key: Key) -> None:
    sessions = [strict.request("POST", "/session", headers={"x-corpus-session": f"s{n}"}).status for n in range(4)]
    # A session that is named and not proven has no bucket of its own.
    assert sessions == [201, 201, 201, 429]
    # Three of six are left to the replica, whoever calls and whatever address it claims.
    statuses = [search(strict, signed(key, sub=f"caller-{n}"), address=f"203.0.113.{n}").status for n in range(5)]
    assert statuses == [200, 200, 200, 429, 429]


class _RateLimits(grpc.GenericRpcHandler):
    """A rate-limit service that allows a session one call; what it was asked is kept as the bytes of the message."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def service(self, handler_call_details: Any) -> Any:
        assert handler_call_details.method == "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
        return grpc.unary_unary_rpc_method_handler(self.answer)

    def answer(self, request: bytes, context: Any) -> bytes:
        self.asked.append(request)
        # RateLimitResponse.overall_code: 1 is OK, 2 is OVER_LIMIT.
        return b"\x08\x01" if sum(b"session" in asked for asked in self.asked) < 2 else b"\x08\x02"


def test_a_rate_limit_service_counts_for_all_replicas_and_costs_nothing_where_it_is_gone(
    edge: Edge, key: Key, tmp_path: Path
) -> None:
    handler = _RateLimits()
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    services = edge.services | {"outbound|8081||ratelimit.limits.svc.cluster.local": port}
    objects = render({"limits": {"service": {"namespace": "limits"}}})
    token = signed(key, sub="caller")
    with (
        running_gateway(objects, tmp_path / "a", services) as one,
        running_gateway(objects, tmp_path / "b", services) as two,
    ):
        assert [search(replica, token).status for replica in (one, two, one)] == [200, 429, 429]
        assert all(b"corpus-edge" in asked and b"127.0.0.1" in asked and b"caller" in asked for asked in handler.asked)
        server.stop(None).wait()
        assert search(two, token).status == 200


def test_a_rotation_cuts_nobody_off_and_revoking_cuts_off_everybody(
    gateway: Gateway, edge: Edge, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = open_session(gateway, address)
    assert cli.main(["issuer", "rotate", "--folder", str(edge.keys)]) == 0
    assert capsys.readouterr().out.startswith("made ")
    old, new = read_keys(FolderStore(edge.keys).read())
    # The new key is known before it signs; sessions still come from the old one.
    eventually(lambda: search(gateway, signed(new, sub="early"), address=next(_addresses)).status == 200)
    assert search(gateway, before, address=address).status == 200
    during = open_session(gateway, address)
    assert jwt.get_unverified_header(during)["kid"] == old.name
    assert search(gateway, during, address=address).status == 200

    assert cli.main(["issuer", "rotate", "--folder", str(edge.keys), "--revoke"]) == 0
    eventually(lambda: search(gateway, before, address=next(_addresses)).status == 401)
    eventually(lambda: search(gateway, open_session(gateway, next(_addresses)), address=address).status == 200)
