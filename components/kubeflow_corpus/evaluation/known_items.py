"""Questions that a corpus asks about itself: whoever types a heading, a thread's title or what a symbol does wants it.

They need no labels, so they measure any corpus; only what occurs once can be asked, for it has one right answer.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kubeflow_corpus.collections import CODE, DOCS, CollectionSpec
from kubeflow_corpus.evaluation.questions import BEST_GRADE, Question, unit_address
from kubeflow_corpus.query.headings import heading_words, read_heading

# One word does not make a question, and of a long sentence the first words are asked.
LEAST_WORDS: Final = 2
LEAST_SENTENCE_WORDS: Final = 4
_MOST_WORDS: Final = 30
_SEPARATOR: Final = " > "
_WORD: Final = re.compile(r"[^\W_]+")
# What a program says of itself: a block of comment lines, a comment in stars, a docstring.
_COMMENT: Final = re.compile(r"\A\s*((?:(?://|#)(?![!\[])[^\n]*\n)+)|\A\s*/\*\*?(.*?)\*/|\"\"\"(.*?)\"\"\"", re.DOTALL)
_COMMENT_SIGNS: Final = re.compile(r"^[ \t]*(?://+|#+|\*+)[ \t]?", re.MULTILINE)
_SENTENCE: Final = re.compile(r"\A\s*(.+?)(?:\.(?=\s|$)|\n\s*\n|\Z)", re.DOTALL)

# What is read of every row.
FIELDS: Final = ("unit_id", "document_id", "chunk_index", "repo", "file_path", "title", "section_path", "product_area")


def fields_of(spec: CollectionSpec) -> tuple[str, ...]:
    """Returns the fields of a row that questions are made of."""
    return (*FIELDS, "content_text", "symbol", "language") if spec is CODE else FIELDS


def known_items(rows: Iterable[Mapping[str, Any]], spec: CollectionSpec, sample: int) -> tuple[Question, ...]:
    """Makes questions of the rows of a collection.

    Args:
        rows: Every row, with `fields_of` the collection.
        spec: The collection.
        sample: Most questions; the same ones each time, however the rows are ordered.
    """
    units: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        held = units.get(str(row["unit_id"]))
        if held is None or row["chunk_index"] < held["chunk_index"]:
            units[str(row["unit_id"])] = row
    asked = [(text, kind, row) for row in units.values() for text, kind in _asked(row, spec)]
    times = Counter(text.casefold() for text, _, _ in asked)
    once = [item for item in asked if times[item[0].casefold()] == 1]
    chosen = sorted(once, key=lambda item: hashlib.sha256(str(item[2]["unit_id"]).encode()).digest())[:sample]
    return tuple(_question(text, kind, row, spec) for text, kind, row in chosen)


def _asked(row: Mapping[str, Any], spec: CollectionSpec) -> Iterator[tuple[str, str]]:
    """Yields what a unit is asked by, and of which kind that is."""
    if spec is CODE:
        sentence = first_sentence(str(row["content_text"])) if row["symbol"] else ""
        if len(_WORD.findall(sentence)) >= LEAST_SENTENCE_WORDS:
            yield sentence, str(row["language"])
        return
    heading = str(row["section_path"]).rpartition(_SEPARATOR)[2] if spec is DOCS else str(row["title"])
    if len(_WORD.findall(heading)) >= LEAST_WORDS:
        yield heading, _heading_kind(row) if spec is DOCS else "title"


def _heading_kind(row: Mapping[str, Any]) -> str:
    heading = read_heading(heading_words(), str(row["title"]), str(row["section_path"]), str(row["file_path"]))
    if heading.reference:
        return "reference"
    if heading.defines:
        return "definition"
    return "installation" if heading.installs == 1 else "section"


def first_sentence(code: str) -> str:
    """Returns the first sentence of what a symbol says about itself; empty where it says nothing.

    Args:
        code: Its source, with the comment before it.
    """
    comment = _COMMENT.search(code)
    if comment is None:
        return ""
    said = _COMMENT_SIGNS.sub("", next(filter(None, comment.groups()), ""))
    sentence = _SENTENCE.match(said)
    return " ".join(sentence[1].split()[:_MOST_WORDS]) if sentence else ""


def _question(text: str, kind: str, row: Mapping[str, Any], spec: CollectionSpec) -> Question:
    areas: Sequence[str] = row.get("product_area") or ()
    return Question(
        id=hashlib.sha256(str(row["unit_id"]).encode()).hexdigest()[:12],
        query=text,
        tool=spec.name,
        kind=kind,
        expected={unit_address(row["repo"], row["file_path"], row["document_id"], row["unit_id"]): BEST_GRADE},
        product_area=str(areas[0]) if len(areas) == 1 else "",
    )
