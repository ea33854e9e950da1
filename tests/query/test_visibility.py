"""What a caller learns of rows of other groups: nothing, neither by a value, nor by a count, nor by an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubeflow_corpus.collections import CODE, DOCS, FILTERS, ISSUES
from kubeflow_corpus.errors import UnitNotFound
from kubeflow_corpus.query.client import AsyncCorpusClient, CorpusClient
from kubeflow_corpus.query.filters import filters_of, groups_of, visible
from kubeflow_corpus.query.reader import Reader
from kubeflow_corpus.query.session import CACHED_VALUES
from kubeflow_corpus.store.schema import HIDDEN

from tests.query.corpus import MODEL, fill, public, with_rows_of

SPECS = (DOCS, ISSUES, CODE)
FIELDS = [(spec.alias, name) for spec in SPECS for name in filters_of(spec) if FILTERS[name].field == name]
# Groups that own nothing, among them names that mean something inside.
STRANGERS = [(), ("team-a",), ("",), (HIDDEN,), ("team-a", "team-b-not"), ('team-b"] or id != "',)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CorpusClient]:
    """A corpus that holds rows of two groups, and rows that were deleted softly."""
    uri = str(tmp_path_factory.mktemp("shared") / "corpus.db")
    fill(uri, with_rows_of("team-b", "team-c", HIDDEN))
    with CorpusClient(milvus_uri=uri, embeddings=MODEL, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def never(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CorpusClient]:
    """The same corpus, which never held any of them."""
    uri = str(tmp_path_factory.mktemp("never") / "corpus.db")
    fill(uri, public())
    with CorpusClient(milvus_uri=uri, embeddings=MODEL, timeout=60) as client:
        yield client


@pytest.mark.parametrize("groups", STRANGERS)
def test_names_no_value_and_no_count_of_rows_of_other_groups(
    shared: CorpusClient, never: CorpusClient, groups: tuple[str, ...]
) -> None:
    view = shared.scoped(groups)

    assert {field: view.known_values(*field) for field in FIELDS} == {
        field: never.known_values(*field) for field in FIELDS
    }


def test_names_the_values_of_its_own_group_and_of_no_other(shared: CorpusClient) -> None:
    # The widest view is asked first: what it leaves in memory must not reach the others.
    everything = shared.known_values(CODE.alias, "kind")
    own = shared.scoped(("team-b",)).known_values(CODE.alias, "kind")
    other = shared.scoped(("team-c",)).known_values(CODE.alias, "kind")

    assert own.items() - other.items() == {("team-bKind", 3)} and other.items() - own.items() == {("team-cKind", 3)}
    assert everything == own | other


def test_asks_the_corpus_once_for_equal_rights(shared: CorpusClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, distinct = list[str](), Reader.distinct

    def counting(reader: Reader, target: Any, field: str, where: str, deadline: Any) -> dict[str, int]:
        asked.append(where)
        return distinct(reader, target, field, where, deadline)

    monkeypatch.setattr(Reader, "distinct", counting)
    for groups in (("x", "y"), ["y", "x", "x"], {"x", "y"}, ("y", "", "x", HIDDEN)):
        shared.scoped(groups).known_values(DOCS.alias, "source_type")
    for number in range(CACHED_VALUES + 5):
        shared.scoped((f"g{number}",)).known_values(DOCS.alias, "source_type")
    assert len(asked) == 1 + CACHED_VALUES + 5

    # What is remembered is bounded: the first group was forgotten by now, the last one was not.
    shared.scoped((f"g{CACHED_VALUES + 4}",)).known_values(DOCS.alias, "source_type")
    shared.scoped(("x", "y")).known_values(DOCS.alias, "source_type")
    assert len(asked) == 1 + CACHED_VALUES + 5 + 1


@pytest.mark.parametrize("groups", STRANGERS)
def test_answers_a_search_as_if_the_other_rows_were_not_there(
    shared: CorpusClient, never: CorpusClient, groups: tuple[str, ...]
) -> None:
    for spec in SPECS:
        found, expected = (
            client.search(spec.alias, "secret of the caching number", mode="dense", limit=10)
            for client in (shared.scoped(groups), never)
        )
        assert (found.evidence(), found.facets, found.notes) == (expected.evidence(), expected.facets, expected.notes)


def test_hides_units_and_neighbours_as_if_they_were_not_there(shared: CorpusClient) -> None:
    view = shared.scoped(("team-c",))
    for unit in ("manual:team-b-0#one", f"manual:{HIDDEN}-0#one", "manual:nothing#one"):
        for asked in (view.get_unit, view.neighbours):
            with pytest.raises(UnitNotFound):
                asked(unit)
    assert view.get_unit("manual:team-c-0#one").text


@pytest.mark.parametrize("groups", ["team-b", b"team-b", [7], [None], ["team-b", b"x"]])
def test_refuses_a_text_for_a_list_of_groups(shared: CorpusClient, groups: Any) -> None:
    makers = (
        shared.scoped,
        lambda visibility: CorpusClient(milvus_uri="/nowhere.db", embeddings=MODEL, visibility=visibility),
        lambda visibility: AsyncCorpusClient(milvus_uri="/nowhere.db", embeddings=MODEL, visibility=visibility),
        visible,
    )
    for make in makers:
        with pytest.raises(TypeError, match=r"Give (a list|the names) of"):
            make(groups)


@given(st.lists(st.text(max_size=12), max_size=6))
def test_spells_equal_rights_alike_and_never_names_deleted_rows(groups: list[str]) -> None:
    assert groups_of([*groups, HIDDEN, ""]) == groups_of(reversed(groups))
    assert HIDDEN not in (groups_of([*groups, HIDDEN]) or ())
