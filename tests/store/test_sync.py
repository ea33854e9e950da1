from __future__ import annotations

import json

import pytest
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.errors import ArtifactError, DeletionGuard, InvalidVector, StoreError
from kubeflow_corpus.store.plan import Plan, SourceResult
from kubeflow_corpus.store.versions import live_name, properties_of

from tests.store.conftest import Store
from tests.store.synthetic import HashEmbedder, corpus, page, result, rows_of, unit_vector


def documents(store: Store) -> set[str]:
    return {row["document_id"] for row in rows_of(store.client, store.served).values()}


def test_a_first_run_serves_every_row_with_its_own_vector(store: Store) -> None:
    pages = corpus("site", 4)
    record = store.run(pages).all()
    assert (record.mode, record.outcome, record.reasons) == ("rebuild", "published", ("no version is served yet",))
    held = rows_of(store.client, store.served)
    assert held.keys() == {chunk.id for chunks in pages for chunk in chunks}
    for chunks in pages:
        for chunk in chunks:
            row = held[chunk.id]
            assert row["vector"] == tuple(unit_vector(chunk.embedding_text))
            assert (row["content_text"], row["row_hash"]) == (chunk.content_text, chunk.row_hash)
            assert (row["product_area"], row["doc_type"]) == (["pipelines"], "docs")


def test_an_unchanged_second_run_embeds_nothing_and_writes_nothing(store: Store) -> None:
    store.run(corpus("site", 4)).all()
    before = rows_of(store.client, store.served)
    run = store.run(corpus("site", 4))
    record = run.all()
    assert record.mode == "incremental"
    assert (record.embedded, record.rows["rows_written"], record.rows["rows_deleted"]) == (0, 0, 0)
    assert run.embedder.embedded == 0
    assert record.documents == {"site": {"unchanged": 4, "held": 4}}
    assert rows_of(store.client, store.served) == before


def test_a_new_commit_that_touches_nothing_writes_no_row_and_moves_the_head(store: Store) -> None:
    store.run(corpus("site", 3)).all()
    before = rows_of(store.client, store.served)
    later = corpus("site", 3, revision="c2")
    record = store.run(results=[result(store.folder, "site", later, revision="c2")]).all()
    assert record.rows["rows_written"] == 0
    assert rows_of(store.client, store.served) == before
    assert properties_of(store.client, live_name(store.client, store.served))["head:site"] == "c2"


def test_one_changed_paragraph_embeds_only_its_section_and_leaves_no_old_row(store: Store) -> None:
    store.run(corpus("site", 4)).all()
    pages = corpus("site", 4, revision="c2", edit=" and one word more")
    record = store.run(pages).all()
    assert record.embedded == 1
    assert (record.rows["rows_written"], record.rows["rows_deleted"]) == (3, 1)
    held = rows_of(store.client, store.served)
    assert held.keys() == {chunk.id for chunks in pages for chunk in chunks}
    revisions = {row["document_id"]: row["revision"] for row in held.values()}
    assert revisions == {f"site:docs/page-{n:05d}.md": "c2" if n == 0 else "c1" for n in range(4)}


def test_a_renamed_page_is_not_embedded_again(store: Store) -> None:
    texts = ["A: one", "B: two"]
    store.run([page("site", "old.md", texts, title="T"), *corpus("site", 4)]).all()
    record = store.run([page("site", "new.md", texts, title="T"), *corpus("site", 4)]).all()
    assert (record.embedded, record.rows["rows_written"], record.rows["rows_deleted"]) == (0, 2, 2)
    assert "site:old.md" not in documents(store)
    assert "site:new.md" in documents(store)


def test_a_shortened_page_leaves_no_tail(store: Store) -> None:
    store.run([page("site", "a.md", ["A: one", "B: two", "C: three"])]).all()
    store.run([page("site", "a.md", ["A: one"])]).all()
    assert [row["content_text"] for row in rows_of(store.client, store.served).values()] == ["A: one"]


def test_a_removed_page_is_gone_and_others_stay(store: Store) -> None:
    store.run(corpus("site", 5)).all()
    record = store.run(corpus("site", 4)).all()
    assert record.documents["site"] == {"deleted": 1, "unchanged": 4, "held": 5}
    assert documents(store) == {f"site:docs/page-{n:05d}.md" for n in range(4)}


def test_a_source_that_fails_to_fetch_keeps_its_rows_and_the_others_are_synced(store: Store) -> None:
    good, bad = corpus("good", 3), corpus("bad", 3)
    store.run(results=[result(store.folder, "good", good), result(store.folder, "bad", bad)]).all()
    failed = SourceResult("bad", "failed", step="fetch", error="host is down")
    record = store.run(results=[result(store.folder, "good", corpus("good", 4)), failed]).all()
    assert record.failed == ({"source": "bad", "step": "fetch", "error": "host is down"},)
    assert len(documents(store)) == 4 + 3


def test_a_source_that_was_fetched_from_a_cursor_deletes_only_what_is_known_to_be_deleted(store: Store) -> None:
    store.run(corpus("site", 4)).all()
    some = result(
        store.folder,
        "site",
        corpus("site", 1, edit=" new"),
        complete=False,
        cursor="2026-02-03",
        removed_documents=("site:docs/page-00003.md", "other:docs/page-00001.md"),
    )
    store.run(results=[some]).all()
    assert documents(store) == {f"site:docs/page-{n:05d}.md" for n in range(3)}
    assert properties_of(store.client, live_name(store.client, store.served))["cursor:site"] == "2026-02-03"


def test_awkward_keys_never_match_or_delete_another_row(store: Store) -> None:
    names = [
        "plain.md", 'quote".md', "back\\slash.md", "new\nline.md", "tab\t.md", "漢字.md", "😀.md", '" or id != ".md',
        "{brace}.md", "%like_.md", "'single'.md", '\\".md', "", "a" * 900,
    ]  # fmt: skip
    source = 'si"te\\ 漢😀'
    pages = {name: page(source, name, [f"Text: {name} is here"]) for name in names}
    store.run(pages.values(), source=source).all()
    assert len(documents(store)) == len(names)
    for gone in (names[1::3], names[2::3]):
        for name in gone:
            del pages[name]
        record = store.run(pages.values(), source=source, options={"max_deleted_share": 0.9}).all()
        assert record.documents[source]["deleted"] == len(gone)
        assert documents(store) == {f"{source}:{name}" for name in pages}


def test_rows_of_the_reserved_source_survive_every_sync(embedded: Store) -> None:
    embedded.run(corpus("site", 2)).all()
    manual = page("manual", "note", ["Note: a person wrote this"])
    vector = unit_vector(manual[0].embedding_text)
    from kubeflow_corpus.store.rows import to_row

    embedded.client.upsert(embedded.served, [{**to_row(DOCS, manual[0]), "vector": vector}])
    embedded.run(corpus("site", 2, edit=" x")).all()
    assert manual[0].id in rows_of(embedded.client, embedded.served)


def test_the_guard_stops_a_run_that_would_delete_too_much_before_it_writes(embedded: Store) -> None:
    embedded.run(corpus("site", 10)).all()
    before = rows_of(embedded.client, embedded.served)
    run = embedded.run(corpus("site", 6, edit=" new"))
    plan = run.plan()
    assert plan.guard == ("4 of 10 documents of source site would be deleted",)
    with pytest.raises(DeletionGuard, match="4 of 10 documents of source site.*--allow-deletions"):
        run.apply(plan, run.embed(plan))
    assert rows_of(embedded.client, embedded.served) == before
    allowed = embedded.run(corpus("site", 6), options={"allow_deletions": ["site"]})
    assert allowed.all().documents["site"]["deleted"] == 4


def test_a_source_that_suddenly_has_no_document_is_guarded(embedded: Store) -> None:
    embedded.run(corpus("site", 3)).all()
    with pytest.raises(DeletionGuard, match="3 of 3 documents"):
        embedded.run([]).all()


def test_a_source_that_left_the_catalogue_is_reported_and_dropped_only_when_told(embedded: Store) -> None:
    both = [result(embedded.folder, name, corpus(name, 2)) for name in ("a", "b")]
    embedded.run(results=both).all()
    run = embedded.run(results=both[:1], options={"catalogue_sources": ["a"]})
    assert run.plan().orphans == ("b",)
    run.all()
    assert len(documents(embedded)) == 4
    told = embedded.run(results=both[:1], options={"catalogue_sources": ["a"], "allow_deletions": ["b"]})
    told.all()
    assert documents(embedded) == {"a:docs/page-00000.md", "a:docs/page-00001.md"}
    assert "head:b" not in {
        key
        for key, value in properties_of(embedded.client, live_name(embedded.client, embedded.served)).items()
        if value
    }
    # A run over some sources of the catalogue says nothing about the others.
    assert embedded.run(results=both[:1]).plan().orphans == ()


def test_a_dry_run_is_a_plan_and_changes_nothing(embedded: Store) -> None:
    embedded.run(corpus("site", 3)).all()
    before = rows_of(embedded.client, embedded.served)
    plan = embedded.run(corpus("site", 3, edit=" more")).plan()
    assert plan.rows == {"rows_wanted": 9, "rows_to_write": 3, "rows_to_delete": 1}
    assert (plan.to_embed, plan.reused, plan.total("changed")) == (1, 2, 1)
    assert rows_of(embedded.client, embedded.served) == before
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_an_empty_plan_still_has_one_shard(embedded: Store) -> None:
    embedded.run(corpus("site", 2)).all()
    run = embedded.run(corpus("site", 2))
    plan = run.plan()
    assert (len(plan.shards), plan.to_embed) == (1, 0)
    assert [path.exists() for path in run.embed(plan)] == [True]


def test_texts_to_embed_are_listed_once_over_all_shards(embedded: Store) -> None:
    twins = [page("site", f"{n}.md", ["Same: text", f"Own: {n}"], title="T") for n in range(5)]
    run = embedded.run(twins, options={"shard_texts": 2})
    plan = run.plan()
    assert (plan.to_embed, len(plan.shards)) == (6, 3)
    run.publish(plan, run.apply(plan, run.embed(plan)))
    assert run.embedder.embedded == 6
    assert len(rows_of(embedded.client, embedded.served)) == 10


@pytest.mark.parametrize(
    ("value", "reason"), [(float("nan"), "NaN or infinity"), (float("inf"), "NaN"), (0.0, "is zero")]
)
def test_a_vector_that_cannot_be_ranked_stops_the_run_before_it_writes(
    embedded: Store, value: float, reason: str
) -> None:
    class Broken(HashEmbedder):
        def embed(self, texts, *, timeout=None):  # type: ignore[no-untyped-def]
            vectors = super().embed(texts)
            vectors[len(texts) // 2] = value
            return vectors

    embedded.run(corpus("site", 2)).all()
    before = rows_of(embedded.client, embedded.served)
    with pytest.raises(InvalidVector, match=reason):
        embedded.run(corpus("site", 3), embedder=Broken()).all()
    assert rows_of(embedded.client, embedded.served) == before


def test_a_vector_of_another_dimension_stops_the_run(embedded: Store) -> None:
    from dataclasses import replace

    from tests.store.synthetic import MODEL

    run = embedded.run(corpus("site", 2))
    plan = run.plan()
    run.embedder = HashEmbedder(replace(MODEL, dimension=7))
    with pytest.raises(InvalidVector, match="dimension 8"):
        run.apply(plan, run.embed(plan))


def test_a_shard_that_was_not_embedded_stops_the_run_before_it_writes(embedded: Store) -> None:
    run = embedded.run(corpus("site", 2))
    with pytest.raises(StoreError, match="6 texts have no vector"):
        run.apply(run.plan(), [])


def test_a_damaged_chunk_file_stops_the_run(embedded: Store) -> None:
    run = embedded.run(corpus("site", 2))
    path = run.results[0].chunks
    assert path is not None
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ArtifactError, match="damaged"):
        run.plan()


def test_a_document_that_cannot_be_stored_is_skipped_with_a_reason_and_keeps_its_rows(embedded: Store) -> None:
    good = page("site", "a.md", ["A: fine"])
    embedded.run([good, *corpus("site", 2)]).all()
    bad = page("site", "a.md", ["A: fine", "B: changed"], citation_url="x" * 2000)
    record = embedded.run([bad, *corpus("site", 2)]).all()
    assert record.skipped == {"invalid_row:citation_url": 1}
    held = rows_of(embedded.client, embedded.served)
    assert good[0].id in held
    assert "B: changed" not in {row["content_text"] for row in held.values()}


def test_a_source_that_brings_rows_of_another_source_writes_none_of_them(embedded: Store) -> None:
    record = embedded.run([*corpus("site", 2), page("other", "x.md", ["X: y"])]).all()
    assert record.skipped == {"invalid_row:source": 1}
    assert documents(embedded) == {"site:docs/page-00000.md", "site:docs/page-00001.md"}


def test_the_run_record_is_in_the_properties(embedded: Store) -> None:
    record = embedded.run(corpus("site", 2)).all()
    stored = json.loads(properties_of(embedded.client, live_name(embedded.client, embedded.served))["last_run"])
    assert stored == json.loads(json.dumps(record.to_dict()))
    assert stored["outcome"] == "published"
    assert stored["areas"] == {"pipelines": 6}
    assert stored["seconds"].keys() == {"compare", "gather", "write", "verify", "delete"}
    assert stored["bytes"]["vectors"] == 6 * 8 * 4
