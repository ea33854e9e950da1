"""Signing keys: their names, which one signs, which are published, and when they are made and dropped.

A key's name is its age: ``20261130T120000Z-1f3a9c``. So every replica that sees the same folder or Secret decides the
same, with no state of its own.

::

    made ──publish_seconds──> signs ──(until the next one signs)──> verifies ──session_seconds──> dropped
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.issuer.settings import CLOCK_SKEW_SECONDS, IssuerSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

ALGORITHM: Final = "ES256"
SUFFIX: Final = ".pem"
_STAMP: Final = "%Y%m%dT%H%M%SZ"
_NAME: Final = re.compile(r"(\d{8}T\d{6}Z)-[0-9a-f]{6}")
_COORDINATE_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Key:
    """A private key on the curve P-256.

    Attributes:
        name: Its ``kid``.
        private: The key itself; never logged, never served.
    """

    name: str
    private: EllipticCurvePrivateKey


def made_at(name: str) -> float:
    """Returns when a key was made, in seconds since 1970.

    Raises:
        SettingsError: The name does not contain a time.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise SettingsError(
            f"The session key {name!r} has an invalid name",
            remedy="Keys are made by `kubeflow-corpus issuer rotate`; remove what something else put there",
        )
    try:
        return datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError as error:
        raise SettingsError(f"The session key {name!r} has an invalid date", remedy="Remove it") from error


def make_key(now: float) -> tuple[str, bytes]:
    """Returns the name and the PEM (PKCS #8) of a new key."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    name = f"{datetime.fromtimestamp(now, UTC).strftime(_STAMP)}-{secrets.token_hex(3)}"
    private = ec.generate_private_key(ec.SECP256R1())
    return name, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def read_key(name: str, pem: bytes) -> Key:
    """Reads a key.

    Raises:
        SettingsError: It is not a P-256 private key, or its name is wrong. The message does not contain the key.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    made_at(name)
    try:
        private = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        private = None
    if not isinstance(private, ec.EllipticCurvePrivateKey) or private.curve.name != "secp256r1":
        # Without the cause: parsers of keys often quote what they could not read.
        raise SettingsError(
            f"The session key {name!r} is not a P-256 private key in PEM",
            remedy="Run `kubeflow-corpus issuer rotate` after removing it",
        ) from None
    return Key(name, private)


def read_keys(stored: Mapping[str, bytes]) -> tuple[Key, ...]:
    """Reads stored keys (file name to PEM), the oldest first."""
    names = sorted(name for name in stored if name.endswith(SUFFIX))
    return tuple(read_key(name.removesuffix(SUFFIX), stored[name]) for name in names)


def signing_key(keys: Sequence[Key], now: float, publish_seconds: int) -> Key:
    """Returns the newest key that verifiers have had time to learn; in a new installation, the first one.

    Args:
        keys: The oldest first, at least one.
        now: Seconds since 1970.
        publish_seconds: How long a key is published before it signs.
    """
    known = [key for key in keys if now - made_at(key.name) >= publish_seconds]
    return known[-1] if known else keys[0]


def key_set(keys: Iterable[Key]) -> dict[str, Any]:
    """Returns the public keys as a JSON Web Key Set (RFC 7517)."""
    return {"keys": [_public(key) for key in keys]}


def _public(key: Key) -> dict[str, str]:
    numbers = key.private.public_key().public_numbers()
    return {
        "kty": "EC",
        "crv": "P-256",
        "alg": ALGORITHM,
        "use": "sig",
        "kid": key.name,
        "x": _base64url(numbers.x),
        "y": _base64url(numbers.y),
    }


def _base64url(number: int) -> str:
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(number.to_bytes(_COORDINATE_BYTES, "big")).rstrip(b"=").decode()


def rotated(stored: Mapping[str, bytes], now: float, settings: IssuerSettings) -> dict[str, bytes]:
    """Returns what should be stored: a new key when it is time, without the keys that no session needs any more.

    Args:
        stored: File name to PEM.
        now: Seconds since 1970.
        settings: When keys change.
    """
    names = sorted(name for name in stored if name.endswith(SUFFIX))
    ages = {name: now - made_at(name.removesuffix(SUFFIX)) for name in names}
    # A key is needed until the one after it has signed for as long as a session lives.
    needed_after = settings.publish_seconds + settings.session_seconds + CLOCK_SKEW_SECONDS
    kept = [name for name, after in pairwise(names) if ages[after] < needed_after] + names[-1:]
    result = {name: stored[name] for name in kept}
    if not names or ages[names[-1]] >= settings.rotate_seconds:
        name, pem = make_key(now)
        result[f"{name}{SUFFIX}"] = pem
    return result
