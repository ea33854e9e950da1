from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from kubeflow_corpus.chunking.isolation import Limits, run_isolated
from kubeflow_corpus.chunking.manifests.crds import collect_context
from kubeflow_corpus.chunking.run import chunk_documents, scan_code
from kubeflow_corpus.records import Document, FailedDocument
from kubeflow_corpus.vocabulary import default_vocabulary

from tests.chunking.code_samples import document, sample
from tests.chunking.doc_samples import budget, page

LIMITS = Limits(seconds=0.5, memory_mb=100, patience=4)


@dataclass(frozen=True)
class Task:
    """Does what a document says."""

    def prepare(self) -> None:
        pass

    def __call__(self, document: Document) -> str:
        match document.text:
            case "raise":
                raise ValueError("no\ngood")
            case "spin":
                while True:
                    pass
            case "wait":
                time.sleep(1_000)
            case "eat":
                held = []
                while True:
                    held.append(bytearray(1 << 22))
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
        return document.text.upper()


def documents(*texts: str) -> Iterator[Document]:
    return (document(f"{number}.txt", text) for number, text in enumerate(texts))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_document_that_fails_in_any_way_costs_itself(workers: int) -> None:
    texts = ["a", "raise", "b", "spin", "wait", "c", "eat", "killed", "d", "segfault", "e"]
    results = list(run_isolated(Task(), documents(*texts), workers, LIMITS))
    found = [item.reason if isinstance(item, FailedDocument) else item for item in results]
    limit = "time limit"
    assert found == ["A", "defect", "B", limit, limit, "C", "memory limit", "memory limit", "D", "crash", "E"]
    named = {item.path: item.detail for item in results if isinstance(item, FailedDocument)}
    assert named["1.txt"].startswith("ValueError: no good")
    assert named["9.txt"] == "its process ended with code -11"


def test_many_documents_are_dealt_with_in_order() -> None:
    texts = [f"text {number}" for number in range(500)]
    texts[70] = texts[130] = "killed"
    results = list(run_isolated(Task(), documents(*texts), 2, LIMITS))
    assert [number for number, item in enumerate(results) if isinstance(item, FailedDocument)] == [70, 130]
    assert [item for item in results if isinstance(item, str)] == [t.upper() for t in texts if t != "killed"]


def test_a_reader_that_stops_early_leaves_no_process() -> None:
    results = run_isolated(Task(), documents(*["a"] * 64, *["wait"] * 200), 2, LIMITS)
    assert next(results) == "A"
    results.close()  # type: ignore[attr-defined]


@dataclass(frozen=True)
class NeverReady(Task):
    def prepare(self) -> None:
        raise RuntimeError("a package is missing")


def test_processes_that_do_not_start_are_not_blamed_on_documents() -> None:
    with pytest.raises(ChildProcessError, match="did not start"):
        list(run_isolated(NeverReady(), documents("a"), 1, LIMITS))


def test_go_types_that_are_read_in_processes_are_those_that_are_read_here() -> None:
    files = [sample(path) for path in ("configmap.yaml", "deployment.yaml")]
    go = 'package v1\n\n// A is a thing.\ntype A struct {\n\tB string `json:"b"`\n}\n\nconst DefaultB = "x"\n'
    files += [document("pkg/a.go", go), document("pkg/b.go", go.replace("A is", "A was")), document("c/b.go", go)]
    context, failures = scan_code(files, ["kubeflow/manifests"], default_vocabulary(), 2)
    assert not failures
    assert context == collect_context(files, ["kubeflow/manifests"])


def test_a_page_whose_front_matter_fails_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [page("text", path=f"content/en/docs/{name}.md") for name in ("a", "b", "c")]
    pages[1] = Document(**{**pages[1].to_dict(), "metadata": {"site": 7}})
    results = list(chunk_documents(pages, budget()))
    assert [bool(result.chunks) for result in results] == [True, False, True]
    assert results[1].failed and results[1].failed.path == pages[1].path
