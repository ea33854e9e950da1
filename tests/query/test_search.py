"""Searching a real collection: routing, preferences, filters, duplicates, units, the published JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import pytest
from kubeflow_corpus.cli.main import main
from kubeflow_corpus.errors import InvalidArgument, UnitNotFound
from kubeflow_corpus.query.citations import citation_schema
from kubeflow_corpus.query.client import AsyncCorpusClient, CorpusClient

from tests.query.corpus import MODEL


def units(result: Any) -> list[str]:
    return [hit.unit_id for hit in result.hits]


def test_a_conceptual_question_finds_the_page_by_both_lists(client: CorpusClient) -> None:
    result = client.search_docs("how do I switch the reuse of step results off")
    assert (result.intent.name, result.intent.mode) == ("conceptual", "hybrid")
    assert units(result)[0] == "site:caching.md#use"
    assert result.hits[0].mode == "hybrid"
    assert set(result.ranked_lists()) == {"dense", "bm25"}


def test_room_in_the_budget_shows_what_else_was_found_on_the_same_pages(client: CorpusClient) -> None:
    question = "how do I switch the reuse of step results off"
    result = client.search_docs(question, limit=2)
    pages = {hit.document_id for hit in result.hits}
    cited = [citation["unit_id"] for citation in result.citations]
    assert cited[:2] == units(result) and len(cited) > 2
    others = [hit for hit in result.further if hit.unit_id in cited]
    assert {hit.document_id for hit in others} <= pages and not {hit.unit_id for hit in others} & set(units(result))
    # The same from hits that were asked for and are not shown.
    wide = client.search_docs(question, limit=10).evidence_block(max_hits=2)
    assert [citation["unit_id"] for citation in wide.citations][:2] == units(result)
    assert len(client.search_docs(question, limit=2, token_budget=120).citations) <= 2


def test_a_key_is_looked_up_by_words(client: CorpusClient) -> None:
    result = client.search_docs("KATIB_DB_MANAGER_SERVICE_PORT")
    assert (result.intent.name, result.intent.mode) == ("exact", "bm25")
    assert units(result) == ["site:env.md#katib"]
    assert "6789" in result.evidence()


def test_words_of_an_identifier_find_it(client: CorpusClient) -> None:
    assert units(client.search_docs("canary traffic percent", mode="bm25"))[0] == "site:canary.md#field"


def test_a_key_with_a_typo_is_found_by_meaning_and_the_result_says_so(client: CorpusClient) -> None:
    result = client.search_docs("canaryTraficPercentt")
    assert result.intent.mode == "hybrid" and "hybrid instead" in result.intent.reason
    assert units(result)[0] == "site:canary.md#field"


def test_a_release_date_comes_from_the_release_that_is_named(client: CorpusClient) -> None:
    result = client.search_docs("when was 1.10 released")
    assert result.intent.name == "release_date"
    assert units(result)[0] == "site:release-info/v1.10.0.json"
    assert "2025-03-31" in result.evidence()


def test_the_latest_release_is_the_one_with_the_latest_date(client: CorpusClient) -> None:
    assert units(client.search_docs("what is the latest release"))[0] == "site:release-info/v26.03.1.json"
    assert units(client.search_docs("what was the first kubeflow release"))[0] == "site:release-info/v1.8.0.json"


def test_release_stubs_stay_out_of_other_questions(client: CorpusClient) -> None:
    assert units(client.search_docs("kserve version of kubeflow 1.10"))[0] == "site:kubeflow-1.10.md#components"
    assert units(client.search_docs("kserve version in 1.9 (not 1.10)"))[0] == "site:kubeflow-1.9.md#components"


def test_both_sides_of_a_comparison_are_shown(client: CorpusClient) -> None:
    assert set(units(client.search_docs("compare kserve in 1.9 and 1.10"))[:2]) == {
        "site:kubeflow-1.9.md#components",
        "site:kubeflow-1.10.md#components",
    }
    assert set(units(client.search_docs("Sequence router vs Switch router"))[:2]) == {
        "site:sequence.md#router",
        "site:switch.md#router",
    }


def test_the_superseded_page_is_first_only_where_it_is_named(client: CorpusClient) -> None:
    assert units(client.search_docs("switch off caching of a task"))[0] == "site:caching.md#use"
    assert units(client.search_docs("kfp v1 switch off caching of a task"))[0] == "site:legacy-v1/caching.md#use"


def test_a_resolved_thread_comes_before_an_open_one(client: CorpusClient) -> None:
    result = client.search_issues("ImagePullBackOff")
    assert units(result) == ["issues:acme/kfp/11", "issues:acme/kfp/12"]
    assert result.hits[0].to_dict()["issue_number"] == 11
    assert "acme/kfp #11, closed as completed" in result.evidence()


def test_the_end_of_a_long_log_is_shown_where_it_matches(client: CorpusClient) -> None:
    evidence = client.search_issues("panic: runtime error: invalid memory address", token_budget=400).evidence()
    assert "panic: runtime error" in evidence and "[...]" in evidence


def test_a_crd_is_one_hit_with_its_head_and_the_field_that_matched(client: CorpusClient) -> None:
    result = client.search_code("TrainJob managedBy default", token_budget=500)
    assert units(result)[0].endswith("#kubeflow.org/TrainJob")
    assert len([unit for unit in units(result) if unit.endswith("TrainJob")]) == 1
    evidence = result.evidence()
    assert "group: trainer.kubeflow.org" in evidence and "trainer.kubeflow.org/trainjob-controller" in evidence


def test_code_keeps_its_calls_and_loses_its_links(client: CorpusClient) -> None:
    evidence = client.search_code("DefaultReplicas").evidence()
    assert "ptr.To[int32](1)" in evidence and "https://" not in evidence


def test_filters_narrow_and_what_they_empty_is_relaxed_once_and_said(client: CorpusClient) -> None:
    result = client.search_docs("which metrics collectors work", product_area="katib")
    assert result.hits and all("katib" in hit.product_area for hit in result.hits)
    relaxed = client.search_docs("caching of a step", version="9.9")
    assert relaxed.hits and relaxed.filters == {}
    assert "version=['9.9']" in relaxed.notes[0] and "Note: " in relaxed.evidence()
    assert relaxed.trace["relaxed"] == {"version": ["9.9"]}


def test_what_a_question_names_is_a_preference_and_a_filter_when_asked(client: CorpusClient) -> None:
    soft = client.search_docs("component versions of kubeflow 1.9")
    assert soft.filters == {} and soft.filters_inferred == {"version": ["1.9"]}
    hard = client.search_docs("component versions of kubeflow 1.9", infer_filters=True)
    assert hard.filters == {"version": ["1.9"]}
    assert all("1.9" in hit.version for hit in hard.hits)


def test_units_that_were_shown_are_left_out_when_asked(client: CorpusClient) -> None:
    result = client.search_docs("switch off caching of a task", exclude=["site:caching.md#use"])
    assert "site:caching.md#use" not in units(result)
    assert {"unit_id": "site:caching.md#use", "reason": "excluded by the caller"} in result.trace["drops"]


def test_nothing_is_invented_for_a_question_about_something_else(client: CorpusClient) -> None:
    result = client.search_docs("xyzzy plugh frobnicate")
    assert result.hits == () and result.evidence().startswith("No results")


def test_facets_count_the_candidates(client: CorpusClient) -> None:
    assert client.search_issues("ImagePullBackOff").facets["state"] == {"open": 1, "closed": 1}


@pytest.mark.parametrize("mode", ["hybrid", "dense", "bm25"])
def test_a_score_says_how_well_a_unit_matches_whatever_else_was_found(client: CorpusClient, mode: Any) -> None:
    question = "early stopping of katib trials"
    wide = {hit.unit_id: hit.score for hit in client.search_docs(question, mode=mode, limit=5).hits}
    best = max(wide, key=lambda unit: wide[unit])
    alone = client.search_docs(question, mode=mode, limit=5, exclude=[best])

    assert wide[best] > 0.6
    assert all(hit.score == pytest.approx(wide[hit.unit_id]) for hit in alone.hits if hit.unit_id in wide)


def test_what_nobody_wrote_about_has_low_scores(client: CorpusClient) -> None:
    for question in ("How do I bake a chocolate cake?", "Which hiking boots are best for wide feet?"):
        assert all(hit.score < 0.5 for hit in client.search_docs(question, mode="hybrid").hits)
    assert all(hit.score >= 0.5 for hit in client.search_docs("early stopping of katib trials", min_score=0.5).hits)


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
@pytest.mark.parametrize("mode", ["hybrid", "dense", "bm25"])
def test_every_mode_and_fusion_can_be_chosen(client: CorpusClient, mode: Any, fusion: Any) -> None:
    result = client.search_docs("early stopping of katib trials", mode=mode, fusion=fusion)
    assert units(result)[0] == "site:early.md#stop"
    assert result.intent.mode == mode and result.trace["fusion"]["method"] == fusion
    assert all(0 <= hit.score <= 1 for hit in result.hits)


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"query": "   "}, "query"),
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x", "limit": True}, "limit"),
        ({"query": "x", "mode": "magic"}, "mode"),
        ({"query": "x", "fusion": "magic"}, "fusion"),
        ({"query": "x", "token_budget": 1}, "token_budget"),
        ({"query": "x", "timeout": -1}, "timeout"),
        ({"query": "x", "state": "open"}, "state"),
    ],
)
def test_a_wrong_argument_is_named(client: CorpusClient, given: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        client.search_docs(**given)
    assert caught.value.fields["argument"] == argument


@pytest.mark.parametrize(
    "query", ["\x00\x01 caching", "a" * 1_000_000, "\ud800 caching", "日本語 🚀", '"; drop', "(((((", "   ?"]
)
def test_any_query_is_answered(client: CorpusClient, query: str) -> None:
    assert client.search_docs(query).evidence()


def test_a_whole_unit_and_its_neighbours_are_given(client: CorpusClient) -> None:
    unit = client.get_unit("manifests:crd.yaml#kubeflow.org/TrainJob", token_budget=30_000)
    assert "spec.field59" in unit.text and not unit.truncated
    jsonschema.validate(dict(unit.citation), citation_schema())
    assert client.get_unit("manifests:crd.yaml#kubeflow.org/TrainJob", token_budget=300).truncated
    assert [hit.unit_id for hit in client.neighbours("site:caching.md#use")] == ["site:caching.md#expire"]
    for wrong in ("nope", 'x" or id != "'):
        with pytest.raises(UnitNotFound):
            client.get_unit(wrong)


@pytest.mark.parametrize("name", ["docs", "kubeflow_docs", "search_kubeflow_docs"])
def test_a_collection_may_be_named_by_any_of_its_names(client: CorpusClient, name: str) -> None:
    found = client.search(name, "how do I switch caching off")
    assert found.collection == "kubeflow_docs" and found.hits
    assert client.get_unit(found.hits[0].unit_id, collection=name).hit.unit_id == found.hits[0].unit_id
    assert client.properties(name) == client.properties("kubeflow_docs")


def test_known_values_are_read_from_the_corpus(client: CorpusClient) -> None:
    assert client.known_values("code_rag", "kind") == {"CustomResourceDefinition": 61, "ConfigMap": 1, "const": 1}


def test_near_duplicates_are_one_hit_that_names_the_other_places(client: CorpusClient) -> None:
    # Without a version in the question the v1 page says nearly what the v2 page says.
    result = client.search_docs("set_caching_options", limit=10)
    assert units(result)[0] == "site:caching.md#use"


def test_the_json_form_is_that_of_the_design(client: CorpusClient) -> None:
    data = json.loads(client.search_docs("how do I switch caching off", request_id="r-1").to_json())
    assert data["request_id"] == "r-1"
    assert set(data["intent"]) == {"name", "mode", "reason"}
    assert {"hits", "evidence", "citations", "facets", "trace", "total_ms"} <= set(data)
    wanted = (
        "unit_id",
        "document_id",
        "repo",
        "file_path",
        "citation_url",
        "title",
        "section_path",
        "score",
        "also_at",
    )
    assert all(name in data["hits"][0] for name in (*wanted, "content_text"))
    assert [citation["id"] for citation in data["citations"]] == re.findall(
        r"^\[(c\d+)\]", data["evidence"], re.MULTILINE
    )
    for citation in data["citations"]:
        jsonschema.validate(citation, citation_schema())


def test_a_search_is_one_log_event_without_the_question(client: CorpusClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kubeflow_corpus.query"):
        client.search_docs("secret words", request_id="r-2")
    (record,) = [record for record in caplog.records if record.name == "kubeflow_corpus.query"]
    event = json.loads(record.getMessage())
    assert event["event"] == "search" and event["request_id"] == "r-2" and event["hits"] >= 0
    assert "secret" not in record.getMessage()


def test_32_threads_on_one_client_get_their_own_answers(client: CorpusClient) -> None:
    asked = {
        "KATIB_DB_MANAGER_SERVICE_PORT": "site:env.md#katib",
        "early stopping of katib trials": "site:early.md#stop",
        "when was 1.9.1 released": "site:release-info/v1.9.1.json",
        "canaryTrafficPercent": "site:canary.md#field",
    }
    work = [*asked.items()] * 16
    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(lambda pair: units(client.search_docs(pair[0]))[0], work))
    assert found == [unit for _, unit in work]


def test_200_coroutines_on_one_client_get_their_own_answers(corpus_uri: str) -> None:
    async def ask_all() -> list[str]:
        async with AsyncCorpusClient(milvus_uri=corpus_uri, embeddings=MODEL, timeout=60) as client:
            await client.warm_up(["kubeflow_docs"])
            results = await asyncio.gather(*(client.search_docs(query) for query in queries))
            assert (await client.get_unit("site:early.md#stop")).text
            return [units(result)[0] for result in results]

    queries = ["KATIB_DB_MANAGER_SERVICE_PORT", "canaryTrafficPercent"] * 100
    assert asyncio.run(ask_all()) == ["site:env.md#katib", "site:canary.md#field"] * 100


def test_importing_the_library_costs_nothing() -> None:
    code = (
        "import sys, kubeflow_corpus, kubeflow_corpus.query\n"
        "assert not {'pymilvus', 'requests', 'numpy', 'grpc'} & set(sys.modules), 'heavy'\n"
        "from kubeflow_corpus import CorpusClient\n"
        "heavy = {'pymilvus', 'numpy', 'onnxruntime', 'tokenizers', 'kfp', 'markdown_it'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_command_is_readable_in_100_columns(
    corpus_uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], client: CorpusClient
) -> None:
    monkeypatch.setenv("MILVUS_URI", corpus_uri)
    monkeypatch.setenv("EMBEDDINGS_URL", "")
    assert main(["search", "docs", "when was 1.10 released", "--trace", "--timeout", "60"]) == 0
    out = capsys.readouterr().out
    assert all(len(line) <= 100 for line in out.splitlines() if "https://" not in line)
    assert "intent: release_date (bm25)" in out and "2025-03-31" in out and "fused:" in out
    assert main(["search", "code", "managedBy", "--kind", "CustomResourceDefinition", "--json", "--timeout", "60"]) == 0
    assert json.loads(capsys.readouterr().out)["hits"][0]["kind"] == "CustomResourceDefinition"
    assert main(["search", "docs", "x", "--state", "open"]) == 1
    assert "has no filter 'state'" in capsys.readouterr().err


def test_the_command_shows_a_source_as_it_is_with_its_addresses(
    corpus_uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MILVUS_URI", corpus_uri)
    monkeypatch.setenv("EMBEDDINGS_URL", "")

    assert main(["search", "docs", "how do I switch caching off", "--limit", "1"]) == 0

    shown = capsys.readouterr().out.splitlines()
    assert any(
        line.endswith("See the reference https://kfp.example.org/ref or https://example.org/more.") for line in shown
    )


def test_a_comparison_of_two_releases_begins_with_a_page_of_each(client: CorpusClient) -> None:
    result = client.search_docs("compare the katib version in 1.9 and 1.10", limit=4)

    assert result.intent.name == "comparison"
    first, second = (set(hit.version) for hit in result.hits[:2])
    assert ("1.9" in first and "1.10" in second) or ("1.10" in first and "1.9" in second)
