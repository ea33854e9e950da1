"""One HTTP exchange with a model service: pooled connections, bounded answers, no redirects, no secret in an error."""

from __future__ import annotations

import json
import math
import time
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase

from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.settings import Secret

CONNECT_SECONDS: Final = 10.0
# An answer is read in pieces, so that an endless one is noticed before it fills the memory.
_PIECE: Final = 1 << 20
_EXCERPT: Final = 200
_UNREAD: Final = object()


class NoAnswer(Exception):
    """The exchange did not end with an answer.

    Attributes:
        lost: Whether an open connection was lost (rather than a name, a port or a deadline failing).
    """

    def __init__(self, cause: str, *, lost: bool) -> None:
        super().__init__(cause)
        self.lost = lost


class HttpAnswer:
    """A status and a body.

    Attributes:
        status: Status code.
        body: The body, whole.
        retry_after: Seconds that the service asks to wait; 0 if it does not ask.
    """

    __slots__ = ("_value", "body", "retry_after", "status")

    def __init__(self, status: int, body: bytes, retry_after: float = 0.0) -> None:
        self.status, self.body, self.retry_after = status, body, retry_after
        self._value: Any = _UNREAD

    def json(self) -> Any:
        """Returns the body as JSON, parsed once; None if it is not JSON."""
        if self._value is _UNREAD:
            try:
                self._value = json.loads(self.body)
            except (ValueError, RecursionError):
                self._value = None
        return self._value

    @property
    def message(self) -> str:
        """What the service says about an error, short and in one line."""
        data = self.json()
        text = data.get("error", "") if isinstance(data, dict) else self.body[: 4 * _EXCERPT].decode("utf-8", "replace")
        return " ".join(str(text).split())[:_EXCERPT]


class HttpService:
    """A model service at a base URL. May be used from many threads.

    Args:
        url: Base URL. Credentials in it are used and never shown.
        api_key: Bearer token.
        connections: Connections that are kept open.

    Raises:
        SettingsError: The URL is not valid.
    """

    def __init__(self, url: str, *, api_key: Secret, connections: int) -> None:
        self._url = url.rstrip("/")
        self.shown_url = _without_credentials(self._url)
        self._session = requests.Session()
        adapter = HTTPAdapter(pool_connections=1, pool_maxsize=connections)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        self._session.headers.update({"Accept": "application/json", "Accept-Encoding": "identity"})
        # Credentials in the URL are left to requests, which finds them where no auth object is given.
        self._auth = None if self._url != self.shown_url and not api_key else _Bearer(api_key)
        # Proxies and certificates of the environment, looked up once instead of for every batch.
        self._environment = self._session.merge_environment_settings(self._url, {}, None, None, None)
        self._environment["stream"] = True

    def get(self, path: str, *, timeout: float, limit: int) -> HttpAnswer:
        """Sends a GET; see `post`."""
        return self._exchange("GET", path, None, timeout, limit)

    def post(self, path: str, body: bytes, *, timeout: float, limit: int) -> HttpAnswer:
        """Sends a POST with a JSON body.

        Args:
            path: Path below the base URL.
            body: JSON, UTF-8.
            timeout: Seconds for the whole exchange.
            limit: Bytes that an answer may have.

        Returns:
            Whatever the service answered, redirects included.

        Raises:
            NoAnswer: It did not answer, or the connection was lost.
        """
        return self._exchange("POST", path, body, timeout, limit)

    def close(self) -> None:
        """Closes the kept connections; a later exchange opens new ones."""
        self._session.close()

    def _exchange(self, method: str, path: str, body: bytes | None, timeout: float, limit: int) -> HttpAnswer:
        deadline = time.monotonic() + timeout
        headers = {"Content-Type": "application/json"} if body is not None else {}
        request = requests.Request(method, self._url + path, data=body, headers=headers, auth=self._auth)
        try:
            response = self._session.send(
                self._session.prepare_request(request),
                timeout=(min(CONNECT_SECONDS, timeout), timeout),
                allow_redirects=False,
                **self._environment,
            )
            with response:
                data = _read(response, limit, deadline)
        except requests.Timeout as error:
            raise NoAnswer(f"no answer within {timeout:.3g} s", lost=False) from error
        except requests.RequestException as error:
            raise NoAnswer(_cause(error), lost=_is_lost(error)) from error
        return HttpAnswer(response.status_code, data, _retry_after(response.headers.get("Retry-After", "")))


class _Bearer(AuthBase):
    """Sets the token, if there is one: without an auth object, requests would look for one in a .netrc file."""

    def __init__(self, key: Secret) -> None:
        self._key = key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if not self._key:
            return request
        request.headers["Authorization"] = f"Bearer {self._key.reveal()}"
        return request


def _read(response: requests.Response, limit: int, deadline: float) -> bytes:
    pieces, size = [], 0
    for piece in response.iter_content(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise NoAnswer(f"an answer of more than {limit:,} bytes", lost=False)
        if time.monotonic() > deadline:
            raise NoAnswer("an answer that does not end", lost=False)
    return b"".join(pieces)


def _innermost(error: BaseException) -> BaseException:
    """Returns the innermost reason: requests wraps urllib3, which wraps the socket's error."""
    seen = {id(error)}
    while True:
        inner = getattr(error, "reason", None) or error.__cause__ or error.__context__
        if not isinstance(inner, BaseException):
            inner = next((item for item in error.args if isinstance(item, BaseException)), None)
        if inner is None or id(inner) in seen:
            return error
        seen.add(id(inner))
        error = inner


def _cause(error: BaseException) -> str:
    root = _innermost(error)
    # An error of requests itself (an OSError, too) may spell out the URL, and with it a password.
    shown = isinstance(root, OSError) and not isinstance(root, requests.RequestException)
    return (str(root) if shown else "") or type(root).__name__


def _is_lost(error: BaseException) -> bool:
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return True
    root = _innermost(error)
    return isinstance(root, ConnectionError) and not isinstance(root, ConnectionRefusedError)


def _retry_after(value: str) -> float:
    """Returns the seconds that a Retry-After header asks for, a number or a date; 0 for anything else."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError):
            return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def _without_credentials(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise SettingsError(
            f"{url.rpartition('@')[2]!r} is not the URL of a service", remedy="Set it to a URL such as http://host:8080"
        )
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))
