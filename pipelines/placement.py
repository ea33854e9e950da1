"""What a task needs of a machine, and which secrets it may see: one table, applied to every task of every graph."""

from dataclasses import dataclass
from typing import Final

from kfp import kubernetes
from kfp.dsl import PipelineTask

# Objects in the namespace of the runs. Every key is optional: a step that needs one names it in its error.
SECRET: Final = "kubeflow-corpus-secrets"
CONFIG_MAP: Final = "kubeflow-corpus-config"
CATALOGUE_CONFIG_MAP: Final = "kubeflow-corpus-catalogue"
CATALOGUE_FOLDER: Final = "/etc/kubeflow-corpus"

MILVUS_SECRETS: Final = ("MILVUS_TOKEN", "MILVUS_USER", "MILVUS_PASSWORD")
MILVUS_CONFIG: Final = ("MILVUS_URI", "MILVUS_DATABASE", "COLLECTION_PREFIX", "DENSE_INDEX")
EMBEDDING_SECRETS: Final = ("EMBEDDINGS_API_KEY",)
EMBEDDING_CONFIG: Final = ("EMBEDDINGS_URL", "EMBEDDING_QUERY_PREFIX", "EMBEDDING_DOCUMENT_PREFIX")

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE


@dataclass(frozen=True, slots=True)
class Policy:
    """How one step runs on a cluster.

    Attributes:
        cached: Whether its result may be taken from an earlier run with the same inputs and image.
        cpu: Processor request.
        memory: Memory request; the limit is `memory_limit`.
        memory_limit: More than the step ever needs: above it something is wrong.
        timeout: Seconds after which its pod is ended.
        retries: How often a lost or crashed pod is started again. Errors that a step understands are passed on to
            the report instead and are not retried.
        secrets: Keys of the Secret that it sees, under the same names.
        config: Keys of the ConfigMap that it sees, under the same names.
        catalogue: Whether it reads the catalogue, or the question set that is mounted beside it.
    """

    cached: bool = False
    cpu: str = "250m"
    memory: str = "256Mi"
    memory_limit: str = "1Gi"
    timeout: int = 10 * _MINUTE
    retries: int = 2
    secrets: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    catalogue: bool = False


# A write is never cached, nor is what looks at the world outside. What is fetched is cached by commit.
POLICIES: Final[dict[str, Policy]] = {
    "list-sources": Policy(catalogue=True),
    "describe-model": Policy(secrets=EMBEDDING_SECRETS, config=EMBEDDING_CONFIG),
    "read-state": Policy(secrets=MILVUS_SECRETS, config=MILVUS_CONFIG),
    "resolve-revision": Policy(secrets=("GITHUB_TOKEN",), config=("GITHUB_API_URL",), catalogue=True),
    "fetch": Policy(
        cached=True,
        memory="512Mi",
        timeout=2 * _HOUR,
        secrets=("GITHUB_TOKEN",),
        config=("GITHUB_API_URL",),
        catalogue=True,
    ),
    # Threads change without a commit.
    "fetch-threads": Policy(
        memory="512Mi",
        timeout=6 * _HOUR,
        secrets=("GITHUB_TOKEN",),
        config=("GITHUB_API_URL",),
        catalogue=True,
    ),
    "chunk": Policy(cached=True, cpu="1", memory="512Mi", timeout=_HOUR),
    "plan": Policy(memory="512Mi", timeout=_HOUR, secrets=MILVUS_SECRETS, config=MILVUS_CONFIG),
    "embed": Policy(cpu="1", memory="512Mi", timeout=6 * _HOUR, secrets=EMBEDDING_SECRETS, config=EMBEDDING_CONFIG),
    "apply": Policy(memory="512Mi", timeout=2 * _HOUR, secrets=MILVUS_SECRETS, config=MILVUS_CONFIG),
    "evaluate": Policy(
        memory="512Mi",
        timeout=_HOUR,
        secrets=(*MILVUS_SECRETS, *EMBEDDING_SECRETS),
        config=(*MILVUS_CONFIG, *EMBEDDING_CONFIG),
        catalogue=True,
    ),
    "publish": Policy(timeout=_HOUR, secrets=MILVUS_SECRETS, config=MILVUS_CONFIG),
    # The report raises on purpose: to try it again would only say it twice.
    "report": Policy(retries=0, secrets=("NOTIFY_WEBHOOK_URL",)),
    "report-corpus": Policy(retries=0, secrets=("NOTIFY_WEBHOOK_URL",)),
    "notify-crash": Policy(secrets=("NOTIFY_WEBHOOK_URL",)),
}


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a graph runs.

    Attributes:
        image: Image of every step, by digest; empty is the local runner, which starts processes.
        parallel: How many sources, and how many shards, are worked on at a time.
        crash_notice: Whether a task notifies of steps that ended early: one more pod per collection. Not on this
            machine, where the program that starts the steps sees that and notifies.
    """

    image: str = ""
    parallel: int = 4
    crash_notice: bool = True

    def place(self, task: PipelineTask) -> PipelineTask:
        """Applies the policy of a task's step."""
        name = task.component_spec.name
        policy = POLICIES[name]
        task.set_caching_options(policy.cached)
        if not self.image:
            return task
        task.set_container_image(self.image)
        task.set_cpu_request(policy.cpu)
        task.set_memory_request(policy.memory).set_memory_limit(policy.memory_limit)
        if policy.retries:
            task.set_retry(policy.retries, backoff_duration="30s", backoff_factor=2, backoff_max_duration="600s")
        kubernetes.set_timeout(task, policy.timeout)
        kubernetes.set_security_context(task, run_as_non_root=True)
        for key in policy.secrets:
            kubernetes.use_secret_as_env(task, SECRET, {key: key}, optional=True)
        for key in policy.config:
            kubernetes.use_config_map_as_env(task, CONFIG_MAP, {key: key}, optional=True)
        if policy.catalogue:
            kubernetes.use_config_map_as_volume(task, CATALOGUE_CONFIG_MAP, CATALOGUE_FOLDER, optional=True)
        return task
