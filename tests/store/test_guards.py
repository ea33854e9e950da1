"""What a run refuses or mends before it writes: deletions in slices, collections of others, indexes that are gone."""

from __future__ import annotations

from typing import Any

import pytest
from kubeflow_corpus.errors import DeletionGuard, SchemaMismatch
from kubeflow_corpus.store.apply import apply_plan
from kubeflow_corpus.store.deletions import DELETIONS_KEY, WINDOW_SECONDS, deletions_property, recent_deletions
from kubeflow_corpus.store.schema import SPARSE_FIELD, VECTOR_FIELD
from kubeflow_corpus.store.versions import Version, live_name, refuse_foreign
from pymilvus import DataType, MilvusClient

from tests.store.conftest import Store
from tests.store.synthetic import BUDGET, corpus, rows_of


def pages(number: int) -> list[Any]:
    return corpus("site", number, sections=1)


def test_many_small_deletions_are_one_large_one(embedded: Store) -> None:
    store = embedded
    store.run(pages(36)).all()
    store.run(pages(29)).all()

    with pytest.raises(DeletionGuard, match="14 of 36 documents of source site would be deleted, 7 of them in the"):
        store.run(pages(22)).all()
    assert len(rows_of(store.client, store.served)) == 29
    # What only adds is not stopped by what was deleted before.
    store.run(pages(30)).all()
    # Somebody looked at it: what is left is the new whole.
    store.run(pages(20), options={"allow_deletions": ["site"]}).all()
    store.run(pages(16)).all()
    assert len(rows_of(store.client, store.served)) == 16


def test_what_was_deleted_is_forgotten_after_a_day() -> None:
    def after(version: Version | None, deleted: dict[str, int], at: float, *allowed: str) -> Version:
        before = dict(version.properties) if version else {}
        return Version("v", 1, True, {**before, **deletions_property(version, deleted, allowed, at)})

    first = after(None, {"a": 3, "b": 0}, 0.0)
    second = after(first, {"a": 2, "c": 1}, 10.0)

    assert recent_deletions(first, 1.0) == {"a": 3}
    assert recent_deletions(second, 11.0) == {"a": 5, "c": 1}
    assert recent_deletions(second, WINDOW_SECONDS + 5.0) == {"a": 2, "c": 1}
    assert recent_deletions(second, WINDOW_SECONDS + 11.0) == {}
    assert recent_deletions(after(second, {"a": 9}, 12.0, "a"), 13.0) == {"c": 1}
    assert deletions_property(second, {}, (), 12.0) == {}
    assert recent_deletions(Version("v", 1, True, {DELETIONS_KEY: '{"a": 7}'}), 1.0) == {}


def foreign(client: MilvusClient, name: str) -> None:
    schema = client.create_schema()
    schema.add_field("key", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=4)
    client.create_collection(name, schema=schema)


def test_a_collection_of_somebody_else_is_refused_and_left_alone(embedded: Store) -> None:
    client, served = embedded.client, embedded.served
    refuse_foreign(client, served)
    made = [served, f"{served}_v1", f"{served}_elsewhere"]
    for name in made[:2]:
        foreign(client, name)
        with pytest.raises(SchemaMismatch, match=f"Collection {name} was not made by this program") as caught:
            refuse_foreign(client, served)
        assert "COLLECTION_PREFIX" in caught.value.remedy and client.has_collection(name)
        client.drop_collection(name)
    foreign(client, made[2])
    client.create_alias(made[2], served)
    with pytest.raises(SchemaMismatch, match=f"Collection {made[2]} was not made by this program"):
        refuse_foreign(client, served)
    assert live_name(client, served) == made[2]
    client.drop_alias(served)
    client.drop_collection(made[2])
    embedded.run(pages(2)).all()
    refuse_foreign(client, served)


@pytest.mark.parametrize("field", [SPARSE_FIELD, VECTOR_FIELD])
def test_an_index_that_is_gone_is_made_again_and_named(embedded: Store, field: str) -> None:
    store, said = embedded, list[str]()
    store.run(pages(3)).all()
    name = live_name(store.client, store.served)
    store.client.release_collection(name)
    for index in store.client.list_indexes(name, field_name=field):
        store.client.drop_index(name, index)

    run = store.run(pages(3))
    plan = run.plan()
    files = run.embed(plan)
    apply_plan(store.client, plan, run.results, files, run.workdir, embedded=True, counter=BUDGET.counter,
               announce=said.append)  # fmt: skip

    # Milvus Lite drops the other index too.
    (line,) = said
    assert field in line and line.startswith(f"{name}: the index of ") and line.endswith("was gone and is made again")
    assert store.client.list_indexes(name, field_name=field)
