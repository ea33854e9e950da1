"""The pipeline `issues`: GitHub issue threads into the collection `issues_rag`."""

from typing import Any

from pipelines.placement import Placement
from pipelines.single import single_pipeline


def issues(placement: Placement, *, nested: bool = False) -> Any:
    """Returns the pipeline."""
    return single_pipeline("issues", "Indexes the issue threads of the catalogue.", placement, nested=nested)
