"""Which site generators there are."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from kubeflow_corpus.errors import CatalogueError
from kubeflow_corpus.sites.base import SiteGenerator

# Name in the catalogue to the module whose `GENERATOR` it is, imported when a page or a source asks for it.
GENERATORS: Final = {
    "hugo": "kubeflow_corpus.sites.hugo",
    "docusaurus": "kubeflow_corpus.sites.docusaurus",
    "sphinx": "kubeflow_corpus.sites.sphinx",
    "mkdocs": "kubeflow_corpus.sites.mkdocs",
    "markdown": "kubeflow_corpus.sites.plain_markdown",
}
_NO_SITE: Final = {"": "kubeflow_corpus.sites.repository"}


@cache
def generator_named(name: str) -> SiteGenerator:
    """Returns a generator by its name; the empty name is that of files without a site.

    Raises:
        CatalogueError: There is no such generator; the error names those that there are.
    """
    module = (GENERATORS | _NO_SITE).get(name)
    if module is None:
        known = tuple(GENERATORS)
        raise CatalogueError(
            f"there is no site generator {name!r}",
            remedy=f"Known generators: {', '.join(known)}",
            generator=name,
            known=known,
        )
    generator: SiteGenerator = import_module(module).GENERATOR
    return generator
