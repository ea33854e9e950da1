"""The three collections: what each is called, what it is made of, the fields of its rows and the filters over them.

One table for every stage: chunkers cut to the byte limits, the store makes Milvus schemas of the fields, searches
check the filters, commands and pipelines take the names. A field or a filter is declared here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from kubeflow_corpus.errors import InvalidArgument
from kubeflow_corpus.records import SourceType

CollectionName = Literal["docs", "issues", "code"]
FieldKind = Literal["text", "integer", "boolean", "array"]
Operator = Literal["in", "array_any", "array_all", "after", "before", "flag"]

# Raise it when a field, an index or an analyzer changes: every collection is then rebuilt beside the live version.
SCHEMA_VERSION: Final = "1"
# The reserved source of rows written by people through the MCP tool: no sync touches them, a rebuild copies them.
MANUAL_SOURCE: Final = "manual"

KEY_FIELD: Final = "id"
SEARCH_TEXT_FIELD: Final = "search_text"


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
        cited: Whether a citation shows it where it is not empty. A common field that is cited is also in
            `Hit.fields`, where the own fields of a collection always stand.
    """

    name: str
    kind: FieldKind = "text"
    max_bytes: int = 0
    max_items: int = 0
    strict: bool = True
    cited: bool = False


@dataclass(frozen=True, slots=True)
class FilterSpec:
    """One filter.

    Attributes:
        name: Its name as an argument of a search.
        field: The stored field.
        operator: ``in``: one of the values. ``array_any``/``array_all``: the array holds one or all of them.
            ``after``/``before``: a date, inclusive. ``flag``: true or false.
        known: The only values that exist, where that is certain.
    """

    name: str
    field: str
    operator: Operator
    known: tuple[str, ...] = ()


def _key(name: str, max_bytes: int, *, cited: bool = False) -> FieldSpec:
    return FieldSpec(name, max_bytes=max_bytes, cited=cited)


def _text(name: str, max_bytes: int) -> FieldSpec:
    return FieldSpec(name, max_bytes=max_bytes, strict=False)


def _array(name: str, max_items: int, max_bytes: int = 256) -> FieldSpec:
    return FieldSpec(name, "array", max_bytes=max_bytes, max_items=max_items)


def _one_of(name: str, *known: str) -> FilterSpec:
    return FilterSpec(name, name, "in", known)


def _between(stem: str, field: str) -> tuple[FilterSpec, FilterSpec]:
    return FilterSpec(f"{stem}_after", field, "after"), FilterSpec(f"{stem}_before", field, "before")


# Every field but the key is an attribute of `records.Chunk`.
COMMON_FIELDS: Final = (
    _key(KEY_FIELD, 256),
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
COMMON_FILTERS: Final = (
    FilterSpec("product_area", "product_area", "array_any"),
    FilterSpec("version", "version", "array_any"),
    _one_of("source"),
    _one_of("source_type", *get_args(SourceType)),
    _one_of("repo"),
    _one_of("file_path"),
    *_between("updated", "updated_at"),
)
# What no reader needs of a hit.
_INTERNAL_FIELDS: Final = frozenset({SEARCH_TEXT_FIELD, "embedding_hash", "row_hash"})


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """One of the three collections.

    Attributes:
        name: What commands, pipelines and the arguments of tools call it.
        alias: The name that readers of Milvus use (before `COLLECTION_PREFIX`).
        tool: The MCP tool that searches it.
        label: What people call its content, in the middle of a sentence.
        source_types: `source_type` of the rows that it holds.
        own_fields: Fields beside the common ones; a chunk carries them in `Chunk.fields`.
        own_filters: Filters beside the common ones.
        facets: Fields whose values are counted for the caller of a search.
        prose: Whether its text is English prose: stop words, and stemming where the backend can, help there only.
    """

    name: CollectionName
    alias: str
    tool: str
    label: str
    source_types: tuple[SourceType, ...]
    own_fields: tuple[FieldSpec, ...]
    own_filters: tuple[FilterSpec, ...]
    facets: tuple[str, ...]
    prose: bool

    @property
    def fields(self) -> tuple[FieldSpec, ...]:
        """Every stored scalar field, the key first."""
        return (*COMMON_FIELDS, *self.own_fields)

    @property
    def filters(self) -> tuple[FilterSpec, ...]:
        """Every filter that a search of it knows."""
        return (*COMMON_FILTERS, *self.own_filters)

    @property
    def output_fields(self) -> tuple[str, ...]:
        """Names of the fields that a reader needs of a hit (not the BM25 text, not the hashes)."""
        return tuple(field.name for field in self.fields if field.name not in _INTERNAL_FIELDS)

    @property
    def detail_fields(self) -> tuple[str, ...]:
        """Names of the fields that are in `Hit.fields`."""
        cited = (field for field in COMMON_FIELDS if field.cited)
        return tuple(field.name for field in (*cited, *self.own_fields))

    @property
    def catalogue_type(self) -> SourceType:
        """``type`` of the catalogue entries that it is made from."""
        return self.source_types[0]

    def limit(self, name: str) -> int:
        """Returns the most UTF-8 bytes that a text field (or one item of an array) may have.

        Raises:
            KeyError: There is no such field.
        """
        return _limit(self.fields, name)


def common_limit(name: str) -> int:
    """Returns the most UTF-8 bytes that a common text field (or one item of an array) may have.

    Raises:
        KeyError: There is no such field.
    """
    return _limit(COMMON_FIELDS, name)


def _limit(fields: tuple[FieldSpec, ...], name: str) -> int:
    return {field.name: field.max_bytes for field in fields}[name]


DOCS: Final = CollectionSpec(
    name="docs",
    alias="kubeflow_docs",
    tool="search_kubeflow_docs",
    label="documentation",
    source_types=("docs",),
    own_fields=(_key("doc_type", 64), _key("release_date", 64, cited=True)),
    own_filters=(_one_of("doc_type", "docs", "release_notes"), *_between("released", "release_date")),
    facets=("product_area", "version", "doc_type", "source"),
    prose=True,
)
ISSUES: Final = CollectionSpec(
    name="issues",
    alias="issues_rag",
    tool="search_github_issues",
    label="issue threads",
    source_types=("issue",),
    own_fields=(
        FieldSpec("issue_number", "integer", cited=True),
        _key("state", 64, cited=True),
        _key("state_reason", 64, cited=True),
        _array("labels", 256),
        _key("created_at", 64),
        _key("closed_at", 64),
        FieldSpec("resolved", "boolean"),
    ),
    own_filters=(
        _one_of("state", "open", "closed"),
        _one_of("state_reason"),
        FilterSpec("labels", "labels", "array_all"),
        FilterSpec("resolved", "resolved", "flag"),
        *_between("created", "created_at"),
        *_between("closed", "closed_at"),
    ),
    facets=("product_area", "version", "state", "repo"),
    prose=True,
)
CODE: Final = CollectionSpec(
    name="code",
    alias="code_rag",
    tool="search_kubeflow_code",
    label="code and manifests",
    source_types=("code", "manifest"),
    own_fields=(
        _key("language", 64),
        _key("symbol", 1024, cited=True),
        _key("kind", 256, cited=True),
        _key("api_version", 256, cited=True),
        _key("resource_name", 1024, cited=True),
    ),
    own_filters=tuple(map(_one_of, ("kind", "language", "symbol", "api_version", "resource_name"))),
    facets=("product_area", "version", "kind", "language", "repo"),
    prose=False,
)
COLLECTIONS: Final = (DOCS, ISSUES, CODE)
COLLECTION_NAMES: Final[tuple[CollectionName, ...]] = get_args(CollectionName)

# By name; one name means the same in every collection that knows it.
FILTERS: Final = {rule.name: rule for spec in COLLECTIONS for rule in spec.filters}
CITED_FIELDS: Final = tuple(
    {field.name: field for spec in COLLECTIONS for field in spec.fields if field.cited}.values()
)
_BY_ANY_NAME: Final = {name: spec for spec in COLLECTIONS for name in (spec.name, spec.alias, spec.tool)}


def find_collection(text: str) -> CollectionSpec:
    """Returns a collection by any of its names: ``docs``, ``kubeflow_docs`` or ``search_kubeflow_docs``.

    Args:
        text: A name as a person or a caller writes it.

    Raises:
        InvalidArgument: No collection has this name; the error lists the names that exist.
    """
    spec = _BY_ANY_NAME.get(text)
    if spec is None:
        raise InvalidArgument(
            f"There is no collection {text[:200]!r}",
            remedy="Use one of " + ", ".join(f"{spec.name} ({spec.alias}, {spec.tool})" for spec in COLLECTIONS),
            argument="collection",
            known=[*_BY_ANY_NAME],
        )
    return spec
