"""A Kubeflow Pipelines server: the calls that `submit` and `schedule` need, and its errors in one line.

Uses the SDK's generated API rather than `kfp.Client`, which on creation asks a host for its health five times and
writes a context file into the home folder, which a pod does not have.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import kfp_server_api
import urllib3
from kfp_server_api.exceptions import ApiException
from kubeflow_corpus.errors import ClusterError
from kubeflow_corpus.service_settings import ServiceSettings
from kubeflow_corpus.settings import parse_url
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from pipelines.placement import KFP_RELEASES

HOST_VARIABLE: Final = "KF_PIPELINES_ENDPOINT"
TOKEN_VARIABLE: Final = "KF_PIPELINES_TOKEN"
TOKEN_FILE_VARIABLE: Final = "KF_PIPELINES_SA_TOKEN_PATH"
NAMESPACE_VARIABLE: Final = "KF_PIPELINES_NAMESPACE"

_TIMEOUT_SECONDS: Final = 60
# What servers answer that cannot start a task after another one failed.
_NO_FINAL_STATUS: Final = "task final status not supported"
_SUPPORTED: Final = f"Kubeflow Pipelines {KFP_RELEASES[0]} and later are supported"
_PAGE: Final = 100


class KfpSettings(ServiceSettings):
    """How to reach a Kubeflow Pipelines server."""

    model_config = SettingsConfigDict(env_prefix="KF_PIPELINES_")
    missing_remedy = "Set it to the address of Kubeflow Pipelines, such as http://ml-pipeline.kubeflow:8888"

    endpoint: str = Field(description="http(s) URL of the server.")
    token: SecretStr = Field(SecretStr(""), description="Bearer token; empty is the content of the token file.")
    sa_token_path: Path = Field(
        # Where Kubernetes projects the token of a ServiceAccount for this audience (as the SDK expects it).
        Path("/var/run/secrets/kubeflow/pipelines/token"),
        description="File that holds the token of a ServiceAccount.",
    )
    namespace: str = Field("", description="Profile of a multi-user server.")
    ssl_ca_certs: str = Field("", description="File of the certificate authority.")

    @field_validator("endpoint")
    @classmethod
    def _check_endpoint(cls, value: str) -> str:
        return parse_url(HOST_VARIABLE, value)

    def bearer_token(self) -> str:
        """Returns the token, read from its file where none is set; empty for a server that asks for none."""
        token = self.token.get_secret_value()
        if not token and self.sa_token_path.is_file():
            token = self.sa_token_path.read_text(encoding="utf-8").strip()
        return token


class Cluster:
    """The calls. Names are looked up first, so that running a command twice does its work once."""

    def __init__(self, settings: KfpSettings) -> None:
        configuration = kfp_server_api.Configuration(host=settings.endpoint)
        configuration.retries = urllib3.Retry(2, backoff_factor=0.5)
        if settings.ssl_ca_certs:
            configuration.ssl_ca_cert = settings.ssl_ca_certs
        if token := settings.bearer_token():
            configuration.api_key["authorization"] = token
            configuration.api_key_prefix["authorization"] = "Bearer"
        client = kfp_server_api.ApiClient(configuration)
        self._settings = settings
        self._pipelines = kfp_server_api.PipelineServiceApi(client)
        self._uploads = kfp_server_api.PipelineUploadServiceApi(client)
        self._experiments = kfp_server_api.ExperimentServiceApi(client)
        self._runs = kfp_server_api.RunServiceApi(client)
        self._recurring = kfp_server_api.RecurringRunServiceApi(client)

    def ensure_version(self, name: str, version: str, file: Path) -> Any:
        """Uploads a compiled pipeline unless this version is there, and returns the reference to it.

        Args:
            name: Name of the pipeline.
            version: Name of the version: the same for the same file.
            file: The YAML.
        """
        with self._errors():
            found = self._pipelines.pipeline_service_list_pipelines(
                filter=_named(name), namespace=self._settings.namespace or None, _request_timeout=_TIMEOUT_SECONDS
            ).pipelines
            if found:
                pipeline_id = found[0].pipeline_id
            else:
                # An upload creates a pipeline and a version of the same name; the version of this file follows.
                pipeline_id = self._uploads.upload_pipeline(
                    str(file),
                    name=name,
                    display_name=name,
                    namespace=self._settings.namespace or None,
                    _request_timeout=_TIMEOUT_SECONDS,
                ).pipeline_id
            versions = self._pipelines.pipeline_service_list_pipeline_versions(
                pipeline_id, filter=_named(version), _request_timeout=_TIMEOUT_SECONDS
            ).pipeline_versions
            uploaded = (
                versions[0]
                if versions
                else self._uploads.upload_pipeline_version(
                    str(file),
                    name=version,
                    display_name=version,
                    pipelineid=pipeline_id,
                    _request_timeout=_TIMEOUT_SECONDS,
                )
            )
        return kfp_server_api.V2beta1PipelineVersionReference(
            pipeline_id=pipeline_id, pipeline_version_id=uploaded.pipeline_version_id
        )

    def ensure_experiment(self, name: str) -> str:
        """Returns the id of an experiment, creating it where it is missing."""
        with self._errors():
            found = self._experiments.experiment_service_list_experiments(
                filter=_named(name), namespace=self._settings.namespace or None, _request_timeout=_TIMEOUT_SECONDS
            ).experiments
            if found:
                return str(found[0].experiment_id)
            experiment = kfp_server_api.V2beta1Experiment(display_name=name, namespace=self._settings.namespace or None)
            created = self._experiments.experiment_service_create_experiment(
                experiment, _request_timeout=_TIMEOUT_SECONDS
            )
            return str(created.experiment_id)

    def start_run(self, name: str, experiment_id: str, version: Any, parameters: Mapping[str, Any]) -> str:
        """Starts a run and returns its id."""
        run = kfp_server_api.V2beta1Run(
            display_name=name,
            experiment_id=experiment_id,
            pipeline_version_reference=version,
            runtime_config=kfp_server_api.V2beta1RuntimeConfig(parameters=dict(parameters)),
        )
        with self._errors():
            return str(self._runs.run_service_create_run(run, _request_timeout=_TIMEOUT_SECONDS).run_id)

    def recurring_runs(self, experiment_id: str) -> list[Any]:
        """Returns the recurring runs of an experiment."""
        with self._errors():
            return list(_pages(self._list_recurring, experiment_id))

    def _list_recurring(self, experiment_id: str, token: str) -> tuple[list[Any], str]:
        answer = self._recurring.recurring_run_service_list_recurring_runs(
            experiment_id=experiment_id,
            namespace=self._settings.namespace or None,
            page_size=_PAGE,
            page_token=token,
            _request_timeout=_TIMEOUT_SECONDS,
        )
        return answer.recurring_runs or [], answer.next_page_token or ""

    def create_recurring_run(self, recurring_run: Any) -> str:
        """Creates a recurring run and returns its id."""
        with self._errors():
            created = self._recurring.recurring_run_service_create_recurring_run(
                recurring_run, _request_timeout=_TIMEOUT_SECONDS
            )
            return str(created.recurring_run_id)

    def delete_recurring_run(self, recurring_run_id: str) -> None:
        """Deletes a recurring run; one that is gone already is fine."""
        with self._errors():
            try:
                self._recurring.recurring_run_service_delete_recurring_run(
                    recurring_run_id, _request_timeout=_TIMEOUT_SECONDS
                )
            except ApiException as error:
                if error.status != 404:
                    raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        host = self._settings.endpoint
        try:
            yield
        except ApiException as error:
            if error.status in (401, 403):
                raise ClusterError(
                    f"Kubeflow Pipelines at {host} does not accept the token (HTTP {error.status})",
                    remedy=f"Set {TOKEN_VARIABLE}, or {TOKEN_FILE_VARIABLE} to a file that holds one, and"
                    f" {NAMESPACE_VARIABLE} to a namespace that it may use",
                ) from error
            old = _NO_FINAL_STATUS in str(error.body)
            raise ClusterError(
                f"Kubeflow Pipelines at {host} refused a call: {_server_message(error)}",
                remedy=f"This server is too old: {_SUPPORTED}" if old else f"Check {HOST_VARIABLE}; {_SUPPORTED}",
            ) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ClusterError(
                f"Kubeflow Pipelines at {host} does not answer ({type(error).__name__})",
                remedy=f"Check {HOST_VARIABLE} and that the server can be reached from here",
            ) from error


def _server_message(error: ApiException) -> str:
    """Returns the message of the server in one line."""
    try:
        text = str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        text = str(error.reason)
    return f"HTTP {error.status} {' '.join(text.split())[:300]}"


def _named(name: str) -> str:
    predicate = {"operation": "EQUALS", "key": "display_name", "stringValue": name}
    return json.dumps({"predicates": [predicate]})


def _pages(load: Callable[[str, str], tuple[list[Any], str]], key: str) -> Iterator[Any]:
    token = ""
    while True:
        items, token = load(key, token)
        yield from items
        if not token:
            return
