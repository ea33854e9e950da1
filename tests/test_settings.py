"""The environment as typed settings: checked where it is read, secrets never shown."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubeflow_corpus.errors import SettingsError
from kubeflow_corpus.settings import Secret, Settings


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = Settings.from_env({})
    assert settings == Settings()
    assert settings.github_api_url == "https://api.github.com"
    assert not settings.embedded_milvus


def test_every_setting_is_read_from_the_variable_of_its_name() -> None:
    values = {field.name: f"http://{field.name.replace('_', '-')}.example" for field in fields(Settings)}
    values |= {"collection_prefix": "staging", "dense_index": "HNSW", "chunk_tokens": "200", "milvus_sharing": "True"}
    values |= {"document_seconds": "7", "document_memory_mb": "300", "question_log_days": "30"}
    settings = Settings.from_env({name.upper(): f"  {value} " for name, value in values.items()})
    for name, value in values.items():
        found = getattr(settings, name)
        # Of a prefix the blanks count.
        wanted = f"  {value} " if name.endswith("_prefix") and name.startswith("embedding_") else value
        assert (found.reveal() if isinstance(found, Secret) else str(found)) == wanted


def test_a_trailing_slash_of_a_url_does_not_matter() -> None:
    assert Settings.from_env({"EMBEDDINGS_URL": "http://tei:8080/"}).embeddings_url == "http://tei:8080"


@pytest.mark.parametrize("name", ["EMBEDDINGS_URL", "RERANK_URL", "GITHUB_API_URL"])
def test_a_url_that_is_none_is_refused_by_name_without_its_password(name: str) -> None:
    with pytest.raises(SettingsError, match=name) as caught:
        Settings.from_env({name: "redis://reader:hunter2@tei:8080"})
    assert caught.value.fields == {"setting": name}
    assert "tei:8080" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("prefix", ["9lives", "a-b", "größe", "a b"])
def test_a_prefix_that_milvus_would_refuse_is_refused_here(prefix: str) -> None:
    with pytest.raises(SettingsError, match="COLLECTION_PREFIX"):
        Settings.from_env({"COLLECTION_PREFIX": prefix})


def test_a_path_is_an_embedded_milvus_and_a_url_is_a_server() -> None:
    assert Settings(milvus_uri="local/corpus.db").embedded_milvus
    assert not Settings(milvus_uri="http://milvus:19530").embedded_milvus
    with pytest.raises(SettingsError, match="MILVUS_URI is not set"):
        Settings().require_milvus_uri()


@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=8))
@settings(max_examples=40)
def test_a_secret_shows_itself_nowhere(value: str) -> None:
    secret = Secret(value)
    environment = replace(Settings(), github_token=secret)
    for shown in (str(secret), repr(secret), f"{secret}", repr([secret]), str(KeyError(secret))):
        assert value not in shown
    assert "Secret('***')" in repr(environment)
    assert secret.reveal() == value


def test_secrets_compare_hash_and_pickle_by_value() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
    assert bool(Secret("a")) and not Secret("")
    assert pickle.loads(pickle.dumps(Secret("a"))) == Secret("a")


@pytest.mark.parametrize("value", ["IVF", "flat index", "0"])
def test_an_unknown_dense_index_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="DENSE_INDEX"):
        Settings.from_env({"DENSE_INDEX": value})


def test_the_dense_index_may_be_written_in_any_case() -> None:
    assert Settings.from_env({"DENSE_INDEX": "hnsw"}).dense_index == "HNSW"
