from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeflow_corpus.collections import CODE, DOCS, ISSUES
from kubeflow_corpus.errors import InvalidRow, InvalidVector, ModelMismatch, SchemaMismatch
from kubeflow_corpus.milvus import Backend
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.rows import check_vectors, to_row

from tests.store.conftest import Store
from tests.store.synthetic import MODEL, OTHER_MODEL, corpus, page

CHUNK = page("site", "a.md", ["A: text"])[0]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"document_id": "x" * 1025}, "document_id"),
        ({"document_id": "漢" * 342}, "document_id"),
        ({"unit_id": "a\x00b"}, "unit_id"),
        ({"content_text": "x" * 65_536}, "content_text"),
        ({"citation_url": "x" * 1025}, "citation_url"),
        ({"product_area": tuple("abc" for _ in range(65))}, "product_area"),
        ({"version": ("v" * 257,)}, "version"),
        ({"fields": {"doc_type": 3, "release_date": ""}}, "doc_type"),
        ({"fields": {"docs_type": "docs"}}, "docs_type"),
        ({"chunk_index": True}, "chunk_index"),
        ({"start_line": 2**63}, "start_line"),
        ({"source_type": "issue"}, "source_type"),
        ({"id": 'a" or id != "'}, "id"),
        ({"id": ""}, "id"),
    ],
)
def test_a_row_that_breaks_a_limit_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRow, match=f"field {field} ") as caught:
        to_row(DOCS, replace(CHUNK, **changes))
    assert caught.value.fields["field"] == field
    assert caught.value.fields["id"] == changes.get("id", CHUNK.id)


def test_limits_are_bytes_and_the_last_one_fits() -> None:
    assert to_row(DOCS, replace(CHUNK, document_id="漢" * 341))["document_id"] == "漢" * 341
    assert len(to_row(DOCS, replace(CHUNK, content_text="é" * 32_767))["content_text"]) == 32_767


def test_texts_that_are_only_shown_or_searched_are_cut_and_cleaned() -> None:
    row = to_row(DOCS, replace(CHUNK, title="漢" * 1000, content_text="a\x00b\x1b[31m\tc\nd", search_text="\ud800x"))
    assert row["title"] == "漢" * 682
    assert row["content_text"] == "ab[31m\tc\nd"
    assert row["search_text"] == "x"


def test_own_fields_that_a_chunk_does_not_name_are_empty() -> None:
    row = to_row(ISSUES, replace(CHUNK, source_type="issue", fields={"labels": ("bug",)}))
    assert (row["labels"], row["issue_number"], row["resolved"], row["closed_at"]) == (["bug"], 0, False, "")
    assert set(row) == {field.name for field in ISSUES.fields}


@given(st.text(), st.text())
def test_a_literal_names_one_text_and_no_other(first: str, second: str) -> None:
    literal = schema.text_literal(first)
    assert json.loads(literal) == first or schema.CONTROLS.search(first)
    assert literal != schema.text_literal(second) or first == second or schema.CONTROLS.search(first + second)
    assert json.loads("[" + schema.keys_filter("id", [first, second]).partition("[")[2])


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.array([[1, 0], [np.nan, 1]], np.float32), "text b holds NaN"),
        (np.array([[1, 0], [0, -np.inf]], np.float32), "text b holds NaN or infinity"),
        (np.array([[0, 0], [1, 1]], np.float32), "text a is zero"),
        (np.ones((2, 3), np.float32), "dimension 2"),
        (np.ones((1, 2), np.float32), "for 2 texts"),
    ],
)
def test_vectors_that_cannot_be_ranked_are_refused(vectors: Any, message: str) -> None:
    with pytest.raises(InvalidVector, match=message):
        check_vectors(["a", "b"], vectors, 2)


def test_the_analyzer_follows_the_backend_and_the_collection() -> None:
    lite, server = Backend("milvus-lite-3.2.2", True, True), Backend("v2.6.4", False, True)
    old = Backend("v2.3.5", False, False)
    names = {(spec.alias, backend.version): schema.analyzer_name(spec, backend) for spec in (DOCS, CODE) for backend in (lite, server, old)}  # fmt: skip # noqa: E501
    assert names == {
        ("kubeflow_docs", "milvus-lite-3.2.2"): "standard-stop",
        ("kubeflow_docs", "v2.6.4"): "english",
        ("kubeflow_docs", "v2.3.5"): "none",
        ("code_rag", "milvus-lite-3.2.2"): "standard",
        ("code_rag", "v2.6.4"): "standard",
        ("code_rag", "v2.3.5"): "none",
    }


@pytest.mark.parametrize(("prefix", "name"), [("", "code_rag"), ("dev", "dev_code_rag"), ("dev_", "dev_code_rag")])
def test_a_prefix_separates_environments(prefix: str, name: str) -> None:
    assert schema.served_name(prefix, "code_rag") == name
    assert schema.version_number(name, f"{name}_v12") == 12
    for other in (f"x{name}_v1", f"{name}_v01", f"{name}_v1_v2", f"{name}_v", f"{name}_v1x"):
        assert schema.version_number(name, other) is None


def test_a_reader_with_another_model_is_refused_with_both_names() -> None:
    recorded = {schema.MODEL_KEY: MODEL.model, schema.DIMENSION_KEY: "8", schema.MODEL_REVISION_KEY: "r1"}
    schema.check_model(recorded, MODEL, "kubeflow_docs")
    schema.check_model(recorded, replace(MODEL, revision=""), "kubeflow_docs")
    with pytest.raises(ModelMismatch, match=f"{MODEL.model} is recorded, {OTHER_MODEL.model} is given"):
        schema.check_model(recorded, OTHER_MODEL, "kubeflow_docs")
    with pytest.raises(ModelMismatch, match="dimension 8 is recorded, 384 is given"):
        schema.check_model(recorded, replace(MODEL, dimension=384), "kubeflow_docs")
    with pytest.raises(SchemaMismatch, match="does not record its embedding model"):
        schema.check_model({}, MODEL, "kubeflow_docs")


def test_a_scan_of_a_server_reads_every_key_once_in_small_ranges(
    embedded: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubeflow_corpus.store import rows

    embedded.run(corpus("site", 40)).all()
    every = {row["id"] for page in rows.scan(embedded.client, embedded.served, ["id"]) for row in page}
    monkeypatch.setattr(rows, "detect_backend", lambda client: Backend("v2.6.4", False, True))
    monkeypatch.setattr(rows, "SCAN_PAGE_ROWS", 10)
    for where, wanted in (("", 120), ('source == "site"', 120), ('source == "none"', 0)):
        pages = list(rows.scan(embedded.client, embedded.served, ["id"], where))
        keys = [row["id"] for page in pages for row in page]
        assert len(keys) == wanted
        assert set(keys) == (every if wanted else set())
        assert all(len(page) <= 30 for page in pages)
