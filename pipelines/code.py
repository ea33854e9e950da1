"""The pipeline `code`: code and Kubernetes manifests into the collection `code_rag`."""

from typing import Any

from pipelines.placement import Placement
from pipelines.single import single_pipeline


def code(placement: Placement, *, nested: bool = False) -> Any:
    """Returns the pipeline."""
    return single_pipeline("code", "Indexes the code and the manifests of the catalogue.", placement, nested=nested)
