"""The router table: what people ask, and what they want."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeflow_corpus.query.intent import bm25_text, content_words, named_areas, named_identifiers, named_versions, read

TABLE: dict[str, tuple[str, ...]] = {
    "comparison": (
        "compare kubeflow 1.9 and 1.10",
        "what is the difference between a component and a step",
        "katib vs optuna",
        "KServe serverless versus standard deployment",
        "differences between TrainJob and PyTorchJob",
        "how does Workspace differ from Notebook",
        "should I use MinIO or SeaweedFS as object store",
        "pros and cons of emissary executor",
        "which is better: grid or random search?",
        "what changed between kfp 2.4 and 2.5",
        "changes from 26.03 to 26.03.1",
        "comparison of katib search algorithms",
        "is the Go SDK faster than the python one",
        "KPA compared to HPA autoscaling",
        "v1 vs v2 pipelines",
        "LocalModelCache vs LocalModelNamespaceCache",
        "advantages of modelmesh over single model serving",
        "istio-cni or istio-init: which is better for kubeflow on openshift?",
        "kubeflow (1.9 vs 1.10) upgrade",
        "kfp 1 vs 2",
        "how is dsl.If different from dsl.Condition",
        "Compare ContainerOp with container_component",
        "which one should I pick, ServingRuntime or ClusterServingRuntime?",
    ),
    "release_date": (
        "when was 1.10 released",
        "When was Kubeflow 26.03 published?",
        "release date of kubeflow 1.8.1",
        "Kubeflow 1.9.1 release date",
        "what day did v1.7.0 come out",
        "on which date was 1.6 announced",
        "which year was kubeflow 1.0 released",
        "when did 1.11 ship",
        "how old is kubeflow 1.5",
        "kubeflow 1.4 was released when",
        "When did KServe 0.15 become available?",
        "in what month was katib 0.17 released",
        "date of the 1.3 release",
        "publication date of 26.03.1",
        "when will the next version be released?",
        "how long ago was 1.2 released",
        "when was the trainer v2.0.0 tagged",
        "GA date of kubeflow 1.10",
    ),
    "temporal": (
        "what is the latest release",
        "latest kubeflow version",
        "newest version of kubeflow",
        "What is the most recent Kubeflow release?",
        "current stable version of the kubeflow platform",
        "which is the last release of kubeflow",
        "what's new in the latest release",
        "releases in 2024",
        "what was released in March 2025",
        "release history of kubeflow",
        "list of all kubeflow releases",
        "first kubeflow release",
        "oldest version of kubeflow",
        "releases since 2025",
        "latest katib",
        "upcoming release of the platform",
        "what did the previous kubeflow release contain",
        "recent releases",
        "which Kubeflow version is the most recent one",
        "which release of kubeflow is newest?",
        "list kubeflow releases in order",
        "releases published after June 2024",
    ),
    "exact": (
        "KF_PIPELINES_SA_TOKEN_PATH",
        "OBJECTSTORECONFIG_HOST OBJECTSTORECONFIG_SECURE aws s3",
        "KATIB_DB_MANAGER_SERVICE_PORT default",
        "canaryTrafficPercent",
        "maxLatency default for batcher",
        "spec.predictor.minReplicas",
        "autoscaling.knative.dev/target",
        "serving.kserve.io/gpu-resource-types annotation",
        "dsl.ParallelFor parallelism argument",
        "kfp component build --push-image",
        "--disable-execution-caching-by-default",
        "set_caching_options",
        "kubernetes.use_secret_as_env example",
        "TrainJob",
        "ClusterTrainingRuntime torch-distributed",
        'no matches for kind "Notebook" in version "kubeflow.org/v1"',
        '"RBAC: access denied"',
        "pod has unbound immediate PersistentVolumeClaims: error: scheduling",
        "CrashLoopBackOff ml-pipeline",
        "ImagePullBackOff katib controller",
        "ModuleNotFoundError: No module named 'kfp'",
        "AttributeError: module 'kfp.dsl' has no attribute 'ContainerOp'",
        "rpc error: code = Unavailable desc = connection refused",
        "x509: certificate signed by unknown authority",
        "panic: runtime error: invalid memory address or nil pointer dereference",
        "OOMKilled trial pod",
        "failed to create fsnotify watcher: too many open files",
        "503 Service Unavailable from istio ingressgateway",
        "which kserve version is bundled with kubeflow 1.10",
        "istio in 1.8",
        "kubeflow 26.03 components",
        "v0.15.0 kserve breaking",
        "v1beta1 inferenceservice storage",
        "ErrImagePull metrics collector",
        "kfp.client.Client namespace argument",
        "PIPELINE_RUN_AS_USER",
        "leaseDuration of the trainer controller",
        "ConMaxLifeTime mysql",
        "exit code 137 training job",
        "IngressNotConfigured",
        "Error 1045: Access denied for user root (using password: YES)",
        "ERROR 1146 (42S02): Table mlpipeline.run_details doesn't exist",
        "upload pipeline 413: Request Entity Too Large nginx",
        "[403] Could not find CSRF cookie XSRF-TOKEN in the request",
        "[Errno 111] Connection refused ml-pipeline:8888",
        "Internal Server Error: 500 listing runs in ml-pipeline-ui",
        "Readiness probe failed: HTTP probe failed with statuscode: 503",
        "grpc: received message larger than max (52428800 vs. 16777216)",
        "spec.replicas: Invalid value: 3: must be less than or equal to 1 (3 vs 1)",
        "pod exceeded ephemeral storage limit 2147483648 vs 1073741824",
        "grpc status 14 UNAVAILABLE: upstream reset",
        "dial tcp 10.96.45.12:8887: i/o timeout cache-server",
        "Get https://10.96.0.1:443/api: net/http: TLS handshake timeout",
    ),
    "definition": (
        "what is a pipeline root",
        "overview of the model registry",
        "please explain multi-user isolation",
        "what is kserve",
        "what's katib?",
        "what are Kubeflow Profiles",
        "introduction to the spark operator",
        "why use katib",
        "why should I use the training operator",
        "define artifact",
        "Kubeflow Pipelines",
        "katib overview",
        "what is an experiment in kubeflow pipelines",
        "tell me about model registry",
    ),
    "installation": (
        "install model registry into a profile namespace",
        "how do I install kubeflow",
        "getting started with katib",
        "kserve quickstart",
        "how to set up the spark operator on my cluster",
        "install kserve with helm",
        "installation of the python sdk",
        "how do I get started?",
        "setting up kubeflow notebooks",
        "quick start guide for pipelines",
    ),
    "conceptual": (
        "how do I cache a step",
        "why is my pipeline stuck in pending",
        "explain the katib architecture",
        "how to mount a secret into a task",
        "what does a WorkspaceKind do",
        "how does early stopping work?",
        "why does my notebook not start",
        "describe the lifecycle of an InferenceService",
        "what is the purpose of the metadata store",
        "how can I run a pipeline every hour",
        "what happens when a node in an inference graph fails",
        "when should I use ModelMesh",
        "best practices for components",
        "so how do I share a pipeline with a colleague?",
        "concept of an experiment",
        "why are artifacts not shown in the UI",
        "how do I get a 403 away when I open the notebook UI behind oauth2-proxy?",
        "why do trials fail after 300 seconds",
        "how would I migrate from v1 to v2",
        "hello, how do I connect to the API from outside?",
    ),
    "general": (
        "debug a pipeline on my laptop without any cluster",
        "default username and password of the kubeflow dashboard",
        "regex that katib uses by default to parse metrics from stdout",
        "which metrics collectors can be combined with early stopping",
        "provision a volume claim within the pipeline and remove it afterwards",
        "python snippet for registering sklearn iris in registry",
        "block v1 pipelines except in some namespaces",
        "since which release can the backend use an http proxy?",
        "gpu scheduling for notebooks",
        "label needed so that a ConfigMap with trial templates shows up",
        "add contributors to my profile",
        "supported model formats of the triton server",
        "run something even if the pipeline fails",
        "authentication with dex and ldap",
        "delete old pipeline runs",
        "custom domain for inference endpoints",
        "resource limits of the storage initializer",
        "katib experiment from a notebook",
        "pass a list of strings between two components",
        "limit of 500 pods per profile",
        "404 page customisation of the dashboard",
    ),
}
QUESTIONS = [(text, intent) for intent, texts in TABLE.items() for text in texts]


def test_the_router_table_is_right_for_at_least_95_percent_of_120_questions() -> None:
    wrong = [
        (text, intent, read(text).intent, read(text).reason)
        for text, intent in QUESTIONS
        if read(text).intent != intent
    ]
    assert len(QUESTIONS) >= 120
    assert len(wrong) <= 0.05 * len(QUESTIONS), wrong


@pytest.mark.parametrize("intent", TABLE)
def test_no_intent_is_wrong_for_more_than_a_tenth_of_its_questions(intent: str) -> None:
    wrong = [(text, read(text).intent, read(text).reason) for text in TABLE[intent] if read(text).intent != intent]
    assert len(wrong) <= 0.1 * len(TABLE[intent]), wrong


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("kubeflow 1.10 and v0.15.0", ("1.10", "0.15.0")),
        ("is 26.03.1 a patch", ("26.03.1",)),
        ("kfp v2 sdk 2.5", ("v2", "2.5")),
        ("1.10.0-rc.1", ("1.10.0-rc.1",)),
        ("v1beta1 of the API", ()),
        ("trainer.kubeflow.org/v1alpha1", ()),
        ("a learning rate of 0.01 and 0.5 GPU", ()),
        ("connect to 10.0.0.1", ()),
        ("Which version do I get with 1.10 (not 1.11)?", ("1.10", "1.11")),
    ],
)
def test_versions_are_named_and_numbers_are_not(text: str, versions: tuple[str, ...]) -> None:
    assert named_versions(text) == versions


@pytest.mark.parametrize(
    ("text", "areas"),
    [
        ("kfp caching", ("pipelines",)),
        ("InferenceService canary", ("kserve",)),
        ("hyperparameter tuning", ("katib",)),
        ("TrainJob and notebooks", ("trainer", "notebooks")),
        ("PyTorchJob elastic", ("training-operator",)),
        ("model registry", ("model-registry",)),
        ("the weather", ()),
    ],
)
def test_products_are_named_as_people_write_them(text: str, areas: tuple[str, ...]) -> None:
    assert named_areas(text) == areas


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("set KFP_API_TOKEN and minReplicas", ("KFP_API_TOKEN", "minReplicas")),
        ("spec.predictor.model in an InferenceService", ("spec.predictor.model", "InferenceService")),
        ("use --push-image of kfp", ("--push-image",)),
        ("PyTorch and KServe on OpenShift", ()),
        ("what about autoscaling.knative.dev/target", ("autoscaling.knative.dev/target",)),
    ],
)
def test_identifiers_are_distinguished_from_product_names(text: str, names: tuple[str, ...]) -> None:
    assert named_identifiers(text) == names


def test_a_comparison_is_split_into_its_sides() -> None:
    assert read("dsl.Condition vs dsl.If").sides == ("dsl.Condition", "dsl.If")
    left, right = read("compare the kserve of kubeflow 1.9 and 1.10").sides
    assert "1.9" in left and "1.10" not in left and "1.10" in right and "1.9" not in right
    assert read("differences").sides == ()


def test_the_superseded_generation_is_wanted_only_where_it_is_named() -> None:
    assert read("kfp v1 caching").legacy
    assert read("kfp 1.8 sdk caching").legacy
    assert not read("kfp caching").legacy


def test_what_is_in_quotes_is_looked_for_and_not_asked() -> None:
    assert read('"when was the pod released"').intent == "exact"


def test_bm25_reads_the_parts_of_identifiers_and_no_stop_words() -> None:
    assert bm25_text("what is the minReplicas") == "minReplicas min replicas minreplicas"
    assert bm25_text("what is the") == "what is the"
    assert content_words("How do I set minReplicas?") == ("set", "minreplicas", "min", "replicas")


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    question = read(text)
    assert question.intent in TABLE
    assert question.reason


def test_a_pasted_log_is_read_in_time() -> None:
    for text in (
        "a" * 4000,
        "when " * 800,
        "difference " * 400,
        "A_" * 2000,
        "(1" * 2000,
        "1, vs " * 700,
        "1," * 2000,
        "-" * 4000,
        "1." * 2000,
        "x.y" * 1300,
        '"' * 4000,
    ):
        read(text)
