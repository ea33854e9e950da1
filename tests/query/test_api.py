"""The public face: names of the package, the same calls on both clients, and keywords that a type checker knows."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import kubeflow_corpus
import pytest
from kubeflow_corpus import errors
from kubeflow_corpus.collections import CODE, DOCS, ISSUES, CollectionSpec
from kubeflow_corpus.embedding.embedder import Embedder
from kubeflow_corpus.query import client as clients
from kubeflow_corpus.query import options
from kubeflow_corpus.query.client import AsyncCorpusClient, CorpusClient
from kubeflow_corpus.query.filters import FILTERS, filters_of
from kubeflow_corpus.query.options import (
    ClientOptions,
    CodeOptions,
    CollectionOptions,
    CommonOptions,
    DocsOptions,
    IssuesOptions,
    SearchOptions,
    SearchRequest,
)
from kubeflow_corpus.query.reader import Reader

from tests.query.corpus import MODEL

CALLS = [name for name, value in vars(CorpusClient).items() if callable(getattr(CorpusClient, name)) and name[0] != "_"]
NAMES = {"Embedder": Embedder, "Reader": Reader}


@pytest.mark.parametrize("name", ["__init__", *CALLS])
def test_both_clients_take_the_same_arguments(name: str) -> None:
    first, second = (inspect.signature(getattr(kind, name)) for kind in (CorpusClient, AsyncCorpusClient))

    assert list(first.parameters.values()) == list(second.parameters.values())
    assert str(second.return_annotation).replace("Async", "") == first.return_annotation


def test_both_clients_have_the_same_calls_and_only_what_waits_is_awaited() -> None:
    others = {name for name in vars(AsyncCorpusClient) if name[0] != "_"}

    assert others == set(CALLS)
    awaited = {name for name in others if inspect.iscoroutinefunction(getattr(AsyncCorpusClient, name))}
    assert others - awaited == {"from_env", "scoped", "tuned"}


def keywords(call: Callable[..., Any]) -> set[str]:
    """Every keyword of a call, those of its typed options among them."""
    hints = get_type_hints(call, vars(clients), NAMES)
    named = {name for name in inspect.signature(call).parameters if name not in ("self", "query", "collection")}
    (typed,) = get_args(hints["options"])
    return (named - {"options"}) | set(typed.__annotations__)


@pytest.mark.parametrize(
    ("call", "spec"),
    [(CorpusClient.search_docs, DOCS), (CorpusClient.search_issues, ISSUES), (CorpusClient.search_code, CODE)],
)
def test_a_search_names_every_option_and_every_filter_of_its_collection(
    call: Callable[..., Any], spec: CollectionSpec
) -> None:
    assert keywords(call) == {*SearchOptions.__annotations__, *filters_of(spec)}


def test_a_search_by_alias_names_the_options_and_filters_of_all_collections() -> None:
    assert keywords(CorpusClient.search) == {*SearchOptions.__annotations__, *FILTERS}


def test_every_option_is_documented() -> None:
    kinds = (SearchOptions, CommonOptions, DocsOptions, IssuesOptions, CodeOptions, CollectionOptions)
    documented = {name for kind in kinds for name in re.findall(r"^        (\w+): ", kind.__doc__ or "", re.MULTILINE)}

    assert documented == {*CollectionOptions.__annotations__}


def test_an_option_that_is_left_out_has_the_default_of_a_request() -> None:
    assert set(SearchOptions.__annotations__) < set(SearchRequest.__dataclass_fields__)


def test_the_options_of_a_client_are_its_arguments() -> None:
    arguments = {*inspect.signature(CorpusClient).parameters}
    hints = get_type_hints(CorpusClient.__init__, vars(clients), NAMES)

    assert set(ClientOptions.__annotations__) == arguments - {"settings"}
    typed = get_type_hints(ClientOptions, vars(options), NAMES)
    assert all(typed[name] == hints[name] for name in typed)


@pytest.mark.parametrize("name", ["limt", "visibility", "spec", "filters", "labls"])
def test_a_misspelt_or_unknown_keyword_is_a_type_error_that_names_it(client: CorpusClient, name: str) -> None:
    wrong: dict[str, Any] = {name: 3}
    for search in (client.search_docs, client.search_issues, client.search_code):
        with pytest.raises(TypeError, match=f"keyword argument '{name}'"):
            search("caching", **wrong)
    with pytest.raises(TypeError, match=f"keyword argument '{name}'"):
        client.get_unit("x", **wrong)


def test_the_async_client_tunes_and_tells_properties_too(corpus_uri: str, client: CorpusClient) -> None:
    async def ask() -> tuple[dict[str, str], list[str]]:
        async with AsyncCorpusClient(milvus_uri=corpus_uri, embeddings=MODEL, timeout=60) as other:
            tuned = other.tuned(kubeflow_corpus.Tuning(fusion="rrf")).scoped([])
            result = await tuned.search_docs("early stopping of katib trials")
            assert result.trace["fusion"]["method"] == "rrf"
            return await other.properties("kubeflow_docs"), [hit.unit_id for hit in result.hits]

    properties, units = asyncio.run(ask())
    assert properties == client.properties("kubeflow_docs") and units[0] == "site:early.md#stop"


@pytest.mark.parametrize("name", kubeflow_corpus.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    value = getattr(kubeflow_corpus, name)

    assert value is not None and name in dir(kubeflow_corpus)


def test_every_error_that_a_search_may_raise_is_public() -> None:
    # Those of the server and of the ingestion cannot reach a caller of the library.
    served = {errors.RateLimited, errors.ShuttingDown, errors.Unauthenticated, errors.PermissionDenied}
    expected = {errors.CorpusError, errors.SettingsError, errors.QueryError, errors.EmbeddingError, errors.StoreError}
    expected |= {*errors.QueryError.__subclasses__(), *errors.EmbeddingError.__subclasses__()} - served

    assert {kind.__name__ for kind in expected} <= set(kubeflow_corpus.__all__)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        _ = kubeflow_corpus.Nothing


def test_public_names_load_nothing_heavy() -> None:
    code = (
        "import sys, kubeflow_corpus\n"
        "assert not {name for name in sys.modules if name.startswith('kubeflow_corpus.')}\n"
        "for name in kubeflow_corpus.__all__: getattr(kubeflow_corpus, name)\n"
        "heavy = {'pymilvus', 'numpy', 'grpc', 'onnxruntime', 'tokenizers', 'kfp', 'markdown_it'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
