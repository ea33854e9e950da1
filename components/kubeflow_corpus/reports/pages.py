"""Renders HTML pages. A page of a report opens offline: styles and charts are part of it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jinja2 import Environment

# Where `kubeflow-corpus explore` answers, unless it was given another port: reports link there.
EXPLORER_PORT: Final = 8090
EXPLORER_URL: Final = f"http://127.0.0.1:{EXPLORER_PORT}"


def render_page(template: str, **values: Any) -> str:
    """Returns a page of a report.

    Args:
        template: File name of the template, which extends ``base.html``.
        **values: What the template shows; every text is escaped.
    """
    return templates_of("kubeflow_corpus.reports").get_template(template).render(values)


@cache
def templates_of(*packages: str) -> Environment:
    """Returns the templates in the folders ``templates`` of packages; of two with one name that of the first package.

    Args:
        *packages: Import names.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        # Titles, questions and paths come from anybody.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
