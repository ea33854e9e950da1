"""The pipeline `corpus`: docs, issue threads and code, each a graph of its own, and one report after all three."""

from typing import Any

from pipelines.code import code
from pipelines.docs import docs
from pipelines.issues import issues
from pipelines.placement import Placement
from pipelines.reported import reported_pipeline

TITLE = "Indexes the documentation, the issue threads and the code of the catalogue."


def corpus(placement: Placement) -> Any:
    """Returns the pipeline: no graph waits for another, and the report names what failed in any of them."""
    parts = {part.__name__: part(placement, nested=True) for part in (docs, issues, code)}
    return reported_pipeline("corpus", TITLE, parts, placement)
