"""Breaking the search or the chunkers on purpose turns the gate red each time.

The gate is a conjunction: every question must be answered. So a break is caught as soon as one question of those that
it concerns is not. What the router says is left out of the judgement here: a wrong intent must show in what is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.chunking.compose import search_text
from kubeflow_corpus.evaluation.metrics import Answer
from kubeflow_corpus.evaluation.questions import Question
from kubeflow_corpus.evaluation.run import problems
from kubeflow_corpus.ingest import chunking as chunk_step
from kubeflow_corpus.query import ranking, reader, search
from kubeflow_corpus.query.evidence import EvidenceBuilder
from kubeflow_corpus.query.fusion import Rows
from kubeflow_corpus.query.hit import Hit
from kubeflow_corpus.query.places import Places
from kubeflow_corpus.query.tuning import DEFAULT_TUNING, Preferences, Threshold, Tuning
from kubeflow_corpus.records import Chunk, Chunked, seal

from tests.retrieval.conftest import Indexed, OpenClient
from tests.retrieval.samples import QUESTIONS, Remembered, environment, first_problem, opened, run

# The first test of a session waits until the corpus is indexed.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
Patch = pytest.MonkeyPatch


def asked(*kinds: str, tool: str = "", sources: Sequence[str] = ()) -> list[Question]:
    """The questions that a break concerns: of these kinds, of this tool, answered by these repositories."""
    return [
        replace(question, intent="")
        for question in QUESTIONS
        if (not kinds or question.kind in kinds)
        and (not tool or question.tool == tool)
        and (not sources or all(address.partition(":")[0] in sources for address in question.expected))
    ]


# ---- breaks of the search: a changed setting, or a patch


@dataclass(frozen=True)
class Break:
    """One way to break the search.

    Attributes:
        kinds: Kinds of question that it concerns.
        tuning: Changed numbers.
        options: Changed arguments.
        patch: Changed code.
    """

    kinds: tuple[str, ...] = ()
    tuning: Tuning = DEFAULT_TUNING
    options: Mapping[str, Any] | None = None
    patch: Callable[[Patch], None] = lambda patch: None


def policies(**changes: Any) -> Tuning:
    changed = {name: replace(policy, **changes) for name, policy in DEFAULT_TUNING.policies.items()}
    return replace(DEFAULT_TUNING, policies=changed)


def preferences(**changes: float) -> Tuning:
    return replace(DEFAULT_TUNING, preferences=replace(DEFAULT_TUNING.preferences, **changes))


def inverted() -> Tuning:
    values = {name: -value for name, value in asdict(DEFAULT_TUNING.preferences).items()}
    return replace(DEFAULT_TUNING, preferences=Preferences(**values))


def router_always_general(patch: Patch) -> None:
    right = search.read
    patch.setattr(search, "read", lambda *asked: replace(right(*asked), intent="general", sides=()))


def filter_ignored(patch: Patch) -> None:
    patch.setattr(search, "expression", lambda filters, visibility: "")


def filter_inverted(patch: Patch) -> None:
    right = search.expression

    def wrong(filters: Any, visibility: Any) -> str:
        found = right(filters, visibility)
        return f"not ({found})" if found else found

    patch.setattr(search, "expression", wrong)


def ranks_reversed(patch: Patch) -> None:
    right = ranking.weighted

    def wrong(lists: Any, weights: Any) -> dict[str, float]:
        return {unit: 1 - score for unit, score in reversed(right(lists, weights).items())}

    patch.setattr(ranking, "weighted", wrong)


def bm25_sign_kept(patch: Patch) -> None:
    right = reader._rows

    def wrong(hits: Any, sparse: bool) -> Rows:
        rows = right(hits, sparse)
        return replace(rows, scores=[-score for score in rows.scores]) if sparse else rows

    patch.setattr(reader, "_rows", wrong)


def evidence_cut_to_first_line(patch: Patch) -> None:
    right = EvidenceBuilder._passage

    def wrong(self: EvidenceBuilder, hit: Hit, room: int, places: Places) -> tuple[str, bool]:
        text, cut = right(self, hit, room, places)
        return text.split("\n")[0], cut

    patch.setattr(EvidenceBuilder, "_passage", wrong)


def views_of_a_unit_lost(patch: Patch) -> None:
    right = Hit.of
    patch.setattr(Hit, "of", lambda rows, *words, **options: right(rows[:1], *words, **options))


def dates_upside_down(patch: Patch) -> None:
    right = ranking.by_release_date

    def wrong(scores: Any, rows: Any, question: Any) -> dict[str, float]:
        return dict(reversed(right(scores, rows, question).items()))

    patch.setattr(ranking, "by_release_date", wrong)


def one_side_of_a_comparison(patch: Patch) -> None:
    patch.setattr(search, "interleave", lambda rankings: list(rankings[0]))


BREAKS: dict[str, Break] = {
    "router_always_general": Break(("release_date", "latest", "comparison"), patch=router_always_general),
    "filter_ignored": Break(("filter",), patch=filter_ignored),
    "filter_inverted": Break(("filter",), patch=filter_inverted),
    "dense_list_only": Break(("field",), tuning=policies(mode="dense")),
    "bm25_list_only": Break(("howto", "why", "symptom", "concept"), tuning=policies(mode="bm25")),
    "ranks_reversed": Break(("howto",), patch=ranks_reversed),
    "bm25_sign_kept": Break((), patch=bm25_sign_kept),
    "evidence_budget_tiny": Break(("key", "default"), options={"token_budget": 80}),
    "evidence_cut_to_first_line": Break(("howto", "default"), patch=evidence_cut_to_first_line),
    "views_of_a_unit_lost": Break(("field", "default"), patch=views_of_a_unit_lost),
    "preferences_inverted": Break(("version", "release_date", "howto", "concept"), tuning=inverted()),
    "other_version_preferred": Break(("version", "release_date", "release"), tuning=preferences(
        version=DEFAULT_TUNING.preferences.other_version, other_version=DEFAULT_TUNING.preferences.version)),
    "legacy_preferred": Break(("howto", "why", "concept"), tuning=preferences(
        legacy=-DEFAULT_TUNING.preferences.legacy)),
    "dates_upside_down": Break(("latest",), patch=dates_upside_down),
    "one_side_of_a_comparison": Break(("comparison",), patch=one_side_of_a_comparison),
    "threshold_that_nothing_passes": Break(("howto",), tuning=replace(
        DEFAULT_TUNING, thresholds=dict.fromkeys(DEFAULT_TUNING.thresholds, Threshold(0.95, 0.95)))),
    "pool_of_three": Break((), tuning=policies(pool=3)),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_search_turns_the_gate_red(
    name: str, open_client: OpenClient, answers: tuple[Answer, ...], monkeypatch: Patch
) -> None:
    broken = BREAKS[name]
    questions = asked(*broken.kinds)
    assert [answer for answer in answers if problems(answer)] == [], "the gate is green before anything is broken"
    broken.patch(monkeypatch)
    problem = first_problem(open_client(tuning=broken.tuning), questions, broken.options)
    print(problem)
    assert problem != ""


# ---- breaks of the chunkers: one or two sources are indexed again


def with_rows(change: Callable[[Chunk], Iterable[Chunk]]) -> Callable[[Chunked], Chunked]:
    def changed(chunked: Chunked) -> Chunked:
        rows = [row for chunk in chunked.chunks for row in change(chunk)]
        return replace(chunked, chunks=tuple(seal(rows)))

    return changed


def headings_dropped(chunk: Chunk) -> Iterator[Chunk]:
    text = chunk.content_text
    yield replace(chunk, title="", section_path="", embedding_text=text, search_text=search_text("", "", text))


def identifiers_dropped(chunk: Chunk) -> Iterator[Chunk]:
    text = search_text(chunk.title, chunk.section_path, chunk.content_text, identifiers=False)
    yield replace(chunk, search_text=text)


def search_text_without_title(chunk: Chunk) -> Iterator[Chunk]:
    yield replace(chunk, search_text=search_text("", "", chunk.content_text))


def fixed_windows(chunk: Chunk) -> Iterator[Chunk]:
    text = f"{chunk.title}\n{chunk.section_path}\n{chunk.content_text}"
    for at in range(0, len(text), 120):
        part = text[at : at + 120]
        yield replace(
            chunk, unit_id=f"{chunk.unit_id}@{at}", title="", section_path="", content_text=part, search_text=part,
            embedding_text=part,
        )  # fmt: skip


def table_headers_lost(chunk: Chunk) -> Iterator[Chunk]:
    lines = chunk.content_text.split("\n")
    rules = {at for at, line in enumerate(lines) if line.startswith("|") and not line.strip("|-: \t")}
    text = "\n".join(line for at, line in enumerate(lines) if at not in rules and at + 1 not in rules)
    yield replace(chunk, content_text=text, search_text=search_text(chunk.title, chunk.section_path, text))


def versions_and_dates_lost(chunk: Chunk) -> Iterator[Chunk]:
    yield replace(chunk, version=(), fields={**chunk.fields, "release_date": ""})


def resolution_lost(chunk: Chunk) -> Iterator[Chunk]:
    problem = chunk.content_text.partition("\nResolution")[0]
    yield replace(chunk, content_text=problem)


def later_views_lost(chunk: Chunk) -> Iterator[Chunk]:
    if chunk.view in ("", "definition"):
        yield chunk


WEBSITES = ("orchard-website", "beehive-website")
PRODUCTS = ("orchard-code", "orchard-manifests", "beehive-code")
CHUNKERS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], Callable[[Chunk], Iterable[Chunk]]]] = {
    "headings_dropped": ("docs", WEBSITES[:1], ("comparison", "version", "howto", "key"), headings_dropped),
    "fixed_windows": ("docs", WEBSITES[:1], ("key", "default", "howto"), fixed_windows),
    "table_headers_lost": ("docs", WEBSITES[:1], ("key",), table_headers_lost),
    "search_text_without_title": ("docs", WEBSITES, (), search_text_without_title),
    "versions_and_dates_lost": ("docs", WEBSITES[:1], ("filter", "release_date", "latest"), versions_and_dates_lost),
    "identifiers_dropped": ("code", PRODUCTS, (), identifiers_dropped),
    "later_views_lost": ("code", PRODUCTS[1:], ("default", "field"), later_views_lost),
    "resolution_lost": ("issues", ("trainer-issues",), ("error",), resolution_lost),
}
REPOS = {
    "orchard-website": "example/orchard-website",
    "beehive-website": "example/beehive-website",
    "orchard-code": "example/orchard",
    "orchard-manifests": "example/orchard-manifests",
    "beehive-code": "example/beehive",
    "trainer-issues": "kubeflow/trainer",
}


@contextmanager
def reindexed(
    folder: Path, cache: Path, collection: str, sources: Sequence[str], change: Callable[[Chunked], Chunked]
) -> Iterator[str]:
    uri = str(folder / "broken.db")
    right = chunk_step.chunk_documents
    with environment(uri, cache), pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_step, "chunk_documents", lambda *words: map(change, right(*words)))
        outcome = run(collection, folder / "run", sources=sources)
        assert outcome.ok, outcome.error
        yield uri


@pytest.mark.parametrize("name", CHUNKERS)
def test_a_broken_chunker_turns_the_gate_red(
    name: str, indexed: Indexed, model: Remembered, answers: tuple[Answer, ...], tmp_path: Path
) -> None:
    collection, sources, kinds, change = CHUNKERS[name]
    questions = asked(*kinds, tool=collection, sources=[REPOS[source] for source in sources])
    assert questions
    assert [answer for answer in answers if problems(answer)] == [], "the gate is green before anything is broken"
    with (
        reindexed(tmp_path, indexed.cache, collection, sources, with_rows(change)) as uri,
        opened(uri, model) as client,
    ):
        problem = first_problem(client, questions)
        print(problem)
        assert problem != ""


def test_the_same_sources_indexed_again_and_not_broken_leave_the_gate_green(
    indexed: Indexed, model: Remembered, tmp_path: Path
) -> None:
    questions = asked("key", "filter", "release_date", tool="docs", sources=[REPOS[name] for name in WEBSITES])
    with (
        reindexed(tmp_path, indexed.cache, "docs", WEBSITES, lambda chunked: chunked) as uri,
        opened(uri, model) as client,
    ):
        assert first_problem(client, questions) == ""
