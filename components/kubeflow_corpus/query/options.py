"""What a caller may say beside the question: options of a search and filters by collection, typed and written once.

The clients take them as keywords (``**options: Unpack[DocsOptions]``), so an editor completes them and a type checker
knows them. At run time they become a `SearchRequest`: a name that is neither an option nor a filter is a `TypeError`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, TypedDict

from kubeflow_corpus.collections import FILTERS, CollectionSpec
from kubeflow_corpus.errors import InvalidArgument
from kubeflow_corpus.query.filters import FilterValue, validated
from kubeflow_corpus.query.tuning import (
    DEFAULT_LIMIT,
    DEFAULT_TIMEOUT_SECONDS,
    DEFAULT_TOKEN_BUDGET,
    FUSIONS,
    MAX_TIMEOUT_SECONDS,
    MODES,
    PROGRAM_LIMITS,
    Fusion,
    Mode,
    Tuning,
)
from kubeflow_corpus.store.schema import strip_controls

if TYPE_CHECKING:
    from kubeflow_corpus.embedding.embedder import Embedder
    from kubeflow_corpus.query.reader import Reader

# Of a filter: one value or several, any of which may match; of `labels` all must. None does not filter.
Values = str | Sequence[str] | AbstractSet[str] | None
# A day or a moment, as text (``2025-03-31``, ``2025-03-31T12:00:00Z``) or object; both ends are inclusive.
When = str | date | None


class ClientOptions(TypedDict, total=False):
    """Arguments of the clients other than `settings`; see `CorpusClient`."""

    milvus_uri: str
    embeddings: str | Embedder
    collections: Mapping[str, str] | None
    tuning: Tuning
    visibility: Sequence[str] | None
    timeout: float
    max_concurrent: int
    reader: Reader | None


class SearchOptions(TypedDict, total=False):
    """How a search is done.

    Attributes:
        limit: Most hits, 1 to 100; 5 by default.
        mode: ``hybrid``, ``dense`` or ``bm25``; None lets the question decide.
        fusion: ``weighted`` or ``rrf``; None is the measured default.
        token_budget: Tokens of the evidence; 3,000 by default.
        exclude: Ids of units that were shown already.
        infer_filters: Makes filters of the product and version that the question names; by default they are
            preferences.
        rerank: Whether the second stage runs where ``RERANK_URL`` names one; true by default.
        min_score: Least score of a hit, between 0 and 1.
        timeout: Seconds; None is the client's.
        request_id: For trace and logs; made up where it is empty.
    """

    limit: int
    mode: Mode | None
    fusion: Fusion | None
    token_budget: int
    exclude: Iterable[str]
    infer_filters: bool
    rerank: bool
    min_score: float
    timeout: float | None
    request_id: str


class CommonOptions(SearchOptions, total=False):
    """Options of a search, and the filters that every collection knows.

    Attributes:
        source: Only these catalogue entries.
        source_type: ``docs``, ``issue``, ``code`` or ``manifest``.
        repo: Only these repositories (``owner/name``).
        file_path: Only these paths.
        updated_after: Changed at its source on or after this date.
        updated_before: Changed at its source on or before this date.
    """

    source: Values
    source_type: Values
    repo: Values
    file_path: Values
    updated_after: When
    updated_before: When


class DocsOptions(CommonOptions, total=False):
    """Keywords of `CorpusClient.search_docs` beside its own.

    Attributes:
        doc_type: ``docs`` or ``release_notes``.
        released_after: Of a release on or after this date.
        released_before: Of a release on or before this date.
    """

    doc_type: Values
    released_after: When
    released_before: When


class _IssueFilters(TypedDict, total=False):
    state_reason: Values
    labels: Values
    resolved: bool | None
    created_after: When
    created_before: When
    closed_after: When
    closed_before: When


class IssuesOptions(CommonOptions, _IssueFilters, total=False):
    """Keywords of `CorpusClient.search_issues` beside its own.

    Attributes:
        version: Only these versions.
        state_reason: Such as ``completed`` or ``not_planned``.
        labels: Only threads with all of these labels.
        resolved: Only threads with (or without) a resolution.
        created_after: Opened on or after this date.
        created_before: Opened on or before this date.
        closed_after: Closed on or after this date.
        closed_before: Closed on or before this date.
    """

    version: Values


class _CodeFilters(TypedDict, total=False):
    language: Values
    symbol: Values
    api_version: Values
    resource_name: Values


class CodeOptions(CommonOptions, _CodeFilters, total=False):
    """Keywords of `CorpusClient.search_code` beside its own.

    Attributes:
        version: Only these versions.
        language: Only these languages.
        symbol: Only these names of functions, types and constants.
        api_version: Only objects of these API versions.
        resource_name: Only objects of these names.
    """

    version: Values


class CollectionOptions(DocsOptions, _IssueFilters, _CodeFilters, total=False):
    """Keywords of `CorpusClient.search`: options, and the filters of the collection that is named.

    Attributes:
        product_area: Only these products.
        version: Only these versions.
        state: Of threads: ``open`` or ``closed``.
        kind: Of code: only these kinds of object or symbol.
    """

    product_area: Values
    version: Values
    state: Values
    kind: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A validated question with everything that shapes its answer; its other attributes are those of `SearchOptions`.

    Attributes:
        spec: The collection.
        query: The question.
        filters: Validated filters.
        visibility: Groups whose rows may be seen; None sees all.
        request_id: For trace and logs.
        timeout: Seconds for the search.
    """

    spec: CollectionSpec
    query: str
    filters: Mapping[str, FilterValue]
    visibility: tuple[str, ...] | None
    request_id: str
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    exclude: frozenset[str] = frozenset()
    limit: int = DEFAULT_LIMIT
    mode: Mode | None = None
    fusion: Fusion | None = None
    token_budget: int = DEFAULT_TOKEN_BUDGET
    infer_filters: bool = False
    rerank: bool = True
    min_score: float = 0.0

    def __post_init__(self) -> None:
        asked = isinstance(self.query, str) and bool(strip_controls(self.query).strip())
        _check(asked, "query", "The question is empty", "Ask something")
        most = PROGRAM_LIMITS.max_limit
        _check(_is_whole(self.limit, 1, most), "limit", f"limit is {self.limit!r}", f"Use 1 to {most}")
        for name, value, known in (("mode", self.mode, MODES), ("fusion", self.fusion, FUSIONS)):
            _check(value in (None, *known), name, f"There is no {name} {value!r}", f"Use one of {', '.join(known)}")
        least, most = PROGRAM_LIMITS.min_token_budget, PROGRAM_LIMITS.max_token_budget
        fits = _is_whole(self.token_budget, least, most)
        _check(fits, "token_budget", f"token_budget is {self.token_budget!r}", f"Use {least} to {most}")
        number = isinstance(self.timeout, (int, float)) and not isinstance(self.timeout, bool)
        timely = number and 0 < self.timeout <= MAX_TIMEOUT_SECONDS
        remedy = f"Use seconds, up to {MAX_TIMEOUT_SECONDS:g}"
        _check(timely, "timeout", f"timeout is {self.timeout!r}", remedy)

    @classmethod
    def of(
        cls,
        spec: CollectionSpec,
        query: str,
        options: Mapping[str, Any],
        *,
        visibility: tuple[str, ...] | None,
        timeout: float,
    ) -> SearchRequest:
        """Makes the request of a call.

        Args:
            spec: The collection.
            query: The question.
            options: Keywords of the call, of `CollectionOptions`.
            visibility: Of the client.
            timeout: Of the client, for a call that names none.

        Raises:
            InvalidArgument: A value is wrong, or the collection does not know a filter.
            TypeError: A keyword is neither an option nor a filter.
        """
        own = {name: value for name, value in options.items() if name not in FILTERS}
        exclude, seconds = own.pop("exclude", ()), own.pop("timeout", None)
        return cls(
            spec=spec,
            query=query,
            filters=validated(spec, {name: value for name, value in options.items() if name in FILTERS}),
            visibility=visibility,
            request_id=own.pop("request_id", "") or uuid.uuid4().hex,
            timeout=timeout if seconds is None else seconds,
            exclude=frozenset([exclude] if isinstance(exclude, str) else exclude),
            **own,
        )


def _is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _check(right: bool, argument: str, problem: str, remedy: str) -> None:
    if not right:
        raise InvalidArgument(problem, remedy=remedy, argument=argument)
