"""What the embedding model reads of a text: the header that it starts with, and the room for content below it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kubeflow_corpus.tokens import TokenCounter

# The tokens that frame every input of a BERT-like model: [CLS] and [SEP].
SPECIAL_TOKENS: Final = 2
# A header may take a quarter of what the model reads; the rest is for the content.
HEADER_SHARE: Final = 4
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


def _joined(title: str, section_path: str) -> str:
    return SEPARATOR.join(part for part in (title, section_path) if part)
