"""The settings of the session issuer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.service_settings import ServiceSettings, WholeNumber
from kubeflow_corpus.settings import missing_value, parse_url

_HOUR: Final = 3_600
_DAY: Final = 24 * _HOUR
# Verifiers accept a token this much after its end (RFC 7519 allows "some small leeway").
CLOCK_SKEW_SECONDS: Final = 120


class IssuerSettings(ServiceSettings):
    """Who issues sessions, for which audience, for how long, and when keys change."""

    model_config = SettingsConfigDict(env_prefix="ISSUER_")

    url: str = Field("", description="iss of every token: the address of the edge.")
    audience: str = Field("kubeflow-corpus", description="aud of every token.")
    keys_folder: str = Field(
        "/etc/kubeflow-corpus/session-keys",
        description="Where the private keys are, one PEM file per key; on a cluster a mounted Secret.",
    )
    session_seconds: WholeNumber = Field(_HOUR, description="Life of a session.")
    publish_seconds: WholeNumber = Field(
        _HOUR,
        description="How long a new key is published before it signs: longer than verifiers cache the key set "
        "(istiod reads it every 20 minutes).",
    )
    rotate_seconds: WholeNumber = Field(30 * _DAY, description="Age of the newest key at which another one is made.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: WholeNumber = Field(8001, description="Port to listen on; 0 takes a free one.")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> Self:
        """Reads the settings and checks the combination.

        Args:
            environ: Instead of the process environment, for tests.
            **overrides: Values of the command line; None is not given.

        Raises:
            SettingsError: A value is missing or not what it must be.
        """
        settings = super().from_env(environ, **overrides)
        settings.check()
        return settings

    def check(self) -> None:
        """Checks the combination.

        Raises:
            SettingsError: It is incomplete, or a rotation would cut off sessions that are still valid.
        """
        if not self.url:
            raise missing_value("ISSUER_URL", "Set it to the address of the edge, such as https://corpus.example.org")
        parse_url("ISSUER_URL", self.url)
        if not 1 <= self.session_seconds <= _DAY:
            raise SettingsError(
                f"ISSUER_SESSION_SECONDS is {self.session_seconds}", remedy=f"Set it to a number from 1 to {_DAY}"
            )
        if self.rotate_seconds <= self.publish_seconds + self.session_seconds + CLOCK_SKEW_SECONDS:
            raise SettingsError(
                "ISSUER_ROTATE_SECONDS is too short: a key must be published, sign, and outlive its last session",
                remedy="Set it above ISSUER_PUBLISH_SECONDS + ISSUER_SESSION_SECONDS",
            )
