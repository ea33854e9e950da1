import asyncio
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kubeflow_corpus.mcp_server.auth import JwtVerifier, StaticTokenVerifier

from tests.mcp_server.harness import AUDIENCE, ISSUER, Issuer, issuing


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


def _hmac(body: dict[str, Any], pem: bytes, kid: str) -> str:
    import base64
    import hashlib
    import hmac
    import json

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    head = part(json.dumps({"alg": "HS256", "typ": "JWT", "kid": kid}).encode())
    signed = head + b"." + part(json.dumps(body).encode())
    return (signed + b"." + part(hmac.new(pem, signed, hashlib.sha256).digest())).decode()
