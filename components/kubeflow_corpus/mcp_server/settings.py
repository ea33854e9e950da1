"""What the server reads from its command line and environment, in one table."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.settings import Secret

KIBIBYTE: Final = 1024
# The signature algorithms that are accepted: asymmetric ones only, so that a public key can never sign.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "PS256", "EdDSA")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How the service answers and whom.

    Each attribute is an environment variable: ``MCP_`` and the attribute's name in capitals.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        path: Where the MCP endpoint is.
        stateless: Whether each request stands alone, so that any replica can answer it.
        allowed_hosts: Host headers that are answered (``name`` or ``name:port`` or ``name:*``); loopback always is.
        allowed_origins: Origins that browsers may call from; none by default.
        max_body_bytes: Largest request body.
        max_concurrency: Searches that run at the same time.
        max_queue: Calls that may wait for their turn; further ones are refused.
        global_rate: Calls a second for all clients together; 0 is no limit.
        client_rate: Calls a second for one client; 0 is no limit.
        burst: Seconds of the rate that may be used at once.
        search_seconds: How long one search may take.
        shutdown_seconds: How long running calls may take to finish after SIGTERM.
        citations_in_meta: Whether citations go to ``_meta``, for hosts that show structured content to the model.
        auth_token: One static bearer token.
        auth_jwks_url: Where the keys of JWTs are; turns JWT verification on.
        auth_issuer: Required ``iss``.
        auth_audience: Required ``aud``.
        auth_scope: Scope that every caller needs; empty is none.
        allow_anonymous: Waives authentication on addresses other than loopback.
        visibility_claim: Claim whose value limits what the caller may find; empty is no tenancy.
        write_enabled: Whether `upsert_document` and `delete_document` are offered: over HTTP to callers whose token
            has `write_scope`, and over stdio to the process that started the server.
        write_scope: Scope that a writer needs. The holder of `auth_token` has it: where some may only read, use JWTs.
        trusted_proxies: Addresses whose ``X-Forwarded-For`` names the client.
        public_url: Address under which clients know the service, for the authentication challenge.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    path: str = "/mcp"
    stateless: bool = True
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_body_bytes: int = 256 * KIBIBYTE
    max_concurrency: int = 8
    max_queue: int = 64
    global_rate: float = 0.0
    client_rate: float = 0.0
    burst: float = 2.0
    search_seconds: float = 2.0
    shutdown_seconds: float = 20.0
    citations_in_meta: bool = False
    auth_token: Secret = field(default=Secret(""))
    auth_jwks_url: str = ""
    auth_issuer: str = ""
    auth_audience: str = ""
    auth_scope: str = ""
    allow_anonymous: bool = False
    visibility_claim: str = ""
    write_enabled: bool = False
    write_scope: str = "corpus:write"
    trusted_proxies: tuple[str, ...] = ()
    public_url: str = ""

    @classmethod
    def from_env(
        cls, environ: Mapping[str, str] | None = None, *, local: bool = False, **overrides: Any
    ) -> ServerSettings:
        """Reads the settings.

        Args:
            environ: Instead of the process environment, for tests.
            local: Whether nobody can reach the server but the process that started it (stdio).
            **overrides: Values of the command line; None is not given.

        Raises:
            SettingsError: A value cannot be what it is meant to be, or the combination is not safe.
        """
        env = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        for item in fields(cls):
            name = f"MCP_{item.name.upper()}"
            if env.get(name, "").strip():
                values[item.name] = _parse(name, env[name].strip(), item.default)
        values |= {name: value for name, value in overrides.items() if value is not None}
        settings = cls(**values)
        settings.check(local=local)
        return settings

    def check(self, *, local: bool = False) -> None:
        """Checks the combination.

        Args:
            local: Whether nobody can reach the server but the process that started it (stdio).

        Raises:
            SettingsError: It is incomplete or not safe.
        """
        if self.auth_jwks_url and not (self.auth_issuer and self.auth_audience):
            raise SettingsError(
                "MCP_AUTH_JWKS_URL is set without MCP_AUTH_ISSUER and MCP_AUTH_AUDIENCE",
                remedy="Set all three: a token of another issuer or for another service must be refused",
            )
        if self.auth_jwks_url and self.auth_token:
            raise SettingsError(
                "MCP_AUTH_TOKEN and MCP_AUTH_JWKS_URL are both set", remedy="Choose one way to authenticate callers"
            )
        if not self.loopback and not self.authenticated and not self.allow_anonymous:
            raise SettingsError(
                f"The server would answer anybody on {self.host}",
                remedy="Set MCP_AUTH_TOKEN or MCP_AUTH_JWKS_URL, or MCP_ALLOW_ANONYMOUS=true where a gateway "
                "authenticates callers",
            )
        if self.visibility_claim and not self.auth_jwks_url:
            raise SettingsError(
                "MCP_VISIBILITY_CLAIM is set, and no token carries claims", remedy="Set MCP_AUTH_JWKS_URL as well"
            )
        if self.write_enabled and not self.authenticated and not local:
            raise SettingsError(
                "MCP_WRITE_ENABLED is set without authentication",
                remedy="Set MCP_AUTH_TOKEN or MCP_AUTH_JWKS_URL: a writer must be known",
            )

    @property
    def authenticated(self) -> bool:
        """Whether callers must show a token."""
        return bool(self.auth_token) or bool(self.auth_jwks_url)

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def _parse(name: str, text: str, default: Any) -> Any:
    if isinstance(default, Secret):
        return Secret(text)
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if isinstance(default, bool):
        if text.lower() not in ("true", "false", "1", "0"):
            raise SettingsError(f"{name} is not true or false: {text!r}", remedy=f"Set {name} to true or false")
        return text.lower() in ("true", "1")
    if isinstance(default, int | float):
        try:
            number = type(default)(text)
        except ValueError:
            number = -1
        if not 0 <= number < float("inf"):
            raise SettingsError(f"{name} is not a number of 0 or more: {text!r}", remedy=f"Set {name} to a number")
        return number
    return text
