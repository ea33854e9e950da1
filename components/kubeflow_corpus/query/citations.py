"""Citations: what a widget shows beside an answer, one for each label of the evidence."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kubeflow_corpus.query.results import Hit

SCHEMA_FILE: Final = "citation.schema.json"
MAX_LINKS: Final = 20
# Own fields that help a person to judge a source.
_OWN: Final = (
    "issue_number",
    "state",
    "state_reason",
    "release_date",
    "symbol",
    "kind",
    "resource_name",
    "api_version",
)


def citation(hit: Hit, label: str, links: tuple[str, ...]) -> dict[str, Any]:
    """Returns the citation of one fragment.

    Args:
        hit: The unit.
        label: Its label in the evidence, without brackets.
        links: Addresses that were taken out of the fragment.
    """
    data: dict[str, Any] = {
        "id": label,
        "url": hit.citation_url,
        "title": hit.title,
        "section": hit.section_path,
        "path": hit.file_path,
        "repo": hit.repo,
        "revision": hit.revision,
        "unit_id": hit.unit_id,
        "source_type": hit.source_type,
        "product_area": list(hit.product_area),
        "version": list(hit.version),
        "updated_at": hit.updated_at,
        "score": round(hit.score, 4),
        "mode": hit.mode,
        "links": list(links[:MAX_LINKS]),
        "also_at": list(hit.also_at),
    }
    return data | {name: hit.fields[name] for name in _OWN if hit.fields.get(name) not in (None, "", [])}


@cache
def citation_schema() -> dict[str, Any]:
    """Returns the published JSON schema of a citation."""
    from importlib import resources

    text = resources.files("kubeflow_corpus.query").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
