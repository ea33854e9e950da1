"""The text that a document was cut from, where a local run kept it, beside the row or the rule of every line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.errors import CorpusError

if TYPE_CHECKING:
    from kubeflow_corpus.records import Document
    from kubeflow_corpus.vocabulary import Vocabulary

# Where KFP's local runner puts what `fetch` wrote of a source.
_FETCHED: Final = "**/fetch*/documents/rows.jsonl.zst"
# Runs that are looked through, the newest first; a run reads every source, and may have failed for one.
_MOST_FILES: Final = 400


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an original.

    Attributes:
        number: From 1.
        text: As it is.
        rows: Numbers of the rows that carry it.
        removed: The rule that removed it; empty where none did.
    """

    number: int
    text: str
    rows: tuple[int, ...]
    removed: str


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of an original that one thing happened to.

    Attributes:
        lines: Its lines.
        removed: The rule that removed them; empty where rows carry them.
        rows: Numbers of the rows that carry them.
        begun: Numbers of the rows that begin here.
    """

    lines: tuple[Line, ...]
    removed: str
    rows: tuple[int, ...]
    begun: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Original:
    """The text that a document was cut from.

    Attributes:
        revision: Commit of the text; empty where its source has none.
        lines: Its lines.
        removed: Lines by the rule that removed them.
        rows: Texts of the rows that it is cut into, the first is number 1.
    """

    revision: str
    lines: tuple[Line, ...]
    removed: Mapping[str, int]
    rows: tuple[str, ...]


class Originals:
    """Finds originals among what local runs kept.

    Args:
        folder: Of local runs (``--local`` of ``run``).
    """

    def __init__(self, folder: Path) -> None:
        self._runs = folder / "runs"
        self._sources: dict[Path, str] = {}

    def find(self, document_id: str, tokens: int, vocabulary: Vocabulary) -> Original | str:
        """Returns the original of a document, or why there is none.

        Args:
            document_id: Key of the document.
            tokens: What the model of its collection reads.
            vocabulary: The words of its project.
        """
        try:
            document = self._read(document_id)
            if document is None:
                return (
                    f"No run in {self._runs} kept it: run the ingestion on this machine, or name its folder (--local)."
                )
            return _inspected(document, tokens, vocabulary)
        except ModuleNotFoundError as error:
            return f"{error.name} is not installed: pip install 'kubeflow-corpus[ingest]' shows originals."
        except (CorpusError, OSError, ValueError) as error:
            return f"The original cannot be read: {error}"

    def _read(self, document_id: str) -> Document | None:
        from kubeflow_corpus.artifacts import read_documents

        source = document_id.partition(":")[0]
        for path in self._files(source):
            for document in read_documents(path):
                if document.document_id == document_id:
                    return document
        return None

    def _files(self, source: str) -> Iterator[Path]:
        """Yields what was fetched of a source, the newest first."""
        from kubeflow_corpus.artifacts import read_documents

        found = sorted(self._runs.glob(_FETCHED), reverse=True)
        for path in found[:_MOST_FILES]:
            if path not in self._sources:
                try:
                    first = next(read_documents(path), None)
                except CorpusError:
                    # A run that was ended left half a file.
                    first = None
                self._sources[path] = first.source if first is not None else ""
            if self._sources[path] == source:
                yield path


def _inspected(document: Document, tokens: int, vocabulary: Vocabulary) -> Original:
    from kubeflow_corpus.chunking.compose import Budget
    from kubeflow_corpus.chunking.inspection import inspect_document
    from kubeflow_corpus.tokens import wordpiece_counter

    inspection = inspect_document(document, Budget(wordpiece_counter(), tokens), vocabulary)
    texts = _lines(document, vocabulary)
    rows: list[list[int]] = [[] for _ in texts]
    removed = [""] * len(texts)
    for number, row in enumerate(inspection["rows"], 1):
        for place in _places(row, len(texts)):
            rows[place].append(number)
    for gap in inspection["removed"]:
        for place in _places(gap, len(texts)):
            removed[place] = str(gap["reason"])
    lines = (
        Line(place + 1, text.rstrip("\r\n"), tuple(rows[place]), "" if rows[place] else removed[place])
        for place, text in enumerate(texts)
    )
    cut = tuple(str(row["content_text"]) for row in inspection["rows"])
    return Original(document.revision, tuple(lines), inspection["removed_lines"], cut)


def blocks(lines: Sequence[Line]) -> Iterator[Block]:
    """Yields lines in blocks, each row beginning in the first block that has a line of it."""
    seen: set[int] = set()
    for (rows, removed), group in groupby(lines, key=lambda line: (line.rows, line.removed)):
        begun = tuple(row for row in rows if row not in seen)
        seen.update(rows)
        yield Block(tuple(group), removed, rows, begun)


def _lines(document: Document, vocabulary: Vocabulary) -> list[str]:
    """Returns the lines that rows count: those of a file, or of a thread as it is read."""
    from kubeflow_corpus.chunking.threads.thread_text import read_thread
    from kubeflow_corpus.text_lines import split_lines

    return (
        read_thread(document.text, vocabulary).lines if document.source_type == "issue" else split_lines(document.text)
    )


def _places(span: Mapping[str, Any], lines: int) -> range:
    return range(max(int(span["start_line"]), 1) - 1, min(int(span["end_line"]), lines))
