"""Citations: what a widget shows beside an answer, one for each label of the evidence."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final, NotRequired, TypedDict, cast

from kubeflow_corpus.collections import CITED_FIELDS
from kubeflow_corpus.query.hit import Hit
from kubeflow_corpus.query.places import Link

SCHEMA_FILE: Final = "citation.schema.json"
_CITED: Final = tuple(field.name for field in CITED_FIELDS)
_TYPES: Final = {"text": "string", "integer": "integer", "boolean": "boolean", "array": "array"}


class Citation(TypedDict):
    """What one label of the evidence is; ``citation.schema.json`` describes every field."""

    id: str
    url: str
    title: str
    section: str
    path: str
    repo: str
    revision: str
    unit_id: str
    source_type: str
    product_area: list[str]
    version: list[str]
    updated_at: str
    score: float
    mode: str
    links: list[Link]
    also_at: list[str]
    issue_number: NotRequired[int]
    state: NotRequired[str]
    state_reason: NotRequired[str]
    release_date: NotRequired[str]
    symbol: NotRequired[str]
    kind: NotRequired[str]
    resource_name: NotRequired[str]
    api_version: NotRequired[str]


def citation(hit: Hit, label: str, links: tuple[Link, ...]) -> Citation:
    """Returns the citation of one fragment.

    Args:
        hit: The unit.
        label: Its label in the evidence, without brackets.
        links: Addresses that were taken out of the fragment, with their places in it.
    """
    data: Citation = {
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
        "links": list(links),
        "also_at": list(hit.also_at),
    }
    own = {name: hit.fields[name] for name in _CITED if hit.fields.get(name) not in (None, "", [])}
    return cast(Citation, data | own)


@cache
def citation_schema() -> dict[str, Any]:
    """Returns the published JSON schema of a citation, with every field that the table of collections calls cited."""
    from importlib import resources

    text = resources.files("kubeflow_corpus.query").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    for field in CITED_FIELDS:
        schema["properties"].setdefault(field.name, {"type": _TYPES[field.kind]})
    return schema
