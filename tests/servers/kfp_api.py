"""A local HTTP server that speaks the v2beta1 endpoints of Kubeflow Pipelines that `submit` and `schedule` use.

Bodies and answers are the SDK's own models: what they refuse, it refuses, and a reference to a thing that is not there
is an error as on a real server.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kfp_server_api
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2
from ruamel.yaml import YAML

_API = "/apis/v2beta1"


class Refused(Exception):
    """An answer with an error: status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class KfpApi:
    """What the server holds, as the JSON of its API.

    Attributes:
        token: Bearer token that it wants; empty is none.
        page_size: The most that one page of a list holds.
        final_status: Whether it can start a task however another ended: old servers cannot.
        url: Where it listens.
        calls: Method and path of every call, in order.
    """

    token: str = ""
    page_size: int = 2
    final_status: bool = True
    url: str = ""
    pipelines: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, dict[str, Any]] = field(default_factory=dict)
    experiments: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    recurring_runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    specs: dict[str, Any] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    _made: int = 0

    def new_id(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{self._made:04d}"

    def answer(self, method: str, path: str, query: dict[str, str], body: bytes, headers: Any) -> dict[str, Any]:
        """Answers one call."""
        self.calls.append(f"{method} {path}")
        if self.token and headers.get("authorization") != f"Bearer {self.token}":
            raise Refused(401, "Unauthenticated: Request header error: there is no user identity header.")
        parts = path.removeprefix(_API).strip("/").split("/")
        match (method, parts):
            case ("GET", ["pipelines"]):
                return self._list("pipelines", self.pipelines, query)
            case ("POST", ["pipelines", "upload"]):
                return self._upload_pipeline(query, body, headers)
            case ("POST", ["pipelines", "upload_version"]):
                return self._upload_version(query, body, headers)
            case ("GET", ["pipelines", pipeline, "versions"]):
                own = {key: item for key, item in self.versions.items() if item["pipeline_id"] == pipeline}
                return self._list("pipeline_versions", own, query)
            case ("GET", ["experiments"]):
                return self._list("experiments", self.experiments, query)
            case ("POST", ["experiments"]):
                return self._create(self.experiments, "experiment", _model(body, "V2beta1Experiment"))
            case ("POST", ["runs"]):
                return self._create(self.runs, "run", self._checked(_model(body, "V2beta1Run")))
            case ("GET", ["recurringruns"]):
                wanted = query.get("experiment_id", "")
                own = {
                    key: item
                    for key, item in self.recurring_runs.items()
                    if not wanted or item["experiment_id"] == wanted
                }
                return self._list("recurringRuns", own, query)
            case ("POST", ["recurringruns"]):
                return self._create_recurring(_model(body, "V2beta1RecurringRun"))
            case ("DELETE", ["recurringruns", key]):
                if self.recurring_runs.pop(key, None) is None:
                    raise Refused(404, f"ResourceNotFoundError: Job {key} not found.")
                return {}
        raise Refused(404, f"no such endpoint: {method} {path}")

    def _list(self, name: str, items: dict[str, dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
        chosen = list(items.values())
        for predicate in json.loads(query.get("filter", "{}")).get("predicates", []):
            if predicate["operation"] != "EQUALS" or predicate["key"] != "display_name":
                raise Refused(400, f"unsupported filter {predicate}")
            chosen = [item for item in chosen if item["display_name"] == predicate["stringValue"]]
        start = int(query.get("page_token") or 0)
        end = start + min(int(query.get("page_size") or self.page_size), self.page_size)
        token = str(end) if end < len(chosen) else ""
        return {name: chosen[start:end], "total_size": len(chosen), "next_page_token": token}

    def _create(self, items: dict[str, dict[str, Any]], kind: str, item: dict[str, Any]) -> dict[str, Any]:
        if not item.get("display_name"):
            raise Refused(400, f"InvalidInputError: The {kind} has no name.")
        key = self.new_id(kind)
        items[key] = {**item, f"{kind}_id": key}
        return items[key]

    def _checked(self, item: dict[str, Any]) -> dict[str, Any]:
        reference = item.get("pipeline_version_reference") or {}
        version = self.versions.get(reference.get("pipeline_version_id", ""))
        if version is None or version["pipeline_id"] != reference.get("pipeline_id"):
            raise Refused(400, "InvalidInputError: Failed to fetch a template with an invalid pipeline version.")
        if item.get("experiment_id") not in self.experiments:
            raise Refused(404, f"ResourceNotFoundError: Experiment {item.get('experiment_id')} not found.")
        known = set(self.specs[version["pipeline_version_id"]].root.input_definitions.parameters)
        unknown = set((item.get("runtime_config") or {}).get("parameters") or {}) - known
        if unknown:
            raise Refused(400, f"InvalidInputError: unknown parameter {sorted(unknown)[0]}")
        if not self.final_status and "task_final_status" in str(self.specs[version["pipeline_version_id"]]):
            cause = "failed to add implicit deps: task final status not supported yet"
            raise Refused(500, f'Internal error: compiling DAG "root": {cause}')
        return item

    def _create_recurring(self, item: dict[str, Any]) -> dict[str, Any]:
        self._checked(item)
        cron = item.get("trigger", {}).get("cron_schedule", {}).get("cron", "")
        if len(cron.split()) != 6:
            raise Refused(400, f"InvalidInputError: Schedule cron is not supported: {cron!r}")
        if not 1 <= int(item.get("max_concurrency") or 0) <= 10:
            raise Refused(
                400, "InvalidInputError: Max concurrency of the recurring run must be at least 1 and at most 10"
            )
        if item.get("mode") not in ("ENABLE", "DISABLE"):
            raise Refused(400, f"InvalidInputError: unknown mode {item.get('mode')!r}")
        return self._create(self.recurring_runs, "recurring_run", item)

    def _upload_pipeline(self, query: dict[str, str], body: bytes, headers: Any) -> dict[str, Any]:
        name = query.get("display_name") or query.get("name", "")
        if any(item["display_name"] == name for item in self.pipelines.values()):
            raise Refused(409, f"AlreadyExistError: The pipeline name {name} already exists.")
        spec = _uploaded_spec(body, headers)
        created = self._create(self.pipelines, "pipeline", {"display_name": name})
        self._add_version(created["pipeline_id"], name, spec)
        return created

    def _upload_version(self, query: dict[str, str], body: bytes, headers: Any) -> dict[str, Any]:
        pipeline, name = query.get("pipelineid", ""), query.get("display_name") or query.get("name", "")
        if pipeline not in self.pipelines:
            raise Refused(404, f"ResourceNotFoundError: Pipeline {pipeline} not found.")
        if any(item["pipeline_id"] == pipeline and item["display_name"] == name for item in self.versions.values()):
            raise Refused(409, f"AlreadyExistError: The pipeline version {name} already exists.")
        return self._add_version(pipeline, name, _uploaded_spec(body, headers))

    def _add_version(self, pipeline: str, name: str, spec: Any) -> dict[str, Any]:
        made = self._create(self.versions, "pipeline_version", {"display_name": name, "pipeline_id": pipeline})
        self.specs[made["pipeline_version_id"]] = spec
        return made


def _model(body: bytes, name: str) -> dict[str, Any]:
    """Reads a body through the SDK's model, which refuses what it does not know, and gives its JSON form."""
    client = kfp_server_api.ApiClient(kfp_server_api.Configuration())
    data = json.loads(body)
    model = getattr(kfp_server_api, name)
    unknown = set(data) - set(model.attribute_map.values())
    if unknown:
        raise Refused(400, f"InvalidInputError: unknown field {sorted(unknown)[0]}")
    read: Any = client._ApiClient__deserialize(data, name)
    return dict(client.sanitize_for_serialization(read))


def _uploaded_spec(body: bytes, headers: Any) -> Any:
    """Reads the YAML in a multipart body as a pipeline specification."""
    head = f"Content-Type: {headers['content-type']}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + body)
    payload = next(part.get_payload(decode=True) for part in message.iter_parts())
    documents = list(YAML(typ="safe").load_all(payload))
    try:
        return json_format.ParseDict(documents[0], pipeline_spec_pb2.PipelineSpec())
    except json_format.ParseError as error:
        raise Refused(400, f"InvalidInputError: invalid v2 pipeline spec: {error}") from error


@contextmanager
def kfp_api(token: str = "") -> Iterator[KfpApi]:
    """Serves the API on a loopback port for a `with` block."""
    state = KfpApi(token=token)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            try:
                with lock:
                    status, answer = 200, state.answer(self.command, url.path, query, body, self.headers)
            except Refused as refused:
                status, answer = refused.status, {"code": 3, "message": str(refused), "details": []}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
