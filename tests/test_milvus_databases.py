"""A database that is not the default one: its aliases are its own, and everything works as in the default one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.milvus import connect, connected
from kubeflow_corpus.milvus_databases import database_client
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.versions import drop_version, find_version, live_name, prune_versions, rollback

from tests.store.conftest import REAL_URI, Store
from tests.store.synthetic import corpus, rows_of


@pytest.fixture
def real_store(tmp_path: Path) -> Iterator[Store]:
    """A database that is made for this test, on a real server."""
    if not REAL_URI:
        pytest.skip("MILVUS_CONTRACT_URI is not set: Milvus Lite has one database")
    settings = Settings(milvus_uri=REAL_URI, milvus_database="kubeflow_corpus_test")
    with connected(replace(settings, milvus_database="")) as root:
        root.create_database(settings.milvus_database)
        try:
            with connected(settings) as client:
                yield Store(client, settings, tmp_path)
                client.drop_alias(DOCS.alias)
                for name in client.list_collections():
                    client.drop_collection(name)
        finally:
            root.drop_database(settings.milvus_database)


@pytest.mark.slow
def test_a_real_database_is_rebuilt_changed_and_rolled_back_by_its_own_aliases(real_store: Store) -> None:
    client = real_store.client
    assert live_name(client, DOCS.alias) == ""
    real_store.run(corpus("site", 2)).all()
    assert live_name(client, DOCS.alias) == f"{DOCS.alias}_v1"
    real_store.run(corpus("site", 2, edit=" again")).all()
    assert real_store.run(corpus("site", 3), mode="rebuild").all().outcome == "published"
    assert live_name(client, DOCS.alias) == f"{DOCS.alias}_v2"
    assert len(rows_of(client, DOCS.alias)) == 9
    assert rollback(client, DOCS, "") == (f"{DOCS.alias}_v2", f"{DOCS.alias}_v1")
    assert len(rows_of(client, DOCS.alias)) == 6
    with pytest.raises(Exception, match="is served by alias kubeflow_docs"):
        drop_version(client, DOCS.alias, find_version(client, DOCS.alias, 1))
    assert [version.name for version in prune_versions(client, DOCS.alias, keep=0)] == [f"{DOCS.alias}_v2"]
    # An alias of the same name in the default database is another one.
    default = connect(replace(real_store.settings, milvus_database=""))
    assert live_name(default, DOCS.alias) == ""
    default.close()


def test_the_default_database_has_the_client_of_the_library() -> None:
    from pymilvus import MilvusClient

    assert database_client("") is database_client("default") is MilvusClient
    assert issubclass(database_client("corpus"), MilvusClient)
