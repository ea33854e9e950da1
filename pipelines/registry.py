"""The four pipelines by name."""

from collections.abc import Callable
from typing import Any, Final

from pipelines.code import code
from pipelines.corpus import corpus
from pipelines.docs import docs
from pipelines.issues import issues
from pipelines.placement import Placement

PIPELINES: Final[dict[str, Callable[[Placement], Any]]] = {
    "docs": docs,
    "issues": issues,
    "code": code,
    "corpus": corpus,
}
