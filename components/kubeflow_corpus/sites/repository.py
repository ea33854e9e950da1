"""No generator: Markdown files that are read where their repository shows them."""

from __future__ import annotations

from typing import Final

from kubeflow_corpus.sites.base import SiteGenerator


class PlainFiles(SiteGenerator):
    """Files without a site."""

    name = ""


GENERATOR: Final = PlainFiles()
