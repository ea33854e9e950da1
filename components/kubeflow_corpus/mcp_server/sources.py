"""What an answer ends with: which unit each label is and, where a host shows nothing else, its address."""

from __future__ import annotations

from collections.abc import Sequence

from kubeflow_corpus.query.citations import Citation
from kubeflow_corpus.query.evidence import one_line
from kubeflow_corpus.query.links import strip_links


def with_sources(text: str, citations: Sequence[Citation], *, addresses: bool) -> str:
    """Returns evidence with a list of its sources.

    Args:
        text: Evidence.
        citations: Of its labels.
        addresses: Whether the list has titles and addresses too; it has the keys of the units in any case.
    """
    lines = [line for citation in citations for line in _source(citation, addresses=addresses)]
    if not lines:
        return text
    return "\n".join([text, "", "Sources:" if addresses else "Units:", *lines])


def _source(citation: Citation, *, addresses: bool) -> list[str]:
    label, unit = f"[{citation['id']}]", citation["unit_id"]
    if not addresses:
        # The key of a written document may be an address, which no text without addresses may show.
        return [f"{label} {unit}"] if strip_links(unit).text == unit else []
    title = one_line(" > ".join(part for part in (citation["title"], citation["section"]) if part) or citation["path"])
    places = [f"  {{{link['id']}}} {link['url']}" for link in citation["links"]]
    return [f"{label} {title}", f"  {citation['url']} (unit_id {unit})", *places]
