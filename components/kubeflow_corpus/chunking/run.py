"""Which chunker reads which document, one at a time or a whole source."""

from __future__ import annotations

import multiprocessing
import posixpath
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.records import Chunked, Document, Skip
from kubeflow_corpus.tokens import WordPieceCounter, wordpiece_counter

if TYPE_CHECKING:
    from kubeflow_corpus.chunking.manifests.crds import CodeContext
    from kubeflow_corpus.vocabulary import Vocabulary

_PACKAGE: Final = "kubeflow_corpus.chunking"
_MANIFESTS: Final = "manifests.objects"
# Source type and file extension to the module that cuts such documents; "" is any extension.
CHUNKERS: Final[Mapping[tuple[str, str], str]] = {
    ("docs", ".md"): "docs.markdown",
    ("docs", ".mdx"): "docs.markdown",
    ("docs", ".markdown"): "docs.markdown",
    ("docs", ".json"): "docs.release_info",
    ("issue", ""): "threads.thread",
    ("manifest", ""): _MANIFESTS,
    ("code", ""): "code.symbols",
}
# Those that read words of the project.
_READ_WORDS: Final = frozenset({"docs.markdown", "threads.thread"})
# Documents that go to a worker process at once: enough to outweigh the way there.
_BATCH_CHARS: Final = 200_000
_BATCH_DOCUMENTS: Final = 64
# Batches in flight for each worker: what bounds memory.
_AHEAD: Final = 3


class _Chunker(Protocol):
    def chunk(self, document: Document, budget: Budget) -> Chunked: ...


class _WordsChunker(Protocol):
    def chunk(self, document: Document, budget: Budget, vocabulary: Vocabulary | None) -> Chunked: ...


def chunk_document(
    document: Document, budget: Budget, context: CodeContext | None = None, vocabulary: Vocabulary | None = None
) -> Chunked:
    """Cuts one document by its own structure.

    Args:
        document: A page, a thread, a source file or a manifest.
        budget: How many tokens the embedding model reads.
        context: What the other files of a code source say about its manifests (`crds.collect_context`).
        vocabulary: The words of the project; None is the packaged one. Manifests take it from their context.

    Returns:
        Its rows; or a skip if no chunker takes such a document.
    """
    extension = posixpath.splitext(document.path)[1].lower()
    name = CHUNKERS.get((document.source_type, extension)) or CHUNKERS.get((document.source_type, ""))
    if name is None:
        detail = f"{document.source_type} {extension or 'without extension'}"
        return Chunked(skipped=Skip(document.document_id, document.path, "no_chunker", detail))
    if name == _MANIFESTS and (context or vocabulary):
        from kubeflow_corpus.chunking.manifests import objects as manifests
        from kubeflow_corpus.chunking.manifests.crds import collect_context

        return manifests.chunk(document, budget, context or collect_context((), vocabulary=vocabulary))
    module = import_module(f"{_PACKAGE}.{name}")
    if name in _READ_WORDS:
        return cast(_WordsChunker, module).chunk(document, budget, vocabulary)
    return cast(_Chunker, module).chunk(document, budget)


def chunk_documents(
    documents: Iterable[Document],
    budget: Budget,
    workers: int = 1,
    context: CodeContext | None = None,
    around: Iterable[Document] = (),
    vocabulary: Vocabulary | None = None,
) -> Iterator[Chunked]:
    """Cuts the documents of a source, in order.

    Documentation pages wait until all are read: one page may set front matter for others, and hide them by it.

    Args:
        documents: Documents; they are read as results are asked for.
        budget: How many tokens the embedding model reads.
        workers: Processes; 1 stays in this one.
        context: What the files of a code source say about each other, from a first pass over the same documents.
        around: Documents that are not cut and that those which are cut depend on: section pages of a site.
        vocabulary: The words of the project; None is the packaged one.

    Yields:
        The rows of each document, or why it has none.
    """
    prepared = _with_inheritance(documents, around)
    if workers <= 1:
        for document in prepared:
            yield chunk_document(document, budget, context, vocabulary)
        return
    counter = None if isinstance(budget.counter, WordPieceCounter) else budget.counter
    # Spawned, not forked: the tokenizer runs threads, and a fork of those may hang.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, _start_worker, (counter, budget.tokens, context, vocabulary)) as pool:
        running: deque[Future[list[Chunked]]] = deque()
        for batch in _batches(prepared):
            running.append(pool.submit(_chunk_batch, batch))
            if len(running) >= workers * _AHEAD:
                yield from running.popleft().result()
        while running:
            yield from running.popleft().result()


def _with_inheritance(documents: Iterable[Document], around: Iterable[Document]) -> Iterator[Document]:
    pages: list[Document] = []
    for document in documents:
        if document.source_type == "docs":
            pages.append(document)
        else:
            yield document
    if pages:
        yield from _inheriting(pages, [*pages, *(page for page in around if page.source_type == "docs")])


def _inheriting(pages: list[Document], every: list[Document]) -> Iterator[Document]:
    from kubeflow_corpus.sites.base import Site
    from kubeflow_corpus.sites.registry import generator_named

    found = [
        (page.source, inheritance)
        for page in every
        for inheritance in generator_named(Site.of(page).generator).inheritances(page)
    ]
    found.sort(key=lambda item: len(item[1].folder))
    for page in pages:
        values: dict[str, Any] = {}
        for source, inheritance in found:
            if source == page.source and inheritance.covers(page.path):
                values.update(inheritance.values)
        yield replace(page, metadata={**page.metadata, "inherited": values}) if values else page


def _batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document.text)
        if size >= _BATCH_CHARS or len(batch) >= _BATCH_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


_worker_budget: Budget | None = None
_worker_context: CodeContext | None = None
_worker_vocabulary: Vocabulary | None = None


def _start_worker(counter: Any, tokens: int, context: CodeContext | None, vocabulary: Vocabulary | None) -> None:
    global _worker_budget, _worker_context, _worker_vocabulary
    _worker_vocabulary = vocabulary
    _worker_context = context
    _worker_budget = Budget(counter or wordpiece_counter(), tokens)


def _chunk_batch(batch: list[Document]) -> list[Chunked]:
    assert _worker_budget is not None
    return [chunk_document(document, _worker_budget, _worker_context, _worker_vocabulary) for document in batch]
