"""The three texts of a row: what a reader sees, what BM25 reads and what the model reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kubeflow_corpus.terms import distinct_identifier_parts
from kubeflow_corpus.tokens import TokenCounter

# The tokens that frame every input of a BERT-like model: [CLS] and [SEP].
SPECIAL_TOKENS: Final = 2
# A header may take a quarter of what the model reads; the rest is for the content.
HEADER_SHARE: Final = 4
# VARCHAR fields hold at most this many UTF-8 bytes.
MAX_TEXT_BYTES: Final = 65_535
SEPARATOR: Final = " > "


@dataclass(frozen=True, slots=True)
class Budget:
    """How many tokens of a text the embedding model reads.

    Attributes:
        counter: Counts tokens of that model.
        tokens: What the model reads, special tokens included (384 for all-mpnet-base-v2, 256 for the embedded model).
    """

    counter: TokenCounter
    tokens: int

    def header(self, title: str, section_path: str) -> str:
        """Returns the line that an embedding text starts with, cut to its share of the budget."""
        return self.counter.truncate(_joined(title, section_path), self.tokens // HEADER_SHARE)

    def room(self, header: str) -> int:
        """Returns how many tokens of content fit below a header."""
        return self.tokens - SPECIAL_TOKENS - self.counter.count(header)

    def embedding_text(self, header: str, content: str) -> tuple[str, bool]:
        """Returns header and content as the model will read them, and whether the content had to be cut."""
        room = self.room(header)
        cut = self.counter.count(content) > room
        return framed(header, self.counter.truncate(content, room) if cut else content), cut

    def headers(self, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Header]:
        """Returns the header of each place (title, section path) of a document, counted in one call.

        A chunker that has counted its content needs nothing else: `framed` puts the two together.
        """
        wanted = list(dict.fromkeys(places))
        texts = [_joined(title, path) for title, path in wanted]
        share = self.tokens // HEADER_SHARE
        headers = {}
        for place, text, count in zip(wanted, texts, self.counter.count_many(texts), strict=True):
            if count > share:
                text = self.counter.truncate(text, share)
                count = self.counter.count(text)
            headers[place] = Header(text, self.tokens - SPECIAL_TOKENS - count)
        return headers


@dataclass(frozen=True, slots=True)
class Header:
    """What an embedding text starts with, and how many tokens of content fit below it."""

    text: str
    room: int


def framed(header: str, content: str) -> str:
    """Returns an embedding text: header and content."""
    return f"{header}\n{content}" if header else content


def search_text(title: str, section_path: str, content: str, *, identifiers: bool = True) -> str:
    """Returns what BM25 reads.

    The title counts twice and the breadcrumb once: measured, leaving them out costs .084 MRR on documentation. The
    parts of identifiers are appended, so that ``min replicas`` finds ``minReplicas``.

    Args:
        title: Title of the document.
        section_path: Breadcrumb of the unit.
        content: Clean evidence.
        identifiers: Whether to append the parts of identifiers.
    """
    lines = [title, title, section_path, content]
    if identifiers:
        # Once each: the parts make an identifier findable and must not outweigh the words of the text.
        lines.append(" ".join(distinct_identifier_parts(f"{title}\n{section_path}\n{content}")))
    return fit_bytes("\n".join(line for line in lines if line), MAX_TEXT_BYTES)


def fit_bytes(text: str, limit: int) -> str:
    """Returns the longest prefix of a text that has at most `limit` UTF-8 bytes."""
    if len(text) * 4 <= limit:
        return text
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


def _joined(title: str, section_path: str) -> str:
    return SEPARATOR.join(part for part in (title, section_path) if part)
