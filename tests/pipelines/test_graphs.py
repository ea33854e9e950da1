"""What the compiled pipelines say: pinned images, caching, secrets, retries, limits, descriptions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubeflow_corpus.ingest import runner
from kubeflow_corpus.ingest.options import RunOptions
from kubeflow_corpus.ingest.results import SourceState

from pipelines.__main__ import main
from pipelines.compile import compile_pipeline, read_spec
from pipelines.placement import POLICIES, Placement

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

IMAGE = "registry.example/kubeflow-corpus/python@sha256:" + "a" * 64
NAMES = ("docs", "issues", "code", "corpus")
# Cached by the commit that they are given; everything else looks at the world or changes it.
CACHED = {"fetch", "chunk"}
Specs = dict[str, tuple[Any, dict[str, Any]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    for name in NAMES:
        compile_pipeline(name, Placement(IMAGE), folder)
    return folder


@pytest.fixture(scope="module")
def specs(folder: Path) -> Specs:
    """Reading a specification back takes a second: once is enough."""
    return {name: read_spec(folder / f"{name}.yaml") for name in NAMES}


@pytest.fixture(params=NAMES)
def compiled(request: pytest.FixtureRequest, specs: Specs) -> tuple[Any, dict[str, Any]]:
    return specs[request.param]


def tasks(spec: Any) -> Iterator[tuple[str, Any]]:
    """Every task of every graph, with the name of its step."""
    dags = [spec.root.dag, *(part.dag for part in spec.components.values() if part.HasField("dag"))]
    for dag in dags:
        for task in dag.tasks.values():
            component = spec.components[task.component_ref.name]
            if not component.HasField("dag"):
                yield re.sub(r"^comp-|-\d+$", "", task.component_ref.name), task


def containers(spec: Any) -> list[Any]:
    return [executor["container"] for executor in spec.deployment_spec["executors"].values()]


def test_every_pipeline_is_a_valid_specification_under_its_own_name(specs: Specs) -> None:
    assert {specs[name][0].pipeline_info.name for name in NAMES} == set(NAMES)


def test_every_step_runs_in_the_given_image_and_installs_nothing(compiled: tuple[Any, dict[str, Any]]) -> None:
    for container in containers(compiled[0]):
        assert container["image"] == IMAGE
        assert "pip install" not in " ".join(container["command"])


def test_only_what_a_commit_decides_is_cached(compiled: tuple[Any, dict[str, Any]]) -> None:
    cached = {step: task.caching_options.enable_cache for step, task in tasks(compiled[0])}
    assert {step for step, on in cached.items() if on} <= CACHED
    assert {"apply", "publish", "begin", "plan", "embed"} <= cached.keys()


def test_the_chunks_of_threads_are_never_served_for_others(specs: Specs) -> None:
    spec, _ = specs["issues"]
    assert "fetch" not in {step for step, _ in tasks(spec)}
    assert not next(task for step, task in tasks(spec) if step == "fetch-threads").caching_options.enable_cache


def test_every_step_asks_for_memory_and_is_limited_to_one_gibibyte(compiled: tuple[Any, dict[str, Any]]) -> None:
    for container in containers(compiled[0]):
        resources = container["resources"]
        assert resources["resourceCpuRequest"]
        assert resources["resourceMemoryRequest"]
        assert resources["resourceMemoryLimit"] == "1Gi"


def test_a_lost_pod_is_started_again_with_back_off_and_a_report_is_not(compiled: tuple[Any, dict[str, Any]]) -> None:
    for step, task in tasks(compiled[0]):
        if step.startswith("report"):
            assert task.retry_policy.max_retry_count == 0
        else:
            assert task.retry_policy.max_retry_count == 2
            assert task.retry_policy.backoff_duration.seconds == 30
            assert task.retry_policy.backoff_factor == 2


def platform_of(compiled: tuple[Any, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return dict(compiled[1]["platforms"]["kubernetes"]["deploymentSpec"]["executors"])


def test_secrets_come_from_one_kubernetes_secret_and_a_run_can_do_without_each(
    compiled: tuple[Any, dict[str, Any]],
) -> None:
    used = [secret for settings in platform_of(compiled).values() for secret in settings.get("secretAsEnv", ())]
    assert {secret["secretName"] for secret in used} == {"kubeflow-corpus-secrets"}
    assert all(secret["optional"] for secret in used)
    names = {entry["envVar"] for secret in used for entry in secret["keyToEnv"]}
    assert {"MILVUS_TOKEN", "EMBEDDINGS_API_KEY", "NOTIFY_WEBHOOK_URL"} <= names


def test_a_step_sees_only_the_secrets_of_its_own_work(specs: Specs) -> None:
    platform = platform_of(specs["docs"])
    seen = {
        executor.removeprefix("exec-"): {
            entry["envVar"] for secret in settings.get("secretAsEnv", ()) for entry in secret["keyToEnv"]
        }
        for executor, settings in platform.items()
    }
    assert seen["chunk"] == set()
    assert seen["fetch"] == {"GITHUB_TOKEN"}
    assert seen["embed"] == {"EMBEDDINGS_API_KEY"}
    assert seen["apply"] == {"MILVUS_TOKEN", "MILVUS_USER", "MILVUS_PASSWORD"}


def test_every_step_ends_in_time(compiled: tuple[Any, dict[str, Any]]) -> None:
    for settings in platform_of(compiled).values():
        assert int(settings["activeDeadlineSeconds"]) > 0


def test_the_one_parameter_describes_every_option_and_none_is_a_secret(compiled: tuple[Any, dict[str, Any]]) -> None:
    (parameter,) = compiled[0].root.input_definitions.parameters.items()
    assert parameter[0] == "options"
    for option in fields(RunOptions):
        assert f" {option.name}: " in parameter[1].description, option.name
        assert not re.search("token|password|secret|key", option.name)


def test_the_report_of_the_corpus_waits_for_all_three_graphs_which_wait_for_none(specs: Specs) -> None:
    spec, _ = specs["corpus"]
    waits = {name: set(task.dependent_tasks) for name, task in spec.root.dag.tasks.items()}
    told = {name: waits.pop(name) for name in list(waits) if name.startswith("notify-crash")}
    assert waits == {"docs": set(), "issues": set(), "code": set(), "report-corpus": {"docs", "issues", "code"}}
    assert sorted(map(sorted, told.values())) == [["code"], ["docs"], ["issues"]]


def test_one_task_per_graph_is_started_however_the_graph_ended_and_the_report_is_outside_of_it(
    compiled: tuple[Any, dict[str, Any]],
) -> None:
    root = compiled[0].root.dag.tasks
    graphs = {name for name, task in root.items() if compiled[0].components[task.component_ref.name].HasField("dag")}
    heard = []
    for name, task in root.items():
        if name.startswith("notify-crash"):
            heard.append(task.inputs.parameters["status"].task_final_status.producer_task)
            assert task.trigger_policy.strategy == task.trigger_policy.ALL_UPSTREAM_TASKS_COMPLETED
            assert list(task.dependent_tasks) == heard[-1:]
            assert {parameter for parameter in task.inputs.parameters} == {"collection", "run_id", "run_name", "status"}
            constants = [task.inputs.parameters[key].runtime_value.constant for key in ("run_id", "run_name")]
            assert [value.string_value for value in constants] == ["{{$.pipeline_job_uuid}}", "{{$.pipeline_job_name}}"]
    assert set(heard) == graphs
    assert len(heard) == len(graphs)
    assert not [step for step, task in tasks(compiled[0]) if step.startswith("report") and task not in root.values()]


def test_the_task_that_notifies_of_a_crash_can_be_left_out(tmp_path: Path) -> None:
    file = compile_pipeline("issues", Placement(IMAGE, crash_notice=False), tmp_path)
    assert {step for step, _ in tasks(read_spec(file)[0])} == set(POLICIES) - {
        "fetch",
        "report-corpus",
        "notify-crash",
    }
    assert "TASK_FINAL_STATUS" not in file.read_text()


def test_only_the_first_step_takes_the_options_so_that_the_cached_ones_depend_on_the_commit_alone(specs: Specs) -> None:
    spec, _ = specs["docs"]
    given = {step: set(task.inputs.parameters) for step, task in tasks(spec)}
    assert [step for step, names in given.items() if "options" in names] == ["begin"]
    assert given["fetch"] == {"resolved"}
    assert given["chunk"] == set()


Edges = dict[str, set[str]]


def graph_edges(spec: Any) -> Edges:
    """Each step of a collection, and the steps whose outputs it takes, in loops and out of them."""
    (steps,) = [part.dag for part in spec.components.values() if part.HasField("dag") and "plan" in part.dag.tasks]
    edges: Edges = {}
    for name, task in steps.tasks.items():
        taken = {key: producer_of(spec, steps, *given) for key, given in inputs_of(task).items()}
        inner = spec.components[task.component_ref.name]
        if not inner.HasField("dag"):
            edges[name] = {producer for producer in taken.values() if producer}
            continue
        for within, part in inner.dag.tasks.items():
            edges[within] = {
                producer or taken[outside.removesuffix("-loop-item")]
                for producer, _, outside in inputs_of(part).values()
            }
    return edges


def inputs_of(task: Any) -> dict[str, tuple[str, str, str]]:
    """Each input of a task: the task and its output, or the input of the graph around, that it comes from."""
    artifacts = {
        name: (value.task_output_artifact.producer_task, value.task_output_artifact.output_artifact_key,
               value.component_input_artifact)
        for name, value in task.inputs.artifacts.items()
    }  # fmt: skip
    parameters = {
        name: (value.task_output_parameter.producer_task, "", value.component_input_parameter)
        for name, value in task.inputs.parameters.items()
    }
    return {**artifacts, **parameters}


def producer_of(spec: Any, steps: Any, producer: str, output: str, outside: str) -> str:
    """The step that makes an input: of a loop, the step within; none of a parameter of the graph."""
    inner = spec.components[steps.tasks[producer].component_ref.name] if producer else None
    if inner is None or not inner.HasField("dag"):
        return producer
    return str(inner.dag.outputs.artifacts[output].artifact_selectors[0].producer_subtask)


def runner_edges(collection: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Edges:
    """The same of the runner: its steps are replaced by ones that note what they are called with."""
    edges: Edges = {}
    made: dict[str, str] = {}

    def replace_step(name: str, **result: Any) -> None:
        real = getattr(runner, name)
        step = name.replace("_", "-")

        def noted(*values: Any) -> Any:
            given = signature(real).bind(*values).arguments
            target = given.pop("target", f"json of {step}")
            words = [word for value in given.values() for word in (value if isinstance(value, list) else [value])]
            edges[step] = {made[word] for word in words if isinstance(word, str) and word in made}
            made[target] = step
            made.update({item: step for items in result.values() for item in items})
            return result.get("answer") or SimpleNamespace(**result)

        monkeypatch.setattr(runner, name, noted)

    threads = collection == "issues"
    for name in ("fetch_threads" if threads else "fetch", "chunk"):
        replace_step(name)
    for name in ("embed", "apply", "evaluate", "publish"):
        replace_step(name)
    stands = SourceState(collection=collection, step="resolve_revision", source="apples")
    replace_step("begin", answer=[stands.to_json()])
    replace_step("plan", shards={"shards/texts-0000": 1})
    runner.run_collection(collection, RunOptions(), runner.RunFolders(folder))
    return edges


@pytest.mark.parametrize("collection", ["docs", "issues", "code"])
def test_the_graph_and_the_runner_in_process_have_the_same_steps_and_edges(
    specs: Specs, collection: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graph_edges(specs[collection][0])
    assert runner_edges(collection, tmp_path, monkeypatch) == graph
    assert graph["apply"] == {"plan", "chunk", "embed"}


def test_every_step_has_a_policy_and_every_policy_a_step(specs: Specs) -> None:
    steps = {step for name in NAMES for step, _ in tasks(specs[name][0])}
    assert steps == set(POLICIES)


def test_compiling_twice_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    compile_pipeline.__globals__["compiled"].cache_clear()
    again = compile_pipeline("docs", Placement(IMAGE), tmp_path)
    assert again.read_bytes() == (folder / "docs.yaml").read_bytes()


@pytest.mark.parametrize("image", ["", "registry.example/python:latest", "registry.example/python@sha256:abc"])
def test_an_image_that_is_not_pinned_is_refused_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], image: str
) -> None:
    assert main(["compile", "--image", image, "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "not pinned by digest" in said
    assert "--image REGISTRY/NAME@sha256:DIGEST" in said
    assert not (tmp_path / "out").exists()


def pods(spec: Any, graph: Any, sources: int, shards: int, *, cached: bool) -> int:
    """Pods of a graph: a driver for every task, every loop and every turn of one, and the steps that run."""
    count = 0
    for task in graph.tasks.values():
        component = spec.components[task.component_ref.name]
        turns = 1
        if task.HasField("parameter_iterator"):
            turns = sources if "begin" in task.parameter_iterator.items.input_parameter else shards
            count += turns
        if component.HasField("dag"):
            count += 1 + turns * pods(spec, component.dag, sources, shards, cached=cached)
        else:
            count += 1 if cached and task.caching_options.enable_cache else 2
    return count


@pytest.mark.parametrize(
    ("name", "sources", "changed", "unchanged"), [("docs", 4, 44, 33), ("issues", 13, 89, 73), ("code", 11, 79, 54)]
)
def test_a_run_has_no_more_pods_than_the_documents_say(
    specs: Specs, name: str, sources: int, changed: int, unchanged: int
) -> None:
    spec, _ = specs[name]
    assert 1 + pods(spec, spec.root.dag, sources, 2, cached=False) == changed
    assert 1 + pods(spec, spec.root.dag, sources, 1, cached=True) == unchanged
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "cluster.md").read_text(encoding="utf-8")
    assert f"| `{name}` | {sources} | {changed} | {unchanged} |" in page
