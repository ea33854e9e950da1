"""Authentication of callers: static bearer tokens, and JWTs verified against the issuer's published keys."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from mcp.server.auth.provider import AccessToken

from kubeflow_corpus.mcp_server.settings import ALGORITHMS, ServerSettings

if TYPE_CHECKING:
    from jwt import PyJWKClient

LOGGER: Final = logging.getLogger("kubeflow_corpus.mcp")
KEY_SECONDS: Final = 300
KEY_TIMEOUT: Final = 3.0
LEEWAY_SECONDS: Final = 10
# An unknown key id makes the issuer's key set be read again; a caller who invents ids may not do so at will.
REFRESH_SECONDS: Final = 10.0
MAX_TOKEN_CHARACTERS: Final = 8_192


class StaticTokenVerifier:
    """Accepts one token, compared in constant time."""

    def __init__(self, token: str, scopes: list[str]) -> None:
        self._token = token.encode()
        self._scopes = scopes

    async def verify_token(self, token: str) -> AccessToken | None:
        """Returns the caller that the token identifies, or None."""
        if not hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._token):
            return None
        return AccessToken(token="", client_id="static", scopes=self._scopes)


class JwtVerifier:
    """Accepts JWTs of one issuer for one audience, signed with a key of its JWKS."""

    def __init__(self, jwks_url: str, issuer: str, audience: str) -> None:
        from jwt import PyJWKClient

        self._issuer = issuer
        self._audience = audience
        self._keys: PyJWKClient = PyJWKClient(
            jwks_url, cache_jwk_set=True, lifespan=KEY_SECONDS, timeout=KEY_TIMEOUT, cache_keys=False
        )
        self._lock = asyncio.Lock()
        # Whatever else is going on, nobody has to wait for a thread to sign in.
        self._pool = ThreadPoolExecutor(1, "keys")
        self._refreshed = 0.0

    async def verify_token(self, token: str) -> AccessToken | None:
        """Returns the caller that the token identifies; None if it is forged, expired or meant for another service."""
        try:
            return self._access(await self._claims(token))
        except Exception as error:
            # Not the errors of the library alone: a token whose algorithm is of another family than its key, or whose
            # parts are nested without end, makes parsers below it fail in ways of their own. It proves nothing.
            _log_refused(error)
            return None

    async def _claims(self, token: str) -> dict[str, Any]:
        import jwt

        if len(token) > MAX_TOKEN_CHARACTERS:
            raise jwt.InvalidTokenError("too long")
        key = await self._key(token)
        if key is None:
            raise jwt.InvalidKeyError("no key of this id is published")
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=self._audience,
            issuer=self._issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
        if not claims["sub"]:
            raise jwt.InvalidTokenError("no subject")
        return claims

    def _access(self, claims: dict[str, Any]) -> AccessToken:
        return AccessToken(
            token="",
            client_id=str(claims["sub"]),
            subject=str(claims["sub"]),
            scopes=str(claims.get("scope", "")).split(),
            # The leeway is applied above; the SDK would apply none.
            expires_at=int(claims["exp"]) + LEEWAY_SECONDS,
            resource=self._audience,
            claims=claims,
        )

    async def _key(self, token: str) -> Any:
        import jwt

        header = jwt.get_unverified_header(token)
        async with self._lock:
            keys = await self._published_keys()
            found = self._match(keys, header)
            if found is None and time.monotonic() - self._refreshed > REFRESH_SECONDS:
                # The issuer rotates its keys before our copy of them expires.
                self._refreshed = time.monotonic()
                keys = await self._published_keys(refresh=True)
                found = self._match(keys, header)
        return found

    async def _published_keys(self, *, refresh: bool = False) -> list[Any]:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._keys.get_signing_keys, refresh)

    @staticmethod
    def _match(keys: list[Any], header: dict[str, Any]) -> Any:
        return next((key.key for key in keys if key.key_id == header.get("kid")), None)


def _log_refused(error: Exception) -> None:
    # The name of the error alone: its text may repeat the token, and a traceback for each would fill the log.
    event = {"event": "token_refused", "reason": type(error).__name__}
    LOGGER.warning(json.dumps(event), extra={"event": event})


def verifier(settings: ServerSettings) -> StaticTokenVerifier | JwtVerifier | None:
    """Returns the verifier that the settings ask for; None where callers need no token."""
    if settings.auth_token:
        scopes = [scope for scope in (settings.auth_scope, settings.write_scope) if scope]
        return StaticTokenVerifier(settings.auth_token.get_secret_value(), scopes)
    if settings.auth_jwks_url:
        return JwtVerifier(settings.auth_jwks_url, settings.auth_issuer, settings.auth_audience)
    return None
