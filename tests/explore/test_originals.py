"""Originals beside what they were cut into, trees of fields, resolutions, and how two versions differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kubeflow_corpus.artifacts import write_jsonl
from kubeflow_corpus.chunking.compose import Budget
from kubeflow_corpus.chunking.run import chunk_document
from kubeflow_corpus.explore.corpus import compare, page_of
from kubeflow_corpus.explore.originals import Original, Originals, blocks
from kubeflow_corpus.explore.structure import field_tree, is_custom_resource, thread_parts
from kubeflow_corpus.records import Document
from kubeflow_corpus.tokens import wordpiece_counter
from kubeflow_corpus.vocabulary import default_vocabulary

from tests.servers.sample_threads import sample_documents

CORPUS = Path(__file__).parents[1] / "corpus"
LONG = "\n".join(f"Result {number} of a step is reused where its inputs stayed the same." for number in range(12))
PAGE = (
    "---\ntitle: Caching\n---\n\n## Use\n\nCaching is on.\n" + f"{LONG}\n\n<!-- a remark -->\n\n## Expiry\n\n{LONG}\n"
)


def document(key: str, text: str, kind: Any = "docs", path: str = "", revision: str = "r1") -> Document:
    source, _, name = key.partition(":")
    return Document(key, source, kind, "o/r", revision, path or name, "https://x.example", "", text)


def keep(local: Path, run: str, *documents: Document) -> None:
    """Writes documents where KFP's local runner puts what `fetch` made of a source."""
    folder = local / "runs" / run / "docs-1" / f"for-loop-{documents[0].source}" / "fetch" / "documents"
    write_jsonl(folder / "rows.jsonl.zst", (each.to_dict() for each in documents))


def found(local: Path, key: str) -> Original:
    original = Originals(local).find(key, 256, default_vocabulary())
    assert isinstance(original, Original), original
    return original


def test_every_line_of_an_original_is_in_a_row_or_removed_with_a_reason(tmp_path: Path) -> None:
    keep(tmp_path, "1", document("site:other.md", "# Other\n\nText.\n"), document("site:caching.md", PAGE))
    original = found(tmp_path, "site:caching.md")
    assert "\n".join(line.text for line in original.lines) + "\n" == PAGE
    assert original.lines[0].removed == "front_matter"
    used = next(line for line in original.lines if line.text == "Caching is on.")
    assert used.rows == (1,) and not used.removed
    assert "Caching is on." in original.rows[0] and len(original.rows) >= 2
    assert sum(original.removed.values()) >= 3


def test_the_newest_run_counts(tmp_path: Path) -> None:
    keep(tmp_path, "20260101", document("site:a.md", "# A\n\nOld.\n", revision="old"))
    keep(tmp_path, "20260201", document("site:a.md", "# A\n\nNew.\n", revision="new"))
    keep(tmp_path, "20260301", document("elsewhere:a.md", "# A\n\nOther.\n"))
    assert found(tmp_path, "site:a.md").revision == "new"


def test_a_thread_is_shown_as_it_is_read(tmp_path: Path) -> None:
    thread = next(iter(sample_documents().values()))
    keep(tmp_path, "1", thread)
    original = found(tmp_path, thread.document_id)
    assert len(original.lines) > 3 and original.lines[1].text.startswith("Description by ")
    assert any(line.rows for line in original.lines)


@pytest.mark.parametrize("damage", [b"", b"\x28\xb5\x2f\xfd broken", None])
def test_what_cannot_be_had_is_said(tmp_path: Path, damage: bytes | None) -> None:
    keep(tmp_path, "1", document("site:a.md", "# A\n\nText.\n"))
    file = next(tmp_path.rglob("rows.jsonl.zst"))
    if damage is not None:
        file.write_bytes(damage)
    said = Originals(tmp_path).find("site:missing.md", 256, default_vocabulary())
    assert isinstance(said, str) and "kept it" in said
    assert isinstance(Originals(tmp_path / "nowhere").find("site:a.md", 256, default_vocabulary()), str)


def test_blocks_hold_every_line_once_and_every_row_begins_once(tmp_path: Path) -> None:
    keep(tmp_path, "1", document("site:caching.md", PAGE))
    original = found(tmp_path, "site:caching.md")
    made = list(blocks(original.lines))
    assert [line for block in made for line in block.lines] == list(original.lines)
    assert sorted(row for block in made for row in block.begun) == [*range(1, len(original.rows) + 1)]


def test_the_fields_of_a_custom_resource_are_a_tree() -> None:
    texts = []
    for file in sorted((CORPUS / "manifests").rglob("*.yaml")):
        made = chunk_document(
            document(f"m:{file.name}", file.read_text("utf-8"), "manifest", file.name), Budget(wordpiece_counter(), 256)
        )
        texts += [chunk.content_text for chunk in made.chunks if is_custom_resource(chunk.to_dict())]
    tree = field_tree(texts)
    assert tree is not None and {"spec", "status"} & tree.children.keys()
    spec = tree.children["spec"]
    assert spec.about.startswith("<object>") and spec.children
    assert field_tree(["no field\nat all"]) is None


def test_items_of_a_list_are_fields_of_the_list() -> None:
    tree = field_tree(["spec <object>\nspec.steps <[]object> required\nspec.steps[].name <string>"])
    assert tree is not None
    steps = tree.children["spec"].children["steps"]
    assert steps.about == "<[]object> required" and steps.children["name"].about == "<string>"


def test_a_deep_path_is_read_to_its_end() -> None:
    deep = ".".join(["a"] * 60)
    assert field_tree([f"{deep} <string>"]) is not None


def test_the_resolution_of_a_thread_is_marked() -> None:
    text = "Problem:\nIt fails.\n\nResolution (a maintainer):\nSet it to 2.\n\nClosed by merged pull request 7."
    before, resolution = thread_parts({"content_text": text, "section_path": "Problem and resolution"})
    assert (before.resolution, resolution.resolution) == (False, True)
    assert resolution.text.startswith("Resolution (a maintainer):") and "Set it to 2." in resolution.text
    assert thread_parts({"content_text": "more", "section_path": "Resolution"})[0].resolution
    assert not thread_parts({"content_text": "open", "section_path": "Problem"})[0].resolution


def row(document_id: str, key: str, row_hash: str = "h") -> dict[str, str]:
    return {"document_id": document_id, "title": document_id.upper(), "id": key, "row_hash": row_hash}


def test_two_versions_differ_by_document() -> None:
    before = [row("same", "1"), row("changed", "2"), row("changed", "3"), row("changed", "4"), row("lost", "5")]
    now = [row("same", "1"), row("changed", "2", "other"), row("changed", "3"), row("changed", "6"), row("added", "7")]
    found = compare(before, now)
    assert [(change.document_id, change.state) for change in found.changes] == [
        ("lost", "lost"),
        ("changed", "changed"),
        ("added", "added"),
    ]
    changed = found.changes[1]
    assert (changed.before, changed.now, changed.added, changed.changed, changed.lost) == (3, 3, 1, 1, 1)
    assert found.counts() == {"added": 1, "changed": 1, "lost": 1, "unchanged": 1}


@pytest.mark.parametrize(("number", "shown"), [(0, [0, 1]), (1, [0, 1]), (3, [4]), (99, [4]), (-5, [0, 1])])
def test_a_page_of_a_list_exists(number: int, shown: list[int]) -> None:
    assert list(page_of(list(range(5)), number, 2).items) == shown
    assert page_of([], number).pages == 1
