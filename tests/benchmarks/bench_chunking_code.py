"""Chunking of code and CRDs: megabytes a second on all processes, against parsing alone in one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import kfp
from kubeflow_corpus.chunking import grammars
from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.run import chunk_documents
from kubeflow_corpus.chunking.yaml_tree import compose
from kubeflow_corpus.records import Document
from kubeflow_corpus.tokens import wordpiece_counter

from tests.benchmarks.harness import Row, shared
from tests.chunking.code import GO_SOURCES, REAL_REPOS, document

WORKERS = 2


def measure(scale: float) -> Iterator[Row]:
    """Yields the rows of this benchmark."""
    yield throughput("Go and Python", sources(), scale)
    if shared("corpus/manifests") is not None:
        yield throughput("CRD YAML", crd_files(), scale)


def sources() -> list[Document]:
    """Returns the installed kfp package, and the Go sources that a Debian package brings."""
    found = [*Path(kfp.__file__).parent.rglob("*.py"), *(GO_SOURCES.rglob("*.go") if GO_SOURCES.is_dir() else ())]
    texts = [(file, file.read_text("utf-8", "replace")) for file in sorted(found)]
    return [document(f"src/{index}{file.suffix}", text) for index, (file, text) in enumerate(texts)]


def crd_files() -> list[Document]:
    """Returns the real CRDs."""
    folder = shared("corpus/manifests")
    found = [] if folder is None else sorted(folder.rglob("*crd*/**/*.yaml"))
    texts = [(file, file.read_text("utf-8")) for file in found]
    return [
        document(f"crd/{index}.yaml", text, REAL_REPOS["kserve"])
        for index, (_, text) in enumerate(texts)
        if "kind: CustomResourceDefinition" in text and "{{" not in text
    ]


def throughput(name: str, documents: list[Document], scale: float) -> Row:
    """Returns megabytes a second of the chunker in processes, beside the bare parser in one."""
    documents = documents[: max(1, int(len(documents) * scale))]
    size = sum(len(item.text.encode()) for item in documents) / 1e6
    started = time.perf_counter()
    rows = sum(len(chunked.chunks) for chunked in chunk_documents(documents, Budget(wordpiece_counter(), 256), WORKERS))
    ours = size / (time.perf_counter() - started)
    started = time.perf_counter()
    for item in documents:
        if item.source_type == "manifest":
            compose(item.text)
        else:
            grammars.parse(grammars.language_of(item.path), item.text.encode())
    parser = size / (time.perf_counter() - started)
    note = f"{size:.1f} MB, {rows} rows, {WORKERS} processes with their start; the parser runs in one"
    return Row(f"chunking of {name}", ours, "MB/s", baseline=parser, against="parsing alone", note=note)
