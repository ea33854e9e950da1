"""Records: round trips, keys that do not depend on line numbers, and a row hash that ignores mere provenance."""

from __future__ import annotations

import json
import pickle
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubeflow_corpus.records import Chunk, Document, Skip, seal

CHUNK = Chunk(
    document_id="website:content/en/docs/a.md",
    unit_id="website:content/en/docs/a.md#install",
    view="",
    chunk_index=0,
    start_line=3,
    end_line=9,
    title="Install",
    section_path="Getting started",
    content_text="Run kustomize build.",
    search_text="Install\nRun kustomize build.",
    embedding_text="Install\nRun kustomize build.",
    citation_url="https://github.com/kubeflow/website/blob/abc123/content/en/docs/a.md#install",
    file_path="content/en/docs/a.md",
    repo="kubeflow/website",
    source="website",
    source_type="docs",
    product_area=("platform",),
    version=("1.9.1", "1.9"),
    revision="abc123",
    updated_at="2026-01-01T00:00:00Z",
    fields={"doc_type": "docs", "labels": ("kind/bug", "area/ui"), "issue_number": 7, "resolved": True},
)
# A JSON artifact holds whatever a source holds, lone surrogates of a GitHub answer included.
TEXT = st.text(st.characters(), max_size=40)
CHUNKS = st.builds(
    Chunk,
    **{name: TEXT for name in (f.name for f in fields(Chunk)) if name not in ("fields", "product_area", "version")}
    | {name: st.integers(0, 10**6) for name in ("chunk_index", "start_line", "end_line")}
    | {"source_type": st.sampled_from(["docs", "issue", "code", "manifest"])}
    | {name: st.lists(TEXT, max_size=3).map(tuple) for name in ("product_area", "version")},
    fields=st.dictionaries(TEXT, st.one_of(TEXT, st.integers(), st.booleans(), st.lists(TEXT).map(tuple)), max_size=4),
)


def through_json(data: dict[str, Any]) -> Any:
    return json.loads(json.dumps(data))


@settings(deadline=None, max_examples=30)
@given(CHUNKS)
def test_a_chunk_reads_back_as_it_was_with_the_same_hashes(chunk: Chunk) -> None:
    again = Chunk.from_dict(through_json(chunk.to_dict()))
    assert again == chunk
    assert (again.row_hash, again.embedding_hash) == (chunk.row_hash, chunk.embedding_hash)


def test_a_document_and_a_skip_have_a_json_form() -> None:
    document = Document(
        "s:1", "s", "issue", "a/b", "", "issues/a/b/1", "https://x", "T", "{}", {"product_area": ["katib"]}
    )
    assert Document.from_dict(through_json(document.to_dict())) == document
    assert Skip("s:1", "a.md", "draft").to_dict() == {
        "document_id": "s:1",
        "path": "a.md",
        "reason": "draft",
        "detail": "",
    }


@pytest.mark.parametrize("name", [f.name for f in fields(Chunk)])
def test_the_row_hash_covers_every_stored_field_but_provenance(name: str) -> None:
    other: dict[str, Any] = {"fields": {"doc_type": "release_notes"}, "product_area": (), "version": ()}
    value = other.get(name, 99 if isinstance(getattr(CHUNK, name), int) else "something else")
    changed = replace(CHUNK, **{name: value})
    provenance = {"id", "embedding_text", "revision", "updated_at"}
    # A new revision alone changes the address, too: that is the next test.
    changed = replace(changed, citation_url=changed.citation_url.replace("abc123", changed.revision))
    assert (changed.row_hash == CHUNK.row_hash) == (name in provenance)


def test_a_commit_that_does_not_touch_a_document_changes_no_row() -> None:
    moved = replace(
        CHUNK,
        revision="def456",
        citation_url=CHUNK.citation_url.replace("abc123", "def456"),
        updated_at="2026-02-02T00:00:00Z",
    )
    assert moved.row_hash == CHUNK.row_hash
    assert moved.embedding_hash == CHUNK.embedding_hash


def test_an_issue_has_no_revision_so_its_time_counts() -> None:
    issue = replace(CHUNK, revision="", source_type="issue")
    assert replace(issue, updated_at="2026-02-02T00:00:00Z").row_hash != issue.row_hash


def test_the_embedding_hash_is_that_of_the_embedding_text_alone() -> None:
    assert replace(CHUNK, content_text="other").embedding_hash == CHUNK.embedding_hash
    assert replace(CHUNK, embedding_text="other").embedding_hash != CHUNK.embedding_hash


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["", "2"]), st.sampled_from("xy")), max_size=12))
def test_keys_are_unique_and_positions_count_up_even_where_content_repeats(rows: list[tuple[str, str, str]]) -> None:
    chunks = [replace(CHUNK, unit_id=unit, view=view, content_text=text) for unit, view, text in rows]
    sealed = list(seal(chunks))
    assert len({chunk.id for chunk in sealed}) == len(chunks)
    assert [chunk.chunk_index for chunk in sealed] == list(range(len(chunks)))
    assert [replace(chunk, id="", chunk_index=0) for chunk in sealed] == chunks


@settings(deadline=None, max_examples=30)
@given(CHUNKS)
def test_a_chunk_reaches_another_process_as_it_was(chunk: Chunk) -> None:
    assert pickle.loads(pickle.dumps(chunk)) == chunk


@given(st.integers(0, 10**6))
def test_a_line_inserted_at_the_top_re_keys_nothing(offset: int) -> None:
    below = replace(CHUNK, start_line=CHUNK.start_line + offset, end_line=CHUNK.end_line + offset)
    assert next(seal([below])).id == next(seal([CHUNK])).id


def test_the_parts_of_a_key_cannot_run_into_each_other() -> None:
    one = next(seal([replace(CHUNK, unit_id="a", view="bc")]))
    other = next(seal([replace(CHUNK, unit_id="ab", view="c")]))
    assert one.id != other.id
