from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubeflow_corpus.chunking.manifests.crds import collect_context

from tests.chunking.code_samples import REAL_REPOS, cut, document, needs_real_manifests, real_manifests, sample

CONFIG = "configmap.yaml"


def test_a_config_map_has_a_view_for_each_key_with_its_comments_byte_for_byte() -> None:
    rows = {row.view: row for row in cut(sample(CONFIG)).chunks}
    assert set(rows) == {
        "",
        "data:ConnectionLifeTime",
        "data:batcher",
        "data:workflowDefaults",
        "data:controller.properties",
    }
    assert len({row.unit_id for row in rows.values()}) == 1
    assert '  ## How long a connection lives; a Go duration.\n  ConnectionLifeTime: "120s"' in (
        rows["data:ConnectionLifeTime"].content_text
    )
    assert '      # milliseconds\n      "maxLatency": "5000"' in rows["data:batcher"].content_text
    assert "secondsAfterCompletion: 3600" in rows["data:workflowDefaults"].content_text
    assert rows["data:batcher"].fields["symbol"] == "batcher"
    assert rows["data:batcher"].section_path == "ConfigMap widget-config (namespace widgets) > batcher"


def test_every_object_of_a_file_is_a_unit_of_its_kind_and_name() -> None:
    chunked = cut(sample("deployment.yaml"))
    units = {(row.fields["kind"], row.fields["resource_name"]) for row in chunked.chunks}
    assert units >= {
        ("ServiceAccount", "widgets"),
        ("Deployment", "widget-controller"),
        ("NetworkPolicy", "first"),
        ("NetworkPolicy", "second"),
    }
    assert chunked.counts["yaml_error"] == 1
    (first,) = [row for row in chunked.chunks if row.fields["resource_name"] == "first"]
    assert first.fields["api_version"] == "networking.k8s.io/v1"
    assert first.unit_id == "widgets:deployment.yaml#networking.k8s.io/NetworkPolicy/first"


def test_a_part_of_a_large_object_repeats_the_keys_that_it_is_under() -> None:
    parts = [row for row in cut(sample("deployment.yaml")).chunks if row.fields["kind"] == "Deployment"]
    (part,) = [row for row in parts if "PROXY_SETTING_29" in row.content_text]
    lines = part.content_text.split("\n")
    assert lines[:5] == ["spec:", "  template:", "    spec:", "      containers:", "      - name: proxy"]
    assert "        # Setting 29 of the proxy.\n        - name: PROXY_SETTING_29" in part.content_text


def test_the_value_tag_of_a_kustomization_is_text() -> None:
    (row,) = cut(sample("kustomize/db/kustomization.yaml")).chunks
    assert row.fields["kind"] == "Kustomization"
    assert "delimiter: =" in row.content_text


def test_a_helm_template_is_text_of_its_kind_and_counted() -> None:
    chunked = cut(sample("charts/widgets/templates/deployment.yaml"))
    assert chunked.counts["helm_template"] == 1
    assert chunked.chunks[0].fields["kind"] == "Deployment"
    assert chunked.chunks[0].fields["api_version"] == "apps/v1"


def test_a_crd_in_a_chart_gives_way_to_the_copy_that_parses() -> None:
    chart, full = sample("charts/widgets/templates/crd.yaml"), sample("crd/full/widgets.yaml")
    context = collect_context([chart, full])
    chunked = cut(chart, context)
    assert chunked.counts["crd_duplicate"] >= 1
    assert not any(row.fields["kind"] == "Widget" for row in chunked.chunks)
    assert cut(full, context).chunks


def test_configuration_of_another_api_is_a_unit_too() -> None:
    (row,) = cut(sample("manager_config.yaml")).chunks
    assert row.fields["kind"] == "Configuration"
    assert "leaseDuration: 15s" in row.content_text


def test_yaml_that_is_not_an_object_is_a_unit_named_after_its_file() -> None:
    (row,) = cut(document("charts/widgets/values.yaml", "# How many.\nreplicas: 1\n")).chunks
    assert row.unit_id == "widgets:charts/widgets/values.yaml#values"
    assert row.content_text == "# How many.\nreplicas: 1"


ALIASES = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(20)
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (ALIASES, ""),
        ("a: &a\n  b: *a\n", ""),
        ("a: " + "[" * 3_000 + "]" * 3_000, "yaml_error"),
        ("\n".join(" " * depth + "a:" for depth in range(500)), "yaml_error"),
        ("a: [1, 2\nb: 3\n", "yaml_error"),
        ("a: !!python/object:os.system x\n", ""),
        ("a: " + "x" * 40_000 + "\nb: 1\n", "long_line"),
        ("\t- a\n\t- b\n", "yaml_error"),
    ],
)
def test_hostile_yaml_is_cut_or_counted(text: str, count: str) -> None:
    chunked = cut(document("a.yaml", text))
    assert not count or chunked.counts[count] == 1


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("a.yaml", "a: b\n" * 200_000, "too_large"),
        ("a.yaml", "\0\1", "binary"),
        ("a.yaml", "---\n# nothing\n---\n", "blank"),
        ("vendor/a.yaml", "a: b\n", "vendored"),
        ("pkg/testdata/a.yaml", "a: b\n", "test_data"),
    ],
)
def test_a_manifest_that_is_left_out_says_why(path: str, text: str, reason: str) -> None:
    skipped = cut(document(path, text)).skipped
    assert skipped is not None and skipped.reason == reason


@st.composite
def edited(draw: st.DrawFn) -> str:
    text = sample(draw(st.sampled_from([CONFIG, "deployment.yaml", "crd/full/widgets.yaml"]))).text
    first = draw(st.integers(0, len(text)))
    last = draw(st.integers(first, min(len(text), first + 1_500)))
    middle = draw(st.sampled_from(["", text[first:last] * 2, "\n---\n", "\t", "&a *a", "{{ x }}", "\0\ud800", ": |\n"]))
    return text[:first] + middle + text[last:]


@settings(max_examples=60, deadline=None)
@given(edited())
def test_lines_are_partitioned_however_a_manifest_is_edited(text: str) -> None:
    cut(document("a.yaml", text))


@settings(max_examples=80, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=300).map(lambda data: data.decode("latin-1")), st.text("{}[]:-,&* \n\"'|>#a", max_size=200)
    )
)
def test_arbitrary_text_never_raises(text: str) -> None:
    cut(document("a.yaml", text))


@pytest.mark.slow
@needs_real_manifests
def test_every_real_manifest_is_indexed_or_skipped_with_a_reason() -> None:
    documents = list(real_manifests())
    assert len(documents) == 482
    context = collect_context(documents, REAL_REPOS.values())
    results: Counter[str] = Counter()
    units: set[tuple[str, str]] = set()
    for item in documents:
        chunked = cut(item, context)
        results[chunked.skipped.reason if chunked.skipped else "indexed"] += 1
        units |= {
            (row.repo, row.unit_id)
            for row in chunked.chunks
            if row.fields["resource_name"] == "inferenceservices.serving.kserve.io"
            and row.view.startswith(("definition", "field:"))
        }
    assert results["indexed"] >= 460
    assert set(results) <= {"indexed", "crd_duplicate"}
    assert units == {
        (
            "kserve/kserve",
            "widgets:config/crd/full/serving.kserve.io_inferenceservices.yaml#serving.kserve.io/InferenceService/v1beta1",
        )
    }


def config_map(name: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  k: v\n"


@pytest.mark.parametrize("end", ["...", "...\n", "... # the end\n", "...\n\n"])
def test_the_end_marker_of_a_document_makes_no_row(end: str) -> None:
    plain, marked = cut(document("a.yaml", config_map("b"))), cut(document("a.yaml", config_map("b") + end))
    assert [row.content_text for row in marked.chunks] == [row.content_text for row in plain.chunks]
    assert "yaml_error" not in marked.counts


@pytest.mark.parametrize("between", ["...\n---\n", "...\n", "...\n# words\n---\n"])
def test_objects_behind_an_end_marker_are_read(between: str) -> None:
    chunked = cut(document("a.yaml", config_map("b") + between + config_map("c")))
    assert {row.fields["resource_name"] for row in chunked.chunks} == {"b", "c"}
    assert "yaml_error" not in chunked.counts
    assert not [row for row in chunked.chunks if "..." in row.content_text]


@pytest.mark.parametrize("value", ["[{name: server, image: acme/quota:3.2}]", "{a: b:c, d: e}", "[a:b, {c: d:8080/x}]"])
def test_valid_yaml_that_the_parser_in_c_refuses_is_read(value: str) -> None:
    pod = f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: real\nspec:\n  containers: {value}\n"
    chunked = cut(document("a.yaml", pod))
    assert "yaml_error" not in chunked.counts
    assert {(row.fields["kind"], row.fields["resource_name"]) for row in chunked.chunks} == {("Pod", "real")}
