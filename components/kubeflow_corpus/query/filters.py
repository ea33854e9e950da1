"""Filters: a closed list of names, typed values, and an expression that no value can change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from kubeflow_corpus.collections import COLLECTIONS, FILTERS, CollectionSpec, FilterSpec
from kubeflow_corpus.errors import InvalidArgument
from kubeflow_corpus.store.schema import HIDDEN, PUBLIC, keys_filter, strip_controls, text_literal
from kubeflow_corpus.terms import version_precisions
from kubeflow_corpus.vocabulary import Vocabulary

FilterValue = str | bool | tuple[str, ...]

# Values of one filter; an expression with more is a mistake of the caller.
MAX_VALUES: Final = 100
# No text that can be asked for is longer.
MAX_VALUE_BYTES: Final = max(
    field.max_bytes for spec in COLLECTIONS for field in spec.fields if field.kind == "text" and field.strict
)


def filters_of(spec: CollectionSpec) -> tuple[str, ...]:
    """Returns the names of the filters that a collection knows."""
    return tuple(rule.name for rule in spec.filters)


def validated(spec: CollectionSpec, given: Mapping[str, Any]) -> dict[str, FilterValue]:
    """Checks what a caller filters by.

    Args:
        spec: The collection.
        given: Values by filter name; None and empty values do not filter.

    Returns:
        Clean values by filter name. Whether products exist says the collection: see `check_areas`.

    Raises:
        InvalidArgument: A name or a value is wrong; the error names the known ones.
    """
    return {
        name: _value(name, FILTERS[_known_name(spec, name)], value)
        for name, value in given.items()
        if value is not None and value != "" and value != () and value != []
    }


def check_areas(filters: Mapping[str, FilterValue], vocabulary: Vocabulary) -> None:
    """Refuses products that the words of a collection do not list.

    Args:
        filters: What `validated` returned.
        vocabulary: Of the collection.

    Raises:
        InvalidArgument: The error names the known ones.
    """
    areas = filters.get("product_area", ())
    for area in areas if isinstance(areas, tuple) else ():
        if area not in vocabulary.areas:
            raise _unknown("product_area", area, vocabulary.areas)


def groups_of(visibility: Iterable[str] | None) -> tuple[str, ...] | None:
    """Returns the groups of a caller in one spelling, so that equal rights are equal keys; None sees every row.

    Raises:
        TypeError: It is one text, whose letters would each be taken for a group, or a group is not a text.
    """
    if visibility is None:
        return None
    if isinstance(visibility, (str, bytes)):
        raise TypeError(f"visibility is one text, {_shown(visibility)}. Give a list of groups: [{_shown(visibility)}]")
    groups = tuple(visibility)
    for group in groups:
        if not isinstance(group, str):
            raise TypeError(f"A group of visibility is {_shown(group)}. Give the names of the groups as texts")
    return tuple(sorted({*groups} - {PUBLIC, HIDDEN}))


def visible(groups: Iterable[str] | None) -> str:
    """Returns the Milvus expression of the rows that a caller may know of: the one place that says what is public.

    Everything that is read for a caller goes through it: hits, units, known values, counts.

    Args:
        groups: Groups whose rows may be seen beside the public ones; empty is the public rows alone, and None is every
            row but those that were deleted softly.
    """
    named = groups_of(groups)
    if named is None:
        return f"visibility != {text_literal(HIDDEN)}"
    return keys_filter("visibility", [PUBLIC, *named])


def expression(filters: Mapping[str, FilterValue], visibility: Iterable[str] | None = None) -> str:
    """Returns the Milvus expression of validated filters; empty where nothing is filtered.

    Args:
        filters: What `validated` returned.
        visibility: Groups whose rows may be seen beside the public ones; None sees every row.
    """
    terms = [_term(FILTERS[name], value) for name, value in filters.items()]
    if visibility is not None:
        terms.append(visible(visibility))
    return " and ".join(terms)


def _known_name(spec: CollectionSpec, name: str) -> str:
    known = filters_of(spec)
    if name not in known:
        raise InvalidArgument(
            f"{spec.alias} has no filter {name!r}",
            remedy=f"Known filters: {', '.join(known)}",
            argument=name,
            known=list(known),
        )
    return name


def _value(name: str, rule: FilterSpec, value: Any) -> FilterValue:
    if rule.operator == "flag":
        if not isinstance(value, bool):
            raise InvalidArgument(f"{name} is true or false, not {_shown(value)}", argument=name)
        return value
    if rule.operator in ("after", "before"):
        return _date(name, value)
    items = (value,) if isinstance(value, str) else value
    if not isinstance(items, (list, tuple, set, frozenset)) or not all(isinstance(item, str) for item in items):
        raise InvalidArgument(f"{name} is a text or a list of texts, not {_shown(value)}", argument=name)
    if len(items) > MAX_VALUES:
        raise InvalidArgument(f"{name} has {len(items)} values", remedy=f"Give at most {MAX_VALUES}", argument=name)
    return tuple(_normal(name, rule, item) for item in items)


def _normal(name: str, rule: FilterSpec, item: str) -> str:
    item = strip_controls(item).strip()
    if not item or len(item.encode("utf-8", "replace")) > MAX_VALUE_BYTES:
        problem = "is empty" if not item else f"is longer than {MAX_VALUE_BYTES} bytes"
        raise InvalidArgument(f"A value of {name} {problem}", argument=name)
    if rule.field == "version":
        return (version_precisions(item) or (item,))[0]
    if rule.field == "product_area":
        return re.sub(r"[\s_]+", "-", item.lower())
    if not rule.known:
        return item
    folded = re.sub(r"[\s_]+", "_", item.lower())
    if folded not in rule.known:
        raise _unknown(name, item, rule.known)
    return folded


def _unknown(name: str, item: str, known: Sequence[str]) -> InvalidArgument:
    return InvalidArgument(
        f"There is no {name} {_shown(item)}",
        remedy=f"Known values: {', '.join(known) or 'none'}",
        argument=name,
        known=list(known),
    )


def _date(name: str, value: Any) -> str:
    """Returns a date as the collections hold it, so that texts compare as dates do."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if not isinstance(moment, datetime):
            return datetime(moment.year, moment.month, moment.day).strftime("%Y-%m-%d")
        if isinstance(value, str) and len(value) <= 10:
            return moment.strftime("%Y-%m-%d")
        aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        return aware.strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, AttributeError, OverflowError) as error:
        raise InvalidArgument(
            f"{name} is not a date: {_shown(value)}",
            remedy="Write it as 2025-03-31 or 2025-03-31T12:00:00Z",
            argument=name,
        ) from error


def _term(rule: FilterSpec, value: FilterValue) -> str:
    if isinstance(value, bool):
        return f"{rule.field} == {str(value).lower()}"
    if isinstance(value, str):
        # `~` sorts after every character of a date: a day counts to its end.
        return f"{rule.field} >= {text_literal(value)}" if rule.operator == "after" else _until(rule.field, value)
    if rule.operator == "in":
        return keys_filter(rule.field, list(value))
    word = " and " if rule.operator == "array_all" else " or "
    terms = [f"ARRAY_CONTAINS({rule.field}, {text_literal(item)})" for item in value]
    return f"({word.join(terms)})" if len(terms) > 1 else terms[0]


def _until(field: str, value: str) -> str:
    return f'({field} <= {text_literal(value + "~")} and {field} != "")'


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
