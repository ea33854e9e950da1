"""Made-up material of any size, as long and as varied as what real sources bring."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path

import numpy as np
from kubeflow_corpus.artifacts import write_jsonl
from kubeflow_corpus.chunking.compose import Budget, search_text
from kubeflow_corpus.model import ModelIdentity
from kubeflow_corpus.records import Chunk, Document, seal
from kubeflow_corpus.tokens import ApproximateCounter
from numpy.typing import NDArray

SOURCE = "made-up-website"
REPO = "example/made-up-website"
REVISION = "0123456789abcdef0123456789abcdef01234567"
SECTIONS = 10
DIMENSION = 384
IDENTITY = ModelIdentity("benchmark/random", "", DIMENSION, 256)
BUDGET = Budget(ApproximateCounter(), IDENTITY.max_tokens)
_WORDS = 5_000
# Sections of the Kubeflow and KServe sites: from a note to the limit of the model.
_LENGTHS = (20, 45, 80, 110)
_SENTENCE = 12
_COMMON = """
the of and to a in is for with on that by as from this are be can it when an or which each has its not how set run use
if only then more all one new into than before after until where no same other without name time first value
"""
_STEMS = ("pod", "queue", "trial", "metric", "cache", "runtime", "tenant", "gateway", "volume", "replica")


@cache
def _vocabulary() -> tuple[list[str], list[float]]:
    words = _COMMON.split()
    words += [f"{_STEMS[number % len(_STEMS)]}{number}" for number in range(_WORDS - len(words))]
    # Words of a language are about as frequent as one by their rank.
    return words, list(accumulate(1 / rank for rank in range(1, _WORDS + 1)))


def section(number: int) -> str:
    """Returns the text of one section: always the same for a number, different for each."""
    generator = random.Random(number)
    words, weights = _vocabulary()
    chosen = generator.choices(words, cum_weights=weights, k=generator.choice(_LENGTHS))
    sentences = [" ".join(chosen[start : start + _SENTENCE]) for start in range(0, len(chosen), _SENTENCE)]
    return f"Section {number}. {'. '.join(sentences)}."


def some_words(generator: random.Random) -> str:
    """Returns words of a question."""
    words, weights = _vocabulary()
    return " ".join(generator.choices(words, cum_weights=weights, k=6))


def documents(rows: int) -> Iterator[Document]:
    """Yields pages of a documentation site that a chunker cuts into about that many rows."""
    for page in range(rows // SECTIONS):
        path = f"content/en/docs/part-{page % 97}/page-{page:06d}.md"
        numbers = range(page * SECTIONS, (page + 1) * SECTIONS)
        body = "\n\n".join(f"## Heading {number}\n\n{section(number)}" for number in numbers)
        yield Document(
            document_id=f"{SOURCE}:{path}",
            source=SOURCE,
            source_type="docs",
            repo=REPO,
            revision=REVISION,
            path=path,
            url=f"https://github.com/{REPO}/blob/{REVISION}/{path}",
            title="",
            text=f"---\ntitle: Page {page}\n---\n\n{body}\n",
            metadata={
                "product_area": ["platform"],
                "version": ["1.9"],
                "updated_at": "2026-01-02T03:04:05Z",
                "site": {
                    "generator": "hugo",
                    "root": "content/en",
                    "base_url": "https://made-up.example/",
                    "params": {},
                },
            },
        )


def chunks(rows: int) -> Iterator[Chunk]:
    """Yields a number of rows of a documentation site, as a chunker makes them."""
    for page in range(rows // SECTIONS):
        path, title = f"content/en/docs/part-{page % 97}/page-{page:06d}.md", f"Page {page}"
        yield from seal(_chunk(path, title, number) for number in range(page * SECTIONS, (page + 1) * SECTIONS))


def _chunk(path: str, title: str, number: int) -> Chunk:
    heading, text = f"Heading {number}", section(number)
    document_id = f"{SOURCE}:{path}"
    return Chunk(
        document_id=document_id,
        unit_id=f"{document_id}#heading-{number}",
        view="",
        chunk_index=0,
        start_line=number % SECTIONS * 10 + 1,
        end_line=number % SECTIONS * 10 + 9,
        title=title,
        section_path=heading,
        content_text=text,
        search_text=search_text(title, heading, text),
        embedding_text=f"{title} > {heading}\n{text}",
        citation_url=f"https://made-up.example/{path}#heading-{number}",
        file_path=path,
        repo=REPO,
        source=SOURCE,
        source_type="docs",
        product_area=("platform",),
        version=("1.9",),
        revision=REVISION,
        updated_at="2026-01-02T03:04:05Z",
        fields={"doc_type": "docs", "release_date": ""},
    )


def write_chunks(path: Path, rows: int) -> Path:
    """Writes rows as the `chunk` step does."""
    write_jsonl(path, (chunk.to_dict() for chunk in chunks(rows)))
    return path


def random_vectors(number: int, seed: int) -> NDArray[np.float32]:
    """Returns unit vectors of shape (number, `DIMENSION`)."""
    vectors = np.random.default_rng(seed).standard_normal((number, DIMENSION)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
