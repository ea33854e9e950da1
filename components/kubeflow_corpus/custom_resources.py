"""Which files define custom resources, and which explain the definitions of other files."""

from __future__ import annotations

from typing import Final

from kubeflow_corpus.records import Document

CRD_KIND: Final = "CustomResourceDefinition"


def defines_crd(document: Document) -> bool:
    """Returns whether a manifest holds a CRD: its rows depend on the other files of its repository."""
    return document.source_type == "manifest" and CRD_KIND in document.text


def explains_crds(document: Document) -> bool:
    """Returns whether the rows of CRDs in other files depend on a file: Go types, or a copy of a CRD."""
    return document.path.endswith(".go") or CRD_KIND in document.text
