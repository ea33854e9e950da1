"""What a model wants before a text is sent, recorded with the model, and never mixed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.embedding.cache import VectorCache
from kubeflow_corpus.embedding.embedder import StreamingEmbedder
from kubeflow_corpus.embedding.factory import embedder_from_settings
from kubeflow_corpus.embedding.prompts import Prompts, preset
from kubeflow_corpus.errors import ModelMismatch
from kubeflow_corpus.milvus import Backend
from kubeflow_corpus.model import ModelIdentity, Recipe, make_recipe
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.store.schema import check_model, model_difference
from kubeflow_corpus.store.versions import recipe_properties

from tests.servers.tei import TeiServer

BGE = "Represent this sentence for searching relevant passages: "


def sent(model: str, **environ: str) -> tuple[ModelIdentity, str, str]:
    """The model, and what its service reads of the question `quota` and of the document `quota`."""
    read: list[str] = []

    def check(path: str, side: str, value: Any) -> None:
        if path == "/embed" and side == "request":
            read.extend(value["inputs"])

    with TeiServer(model_id=model, dimension=8, check=check) as server:
        settings = Settings.from_env({"EMBEDDINGS_URL": server.url, **environ})
        identities = []
        for for_queries in (True, False):
            embedder: StreamingEmbedder = embedder_from_settings(settings, for_queries=for_queries)
            identities.append(embedder.identity)
            embedder.embed(["quota"])
            list(embedder.embed_stream([("key", "quota")]))
            embedder.close()
    assert identities[0] == identities[1], "one corpus, whoever asks"
    dimension, question, again, other, document, once_more = read
    assert (dimension, other, question, document) == ("dimension", "dimension", again, once_more)
    return identities[0], question, document


@pytest.mark.parametrize(
    ("model", "question", "document"),
    [
        ("sentence-transformers/all-mpnet-base-v2", "quota", "quota"),
        ("BAAI/bge-base-en-v1.5", f"{BGE}quota", "quota"),
        ("/data/BGE-small-en-v1.5", f"{BGE}quota", "quota"),
        ("BAAI/bge-m3", "quota", "quota"),
        ("intfloat/multilingual-e5-base", "query: quota", "passage: quota"),
        ("intfloat/e5-large-v2", "query: quota", "passage: quota"),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: quota", "search_document: quota"),
        ("Alibaba-NLP/gte-base-en-v1.5", "quota", "quota"),
        ("thenlper/gte-large", "quota", "quota"),
    ],
)
def test_the_models_that_people_serve_read_what_they_were_trained_on(model: str, question: str, document: str) -> None:
    identity, asked, indexed = sent(model)

    assert (asked, indexed) == (question, document)
    assert (identity.query_prefix + "quota", identity.document_prefix + "quota") == (question, document)


def test_instructions_are_for_questions_only() -> None:
    for model in (
        "Qwen/Qwen3-Embedding-0.6B",
        "Alibaba-NLP/gte-Qwen2-1.5B-instruct",
        "intfloat/e5-mistral-7b-instruct",
    ):
        prompts = preset(model)
        assert prompts.query.startswith("Instruct: ") and not prompts.document
    assert preset("unknown/model") == preset("my-bgeish-model") == Prompts()


def test_settings_replace_a_preset_with_their_blanks_and_none_turns_it_off() -> None:
    own = {"EMBEDDING_QUERY_PREFIX": " Q> ", "EMBEDDING_DOCUMENT_PREFIX": "none"}

    _, question, document = sent("intfloat/e5-base-v2", **own)

    assert (question, document) == (" Q> quota", "quota")


def test_what_stands_before_a_document_is_not_left_for_its_text() -> None:
    plain, _, _ = sent("own/model")
    identity, _, _ = sent("own/model", EMBEDDING_DOCUMENT_PREFIX="one two three four: ")

    assert plain.max_tokens - identity.max_tokens == 5
    assert make_recipe(identity).token_budget == identity.max_tokens


MODEL = ModelIdentity("own/model", "r1", 8, 256, query_prefix="q: ", document_prefix="d: ", pooling="mean")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"query_prefix": "q:"}, 'query prefix "q: " is recorded, "q:" is given'),
        ({"document_prefix": ""}, 'document prefix "d: " is recorded, (none) is given'),
        ({"pooling": "cls"}, "pooling mean is recorded, cls is given"),
    ],
)
def test_vectors_made_otherwise_never_meet(changed: dict[str, str], said: str, tmp_path: Path) -> None:
    other = replace(MODEL, **changed)  # type: ignore[arg-type]
    recorded = recipe_properties(Recipe(MODEL, 256), DOCS, Backend("milvus-lite-3.2.2", lite=True, bm25=True))

    check_model(recorded, MODEL, "kubeflow_docs_v1")
    with pytest.raises(ModelMismatch, match="embedded with another model"):
        check_model(recorded, other, "kubeflow_docs_v1")
    assert model_difference(recorded, other) == said and other != MODEL
    # Vectors of documents do not depend on what is put before questions.
    same_vectors = VectorCache(tmp_path, MODEL).path == VectorCache(tmp_path, other).path
    assert same_vectors == ("query_prefix" in changed)


def test_a_service_that_does_not_say_how_it_pools_is_taken_at_its_name() -> None:
    recorded = recipe_properties(Recipe(MODEL, 256), DOCS, Backend("milvus-lite-3.2.2", lite=True, bm25=True))

    assert not model_difference(recorded, replace(MODEL, pooling=""))
    # A collection of an earlier release records neither, and its model wanted nothing.
    del recorded["embedding_pooling"], recorded["embedding_query_prefix"], recorded["embedding_document_prefix"]
    assert not model_difference(recorded, replace(MODEL, query_prefix="", document_prefix=""))
