"""One trace from a call through its stages, and one from a run through its steps, at a real collector."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from kubeflow_corpus import tracing

from tests.mcp_server.harness import running
from tests.query.corpus import database
from tests.servers.otlp import otlp_collector

ROOT = Path(__file__).parents[1]
QUESTION = "how do I switch caching off"


@pytest.mark.slow
def test_one_trace_goes_from_a_call_through_router_embedding_milvus_and_ranking(tmp_path: Path) -> None:
    with otlp_collector() as collector:
        served = database(tmp_path)
        trace, parent = "1" * 32, "2" * 16
        with running(served, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url) as server:
            call = {"name": "search_kubeflow_docs", "arguments": {"query": QUESTION}}
            call["_meta"] = {"traceparent": f"00-{trace}-{parent}-01"}
            answer = requests.post(
                f"{server.url}/mcp",
                json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
                headers={"Accept": "application/json, text/event-stream"},
                timeout=60,
            )
            request_id = answer.json()["result"]["structuredContent"]["request_id"]
    (called,) = collector.named("tools/call search_kubeflow_docs")
    # The caller's own trace goes on here.
    assert (called.trace, called.parent, called.service) == (trace, parent, "kubeflow-corpus-mcp")
    assert called.attributes["corpus.request_id"] == request_id
    stages = [span for span in collector.spans if span.parent == called.own]
    assert {span.name for span in stages} >= {"open", "bm25", "embedding", "dense", "rank", "fetch"}
    for span in stages:
        assert span.trace == trace and called.begin - 1e6 <= span.begin <= span.end <= called.end + 1e6
    assert QUESTION not in repr(collector.spans)


@pytest.mark.slow
def test_one_trace_goes_from_a_run_through_all_of_its_steps(tmp_path: Path) -> None:
    site = tmp_path / "site" / "docs"
    site.mkdir(parents=True)
    (site / "page.md").write_text("# Page\n\nA text that is indexed.\n")
    catalogue = tmp_path / "catalogue.yaml"
    catalogue.write_text(
        f"sources:\n  - {{name: site, type: docs, repo: example/site, url: {site.parent}, include: ['docs/**/*.md'],"
        " product_area: platform, site: {generator: docusaurus, root: docs, base_url: 'https://site.example/docs/'}}\n"
    )
    with otlp_collector() as collector:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("MILVUS", "EMBEDDING"))}
        done = subprocess.run(
            [sys.executable, "-m", "pipelines", "run", "docs", "--catalogue", str(catalogue)]
            + ["--local", str(tmp_path / "local")],
            env=environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    (root,) = collector.named("run docs")
    steps = [span for span in collector.spans if span is not root]
    assert {span.trace for span in steps} == {root.trace}
    assert {span.parent for span in steps} == {root.own}
    names = {"list_sources", "describe_model", "read_state", "resolve_revision", "fetch", "chunk", "plan", "embed"}
    assert {span.name for span in steps} >= names | {"apply", "publish"}
    assert {span.attributes["item"] for span in steps if span.name == "fetch"} == {"site"}


def test_steps_that_no_common_program_started_are_in_one_trace_by_the_id_of_their_run() -> None:
    program = (
        "import sys; from kubeflow_corpus.tracing import start_tracing, step_span\n"
        "start_tracing('steps')\n"
        "with step_span(sys.argv[1], sys.argv[2], collection='docs'): pass"
    )
    with otlp_collector() as collector:
        environ = {name: value for name, value in os.environ.items() if name != tracing.PARENT_VARIABLE}
        for words in (["plan", "run-1"], ["apply", "run-1"], ["plan", "run-2"], ["fetch", ""]):
            subprocess.run(
                [sys.executable, "-c", program, *words],
                env=environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url},
                check=True,
            )
    plan, apply, other, alone = collector.spans
    assert plan.trace == apply.trace and plan.parent == apply.parent != ""
    assert len({plan.trace, other.trace, alone.trace}) == 3 and not alone.parent


def test_without_an_endpoint_nothing_of_opentelemetry_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import sys; from kubeflow_corpus import tracing\n"
        "assert not tracing.start_tracing('nothing')\n"
        "with tracing.run_span('run'), tracing.step_span('plan', 'run-1'): pass\n"
        "tracing.record_stages([('open', 0.0, 1.0)])\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", program], env=environ, check=True)
