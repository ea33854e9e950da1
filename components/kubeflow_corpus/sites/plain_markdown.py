"""Markdown without a site: a page is read where its repository shows it, with the anchors that GitHub gives."""

from __future__ import annotations

from typing import Final

from kubeflow_corpus.sites.base import Page, SiteGenerator


class PlainMarkdown(SiteGenerator):
    """README files, proposals and folders of documentation that no generator builds."""

    name = "markdown"
    page_patterns = ("**/*.{md,markdown}",)
    has_addresses = False

    def address(self, page: Page) -> str:
        """Returns the address of the file at its commit."""
        return page.document.url


GENERATOR: Final = PlainMarkdown()
