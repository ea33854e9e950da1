"""From two lists of rows to an order of units: fusion, preferences, dates, duplicates. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final

from kubeflow_corpus.collections import CODE, DOCS, ISSUES, CollectionSpec
from kubeflow_corpus.query.fusion import Rows, by_score, rrf, weighted
from kubeflow_corpus.query.headings import HeadingScorer
from kubeflow_corpus.query.intent import Question, precisions
from kubeflow_corpus.query.tuning import PROGRAM_LIMITS, Fusion, Policy, Preferences
from kubeflow_corpus.symptoms import THREAD_STANDING, thread_standing
from kubeflow_corpus.terms import version_precisions

MAX_FACET_VALUES: Final = 20
# Units of a pool that preferences are computed for: of 370 questions with a known section one had it further down.
MOST_COMPARED: Final = 200
# Fields that ranking reads of every row of a pool; the text is fetched of the best units only.
LIGHT_FIELDS: Final = (
    "unit_id",
    "repo",
    "file_path",
    "source",
    "product_area",
    "version",
)
OWN_LIGHT_FIELDS: Final = {
    DOCS.alias: ("doc_type", "release_date", "title", "section_path", "chunk_index", "view"),
    ISSUES.alias: ("state", "state_reason", "resolved", "created_at"),
    CODE.alias: ("kind", "language", "symbol", "resource_name"),
}
_OLDEST: Final = re.compile(r"\b(?:first|oldest|earliest)\b", re.IGNORECASE)
_LEGACY_PATH: Final = re.compile(r"(?:^|[/_-])(?:legacy|deprecated)(?:[/_.-]|$)", re.IGNORECASE)
_SHINGLE: Final = 3
_SHINGLE_WORDS: Final = 400
# What `\W` is among ASCII bytes becomes a space, and letters become small.
_WORD_BYTES: Final = bytes(
    ord(chr(code).lower()) if chr(code).isalnum() or chr(code) == "_" else 0x20 for code in range(128)
) + bytes(range(128, 256))


def light_fields(spec: CollectionSpec) -> tuple[str, ...]:
    """Returns the fields that a ranking needs of each row."""
    return LIGHT_FIELDS + OWN_LIGHT_FIELDS[spec.alias]


@dataclass(slots=True)
class Ranked:
    """The ranking of one question (or of one side of a comparison).

    Attributes:
        scores: By unit, best first: fused, plus preferences.
        fused: By unit, before preferences.
        fields: What was fetched with the best row of each unit.
        bonuses: What was added to a unit, and why.
    """

    scores: dict[str, float]
    fused: dict[str, float]
    fields: dict[str, Mapping[str, Any]]
    bonuses: dict[str, dict[str, float]] = field(default_factory=dict)


def rank(
    lists: Mapping[str, Rows],
    question: Question,
    spec: CollectionSpec,
    policy: Policy,
    fusion: Fusion,
    preferences: Preferences,
    wanted: int = PROGRAM_LIMITS.max_limit,
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
    fields = best_fields(lists)
    scorer = PreferenceScorer(question, spec)
    floor = _floor(fused, wanted, scorer.most(preferences))
    bonuses = {
        unit: bonus
        for unit, score in fused.items()
        if score >= floor and (bonus := scorer.bonuses(fields[unit], preferences))
    }
    ordered = by_score(fused | {unit: fused[unit] + sum(bonus.values()) for unit, bonus in bonuses.items()})
    if question.intent == "temporal" and spec is DOCS:
        ordered = by_release_date(ordered, fields, question)
    return Ranked(ordered, fused, fields, bonuses)


def rank_by_texts(
    ranked: Ranked, texts: Mapping[str, str], question: Question, preferences: Preferences
) -> dict[str, float]:
    """Looks again at the best units, whose texts are known by now.

    Args:
        ranked: The ranking; it gets the new scores and their reasons.
        texts: How each of the best units begins.
        question: The question.
        preferences: The bonuses.

    Returns:
        The scores of these units, best first.
    """
    scorer = HeadingScorer(question)
    for unit, text in texts.items():
        if bonus := scorer.opening(text, ranked.fields[unit], preferences):
            ranked.bonuses[unit] = ranked.bonuses.get(unit, {}) | bonus
            ranked.scores[unit] += sum(bonus.values())
    ranked.scores = by_score(ranked.scores)
    return by_score({unit: ranked.scores[unit] for unit in texts})


def best_fields(lists: Mapping[str, Rows]) -> dict[str, Mapping[str, Any]]:
    """Returns what was fetched with the best row of each unit: of the first list that has it, the first row."""
    best: dict[str, Mapping[str, Any]] = dict.fromkeys(chain.from_iterable(found.units for found in lists.values()), {})
    for found in reversed([*lists.values()]):
        best.update(zip(reversed(found.units), reversed(found.fields), strict=True))
    return best


def _floor(fused: Mapping[str, float], wanted: int, most: float) -> float:
    """Returns the score below which no preference lifts a unit among the wanted ones, with room for demoted ones.

    A heading may lift a unit from anywhere, so there is an end to how many are looked at (bench_query).
    """
    ordered = sorted(fused.values(), reverse=True)
    last = next(islice(ordered, max(MOST_COMPARED, 4 * wanted), None), 0.0)
    return max(next(islice(ordered, 2 * wanted + 40, None), 0.0) - most, last)


class PreferenceScorer:
    """Compares what a question names with the fields of a row."""

    def __init__(self, question: Question, spec: CollectionSpec) -> None:
        self._question = question
        self._spec = spec
        self._seen: dict[tuple[str, ...], float | None] = {}
        self._areas = frozenset(question.areas)
        majors = frozenset(version for version in question.versions if re.fullmatch(r"v\d+", version))
        self._majors = majors
        self._versions = precisions(tuple(version for version in question.versions if version not in majors))
        self._dated = question.intent in ("release_date", "temporal")
        # The order of an answer about dates is that of the dates.
        self._headings = HeadingScorer(question) if spec is DOCS and not self._dated else None
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
        headings = self._headings.most(preferences) if self._headings else 0.0
        return headings + sum(bonus for bonus, given in possible if given)

    def bonuses(self, fields: Mapping[str, Any], preferences: Preferences) -> dict[str, float]:
        """Returns what is added to the score of a row's unit, by reason."""
        given: dict[str, float] = {}
        if self._areas and not self._areas.isdisjoint(fields.get("product_area") or ()):
            given["area"] = preferences.area
        if self._versions or self._majors:
            versions = tuple(fields.get("version") or ())
            # A pool repeats a handful of versions (bench_query).
            if versions not in self._seen:
                self._seen[versions] = self._version(frozenset(versions), preferences)
            if (version := self._seen[versions]) is not None:
                given["version"] = version
        if self._headings:
            given |= self._headings.bonuses(fields, preferences)
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

    def _version(self, versions: frozenset[str], preferences: Preferences) -> float | None:
        releases = frozenset(version for version in versions if not re.fullmatch(r"v\d+", version))
        if self._versions and releases:
            near = max(_nearness(releases, version) for version in self._versions)
            return near * self._version_bonus(preferences) if near else preferences.other_version
        return self._version_bonus(preferences) if versions & self._majors else None

    def _docs(self, fields: Mapping[str, Any], given: dict[str, float], preferences: Preferences) -> None:
        legacy, data_file = _classify_path(fields.get("file_path", ""))
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
def _classify_path(path: str) -> tuple[bool, bool]:
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


def by_release_date(
    scores: Mapping[str, float], fields: Mapping[str, Mapping[str, Any]], question: Question
) -> dict[str, float]:
    """Sorts dated units by date, the newest first (the oldest for "first"), undated ones after them."""
    dated = {unit: str(fields[unit].get("release_date") or "") for unit in scores}
    oldest = bool(_OLDEST.search(question.text))
    areas = frozenset(question.areas)
    dates = sorted(set(filter(None, dated.values())), reverse=not oldest)
    places = {date: place for place, date in enumerate(dates)}

    def key(unit: str) -> tuple[bool, bool, bool, int, float, str]:
        date = dated[unit]
        named = not question.years or date[:4] in question.years
        area = not areas or not areas.isdisjoint(fields[unit].get("product_area") or ())
        return (not date, not named, not area, places.get(date, 0), -scores[unit], unit)

    return {unit: scores[unit] for unit in sorted(scores, key=key)}


def facets(spec: CollectionSpec, candidates: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Counts units by field and value, so that a caller can decide to narrow.

    Args:
        spec: The collection.
        candidates: Fields of the best row of each candidate.
    """
    arrays = {spec_field.name for spec_field in spec.fields if spec_field.kind == "array"}
    counts: dict[str, dict[str, int]] = {}
    for name in spec.facets:
        values = [fields.get(name) for fields in candidates]
        counter: Counter[str] = Counter(
            chain.from_iterable(filter(None, values)) if name in arrays else filter(None, values)
        )
        if counter:
            counts[name] = dict(counter.most_common(MAX_FACET_VALUES))
    return counts


class Wording:
    """The start of a text, by which near-duplicates are found: the overlap of word triples.

    Args:
        text: Any text.
    """

    __slots__ = ("_distinct", "_triples", "_words")

    def __init__(self, text: str) -> None:
        self._words = _words(text[: _SHINGLE_WORDS * 10])[:_SHINGLE_WORDS]
        self._distinct = frozenset(self._words)
        self._triples: frozenset[tuple[bytes, ...]] | None = None

    @property
    def triples(self) -> frozenset[tuple[bytes, ...]]:
        """Three words in a row, each once."""
        if self._triples is None:
            words = self._words
            triples = zip(words, words[1:], words[2:], strict=False) if len(words) > _SHINGLE else (tuple(words),)
            self._triples = frozenset(triples)
        return self._triples

    def overlap(self, other: Wording) -> float:
        """Returns the Jaccard overlap of the triples of two texts; 0 where one has half as many as the other."""
        smaller, larger = sorted((len(self.triples), len(other.triples)))
        if smaller / larger < 0.5:
            return 0.0
        common = len(self.triples & other.triples)
        return common / (smaller + larger - common)

    def is_near_duplicate_of(self, other: Wording, least: float) -> bool:
        """Whether the overlap of two texts reaches `least`.

        Most texts have too many words of their own for that, and this is known without making triples (bench_query):
        n of them give a text at least n/3 triples of its own, and of the smaller text, with t triples, the overlap is
        then at most (t - n/3) / (t + n/3).
        """
        common = len(self._distinct & other._distinct)
        room = 3 * (1 - least) / (1 + least)
        if self._own(common) > room and other._own(common) > room:
            return False
        return self.overlap(other) >= least

    def _own(self, common: int) -> float:
        """Returns how many words only this text has, divided by the most triples that it can have."""
        return (len(self._distinct) - common) / max(len(self._words) - _SHINGLE + 1, 1)


def _words(text: str) -> list[bytes]:
    if text.isascii():
        # Ten times faster than matching a pattern, and most texts are ASCII (bench_query).
        return text.encode("ascii").translate(_WORD_BYTES).split()
    return [word.encode("utf-8", "surrogatepass") for word in re.findall(r"\w+", text.lower())]


def coverage(words: Sequence[str], text: str) -> float:
    """Returns which share of a question's content words a text holds; 1 for a question without any."""
    if not words:
        return 1.0
    lowered = text.lower()
    return sum(word in lowered for word in words) / len(words)


def match_score(cosine: float | None, covered: float) -> float:
    """Returns how well a text matches a question, between 0 and 1, whatever else was found.

    Args:
        cosine: Of question and text; None where nothing was compared by meaning.
        covered: Share of the question's content words that the text holds.
    """
    return covered if cosine is None else (min(max(cosine, 0.0), 1.0) + covered) / 2
