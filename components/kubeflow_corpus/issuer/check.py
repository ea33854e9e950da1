"""What an installation asks of its issuer: a session, and the keys that verify it."""

from __future__ import annotations

import time
from typing import Final

import jwt
import requests

from kubeflow_corpus.errors import ClusterError
from kubeflow_corpus.issuer.app import KEYS_PATH, SESSION_PATH
from kubeflow_corpus.issuer.keys import ALGORITHM

_TIMEOUT_SECONDS: Final = 10


def check_issuer(url: str) -> str:
    """Asks for a session and verifies it.

    Args:
        url: Address of the issuer.

    Returns:
        One line that says how long the session lasts.

    Raises:
        ClusterError: There is no answer, or the session is not signed by a published key.
    """
    try:
        answer = requests.post(f"{url}{SESSION_PATH}", timeout=_TIMEOUT_SECONDS)
        answer.raise_for_status()
        token = str(answer.json()["access_token"])
        published = requests.get(f"{url}{KEYS_PATH}", timeout=_TIMEOUT_SECONDS)
        published.raise_for_status()
        keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(published.json()).keys}
        key = keys[jwt.get_unverified_header(token)["kid"]]
        claims = jwt.decode(token, key, algorithms=[ALGORITHM], options={"verify_aud": False})
    except (requests.RequestException, jwt.PyJWTError, ValueError, KeyError) as error:
        raise ClusterError(
            f"The issuer at {url} gave no session that its keys verify: {type(error).__name__}: {error}",
            remedy="Look at the pods `issuer` and at the last Job `key-rotation`",
        ) from error
    return f"a session of {claims['exp'] - round(time.time())} s, signed by {key.key_id}"
