"""From two lists of rows to an order of units: fusion, preferences, dates, duplicates. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final

from kubeflow_corpus.query.fusion import Row, rrf, weighted
from kubeflow_corpus.query.intent import Question, precisions
from kubeflow_corpus.query.tuning import MAX_LIMIT, Fusion, Policy, Preferences
from kubeflow_corpus.store.schema import CODE, DOCS, ISSUES, CollectionSpec
from kubeflow_corpus.symptoms import THREAD_STANDING, thread_standing
from kubeflow_corpus.terms import version_precisions

# Which fields are counted for the caller, by collection.
FACETS: Final = {
    DOCS.alias: ("product_area", "version", "doc_type", "source"),
    ISSUES.alias: ("product_area", "version", "state", "repo"),
    CODE.alias: ("product_area", "version", "kind", "language", "repo"),
}
MAX_FACET_VALUES: Final = 20
# Fields that ranking reads of every row of a pool; the text is fetched of the best units only.
LIGHT_FIELDS: Final = (
    "unit_id",
    "document_id",
    "view",
    "repo",
    "file_path",
    "source",
    "source_type",
    "product_area",
    "version",
)
OWN_LIGHT_FIELDS: Final = {
    DOCS.alias: ("doc_type", "release_date"),
    ISSUES.alias: ("state", "state_reason", "resolved", "created_at"),
    CODE.alias: ("kind", "language", "symbol", "resource_name"),
}
_OLDEST: Final = re.compile(r"\b(?:first|oldest|earliest)\b", re.IGNORECASE)
_LEGACY_PATH: Final = re.compile(r"(?:^|[/_-])(?:legacy|deprecated)(?:[/_.-]|$)", re.IGNORECASE)
_SHINGLE: Final = 3
_SHINGLE_WORDS: Final = 400


def light_fields(spec: CollectionSpec) -> tuple[str, ...]:
    """Returns the fields that a ranking needs of each row."""
    return LIGHT_FIELDS + OWN_LIGHT_FIELDS[spec.alias]


@dataclass(slots=True)
class Ranked:
    """The ranking of one question (or of one side of a comparison).

    Attributes:
        scores: By unit, best first: fused, plus preferences.
        fused: By unit, before preferences.
        rows: The best row of each unit.
        bonuses: What was added to a unit, and why.
    """

    scores: dict[str, float]
    fused: dict[str, float]
    rows: dict[str, Row]
    bonuses: dict[str, dict[str, float]] = field(default_factory=dict)


def rank(
    lists: Mapping[str, Sequence[Row]],
    question: Question,
    spec: CollectionSpec,
    policy: Policy,
    fusion: Fusion,
    preferences: Preferences,
    wanted: int = MAX_LIMIT,
) -> Ranked:
    """Fuses lists and adds preferences.

    Args:
        lists: Rows by list name, best first.
        question: What the preferences are read from.
        spec: The collection.
        policy: Weights of the lists.
        fusion: How they become one.
        preferences: The bonuses.
        wanted: Units whose order matters; what cannot come among them is not looked at closely.
    """
    weights = {"dense": policy.dense_weight, "bm25": 1 - policy.dense_weight}
    fused = weighted(lists, weights) if fusion == "weighted" else rrf(lists, weights, policy.rrf_k)
    rows: dict[str, Row] = {}
    for found in lists.values():
        for row in found:
            rows.setdefault(row.unit_id, row)
    named = Named(question, spec)
    floor = _floor(fused, wanted, named.most(preferences))
    bonuses = {
        unit: bonus
        for unit, score in fused.items()
        if score >= floor and (bonus := named.bonuses(rows[unit].fields, preferences))
    }
    scores = dict(fused)
    for unit, bonus in bonuses.items():
        scores[unit] += sum(bonus.values())
    ordered = dict(sorted(scores.items(), key=lambda item: (-item[1], item[0]))) if bonuses else scores
    if question.intent == "temporal" and spec is DOCS:
        ordered = by_release_date(ordered, rows, question)
    return Ranked(ordered, fused, rows, bonuses)


def _floor(fused: Mapping[str, float], wanted: int, most: float) -> float:
    """Returns the score below which no preference brings a unit among the wanted ones, with room for demoted ones."""
    depth = 2 * wanted + 40
    return next(islice(fused.values(), depth, None), 0.0) - most


class Named:
    """What a question names, compared with what a row says of itself."""

    def __init__(self, question: Question, spec: CollectionSpec) -> None:
        self._question = question
        self._spec = spec
        self._areas = frozenset(question.areas)
        majors = frozenset(version for version in question.versions if re.fullmatch(r"v\d+", version))
        self._majors = majors
        self._versions = precisions(tuple(version for version in question.versions if version not in majors))
        self._dated = question.intent in ("release_date", "temporal")
        self._names = frozenset(name.lower().strip("()").rpartition(".")[2] for name in question.identifiers)

    def most(self, preferences: Preferences) -> float:
        """Returns the most that can be added to the score of any unit."""
        possible = (
            (preferences.area, bool(self._areas)),
            (self._version_bonus(preferences), bool(self._versions or self._majors)),
            (preferences.release, self._dated),
            (preferences.resolved, self._spec is ISSUES),
            (preferences.kind, bool(self._names) and self._spec is CODE),
        )
        return sum(bonus for bonus, given in possible if given)

    def bonuses(self, fields: Mapping[str, Any], preferences: Preferences) -> dict[str, float]:
        """Returns what is added to the score of a row's unit, by reason."""
        given: dict[str, float] = {}
        if self._areas and not self._areas.isdisjoint(fields.get("product_area") or ()):
            given["area"] = preferences.area
        if self._versions or self._majors:
            self._version(frozenset(fields.get("version") or ()), given, preferences)
        if self._spec is DOCS:
            self._docs(fields, given, preferences)
        elif self._spec is ISSUES:
            given["resolved"] = preferences.resolved * _standing(
                bool(fields.get("resolved")), str(fields.get("state") or ""), str(fields.get("state_reason") or "")
            )
        elif self._names and self._names.intersection(
            str(fields.get(name, "")).lower().rpartition(".")[2] for name in ("kind", "resource_name", "symbol")
        ):
            given["kind"] = preferences.kind
        return given

    def _version_bonus(self, preferences: Preferences) -> float:
        one_side = self._question.intent == "comparison" and not self._question.sides
        return preferences.side_version if one_side else preferences.version

    def _version(self, held: frozenset[str], given: dict[str, float], preferences: Preferences) -> None:
        releases = frozenset(version for version in held if not re.fullmatch(r"v\d+", version))
        if self._versions and releases:
            near = max(_nearness(releases, version) for version in self._versions)
            given["version"] = near * self._version_bonus(preferences) if near else preferences.other_version
        elif self._majors and held & self._majors:
            given["version"] = self._version_bonus(preferences)

    def _docs(self, fields: Mapping[str, Any], given: dict[str, float], preferences: Preferences) -> None:
        legacy, data_file = _path_says(fields.get("file_path", ""))
        if not self._question.legacy and (legacy or _is_first_generation(fields.get("version") or ())):
            given["legacy"] = preferences.legacy
        if self._dated:
            if fields.get("release_date"):
                given["release"] = preferences.release
        elif data_file and fields.get("release_date"):
            given["release_stub"] = preferences.release_stub


def _nearness(releases: frozenset[str], version: str) -> float:
    """Returns how surely a row speaks of a release: 1.10 means 1.10.0 before it means 1.10.1."""
    finest = max(releases, key=len)
    if finest in (version, f"{version}.0") or (version in releases and finest.count(".") == version.count(".")):
        return 1.0
    return 0.7 if version in releases or finest in version_precisions(version) else 0.0


@lru_cache(maxsize=8_192)
def _path_says(path: str) -> tuple[bool, bool]:
    """Whether a path is that of a superseded generation, and whether it is a data file (release-info) and no page."""
    return _LEGACY_PATH.search(path) is not None, path.endswith(".json")


@lru_cache(maxsize=64)
def _standing(resolved: bool, state: str, reason: str) -> float:
    """Returns how a thread's standing counts: 1 for one that holds its fix, 0 for an open one, -1 for a duplicate."""
    open_one, best = THREAD_STANDING["open"], THREAD_STANDING["resolved"]
    return round(
        (thread_standing(resolved=resolved, state=state, state_reason=reason) - open_one) / (best - open_one), 4
    )


def _is_first_generation(versions: Sequence[str]) -> bool:
    return "v1" in versions and "v2" not in versions


def by_release_date(scores: Mapping[str, float], rows: Mapping[str, Row], question: Question) -> dict[str, float]:
    """Sorts dated units by date, the newest first (the oldest for "first"), undated ones after them."""
    dated = {unit: str(rows[unit].fields.get("release_date") or "") for unit in scores}
    oldest = bool(_OLDEST.search(question.text))
    dates = sorted(set(filter(None, dated.values())), reverse=not oldest)
    places = {date: place for place, date in enumerate(dates)}

    def key(unit: str) -> tuple[bool, bool, bool, int, float, str]:
        date = dated[unit]
        named = not question.years or date[:4] in question.years
        area = not question.areas or "area" in _areas(rows[unit], question)
        return (not date, not named, not area, places.get(date, 0), -scores[unit], unit)

    return {unit: scores[unit] for unit in sorted(scores, key=key)}


def _areas(row: Row, question: Question) -> tuple[str, ...]:
    return ("area",) if set(question.areas).intersection(row.fields.get("product_area") or ()) else ()


def facets(spec: CollectionSpec, rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """Counts units by field and value, so that a caller can decide to narrow.

    Args:
        spec: The collection.
        rows: The best row of each candidate.
    """
    held = [row.fields for row in rows]
    arrays = {spec_field.name for spec_field in spec.fields if spec_field.kind == "array"}
    counts: dict[str, dict[str, int]] = {}
    for name in FACETS[spec.alias]:
        values = [fields.get(name) for fields in held]
        counter: Counter[str] = Counter(
            chain.from_iterable(filter(None, values)) if name in arrays else filter(None, values)
        )
        if counter:
            counts[name] = dict(counter.most_common(MAX_FACET_VALUES))
    return counts


def shingles(text: str) -> frozenset[int]:
    """Returns the word triples of the start of a text, hashed."""
    words = re.findall(r"\w+", text[: _SHINGLE_WORDS * 10].lower())[:_SHINGLE_WORDS]
    if len(words) <= _SHINGLE:
        return frozenset({hash(tuple(words))})
    return frozenset(map(hash, zip(words, words[1:], words[2:], strict=False)))


def overlap(left: frozenset[int], right: frozenset[int]) -> float:
    """Returns the Jaccard overlap of two sets of shingles."""
    smaller, larger = sorted((len(left), len(right)))
    if not larger or smaller / larger < 0.5:
        return 0.0
    common = len(left & right)
    return common / (smaller + larger - common)


def coverage(words: Sequence[str], text: str) -> float:
    """Returns which share of a question's content words a text holds; 1 for a question without any."""
    if not words:
        return 1.0
    lowered = text.lower()
    return sum(word in lowered for word in words) / len(words)
