"""Questions with known answers: one JSON object per line, checked before anything is searched."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from kubeflow_corpus.collections import COLLECTION_NAMES, CollectionName, find_collection
from kubeflow_corpus.errors import EvaluationError
from kubeflow_corpus.vocabulary import Vocabulary, default_vocabulary

GRADES: Final = (1, 2, 3)
BEST_GRADE: Final = GRADES[-1]

_KEYS: Final = frozenset(
    {"id", "query", "tool", "kind", "expected", "right", "any_of", "filters", "must_contain", "forbidden", "rivals"}
    | {"intent", "product_area", "version"}
)


@dataclass(frozen=True, slots=True)
class Question:
    """One question and what a good answer holds.

    Attributes:
        id: Unique in its set.
        query: As a person would type it.
        tool: Which collection is asked.
        kind: What sort of question it is (``howto``, ``default``, ``symptom``, ...): metrics are broken down by it.
        expected: ``repo:path`` (``repo:issues/<owner>/<repo>/<number>`` for threads), ``repo:path#anchor`` for one
            section or symbol, or a citation address, to grade: 3 answers it, 2 helps, 1 is related.
        any_of: Whether any one of `expected` is a full answer, so that finding one is all that can be asked.
        filters: What the caller narrows by.
        must_contain: Strings that the evidence must show.
        forbidden: ``repo:path`` that must not be among the first five hits.
        rivals: ``repo:path`` that look right and must not come before the first right one: the other version, the
            other product with the same field or error.
        product_area: The product that is meant, for the wrong-product rate; never a filter.
        version: The version that is meant; never a filter.
        intent: The intent that the router should choose; empty is not checked.
    """

    id: str
    query: str
    tool: CollectionName
    kind: str
    expected: Mapping[str, int]
    any_of: bool = False
    filters: Mapping[str, str] = field(default_factory=dict)
    must_contain: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    product_area: str = ""
    version: str = ""
    intent: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form, without what has its default."""
        data: dict[str, Any] = {"id": self.id, "query": self.query, "tool": self.tool, "kind": self.kind}
        data["expected"] = dict(self.expected)
        for name in ("any_of", "filters", "must_contain", "forbidden", "rivals", "product_area", "version", "intent"):
            value = getattr(self, name)
            if value:
                data[name] = list(value) if isinstance(value, tuple) else value
        return data


def unit_address(repo: str, file_path: str, document_id: str, unit_id: str) -> str:
    """Returns the address of one unit: that of its document, with what its key has beyond the document's."""
    return f"{repo}:{file_path}{unit_id.removeprefix(document_id)}"


def load_questions(path: Path, vocabulary: Vocabulary | None = None) -> tuple[Question, ...]:
    """Reads a question set.

    A list under ``expected`` means that any one of its paths is right; an object grades them. ``right`` is a list of
    the citation addresses (https) of the sections any of which is right; such a question needs no ``kind``.

    Args:
        path: JSONL file.
        vocabulary: Lists the products that a question may be about; None is the packaged one.

    Raises:
        EvaluationError: The file cannot be read or a line is not a question; names file and line.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EvaluationError(
            f"Question set {path} cannot be read: {error}", remedy="Name a JSONL file of questions", path=str(path)
        ) from error
    return _parsed(text, path, vocabulary)


def _parsed(text: str, path: Path, vocabulary: Vocabulary | None) -> tuple[Question, ...]:
    questions: dict[str, Question] = {}
    areas = (vocabulary or default_vocabulary()).areas
    # Only this ends a line: other ends of lines may be part of a question.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        question = _question(line, path, number, areas)
        if question.id in questions:
            raise _wrong(path, number, f"id {question.id!r} is there twice")
        questions[question.id] = question
    if not questions:
        raise _wrong(path, 1, "there is no question")
    return tuple(questions.values())


def add_question(path: Path, question: Question, vocabulary: Vocabulary | None = None) -> Question:
    """Adds a question to the end of a set.

    Args:
        path: JSONL file; it is made if it is missing.
        question: What is added; without an id it gets one.
        vocabulary: Lists the products that a question may be about; None is the packaged one.

    Returns:
        The question with its id.

    Raises:
        EvaluationError: The question is wrong or its id is there already. The set is as it was.
    """
    present = load_questions(path, vocabulary) if path.exists() else ()
    taken = {known.id for known in present}
    numbered = (f"{question.tool[0]}{number:03}" for number in count(len(present) + 1))
    added = question if question.id else replace(question, id=next(name for name in numbered if name not in taken))
    before = path.read_text("utf-8") if present else ""
    line = json.dumps(added.to_dict(), ensure_ascii=False)
    text = before + ("" if not before or before.endswith("\n") else "\n") + line + "\n"
    # Read back before it is written: a wrong question must not spoil the set.
    _parsed(text, path, vocabulary)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", dir=path.parent)
    draft = Path(name)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        if path.exists():
            shutil.copymode(path, draft)
        else:
            draft.chmod(0o644)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return added


def settable_filters(filters: Mapping[str, Any]) -> dict[str, str]:
    """Returns the filters of a search that a question of a set can have: those of one text."""
    single = {
        name: value[0] if isinstance(value, list) and len(value) == 1 else value for name, value in filters.items()
    }
    return {name: value for name, value in single.items() if isinstance(value, str)}


def digest(questions: Iterable[Question]) -> str:
    """Returns a fingerprint of a question set: figures of two sets are not compared."""
    lines = sorted(json.dumps(q.to_dict(), ensure_ascii=False, sort_keys=True) for q in questions)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _question(line: str, path: Path, number: int, areas: Sequence[str]) -> Question:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise _wrong(path, number, f"not JSON ({error})") from error
    if not isinstance(data, dict):
        raise _wrong(path, number, "not a JSON object")
    if "right" in data:
        data.setdefault("kind", "section")
    for name in ("id", "query", "tool", "kind"):
        if not isinstance(data.get(name), str) or not data[name].strip():
            raise _wrong(path, number, f"{name!r} must be a non-empty string")
    unknown = data.keys() - _KEYS
    if unknown:
        raise _wrong(path, number, f"unknown key {min(unknown)!r}; known are {', '.join(sorted(_KEYS))}")
    if data["tool"] not in COLLECTION_NAMES:
        raise _wrong(path, number, f"tool {data['tool']!r} is not one of {', '.join(COLLECTION_NAMES)}")
    expected, any_of = _right(data, path, number) if "right" in data else _expected(data.get("expected"), path, number)
    return Question(
        id=data["id"],
        query=data["query"],
        tool=data["tool"],
        kind=data["kind"],
        expected=expected,
        any_of=bool(data.get("any_of", any_of)),
        filters=_filters(data, path, number),
        must_contain=_strings(data, "must_contain", path, number),
        forbidden=_strings(data, "forbidden", path, number),
        rivals=_strings(data, "rivals", path, number),
        product_area=_area(data, path, number, areas),
        version=data.get("version") or "",
        intent=data.get("intent") or "",
    )


def _right(data: Mapping[str, Any], path: Path, number: int) -> tuple[dict[str, int], bool]:
    if "expected" in data:
        raise _wrong(path, number, "'right' and 'expected' say the same; only one of them can stand")
    addresses = _strings(data, "right", path, number)
    if not addresses:
        raise _wrong(path, number, "'right' must name at least one address")
    for address in addresses:
        if not address.startswith("https://"):
            raise _wrong(path, number, f"right {address!r} is not an https address")
    return dict.fromkeys(addresses, BEST_GRADE), True


def _expected(value: Any, path: Path, number: int) -> tuple[dict[str, int], bool]:
    graded = dict.fromkeys(value, BEST_GRADE) if isinstance(value, list) else value
    if not isinstance(graded, dict) or not graded:
        raise _wrong(path, number, "'expected' must name at least one 'repo:path'")
    for address, grade in graded.items():
        repo, _, name = str(address).partition(":")
        if not str(address).startswith("https://") and ("/" not in repo or not name):
            raise _wrong(path, number, f"expected {address!r} is not 'owner/repo:path'")
        if grade not in GRADES:
            raise _wrong(path, number, f"grade {grade!r} of {address!r} is not one of {GRADES}")
    return graded, isinstance(value, list)


def _filters(data: Mapping[str, Any], path: Path, number: int) -> dict[str, str]:
    filters = data.get("filters") or {}
    if not isinstance(filters, dict):
        raise _wrong(path, number, "'filters' must be an object")
    allowed = {rule.name for rule in find_collection(data["tool"]).filters}
    unknown = filters.keys() - allowed
    if unknown:
        known = ", ".join(sorted(allowed))
        raise _wrong(path, number, f"{data['tool']} has no filter {min(unknown)!r}; known are {known}")
    return filters


def _strings(data: Mapping[str, Any], name: str, path: Path, number: int) -> tuple[str, ...]:
    value = data.get(name) or []
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise _wrong(path, number, f"{name!r} must be a list of non-empty strings")
    return tuple(value)


def _area(data: Mapping[str, Any], path: Path, number: int, areas: Sequence[str]) -> str:
    area = data.get("product_area") or ""
    if area and area not in areas:
        raise _wrong(path, number, f"product area {area!r} is not one of {', '.join(areas)}")
    return str(area)


def _wrong(path: Path, number: int, problem: str) -> EvaluationError:
    return EvaluationError(f"{path}:{number}: {problem}", remedy="Correct the line", path=str(path), line=number)
