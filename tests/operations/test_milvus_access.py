from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import kubeflow_corpus
import pytest
from kubeflow_corpus.cli import main as cli
from kubeflow_corpus.operations.milvus_access import READER, WRITER

from tests.servers.milvus_roles import PRIVILEGES, MilvusRoles, milvus_roles

PACKAGE = Path(kubeflow_corpus.__file__).parent
SECRETS = {
    "MILVUS_ROOT_PASSWORD": "root-Secret-1",
    "MILVUS_READER_USER": "corpus_reader",
    "MILVUS_READER_PASSWORD": "reader-Secret-1",
    "MILVUS_WRITER_USER": "corpus_writer",
    "MILVUS_WRITER_PASSWORD": "writer-Secret-1",
}
CHANGING = {
    "Insert",
    "Upsert",
    "Delete",
    "CreateCollection",
    "DropCollection",
    "CreateIndex",
    "CreateAlias",
    "DropAlias",
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MilvusRoles]:
    with milvus_roles() as running:
        for name, value in SECRETS.items() | {("MILVUS_URI", running.uri), ("MILVUS_DATABASE", "corpus")}:
            monkeypatch.setenv(name, value)
        yield running


def bootstrap() -> int:
    return cli.main(["milvus-bootstrap"])


def test_a_new_server_gets_its_database_users_and_rights_and_loses_the_published_password(server: MilvusRoles) -> None:
    assert bootstrap() == 0
    assert server.databases == {"default", "corpus"}
    assert server.passwords == {
        "root": "root-Secret-1",
        "corpus_reader": "reader-Secret-1",
        "corpus_writer": "writer-Secret-1",
    }
    assert server.roles_of == {
        "corpus_reader": {"kubeflow_corpus_reader"},
        "corpus_writer": {"kubeflow_corpus_writer"},
    }
    assert server.privileges("kubeflow_corpus_reader") == READER
    assert server.privileges("kubeflow_corpus_writer") == WRITER
    assert {(database, collection) for _, _, database, collection in server.grants} == {("corpus", "*")}


def test_a_reader_changes_nothing_and_a_writer_is_not_an_administrator() -> None:
    assert not READER & CHANGING
    assert CHANGING <= WRITER
    assert not WRITER & {"CreateDatabase", "DropDatabase", "Import"}
    assert WRITER <= PRIVILEGES


# What each method of the client sends; the protocol itself says which right a request needs.
REQUESTS = {
    "search": ["SearchRequest"],
    "hybrid_search": ["HybridSearchRequest"],
    "query": ["QueryRequest"],
    "query_iterator": ["QueryRequest", "DescribeCollectionRequest"],
    "load_collection": ["LoadCollectionRequest", "GetLoadingProgressRequest"],
    "get_load_state": ["GetLoadStateRequest"],
    "describe_collection": ["DescribeCollectionRequest"],
    "describe_alias": ["DescribeAliasRequest"],
    "list_aliases": ["ListAliasesRequest"],
    "list_indexes": ["DescribeIndexRequest"],
    "describe_index": ["DescribeIndexRequest"],
    "list_collections": ["ShowCollectionsRequest"],
    "has_collection": ["DescribeCollectionRequest"],
    "create_collection": ["CreateCollectionRequest"],
    "drop_collection": ["DropCollectionRequest"],
    "alter_collection_properties": ["AlterCollectionRequest"],
    "create_index": ["CreateIndexRequest"],
    "create_alias": ["CreateAliasRequest"],
    "alter_alias": ["AlterAliasRequest"],
    "drop_alias": ["DropAliasRequest"],
    "insert": ["InsertRequest"],
    "upsert": ["UpsertRequest"],
    "delete": ["DeleteRequest"],
    "flush": ["FlushRequest", "GetFlushStateRequest"],
    "get_server_version": ["GetVersionRequest"],
}
LOCAL = {"close", "prepare_index_params", "create_schema"}


def _rights_that_a_stage_needs(stage: str) -> set[str]:
    from pymilvus import MilvusClient
    from pymilvus.grpc_gen import common_pb2, milvus_pb2

    methods = {name for name in dir(MilvusClient) if not name.startswith("_")}
    text = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / stage).rglob("*.py"))
    called = (set(re.findall(r"client\.([a-z_]+)\(", text)) & methods) - LOCAL
    assert called and called <= REQUESTS.keys(), f"state what {sorted(called - REQUESTS.keys())} sends"
    rights = set()
    for request in (name for method in called for name in REQUESTS[method]):
        options = milvus_pb2.DESCRIPTOR.message_types_by_name[request].GetOptions()
        number = options.Extensions[common_pb2.privilege_ext_obj].object_privilege
        rights.add(common_pb2.ObjectPrivilege.Name(number).removeprefix("Privilege"))
    # The protocol's word for a request that everybody may send.
    return rights - {"All"}


def test_the_rights_cover_every_call_that_readers_and_writers_make() -> None:
    assert _rights_that_a_stage_needs("query") <= READER
    assert _rights_that_a_stage_needs("store") <= WRITER


def test_doing_it_twice_changes_nothing(server: MilvusRoles, capsys: pytest.CaptureFixture[str]) -> None:
    bootstrap()
    server.changes.clear()
    capsys.readouterr()
    assert bootstrap() == 0
    assert (server.changes, capsys.readouterr().out) == ([], "nothing to do\n")


def test_a_right_too_many_is_taken_away_wherever_it_is(server: MilvusRoles) -> None:
    bootstrap()
    before = set(server.grants)
    server.grants |= {
        ("kubeflow_corpus_reader", "Insert", "corpus", "*"),
        ("kubeflow_corpus_reader", "Query", "default", "*"),
        ("somebody_else", "Insert", "corpus", "*"),
    }
    server.grants.remove(("kubeflow_corpus_writer", "Flush", "corpus", "*"))
    server.roles_of["corpus_reader"].add("admin")
    bootstrap()
    assert server.grants == before | {("somebody_else", "Insert", "corpus", "*")}
    assert server.roles_of["corpus_reader"] == {"kubeflow_corpus_reader"}


def test_a_changed_password_is_changed_there_too(server: MilvusRoles, monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap()
    monkeypatch.setenv("MILVUS_READER_PASSWORD", "reader-Secret-2")
    assert bootstrap() == 0
    assert server.passwords["corpus_reader"] == "reader-Secret-2"
    assert server.roles_of["corpus_reader"] == {"kubeflow_corpus_reader"}


def test_a_server_that_knows_neither_password_is_left_alone(
    server: MilvusRoles, capsys: pytest.CaptureFixture[str]
) -> None:
    server.passwords["root"] = "somebody-changed-it"
    assert bootstrap() == 1
    said = capsys.readouterr()
    assert "accepts neither MILVUS_ROOT_PASSWORD" in said.err and said.err.count("\n") == 1
    assert not server.changes
    assert not any(secret in said.err + said.out for name, secret in SECRETS.items() if "PASSWORD" in name)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"MILVUS_ROOT_PASSWORD": ""}, "MILVUS_ROOT_PASSWORD is not set"),
        ({"MILVUS_ROOT_PASSWORD": "Milvus"}, "published default password"),
        ({"MILVUS_READER_USER": "corpus_writer"}, "not three users"),
        ({"MILVUS_WRITER_USER": "root"}, "not three users"),
        ({"MILVUS_URI": "/tmp/corpus.db"}, "embedded database has no users"),
        ({"MILVUS_URI": ""}, "MILVUS_URI is not set"),
    ],
)
def test_a_wrong_setting_is_named(
    server: MilvusRoles,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, str],
    said: str,
) -> None:
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    assert bootstrap() == 1
    assert said in capsys.readouterr().err
    assert not server.changes
