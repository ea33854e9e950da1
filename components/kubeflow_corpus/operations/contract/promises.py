"""The promises, in the order in which they are tried: later ones build on what earlier ones wrote."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from kubeflow_corpus.collections import DOCS
from kubeflow_corpus.errors import CollectionNotFound, CorpusError, InvalidVector, ModelMismatch, VersionInUse
from kubeflow_corpus.model import ModelIdentity
from kubeflow_corpus.operations.contract.trial import AWKWARD, PAGES, Trial
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.store.schema import keys_filter
from kubeflow_corpus.store.versions import (
    drop_version,
    list_versions,
    live_name,
    live_version,
    properties_of,
    rollback,
)

_LINK: Final = re.compile(r"https?://|www\.")
# Of two answers for one text: batches are computed in another order, so the last bits differ.
_SAME: Final = 0.999
_LONG_TEXT_WORDS: Final = 5_000
_BATCH: Final = 100


class Broken(Exception):
    """A promise does not hold; the message says what happened instead."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise.

    Attributes:
        area: ``embedding``, ``store`` or ``query``.
        sentence: What holds.
        check: Raises where it does not.
    """

    area: str
    sentence: str
    check: Callable[[Trial], None]


PROMISES: Final[list[Promise]] = []


def promise(area: str, sentence: str) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    """Adds a check to the table."""

    def add(check: Callable[[Trial], None]) -> Callable[[Trial], None]:
        PROMISES.append(Promise(area, sentence, check))
        return check

    return add


def expect(condition: bool, otherwise: str) -> None:
    """Raises `Broken` unless the condition holds."""
    if not condition:
        raise Broken(otherwise)


@contextmanager
def refused(kind: type[CorpusError], what: str) -> Iterator[None]:
    """Expects an error of one kind."""
    try:
        yield
    except kind:
        return
    raise Broken(f"{what} was accepted")


@promise("embedding", "the service says which model it is, its dimension and its longest input")
def _identity(trial: Trial) -> None:
    identity = trial.embedder.identity
    expect(bool(identity.model) and identity.dimension > 1 and identity.max_tokens > 16, f"it says {identity}")


@promise("embedding", "vectors have length 1, the model's dimension and the order of their texts")
def _vectors(trial: Trial) -> None:
    vectors = trial.embedder.embed(["a pipeline step", "a notebook server", "a pipeline step"])
    expect(vectors.shape == (3, trial.embedder.identity.dimension), f"the shape is {vectors.shape}")
    expect(bool(np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-2)), "they have another length")
    expect(float(vectors[0] @ vectors[2]) > _SAME > float(vectors[0] @ vectors[1]), "they are in another order")


@promise("embedding", "many texts at once give the same vectors as one at a time")
def _batches(trial: Trial) -> None:
    texts = [f"section {number} of a page about caching" for number in range(_BATCH)]
    together, alone = trial.embedder.embed(texts), trial.embedder.embed([texts[-1]])
    expect(len(together) == _BATCH and float(together[-1] @ alone[0]) > _SAME, "they differ")


@promise("embedding", "a text longer than the model reads is cut, not refused")
def _long_text(trial: Trial) -> None:
    (vector,) = trial.embedder.embed(["caching " * _LONG_TEXT_WORDS])
    expect(bool(np.isfinite(vector).all()), "its vector holds no numbers")


@promise("embedding", "quotes, line ends, other scripts and emoji are embedded")
def _awkward_texts(trial: Trial) -> None:
    try:
        trial.embedder.embed(['a "quoted" \\ {text}\n\twith\r\nlines', "日本語のテキスト", "🚀", "."])
    except InvalidVector as error:
        raise Broken(str(error)) from error


@promise("store", "a first run serves every row")
def _first_run(trial: Trial) -> None:
    record = trial.run(PAGES)
    expect(record.outcome == "published", f"its outcome is {record.outcome}")
    expect(len(trial.rows()) == sum(map(len, PAGES.values())), f"{len(trial.rows())} rows are served")


@promise("store", "rows come back as they were written")
def _round_trip(trial: Trial) -> None:
    (row,) = trial.rows(f'section_path == "Caching" and {keys_filter("file_path", ["caching.md"])}', ["*"])
    expect(row["content_text"] == PAGES["caching.md"][0], "the text differs")
    expect(list(row["product_area"]) == ["pipelines", "notebooks"], f"product_area is {row['product_area']}")
    expect(list(row["version"]) == ["1.9.1", "1.9"], f"version is {row['version']}")
    (other,) = trial.rows(keys_filter("file_path", ["notebooks.md"]), ["version", "updated_at"])
    expect(list(other["version"]) == [], f"an empty array is {other['version']}")
    expect(other["updated_at"] == "2026-01-02T03:04:05Z", f"a time is {other['updated_at']}")


@promise("store", "the collection records model, dimension and chunker")
def _properties(trial: Trial) -> None:
    held = properties_of(trial.client, live_name(trial.client, trial.served))
    identity = trial.embedder.identity
    expect(held.get("embedding_model") == identity.model, f"the model is {held.get('embedding_model')!r}")
    expect(held.get("embedding_dimension") == str(identity.dimension), "the dimension is missing")
    expect(held.get("head:contract") == "c1", "the head of the source is missing")


@promise("store", "an unchanged run embeds nothing and writes nothing")
def _unchanged(trial: Trial) -> None:
    record = trial.run(PAGES)
    expect((record.mode, record.embedded) == ("incremental", 0), f"it is {record.mode} and embeds {record.embedded}")
    expect(record.rows["rows_written"] == 0, f"it writes {record.rows['rows_written']} rows")


@promise("store", "a changed section takes the place of the old one")
def _changed(trial: Trial) -> None:
    sections = (PAGES["caching.md"][0], "Cache key: It is a digest now.")
    record = trial.run(PAGES | {"caching.md": sections}, revision="c2")
    expect(record.embedded == 1, f"it embeds {record.embedded} texts")
    texts = {row["content_text"] for row in trial.rows(keys_filter("file_path", ["caching.md"]), ["content_text"])}
    expect(texts == set(sections), f"{len(texts)} sections are served")


@promise("store", "a removed page takes its rows with it, whatever its name, and no others")
def _removed(trial: Trial) -> None:
    kept = {name: sections for name, sections in PAGES.items() if name != AWKWARD}
    trial.run(kept, revision="c3")
    names = {row["file_path"] for row in trial.rows(fields=["file_path"])}
    expect(names == set(kept), f"served are {sorted(names)}")
    trial.run(PAGES, revision="c4")
    expect(len(trial.rows(keys_filter("file_path", [AWKWARD]))) == 1, "the page does not come back")


@promise("store", "a text of as many bytes as the schema allows is stored whole")
def _long_row(trial: Trial) -> None:
    text = "Long: " + "日本語 " * 6_550
    trial.run(PAGES | {"long.md": (text,)}, revision="c5")
    (row,) = trial.rows(keys_filter("file_path", ["long.md"]), ["content_text"])
    expect(row["content_text"] == text, f"{len(row['content_text'])} of {len(text)} characters are stored")
    trial.run(PAGES, revision="c4")


@promise("store", "a rebuild is served at once and keeps the version before it")
def _rebuild(trial: Trial) -> None:
    before = live_name(trial.client, trial.served)
    record = trial.run({"caching.md": PAGES["caching.md"], "katib.md": PAGES["katib.md"]}, mode="rebuild")
    expect(record.outcome == "published", f"its outcome is {record.outcome}")
    expect(live_name(trial.client, trial.served) != before, "the alias did not move")
    expect(len(trial.rows()) == 4, f"{len(trial.rows())} rows are served")
    expect(before in {version.name for version in list_versions(trial.client, trial.served)}, "the old one is gone")


@promise("store", "readers see one whole version while the alias moves")
def _moving_alias(trial: Trial) -> None:
    counts: set[int] = set()
    failures: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        with _reader(trial) as client:
            while not stop.is_set():
                try:
                    counts.add(sum(client.known_values(DOCS.alias, "repo").values()))
                except CorpusError as error:
                    failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        numbers = [version.number for version in list_versions(trial.client, trial.served) if version.published][-2:]
        for _ in range(3):
            for number in numbers:
                rollback(trial.client, DOCS, trial.settings.collection_prefix, number)
    finally:
        stop.set()
        reader.join()
    expect(not failures, f"{len(failures)} reads failed: {failures[:1]}")
    expect(counts <= {4, 6}, f"readers counted {sorted(counts)} rows")


@promise("store", "a version that is served cannot be dropped")
def _guarded(trial: Trial) -> None:
    live = live_version(list_versions(trial.client, trial.served))
    expect(live is not None, "nothing is served")
    with refused(VersionInUse, "dropping it"):
        if live is not None:
            drop_version(trial.client, trial.served, live)
    trial.run(PAGES, mode="rebuild", revision="c6")


def _finds(mode: Any, query: str, path: str) -> Callable[[Trial], None]:
    def check(trial: Trial) -> None:
        with _reader(trial) as client:
            result = client.search_docs(query, mode=mode, limit=3)
        found = [hit.file_path for hit in result.hits]
        expect(found[:1] == [path], f"it finds {found}")

    return check


# The exact words of a section: with any model, the section that has them is the nearest.
promise("query", "search by meaning finds a section by its text")(
    _finds("dense", "Notebooks > Idle culling\n" + PAGES["notebooks.md"][0], "notebooks.md")
)
promise("query", "search by words finds a rare word")(_finds("bm25", "zanzibar quagga", AWKWARD))
promise("query", "search by words finds an identifier by one of its parts")(
    _finds("bm25", "culling idle", "notebooks.md")
)
promise("query", "hybrid search finds what both would find")(
    _finds("hybrid", "Katib > Early stopping\n" + PAGES["katib.md"][1], "katib.md")
)


@promise("query", "filters on arrays narrow every kind of search")
def _filters(trial: Trial) -> None:
    with _reader(trial) as client:
        for mode in ("dense", "bm25", "hybrid"):
            narrowed = client.search_docs("trial of an experiment", product_area="katib", mode=mode, limit=5)
            expect({hit.file_path for hit in narrowed.hits} == {"katib.md"}, f"{mode} ignores product_area")
            version = client.search_docs("a cached step", version="1.9", mode=mode, limit=5)
            expect({hit.file_path for hit in version.hits} == {"caching.md"}, f"{mode} ignores version")


@promise("query", "evidence holds no link and each citation has one")
def _evidence(trial: Trial) -> None:
    with _reader(trial) as client:
        result = client.search_docs("how is a step cached?", limit=3)
        expect(not _LINK.search(result.evidence()), "there is a link in it")
        expect(all(entry["url"].startswith("https://") for entry in result.citations), "a citation has no link")
        expect(len(result.citations) == len(result.hits) > 0, "a hit has no citation")


@promise("query", "a reader with another model is refused")
def _other_model(trial: Trial) -> None:
    other = _OtherModel(replace(trial.embedder.identity, model="contract/another-model"))
    with CorpusClient(settings=trial.settings, embeddings=other) as client, refused(ModelMismatch, "its search"):
        client.search_docs("a step", mode="dense")


@promise("query", "a collection that does not exist is named")
def _missing(trial: Trial) -> None:
    with _reader(trial) as client, refused(CollectionNotFound, "the search"):
        client.search_code("a controller")


@contextmanager
def _reader(trial: Trial) -> Iterator[CorpusClient]:
    with CorpusClient(settings=trial.settings, embeddings=trial.embedder) as client:
        yield client


@dataclass(frozen=True, slots=True)
class _OtherModel:
    identity: ModelIdentity

    def embed(self, texts: Any, *, timeout: float | None = None) -> Any:
        raise Broken("a question was embedded with the wrong model")

    def close(self) -> None:
        return
