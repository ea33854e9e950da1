"""What one step hands on to the next about a source: a folder with its rows and how it went.

A source that cannot be read must not stop the others, and a collection that cannot be written must not stop the other
two: so no step but the last raises for an error that it understands. It says so in its outcome, the steps behind it
pass that on and do nothing, the writer leaves a failed source's rows alone, and the last step of the run raises.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from kubeflow_corpus.errors import ArtifactError, CorpusError
from kubeflow_corpus.records import Skip
from kubeflow_corpus.store import schema

ROWS_FILE: Final = "rows.jsonl.zst"
SKIPS_FILE: Final = "skips.jsonl.zst"
VECTORS_FILE: Final = "vectors.parquet"
THREADS_FILE: Final = "threads.json"
# Documents that are not cut themselves: what those that a run is asked for by name need to be cut like in a whole run.
AROUND_FILE: Final = "around.jsonl.zst"
CURSORS_FILE: Final = "cursors.json"
SETTLED_FILE: Final = "settled.json"
PLAN_FILE: Final = "plan.json"
RECORD_FILE: Final = "record.json"
GATE_FILE: Final = "gate.json"
OUTCOME_FILE: Final = "outcome.json"

# Collection, as the pipelines name it, to its alias.
ALIASES: Final = {"docs": schema.DOCS.alias, "issues": schema.ISSUES.alias, "code": schema.CODE.alias}

# Files that `fetch` passes over, and documents of which `chunk` makes no row. Their counts by reason are
# ``<name>: <reason>``.
SKIPPED: Final = "skipped"
LEFT_OUT: Final = "left out"
_REASON: Final = ": "
# The fact that a run is asked for some documents of a source only, as a list in JSON.
NAMED: Final = "named"

Status = Literal["ok", "failed", "none"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it went with one source, up to a step.

    Attributes:
        source: Name of the catalogue entry; empty where the catalogue has no source of the wanted kind.
        step: The step that says this, or the step that failed.
        status: ``ok``, ``failed``, or ``none`` where there was nothing to do.
        problem: What failed, in one line.
        remedy: What to do about it, in one line.
        counts: Figures by name.
        facts: What later steps need to know: ``revision``, ``cursor``, ``version``; ``named`` (see `named`).
        sources: Of a collection: how it went with each of its sources.
        alarms: What somebody should look at although the work is done, a line each.
    """

    source: str
    step: str
    status: Status = "ok"
    problem: str = ""
    remedy: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[Outcome, ...] = ()
    alarms: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there are rows of this source to go on with."""
        return self.status == "ok"

    @property
    def named(self) -> tuple[str, ...] | None:
        """Paths or numbers of the documents that the run is asked for; None where it is asked for whole sources."""
        text = self.facts.get(NAMED)
        return None if text is None else tuple(json.loads(text))

    @property
    def error(self) -> str:
        """Problem and remedy as one line; empty where nothing failed."""
        return f"{self.problem}. {self.remedy}" if self.remedy else self.problem

    def begin(self, step: str) -> Outcome:
        """Returns the outcome that the next step starts with: its own name, unless an earlier one failed."""
        return replace(self, step=step) if self.ok else self

    def add(self, counts: Mapping[str, int]) -> Outcome:
        """Returns the outcome with further figures."""
        return replace(self, counts={**self.counts, **counts})

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Outcome:
        """Reads what `to_dict` wrote."""
        sources = tuple(cls.from_dict(source) for source in data["sources"])
        return cls(**{**data, "sources": sources, "alarms": tuple(data["alarms"])})

    def to_json(self) -> str:
        """Returns the form in which an outcome travels as a parameter: the same text for the same outcome."""
        return json.dumps(self.to_dict(), ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """Reads what `to_json` wrote."""
        return cls.from_dict(json.loads(text))

    def metadata(self) -> dict[str, Any]:
        """Returns what the artifact of the step shows in the KFP UI."""
        about = {"source": self.source} if self.source else {"sources": [source.source for source in self.sources]}
        return {**about, "status": self.status, "error": self.error, **self.facts, **self.counts}


def skip_counts(skips: Iterable[Skip], name: str) -> dict[str, int]:
    """Returns how much was skipped, in all and by reason; nothing where nothing was."""
    reasons = Counter(skip.reason for skip in skips)
    if not reasons:
        return {}
    by_reason = {f"{name}{_REASON}{reason}": count for reason, count in sorted(reasons.items())}
    return {name: reasons.total(), **by_reason}


def totals_of(counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the counts that are not by reason."""
    return {name: int(count) for name, count in counts.items() if _REASON not in name}


def reasons_of(counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the counts by reason."""
    return {name: int(count) for name, count in sorted(counts.items()) if _REASON in name}


def carry(source: Path, target: Path, names: Iterable[str]) -> None:
    """Copies files that a later step needs from one step's folder into the next, where they are there."""
    for name in names:
        if (source / name).exists():
            shutil.copyfile(source / name, target / name)


def fresh_folder(path: str) -> Path:
    """Returns an empty folder: a step that is tried again finds what the failed try left."""
    folder = Path(path)
    if folder.is_dir():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)
    folder.mkdir(parents=True)
    return folder


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Writes the outcome into a step's folder."""
    (folder / OUTCOME_FILE).write_text(outcome.to_json(), encoding="utf-8")


def read_outcome(folder: Path) -> Outcome:
    """Reads the outcome in a step's folder.

    Raises:
        ArtifactError: There is none, or it is damaged.
    """
    return Outcome.from_dict(read_json(folder / OUTCOME_FILE))


def write_json(path: str, data: Mapping[str, Any]) -> None:
    """Writes a result, replacing what a failed try left."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data, ensure_ascii=False, indent=1), encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Reads a result.

    Raises:
        ArtifactError: The file is missing or is not the JSON of an object.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path} is damaged: {error}", remedy="Run the step that wrote it again") from error
    if not isinstance(data, dict):
        raise ArtifactError(f"{path} is damaged: not an object", remedy="Run the step that wrote it again")
    return data


def attempt(outcome: Outcome, work: Callable[[], Outcome]) -> Outcome:
    """Does a step's work, or says why not.

    Args:
        outcome: How it went so far; unless it is ok, nothing is done.
        work: What to do. A `CorpusError` that it raises becomes a failed outcome; anything else is a defect or a
            lost machine, which KFP tries again.
    """
    if not outcome.ok:
        return outcome
    try:
        return work()
    except CorpusError as error:
        # One line: what a gate says is a list.
        return replace(outcome, status="failed", problem=" ".join(error.problem.split()), remedy=error.remedy)


def hand_on(folder: Path, outcome: Outcome, work: Callable[[], Outcome]) -> Outcome:
    """Does what `attempt` does, and leaves the outcome in the step's folder."""
    result = attempt(outcome, work)
    if result.status == "failed":
        # Half-written rows are of no use, and on a full disk the outcome needs their room.
        fresh_folder(str(folder))
    write_outcome(folder, result)
    return result
