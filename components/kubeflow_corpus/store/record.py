"""What a run did, as properties, artifacts and reports carry it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.records import FailedDocument
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.context import FailedSource, Mode
from kubeflow_corpus.store.versions import properties_of, set_properties

if TYPE_CHECKING:
    from pymilvus import MilvusClient

# A record is a property, which has a limit; how many there were is in `RunRecord.skipped`.
MOST_REFUSED_NAMED: Final = 100


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run did: the machine-readable summary that properties, artifacts and reports carry.

    Attributes:
        run: Id of the run.
        alias: The collection.
        mode: Kind of run.
        reasons: Why it was a rebuild.
        target: Version that was written.
        previous: Version that was served when the run began.
        started_at: ISO 8601 UTC.
        finished_at: ISO 8601 UTC.
        outcome: ``applied``, ``published``, ``gate failed`` or ``not published``.
        documents: By source, documents added, changed, unchanged, deleted and stored before, against what was served.
        rows: ``rows_wanted``, ``rows_written``, ``rows_deleted``, ``rows_held``.
        embedded: Texts that this run embedded.
        reused: Texts whose vector was taken from stored rows.
        areas: Rows that this run wants, by product area.
        skipped: Documents that give no row, by reason.
        refused: Documents that could not be stored, the first hundred: what was stored of them stays.
        counts: Further counts of the earlier steps, such as ``truncated``.
        seconds: Wall time of each phase.
        bytes: Bytes of text and vectors written.
        failed: Sources whose rows stayed as they were: source, step, error.
        uncovered: Served sources that this version lacks.
        unfinished: Sources whose fetch stopped before its end.
        orphans: Sources that are stored and no longer in the catalogue.
        gate: What the gates said: passed, failures, metrics.
    """

    run: str
    alias: str
    mode: Mode
    target: str
    previous: str
    started_at: str
    finished_at: str = ""
    outcome: str = "applied"
    reasons: tuple[str, ...] = ()
    documents: dict[str, dict[str, int]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    embedded: int = 0
    reused: int = 0
    areas: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    refused: tuple[FailedDocument, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    failed: tuple[FailedSource, ...] = ()
    uncovered: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    gate: dict[str, Any] = field(default_factory=dict)

    def total(self, state: str) -> int:
        """Returns the number of documents in a state, over all sources."""
        return sum(counts.get(state, 0) for counts in self.documents.values())

    def dumps(self) -> str:
        """Returns the property's value."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RunRecord:
        """Reads what `to_dict` wrote."""
        names = ("reasons", "failed", "uncovered", "unfinished", "orphans")
        refused = tuple(FailedDocument(**document) for document in data.get("refused", ()))
        return cls(**{**data, **{name: tuple(data.get(name, ())) for name in names}, "refused": refused})


def last_run(client: MilvusClient, name: str) -> RunRecord | None:
    """Returns what a version records of the run that wrote it last."""
    text = properties_of(client, name).get(schema.RUN_KEY, "")
    return RunRecord.from_dict(json.loads(text)) if text else None


def save_record(client: MilvusClient, name: str, record: RunRecord, more: Mapping[str, str] | None = None) -> None:
    """Records a run in the properties of a version, in one step with further properties."""
    set_properties(client, name, {schema.RUN_KEY: record.dumps(), **(more or {})})
