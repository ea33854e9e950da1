"""One unit that a search found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# What a hit says about itself, besides the fields of its collection.
_BASE: Final = (
    "unit_id",
    "document_id",
    "repo",
    "file_path",
    "citation_url",
    "title",
    "section_path",
    "content_text",
    "source",
    "source_type",
    "revision",
    "updated_at",
)


@dataclass(frozen=True, slots=True)
class Hit:
    """One unit that was found.

    Attributes:
        unit_id: Key of the unit.
        document_id: Key of its document.
        repo: ``owner/name``.
        file_path: Path in the repository.
        citation_url: Where a person reads it.
        title: Title of the document.
        section_path: Breadcrumb below the title.
        content_text: The stored text of the unit, all views, as it is (it may hold links; evidence does not).
        source: Name of the catalogue entry.
        source_type: docs, issue, code or manifest.
        product_area: Products that it is about.
        version: Versions that it is about.
        revision: Commit at which the document last changed in the index.
        updated_at: The source's time.
        score: How well it matches the question, between 0 and 1 (`ranking.match_score`); hits are not in its order.
        mode: Lists that found it: dense, bm25 or both.
        also_at: ``repo:path`` of other places that say (nearly) the same.
        fields: The collection's own fields.
        rows: The stored rows of the unit, in document order.
        matched: Ids of the rows that the lists found, best first.
    """

    unit_id: str
    document_id: str
    repo: str
    file_path: str
    citation_url: str
    title: str
    section_path: str
    content_text: str
    source: str
    source_type: str
    revision: str
    updated_at: str
    product_area: tuple[str, ...]
    version: tuple[str, ...]
    score: float
    mode: str
    also_at: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[Mapping[str, Any], ...] = ()
    matched: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, rows: Sequence[Mapping[str, Any]], own: Sequence[str], *, score: float, mode: str, matched: Sequence[str]
    ) -> Hit:
        """Makes the hit for a unit.

        Args:
            rows: The stored rows of the unit, at least one.
            own: Names of the collection's own fields.
            score: Of the unit.
            mode: Lists that found it.
            matched: Ids of the rows that were found, best first.
        """
        ordered = sorted(rows, key=lambda row: (row["chunk_index"], row["id"]))
        main = ordered[0]
        base: dict[str, Any] = {name: str(main.get(name, "")) for name in _BASE}
        base["content_text"] = "\n".join(str(row["content_text"]) for row in ordered)
        return cls(
            **base,
            product_area=tuple(main.get("product_area") or ()),
            version=tuple(main.get("version") or ()),
            score=score,
            mode=mode,
            fields={name: _plain(main.get(name)) for name in own},
            rows=tuple(ordered),
            matched=tuple(matched),
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form: one flat object; fields of the collection are included unless they are empty."""
        data: dict[str, Any] = {name: getattr(self, name) for name in _BASE}
        data |= {"product_area": list(self.product_area), "version": list(self.version)}
        data |= {"score": round(self.score, 4), "mode": self.mode, "also_at": list(self.also_at)}
        return data | {name: value for name, value in self.fields.items() if value not in ("", None, [])}


def _plain(value: Any) -> Any:
    # Milvus returns arrays as protobuf containers.
    return value if value is None or isinstance(value, (str, int, float, bool)) else list(value)
