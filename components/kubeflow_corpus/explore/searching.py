"""One question put to several collections, and what its page shows of each answer: hits, evidence and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from kubeflow_corpus.collections import CollectionSpec, find_collection
from kubeflow_corpus.errors import CollectionNotFound, CorpusError
from kubeflow_corpus.evaluation.run import addresses_of
from kubeflow_corpus.explore.choices import Asking, Choices
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.query.evidence import Evidence
from kubeflow_corpus.query.hit import Hit
from kubeflow_corpus.query.intent import content_words
from kubeflow_corpus.query.results import SearchResult

# Rows of a table that says why.
SHOWN_UNITS: Final = 20
LISTS: Final = ("dense", "bm25")


@dataclass(frozen=True, slots=True)
class Place:
    """Where one list has a unit.

    Attributes:
        rank: Of the unit in the list, from 1.
        score: Of its best row: a cosine, or BM25.
    """

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Weighed:
    """How one unit got its place.

    Attributes:
        unit_id: The unit.
        places: Where each list has it, by list.
        fused: Score of both lists, before preferences.
        preferences: What was added, by reason.
        score: The sum.
        outcome: Whether it is a hit, or why it is not.
        hit: Its place among the hits, from 1; 0 is none.
    """

    unit_id: str
    places: Mapping[str, Place]
    fused: float
    preferences: Mapping[str, float]
    score: float
    outcome: str
    hit: int


@dataclass(frozen=True, slots=True)
class Found:
    """One hit as the page shows it.

    Attributes:
        hit: The unit.
        label: Of its fragment in the evidence; empty where it found no room.
        expected: Whether it is what should be found.
        moved: Places that it is higher than with the settings it is compared with; None where those do not find it.
    """

    hit: Hit
    label: str
    expected: bool = False
    moved: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What one collection answers with one choice of settings.

    Attributes:
        spec: The collection.
        choices: The settings.
        unknown: Filters that the collection does not know, which were left out.
        result: The answer; None where it failed.
        problem: Why it failed.
        served: Whether there is such a collection.
        words: Words of the question that the page marks.
        found: The hits.
        evidence: What a model gets.
    """

    spec: CollectionSpec
    choices: Choices
    unknown: tuple[str, ...] = ()
    result: SearchResult | None = None
    problem: str = ""
    served: bool = True
    words: tuple[str, ...] = ()
    found: tuple[Found, ...] = ()
    evidence: Evidence | None = None


def ask(client: CorpusClient, asking: Asking, pool: ThreadPoolExecutor) -> list[list[Answer]]:
    """Asks every collection at the same time.

    Args:
        client: Searches.
        asking: The question and its settings.
        pool: Runs the searches.

    Returns:
        For each collection its answer, and behind it the one of the settings to compare with.
    """
    settings = [asking.choices, *([asking.other] if asking.other is not None else [])]
    tasks = [
        [pool.submit(_answer, client, asking, find_collection(name), choices) for choices in settings]
        for name in asking.collections
    ]
    answers = [[task.result() for task in tasks_of_one] for tasks_of_one in tasks]
    return [_compared(pair) if len(pair) > 1 else pair for pair in answers]


def _answer(client: CorpusClient, asking: Asking, spec: CollectionSpec, choices: Choices) -> Answer:
    filters, unknown = asking.filters_of(spec)
    try:
        result = client.tuned(choices.tuning).search(spec.name, asking.question, **choices.options(), **filters)
    except CollectionNotFound as error:
        return Answer(spec, choices, unknown, problem=str(error), served=False)
    except CorpusError as error:
        return Answer(spec, choices, unknown, problem=str(error))
    evidence = result.evidence_block()
    labels = {citation["unit_id"]: citation["id"] for citation in reversed(evidence.citations)}
    expected = set(asking.expected)
    found = tuple(
        Found(hit, labels.get(hit.unit_id, ""), bool(expected & set(addresses_of(hit)))) for hit in result.hits
    )
    words = content_words(asking.question)
    return Answer(spec, choices, unknown, result, words=words, found=found, evidence=evidence)


def _compared(pair: Sequence[Answer]) -> list[Answer]:
    """Returns the answers of two settings, each hit with how far it moved."""
    ranks = [{found.hit.unit_id: rank for rank, found in enumerate(answer.found)} for answer in pair]
    compared = []
    for answer, others in zip(pair, reversed(ranks), strict=True):
        found = tuple(
            replace(each, moved=others[each.hit.unit_id] - rank if each.hit.unit_id in others else None)
            for rank, each in enumerate(answer.found)
        )
        compared.append(replace(answer, found=found))
    return compared


def weigh(result: SearchResult) -> list[Weighed]:
    """Returns how the first units of a search got their places: the hits, and what stands between and behind them."""
    trace = result.trace
    hits = {hit.unit_id: rank for rank, hit in enumerate(result.hits, 1)}
    drops = {drop["unit_id"]: drop["reason"] for drop in trace["drops"]}
    places = {name: dict(_places(result, name)) for name in LISTS if name in result.stages.lists}
    weighed = []
    for unit in trace["fused"][:SHOWN_UNITS]:
        key = unit["unit_id"]
        rank = hits.get(key, 0)
        outcome = f"hit {rank}" if rank else drops.get(key, "further down")
        found = {name: units[key] for name, units in places.items() if key in units}
        weighed.append(Weighed(key, found, unit["fused"], unit["preferences"], unit["score"], outcome, rank))
    return weighed


def _places(result: SearchResult, name: str) -> Iterator[tuple[str, Place]]:
    rows = result.stages.lists[name]
    seen: set[str] = set()
    for row in rows:
        if row.unit_id not in seen:
            seen.add(row.unit_id)
            yield row.unit_id, Place(len(seen), row.score)
