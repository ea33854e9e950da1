"""Documents that people write through the tools: found, replaced, hidden, kept by every run, and refused by name."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from kubeflow_corpus.collections import CODE, DOCS, ISSUES
from kubeflow_corpus.errors import SettingsError, StoreUnavailable
from kubeflow_corpus.mcp_server import documents
from kubeflow_corpus.mcp_server.assembly import StatusReader
from kubeflow_corpus.mcp_server.origins import document_id_of
from kubeflow_corpus.mcp_server.server import build_server
from kubeflow_corpus.mcp_server.service import Caller, Service
from kubeflow_corpus.mcp_server.settings import ServerSettings
from kubeflow_corpus.mcp_server.tools.documents import DELETE, UPSERT
from kubeflow_corpus.mcp_server.tools.search import SEARCH_TOOLS
from kubeflow_corpus.mcp_server.tools.unit import GET_UNIT
from kubeflow_corpus.mcp_server.writing import DocumentWriter
from kubeflow_corpus.milvus import connect, detect_backend, disconnect
from kubeflow_corpus.model import ModelIdentity, Recipe
from kubeflow_corpus.query.client import AsyncCorpusClient
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store import manual
from kubeflow_corpus.store.lease import Lease
from kubeflow_corpus.store.schema import HIDDEN, served_name
from kubeflow_corpus.store.versions import create_version, live_name, move_alias
from mcp import Client

from tests.mcp_server.harness import text_of
from tests.store.synthetic import MODEL, OTHER_MODEL, HashEmbedder, Run, corpus, result, rows_of

ORIGIN = "https://runbooks.example.org/gpu-quota"
OPERATOR = Caller(scopes=frozenset({"corpus:write"}), known=True)
PAGE = """# Raising the GPU quota

Namespaces start with the quota `zeppelinquota` of two GPUs. See https://forms.example.org/quota for more.

## For a month

Ask in the channel of the platform team; the annotation `zeppelin.example.org/until` holds the date.
"""


@dataclass
class Corpus:
    """A served corpus of three small collections, and the service over it."""

    settings: Settings
    client: Any
    folder: Path
    embedder: HashEmbedder

    def served(self, spec: Any = DOCS) -> str:
        return served_name(self.settings.collection_prefix, spec.alias)

    def rows(self, spec: Any = DOCS) -> dict[str, dict[str, Any]]:
        return rows_of(self.client, self.served(spec), spec)

    def manual_rows(self, spec: Any = DOCS) -> dict[str, dict[str, Any]]:
        return {key: row for key, row in self.rows(spec).items() if row["source"] == "manual"}

    def run(self, pages: int, **values: Any) -> Any:
        fetched = [result(self.folder, "site", corpus("site", pages))]
        prefix = self.settings.collection_prefix
        return Run(self.client, self.folder / "work", fetched, prefix=prefix, embedder=self.embedder, **values).all()

    def calls(self, *calls: tuple[str, dict[str, Any]], caller: Caller = OPERATOR, model: Any = None) -> list[Any]:
        async def scenario() -> list[Any]:
            async with AsyncCorpusClient(settings=self.settings, embeddings=self.embedder, timeout=60) as client:
                writer = DocumentWriter(self.settings, lambda: model or self.embedder)
                service = Service(client, ServerSettings(), writer=writer)
                return [await service.call(name, arguments, caller) for name, arguments in calls]

        return asyncio.run(scenario())

    def write(self, content: str = PAGE, **options: Any) -> Any:
        return self.calls((UPSERT.name, document(content)), **options)[0]

    def found(self, query: str, tool: str = "search_kubeflow_docs", **options: Any) -> str:
        return text_of(self.calls((tool, {"query": query}), **options)[0])


def document(content: str = PAGE, collection: str = "docs", **metadata: Any) -> dict[str, Any]:
    data = {"origin": ORIGIN, "product_area": ["platform"], **metadata}
    return {"collection": collection, "content": content, "title": "GPU quota", "metadata": data}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    settings = Settings(milvus_uri=str(tmp_path_factory.mktemp("writing") / "corpus.db"))
    # One client that stays: the embedded server then starts once.
    client = connect(settings)
    yield settings
    disconnect(client, settings)


@pytest.fixture(scope="module")
def served(database: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    settings = replace(database, collection_prefix="written")
    client = connect(settings)
    made = Corpus(settings, client, tmp_path_factory.mktemp("written"), HashEmbedder())
    made.run(4)
    serve_empty(made, ISSUES)
    serve_empty(made, CODE)
    yield made
    disconnect(client, settings)


@pytest.fixture
def place(served: Corpus) -> Iterator[Corpus]:
    """The same corpus for every test, without what the one before has written."""
    yield served
    for spec in (DOCS, ISSUES, CODE):
        served.client.delete(served.served(spec), filter='source == "manual"')


@pytest.fixture
def fresh(database: Settings, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Corpus]:
    """A corpus of its own, for tests that run the ingestion."""
    settings = replace(database, collection_prefix=f"p{abs(hash(request.node.name))}")
    client = connect(settings)
    made = Corpus(settings, client, tmp_path, HashEmbedder())
    made.run(4)
    yield made
    disconnect(client, settings)


def serve_empty(place: Corpus, spec: Any) -> None:
    recipe = Recipe(MODEL, 256)
    version = create_version(place.client, spec, place.served(spec), detect_backend(place.client), recipe, {})
    move_alias(place.client, place.served(spec), version.name, "")


def with_official_client(place: Corpus, work: Callable[[Client], Any], *, local: bool, writing: bool = True) -> Any:
    async def scenario() -> Any:
        async with AsyncCorpusClient(settings=place.settings, embeddings=place.embedder, timeout=60) as client:
            writer = DocumentWriter(place.settings, lambda: place.embedder) if writing else None
            server = build_server(
                Service(client, ServerSettings(), writer=writer), StatusReader(place.settings), local=local
            )
            async with Client(server) as official:
                return await work(official)

    return asyncio.run(scenario())


def test_nothing_is_written_unless_it_was_turned_on(place: Corpus) -> None:
    async def work(client: Client) -> Any:
        names = [tool.name for tool in (await client.list_tools()).tools]
        return names, await client.call_tool(UPSERT.name, document())

    names, refused = with_official_client(place, work, local=True, writing=False)

    assert not set(names) & {UPSERT.name, DELETE.name}
    assert text_of(refused).startswith("INVALID_ARGUMENT: Unknown tool 'upsert_document'")


def test_the_operator_writes_over_stdio_and_the_answer_is_what_the_schema_says(place: Corpus) -> None:
    async def work(client: Client) -> Any:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        return listed, await client.call_tool(UPSERT.name, document())

    listed, written = with_official_client(place, work, local=True)

    assert listed[UPSERT.name].annotations.read_only_hint is False
    assert all(listed[tool.name].annotations.read_only_hint for tool in SEARCH_TOOLS)
    jsonschema.validate(written.structured_content, listed[UPSERT.name].output_schema)
    assert written.structured_content["action"] == "created"


def test_a_caller_without_the_right_neither_sees_the_tool_nor_can_use_it(place: Corpus) -> None:
    async def work(client: Client) -> Any:
        names = {tool.name for tool in (await client.list_tools()).tools}
        return names, await client.call_tool(UPSERT.name, document())

    names, unknown = with_official_client(place, work, local=False)
    reader = place.write(caller=Caller("ada", scopes=frozenset({"corpus:read"}), known=True))

    assert not names & {UPSERT.name, DELETE.name}
    assert text_of(unknown).startswith("UNAUTHENTICATED: ")
    assert text_of(reader).startswith("PERMISSION_DENIED: ") and "corpus:write" in text_of(reader)
    assert not place.manual_rows()


def test_a_written_page_is_found_and_cited_by_its_origin(place: Corpus) -> None:
    written = place.write()
    (found,) = place.calls(("search_kubeflow_docs", {"query": "`zeppelinquota`"}))

    assert "zeppelinquota" in text_of(found) and "https://" not in text_of(found) + text_of(written)
    citation = found.structured_content["citations"][0]
    assert (citation["url"], citation["title"]) == (ORIGIN, "GPU quota")
    assert [link["url"] for link in citation["links"]] == ["https://forms.example.org/quota"]
    assert citation["unit_id"].startswith(written.structured_content["document_id"])
    (unit,) = place.calls((GET_UNIT.name, {"collection": "docs", "unit_id": citation["unit_id"]}))
    assert "zeppelinquota" in text_of(unit)


def test_writing_again_replaces_the_document_of_the_same_origin(place: Corpus) -> None:
    first = place.write().structured_content
    again = place.write().structured_content
    changed = place.write("The quota is `montgolfier` now.").structured_content

    assert (first["action"], again["action"], changed["action"]) == ("created", "unchanged", "replaced")
    assert (again["rows_written"], changed["rows_deleted"]) == (0, first["rows_written"])
    assert len(place.manual_rows()) == changed["rows_written"]
    assert "zeppelinquota" not in place.found("`zeppelinquota`")


def test_a_deleted_document_is_hidden_from_every_reader_and_comes_back_when_written_again(place: Corpus) -> None:
    key = place.write().structured_content["document_id"]
    unit = f"{key}#raising-the-gpu-quota"
    ask = (("search_kubeflow_docs", {"query": "`zeppelinquota`"}), (GET_UNIT.name, {"collection": "docs"}))
    (deleted,) = place.calls((DELETE.name, {"collection": "docs", "document_id": unit}))
    everybody = place.calls(ask[0], (GET_UNIT.name, {"collection": "docs", "unit_id": unit}))
    # A group of that name gives no sight of them either.
    someone = place.calls(ask[0], caller=Caller("eve", (HIDDEN,)))
    again = place.calls((DELETE.name, {"collection": "docs", "document_id": key}))
    rows = place.manual_rows()
    back = place.write().structured_content

    assert deleted.structured_content["action"] == "deleted"
    assert "zeppelinquota" not in "".join(map(text_of, (*everybody, *someone)))
    assert text_of(everybody[1]).startswith("NOT_FOUND: ")
    assert again[0].structured_content["action"] == "unchanged"
    assert rows and all(row["visibility"] == HIDDEN for row in rows.values())
    assert back["action"] == "restored" and "zeppelinquota" in place.found("`zeppelinquota`")


def test_what_was_never_written_cannot_be_deleted(place: Corpus) -> None:
    fetched, unknown, elsewhere = place.calls(
        (DELETE.name, {"collection": "docs", "document_id": "site:docs/page-00000.md"}),
        (DELETE.name, {"collection": "docs", "document_id": document_id_of("nowhere")}),
        (DELETE.name, {"collection": "code", "document_id": document_id_of(ORIGIN)}),
    )

    assert text_of(fetched).startswith("INVALID_ARGUMENT: document_id")
    assert text_of(unknown).startswith("NOT_FOUND: There is no such document")
    assert text_of(elsewhere).startswith("NOT_FOUND: There is no such document")


def test_a_collection_that_is_not_served_yet_takes_nothing(database: Settings, tmp_path: Path) -> None:
    settings = replace(database, collection_prefix="nothing")
    client = connect(settings)
    empty = Corpus(settings, client, tmp_path, HashEmbedder())
    refused = empty.write()
    disconnect(client, settings)

    assert text_of(refused).startswith("NOT_FOUND: This collection is not served yet")


@pytest.mark.slow
@pytest.mark.parametrize("embedder", [HashEmbedder(), HashEmbedder(OTHER_MODEL)], ids=["same model", "another model"])
def test_runs_leave_written_documents_alone_and_a_rebuild_takes_them_along(
    fresh: Corpus, embedder: HashEmbedder
) -> None:
    place = fresh
    place.write()
    hidden = {**document("An old note about `zeppelinhangar`."), "title": "Old note"}
    hidden["metadata"] = {"origin": "An old note"}
    key = place.calls((UPSERT.name, hidden))[0].structured_content["document_id"]
    place.calls((DELETE.name, {"collection": "docs", "document_id": key}))
    before = place.manual_rows()

    record = place.run(3)
    after_sync = place.manual_rows()
    place.embedder = embedder
    place.run(3, mode="rebuild")

    # A page of the site was deleted by the run; nothing was done to what people wrote.
    assert (record.mode, record.total("deleted"), after_sync) == ("incremental", 1, before)
    assert live_name(place.client, place.served()).endswith("_v2")
    texts = {key: row["content_text"] for key, row in place.manual_rows().items()}
    assert texts == {key: row["content_text"] for key, row in before.items()}
    assert "zeppelinquota" in place.found("`zeppelinquota`")
    assert "zeppelinhangar" not in place.found("`zeppelinhangar`")


def test_a_run_that_is_writing_is_not_disturbed(place: Corpus) -> None:
    lease = Lease(place.client, place.served(), "nightly", embedded=True)
    lease.acquire()

    refused = place.write()
    lease.release()

    assert text_of(refused).startswith("UNAVAILABLE: An ingestion run, or another call, is writing this collection")
    assert "nightly" not in text_of(refused)
    assert not place.manual_rows()
    assert place.write().structured_content["action"] == "created"


def test_a_call_that_was_killed_is_put_right_by_the_next_one(place: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write()

    def killed(*_: Any) -> None:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(manual.Writer, "check_written", killed)
        failed = place.write("The quota is `montgolfier` now.")
    between = {row["content_text"] for row in place.manual_rows().values()}
    place.write("The quota is `montgolfier` now.")

    assert text_of(failed).startswith("UNAVAILABLE: ")
    # Old and new rows side by side, and nothing lost.
    assert any("zeppelinquota" in text for text in between) and any("montgolfier" in text for text in between)
    assert [row["content_text"] for row in place.manual_rows().values()] == ["The quota is `montgolfier` now."]


def test_vectors_of_another_model_never_join(place: Corpus) -> None:
    refused = place.write(model=HashEmbedder(OTHER_MODEL))
    shorter = place.write(model=HashEmbedder(ModelIdentity(MODEL.model, MODEL.revision, 4, 256)))

    assert text_of(refused).startswith("MODEL_MISMATCH: ") and text_of(shorter).startswith("MODEL_MISMATCH: ")
    assert not place.manual_rows()


def test_code_is_cut_by_its_file_name_and_titled_by_the_writer(place: Corpus) -> None:
    go = "package quota\n\n// ZeppelinDefault is the quota of a new namespace.\nconst ZeppelinDefault = 2\n"
    yaml = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: quota\ndata:\n  zeppelin: "2"\n'
    written = place.calls(
        (UPSERT.name, document(go, "code", path="quota/defaults.go")),
        (UPSERT.name, {**document(yaml, "code", path="quota.yaml", origin="quota of the platform team")}),
    )
    rows = place.manual_rows(CODE).values()

    assert [answer.structured_content["action"] for answer in written] == ["created", "created"]
    assert {(row["source_type"], row["language"], row["title"]) for row in rows} == {
        ("code", "go", "GPU quota"),
        ("manifest", "yaml", "GPU quota"),
    }
    assert "quota/defaults.go" in place.found("ZeppelinDefault", "search_kubeflow_code")


@pytest.mark.parametrize(
    "content",
    [
        "Pods wait with `zeppelin: no mast`.\n\n## Resolution\n\nRaise the mast, then restart the pod.",
        json.dumps(
            {
                "body": "Pods wait with `zeppelin: no mast`.",
                "comments": [
                    {"author": "a", "body": "Same here."},
                    {"body": "Raise the mast, then restart the pod.", "resolution": True},
                ],
            }
        ),
    ],
    ids=["Markdown", "JSON"],
)
def test_a_thread_holds_its_resolution(place: Corpus, content: str) -> None:
    place.calls((UPSERT.name, document(content, "issues", number=7)))
    (main,) = [row for row in place.manual_rows(ISSUES).values() if not row["view"]]

    assert (main["issue_number"], main["state"], main["resolved"]) == (7, "closed", True)
    assert "Raise the mast" in main["content_text"] and "no mast" in main["content_text"]
    assert "manual #7, closed" in place.found("zeppelin: no mast", "search_github_issues")


def test_front_matter_is_left_out_unread(place: Corpus) -> None:
    bomb = "\n".join(["a0: &a0 {k: 1}", *(f"a{n}: &a{n}\n  <<: [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))])
    brackets = "[" * 50_000

    place.write(f"---\ntitle: Another\ndraft: true\n{bomb}\nb: {brackets}\n---\nThe quota is `montgolfier`.")

    (row,) = place.manual_rows().values()
    assert (row["title"], row["content_text"]) == ("GPU quota", "The quota is `montgolfier`.")
    assert row["start_line"] == 85


def wrong(content: str = PAGE, title: str = "GPU quota", collection: str = "docs", **metadata: Any) -> dict[str, Any]:
    return {**document(content, collection, **metadata), "title": title}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (wrong() | {"source": "kubeflow-website"}, "source: 'kubeflow-website' is not one of ['manual']"),
        (wrong() | {"metadata": {}}, "metadata: 'origin' is a required property"),
        (wrong() | {"metadata": {"origin": ORIGIN, "id": "x"}}, "metadata: Additional properties"),
        (wrong() | {"collection": "kubeflow_docs"}, "collection:"),
        (wrong(origin="javascript:alert(1)"), "metadata.origin: it begins like an address of an unknown kind"),
        (wrong(origin="  JavaScript: alert(1)"), "metadata.origin: it begins like an address of an unknown kind"),
        (wrong(origin="data:text/html,x"), "metadata.origin: it begins like an address"),
        (wrong(origin="https://"), "metadata.origin: it is not an http(s) address"),
        (wrong(origin="https://a b.example"), "metadata.origin: it is not an http(s) address"),
        (wrong(origin="https://user:secret@example.org/x"), "metadata.origin: it holds a user name or a password"),
        (wrong(origin="java\tscript:x"), "metadata.origin: it holds control characters"),
        (wrong(origin=" "), "metadata.origin: it is empty"),
        (wrong(""), "content:"),
        (wrong(" \n"), "content: it is empty"),
        (wrong("a\x00b"), "content: it holds control characters"),
        (wrong("a\ud800b"), "content: it holds control characters"),
        (wrong("x" * 300_000), "content:"),
        (wrong("é" * 150_000), "content: it has 300,000 bytes"),
        (wrong(title="x" * 500), "title:"),
        (wrong(title="two\nlines"), "title: it holds control characters or a line break"),
        (wrong(path="../escape.md"), "metadata.path: it leads out of its folder"),
        (wrong(path="/etc/passwd.md"), "metadata.path: it leads out of its folder"),
        (wrong(path="data.json"), "metadata.path: a page ends in"),
        (wrong(collection="code"), "metadata: 'path' is a required property of code"),
        (wrong(product_area=["zeppelins"]), "metadata.product_area.0:"),
        (wrong(version=["; drop"]), "metadata.version.0:"),
        (wrong(updated_at="yesterday"), "metadata.updated_at: it is not a date"),
        (wrong(visibility="~deleted"), "metadata.visibility:"),
    ],
)
def test_what_cannot_be_a_document_is_refused_by_name(place: Corpus, arguments: dict[str, Any], problem: str) -> None:
    (answer,) = place.calls((UPSERT.name, arguments))

    assert answer.is_error
    assert text_of(answer).startswith(f"INVALID_ARGUMENT: {problem}")
    assert len(text_of(answer)) < 1_000


@pytest.mark.parametrize(
    ("collection", "content", "problem"),
    [
        ("issues", "{", "content: it begins like JSON and is not valid JSON"),
        ("issues", '{"a": ' + "[" * 50_000, "content: it begins like JSON and is not valid JSON"),
        ("issues", "{}", "content: the thread's $ breaks the rule required ['body']"),
        ("issues", '{"body": 7}', "content: the thread's $.body breaks the rule type 'string'"),
        ("issues", '{"body": "x", "comments": [7]}', "content: the thread's $.comments[0] breaks the rule type"),
        ("issues", '{"body": "x", "comments": 7}', "content: the thread's $.comments breaks the rule type"),
        ("issues", '{"body": "x", "number": "9' + "9" * 5_000 + '"}', "content: the thread's $.number breaks"),
        ("issues", '{"body": "x", "number": Infinity}', "content: it begins like JSON and is not valid JSON"),
        ("issues", '{"body": "x", "number": NaN}', "content: it begins like JSON and is not valid JSON"),
        ("issues", '{"body": "x", "number": 1e400}', "content: the thread's $.number breaks the rule type"),
        ("issues", '{"body": "x", "number": -5}', "content: the thread's $.number breaks the rule minimum"),
        ("issues", '{"body": "x", "number": 1.5}', "content: the thread's $.number breaks the rule type"),
        ("issues", '{"body": "x", "number": true}', "content: the thread's $.number breaks the rule type"),
        ("issues", '{"body": "x", "labels": 5}', "content: the thread's $.labels breaks the rule type"),
        ("issues", '{"body": "x", "labels": true}', "content: the thread's $.labels breaks the rule type"),
        ("issues", '{"body": "x", "labels": "abc"}', "content: the thread's $.labels breaks the rule type"),
        ("issues", '{"body": "x", "labels": {"a": 1}}', "content: the thread's $.labels breaks the rule type"),
        ("issues", '{"body": "x", "labels": ["a", 1]}', "content: the thread's $.labels[1] breaks the rule type"),
        ("issues", '{"body": "x", "state": ["open"]}', "content: the thread's $.state breaks the rule enum"),
        ("issues", '{"body": "x", "state": "reopened"}', "content: the thread's $.state breaks the rule enum"),
        ("issues", '{"body": "x", "created_at": "' + "9" * 500 + '"}', "content: the thread's $.created_at breaks"),
        ("issues", '{"body": "x", "created_at": "garbage"}', "content: it is not a date"),
        ("issues", '{"body": "x", "created_at": "[c9]: see "}', "content: it is not a date"),
        ("issues", '{"body": "x", "author": "[c1]"}', "content: the thread's $.author breaks the rule pattern"),
        ("issues", '{"body": "a\\u0000b"}', "content: the thread holds control characters"),
        ("issues", '{"body": "x", "labels": ["a\\ud800"]}', "content: the thread holds control characters"),
        ("issues", '{"body": "x", "comments": [{"body": "\\u0007"}]}', "content: the thread holds control characters"),
        ("code", "x", "content: nothing can be made of it: unsupported type"),
    ],
)
def test_threads_and_code_that_are_none_are_refused(place: Corpus, collection: str, content: str, problem: str) -> None:
    (answer,) = place.calls((UPSERT.name, document(content, collection, path="file.unknown")))

    assert text_of(answer).startswith(f"INVALID_ARGUMENT: {problem}")


def test_a_document_of_more_rows_than_a_page_has_is_refused(place: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_ROWS", 3)

    assert text_of(place.write("?!" * 900)).startswith("INVALID_ARGUMENT: content: it gives ")


def test_every_attempt_is_on_record_and_the_content_is_not(place: Corpus, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kubeflow_corpus.mcp")
    ada = Caller("ada", scopes=frozenset({"corpus:write"}), known=True)

    written = place.write(caller=ada).structured_content
    place.write(caller=Caller("eve", known=True))
    place.calls((DELETE.name, {"collection": "docs", "document_id": written["document_id"]}), caller=ada)

    events = [json.loads(record.message) for record in caplog.records if '"event": "write"' in record.message]
    assert [(event["caller"], event["action"], event["code"]) for event in events] == [
        ("ada", "created", "OK"),
        ("eve", "refused", "PERMISSION_DENIED"),
        ("ada", "deleted", "OK"),
    ]
    assert events[0]["request_id"] == written["request_id"] and events[0]["sha256"] == written["sha256"]
    assert (events[0]["document_id"], events[0]["rows_written"]) == (written["document_id"], written["rows_written"])
    assert "zeppelin" not in caplog.text


def member(*groups: str, name: str = "x") -> Caller:
    return Caller(name, groups, frozenset({"corpus:write"}), True)


A, B = member("team-a", name="ann"), member("team-b", name="bob")


def test_a_document_of_a_group_is_found_and_changed_by_that_group_only(place: Corpus) -> None:
    call = (UPSERT.name, document(visibility="team-a"))
    outside = place.calls(call, caller=B)[0]
    inside = place.calls(call, caller=A)[0].structured_content
    delete = (DELETE.name, {"collection": "docs", "document_id": inside["document_id"]})
    hidden = place.calls(delete, caller=B)[0]

    assert text_of(outside).startswith("PERMISSION_DENIED: ")
    assert text_of(hidden).startswith("NOT_FOUND: ")
    assert "zeppelinquota" in place.found("`zeppelinquota`", caller=A)
    assert "zeppelinquota" not in place.found("`zeppelinquota`", caller=B)
    colleague = place.write("The quota is `montgolfier` now.", caller=member("team-a", name="amy"))
    assert text_of(colleague).startswith("created")
    again = place.calls((UPSERT.name, document("Now three.", visibility="team-a")), caller=member("team-a", name="amy"))
    assert again[0].structured_content["action"] == "replaced"


@pytest.mark.parametrize("visibility", ["", "team-a"], ids=["for everybody", "for a group"])
@pytest.mark.parametrize("deleted", [False, True], ids=["shown", "deleted"])
def test_a_writer_cannot_tell_what_another_group_has_written(place: Corpus, visibility: str, deleted: bool) -> None:
    def attempts() -> list[tuple[str, Any]]:
        answers = place.calls(
            (UPSERT.name, document("Ours.", visibility=visibility)),
            (DELETE.name, {"collection": "docs", "document_id": document_id_of(ORIGIN, "group:team-b")}),
            (DELETE.name, {"collection": "docs", "document_id": document_id_of(ORIGIN, "group:team-z")}),
            (UPSERT.name, document("Ours.", visibility=visibility)),
            caller=A,
        )
        return [(text_of(answer), {**(answer.structured_content or {}), "request_id": ""}) for answer in answers]

    before = attempts()
    place.client.delete(place.served(), filter='source == "manual"')
    theirs = place.calls((UPSERT.name, document("Theirs.", visibility="team-b")), caller=B)[0].structured_content
    if deleted:
        place.calls((DELETE.name, {"collection": "docs", "document_id": theirs["document_id"]}), caller=B)
    rows = {key: row["content_text"] for key, row in place.manual_rows().items()}

    assert attempts() == before
    assert rows.items() <= {key: row["content_text"] for key, row in place.manual_rows().items()}.items()
    back = place.calls((UPSERT.name, document("Theirs.", visibility="team-b")), caller=B)[0].structured_content
    assert back["action"] == ("restored" if deleted else "unchanged")


def test_a_public_document_is_changed_by_its_writer_only(place: Corpus) -> None:
    key = place.write(caller=A).structured_content["document_id"]
    delete = (DELETE.name, {"collection": "docs", "document_id": key})
    refused = place.calls((UPSERT.name, document("Mine now.")), delete, caller=B)
    narrowed = place.calls((UPSERT.name, document("Ours.", visibility="team-b")), caller=B)[0]

    assert [text_of(answer).split(":")[0] for answer in refused] == ["PERMISSION_DENIED"] * 2
    # Beside the public one, which everybody still finds.
    assert narrowed.structured_content["action"] == "created"
    assert "zeppelinquota" in place.found("`zeppelinquota`", caller=member())
    assert place.write("The quota is `montgolfier`.", caller=A).structured_content["action"] == "replaced"
    # The operator, for whom there are no groups, is not kept out.
    operators = place.write("Correct.").structured_content
    assert (operators["action"], operators["document_id"]) == ("replaced", key)
    assert place.calls(delete, caller=A)[0].structured_content["action"] == "deleted"
    assert text_of(place.calls(delete, caller=B)[0]).startswith("NOT_FOUND: ")
    assert place.write(caller=A).structured_content["action"] == "restored"


@pytest.mark.parametrize(
    "origin",
    [
        "https://example.org/1/page.md#0",
        "http://EXAMPLE.org:8080/anything",
        "https://www.example.org/x",
        "https://example.org./x",
        "https://example.org",
    ],
)
def test_no_text_passes_for_what_the_corpus_fetches(place: Corpus, origin: str) -> None:
    assert any(row["citation_url"].startswith("https://example.org/") for row in place.rows().values())

    refused = place.calls((UPSERT.name, document(origin=origin)))[0]

    assert text_of(refused).startswith("INVALID_ARGUMENT: metadata.origin: the corpus fetches what stands there")


def test_over_http_a_writer_must_be_known_and_over_stdio_the_operator_is() -> None:
    with pytest.raises(SettingsError, match="without authentication"):
        ServerSettings.from_env({"MCP_WRITE_ENABLED": "true", "MCP_ALLOW_ANONYMOUS": "true"})

    assert ServerSettings.from_env({"MCP_WRITE_ENABLED": "true"}, local=True).write_enabled


def test_a_missing_extra_is_named_before_anything_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter", None)

    with pytest.raises(SettingsError, match="tree_sitter") as caught:
        DocumentWriter(Settings(milvus_uri="x.db"), HashEmbedder)

    assert "kubeflow-corpus[mcp,ingest]" in caught.value.remedy
