from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import kfp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kubeflow_corpus.chunking.code import exclusions as generated
from kubeflow_corpus.tokens import wordpiece_counter

from tests.chunking.code_samples import GO_SOURCES, cut, document, names, needs_go_sources, rows_of, sample

TYPES = "pkg/apis/widgets/v1beta1/widget_types.go"
CONTROLLER = "pkg/controller/controller.go"


def test_a_struct_keeps_its_comment_the_comments_of_its_fields_and_its_markers() -> None:
    (row,) = rows_of(cut(sample(TYPES)), "WidgetSpec")
    assert row.content_text.startswith("// WidgetSpec says what a widget serves.\ntype WidgetSpec struct {")
    assert "// +kubebuilder:validation:Enum=Slow;Fast\n" in row.content_text
    assert row.fields["kind"] == "struct"


def test_the_header_of_a_row_names_repository_path_and_symbol() -> None:
    (row,) = rows_of(cut(sample(CONTROLLER)), "WidgetReconciler.step")
    assert row.embedding_text.startswith(
        "kubeflow/widgets/pkg/controller/controller.go > WidgetReconciler.step\nfunc (r *WidgetReconciler) step("
    )
    assert row.citation_url.endswith(f"/{CONTROLLER}#L{row.start_line}-L{row.end_line}")
    assert row.version == ("1.9",)


def test_a_group_of_constants_is_split_by_entry_and_repeats_the_heading_of_its_paragraph() -> None:
    chunked = cut(sample("pkg/constants/constants.go"))
    parts = [row for row in chunked.chunks if "Annotation" in str(row.fields["symbol"])]
    assert len(parts) > 1
    for row in parts:
        assert "// Names of the annotations that a user may set." in row.content_text
        assert "const (" in row.content_text
    assert names(chunked) >= {"DefaultMinReplicas", "AnnotationJuliettKey", "PortDebug"}
    assert {row.fields["kind"] for row in parts} == {"const"}


def test_a_block_of_rbac_markers_is_a_unit_and_belongs_to_no_type() -> None:
    chunked = cut(sample(CONTROLLER))
    markers = [row for row in chunked.chunks if row.fields["kind"] == "markers"]
    assert "groups=apps,resources=deployments" in markers[0].content_text
    (state,) = rows_of(chunked, "WidgetState")
    assert "rbac" not in state.content_text


def test_a_large_method_is_cut_at_statements_and_every_part_has_its_signature() -> None:
    parts = rows_of(cut(sample(CONTROLLER)), "WidgetReconciler.Reconcile")
    assert len(parts) > 5
    assert len({row.unit_id for row in parts}) == 1
    for row in parts:
        assert "func (r *WidgetReconciler) Reconcile(ctx context.Context, name string) (string, error) {" in (
            row.content_text
        )
        opened = Counter(row.content_text)
        assert opened["("] == opened[")"]
        assert not row.content_text.rstrip().endswith("// Step")


def test_functions_of_a_file_that_does_not_parse_are_still_found() -> None:
    chunked = cut(sample("pkg/controller/controller_test.go", keep_tests=True))
    assert chunked.counts["parse_error"] == 1
    assert names(chunked) >= {f"TestWidgetCase{index}" for index in range(8)}


def test_a_function_whose_body_is_not_written_yet_is_found() -> None:
    chunked = cut(document("a.py", "def begun(a,\n          b):\n\n\nx = 1\n"))
    assert "begun" in names(chunked)


def test_a_huge_docstring_survives_under_the_signature_of_its_function() -> None:
    parts = rows_of(cut(sample("sdk/client.py")), "widget")
    text = "\n".join(row.content_text for row in parts)
    assert all(f"option_{index}: Says" in text for index in range(60))
    assert all("def widget(func=None, *, base_image: str | None = None):" in row.content_text for row in parts)


def test_a_large_class_is_a_skeleton_and_its_methods() -> None:
    chunked = cut(sample("sdk/client.py"))
    (skeleton,) = [row for row in rows_of(chunked, "Client") if row.view == ""]
    assert skeleton.content_text.startswith("class Client:")
    assert "wait_for_value_0" in skeleton.content_text
    assert "_SERVICE" in skeleton.content_text
    (method,) = rows_of(chunked, "Client.wait_for_value_3")
    assert method.fields["kind"] == "method"
    assert "# The server limits how often this may be called." in method.content_text
    (getter,) = rows_of(chunked, "Client.value_3")
    assert getter.content_text.lstrip().startswith("@property")


def test_a_component_that_a_default_export_names_later_has_its_name() -> None:
    chunked = cut(sample("frontend/WidgetDetails.tsx"))
    (row,) = rows_of(chunked, "EnhancedWidgetDetails")
    assert row.fields["kind"] == "component"
    assert {"WidgetDetails", "WidgetDetails.render", "WidgetDetails.select", "Tab", "Progress"} <= names(chunked)
    assert "parse_error" not in chunked.counts


def test_a_default_export_without_a_name_is_called_like_its_file() -> None:
    (row,) = rows_of(cut(sample("frontend/NotFound.tsx")), "NotFound")
    assert row.fields["kind"] == "component"


def test_messages_services_and_enums_of_a_proto_file_are_units() -> None:
    chunked = cut(sample("widget.proto"))
    kinds = {str(row.fields["symbol"]): row.fields["kind"] for row in chunked.chunks}
    assert kinds["Widgets"] == "service"
    assert "Widget" in names(chunked) and "State" in names(chunked) and "Part" not in names(chunked)


def test_stages_of_a_dockerfile_and_functions_of_a_script_are_units() -> None:
    stages = {str(row.fields["symbol"]): row for row in cut(sample("Dockerfile")).chunks}
    assert "# Builds the controller." in stages["build"].content_text
    assert "COPY --from=build" in stages["gcr.io/distroless/static"].content_text
    (function,) = rows_of(cut(sample("install.sh")), "wait_for_pods")
    assert function.content_text.startswith("# Waits for the pods of a namespace.")


@pytest.mark.parametrize("path", [TYPES, "install.sh"])
def test_a_licence_header_is_removed_and_counted(path: str) -> None:
    chunked = cut(sample(path))
    assert chunked.counts["licence_header"] == 1
    assert all("Licensed under" not in row.content_text for row in chunked.chunks)


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("pkg/a.go", "// Code generated by controller-gen. DO NOT EDIT.\npackage a\n", "generated_header"),
        ("pkg/zz_generated.deepcopy.go", "package a\n", "generated_path"),
        ("api/a.pb.go", "package a\n", "generated_path"),
        ("api/a_pb2.py", "x = 1\n", "generated_path"),
        ("pkg/client/informers/a.go", "package a\n", "generated_path"),
        ("vendor/x/a.go", "package a\n", "vendored"),
        ("frontend/node_modules/a/index.js", "a();\n", "vendored"),
        ("pkg/a_test.go", "package a\n", "test"),
        ("sdk/tests/helper.py", "x = 1\n", "test"),
        ("frontend/src/A.test.tsx", "a();\n", "test"),
        ("pkg/testdata/a.go", "package a\n", "test_data"),
        ("data.bin", "x", "unsupported_type"),
        ("pkg/a.go", "\0\1\2", "binary"),
        ("pkg/a.go", "x\n" * 400_000, "too_large"),
        ("pkg/a.go", "", "empty"),
    ],
)
def test_a_file_that_is_left_out_says_why(path: str, text: str, reason: str) -> None:
    skipped = cut(document(path, text)).skipped
    assert skipped is not None and skipped.reason == reason


def test_a_file_that_its_repository_marks_as_generated_is_left_out() -> None:
    skipped = cut(document("pkg/a.go", "package a\n", generated=True)).skipped
    assert skipped is not None and skipped.reason == "generated_attribute"


def test_a_comment_that_only_speaks_of_generated_code_leaves_nothing_out() -> None:
    assert generated.exclusion("pkg/a.py", '"""Helpers for code that is generated from specs."""\nx = 1\n') == ""


def test_code_without_any_declaration_becomes_windows_and_is_counted() -> None:
    chunked = cut(document("pkg/a.go", "} } func ((( \n\n" * 400))
    assert chunked.counts["fallback"] == 1
    assert len(chunked.chunks) > 1


def test_windows_line_ends_and_a_byte_order_mark_change_nothing_but_themselves() -> None:
    text = "package a\n\n// F does it.\nfunc F() {\n\tx()\n}\n"
    plain = cut(document("a.go", text)).chunks
    other = cut(document("a.go", "\ufeff" + text.replace("\n", "\r\n"))).chunks
    assert [row.id for row in plain] == [row.id for row in other]


def test_no_row_is_longer_than_the_model_reads_and_no_symbol_shares_a_key() -> None:
    counter = wordpiece_counter()
    for path in (TYPES, CONTROLLER, "sdk/client.py", "frontend/WidgetDetails.tsx"):
        for tokens in (128, 256, 384):
            for row in cut(sample(path), tokens=tokens).chunks:
                assert counter.count(row.embedding_text) + 2 <= tokens


def test_a_line_above_a_symbol_gives_it_no_new_key() -> None:
    before = cut(sample(CONTROLLER))
    text = sample(CONTROLLER).text
    after = cut(document(CONTROLLER, text.replace("package controller\n", "package controller\n\n", 1)))
    assert [row.id for row in before.chunks][1:] == [row.id for row in after.chunks][1:]


def test_the_parts_of_an_identifier_are_in_the_search_text_and_not_in_the_evidence() -> None:
    (row,) = rows_of(cut(sample(TYPES)), "ScalingSpec")
    assert {"min", "replicas", "minreplicas"} <= set(row.search_text.split("\n")[-1].split())
    assert "minreplicas" not in row.content_text


PYTHON = sorted((Path(kfp.__file__).parent / "dsl").glob("*.py"))
# None where the Debian package is absent.
GO = sorted(GO_SOURCES.rglob("*.go"))[:300]


@pytest.mark.slow
def test_every_function_and_class_of_the_installed_kfp_package_is_found() -> None:
    for file in PYTHON:
        text = file.read_text("utf-8")
        chunked = cut(document(f"sdk/python/kfp/dsl/{file.name}", text, keep_tests=True))
        if chunked.skipped is not None:
            continue
        found = names(chunked)
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                assert node.name in found, (file.name, node.name)


@pytest.mark.slow
@needs_go_sources
def test_real_go_sources_are_partitioned_without_a_parse_error() -> None:
    counts: Counter[str] = Counter()
    for file in GO:
        path = file.relative_to(GO_SOURCES).as_posix()
        chunked = cut(document(path, file.read_text("utf-8", "replace")))
        counts.update(chunked.counts)
        counts["files"] += chunked.skipped is None
    assert counts["files"] > 50
    assert counts["parse_error"] * 20 <= counts["files"]


def edited(text: str) -> st.SearchStrategy[str]:
    """A file with a slice cut out, doubled or replaced by noise."""

    @st.composite
    def edits(draw: st.DrawFn) -> str:
        first = draw(st.integers(0, len(text)))
        last = draw(st.integers(first, min(len(text), first + 2_000)))
        noise = ["\t\r\n\0{", "\ud800é漢\x1c", "'''", "/*", "`", "}\n}\n", "(\n"]
        middle = draw(st.sampled_from(["", text[first:last] * 2, *noise]))
        return text[:first] + middle + text[last:]

    return edits()


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([TYPES, CONTROLLER, "sdk/client.py", "frontend/WidgetDetails.tsx", "widget.proto"]))
def test_lines_are_partitioned_however_a_file_is_edited(data: st.DataObject, path: str) -> None:
    cut(document(path, data.draw(edited(sample(path).text))))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from([*PYTHON, *GO]))
def test_lines_are_partitioned_however_a_real_file_is_edited(data: st.DataObject, file: Path) -> None:
    cut(document(f"pkg/{file.name}", data.draw(edited(file.read_text("utf-8", "replace"))), keep_tests=True))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["a.go", "a.py", "a.tsx", "a.sh", "a.proto", "Dockerfile", "Makefile"]))
@example(b"a\n\0", "a.py")
@example(b"\\", "a.sh")
def test_arbitrary_bytes_never_raise(data: bytes, path: str) -> None:
    cut(document(path, data.decode("utf-8", "surrogateescape")))
    cut(document(path, data.decode("latin-1")))
