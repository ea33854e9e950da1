"""Asks a question set through a searcher and keeps what a metric or a person needs to judge the answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from kubeflow_corpus.evaluation.metrics import CUTOFF, Answer
from kubeflow_corpus.evaluation.questions import Question

if TYPE_CHECKING:
    from kubeflow_corpus.query.client import CorpusClient, SearchResult

# What the tools give by default: the evidence that is judged is the evidence that an agent gets.
EVIDENCE_HITS: Final = 5


class Searcher(Protocol):
    """Answers one question."""

    def answer(self, question: Question) -> Answer:
        """Searches and returns ranked addresses and evidence."""
        ...


@dataclass(frozen=True, slots=True)
class ClientSearcher:
    """Searches through the query library, as every other user does.

    Attributes:
        client: The library's client.
        options: Further arguments of each search (``mode``, ``token_budget``, ...).
    """

    client: CorpusClient
    options: dict[str, Any]

    def answer(self, question: Question) -> Answer:
        """Searches once for the ranking; the evidence is that of the default number of hits."""
        search = {
            "docs": self.client.search_docs,
            "issues": self.client.search_issues,
            "code": self.client.search_code,
        }[question.tool]
        started = time.perf_counter()
        result = search(question.query, limit=CUTOFF, **{**question.filters, **self.options})
        milliseconds = (time.perf_counter() - started) * 1000
        return Answer(
            question=question,
            ranked=tuple((f"{hit.repo}:{hit.file_path}", *hit.also_at) for hit in result.hits),
            areas=tuple(tuple(hit.product_area) for hit in result.hits),
            evidence=result.evidence(max_hits=EVIDENCE_HITS),
            intent=result.intent.name,
            lists=_lists(result),
            milliseconds=milliseconds,
        )


def ask(
    searcher: Searcher, questions: Sequence[Question], progress: Callable[[int, int], None] | None = None
) -> tuple[Answer, ...]:
    """Asks every question, in order.

    Args:
        searcher: Who answers.
        questions: The set.
        progress: Called with the number done and the number of all.
    """
    answers = []
    for done, question in enumerate(questions, 1):
        answers.append(searcher.answer(question))
        if progress:
            progress(done, len(questions))
    return tuple(answers)


def misses(answers: Iterable[Answer], cutoff: int = EVIDENCE_HITS) -> tuple[Answer, ...]:
    """Returns the answers that a person should look at: not found in time, or evidence that lacks a string."""
    return tuple(a for a in answers if not 0 < a.rank <= cutoff or a.missing())


def _lists(result: SearchResult) -> dict[str, tuple[str, ...]]:
    # Rows of one document stand beside each other in a list; a person asks where the document stood.
    return {
        name: tuple(dict.fromkeys(f"{row.repo}:{row.file_path}" for row in rows))
        for name, rows in result.ranked_lists().items()
    }
