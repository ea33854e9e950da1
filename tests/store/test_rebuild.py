from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.errors import CollectionNotFound, GateFailed, StoreError, VersionInUse
from kubeflow_corpus.milvus import detect_backend, read_with_retry
from kubeflow_corpus.model import Recipe
from kubeflow_corpus.records import GateReport
from kubeflow_corpus.retry import Backoff
from kubeflow_corpus.store import apply, rows, schema
from kubeflow_corpus.store.gate import check_version
from kubeflow_corpus.store.plan import SourceResult, resume_cursor
from kubeflow_corpus.store.rows import to_row
from kubeflow_corpus.store.versions import (
    drop_version,
    list_versions,
    live_name,
    live_version,
    move_alias,
    prune_versions,
    recipe_properties,
    rollback,
    set_properties,
)

from tests.store.conftest import Store
from tests.store.synthetic import BUDGET, MODEL, OTHER_MODEL, HashEmbedder, corpus, page, result, rows_of, unit_vector


def write_manual(store: Store, text: str, model: HashEmbedder | None = None) -> str:
    (chunk,) = page("manual", "note", [text])
    vector = unit_vector(chunk.embedding_text, (model or HashEmbedder()).identity)
    store.client.upsert(store.served, [{**to_row(DOCS, chunk), "vector": vector}])
    return chunk.id


def version_names(store: Store) -> list[str]:
    return [version.name.rpartition("_")[2] for version in list_versions(store.client, store.served)]


def live_number(store: Store) -> str:
    return live_name(store.client, store.served).rpartition("_")[2]


def test_a_rebuild_copies_every_vector_and_moves_the_alias(store: Store) -> None:
    store.run(corpus("site", 4)).all()
    before = rows_of(store.client, store.served)
    run = store.run(corpus("site", 4), mode="rebuild")
    record = run.all()
    assert (record.reasons, record.reused, run.embedder.embedded) == (("asked for",), 12, 0)
    assert (live_number(store), version_names(store)) == ("v2", ["v1", "v2"])
    assert rows_of(store.client, store.served) == before


@pytest.mark.parametrize(
    ("change", "reason", "embedded_again"),
    [
        ({"chunker_version": "2"}, "chunker changed from 1 to 2", 0),
        ({"embedder": HashEmbedder(OTHER_MODEL)}, "model changed", 6),
        ({"embedder": HashEmbedder(replace(MODEL, dimension=4))}, "dimension 8 is recorded, 4 is given", 6),
        ({"embedder": HashEmbedder(replace(MODEL, revision="r2"))}, "weights r1 is recorded, r2 is given", 6),
    ],
    ids=["chunker", "model", "dimension", "weights"],
)
def test_a_rebuild_is_forced_and_says_why(
    embedded: Store, change: dict[str, object], reason: str, embedded_again: int
) -> None:
    embedded.run(corpus("site", 2)).all()
    record = embedded.run(corpus("site", 2), **change).all()
    assert record.mode == "rebuild"
    assert reason in "; ".join(record.reasons)
    assert record.embedded == embedded_again
    assert live_number(embedded) == "v2"


def test_a_changed_schema_forces_a_rebuild(embedded: Store) -> None:
    embedded.run(corpus("site", 2)).all()
    record = embedded.run(corpus("site", 2), schema_version="next").all()
    assert record.reasons == ("schema changed from 1 to next",)
    assert (record.embedded, live_number(embedded)) == (0, "v2")


def test_a_service_that_does_not_say_its_weights_forces_nothing(embedded: Store) -> None:
    embedded.run(corpus("site", 2)).all()
    record = embedded.run(corpus("site", 2), embedder=HashEmbedder(replace(MODEL, revision=""))).all()
    assert record.mode == "incremental"


def test_rows_that_people_wrote_are_copied_with_their_vectors(store: Store) -> None:
    store.run(corpus("site", 2)).all()
    key = write_manual(store, "Note: keep me")
    before = rows_of(store.client, store.served)[key]
    store.run(corpus("site", 2), mode="rebuild").all()
    assert rows_of(store.client, store.served)[key] == before


def test_rows_that_people_write_during_a_rebuild_are_carried_over(embedded: Store) -> None:
    embedded.run(corpus("site", 2)).all()
    gone = write_manual(embedded, "Note: deleted meanwhile")
    run = embedded.run(corpus("site", 2), mode="rebuild")
    plan = run.plan()
    record = run.apply(plan, run.embed(plan))
    embedded.client.delete(embedded.served, filter=schema.keys_filter("id", [gone]))
    late = write_manual(embedded, "Note: written meanwhile")
    run.publish(plan, record)
    held = rows_of(embedded.client, embedded.served)
    assert (late in held, gone in held, live_number(embedded)) == (True, False, "v2")


def test_rows_that_people_wrote_are_embedded_again_for_another_model(embedded: Store) -> None:
    embedded.run(corpus("site", 2)).all()
    key = write_manual(embedded, "Note: keep me")
    embedder = HashEmbedder(OTHER_MODEL)
    embedded.run(corpus("site", 2), embedder=embedder).all()
    assert embedder.embedded == 7
    row = rows_of(embedded.client, embedded.served)[key]
    text, _ = BUDGET.embedding_text(BUDGET.header(row["title"], row["section_path"]), row["content_text"])
    assert row["vector"] == tuple(unit_vector(text, OTHER_MODEL))


def test_a_failed_gate_leaves_the_alias_alone_and_keeps_the_candidate(store: Store) -> None:
    store.run(corpus("site", 3)).all()
    before = rows_of(store.client, store.served)
    run = store.run(corpus("site", 3, edit=" new"), mode="rebuild")
    with pytest.raises(GateFailed, match="hit@5 0.70 is below 0.90") as caught:
        run.all([GateReport(False, ("hit@5 0.70 is below 0.90",), {"hit@5": 0.7})])
    assert "kept for inspection" in str(caught.value)
    assert (live_number(store), version_names(store)) == ("v1", ["v1", "v2"])
    assert rows_of(store.client, store.served) == before
    assert len(rows_of(store.client, f"{store.served}_v2")) == 9
    # The next rebuild goes on with the candidate instead of paying again.
    again = store.run(corpus("site", 3, edit=" new"), mode="rebuild")
    assert (again.all().rows["rows_written"], live_number(store)) == (0, "v2")
    assert again.embedder.embedded == 0


def test_a_rebuild_does_not_publish_while_a_source_failed(embedded: Store) -> None:
    both = [result(embedded.folder, name, corpus(name, 2)) for name in ("a", "b")]
    embedded.run(results=both).all()
    failed = SourceResult("b", "failed", step="fetch", error="no route to host")
    with pytest.raises(GateFailed, match="source b failed in step fetch: no route to host"):
        embedded.run(results=[both[0], failed], mode="rebuild").all()
    assert live_number(embedded) == "v1"


def test_a_rebuild_over_some_sources_does_not_lose_the_others(embedded: Store) -> None:
    both = [result(embedded.folder, name, corpus(name, 2)) for name in ("a", "b")]
    embedded.run(results=both).all()
    run = embedded.run(results=both[:1], mode="rebuild")
    assert run.plan().uncovered == ("b",)
    with pytest.raises(GateFailed, match="source b is served and was not read in full"):
        run.all()


def test_a_rebuild_whose_crawl_stopped_early_goes_on_from_its_own_cursor(embedded: Store) -> None:
    pages = corpus("site", 6)
    embedded.run(results=[result(embedded.folder, "site", pages, cursor="live-cursor")]).all()
    recipe = {"prefix": embedded.prefix, "recipe": Recipe(MODEL, 256, "2")}

    def cursor() -> str:
        return resume_cursor(embedded.client, DOCS, "site", mode="rebuild", **recipe)

    assert cursor() == ""
    first = result(embedded.folder, "site", pages[:4], complete=False, reached_end=False, cursor="half")
    with pytest.raises(GateFailed, match="not read in full"):
        embedded.run(results=[first], chunker_version="2").all()
    assert cursor() == "half"
    rest = result(embedded.folder, "site", pages[4:], complete=False, cursor="end")
    record = embedded.run(results=[rest], chunker_version="2").all()
    assert (record.outcome, live_number(embedded), record.rows["rows_held"]) == ("published", "v2", 18)


def test_a_first_version_is_published_although_a_source_failed(embedded: Store) -> None:
    good = result(embedded.folder, "a", corpus("a", 2))
    record = embedded.run(results=[good, SourceResult("b", "failed", error="down")]).all()
    assert (record.outcome, record.failed[0]["source"]) == ("published", "b")


def test_the_gate_of_an_incremental_run_alarms(embedded: Store) -> None:
    embedded.run(corpus("site", 2)).all()
    with pytest.raises(GateFailed, match="worse"):
        embedded.run(corpus("site", 2, edit=" x")).all([GateReport(False, ("worse",))])
    assert live_number(embedded) == "v1"


def test_a_candidate_of_another_recipe_is_not_resumed(embedded: Store) -> None:
    embedded.run(corpus("site", 2)).all()
    with pytest.raises(GateFailed):
        embedded.run(corpus("site", 2), chunker_version="2").all([GateReport(False, ("no",))])
    record = embedded.run(corpus("site", 2), chunker_version="3").all()
    assert (record.target.rpartition("_")[2], version_names(embedded)) == ("v3", ["v1", "v3"])


def test_an_unfinished_candidate_brings_no_row_that_its_run_did_not_verify(embedded: Store) -> None:
    both = [result(embedded.folder, name, corpus(name, 2)) for name in ("a", "b")]
    run = embedded.run(results=both)
    plan = run.plan()
    run.apply(plan, run.embed(plan))
    candidate = list_versions(embedded.client, embedded.served)[0]
    # As if that run had been killed before it recorded its sources.
    set_properties(embedded.client, candidate.name, {"head:a": "", "head:b": "", "completed_at": "", "lease": ""})
    embedded.run(results=both[:1]).all()
    assert {row["source"] for row in rows_of(embedded.client, embedded.served).values()} == {"a"}


@pytest.mark.parametrize("left", [[], ["vector"], ["sparse_vector"]], ids=["no index", "dense only", "sparse only"])
def test_a_candidate_whose_creation_was_killed_is_completed(embedded: Store, left: list[str]) -> None:
    backend = detect_backend(embedded.client)
    name = schema.physical_name(embedded.served, 1)
    embedded.client.create_collection(
        name,
        schema=schema.collection_schema(DOCS, backend, 8),
        properties=recipe_properties(Recipe(MODEL, 256, "1"), DOCS, backend),
    )
    if left:
        embedded.client.create_index(name, schema.index_params(backend, fields=left))
    record = embedded.run(corpus("site", 2)).all()
    assert (record.target, record.outcome) == (name, "published")


def test_a_number_that_a_killed_creation_blocks_is_passed_over(embedded: Store) -> None:
    # What Milvus Lite leaves when it is killed between making the folder and writing the schema.
    blocked = Path(embedded.settings.milvus_uri) / "collections" / schema.physical_name(embedded.served, 1)
    blocked.mkdir()
    record = embedded.run(corpus("site", 1)).all()
    assert record.target == schema.physical_name(embedded.served, 2)


def test_rollback_serves_the_version_before_and_can_come_back(store: Store) -> None:
    store.run(corpus("site", 2)).all()
    first = rows_of(store.client, store.served)
    store.run(corpus("site", 3), mode="rebuild").all()
    second = rows_of(store.client, store.served)
    assert rollback(store.client, DOCS, store.prefix) == (f"{store.served}_v2", f"{store.served}_v1")
    assert rows_of(store.client, store.served) == first
    rollback(store.client, DOCS, store.prefix, 2)
    assert rows_of(store.client, store.served) == second


def test_many_rows_are_copied_and_read_back_in_passes(embedded: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_PASS_FROM_ROWS", 5)
    monkeypatch.setattr(rows, "SCAN_PAGE_VECTORS", 4)
    embedded.run(corpus("site", 4)).all()
    before = rows_of(embedded.client, embedded.served)
    run = embedded.run(corpus("site", 4), mode="rebuild")
    assert (run.all().reused, run.embedder.embedded) == (12, 0)
    assert rows_of(embedded.client, embedded.served) == before

    def lossy(*args: Any, **values: Any) -> Any:
        return (page[:1] for page in rows.scan(*args, **values))

    late = embedded.run(corpus("site", 6))
    plan = late.plan()
    files = late.embed(plan)
    monkeypatch.setattr(apply, "scan", lossy)
    monkeypatch.setattr(apply, "READ_BACK_TRIES", Backoff(attempts=4, base=0.0))
    with pytest.raises(StoreError, match="rows that were written do not come back"):
        late.apply(plan, files)


def test_rollback_without_an_earlier_version_says_so(embedded: Store) -> None:
    embedded.run(corpus("site", 1)).all()
    with pytest.raises(CollectionNotFound, match="no earlier version"):
        rollback(embedded.client, DOCS, embedded.prefix)
    with pytest.raises(CollectionNotFound, match="has no version 7.*v1"):
        rollback(embedded.client, DOCS, embedded.prefix, 7)


def test_rollback_refuses_a_version_that_was_never_published(embedded: Store) -> None:
    embedded.run(corpus("site", 1)).all()
    with pytest.raises(GateFailed):
        embedded.run(corpus("site", 1), mode="rebuild").all([GateReport(False, ("no",))])
    with pytest.raises(CollectionNotFound, match="never published"):
        rollback(embedded.client, DOCS, embedded.prefix, 2)


def test_the_last_two_versions_are_kept_and_older_ones_go(embedded: Store) -> None:
    for _ in range(5):
        embedded.run(corpus("site", 1), mode="rebuild").all()
    assert version_names(embedded) == ["v3", "v4", "v5"]


def test_drop_and_prune_cannot_touch_what_an_alias_serves(store: Store) -> None:
    store.run(corpus("site", 1)).all()
    live = live_version(list_versions(store.client, store.served))
    assert live is not None
    with pytest.raises(VersionInUse, match="is served by alias"):
        drop_version(store.client, store.served, live)
    assert prune_versions(store.client, store.served, keep=0) == []
    # Also when somebody's own alias points to it.
    store.run(corpus("site", 1), mode="rebuild").all()
    store.client.create_alias(live.name, f"{store.served}_pinned")
    with pytest.raises(VersionInUse, match="_pinned"):
        drop_version(store.client, store.served, live)
    store.client.drop_alias(f"{store.served}_pinned")
    assert [version.name for version in prune_versions(store.client, store.served, keep=0)] == [live.name]


def test_publish_refuses_when_another_writer_moved_the_alias(embedded: Store) -> None:
    embedded.run(corpus("site", 1)).all()
    embedded.run(corpus("site", 2), mode="rebuild").all()
    run = embedded.run(corpus("site", 3), mode="rebuild")
    plan = run.plan()
    record = run.apply(plan, run.embed(plan))
    rollback(embedded.client, DOCS, embedded.prefix)
    with pytest.raises(StoreError, match="Another writer published in between"):
        run.publish(plan, record)
    assert live_number(embedded) == "v1"


def test_apply_refuses_a_plan_that_another_run_made_stale(embedded: Store) -> None:
    embedded.run(corpus("site", 1)).all()
    run = embedded.run(corpus("site", 2))
    plan = run.plan()
    embedded.run(corpus("site", 1), mode="rebuild").all()
    with pytest.raises(StoreError, match="changed since the plan was made"):
        run.apply(plan, run.embed(plan))


def test_the_store_gate_names_lost_documents_and_areas(embedded: Store) -> None:
    embedded.run([*corpus("site", 6), page("site", "k.md", ["K: katib"], product_area=("katib",))]).all()
    run = embedded.run(corpus("site", 3), mode="rebuild", options={"allow_deletions": ["site"]})
    plan = run.plan()
    record = run.apply(plan, run.embed(plan))
    gate = check_version(embedded.client, record.target, f"{embedded.served}_v1")
    assert gate.failures == (
        "source site has 3 documents where 7 are served",
        "product area katib has no row where 1 are served",
    )
    assert not gate.passed
    assert check_version(embedded.client, record.target, f"{embedded.served}_v1", allow_deletions=["site"]).passed


def test_the_store_gate_finds_a_version_whose_list_is_broken(embedded: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded.run([page("site", f"{n}.md", [f"Part: number {n}"]) for n in range(20)]).all()
    name = live_name(embedded.client, embedded.served)
    assert check_version(embedded.client, name).passed
    search = embedded.client.search

    def broken(*args: Any, **values: Any) -> Any:
        return [[]] if values["anns_field"] == "sparse_vector" else search(*args, **values)

    monkeypatch.setattr(embedded.client, "search", broken)
    assert check_version(embedded.client, name).failures == (
        "source site: no BM25 search finds the row whose words it was given",
    )


def test_many_rows_with_the_same_vector_find_each_other(embedded: Store) -> None:
    class Same(HashEmbedder):
        def embed(self, texts: Any, *, timeout: float | None = None) -> Any:
            return super().embed(["the same"] * len(texts))

    record = embedded.run(corpus("site", 12), embedder=Same()).all()
    assert record.outcome == "published"


def test_an_empty_version_is_not_served(embedded: Store) -> None:
    embedded.run(corpus("site", 2)).all()
    with pytest.raises(GateFailed, match="holds no row"):
        embedded.run([], mode="rebuild", options={"allow_deletions": ["site"]}).all()


def test_searches_during_an_alias_move_are_answered_by_one_version_and_none_fails(store: Store) -> None:
    store.run([page("site", f"{n}.md", ["A: first"], title="T") for n in range(30)]).all()
    store.run(
        [page("site", f"{n}.md", ["A: second"], title="T") for n in range(30)],
        mode="rebuild",
    ).all()
    names = [f"{store.served}_v1", f"{store.served}_v2"]
    answers: list[set[str]] = []
    errors: list[Exception] = []
    done = threading.Event()

    def search() -> None:
        while not done.is_set():
            try:
                # A real server refuses some reads while it moves an alias: readers ask again.
                found = read_with_retry(
                    lambda: store.client.search(
                        store.served,
                        data=[[1.0] * 8],
                        anns_field="vector",
                        limit=30,
                        output_fields=["content_text"],
                        search_params={"metric_type": "COSINE"},
                    )
                )
                answers.append({hit["entity"]["content_text"] for hit in found[0]})
            except Exception as error:  # noqa: BLE001 - every failure counts, of whatever kind
                errors.append(error)

    readers = [threading.Thread(target=search) for _ in range(2)]
    for reader in readers:
        reader.start()
    for move in range(20):
        move_alias(store.client, store.served, names[move % 2], names[(move + 1) % 2])
    done.set()
    for reader in readers:
        reader.join()
    assert [str(error) for error in errors] == []
    assert {frozenset(answer) for answer in answers} == {frozenset({"A: first"}), frozenset({"A: second"})}
    assert len(answers) >= 20
