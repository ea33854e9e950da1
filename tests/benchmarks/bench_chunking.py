"""Chunking by type of source: megabytes a second of processor time, memory, and the bare parsers of the same texts.

The ratio says what finding structure, counting tokens and making rows cost beside reading the syntax. A bare parser
builds its tree and throws it away; if there is no parser (threads are JSON) there is nothing to compare with.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import kfp
from kubeflow_corpus.chunking.code import grammars
from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.manifests.yaml_tree import read_tree
from kubeflow_corpus.chunking.run import chunk_documents
from kubeflow_corpus.records import Document
from kubeflow_corpus.tokens import wordpiece_counter

from tests.benchmarks.harness import Row, peak_memory_mb, shared
from tests.benchmarks.material import documents as made_up_pages
from tests.chunking.code_samples import GO_SOURCES, REAL_REPOS, document
from tests.chunking.doc_samples import real_pages
from tests.servers.sample_threads import sample_documents

_ROOT = Path(__file__).parents[2]
MADE_UP_ROWS = 2_000
# The sample threads are few: read so often they take long enough to be timed.
THREAD_COPIES = 10


def measure(scale: float) -> Iterator[Row]:
    """Yields the rows of this benchmark."""
    for name in KINDS:
        command = [sys.executable, "-m", "tests.benchmarks.bench_chunking", name, str(scale)]
        # In a process of its own, so that its memory is that of its chunker alone.
        done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
        figures = json.loads(done.stdout.splitlines()[-1])
        if not figures["megabytes"]:
            continue
        note = f"{figures['megabytes']:.1f} MB, {figures['rows']:,} rows, at most {figures['memory']:.0f} MB of memory"
        parser = figures["parser"]
        yield Row(
            f"chunking of {name}",
            figures["megabytes"] / figures["seconds"],
            "MB/CPU-s",
            figures["megabytes"] / parser if parser else None,
            "parsing alone" if parser else "",
            note=note,
        )
        yield Row(f"memory of chunking {name}", figures["memory"], "MB", note=f"{figures['before']:.0f} MB before")


def pages() -> list[Document]:
    """Returns the real pages, or made-up ones."""
    return list(real_pages()) or list(made_up_pages(MADE_UP_ROWS))


def threads() -> list[Document]:
    """Returns the sample threads, as often as takes some time."""
    return list(sample_documents().values()) * THREAD_COPIES


def code() -> list[Document]:
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


def parse_page(item: Document) -> None:
    """Reads Markdown and nothing else."""
    from markdown_it import MarkdownIt

    MarkdownIt("commonmark").enable("table").parse(item.text)


def parse_code(item: Document) -> None:
    """Reads syntax and nothing else."""
    grammars.parse(grammars.language_of(item.path), item.text.encode())


KINDS: dict[str, tuple[Callable[[], list[Document]], Callable[[Document], object] | None]] = {
    "documentation": (pages, parse_page),
    "issue threads": (threads, None),
    "Go and Python": (code, parse_code),
    "CRDs": (crd_files, lambda item: read_tree(item.text)),
}


def main() -> None:
    """Measures one kind of source."""
    name, scale = sys.argv[1], float(sys.argv[2])
    read, parse = KINDS[name]
    every = read()
    # Spread over all of them: the first files of a folder are like each other.
    chosen = every[:: max(1, round(1 / scale))]
    budget = Budget(wordpiece_counter(), 256)
    list(chunk_documents(chosen[:1], budget))
    before = peak_memory_mb()
    started = time.process_time()
    rows = sum(len(chunked.chunks) for chunked in chunk_documents(chosen, budget))
    seconds = time.process_time() - started
    memory = peak_memory_mb()
    started = time.process_time()
    for item in chosen if parse else ():
        assert parse is not None
        parse(item)
    figures = {
        "megabytes": sum(len(item.text.encode()) for item in chosen) / 1e6,
        "rows": rows,
        "seconds": seconds,
        "before": before,
        "memory": memory,
        "parser": time.process_time() - started if parse else 0.0,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
