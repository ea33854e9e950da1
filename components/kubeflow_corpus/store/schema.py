"""The three collections: their fields, limits, indexes and analyzers, and what their properties record.

Imports only the standard library and root modules (and pymilvus inside functions), so that a reader pays for nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from kubeflow_corpus.errors import InvalidArgument, ModelMismatch, SchemaMismatch
from kubeflow_corpus.milvus import Backend

if TYPE_CHECKING:
    from pymilvus import CollectionSchema
    from pymilvus.milvus_client.index import IndexParams

    from kubeflow_corpus.model import ModelIdentity

# The reserved source of rows written by people through the MCP tool: no sync touches them, a rebuild copies them.
MANUAL_SOURCE: Final = "manual"
# Visibility of rows that were deleted softly: every reader leaves them out, whatever groups it may see. No group has a
# tilde in its name.
HIDDEN: Final = "~deleted"

KEY_FIELD: Final = "id"
VECTOR_FIELD: Final = "vector"
SPARSE_FIELD: Final = "sparse_vector"
SEARCH_TEXT_FIELD: Final = "search_text"
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
SETTLED_PREFIX: Final = "settled:"

FieldKind = Literal["text", "integer", "boolean", "array"]


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One stored scalar field.

    Attributes:
        name: Its name.
        kind: What it holds; an array holds texts.
        max_bytes: UTF-8 bytes that a text (or one item of an array) may have.
        max_items: Items that an array may have.
        strict: Whether a text that is too long or holds control characters makes the row invalid. Where it is not,
            the text is only shown or searched: it is cut and cleaned.
    """

    name: str
    kind: FieldKind = "text"
    max_bytes: int = 0
    max_items: int = 0
    strict: bool = True


def _key(name: str, max_bytes: int) -> FieldSpec:
    return FieldSpec(name, max_bytes=max_bytes)


def _text(name: str, max_bytes: int) -> FieldSpec:
    return FieldSpec(name, max_bytes=max_bytes, strict=False)


def _array(name: str, max_items: int, max_bytes: int = 256) -> FieldSpec:
    return FieldSpec(name, "array", max_bytes=max_bytes, max_items=max_items)


COMMON_FIELDS: Final = (
    _key("id", 256),
    _key("document_id", 1024),
    _key("unit_id", 1024),
    _key("view", 1024),
    FieldSpec("chunk_index", "integer"),
    FieldSpec("start_line", "integer"),
    FieldSpec("end_line", "integer"),
    _text("title", 2048),
    _text("section_path", 2048),
    _text("content_text", 65_535),
    _text(SEARCH_TEXT_FIELD, 65_535),
    _key("citation_url", 1024),
    _key("file_path", 1024),
    _key("repo", 256),
    _key("source", 256),
    _key("source_type", 64),
    _array("product_area", 64),
    _array("version", 256),
    _key("revision", 256),
    _key("embedding_hash", 64),
    _key("row_hash", 64),
    _key("visibility", 64),
    _key("updated_at", 64),
)


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """One of the three collections.

    Attributes:
        alias: The name that readers use (before `COLLECTION_PREFIX`).
        source_types: `source_type` of the rows that it holds.
        own_fields: Fields beside the common ones; a chunk carries them in `Chunk.fields`.
        prose: Whether its text is English prose: stop words, and stemming where the backend can, help there only.
    """

    alias: str
    source_types: tuple[str, ...]
    own_fields: tuple[FieldSpec, ...]
    prose: bool

    @property
    def fields(self) -> tuple[FieldSpec, ...]:
        """Every stored scalar field, the key first."""
        return (*COMMON_FIELDS, *self.own_fields)

    @property
    def output_fields(self) -> tuple[str, ...]:
        """Names of the fields that a reader needs of a hit (not the BM25 text, not the hashes)."""
        hidden = {SEARCH_TEXT_FIELD, "embedding_hash", "row_hash"}
        return tuple(field.name for field in self.fields if field.name not in hidden)


DOCS: Final = CollectionSpec(
    alias="kubeflow_docs",
    source_types=("docs",),
    own_fields=(_key("doc_type", 64), _key("release_date", 64)),
    prose=True,
)
ISSUES: Final = CollectionSpec(
    alias="issues_rag",
    source_types=("issue",),
    own_fields=(
        FieldSpec("issue_number", "integer"),
        _key("state", 64),
        _key("state_reason", 64),
        _array("labels", 256),
        _key("created_at", 64),
        _key("closed_at", 64),
        FieldSpec("resolved", "boolean"),
    ),
    prose=True,
)
CODE: Final = CollectionSpec(
    alias="code_rag",
    source_types=("code", "manifest"),
    own_fields=(
        _key("language", 64),
        _key("symbol", 1024),
        _key("kind", 256),
        _key("api_version", 256),
        _key("resource_name", 1024),
    ),
    prose=False,
)
COLLECTIONS: Final = {spec.alias: spec for spec in (DOCS, ISSUES, CODE)}


def collection_spec(alias: str) -> CollectionSpec:
    """Returns a collection by its alias.

    Raises:
        InvalidArgument: There is no such alias.
    """
    if alias not in COLLECTIONS:
        known = ", ".join(COLLECTIONS)
        raise InvalidArgument(
            f"There is no collection {alias!r}",
            remedy=f"Use one of {known}",
            argument="collection",
            known=[*COLLECTIONS],
        )
    return COLLECTIONS[alias]


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
            remedy="Rebuild it: python -m pipelines run <collection> --rebuild",
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

    A revision counts only where both sides name one: not every service says which weights it serves.
    """
    pairs = (
        ("model", MODEL_KEY, identity.model),
        ("dimension", DIMENSION_KEY, str(identity.dimension)),
        ("weights", MODEL_REVISION_KEY, identity.revision),
    )
    differences = []
    for what, key, given in pairs:
        recorded = str(properties.get(key, ""))
        if recorded != given and (key != MODEL_REVISION_KEY or (recorded and given)):
            differences.append(f"{what} {recorded or '(none)'} is recorded, {given or '(none)'} is given")
    return "; ".join(differences)


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
