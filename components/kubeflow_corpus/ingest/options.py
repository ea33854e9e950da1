"""What a run is asked for: one value from the command line, a schedule or the KFP form to the step that needs it.

The first step reads it, and the result of every step carries it on. A new option is a field here, a word on the command
line (`pipelines.run`), and the step that looks at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from kubeflow_corpus.errors import InvalidArgument

Runner = Literal["local", "cluster"]
_RUNNERS: Final = ("local", "cluster")
# What a value has to be, by the type of its default.
_WANTED: Final = {
    bool: "true or false",
    int: "a whole number, 0 or more",
    str: "a text",
    list: 'a list of texts, such as ["a", "b"]',
    dict: "a mapping of names to numbers",
}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run.

    Attributes:
        catalogue: Path of the catalogue of sources inside the steps; empty is the packaged one.
        sources: Names of the sources to read; empty is all of them.
        changed_paths: Documents to bring up to date, as source:path or source:number; empty is whole sources.
        rebuild: Fill a new version beside the one that is served, and serve it if its evaluation passes.
        allow_deletions: Names of the sources that may lose more documents than the deletion guard allows.
        questions: Path of a question set that is asked before a new version is served; empty asks nothing.
        floors: Metric of the evaluation to the least mean with which a new version is served, such as hit@5 to 0.9.
        wait_seconds: How long to wait for another run that writes the same collection.
        run: Name of the run; empty is the id that KFP gives it.
        runner: What starts the steps: ``local`` forgets the failures in its cache, ``cluster`` cannot.
        process: The process that starts the steps, if it is on their machine: the writer's lease lives while it does.
    """

    catalogue: str = ""
    sources: tuple[str, ...] = ()
    changed_paths: tuple[str, ...] = ()
    rebuild: bool = False
    allow_deletions: tuple[str, ...] = ()
    questions: str = ""
    floors: Mapping[str, float] = field(default_factory=dict)
    wait_seconds: int = 0
    run: str = ""
    runner: Runner = "cluster"
    process: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunOptions:
        """Reads and checks options, as `to_dict` returns them or as a person writes them.

        Raises:
            InvalidArgument: There is no such option, or a value is of another kind.
        """
        known = cls().to_dict()
        unknown = sorted(map(str, set(data) - set(known)))
        if unknown:
            raise InvalidArgument(
                f"A run has no parameter {', '.join(unknown)}",
                remedy=f"It has {', '.join(sorted(known))}",
                argument=unknown[0],
            )
        return cls(**{name: _checked(name, value, known[name]) for name, value in data.items()})

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form; `from_dict` reads it back."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def _checked(name: str, value: Any, default: Any) -> Any:
    """Returns a value of the type of its default."""
    wanted = " or ".join(_RUNNERS) if name == "runner" else _WANTED[type(default)]
    match default, value:
        case (bool(), bool()):
            return value
        case (bool(), _) | (_, bool()):
            pass
        case (int(), int() | float()) if value >= 0 and float(value).is_integer():
            # KFP makes a float of every number inside a mapping.
            return int(value)
        case (str(), str()) if name != "runner" or value in _RUNNERS:
            return value
        case (list(), list() | tuple()) if all(isinstance(item, str) for item in value):
            return tuple(value)
        case (dict(), Mapping()) if all(type(item) in (int, float) for item in value.values()):
            return {str(key): float(item) for key, item in value.items()}
    raise InvalidArgument(f"{name} is {value!r}", remedy=f"Give {wanted}", argument=name)
