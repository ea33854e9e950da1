from __future__ import annotations

import jwt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.issuer.app import make_token
from kubeflow_corpus.issuer.keys import SUFFIX, key_set, made_at, make_key, read_key, read_keys, rotated, signing_key
from kubeflow_corpus.issuer.settings import CLOCK_SKEW_SECONDS, IssuerSettings

NOW = 1_764_500_000.0
HOUR = 3600
SETTINGS = IssuerSettings(
    url="https://corpus.example.org", session_seconds=HOUR, publish_seconds=HOUR, rotate_seconds=24 * HOUR
)


def verifies(token: str, keys: dict[str, object]) -> bool:
    """As a verifier does that knows the key set only."""
    kid = jwt.get_unverified_header(token)["kid"]
    for entry in keys["keys"]:
        if entry["kid"] == kid:
            public = jwt.PyJWK(entry).key
            jwt.decode(token, public, ["ES256"], audience="kubeflow-corpus", options={"verify_exp": False})
            return True
    return False


def test_a_name_says_when_its_key_was_made() -> None:
    name, _ = make_key(NOW)
    assert made_at(name) == NOW
    for wrong in ("", "key", "20261130T120000Z", "20261399T120000Z-aaaaaa", name + "x"):
        with pytest.raises(SettingsError):
            made_at(wrong)


def test_what_is_not_a_key_is_refused_without_being_quoted() -> None:
    name, pem = make_key(NOW)
    rsa = b"-----BEGIN PRIVATE KEY-----\nTOPSECRET\n-----END PRIVATE KEY-----\n"
    for content in (b"", b"TOPSECRET", rsa, pem[:60]):
        with pytest.raises(SettingsError) as caught:
            read_key(name, content)
        assert "TOPSECRET" not in str(caught.value) and caught.value.__cause__ is None


def test_the_key_set_holds_no_private_part() -> None:
    keys = read_keys({f"{name}{SUFFIX}": pem for name, pem in [make_key(NOW)]})
    (entry,) = key_set(keys)["keys"]
    assert entry.keys() == {"kty", "crv", "alg", "use", "kid", "x", "y"}


def test_a_new_key_is_published_for_a_while_before_it_signs() -> None:
    keys = read_keys({f"{name}{SUFFIX}": pem for name, pem in (make_key(NOW), make_key(NOW + 100 * HOUR))})
    old, new = keys
    assert signing_key(keys, NOW + 100 * HOUR, HOUR) is old
    assert signing_key(keys, NOW + 101 * HOUR - 1, HOUR) is old
    assert signing_key(keys, NOW + 101 * HOUR, HOUR) is new


def test_the_first_key_signs_at_once() -> None:
    keys = read_keys({f"{name}{SUFFIX}": pem for name, pem in [make_key(NOW)]})
    assert signing_key(keys, NOW, HOUR) is keys[0]


def test_a_rotation_that_comes_too_early_changes_nothing() -> None:
    first = rotated({}, NOW, SETTINGS)
    assert len(first) == 1
    assert rotated(first, NOW + 23 * HOUR, SETTINGS) == first


def test_an_old_key_is_dropped_when_its_last_session_has_ended() -> None:
    first = rotated({}, NOW, SETTINGS)
    both = rotated(first, NOW + 24 * HOUR, SETTINGS)
    assert len(both) == 2 and first.items() <= both.items()
    needed = 24 * HOUR + 2 * HOUR + CLOCK_SKEW_SECONDS
    assert rotated(both, NOW + needed - 1, SETTINGS) == both
    assert rotated(both, NOW + needed, SETTINGS).keys() == both.keys() - first.keys()


@settings(max_examples=15, deadline=None)
@given(
    steps=st.lists(st.integers(min_value=60, max_value=40 * HOUR), min_size=1, max_size=12),
    cache=st.integers(min_value=0, max_value=HOUR),
)
def test_no_session_is_cut_off_whenever_rotations_happen(steps: list[int], cache: int) -> None:
    """Tokens of every moment verify until they end, also at verifiers whose copy of the key set is `cache` old."""
    stored: dict[str, bytes] = rotated({}, NOW, SETTINGS)
    at, published, tokens = NOW, [(NOW - HOUR, stored)], []
    for step in steps:
        at += step
        tokens.append((make_token(read_keys(stored), SETTINGS, at), at))
        stored = rotated(stored, at, SETTINGS)
        published.append((at, stored))
        known = next(keys for since, keys in reversed(published) if since <= at - cache)
        for (token, end), _ in tokens:
            if at < end:
                assert verifies(token, key_set(read_keys(known)))
        assert len(stored) <= 3


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "ISSUER_URL is not set"),
        ({"ISSUER_URL": "corpus.example.org"}, "ISSUER_URL is not an http"),
        ({"ISSUER_URL": "https://a", "ISSUER_SESSION_SECONDS": "-1"}, "ISSUER_SESSION_SECONDS is not a whole number"),
        ({"ISSUER_URL": "https://a", "ISSUER_SESSION_SECONDS": "90000"}, "ISSUER_SESSION_SECONDS is 90000"),
        ({"ISSUER_URL": "https://a", "ISSUER_ROTATE_SECONDS": "3600"}, "ISSUER_ROTATE_SECONDS is too short"),
    ],
)
def test_a_wrong_setting_is_named(environment: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        IssuerSettings.from_env(environment)
