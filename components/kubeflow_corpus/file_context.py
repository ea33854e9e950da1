"""Which files of a code source depend on its other files, and which say something to others."""

from __future__ import annotations

from typing import Final

from kubeflow_corpus.records import Document

CRD_KIND: Final = "CustomResourceDefinition"
# Languages whose names are followed to where they are defined.
FOLLOWED_SUFFIXES: Final = (".go", ".py")


def depends_on_others(document: Document) -> bool:
    """Returns whether the rows of a file depend on the other files of its repository: a CRD, code that uses names."""
    if document.source_type == "manifest":
        return CRD_KIND in document.text
    return document.source_type == "code" and document.path.endswith(FOLLOWED_SUFFIXES)


def explains_others(document: Document) -> bool:
    """Returns whether the rows of other files depend on a file: Go types, named values, or a copy of a CRD."""
    return document.path.endswith(FOLLOWED_SUFFIXES) or CRD_KIND in document.text
