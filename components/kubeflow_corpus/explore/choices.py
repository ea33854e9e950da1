"""What a person chose in the page: the question, where to look, the settings of a search and the filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, cast
from urllib.parse import urlencode

from kubeflow_corpus.collections import COLLECTION_NAMES, FILTERS, CollectionName, CollectionSpec
from kubeflow_corpus.errors import InvalidArgument
from kubeflow_corpus.query.options import CollectionOptions
from kubeflow_corpus.query.tuning import (
    DEFAULT_LIMIT,
    DEFAULT_TOKEN_BUDGET,
    DEFAULT_TUNING,
    FUSIONS,
    MODES,
    PROGRAM_LIMITS,
    Fusion,
    Mode,
    Preferences,
    Tuning,
)

# A person looks at one page of hits for each collection.
MAX_SHOWN: Final = 25
# Before the names of the second settings, with which the first are compared.
OTHER: Final = "b_"
# Filters of the form, in its order; a collection takes those that it knows.
FORM_FILTERS: Final = (
    *("product_area", "version", "source", "repo", "doc_type", "state", "labels", "kind", "language"),
    *("updated_after", "updated_before"),
)
_NO_PREFERENCES: Final = Preferences(**dict.fromkeys(Preferences.__dataclass_fields__, 0.0))


@dataclass(frozen=True, slots=True)
class Choices:
    """Settings of a search; None and the defaults are what an agent gets.

    Attributes:
        mode: Instead of what the question asks for.
        fusion: Instead of the measured default.
        dense_weight: Share of the dense list in a weighted fusion, for every intent.
        preferences: Whether products, versions, headings and dates move units.
        limit: Hits.
        token_budget: Tokens of the evidence.
    """

    mode: Mode | None = None
    fusion: Fusion | None = None
    dense_weight: float | None = None
    preferences: bool = True
    limit: int = DEFAULT_LIMIT
    token_budget: int = DEFAULT_TOKEN_BUDGET

    @classmethod
    def read(cls, fields: Mapping[str, str], prefix: str = "") -> Self:
        """Reads the fields of a form.

        Raises:
            InvalidArgument: A value is none that exists.
        """
        given = {name: fields.get(prefix + name, "").strip() for name in cls.__dataclass_fields__}
        return cls(
            mode=cast("Mode | None", _one_of("mode", given["mode"], MODES)),
            fusion=cast("Fusion | None", _one_of("fusion", given["fusion"], FUSIONS)),
            dense_weight=_share(given["dense_weight"]) if given["dense_weight"] else None,
            preferences=_one_of("preferences", given["preferences"], ("on", "off")) != "off",
            limit=_number("limit", given["limit"], DEFAULT_LIMIT, 1, MAX_SHOWN),
            token_budget=_number(
                "token_budget",
                given["token_budget"],
                DEFAULT_TOKEN_BUDGET,
                PROGRAM_LIMITS.min_token_budget,
                PROGRAM_LIMITS.max_token_budget,
            ),
        )

    @property
    def tuning(self) -> Tuning:
        """The numbers of such a search."""
        tuning = DEFAULT_TUNING
        if not self.preferences:
            tuning = replace(tuning, preferences=_NO_PREFERENCES)
        if self.dense_weight is not None:
            weight = self.dense_weight
            policies = {name: replace(policy, dense_weight=weight) for name, policy in tuning.policies.items()}
            tuning = replace(tuning, policies=policies)
        return tuning

    def options(self) -> CollectionOptions:
        """Returns the options of such a search."""
        return {
            "mode": self.mode,
            "fusion": self.fusion,
            "limit": self.limit,
            "token_budget": self.token_budget,
        }

    def fields(self, prefix: str = "") -> dict[str, str]:
        """Returns the fields that differ from the defaults, as `read` takes them."""
        default = Choices()
        named = {name: getattr(self, name) for name in self.__dataclass_fields__}
        changed = {name: value for name, value in named.items() if value != getattr(default, name)}
        return {prefix + name: ("off" if value is False else str(value)) for name, value in changed.items()}


@dataclass(frozen=True, slots=True)
class Asking:
    """Everything that an address of the search page says.

    Attributes:
        question: What is asked; empty is an empty page.
        collections: Where.
        filters: By name; each collection takes those that it knows.
        choices: Settings.
        other: Settings to compare with; None compares nothing.
        expected: Addresses of what should be found, as question sets write them: such hits are marked.
    """

    question: str = ""
    collections: tuple[CollectionName, ...] = COLLECTION_NAMES
    filters: Mapping[str, str] = field(default_factory=dict)
    choices: Choices = field(default_factory=Choices)
    other: Choices | None = None
    expected: tuple[str, ...] = ()

    @classmethod
    def read(cls, fields: Mapping[str, str], names: list[str], expected: Sequence[str] = ()) -> Self:
        """Reads an address.

        Args:
            fields: Of the query part.
            names: Every value of its field ``in``.
            expected: Every value of its field ``expected``.

        Raises:
            InvalidArgument: A value is none that exists.
        """
        for name in names:
            _one_of("in", name, COLLECTION_NAMES)
        return cls(
            question=fields.get("q", "").strip(),
            collections=tuple(name for name in COLLECTION_NAMES if not names or name in names),
            filters={name: value for name in FORM_FILTERS if (value := fields.get(name, "").strip())},
            choices=Choices.read(fields),
            other=Choices.read(fields, OTHER) if fields.get("compare") else None,
            expected=tuple(filter(None, expected)),
        )

    def address(self, path: str = "/") -> str:
        """Returns the address that asks the same again: what somebody may keep or pass to another person."""
        fields: list[tuple[str, str]] = [("q", self.question)]
        if self.collections != COLLECTION_NAMES:
            fields += [("in", name) for name in self.collections]
        fields += [*self.filters.items(), *self.choices.fields().items()]
        fields += [("expected", address) for address in self.expected]
        if self.other is not None:
            fields += [("compare", "1"), *self.other.fields(OTHER).items()]
        return f"{path}?{urlencode(fields, errors='replace')}"

    def filters_of(self, spec: CollectionSpec) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Returns the filters that a collection knows, and the names of those that it does not."""
        known = {rule.name for rule in spec.filters}
        mine = {name: _values(name, text) for name, text in self.filters.items() if name in known}
        return mine, tuple(name for name in self.filters if name not in known)


def _values(name: str, text: str) -> Any:
    if FILTERS[name].operator in ("after", "before"):
        return text
    return [value.strip() for value in text.split(",") if value.strip()]


def _one_of(name: str, text: str, known: tuple[str, ...]) -> str | None:
    if text and text not in known:
        raise InvalidArgument(f"{name} is {text[:80]!r}", remedy=f"Known values: {', '.join(known)}", argument=name)
    return text or None


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise InvalidArgument(
            f"dense_weight is {text[:80]!r}", remedy="Use a number from 0 to 1", argument="dense_weight"
        )
    return share


def _number(name: str, text: str, default: int, least: int, most: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and least <= int(text[:9]) <= most):
        raise InvalidArgument(f"{name} is {text[:80]!r}", remedy=f"Use {least} to {most}", argument=name)
    return int(text)
