"""Questions that were asked, from their log, and the way from one of them to a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubeflow_corpus.collections import FILTERS, CollectionSpec, find_collection
from kubeflow_corpus.errors import InvalidArgument, PermissionDenied
from kubeflow_corpus.evaluation.asked import QuestionReport, report_questions
from kubeflow_corpus.evaluation.questions import BEST_GRADE, Question, add_question, unit_address
from kubeflow_corpus.explore.guard import WriteToken
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.query.hit import Hit
from kubeflow_corpus.query.question_log import DAY_SECONDS, AskedQuestion, find_question, last_reading, read_log

MAX_QUERY_CHARACTERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class AskedLog:
    """Reads a log of questions for the page, which does not count as a reading: new stays new.

    Attributes:
        path: The log; None is none.
    """

    path: Path | None

    def report(self, days: float) -> QuestionReport | None:
        """Returns what was asked in the last days (0 is always); None without a log."""
        if self.path is None or not self.path.is_file():
            return None
        since = time.time() - days * DAY_SECONDS if days else 0.0
        return report_questions(read_log(self.path, since), new_since=last_reading(self.path))

    def find(self, request_id: str) -> AskedQuestion:
        """Returns the question of a request.

        Raises:
            InvalidArgument: No log is kept, or it does not have the request.
        """
        found = find_question(self.path, request_id) if self.path is not None else None
        if found is None:
            raise InvalidArgument(f"No request {request_id[:100]!r} was logged", argument="id")
        return found


class Tests:
    """Adds questions to a set.

    Args:
        client: Knows the units that should answer.
        path: The set; None adds nothing.
        token: Has to be in every form.
    """

    # The name is that of what it makes; pytest should not look into it.
    __test__ = False

    def __init__(self, client: CorpusClient, path: Path | None, token: WriteToken) -> None:
        self.path = path
        self._client = client
        self._token = token
        # Two clicks at once write one after the other.
        self._lock = threading.Lock()

    def unit(self, collection: str, unit_id: str) -> Hit:
        """Returns the unit that should answer.

        Raises:
            CorpusError: The collection does not have the unit.
        """
        return self._client.get_unit(unit_id, collection=find_collection(collection).name).hit

    def add(self, fields: Mapping[str, str]) -> Question:
        """Adds what a form says.

        Args:
            fields: ``token``, ``q``, ``in``, ``unit``, ``kind``, ``must_contain`` and filters.

        Raises:
            PermissionDenied: The token is wrong, or no set was named.
            CorpusError: The question cannot be added; the set is as it was.
        """
        if self.path is None:
            raise PermissionDenied("No set of questions was named", remedy="Start with --questions FILE.jsonl")
        if not self._token.matches(fields.get("token", "")):
            raise PermissionDenied("The write token is wrong", remedy="Copy it from the terminal where explore runs")
        query, kind = fields.get("q", "").strip(), fields.get("kind", "").strip() or "asked"
        if not query or len(query) > MAX_QUERY_CHARACTERS:
            raise InvalidArgument(f"A question has 1 to {MAX_QUERY_CHARACTERS:,} characters", argument="q")
        spec = find_collection(fields.get("in", ""))
        hit = self.unit(spec.name, fields.get("unit", ""))
        required = (line.strip() for line in fields.get("must_contain", "").splitlines())
        question = Question(
            id="",
            query=query,
            tool=spec.name,
            kind=kind,
            expected={unit_address(hit.repo, hit.file_path, hit.document_id, hit.unit_id): BEST_GRADE},
            filters=chosen_filters(spec, fields),
            must_contain=tuple(filter(None, required)),
        )
        with self._lock:
            return add_question(self.path, question, self._client.vocabulary(spec.name))


def chosen_filters(spec: CollectionSpec, fields: Mapping[str, str]) -> dict[str, str]:
    """Returns the filters of a form that a question of a set can have: those that are texts of the collection."""
    names = (rule.name for rule in spec.filters if FILTERS[rule.name].operator != "flag")
    return {name: fields[name] for name in names if fields.get(name)}
