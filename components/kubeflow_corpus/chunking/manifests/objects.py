"""Kubernetes manifests and other YAML: one unit per object, one view per ConfigMap key, CRDs whole.

The text of an object is shown as it is in the file: comments carry half of what people ask. An object that does not
fit is split at its top-level blocks, deeper only where it must be, and every part repeats the keys that it is under.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from kubeflow_corpus.chunking.code import exclusions as generated
from kubeflow_corpus.chunking.compose import HEADER_SHARE, Budget
from kubeflow_corpus.chunking.line_rows import LineRows, SourceText, pack_lines
from kubeflow_corpus.chunking.manifests import crds, yaml_tree
from kubeflow_corpus.chunking.manifests.crds import CodeContext
from kubeflow_corpus.chunking.manifests.yaml_tree import YamlNode, YamlRejected
from kubeflow_corpus.chunking.plain_text import cut_plain_text
from kubeflow_corpus.file_context import CRD_KIND
from kubeflow_corpus.records import Chunked, Document, FieldValue, Skip

# The largest CRD has 2 MB, and install bundles hold several; YAML of that size without a CRD is data.
MAX_BYTES: Final = 8_000_000
MAX_PLAIN_BYTES: Final = 500_000
# Bundles for installing hold some hundreds.
MAX_DOCUMENTS: Final = 5_000
_HELM: Final = re.compile(r"\{\{-?\s*(\.|\$|if|else|end|range|with|include|define|template|toYaml|tpl|/\*|-|\")")
_KIND: Final = re.compile(r"^kind: [\"']?([A-Za-z]+)", re.MULTILINE)
_API_VERSION: Final = re.compile(r"^apiVersion: [\"']?([\w./-]+)", re.MULTILINE)
_KUSTOMIZATIONS: Final = frozenset({"kustomization.yaml", "kustomization.yml"})
# Objects whose data keys are files or settings of their own: one view a key.
_KEYED: Final = {"ConfigMap": ("data", "binaryData"), "Secret": ("stringData", "data")}
_END_MARKER: Final = re.compile(r"\A\.\.\.(?=[ \t\n]|\Z)")
# Blocks inside blocks that are looked into; a deeper one is cut at blank lines.
_MAX_DEPTH: Final = 40


def chunk(document: Document, budget: Budget, context: CodeContext | None = None) -> Chunked:
    """Cuts one YAML file into the rows of its objects.

    Args:
        document: A file of a source of type code.
        budget: What the embedding model reads.
        context: What the other files of the repository say (`crds.collect_context`): the Go types behind CRDs, and
            which of several copies of a CRD is the one to show. Without it every CRD of the file is shown.

    Returns:
        Rows, removed lines and counts, or the reason why the file gives no row.
    """
    if len(document.text) > (MAX_BYTES if CRD_KIND in document.text[:MAX_BYTES] else MAX_PLAIN_BYTES):
        return Chunked(skipped=_skip(document, "too_large"))
    if "\0" in document.text[:8_000]:
        return Chunked(skipped=_skip(document, "binary"))
    reason = _excluded(document)
    if reason:
        return Chunked(skipped=_skip(document, reason))
    source = SourceText(document.text, budget.counter)
    rows = LineRows(document, budget, source)
    licence = generated.licence_lines(source.lines)
    rows.remove("licence_header", 0, licence)
    for index, (start, end) in enumerate(yaml_tree.split_documents(source.lines[licence:])):
        if index == MAX_DOCUMENTS:
            rows.remove("too_many_documents", start + licence, len(source))
            break
        _Objects(rows, context or CodeContext()).add(start + licence, end + licence)
    return rows.result()


def _skip(document: Document, reason: str) -> Skip:
    return Skip(document.document_id, document.path, reason)


def _excluded(document: Document) -> str:
    """Returns why a file is left out. A file that holds a CRD never is, whatever its path or attributes say."""
    if CRD_KIND in document.text:
        return ""
    if document.metadata.get("generated"):
        return "generated_attribute"
    return generated.vendored(document.path)


class _Objects:
    """Adds the objects of one YAML document."""

    def __init__(self, rows: LineRows, context: CodeContext) -> None:
        self._rows = rows
        self._source = rows.source
        self._context = context

    def add(self, start: int, end: int) -> None:
        """Adds the objects between two lines."""
        if _END_MARKER.match(self._source.lines[start]):
            # It ends the document before, and is not a value of this one.
            self._rows.remove("blank", start, start + 1)
            start += 1
        text = "\n".join(self._source.lines[start:end])
        if not _content(text):
            self._rows.remove("blank", start, end)
            return
        if self._rows.document.path.endswith((".tpl",)) or (_HELM.search(text) and self._is_chart()):
            self._template(start, end, text, "helm_template")
            return
        try:
            node = yaml_tree.read_tree(text)
        except YamlRejected:
            reason = "helm_template" if _HELM.search(text) else "yaml_error"
            self._template(start, end, text, reason)
            return
        if node is None:
            self._rows.remove("blank", start, end)
        else:
            self._object(node, start, end, start)

    def _is_chart(self) -> bool:
        return "/templates/" in f"/{self._rows.document.path}"

    def _template(self, start: int, end: int, text: str, reason: str) -> None:
        """Adds text that is not YAML, named by what can be read from it; a copy of a CRD is left out."""
        if crds.is_copy(text, self._rows.document, self._context):
            self._rows.remove("crd_duplicate", start, end)
            return
        self._rows.counts[reason] += 1
        if len(text) > MAX_PLAIN_BYTES:
            self._rows.remove("too_large", start, end)
            return
        kind, version = _first(_KIND, text), _first(_API_VERSION, text)
        stem = generated.stem(self._rows.document.path)
        section = f"{kind} {stem}" if kind else ""
        fields = self._fields(kind, version, "", "")
        unit_id = self._rows.unit(f"{version.rpartition('/')[0] or 'core'}/{kind}/{stem}" if kind else stem)
        self._text_rows(unit_id, section, fields, start, end, start)

    def _object(self, node: YamlNode, start: int, end: int, base: int) -> None:
        kind, version = node.scalar("kind"), node.scalar("apiVersion")
        items = node.get("items")
        if kind.endswith("List") and items is not None and items.kind == "sequence" and items.items:
            self._list(items.items, start, end, base)
            return
        if kind == CRD_KIND and crds.add_crd(self._rows, node, start, end, self._context):
            return
        if PurePosixPath(self._rows.document.path).name in _KUSTOMIZATIONS:
            kind = kind or "Kustomization"
        name = node.scalar("metadata", "name") or node.scalar("metadata", "generateName")
        namespace = node.scalar("metadata", "namespace")
        shown = name or (self._place() if kind else "")
        section = " ".join(part for part in (kind, shown) if part) + (f" (namespace {namespace})" if namespace else "")
        group = version.rpartition("/")[0] or ("core" if version else "config")
        anchor = "/".join(part for part in (group, kind, shown, namespace) if part)
        unit_id = self._rows.unit(anchor if kind else generated.stem(self._rows.document.path))
        fields = self._fields(kind, version, name, "")
        keyed = [node.entries[key] for key in _KEYED.get(kind, ()) if key in node.entries]
        keyed = [data for data in keyed if data.entries and base + min(data.lines.values()) >= start]
        if keyed:
            self._keyed(node, unit_id, section, fields, start, end, base)
        else:
            self._text_rows(unit_id, section, fields, start, end, start)

    def _place(self) -> str:
        """Returns what names an object without a name: its folder, as a kustomization has none."""
        path = PurePosixPath(self._rows.document.path)
        return path.parent.name if path.name in _KUSTOMIZATIONS else path.stem

    @staticmethod
    def _fields(kind: str, version: str, name: str, symbol: str) -> dict[str, FieldValue]:
        return {"language": "yaml", "symbol": symbol, "kind": kind, "api_version": version, "resource_name": name}

    def _list(self, items: list[YamlNode], start: int, end: int, base: int) -> None:
        """Adds each object of a list; the lines of the list itself go to the first."""
        starts = [self._above(base + item.line, start) for item in items]
        starts[0] = start
        for index, item in enumerate(items):
            stop = starts[index + 1] if index + 1 < len(items) else end
            if stop <= starts[index]:
                continue
            if item.kind == "mapping":
                self._object(item, starts[index], stop, base)
            else:
                self._rows.remove("list_item", starts[index], stop)

    def _above(self, line: int, start: int) -> int:
        """Returns the first of the comment lines right above a line."""
        while line > start and self._source.lines[line - 1].lstrip().startswith("#"):
            line -= 1
        return line

    # --- ConfigMaps ---

    def _keyed(
        self,
        node: YamlNode,
        unit_id: str,
        section: str,
        fields: dict[str, FieldValue],
        start: int,
        end: int,
        base: int,
    ) -> None:
        """Adds a row for what stands around the data, and a view for each key with the comments above it."""
        blocks = [(key, base + line) for key, line in node.lines.items()]
        data = {base + node.lines[key]: key for key in _KEYED[str(fields["kind"])] if key in node.entries}
        cuts: list[tuple[int, str, int]] = []
        for _, line in blocks:
            begin = self._above(line, start)
            cuts.append((begin, "", line))
            if line in data:
                entries = node.entries[data[line]].lines
                cuts.extend((self._above(base + at, line + 1), name, line) for name, at in entries.items())
        cuts = sorted(cut for cut in cuts if start <= cut[0] < end)
        merged = self._merge_plain(cuts, start)
        for index, (begin, name, opening) in enumerate(merged):
            stop = merged[index + 1][0] if index + 1 < len(merged) else end
            if stop <= begin:
                continue
            if name:
                head = self._source.lines[opening].rstrip()
                own = {**fields, "symbol": name}
                self._text_rows(unit_id, f"{section} > {name}", own, begin, stop, begin, view=f"data:{name}", top=head)
            else:
                self._text_rows(unit_id, section, fields, begin, stop, begin)

    @staticmethod
    def _merge_plain(cuts: list[tuple[int, str, int]], start: int) -> list[tuple[int, str, int]]:
        """Joins neighbours that are not data keys, and puts the first at the start of the object."""
        merged: list[tuple[int, str, int]] = []
        for cut in cuts:
            if merged and (merged[-1][0] == cut[0] or (not merged[-1][1] and not cut[1])):
                if cut[1] and not merged[-1][1] and merged[-1][0] == cut[0]:
                    merged[-1] = cut
                continue
            merged.append(cut)
        if merged:
            merged[0] = (start, *merged[0][1:])
        return merged

    # --- Text ---

    def _text_rows(
        self,
        unit_id: str,
        section: str,
        fields: dict[str, FieldValue],
        start: int,
        end: int,
        top_line: int,
        view: str = "",
        top: str = "",
    ) -> None:
        """Adds a range of YAML lines, in parts that repeat the keys above them where it does not fit."""
        source, rows = self._source, self._rows
        room = max(8, rows.room(section) - rows.costs.cost(top))
        if source.cost(start, end) <= room:
            parts = [(start, end)]
        else:
            rest = max(8, room - rows.budget.tokens // HEADER_SHARE)
            parts = _blocks(source, start, end, room, rest)
        limit = rows.budget.tokens // HEADER_SHARE
        parents = _parents(source, top_line, [begin for begin, _ in parts[1:]], limit)
        for begin, stop in parts:
            text = source.text(begin, stop)
            if begin == start and text.startswith("---"):
                text = text.partition("\n")[2].lstrip("\n")
            if not text:
                rows.remove("blank", begin, stop)
                continue
            above = [top] if top else []
            above.extend(parents.get(begin, ()))
            content = "\n".join([*above, text])
            rows.add(unit_id, section, content, (begin, stop), fields, view=view)


def _blocks(source: SourceText, start: int, end: int, room: int, rest: int) -> list[tuple[int, int]]:
    """Splits lines of YAML at the outermost keys that make the parts fit."""
    atoms: list[int] = []
    strong: set[int] = set()
    indents = {row: _indent(source.lines[row]) for row in range(start, end) if _is_content(source.lines[row])}
    for begin, stop in _atoms(source, indents, start, end, min(room, rest), 0):
        if source.cost(begin, stop) <= min(room, rest):
            atoms.append(begin)
        else:
            atoms.extend(first for first, _ in cut_plain_text(source, begin, stop, min(room, rest)))
    for begin in atoms:
        if begin > start and source.blank(begin - 1):
            strong.add(begin)
    return pack_lines(source, sorted({start, *atoms}), end, room, rest, frozenset(strong))


def _atoms(
    source: SourceText, indents: dict[int, int], start: int, end: int, room: int, depth: int
) -> Iterator[tuple[int, int]]:
    """Yields blocks of lines by indentation, going inside a block only where it does not fit."""
    starts = _block_starts(source, indents, start, end)
    for index, begin in enumerate(starts):
        stop = starts[index + 1] if index + 1 < len(starts) else end
        if source.cost(begin, stop) <= room or depth >= _MAX_DEPTH:
            yield begin, stop
            continue
        head = next((row for row in range(begin, stop) if row in indents), begin) + 1
        if head >= stop:
            yield begin, stop
            continue
        inner = list(_atoms(source, indents, head, stop, room, depth + 1))
        yield begin, inner[0][1]
        yield from inner[1:]


def _block_starts(source: SourceText, indents: dict[int, int], start: int, end: int) -> list[int]:
    """Returns the lines at which the outermost blocks of a range begin, with the comments right above each."""
    contents = [row for row in range(start, end) if row in indents]
    if not contents:
        return [start]
    outer = min(indents[row] for row in contents)
    starts: list[int] = []
    for row in contents:
        if indents[row] == outer:
            first = row
            while first > start and source.lines[first - 1].lstrip().startswith("#"):
                first -= 1
            if not starts or first > starts[-1]:
                starts.append(first)
    return [start, *(row for row in starts if row > contents[0])] if starts else [start]


def _parents(source: SourceText, start: int, lines: list[int], limit: int) -> dict[int, list[str]]:
    """Returns for each of some lines the lines of the keys that it is under, outermost first, in one pass.

    Args:
        source: The lines.
        start: Where to begin.
        lines: Lines to find the parents of, ascending.
        limit: Tokens that the parents of a line may take; the innermost ones are kept.
    """
    found: dict[int, list[str]] = {}
    stack: list[tuple[int, int]] = []
    row = target = start
    for line in lines:
        target = max(target, line)
        while target < len(source) - 1 and not _is_content(source.lines[target]):
            target += 1
        while row < line:
            if _is_content(source.lines[row]):
                _push(stack, _indent(source.lines[row]), row)
            row += 1
        indent = _indent(source.lines[target])
        kept: list[str] = []
        spent = 0
        for depth, above in reversed(stack):
            if depth < indent:
                spent += source.cost(above, above + 1)
                if spent > limit:
                    break
                kept.append(source.lines[above])
        found[line] = kept[::-1]
    return found


def _push(stack: list[tuple[int, int]], indent: int, row: int) -> None:
    while stack and stack[-1][0] >= indent:
        stack.pop()
    stack.append((indent, row))


def _indent(line: str) -> int:
    """Returns how deep a line is; a list item is deeper than a key in its column, for a key may own it there."""
    stripped = line.lstrip(" ")
    return 2 * (len(line) - len(stripped)) + (1 if stripped.startswith("- ") or stripped == "-" else 0)


def _is_content(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith(("#", "---"))


def _content(text: str) -> bool:
    return any(_is_content(line) for line in text.split("\n"))


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match.group(1) if match else ""
