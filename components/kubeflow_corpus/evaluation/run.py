"""Asks a question set through a searcher and keeps what a metric or a person needs to judge the answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from kubeflow_corpus.evaluation.baseline import Setup
from kubeflow_corpus.evaluation.metrics import CUTOFF, Answer
from kubeflow_corpus.evaluation.questions import Question, digest, unit_address
from kubeflow_corpus.store.schema import HEAD_PREFIX, MODEL_KEY

if TYPE_CHECKING:
    from kubeflow_corpus.query.client import CorpusClient, SearchResult
    from kubeflow_corpus.query.hit import Hit

# The default of the tools: what is judged is the evidence that an agent gets.
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
        options: Further options of each search (``mode``, ``token_budget``, ...).
    """

    client: CorpusClient
    options: Mapping[str, Any]

    def answer(self, question: Question) -> Answer:
        """Searches once for the ranking; the evidence is that of the default number of hits."""
        started = time.perf_counter()
        result = self.client.search(question.tool, question.query, limit=CUTOFF, **{**question.filters, **self.options})
        milliseconds = (time.perf_counter() - started) * 1000
        return Answer(
            question=question,
            ranked=tuple(map(addresses_of, result.hits)),
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
        searcher: Answers each question.
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
    """Returns the answers that a person should look at: anything that `problems` names."""
    return tuple(answer for answer in answers if problems(answer, cutoff))


def problems(answer: Answer, cutoff: int = EVIDENCE_HITS) -> tuple[str, ...]:
    """Returns what is wrong with an answer, one line per problem."""
    question, found = answer.question, []
    if not 0 < answer.rank <= cutoff:
        places = ", ".join(f"{name}: {_place(question, rows)}" for name, rows in answer.lists.items())
        found.append(f"rank {answer.rank}" if answer.rank else "not found")
        found += [places] if places else []
    if answer.missing():
        found.append("evidence lacks " + ", ".join(map(repr, answer.missing())))
    if answer.rivals_above():
        found.append("comes after " + ", ".join(answer.rivals_above()))
    if answer.forbidden_hits():
        found.append("shows " + ", ".join(answer.forbidden_hits()))
    if question.intent and answer.intent and answer.intent != question.intent:
        found.append(f"read as {answer.intent}, meant as {question.intent}")
    return tuple(found)


def addresses_of(hit: Hit) -> tuple[str, ...]:
    """Returns every address under which a question may expect a hit, the most telling one first."""
    unit = unit_address(hit.repo, hit.file_path, hit.document_id, hit.unit_id)
    return tuple(dict.fromkeys((unit, f"{hit.repo}:{hit.file_path}", hit.citation_url, *hit.also_at)))


def _place(question: Question, rows: Sequence[str]) -> str:
    # A list has the documents of its rows: the place of a section is that of its document.
    documents = {address.partition("#")[0] for address in question.expected}
    return next((str(rank) for rank, row in enumerate(rows, 1) if row in documents), "absent")


def _lists(result: SearchResult) -> dict[str, tuple[str, ...]]:
    # Several rows of a list belong to one document; a person asks for the rank of the document.
    return {
        name: tuple(dict.fromkeys(f"{row.repo}:{row.file_path}" for row in rows))
        for name, rows in result.ranked_lists().items()
    }


def setup_of(client: CorpusClient, questions: Sequence[Question]) -> Setup:
    """Returns what the answers will depend on: the questions, the embedding model and the head of each source.

    Args:
        client: The client that will answer.
        questions: What will be asked.

    Raises:
        CorpusError: A collection does not exist, or Milvus does not answer.
    """
    model = ""
    heads: dict[str, str] = {}
    for tool in sorted({question.tool for question in questions}):
        properties = client.properties(tool)
        model = str(properties.get(MODEL_KEY, ""))
        heads |= {key: str(value) for key, value in properties.items() if key.startswith(HEAD_PREFIX)}
    return Setup(digest(questions), model, heads)
