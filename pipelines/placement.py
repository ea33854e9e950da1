"""What a task needs of a machine, and which secrets it may see: one table, applied to every task of every graph."""

from dataclasses import dataclass
from typing import Final, Literal

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

# Releases of Kubeflow Pipelines that a compiled pipeline may be for, the oldest first. A server refuses a configuration
# with a field that its release does not know, so what is compiled is for the oldest unless the caller names another.
KFP_RELEASES: Final = ("2.15", "2.16", "2.17")
# The first release that knows the security context of a step.
_SECURITY_CONTEXT_SINCE: Final = "2.16"

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
    # Asks the catalogue, the embeddings, Milvus and the hosts of the sources, one after the other.
    "begin": Policy(
        timeout=30 * _MINUTE,
        secrets=(*MILVUS_SECRETS, *EMBEDDING_SECRETS, "GITHUB_TOKEN"),
        config=(*MILVUS_CONFIG, *EMBEDDING_CONFIG, "GITHUB_API_URL"),
        catalogue=True,
    ),
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


Effect = Literal["NoExecute", "NoSchedule", "PreferNoSchedule"]


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint that the pods of steps tolerate.

    Attributes:
        key: Key of the taint.
        value: Its value; empty is every value.
        effect: Its effect; None is every effect.
    """

    key: str
    value: str = ""
    effect: Effect | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a graph runs.

    Attributes:
        image: Image of every step, by digest; empty is the local runner, which starts processes.
        parallel: How many sources, and how many shards, are worked on at a time.
        crash_notice: Whether a task notifies of steps that ended early: one more pod per collection. Not on this
            machine, where the program that starts the steps sees that and notifies.
        kfp_version: The release of the server, one of `KFP_RELEASES`; later ones take it too.
        pull_secrets: Secrets of the namespace with which a node pulls the image.
        node_labels: Labels, as pairs, that a node must have to run steps.
        tolerations: Taints that steps tolerate.
    """

    image: str = ""
    parallel: int = 4
    crash_notice: bool = True
    kfp_version: str = KFP_RELEASES[0]
    pull_secrets: tuple[str, ...] = ()
    node_labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def place(self, task: PipelineTask) -> PipelineTask:
        """Applies the policy of a task's step."""
        policy = POLICIES[task.component_spec.name]
        task.set_caching_options(policy.cached)
        if not self.image:
            return task
        task.set_container_image(self.image)
        task.set_cpu_request(policy.cpu)
        task.set_memory_request(policy.memory).set_memory_limit(policy.memory_limit)
        if policy.retries:
            task.set_retry(policy.retries, backoff_duration="30s", backoff_factor=2, backoff_max_duration="600s")
        kubernetes.set_timeout(task, policy.timeout)
        _give_settings(task, policy)
        self._choose_node(task)
        return task

    def _choose_node(self, task: PipelineTask) -> None:
        if KFP_RELEASES.index(self.kfp_version) >= KFP_RELEASES.index(_SECURITY_CONTEXT_SINCE):
            # Before that the image's own user, who is nobody in particular, is all that says so.
            kubernetes.set_security_context(task, run_as_non_root=True)
        if self.pull_secrets:
            kubernetes.set_image_pull_secrets(task, list(self.pull_secrets))
        for label, value in self.node_labels:
            kubernetes.add_node_selector(task, label, value)
        for toleration in self.tolerations:
            kubernetes.add_toleration(
                task,
                key=toleration.key,
                operator="Equal" if toleration.value else "Exists",
                value=toleration.value or None,
                effect=toleration.effect,
            )


def _give_settings(task: PipelineTask, policy: Policy) -> None:
    for key in policy.secrets:
        kubernetes.use_secret_as_env(task, SECRET, {key: key}, optional=True)
    for key in policy.config:
        kubernetes.use_config_map_as_env(task, CONFIG_MAP, {key: key}, optional=True)
    if policy.catalogue:
        kubernetes.use_config_map_as_volume(task, CATALOGUE_CONFIG_MAP, CATALOGUE_FOLDER, optional=True)
