import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from kubeflow_corpus.mcp_server.auth import JwtVerifier, StaticTokenVerifier
from kubeflow_corpus.mcp_server.http import Readiness, build_app
from kubeflow_corpus.mcp_server.server import build_server
from kubeflow_corpus.mcp_server.service import Service
from kubeflow_corpus.mcp_server.settings import ALGORITHMS, ServerSettings
from kubeflow_corpus.query.client import AsyncCorpusClient
from starlette.testclient import TestClient

from tests.mcp_server.harness import AUDIENCE, ISSUER, Issuer, issuing
from tests.query.corpus import MODEL


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as running:
        yield running


def verify(issuer: Issuer, *tokens: str) -> list[Any]:
    async def all_of_them() -> list[Any]:
        verifier = JwtVerifier(issuer.url, ISSUER, AUDIENCE)
        return [await verifier.verify_token(token) for token in tokens]

    return asyncio.run(all_of_them())


def test_a_token_of_the_issuer_names_its_subject_and_scopes(issuer: Issuer) -> None:
    (found,) = verify(issuer, issuer.token(sub="ada", scope="corpus:read corpus:write"))

    assert (found.subject, found.scopes) == ("ada", ["corpus:read", "corpus:write"])


def test_the_verified_token_is_not_kept(issuer: Issuer) -> None:
    token = issuer.token()
    (found,) = verify(issuer, token)

    assert found.token == ""


def test_tokens_that_prove_nothing_are_refused(issuer: Issuer) -> None:
    forger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = issuer.keys[issuer.kid].public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    body = {"iss": ISSUER, "aud": AUDIENCE, "sub": "x", "exp": int(time.time()) + 600}
    unsigned = jwt.encode(body, None, "none", headers={"kid": issuer.kid})  # type: ignore[arg-type]
    header, claims, _ = issuer.token().split(".")
    wrong = {
        "forged": issuer.token(key=forger),
        "expired": issuer.token(exp=int(time.time()) - 60),
        "not yet valid": issuer.token(nbf=int(time.time()) + 600),
        "for another service": issuer.token(aud="other"),
        "of another issuer": issuer.token(iss="https://evil.example"),
        "unsigned": unsigned,
        "without a signature": f"{header}.{claims}.",
        "without a subject": issuer.token(sub=""),
        "public key used as a secret": _hmac(body, pem, issuer.kid),
        "no token": "not.a.token",
        "empty": "",
        "huge": "a" * 1_000_000,
        "not ascii": "é.ü.\x00",
        "surrogate": "\ud800.a.b",
    }

    accepted = [name for name, found in zip(wrong, verify(issuer, *wrong.values()), strict=True) if found]

    assert accepted == []


HEADERS: dict[str, Any] = {
    # Each with the published key id: what is wrong is found only once a key is used for it.
    **{str(name): {"alg": name} for name in (*ALGORITHMS, "ES512", "ES256K", "HS256", "none", "", "x", None, 5, True)},
    "a list": {"alg": ["RS256"]},
    "an object": {"alg": {}},
    "none at all": {},
    "critical": {"alg": "RS256", "crit": ["b64"], "b64": False},
    "own key": {"alg": "RS256", "jwk": {"kty": "oct", "k": "AAAA"}},
}
NOT_OBJECTS = ("[" * 2_900 + "]" * 2_900, "1", "null", "[]", '"x"', "", "{", '{"alg":' * 700 + "1" + "}" * 700)


@pytest.mark.parametrize("family", ["rsa", "ec", "ed25519"])
def test_refuses_whatever_makes_no_signature_of_the_key(family: str, caplog: pytest.LogCaptureFixture) -> None:
    key, published = KEYS[family]()
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "x", "exp": int(time.time()) + 600}
    body = _part(json.dumps(claims))
    heads = [_part(json.dumps({"kid": "k", "typ": "JWT", **header})) for header in HEADERS.values()]
    heads += [_part(header) for header in NOT_OBJECTS]
    tokens = [
        f"{head}.{part}.{_part('x' * size)}"
        for head in heads
        for part in (body, _part(NOT_OBJECTS[0]))
        for size in (0, 64)
    ]

    async def scenario() -> tuple[list[Any], Any]:
        verifier = JwtVerifier("http://127.0.0.1:9/jwks.json", ISSUER, AUDIENCE)
        verifier._keys.get_signing_keys = lambda refresh=False: [jwt.PyJWK(published)]  # type: ignore[method-assign]
        good = jwt.encode(claims, key, published["alg"], headers={"kid": "k"})
        return [await verifier.verify_token(token) for token in tokens], await verifier.verify_token(good)

    refused, accepted = asyncio.run(scenario())

    assert refused == [None] * len(tokens) and accepted is not None
    logged = [record for record in caplog.records if record.name == "kubeflow_corpus.mcp"]
    assert len(logged) == len(tokens)
    assert all(json.loads(record.getMessage())["event"] == "token_refused" for record in logged)
    assert not any(record.exc_info or "\n" in record.getMessage() for record in logged)


def test_answers_a_token_of_another_family_with_401_and_one_line(
    issuer: Issuer, corpus_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ServerSettings(auth_jwks_url=issuer.url, auth_issuer=ISSUER, auth_audience=AUDIENCE)
    forged = [f"{_part(json.dumps({'alg': name, 'kid': issuer.kid}))}.{_part('{}')}.AAAA" for name in ALGORITHMS]
    app = _app(corpus_uri, settings)

    with TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False) as client:
        caplog.clear()
        answers = [client.post("/mcp", json={}, headers={"Authorization": f"Bearer {token}"}) for token in forged]

    assert [answer.status_code for answer in answers] == [401] * len(forged)
    lines = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert [json.loads(record.getMessage())["event"] for record in lines] == ["token_refused"] * len(forged)


def test_a_missing_claim_is_refused(issuer: Issuer) -> None:
    key = issuer.keys[issuer.kid]
    complete = {"iss": ISSUER, "aud": AUDIENCE, "sub": "x", "exp": int(time.time()) + 600}
    tokens = [
        jwt.encode({k: v for k, v in complete.items() if k != name}, key, "RS256", headers={"kid": issuer.kid})
        for name in complete
    ]

    assert verify(issuer, *tokens) == [None] * len(complete)


def test_a_rotated_key_is_found_without_a_restart(issuer: Issuer) -> None:
    async def scenario() -> tuple[Any, Any]:
        verifier = JwtVerifier(issuer.url, ISSUER, AUDIENCE)
        before = await verifier.verify_token(issuer.token())
        issuer.rotate()
        return before, await verifier.verify_token(issuer.token())

    assert all(asyncio.run(scenario()))


def test_invented_key_ids_do_not_make_the_issuer_work(issuer: Issuer) -> None:
    async def scenario() -> None:
        verifier = JwtVerifier(issuer.url, ISSUER, AUDIENCE)
        for number in range(50):
            token = jwt.encode({"sub": "x"}, issuer.keys[issuer.kid], "RS256", headers={"kid": f"invented-{number}"})
            assert await verifier.verify_token(token) is None

    asyncio.run(scenario())

    assert issuer.requests <= 3


def test_an_unreachable_issuer_admits_nobody(issuer: Issuer) -> None:
    token = issuer.token()
    issuer.close()

    assert verify(issuer, token) == [None]


def test_a_static_token_is_compared_as_a_whole() -> None:
    verifier = StaticTokenVerifier("hunter2", ["corpus:write"])

    results = [asyncio.run(verifier.verify_token(token)) for token in ("hunter2", "hunter", "hunter22", "", "\ud800")]

    assert [bool(result) for result in results] == [True, False, False, False, False]


def _rsa() -> tuple[Any, dict[str, Any]]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key, _published(jwt.algorithms.RSAAlgorithm, key, "RS256")


def _ec() -> tuple[Any, dict[str, Any]]:
    key = ec.generate_private_key(ec.SECP256R1())
    return key, _published(jwt.algorithms.ECAlgorithm, key, "ES256")


def _ed25519() -> tuple[Any, dict[str, Any]]:
    key = ed25519.Ed25519PrivateKey.generate()
    return key, _published(jwt.algorithms.OKPAlgorithm, key, "EdDSA")


KEYS = {"rsa": _rsa, "ec": _ec, "ed25519": _ed25519}


def _published(algorithm: Any, key: Any, name: str) -> dict[str, Any]:
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": "k", "alg": name, "use": "sig"}


def _part(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _app(uri: str, settings: ServerSettings) -> Any:
    async def ready() -> None:
        pass

    async def status() -> list[dict[str, Any]]:
        return []

    service = Service(AsyncCorpusClient(milvus_uri=uri, embeddings=MODEL), settings)
    return build_app(build_server(service, status), service, Readiness(ready))


def _hmac(body: dict[str, Any], pem: bytes, kid: str) -> str:
    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    head = part(json.dumps({"alg": "HS256", "typ": "JWT", "kid": kid}).encode())
    signed = head + b"." + part(json.dumps(body).encode())
    return (signed + b"." + part(hmac.new(pem, signed, hashlib.sha256).digest())).decode()
