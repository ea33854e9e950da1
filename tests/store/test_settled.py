"""A version says of which sources it holds just what they bring, and never says so where that may be wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.errors import StoreError
from kubeflow_corpus.model import Recipe
from kubeflow_corpus.store.apply import RunRecord, Writer, last_run
from kubeflow_corpus.store.plan import Plan, SourceResult
from kubeflow_corpus.store.settled import Settled, clear_settled, read_recorded, settled_sources, unchanged_plan
from kubeflow_corpus.store.versions import Version, list_versions, live_version, properties_of, set_properties

from tests.store.conftest import Store
from tests.store.synthetic import MODEL, Run, corpus, result, rows_of


def fetched(store: Store, *, pages: int = 4, fingerprint: str = "f1", edit: str = "", **values: Any) -> SourceResult:
    return result(store.folder, "site", corpus("site", pages, edit=edit), fingerprint=fingerprint, **values)


def live(store: Store) -> Version:
    found = live_version(list_versions(store.client, store.served))
    assert found is not None
    return found


def revisit(store: Store) -> tuple[Run, Plan]:
    version = live(store)
    held = settled_sources(store.client, version)
    plan = unchanged_plan(
        DOCS, held, prefix=store.prefix, live=version.name, recipe=Recipe(MODEL, 256, "1"), run="second"
    )
    return store.run(results=[fetched(store)]), plan


def settled(store: Store) -> dict[str, Settled]:
    return settled_sources(store.client, live(store))


def test_a_published_run_leaves_its_sources_settled(store: Store) -> None:
    store.run(results=[fetched(store)]).all()
    assert settled(store) == {"site": Settled("f1", documents=4, rows=12)}


def test_a_run_in_which_nothing_changed_writes_no_row_and_records_that_it_was_there(embedded: Store) -> None:
    store = embedded
    first = store.run(results=[fetched(store)]).all()
    before = rows_of(store.client, store.served)
    set_properties(store.client, live(store).name, {"fetched:site": "long ago"})
    run, plan = revisit(store)
    record = run.apply(plan, [])
    assert (record.run, record.mode, record.outcome) == ("second", "incremental", "published")
    assert record.documents == {"site": {"unchanged": 4, "held": 4}}
    assert record.rows == {"rows_wanted": 12, "rows_written": 0, "rows_deleted": 0, "rows_held": 12}
    assert (record.areas, record.gate) == (first.areas, first.gate)
    assert last_run(store.client, live(store).name) == record
    assert properties_of(store.client, live(store).name)["fetched:site"] != "long ago"
    assert rows_of(store.client, store.served) == before
    # Nobody holds a lease afterwards, and the next run may do the same.
    assert not live(store).properties.get("lease")
    assert settled(store) == {"site": Settled("f1", documents=4, rows=12)}


def test_the_plan_of_such_a_run_survives_its_artifact() -> None:
    held = {"site": Settled("f1", documents=4, rows=12)}
    plan = unchanged_plan(DOCS, held, prefix="", live="x_v1", recipe=Recipe(MODEL, 256, "1"), run="r")
    assert Plan.from_dict(plan.to_dict()) == plan


def test_a_writer_that_is_interrupted_leaves_nothing_settled(embedded: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store = embedded
    store.run(results=[fetched(store)]).all()
    run = store.run(results=[fetched(store, fingerprint="f2", edit=" and more")])
    plan = run.plan()
    files = run.embed(plan)

    def upsert(self: Writer, rows: list[dict[str, Any]]) -> None:
        raise StoreError("the machine is lost")

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "upsert", upsert)
        with pytest.raises(StoreError, match="the machine is lost"):
            run.apply(plan, files)
    # The source went back to what it was: had the record survived, rows of the broken run would now count as right.
    assert read_recorded(live(store)) == {}
    assert settled(store) == {}
    store.run(results=[fetched(store)]).all()
    assert settled(store) == {"site": Settled("f1", documents=4, rows=12)}


def test_rows_that_are_lost_or_that_no_source_has_unsettle_a_version(embedded: Store) -> None:
    store = embedded
    store.run(results=[fetched(store)]).all()
    key = min(rows_of(store.client, store.served))
    store.client.delete(live(store).name, filter=f'id == "{key}"')
    assert settled(store) == {}
    assert store.run(results=[fetched(store)]).all().rows["rows_written"] == 3


def test_rows_that_people_write_do_not(embedded: Store) -> None:
    store = embedded
    store.run(results=[fetched(store)]).all()
    row = next(iter(rows_of(store.client, store.served).values()))
    store.client.upsert(live(store).name, [{**row, "vector": list(row["vector"]), "id": "by-hand", "source": "manual"}])
    assert settled(store) == {"site": Settled("f1", documents=4, rows=12)}


@pytest.mark.parametrize(
    "values",
    [{"fingerprint": ""}, {"complete": False, "partial": True}, {"reached_end": False}],
    ids=["no commit", "some documents only", "not read to its end"],
)
def test_what_was_not_read_whole_at_a_commit_is_not_settled(embedded: Store, values: dict[str, Any]) -> None:
    store = embedded
    store.run(results=[fetched(store, **values)]).all()
    assert settled(store) == {}


def test_a_source_that_is_stored_and_not_settled_unsettles_the_others(embedded: Store) -> None:
    store = embedded
    other = result(store.folder, "other", corpus("other", 2))
    store.run(results=[fetched(store), other]).all()
    assert read_recorded(live(store)).keys() == {"site"}
    assert settled(store) == {}


def test_a_gate_that_alarmed_is_asked_again(embedded: Store) -> None:
    store = embedded
    store.run(results=[fetched(store)]).all()
    name = live(store).name
    record = last_run(store.client, name)
    assert isinstance(record, RunRecord)
    text = replace(record, outcome="gate failed")
    set_properties(store.client, name, {"last_run": json.dumps(text.to_dict())})
    assert settled(store) == {}


def test_a_plan_that_another_writer_overtook_is_not_carried_out(embedded: Store) -> None:
    store = embedded
    store.run(results=[fetched(store)]).all()
    run, plan = revisit(store)
    clear_settled(store.client, live(store))
    before = last_run(store.client, live(store).name)
    with pytest.raises(StoreError, match="changed since the plan was made"):
        run.apply(plan, [])
    assert last_run(store.client, live(store).name) == before
