"""The pipeline `docs`: documentation sites into the collection `kubeflow_docs`."""

from typing import Any

from pipelines.placement import Placement
from pipelines.single import single_pipeline


def docs(placement: Placement, *, nested: bool = False) -> Any:
    """Returns the pipeline."""
    return single_pipeline("docs", "Indexes the documentation sites of the catalogue.", placement, nested=nested)
