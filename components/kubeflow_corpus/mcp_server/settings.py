"""The settings of the MCP server."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.query.tuning import DEFAULT_TIMEOUT_SECONDS
from kubeflow_corpus.service_settings import Names, Number, ServiceSettings, WholeNumber

KIBIBYTE: Final = 1024
Citations = Literal["structured", "text", "meta"]
# The signature algorithms that are accepted: asymmetric ones only, so that a public key can never sign.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "PS256", "EdDSA")


class ServerSettings(ServiceSettings):
    """How the server answers, and whom."""

    model_config = SettingsConfigDict(env_prefix="MCP_")

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: WholeNumber = Field(8000, description="Port to listen on; 0 takes a free one.")
    path: str = Field("/mcp", description="Path of the MCP endpoint.")
    stateless: bool = Field(True, description="Whether each request stands alone, so that any replica can answer it.")
    allowed_hosts: Names = Field(
        (), description="Host headers that are answered (name, name:port or name:*); loopback always is."
    )
    allowed_origins: Names = Field((), description="Origins that browsers may call from.")
    max_body_bytes: WholeNumber = Field(256 * KIBIBYTE, description="Largest request body.")
    body_seconds: Number = Field(10.0, description="How long the body of a request may take to arrive.")
    max_streams: WholeNumber = Field(64, description="Streams (GET) that may be open at the same time.")
    stream_seconds: Number = Field(600.0, description="After which a stream is ended; clients open another.")
    max_concurrency: WholeNumber = Field(8, description="Searches that run at the same time.")
    max_queue: WholeNumber = Field(64, description="Calls that may wait for their turn; further ones are refused.")
    global_rate: Number = Field(0.0, description="Calls per second of all clients together; 0 means no limit.")
    client_rate: Number = Field(0.0, description="Calls per second of one client; 0 means no limit.")
    burst: Number = Field(2.0, description="Seconds of the rate that may be used at once.")
    search_seconds: Number = Field(DEFAULT_TIMEOUT_SECONDS, description="How long one search may take.")
    shutdown_seconds: Number = Field(20.0, description="How long running calls may take to finish after SIGTERM.")
    citations: Citations = Field(
        "structured",
        description="Where citations go: structured (content for the application), text (a list of sources behind the "
        "evidence, for hosts that show nothing else; the default over stdio) or meta (_meta, for hosts that show "
        "structured content to the model).",
    )
    auth_token: SecretStr = Field(SecretStr(""), description="One static bearer token.")
    auth_jwks_url: str = Field("", description="Where the keys of JWTs are; turns JWT verification on.")
    auth_issuer: str = Field("", description="Required iss.")
    auth_audience: str = Field("", description="Required aud.")
    auth_scope: str = Field("", description="Scope that every caller needs; empty is none.")
    allow_anonymous: bool = Field(False, description="Waives authentication on addresses other than loopback.")
    visibility_claim: str = Field("", description="Claim that names the caller's groups; empty means no tenancy.")
    write_enabled: bool = Field(
        False,
        description="Whether the writing tools are offered: over HTTP to callers whose token has MCP_WRITE_SCOPE, over "
        "stdio to the process that started the server.",
    )
    write_scope: str = Field(
        "corpus:write",
        description="Scope that a writer needs. The holder of MCP_AUTH_TOKEN has it; use JWTs if some may only read.",
    )
    feedback_enabled: bool = Field(
        False, description="Whether callers may say what helped (`report_answer`); needs QUESTION_LOG."
    )
    trusted_proxies: Names = Field((), description="Addresses whose X-Forwarded-For names the client.")
    public_url: str = Field(
        "", description="Address under which clients know the service, for the authentication challenge."
    )

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, *, local: bool = False, **overrides: Any) -> Self:
        """Reads the settings and checks the combination.

        Args:
            environ: Instead of the process environment, for tests.
            local: Whether only the process that started the server can reach it (stdio).
            **overrides: Values of the command line; None is not given.

        Raises:
            SettingsError: A value is not what it must be, or the combination is not safe.
        """
        settings = super().from_env(environ, **overrides)
        if local and "citations" not in settings.model_fields_set:
            # Desktop hosts and IDEs have nothing that turns a label into a link.
            settings = settings.model_copy(update={"citations": "text"})
        settings.check(local=local)
        return settings

    def check(self, *, local: bool = False) -> None:
        """Checks the combination.

        Args:
            local: Whether only the process that started the server can reach it (stdio).

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
                f"The server would answer everybody on {self.host}",
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
        return bool(self.auth_token or self.auth_jwks_url)

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
