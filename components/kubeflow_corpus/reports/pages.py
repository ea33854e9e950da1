"""Renders the HTML pages of reports. A page opens offline: styles and charts are part of it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def render_page(template: str, **values: Any) -> str:
    """Returns a page.

    Args:
        template: File name of the template, which extends ``base.html``.
        **values: What the template shows; every text is escaped.
    """
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("kubeflow_corpus.reports"),
        # Titles, questions and paths come from anybody.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
