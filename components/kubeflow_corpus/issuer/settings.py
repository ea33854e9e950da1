"""What the issuer reads from its environment, in one table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from kubeflow_corpus.errors import SettingsError

_HOUR: Final = 3_600
_DAY: Final = 24 * _HOUR
# Verifiers accept a token this much after its end (RFC 7519 allows "some small leeway").
CLOCK_SKEW_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class IssuerSettings:
    """Whose sessions, for whom, for how long, and when keys change.

    Each attribute is an environment variable: ``ISSUER_`` and the attribute's name in capitals.

    Attributes:
        url: ``iss`` of every token: the address of the edge.
        audience: ``aud`` of every token.
        keys_folder: Where the private keys are, a PEM file each; on a cluster a mounted Secret.
        session_seconds: Life of a session.
        publish_seconds: How long a new key is published before it signs: longer than verifiers cache the key set
            (istiod reads it every 20 minutes).
        rotate_seconds: Age of the newest key at which another one is made.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
    """

    url: str = ""
    audience: str = "kubeflow-corpus"
    keys_folder: str = "/etc/kubeflow-corpus/session-keys"
    session_seconds: int = _HOUR
    publish_seconds: int = _HOUR
    rotate_seconds: int = 30 * _DAY
    host: str = "127.0.0.1"
    port: int = 8001

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> IssuerSettings:
        """Reads the settings.

        Args:
            environ: Instead of the process environment, for tests.
            **overrides: Values of the command line; None is not given.

        Raises:
            SettingsError: A value is missing or cannot be what it is meant to be.
        """
        env = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        for item in fields(cls):
            name = f"ISSUER_{item.name.upper()}"
            text = env.get(name, "").strip()
            if text:
                values[item.name] = _whole_number(name, text) if isinstance(item.default, int) else text
        settings = cls(**(values | {name: value for name, value in overrides.items() if value is not None}))
        settings.check()
        return settings

    def check(self) -> None:
        """Checks the combination.

        Raises:
            SettingsError: It is incomplete, or a rotation would cut off sessions that still run.
        """
        if not self.url.startswith(("https://", "http://")):
            raise SettingsError(
                f"ISSUER_URL is not an http(s) URL: {self.url!r}" if self.url else "ISSUER_URL is not set",
                remedy="Set it to the address of the edge, such as https://corpus.example.org",
                setting="ISSUER_URL",
            )
        if not 1 <= self.session_seconds <= _DAY:
            raise SettingsError(
                f"ISSUER_SESSION_SECONDS is {self.session_seconds}", remedy=f"Set it to a number from 1 to {_DAY}"
            )
        if self.rotate_seconds <= self.publish_seconds + self.session_seconds + CLOCK_SKEW_SECONDS:
            raise SettingsError(
                "ISSUER_ROTATE_SECONDS is too short: a key must be published, sign, and outlive its last session",
                remedy="Set it above ISSUER_PUBLISH_SECONDS + ISSUER_SESSION_SECONDS",
            )


def _whole_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise SettingsError(f"{name} is not a whole number: {text!r}", remedy=f"Set {name} to a number", setting=name)
    return int(text)
