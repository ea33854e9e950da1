from __future__ import annotations

from dataclasses import replace

from kubeflow_corpus.chunking.manifests.crds import collect_context, owner_of
from kubeflow_corpus.records import Chunk
from kubeflow_corpus.vocabulary import default_vocabulary

from tests.chunking.code_samples import cut, sample, sample_context

FULL, MINIMAL, SCHEMALESS = "crd/full/widgets.yaml", "crd/minimal/widgets.yaml", "crd/schemaless.yaml"
TYPES, CONSTANTS = "pkg/apis/widgets/v1beta1/widget_types.go", "pkg/constants/constants.go"


def line_of(rows: tuple[Chunk, ...], path: str) -> str:
    (line,) = {line for row in rows for line in row.content_text.split("\n") if line.startswith(f"{path} <")}
    return line


def test_a_crd_is_one_unit_and_both_kinds_find_it() -> None:
    rows = cut(sample(FULL)).chunks
    assert {row.unit_id for row in rows} == {f"widgets:{FULL}#widgets.kubeflow.org/Widget/v1beta1"}
    assert [row.view for row in rows][:2] == ["definition", ""]
    assert rows[0].fields["kind"] == "CustomResourceDefinition"
    assert {row.fields["kind"] for row in rows[1:]} == {"Widget"}
    assert {row.fields["api_version"] for row in rows} == {"widgets.kubeflow.org/v1beta1"}
    assert {row.fields["resource_name"] for row in rows} == {"widgets.widgets.kubeflow.org"}


def test_the_definition_is_the_raw_text_above_the_versions() -> None:
    content = cut(sample(FULL)).chunks[0].content_text
    assert content.startswith("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n")
    assert "# versions: v1beta1 (served, stored)" in content


def test_a_field_is_one_line_with_all_that_the_schema_says() -> None:
    rows = cut(sample(FULL)).chunks
    assert line_of(rows, "spec.parallelSpinCount") == (
        "spec.parallelSpinCount <integer(int32)> >= 1 <= 100 - How many spins run at once."
    )
    assert line_of(rows, "spec.storage") == (
        "spec.storage <string> default local enum local | remote - Rule: self == oldSelf (storage cannot change)"
    )
    assert line_of(rows, "spec.server").startswith("spec.server <object> required")


def test_a_repeated_schema_is_written_once_at_its_shortest_path() -> None:
    rows = cut(sample(FULL)).chunks
    assert line_of(rows, "spec.server.minReplicas")
    assert "(same fields as spec.server)" in line_of(rows, "spec.extra[].server")


def test_a_type_of_the_core_is_named_and_not_spelled_out() -> None:
    rows = cut(sample(FULL)).chunks
    assert "(core/v1 Container)" in line_of(rows, "spec.container")
    assert not any("spec.container.image" in row.content_text for row in rows)


def test_views_name_their_kind_and_never_cut_a_line() -> None:
    for tokens in (96, 256):
        for row in cut(sample(FULL), tokens=tokens).chunks[2:]:
            assert row.content_text.startswith("Widget widgets.kubeflow.org/v1beta1\n")
            assert row.view.startswith("field:")


def test_go_comments_and_constants_say_what_the_crd_does_not_and_where_they_are_from() -> None:
    rows = cut(sample(FULL), sample_context(TYPES, CONSTANTS, FULL)).chunks
    line = line_of(rows, "spec.server.minReplicas")
    assert "Fewest replicas of the component; zero lets it sleep." in line
    assert "Default 1 (Go constant DefaultMinReplicas in pkg/constants/constants.go)." in line
    (row,) = [row for row in rows if line in row.content_text]
    assert "[Go type v1beta1.ScalingSpec in pkg/apis/widgets/v1beta1/widget_types.go]" in row.content_text
    mode = line_of(rows, "spec.mode")
    assert "Default Slow (Go marker)." in mode and "Values in Go: Slow | Fast." in mode


def test_what_the_crd_says_itself_is_not_said_again() -> None:
    line = line_of(cut(sample(FULL), sample_context(TYPES, CONSTANTS, FULL)).chunks, "spec.parallelSpinCount")
    assert "ParallelSpinCount is how many" not in line
    assert "Default 3 (Go constant DefaultParallelSpins in pkg/constants/constants.go)." in line


def test_a_crd_without_a_schema_leads_to_the_fields_and_defaults_of_its_go_type() -> None:
    rows = cut(sample(SCHEMALESS), sample_context(TYPES, CONSTANTS, SCHEMALESS)).chunks
    assert "The CRD has no schema." in rows[1].content_text
    assert all(row.view.startswith("go:") for row in rows[2:])
    line = line_of(rows, "spec.parallelSpinCount")
    assert line.startswith("spec.parallelSpinCount <integer> - ParallelSpinCount is how many spins run")
    assert "Default 3 (Go constant" in line
    assert line_of(rows, "spec.server").startswith("spec.server <object> required")


def test_of_two_copies_in_a_repository_the_full_one_is_shown_and_lists_the_other() -> None:
    full, minimal = sample(FULL), sample(MINIMAL)
    context = collect_context([minimal, full])
    chunked = cut(minimal, context)
    assert chunked.skipped is not None and chunked.skipped.reason == "crd_duplicate"
    assert f"# also at: kubeflow/widgets:{MINIMAL}" in cut(full, context).chunks[0].content_text


def test_a_crd_that_its_repository_marks_as_generated_is_kept() -> None:
    assert cut(sample(FULL, generated=True)).chunks


def test_a_copy_gives_way_where_the_collection_holds_the_repository_that_owns_the_crd() -> None:
    assert owner_of("inferenceservices.serving.kserve.io", default_vocabulary()) == "kserve/kserve"
    assert owner_of("experiments.kubeflow.org", default_vocabulary()) == "kubeflow/katib"
    item = sample(FULL)
    text = item.text.replace("widgets.kubeflow.org", "serving.kserve.io")
    item = replace(item, text=text, repo="kubeflow/manifests")
    assert cut(item, collect_context([item], ["kubeflow/manifests"])).chunks
    skipped = cut(item, collect_context([item], ["kubeflow/manifests", "kserve/kserve"])).skipped
    assert skipped is not None and skipped.reason == "crd_duplicate"


def test_every_spelling_of_a_field_shares_its_words_with_the_row() -> None:
    from kubeflow_corpus.terms import identifier_parts

    rows = cut(sample(FULL)).chunks
    (row,) = [row for row in rows if "spec.server.minReplicas <" in row.content_text]
    words = set(row.search_text.lower().split())
    for spelling in ("minReplicas", "min_replicas", "spec.server.minReplicas", "MinReplicas"):
        assert set(identifier_parts(spelling)) <= words
    assert {"min", "replicas"} <= words
