"""Which chunker reads which document, one at a time or a whole source."""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.isolation import Limits, attempt, run_isolated
from kubeflow_corpus.file_context import explains_others
from kubeflow_corpus.records import Chunked, Document, FailedDocument, Skip
from kubeflow_corpus.tokens import TokenCounter, WordPieceCounter, wordpiece_counter

if TYPE_CHECKING:
    from kubeflow_corpus.chunking.manifests.crds import CodeContext, CodeParts
    from kubeflow_corpus.sites.base import Inheritance
    from kubeflow_corpus.vocabulary import Vocabulary

_PACKAGE: Final = "kubeflow_corpus.chunking"
_MANIFESTS: Final = "manifests.objects"
_SYMBOLS: Final = "code.symbols"
# Source type and file extension to the module that cuts such documents; "" is any extension.
CHUNKERS: Final[Mapping[tuple[str, str], str]] = {
    ("docs", ".md"): "docs.markdown",
    ("docs", ".mdx"): "docs.markdown",
    ("docs", ".markdown"): "docs.markdown",
    ("docs", ".json"): "docs.release_info",
    ("issue", ""): "threads.thread",
    ("manifest", ""): _MANIFESTS,
    ("code", ""): _SYMBOLS,
}
# Those that read words of the project.
_READ_WORDS: Final = frozenset({"docs.markdown", "threads.thread"})


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
        context: What the other files of a code source say about its manifests and names (`crds.collect_context`).
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
    chunked = cast(_Chunker, module).chunk(document, budget)
    if name == _SYMBOLS and context and document.repo in context.values:
        from kubeflow_corpus.chunking.code.values import add_values

        return add_values(document, chunked, context.values[document.repo], budget)
    return chunked


def chunk_documents(
    documents: Iterable[Document],
    budget: Budget,
    workers: int = 0,
    context: CodeContext | None = None,
    around: Iterable[Document] = (),
    vocabulary: Vocabulary | None = None,
    limits: Limits | None = None,
) -> Iterator[Chunked]:
    """Cuts the documents of a source, in order; one that cannot be cut is `Chunked.failed` and costs no other.

    Documentation pages wait until all are read: one page may set front matter for others, and hide them by it.

    Args:
        documents: Documents; they are read as results are asked for.
        budget: How many tokens the embedding model reads.
        workers: Processes; 0 stays in this one, where what a document raises is caught and nothing limits its time
            and memory.
        context: What the files of a code source say about each other (`scan_code`).
        around: Documents that are not cut and that those which are cut depend on: section pages of a site.
        vocabulary: The words of the project; None is the packaged one.
        limits: What one document may take.

    Yields:
        The rows of each document, or why it has none.

    Raises:
        CatalogueError: A document names an unknown site generator.
    """
    counter = None if isinstance(budget.counter, WordPieceCounter) else budget.counter
    task = _Cut(counter, budget.tokens, context, vocabulary)
    # What failed before it could be cut waits for its turn: results are in the order of the documents.
    waiting: deque[FailedDocument | None] = deque()
    prepared = _noting_failures(_with_inheritance(documents, around), waiting)
    if workers < 1:
        task.prepare()
        results: Iterator[Chunked | FailedDocument] = (attempt(task, document) for document in prepared)
    else:
        results = run_isolated(task, prepared, workers, limits)
    for result in results:
        while (before := waiting.popleft()) is not None:
            yield Chunked(failed=before)
        yield Chunked(failed=result) if isinstance(result, FailedDocument) else result
    yield from (Chunked(failed=left) for left in waiting if left is not None)


def _noting_failures(
    items: Iterable[Document | FailedDocument], waiting: deque[FailedDocument | None]
) -> Iterator[Document]:
    for item in items:
        if isinstance(item, FailedDocument):
            waiting.append(item)
        else:
            waiting.append(None)
            yield item


def scan_code(
    documents: Iterable[Document],
    repos: Collection[str],
    vocabulary: Vocabulary,
    workers: int,
    limits: Limits | None = None,
) -> tuple[CodeContext, list[FailedDocument]]:
    """Reads what the files of a code source say about each other.

    Go types explain CRDs, of several copies of a CRD one is shown, and names stand for values in other files.

    Args:
        documents: All files of the source.
        repos: ``owner/name`` of every repository of the catalogue.
        vocabulary: The words of the project.
        workers: Processes, at least 1.
        limits: What one document may take.

    Returns:
        The context of `chunk_documents`, and the documents that could not be read.
    """
    from kubeflow_corpus.chunking.manifests.crds import collect_context

    context, failures = collect_context((), repos, vocabulary), []
    telling = (document for document in documents if explains_others(document))
    for part in run_isolated(_Scan(), telling, workers, limits):
        if isinstance(part, FailedDocument):
            failures.append(part)
        else:
            context.merge(*part)
    return context, failures


@dataclass(frozen=True, slots=True)
class _Cut:
    """Cuts a document; where the counter is None it is loaded in the process that counts."""

    counter: TokenCounter | None
    tokens: int
    context: CodeContext | None
    vocabulary: Vocabulary | None

    def prepare(self) -> None:
        self._budget()

    def __call__(self, document: Document) -> Chunked:
        return chunk_document(document, self._budget(), self.context, self.vocabulary)

    def _budget(self) -> Budget:
        return Budget(self.counter or wordpiece_counter(), self.tokens)


@dataclass(frozen=True, slots=True)
class _Scan:
    """Reads what one file says about others."""

    def prepare(self) -> None:
        pass

    def __call__(self, document: Document) -> CodeParts:
        from kubeflow_corpus.chunking.manifests.crds import collect_context

        part = collect_context([document])
        return part.go, part.copies, part.values


def _with_inheritance(documents: Iterable[Document], around: Iterable[Document]) -> Iterator[Document | FailedDocument]:
    pages: list[Document] = []
    for document in documents:
        if document.source_type == "docs":
            pages.append(document)
        else:
            yield document
    if pages:
        yield from _inheriting(pages, [*pages, *(page for page in around if page.source_type == "docs")])


def _inheriting(pages: list[Document], every: list[Document]) -> Iterator[Document | FailedDocument]:
    from kubeflow_corpus.sites.base import Site
    from kubeflow_corpus.sites.registry import generator_named

    found: list[tuple[str, Inheritance]] = []
    failures: dict[str, FailedDocument] = {}
    for page in every:
        read = attempt(lambda page: list(generator_named(Site.of(page).generator).inheritances(page)), page)
        if isinstance(read, FailedDocument):
            failures[page.document_id] = read
        else:
            found += [(page.source, inheritance) for inheritance in read]
    found.sort(key=lambda item: len(item[1].folder))
    for page in pages:
        if page.document_id in failures:
            yield failures[page.document_id]
            continue
        values: dict[str, Any] = {}
        for source, inheritance in found:
            if source == page.source and inheritance.covers(page.path):
                values.update(inheritance.values)
        yield replace(page, metadata={**page.metadata, "inherited": values}) if values else page
