"""How a collection is stored in Milvus: its schema, indexes and analyzers, and what its properties record.

The fields themselves are listed in `kubeflow_corpus.collections`. Imports only the standard library and root modules,
and pymilvus inside functions, so that a reader pays for nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.collections import KEY_FIELD, SEARCH_TEXT_FIELD, CollectionSpec
from kubeflow_corpus.errors import ModelMismatch, SchemaMismatch
from kubeflow_corpus.milvus import Backend

if TYPE_CHECKING:
    from pymilvus import CollectionSchema
    from pymilvus.milvus_client.index import IndexParams

    from kubeflow_corpus.model import ModelIdentity

# Visibility of rows that everybody may see.
PUBLIC: Final = ""
# Visibility of rows that were deleted softly: every reader leaves them out, whatever groups it may see. No group has a
# tilde in its name.
HIDDEN: Final = "~deleted"

VECTOR_FIELD: Final = "vector"
SPARSE_FIELD: Final = "sparse_vector"
DENSE_METRIC: Final = "COSINE"
SPARSE_METRIC: Final = "BM25"
BM25_FUNCTION: Final = "bm25"

# Milvus servers cap limit, and offset plus limit, at this number.
MAX_WINDOW: Final = 16_384

# Names of properties. Milvus Lite returns every value as a string, so every value is written as one.
SCHEMA_VERSION_KEY: Final = "schema_version"
CHUNKER_VERSION_KEY: Final = "chunker_version"
TOKEN_BUDGET_KEY: Final = "token_budget"
MODEL_KEY: Final = "embedding_model"
MODEL_REVISION_KEY: Final = "embedding_revision"
DIMENSION_KEY: Final = "embedding_dimension"
QUERY_PREFIX_KEY: Final = "embedding_query_prefix"
DOCUMENT_PREFIX_KEY: Final = "embedding_document_prefix"
POOLING_KEY: Final = "embedding_pooling"
ANALYZER_KEY: Final = "analyzer"
CREATED_AT_KEY: Final = "created_at"
PUBLISHED_AT_KEY: Final = "published_at"
# Empty until a candidate holds everything that its run wanted it to hold.
COMPLETED_AT_KEY: Final = "completed_at"
LEASE_KEY: Final = "lease"
RUN_KEY: Final = "last_run"
HEAD_PREFIX: Final = "head:"
FETCHED_PREFIX: Final = "fetched:"
CURSOR_PREFIX: Final = "cursor:"
# What the rows of a source are made of, and how many they are: see `store.settled`.
# Documents at which the last run failed, JSON, by source.
RETRY_PREFIX: Final = "retry:"
SETTLED_PREFIX: Final = "settled:"


# What a version is made with. Every other property is about all of its rows, and names sources, counts or machines.
PUBLIC_PROPERTIES: Final = frozenset(
    {
        SCHEMA_VERSION_KEY, CHUNKER_VERSION_KEY, TOKEN_BUDGET_KEY, MODEL_KEY, MODEL_REVISION_KEY, DIMENSION_KEY,
        QUERY_PREFIX_KEY, DOCUMENT_PREFIX_KEY, POOLING_KEY, ANALYZER_KEY, CREATED_AT_KEY, PUBLISHED_AT_KEY,
    }
)  # fmt: skip


def served_name(prefix: str, alias: str) -> str:
    """Returns the alias as Milvus knows it: with the environment's prefix, if there is one."""
    return f"{prefix.rstrip('_')}_{alias}" if prefix else alias


def physical_name(served: str, number: int) -> str:
    """Returns the name of one version: ``kubeflow_docs_v3``."""
    return f"{served}_v{number}"


def version_number(served: str, name: str) -> int | None:
    """Returns the number of a version from its collection's name, or None for a name of another kind."""
    match = re.fullmatch(re.escape(served) + r"_v([1-9]\d*)", name)
    return int(match.group(1)) if match else None


# Lucene's English stop words, as the server's `english` analyzer removes them.
_STOP_WORDS: Final = re.findall(
    r"\w+",
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with",
)


def analyzer_name(spec: CollectionSpec, backend: Backend) -> str:
    """Returns the name under which the properties record how BM25 splits words.

    ``english`` stems and drops stop words, ``standard-stop`` only drops them (Milvus Lite has no stemmer),
    ``standard`` does neither, ``none`` is a backend without BM25.
    """
    if not backend.bm25:
        return "none"
    if not spec.prose:
        return "standard"
    return "standard-stop" if backend.lite else "english"


ANALYZERS: Final[dict[str, dict[str, Any]]] = {
    "english": {"type": "english"},
    "standard-stop": {"tokenizer": "standard", "filter": ["lowercase", {"type": "stop", "stop_words": _STOP_WORDS}]},
    "standard": {"tokenizer": "standard", "filter": ["lowercase"]},
}


def collection_schema(spec: CollectionSpec, backend: Backend, dimension: int) -> CollectionSchema:
    """Returns the Milvus schema of a collection.

    Args:
        spec: Which one.
        backend: Decides on the analyzer, and whether there is a BM25 function at all.
        dimension: Length of the dense vectors.
    """
    from pymilvus import DataType, Function, FunctionType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    for field in spec.fields:
        if field.name == SEARCH_TEXT_FIELD and backend.bm25:
            analyzer = ANALYZERS[analyzer_name(spec, backend)]
            options: dict[str, Any] = {"enable_analyzer": True, "analyzer_params": analyzer}
        else:
            options = {"is_primary": True} if field.name == KEY_FIELD else {}
        if field.kind == "text":
            schema.add_field(field.name, DataType.VARCHAR, max_length=field.max_bytes, **options)
        elif field.kind == "array":
            schema.add_field(
                field.name,
                DataType.ARRAY,
                element_type=DataType.VARCHAR,
                max_capacity=field.max_items,
                max_length=field.max_bytes,
            )
        else:
            schema.add_field(field.name, DataType.INT64 if field.kind == "integer" else DataType.BOOL)
    schema.add_field(VECTOR_FIELD, DataType.FLOAT_VECTOR, dim=dimension)
    if backend.bm25:
        schema.add_field(SPARSE_FIELD, DataType.SPARSE_FLOAT_VECTOR)
        function = Function(
            name=BM25_FUNCTION,
            function_type=FunctionType.BM25,
            input_field_names=[SEARCH_TEXT_FIELD],
            output_field_names=[SPARSE_FIELD],
        )
        schema.add_function(function)
    return schema


def index_params(
    backend: Backend, dense_index: str = "FLAT", fields: Iterable[str] = (VECTOR_FIELD, SPARSE_FIELD)
) -> IndexParams:
    """Returns the indexes of a collection.

    Args:
        backend: Whether there is a BM25 list.
        dense_index: ``FLAT`` is exact and right up to some 100,000 rows; ``HNSW`` is for more.
        fields: Vector fields that need one.
    """
    from pymilvus import MilvusClient

    params = MilvusClient.prepare_index_params()
    build = {"M": 32, "efConstruction": 200} if dense_index == "HNSW" else {}
    if VECTOR_FIELD in fields:
        params.add_index(VECTOR_FIELD, index_type=dense_index, metric_type=DENSE_METRIC, params=build)
    if SPARSE_FIELD in fields and backend.bm25:
        params.add_index(SPARSE_FIELD, index_type="SPARSE_INVERTED_INDEX", metric_type=SPARSE_METRIC)
    return params


def check_model(properties: Mapping[str, Any], identity: ModelIdentity, collection: str) -> None:
    """Refuses a collection whose vectors another model made: rankings over mixed vectors mean nothing.

    Args:
        properties: Properties of the collection.
        identity: The embedder's model.
        collection: Its name, for the error.

    Raises:
        ModelMismatch: Model, revision of the weights (where both sides know one) or dimension differ.
        SchemaMismatch: The collection does not say which model made it.
    """
    recorded = str(properties.get(MODEL_KEY, ""))
    if not recorded:
        raise SchemaMismatch(
            f"Collection {collection} does not record its embedding model: it was not written by this program",
            remedy="Rebuild it: kubeflow-corpus run <collection> --rebuild",
            collection=collection,
        )
    difference = model_difference(properties, identity)
    if difference:
        raise ModelMismatch(
            f"Collection {collection} was embedded with another model than yours: {difference}",
            remedy="Point EMBEDDINGS_URL at a service of the recorded model, or rebuild the collection with yours",
            collection=collection,
            recorded=recorded,
            given=identity.model,
        )


def model_difference(properties: Mapping[str, Any], identity: ModelIdentity) -> str:
    """Returns in words how the recorded model differs from a given one; empty where it does not.

    A revision and a way of pooling count only where both sides name one: not every service says what it serves.
    """
    pairs = (
        ("model", MODEL_KEY, identity.model),
        ("dimension", DIMENSION_KEY, str(identity.dimension)),
        ("weights", MODEL_REVISION_KEY, identity.revision),
        ("query prefix", QUERY_PREFIX_KEY, quoted(identity.query_prefix)),
        ("document prefix", DOCUMENT_PREFIX_KEY, quoted(identity.document_prefix)),
        ("pooling", POOLING_KEY, identity.pooling),
    )
    differences = []
    for what, key, given in pairs:
        recorded = str(properties.get(key, ""))
        if recorded != given and (key not in (MODEL_REVISION_KEY, POOLING_KEY) or (recorded and given)):
            differences.append(f"{what} {recorded or '(none)'} is recorded, {given or '(none)'} is given")
    return "; ".join(differences)


def quoted(prefix: str) -> str:
    """Returns a prefix as a property: its blanks count, and some backends cut those at the ends of a value."""
    return json.dumps(prefix, ensure_ascii=False) if prefix else ""


def text_literal(text: str) -> str:
    """Returns a text as a literal of Milvus's filter language.

    The client's own ``ids=`` does not escape, so a key with a quote can match other rows: filters are built with this
    function and `keys_filter` only. No stored key holds a control character, and one would break the filter: it is
    replaced, so that the literal matches nothing instead of another key.
    """
    return json.dumps(CONTROLS.sub("\ufffd", text), ensure_ascii=False)


def keys_filter(field: str, values: Iterable[str]) -> str:
    """Returns a filter that matches exactly the rows whose field is one of the values (at least one)."""
    return f"{field} in [{', '.join(map(text_literal, values))}]"


# What no field may hold: control characters but tab and newline, and halves of surrogate pairs.
CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def strip_controls(text: str) -> str:
    """Removes what no field may hold."""
    return CONTROLS.sub("", text)
