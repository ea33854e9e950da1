"""The table of collections: their names, and that what depends on a field agrees with it."""

from __future__ import annotations

from dataclasses import fields

import pytest
from kubeflow_corpus.collections import (
    CITED_FIELDS,
    COLLECTION_NAMES,
    COLLECTIONS,
    COMMON_FIELDS,
    CollectionSpec,
    find_collection,
)
from kubeflow_corpus.errors import InvalidArgument
from kubeflow_corpus.query.citations import citation_schema
from kubeflow_corpus.query.ranking import light_fields
from kubeflow_corpus.records import Chunk


@pytest.mark.parametrize("spec", COLLECTIONS, ids=COLLECTION_NAMES)
def test_a_collection_is_found_by_each_of_its_names(spec: CollectionSpec) -> None:
    for name in (spec.name, spec.alias, spec.tool):
        assert find_collection(name) is spec


def test_no_two_collections_share_a_name() -> None:
    names = [name for spec in COLLECTIONS for name in (spec.name, spec.alias, spec.tool)]
    assert len(set(names)) == len(names)
    assert tuple(spec.name for spec in COLLECTIONS) == COLLECTION_NAMES


def test_an_unknown_collection_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(InvalidArgument, match="docs_rag") as caught:
        find_collection("docs_rag")
    for spec in COLLECTIONS:
        assert {spec.name, spec.alias, spec.tool} <= set(caught.value.fields["known"])
        assert spec.alias in str(caught.value) and spec.tool in str(caught.value)


def test_every_common_field_is_an_attribute_of_a_chunk() -> None:
    derived = {"embedding_hash", "row_hash"}
    chunk = {field.name for field in fields(Chunk)} - {"embedding_text", "fields"}
    assert {field.name for field in COMMON_FIELDS} == chunk | derived


@pytest.mark.parametrize("spec", COLLECTIONS, ids=COLLECTION_NAMES)
def test_filters_and_facets_are_over_stored_fields_that_a_hit_has(spec: CollectionSpec) -> None:
    stored = {field.name: field for field in spec.fields}
    kinds = {"array_any": "array", "array_all": "array", "flag": "boolean"}
    for rule in spec.filters:
        assert stored[rule.field].kind == kinds.get(rule.operator, "text"), rule.name
    assert set(spec.facets) <= set(light_fields(spec))


def test_the_schema_of_a_citation_describes_every_cited_field() -> None:
    assert {field.name for field in CITED_FIELDS} <= citation_schema()["properties"].keys()
