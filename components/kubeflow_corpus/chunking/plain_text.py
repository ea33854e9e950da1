"""Rows of text without a structure that a parser knows: cut at blank lines, inside of paragraphs only where needed."""

from __future__ import annotations

from kubeflow_corpus.chunking.line_rows import LineRows, SourceText, pack_lines


def cut_plain_text(source: SourceText, start: int, end: int, room: int) -> list[tuple[int, int]]:
    """Returns ranges of lines that fit, ending at blank lines where there are any.

    Args:
        source: The lines.
        start: First line.
        end: End of the range, exclusive.
        room: Tokens that fit into a range.
    """
    atoms = [start]
    for index in range(start + 1, end):
        if source.blank(index - 1) and not source.blank(index):
            atoms.append(index)
    bounds: list[int] = []
    for first, last in zip(atoms, [*atoms[1:], end], strict=True):
        fits = source.cost(first, last) <= room
        bounds.extend([first] if fits else range(first, last))
    return pack_lines(source, bounds, end, room, room)


def add_plain_text(
    rows: LineRows, start: int, end: int, section_path: str, anchor: str, language: str, kind: str
) -> None:
    """Adds the rows of a range of lines that stays plain text.

    Args:
        rows: The rows of the document.
        start: First line.
        end: End of the range, exclusive.
        section_path: Breadcrumb of the unit.
        anchor: Name of the unit.
        language: Value of the field `language`.
        kind: Value of the field `kind`.
    """
    first, last = rows.source.tight(start, end)
    if first >= last:
        rows.remove("blank", start, end)
        return
    unit_id = rows.unit(anchor)
    fields = {"language": language, "symbol": "", "kind": kind, "api_version": "", "resource_name": ""}
    room = max(1, rows.room(section_path))
    for begin, stop in cut_plain_text(rows.source, start, end, room):
        content = rows.source.text(begin, stop)
        if content:
            rows.add(unit_id, section_path, content, (begin, stop), fields)
        else:
            rows.remove("blank", begin, stop)
