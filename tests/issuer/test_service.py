from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
import uvicorn
from kubeflow_corpus.cli import main as cli
from kubeflow_corpus.errors import KeyStoreError
from kubeflow_corpus.issuer import stores
from kubeflow_corpus.issuer.app import KEYS_PATH, SESSION_PATH, Keyring, build_app
from kubeflow_corpus.issuer.keys import made_at, make_key
from kubeflow_corpus.issuer.settings import IssuerSettings
from kubeflow_corpus.issuer.stores import FolderStore, SecretStore
from starlette.testclient import TestClient

SETTINGS = IssuerSettings(url="https://corpus.example.org")


def service(folder: Path, clock: list[float] | None = None) -> TestClient:
    tick = (lambda: clock[0]) if clock else None
    keyring = Keyring(FolderStore(folder), tick) if tick else Keyring(FolderStore(folder))
    return TestClient(build_app(SETTINGS, keyring))


def rotate(folder: Path, *more: str) -> int:
    return cli.main(["issuer", "rotate", "--folder", str(folder), *more])


def test_a_session_verifies_against_the_published_keys_and_names_nobody(tmp_path: Path) -> None:
    assert rotate(tmp_path / "keys") == 0
    client = service(tmp_path / "keys")
    answer = client.post(SESSION_PATH)
    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
    assert answer.json()["token_type"] == "Bearer" and 3599 <= answer.json()["expires_in"] <= 3600
    (key,) = jwt.PyJWKSet.from_dict(client.get(KEYS_PATH).json()).keys
    claims = jwt.decode(
        answer.json()["access_token"],
        key.key,
        ["ES256"],
        audience="kubeflow-corpus",
        issuer="https://corpus.example.org",
    )
    assert claims.keys() == {"iss", "aud", "sub", "iat", "exp", "scope"}
    other = client.post(SESSION_PATH).json()["access_token"]
    assert jwt.decode(other, key.key, ["ES256"], audience="kubeflow-corpus")["sub"] != claims["sub"]


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[str]:
    app = build_app(SETTINGS, Keyring(FolderStore(tmp_path / "keys")))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        threading.Event().wait(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_an_installation_asks_whether_sessions_are_handed_out(
    issuer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["issuer", "check", issuer]) == 1
    assert "look at the pods `issuer`" in capsys.readouterr().err.lower()
    rotate(tmp_path / "keys")
    wait_for(lambda: cli.main(["issuer", "check", issuer]) == 0)
    assert ", signed by " in capsys.readouterr().out


def wait_for(done: Any) -> None:
    for _ in range(200):
        if done():
            return
        threading.Event().wait(0.1)
    raise AssertionError("it never came true")


def test_the_age_of_the_newest_key_is_a_metric(tmp_path: Path) -> None:
    client = service(tmp_path / "keys")
    assert "kubeflow_corpus_session_keys 0" in client.get("/metrics").text
    rotate(tmp_path / "keys")
    (file,) = (tmp_path / "keys").iterdir()
    said = service(tmp_path / "keys").get("/metrics").text
    assert f"kubeflow_corpus_session_key_made_timestamp_seconds {made_at(file.stem):.0f}" in said


def test_a_session_is_made_by_post_only(tmp_path: Path) -> None:
    assert service(tmp_path).get(SESSION_PATH).status_code == 405


def test_without_a_key_it_is_alive_but_not_ready(tmp_path: Path) -> None:
    client = service(tmp_path / "absent")
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 503
    assert client.post(SESSION_PATH).json()["code"] == "FAILED_PRECONDITION"
    assert client.get(KEYS_PATH).json() == {"keys": []}


def test_a_damaged_key_is_a_clear_refusal_and_shows_nothing(tmp_path: Path) -> None:
    name, _ = make_key(0)
    (tmp_path / f"{name}.pem").write_text("TOPSECRET")
    answer = service(tmp_path).post(SESSION_PATH)
    assert answer.status_code == 503 and "TOPSECRET" not in answer.text


def test_a_rotation_is_seen_without_a_restart(tmp_path: Path) -> None:
    clock = [1000.0]
    client = service(tmp_path, clock)
    assert client.get("/readyz").status_code == 503
    rotate(tmp_path)
    clock[0] += 6
    assert client.get("/readyz").status_code == 200


def test_keys_in_a_folder_are_for_their_owner_alone_and_survive_a_second_rotation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rotate(tmp_path / "keys")
    (file,) = (tmp_path / "keys").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    rotate(tmp_path / "keys")
    assert [path.name for path in (tmp_path / "keys").iterdir()] == [file.name]
    assert capsys.readouterr().out == f"made {file.stem}\nnothing to do\n"


def test_revoking_replaces_every_key(tmp_path: Path) -> None:
    rotate(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    rotate(tmp_path, "--revoke")
    after = {path.name for path in tmp_path.iterdir()}
    assert len(after) == 1 and not before & after


class Api(ThreadingHTTPServer):
    """The part of the Kubernetes API that a rotation uses, with its optimistic locking."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.secret: dict[str, Any] = {"metadata": {"name": "session-keys", "resourceVersion": "1"}}
        self.interfere = 0
        self.status = 0
        self.puts = 0


class Handler(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        self._answer(200, self.server.secret)

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.puts += 1
        held = self.server.secret["metadata"]["resourceVersion"]
        if self.server.interfere:
            self.server.interfere -= 1
            self.server.secret["metadata"]["resourceVersion"] = held + "1"
        if body["metadata"]["resourceVersion"] != self.server.secret["metadata"]["resourceVersion"]:
            self._answer(409, {"reason": "Conflict"})
            return
        body["metadata"]["resourceVersion"] = held + "0"
        self.server.secret = body
        self._answer(200, body)

    def _answer(self, status: int, body: Any) -> None:
        if self.headers["Authorization"] != "Bearer pod-token" or self.path != (
            "/api/v1/namespaces/corpus-edge/secrets/session-keys"
        ):
            status, body = 403, {"reason": "Forbidden"}
        data = json.dumps(body).encode()
        self.send_response(self.server.status or status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def pod(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SecretStore:
    (tmp_path / "token").write_text("pod-token\n")
    store = SecretStore(f"http://127.0.0.1:{api.server_port}", "corpus-edge", "session-keys", tmp_path / "token")
    monkeypatch.setattr(stores.SecretStore, "in_cluster", classmethod(lambda cls, name: store))
    return store


def test_the_secret_gets_its_first_key_and_keeps_it(api: Api, pod: SecretStore) -> None:
    assert cli.main(["issuer", "rotate", "--secret", "session-keys"]) == 0
    ((name, value),) = api.secret["data"].items()
    assert name.endswith(".pem") and base64.b64decode(value).startswith(b"-----BEGIN PRIVATE KEY-----")
    assert cli.main(["issuer", "rotate", "--secret", "session-keys"]) == 0
    assert list(api.secret["data"]) == [name] and api.puts == 1


def test_somebody_elses_change_meanwhile_is_not_overwritten(api: Api, pod: SecretStore) -> None:
    api.interfere = 1
    assert cli.main(["issuer", "rotate", "--secret", "session-keys"]) == 0
    assert api.puts == 2 and len(api.secret["data"]) == 1
    api.interfere = 99
    with pytest.raises(KeyStoreError, match="changed by another writer"):
        pod.change(lambda held: {})


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_refusal_of_kubernetes_is_one_clear_line(
    api: Api, pod: SecretStore, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    api.status = status
    assert cli.main(["issuer", "rotate", "--secret", "session-keys"]) == 1
    said = capsys.readouterr().err
    assert f"HTTP {status}" in said and said.count("\n") == 1 and "pod-token" not in said


def test_outside_a_pod_the_remedy_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert cli.main(["issuer", "rotate", "--secret", "session-keys"]) == 1
    assert "--folder" in capsys.readouterr().err
