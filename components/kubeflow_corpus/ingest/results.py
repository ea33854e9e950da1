"""What one step tells the next: how it went with a source, and with a collection.

A source that cannot be read must not stop the others, and a collection that cannot be written must not stop the other
two: so no step but the last raises for an error that it understands. Its result says so, the steps behind it pass that
through and do nothing, the writer leaves a failed source's rows alone, and the last step of the run raises.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from kubeflow_corpus.errors import CorpusError
from kubeflow_corpus.ingest.options import RunOptions
from kubeflow_corpus.model import Recipe
from kubeflow_corpus.records import FailedDocument, GateReport, Skip

# The steps of a source read no plan, and start faster without what writes collections.
if TYPE_CHECKING:
    from kubeflow_corpus.store.plan import Plan
    from kubeflow_corpus.store.record import RunRecord
    from kubeflow_corpus.store.settled import Settled

# The source of a collection that the catalogue has none for: KFP cannot collect the results of a loop over nothing.
NO_SOURCE: Final = ""

Status = Literal["ok", "failed", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How it went up to a step.

    Attributes:
        collection: ``docs``, ``issues`` or ``code``.
        step: The step that says this, or the step that failed.
        status: ``ok``, ``failed``, or ``none`` where there was nothing to do.
        problem: What failed, in one line.
        remedy: What to do about it, in one line.
    """

    collection: str
    step: str
    status: Status = "ok"
    problem: str = ""
    remedy: str = ""

    @property
    def ok(self) -> bool:
        """Whether there is something to go on with."""
        return self.status == "ok"

    @property
    def failed(self) -> bool:
        """Whether this step or one before it failed."""
        return self.status == "failed"

    @property
    def error(self) -> str:
        """Problem and remedy as one line; empty where nothing failed."""
        return f"{self.problem}. {self.remedy}" if self.remedy else self.problem

    @property
    def item(self) -> str:
        """The source or the shard that the step works on; empty where it works on the collection."""
        return ""

    def begin(self, step: str) -> Self:
        """Returns the result that the next step starts with: its own name, unless an earlier one failed."""
        return replace(self, step=step) if self.ok else self

    def fail(self, error: CorpusError) -> Self:
        """Returns the result of a step that raised an error."""
        # One line: what a gate says is a list.
        return replace(self, status="failed", problem=" ".join(error.problem.split()), remedy=error.remedy)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form; `from_dict` reads it back."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RowInputs:
    """Everything that the rows of a source are made of, apart from the program and the run's choice of documents.

    Attributes:
        recipe: What the rows are cut and embedded with.
        entry: Digest of the source's entry in the catalogue and of the catalogue's vocabulary: other globs make other
            documents of the same commit, other words other rows.
        revision: Commit or digest of the documents; empty if none identifies them.
        repos: Repositories of all code sources: of several copies of a CRD the owner's is kept, where the owner is in
            the catalogue at all.
    """

    recipe: Recipe
    entry: str
    revision: str = ""
    repos: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState(Result):
    """How it went with one source, up to a step.

    Attributes:
        source: Name of the catalogue entry; `NO_SOURCE` where the catalogue has none of the wanted kind.
        catalogue: Path of the catalogue; empty is the packaged one.
        build: Digest of the program, which is part of the key of KFP's cache.
        attempt: What tells this attempt from an earlier one at the same commit that failed.
        committed_at: When the revision was made, ISO 8601 UTC.
        inputs: What the rows are made of; None until the source was resolved.
        named: Paths or numbers of the documents that the run asks for; None where it asks for whole sources.
        complete: Whether every document of the source was fetched, so that what is missing is gone.
        reached_end: Whether the fetch read everything that there was.
        cursor: Where the next fetch begins.
        removed: Documents that are known to be deleted.
        counts: Figures by name.
        skipped: Files that `fetch` passed over, by reason.
        left_out: Documents of which `chunk` made no row, by reason.
        details: Everything else that the chunkers counted.
        examples: Names of some documents that gave nothing, by reason.
        alarms: What somebody should look at although the work is done, one line each.
        failed_documents: Documents that could not be read, cut or stored: the first hundred; ``counts`` has how many.
    """

    source: str
    catalogue: str = ""
    build: str = ""
    attempt: str = ""
    committed_at: str = ""
    inputs: RowInputs | None = None
    named: tuple[str, ...] | None = None
    complete: bool = True
    reached_end: bool = True
    cursor: str = ""
    removed: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, Sequence[str]] = field(default_factory=dict)
    alarms: tuple[str, ...] = ()
    failed_documents: tuple[FailedDocument, ...] = ()

    @property
    def item(self) -> str:
        """The source."""
        return self.source

    @property
    def made_of(self) -> RowInputs:
        """What the rows are made of, of a source that was resolved."""
        assert self.inputs is not None, f"{self.step}: {self.source} was not resolved"
        return self.inputs

    @property
    def figures(self) -> dict[str, int]:
        """The counts, and how many documents were passed over in all."""
        over = {"skipped": sum(self.skipped.values()), "left out": sum(self.left_out.values())}
        return {**self.counts, **{name: count for name, count in over.items() if count}}

    @property
    def reasons(self) -> dict[str, int]:
        """How many documents gave nothing, by what happened to them and why."""
        return {
            **{f"left out: {reason}": count for reason, count in sorted(self.left_out.items())},
            **{f"skipped: {reason}": count for reason, count in sorted(self.skipped.items())},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SourceState:
        """Reads what `to_dict` wrote."""
        inputs, named = data["inputs"], data["named"]
        if inputs is not None:
            recipe = Recipe.from_dict(inputs["recipe"])
            inputs = RowInputs(**{**inputs, "recipe": recipe, "repos": tuple(inputs["repos"])})
        tuples = {name: tuple(data[name]) for name in ("removed", "alarms")}
        failed = tuple(FailedDocument(**document) for document in data["failed_documents"])
        named = None if named is None else tuple(named)
        return cls(**{**data, **tuples, "inputs": inputs, "named": named, "failed_documents": failed})

    def to_json(self) -> str:
        """Returns the form in which a source travels as a parameter: the same text for the same state."""
        return json.dumps(self.to_dict(), ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> SourceState:
        """Reads what `to_json` wrote."""
        return cls.from_dict(json.loads(text))

    def metadata(self) -> dict[str, Any]:
        """Returns what the artifact of the step shows in the KFP UI."""
        revision = self.inputs.revision if self.inputs else ""
        about = {"source": self.source, "status": self.status, "error": self.error, "revision": revision}
        return {**about, **self.details, **self.figures, **self.reasons}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult(Result):
    """How it went with a collection, up to a step.

    Attributes:
        options: What the run is asked for.
        run: Name of the run, for the lease and for what the collection records.
        names: Names of the sources of this run.
        recipe: What rows are made with; None until the model was described.
        live: Physical name of the version that is served; empty if there is none.
        cursors: Where the fetch of an issue source goes on, by source.
        settled: What the served version is known to hold, by source.
        failed_in: The run that failed at a source or at documents of it, by source, where the last one did.
        retry: Documents at which the last run failed, by source.
        plan: What is to be done; None until it was planned.
        record: What was done; None until it was applied.
        gate: What the evaluation says; None where nothing was asked.
        shard: The shard that was embedded, in the result of that step.
        counts: Figures by name.
        sources: How it went with each source.
        before: What the served version records of the run before: ``rows``, ``skipped`` and ``counts``.
    """

    options: RunOptions = RunOptions()
    run: str = ""
    names: tuple[str, ...] = ()
    recipe: Recipe | None = None
    live: str = ""
    cursors: Mapping[str, str] = field(default_factory=dict)
    settled: Mapping[str, Settled] = field(default_factory=dict)
    failed_in: Mapping[str, str] = field(default_factory=dict)
    retry: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plan: Plan | None = None
    record: RunRecord | None = None
    gate: GateReport | None = None
    shard: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[SourceState, ...] = ()
    before: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def item(self) -> str:
        """The shard, where the step works on one."""
        return self.shard.rpartition("/")[2].partition(".")[0]

    @property
    def made_with(self) -> Recipe:
        """What rows are made with, behind the step that describes the model."""
        assert self.recipe is not None, f"{self.step}: the model was not described"
        return self.recipe

    @property
    def planned(self) -> Plan:
        """What is to be done, behind the step that plans."""
        assert self.plan is not None, f"{self.step}: nothing was planned"
        return self.plan

    @property
    def applied(self) -> RunRecord:
        """What was done, behind the step that applies."""
        assert self.record is not None, f"{self.step}: nothing was applied"
        return self.record

    @property
    def shards(self) -> dict[str, int]:
        """The shards to embed, as paths below the folder of the plan, and how many texts each has."""
        if self.plan is None:
            return {}
        from kubeflow_corpus.store.plan import SHARD_FOLDER, SHARD_TEXTS

        return {
            f"{SHARD_FOLDER}/{name}": max(0, min(SHARD_TEXTS, self.plan.to_embed - number * SHARD_TEXTS))
            for number, name in enumerate(self.plan.shards)
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StepResult:
        """Reads what `to_dict` wrote."""
        from kubeflow_corpus.store.plan import Plan
        from kubeflow_corpus.store.record import RunRecord
        from kubeflow_corpus.store.settled import read_settled

        read = {
            "options": RunOptions.from_dict(data["options"]),
            "names": tuple(data["names"]),
            "recipe": data["recipe"] and Recipe.from_dict(data["recipe"]),
            "settled": read_settled(data["settled"]),
            "retry": {source: tuple(documents) for source, documents in data["retry"].items()},
            "plan": data["plan"] and Plan.from_dict(data["plan"]),
            "record": data["record"] and RunRecord.from_dict(data["record"]),
            "gate": data["gate"] and read_gate(data["gate"]),
            "sources": tuple(map(SourceState.from_dict, data["sources"])),
        }
        return cls(**{**data, **read})

    def metadata(self) -> dict[str, Any]:
        """Returns what the artifact of the step shows in the KFP UI."""
        about: dict[str, Any] = {"sources": list(self.names), "status": self.status, "error": self.error}
        if self.recipe:
            about |= {"model": self.recipe.identity.model, "token_budget": self.recipe.token_budget}
        if self.plan:
            about |= {"mode": self.plan.mode}
        if self.record:
            about |= {"target": self.record.target}
        return {**about, **self.counts, **(self.gate.metrics if self.gate else {})}


def read_gate(data: Mapping[str, Any]) -> GateReport:
    """Reads the report of a gate from its JSON form."""
    return GateReport(bool(data["passed"]), tuple(data["failures"]), dict(data["metrics"]))


def by_reason(skips: Iterable[Skip]) -> dict[str, int]:
    """Returns how many documents were passed over, by reason."""
    return dict(sorted(Counter(skip.reason for skip in skips).items()))


def totals(sources: Sequence[SourceState]) -> dict[str, int]:
    """Returns the figures of several sources together."""
    found = Counter[str]()
    for source in sources:
        found.update(source.figures)
    return dict(found)
