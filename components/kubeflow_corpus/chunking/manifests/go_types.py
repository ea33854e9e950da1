"""What the Go types behind a CRD say: comments, markers and the constants that are its defaults.

KServe's CRDs carry no descriptions and Katib's no schema; both live in the Go types, and the defaults in constants
such as ``DefaultMinReplicas = 1``. The types are collected once per repository for the chunker of its
manifests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, TypeVar

from kubeflow_corpus.chunking.code import exclusions as generated
from kubeflow_corpus.chunking.code import grammars
from kubeflow_corpus.chunking.code.grammars import text_of
from kubeflow_corpus.records import Document
from kubeflow_corpus.terms import identifier_parts

if TYPE_CHECKING:
    from tree_sitter import Node

K = TypeVar("K")
V = TypeVar("V")

_MAX_BYTES: Final = 1_000_000
_TAG: Final = re.compile(r'json:"([^",]*)((?:,[^"]*)?)"')
_DEFAULT_NAME: Final = re.compile(r"[dD]efault[A-Z_]")
_DEFAULT_OF: Final = re.compile(r"default value (?:of|for) `?([\w.]+)`?")
_MOST_OF_A_NAME: Final = 20
_LITERAL: Final = re.compile(r"^(?:\w+\()?(\"[^\"]*\"|`[^`]*`|-?[\d.]+|true|false)\)?$")
_COMMENT_MARKS: Final = re.compile(r"^\s*(//|/\*+|\*/|\*)\s?|\*/\s*$")
_MARKED_DEFAULT: Final = re.compile(r"\+(?:kubebuilder:)?default:?=(.*)")
_MARKED_ENUM: Final = re.compile(r"\+kubebuilder:validation:Enum=(.*)")
# Go types of Kubernetes that a reader knows by their JSON form.
_PLAIN: Final = {
    "string": "string",
    "bool": "boolean",
    "int": "integer",
    "int8": "integer",
    "int16": "integer",
    "int32": "integer",
    "int64": "integer",
    "float32": "number",
    "float64": "number",
    "byte": "integer",
    "metav1.Time": "string(date-time)",
    "metav1.Duration": "string(duration)",
    "resource.Quantity": "int-or-string",
    "intstr.IntOrString": "int-or-string",
    "metav1.ObjectMeta": "metadata",
}


@dataclass(frozen=True, slots=True)
class GoField:
    """One field of a struct.

    Attributes:
        name: Go name.
        json: JSON name; "" for a struct that is inlined.
        type: Go type as written.
        doc: Comment without markers, on one line.
        markers: Lines that begin with ``+``.
        optional: Whether it may be left out.
    """

    name: str
    json: str
    type: str
    doc: str
    markers: tuple[str, ...] = ()
    optional: bool = True

    @property
    def default(self) -> str:
        """The default that a marker sets, or ""."""
        return _first(_MARKED_DEFAULT, self.markers)

    @property
    def enum(self) -> str:
        """The values that a marker allows, or ""."""
        return _first(_MARKED_ENUM, self.markers).replace(";", " | ")


@dataclass(frozen=True, slots=True)
class GoStruct:
    """A struct type: its folder, its file, its comment, its fields."""

    name: str
    folder: str
    path: str
    doc: str
    fields: tuple[GoField, ...]
    imports: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class GoConstant:
    """A named constant (or package variable) with a literal value."""

    name: str
    value: str
    doc: str
    path: str


@dataclass(slots=True)
class GoTypes:
    """The Go types of one repository.

    Attributes:
        structs: By folder and name.
        aliases: Named types that are not structs: what each is, by folder and name.
        values: Constants of a named type, by folder and type: the values of an enum.
        constants: All constants by name, to follow one that names another.
        defaults: Constants called ``Default...``, by their words.
        documented: Those whose comment says of which field they are the default: by the last part of its path, with
            the path.
        folders: Folders that declare a type, by its name.
    """

    structs: dict[tuple[str, str], GoStruct] = field(default_factory=dict)
    aliases: dict[tuple[str, str], str] = field(default_factory=dict)
    values: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    constants: dict[str, GoConstant] = field(default_factory=dict)
    defaults: dict[frozenset[str], list[GoConstant]] = field(default_factory=dict)
    documented: dict[str, list[tuple[str, GoConstant]]] = field(default_factory=dict)
    folders: dict[str, set[str]] = field(default_factory=dict)

    def add_default(self, constant: GoConstant) -> None:
        """Adds a constant that is called like a default."""
        self.defaults.setdefault(words(constant.name), []).append(constant)
        match = _DEFAULT_OF.search(constant.doc)
        path = match.group(1).rstrip(".") if match else ""
        known = self.documented.setdefault(path.rpartition(".")[2], []) if "." in path else []
        if "." in path and len(known) < _MOST_OF_A_NAME:
            known.append((path, constant))

    def merge(self, other: GoTypes) -> None:
        """Adds the types of further files; of two of one name the first stays, as where files are added one by one."""
        _add_new(self.structs, other.structs)
        _add_new(self.aliases, other.aliases)
        _add_new(self.constants, other.constants)
        for key, values in other.values.items():
            self.values.setdefault(key, []).extend(values)
        for words_of_name, constants in other.defaults.items():
            self.defaults.setdefault(words_of_name, []).extend(constants)
        for name, documented in other.documented.items():
            known = self.documented.setdefault(name, [])
            known.extend(documented[: max(0, _MOST_OF_A_NAME - len(known))])
        for name, folders in other.folders.items():
            self.folders.setdefault(name, set()).update(folders)

    def root(self, kind: str, version: str) -> GoStruct | None:
        """Returns the struct of a Kubernetes kind in a folder that is named like the API version."""
        found = [
            struct
            for (folder, name), struct in self.structs.items()
            if name == kind and PurePosixPath(folder).name == version and any(f.json == "spec" for f in struct.fields)
        ]
        return min(found, key=lambda struct: struct.path) if found else None

    def fields(self, struct: GoStruct, depth: int = 8) -> Iterator[tuple[GoStruct, GoField]]:
        """Yields the JSON fields of a struct with the struct that declares each, inlined structs unfolded."""
        for item in struct.fields:
            if item.json:
                yield struct, item
            elif depth and (inner := self.struct_of(item.type, struct)) is not None:
                yield from self.fields(inner, depth - 1)

    def struct_of(self, type_text: str, owner: GoStruct) -> GoStruct | None:
        """Returns the struct that a field's type names, through pointers, lists and maps."""
        folder, name = self._resolved(element(type_text), owner)
        return self.structs.get((folder, name))

    def json_type(self, type_text: str, owner: GoStruct) -> str:
        """Returns the type of a field as a schema calls it."""
        text = type_text.lstrip("*")
        if text.startswith("[]"):
            return "string" if text == "[]byte" else "[]" + self.json_type(text[2:], owner)
        if text.startswith("map["):
            return "map[string]" + self.json_type(text.partition("]")[2], owner)
        if text in _PLAIN:
            return _PLAIN[text]
        folder, name = self._resolved(text, owner)
        if (folder, name) in self.structs:
            return "object"
        plain = self.aliases.get((folder, name), "")
        return _PLAIN.get(plain, plain) or text

    def enum(self, type_text: str, owner: GoStruct) -> str:
        """Returns the values of the constants of a named type, or ""."""
        if element(type_text) in _PLAIN:
            return ""
        return " | ".join(filter(None, self.values.get(self._resolved(element(type_text), owner), [])[:20]))

    def default_of(self, name: str, path: str) -> GoConstant | None:
        """Returns the constant that is the default of a field: its comment says so, or it is called like the field.

        Args:
            name: Go name of the field.
            path: Path of the field in the object, ``spec.parallelTrialCount``.
        """
        for end, constant in self.documented.get(path.rpartition(".")[2], ()):
            if path.endswith(end):
                return constant
        wanted = words(name)
        # One word is not a name: `DefaultTimeout` belongs to any of a dozen fields.
        named = self.defaults.get(wanted, []) if len(wanted) > 1 else []
        values = {constant.value for constant in named}
        return min(named, key=lambda constant: constant.path) if len(values) == 1 else None

    def _resolved(self, name: str, owner: GoStruct) -> tuple[str, str]:
        package, dot, local = name.rpartition(".")
        if not dot:
            return owner.folder, local
        imported = dict(owner.imports).get(package, package)
        fitting = [folder for folder in sorted(self.folders.get(local, ())) if imported.endswith("/" + folder)]
        return (fitting[0] if fitting else imported), local


def _add_new(known: dict[K, V], others: Mapping[K, V]) -> None:
    for key, value in others.items():
        known.setdefault(key, value)


def words(name: str) -> frozenset[str]:
    """Returns the words of an identifier, without a leading ``Default``."""
    name = re.sub(r"^[dD]efault_?", "", name)
    return frozenset(list(identifier_parts(name))[:-1] or [name.lower()])


def element(type_text: str) -> str:
    """Returns the named type inside pointers, lists and maps."""
    text = type_text
    while True:
        inner = text.lstrip("*")
        if inner.startswith("[]"):
            inner = inner[2:]
        elif inner.startswith("map["):
            inner = inner.partition("]")[2]
        if inner == text:
            return text
        text = inner


def add_go_file(types: GoTypes, document: Document) -> None:
    """Adds what one file declares; files that are not hand-written API types or constants add nothing."""
    text = document.text
    if not document.path.endswith(".go") or len(text) > _MAX_BYTES:
        return
    if 'json:"' not in text and not _DEFAULT_NAME.search(text):
        return
    if generated.exclusion(document.path, text, generated=bool(document.metadata.get("generated"))):
        return
    data = text.encode("utf-8", "replace")
    tree = grammars.parse("go", data)
    if tree is None:
        return
    root = tree.root_node
    folder = str(PurePosixPath(document.path).parent)
    imports = tuple(_imports(data, root))
    for node, comments in _commented(root):
        if node.type == "type_declaration":
            for spec, own in _commented(node):
                above = comments if node.named_child_count == 1 else own
                _add_type(types, data, spec, above, folder, document.path, imports)
        elif node.type in ("const_declaration", "var_declaration"):
            _add_constants(types, data, node, comments, folder, document.path)


def _imports(data: bytes, root: Node) -> Iterator[tuple[str, str]]:
    for node in root.named_children:
        if node.type != "import_declaration":
            continue
        specs = [spec for child in node.named_children for spec in (child, *child.named_children)]
        for spec in specs:
            if spec.type == "import_spec":
                path = text_of(spec.child_by_field_name("path"), data).strip('"`')
                yield text_of(spec.child_by_field_name("name"), data) or path.rpartition("/")[2], path


def _add_type(
    types: GoTypes,
    data: bytes,
    spec: Node,
    comments: list[Node],
    folder: str,
    path: str,
    imports: tuple[tuple[str, str], ...],
) -> None:
    name, value = text_of(spec.child_by_field_name("name"), data), spec.child_by_field_name("type")
    if not name or value is None:
        return
    if value.type != "struct_type":
        types.aliases.setdefault((folder, name), text_of(value, data))
        types.folders.setdefault(name, set()).add(folder)
        return
    body = next((child for child in value.named_children if child.type == "field_declaration_list"), None)
    fields = tuple(_fields(data, body)) if body is not None else ()
    doc, _ = _doc(data, comments)
    types.structs.setdefault((folder, name), GoStruct(name, folder, path, doc, fields, imports))
    types.folders.setdefault(name, set()).add(folder)


def _fields(data: bytes, body: Node) -> Iterator[GoField]:
    for node, comments in _commented(body):
        if node.type != "field_declaration":
            continue
        tag = _TAG.search(text_of(node.child_by_field_name("tag"), data))
        type_text = re.sub(r"\s+", " ", text_of(node.child_by_field_name("type"), data))
        names = [text_of(name, data) for name in node.children_by_field_name("name")]
        doc, markers = _doc(data, comments)
        options = tag.group(2) if tag else ""
        json = tag.group(1) if tag else ""
        if json == "-" or (names and not tag):
            continue
        optional = "omitempty" in options or any(marker.startswith("+optional") for marker in markers)
        name = names[0] if names else element(type_text).rpartition(".")[2]
        yield GoField(name, "" if "inline" in options else json, type_text, doc, markers, optional)


def _commented(block: Node) -> Iterator[tuple[Node, list[Node]]]:
    """Yields what a node holds, each with the comments right above it; one that stands behind code is not above."""
    comments: list[Node] = []
    busy = -1
    for child in block.children:
        row = child.start_point.row
        if child.type in ("\n", ";"):
            continue
        if comments and comments[-1].end_point.row != row - 1:
            comments = []
        if child.type != "comment":
            yield child, comments
            comments, busy = [], child.end_point.row
        elif row == busy:
            comments = []
        else:
            comments.append(child)


def _doc(data: bytes, comments: list[Node]) -> tuple[str, tuple[str, ...]]:
    """Returns comments as one line, and the markers in them."""
    lines = [line for comment in comments for line in text_of(comment, data).split("\n")]
    stripped = [_COMMENT_MARKS.sub("", line).strip() for line in lines]
    markers = tuple(line for line in stripped if line.startswith("+"))
    return " ".join(line for line in stripped if line and not line.startswith("+")), markers


def _add_constants(
    types: GoTypes, data: bytes, declaration: Node, comments: list[Node], folder: str, path: str
) -> None:
    groups = [child for child in declaration.named_children if child.type == "var_spec_list"]
    single = declaration.named_child_count == 1 and not groups
    for spec, own in _commented(groups[0] if groups else declaration):
        names = [name for name in spec.children_by_field_name("name") if name.type == "identifier"]
        value = spec.child_by_field_name("value")
        if len(names) != 1 or value is None:
            continue
        name, text = text_of(names[0], data), re.sub(r"\s+", " ", text_of(value, data))
        literal = _LITERAL.match(text)
        doc, _ = _doc(data, comments if single else own)
        constant = GoConstant(name, literal.group(1).strip('"`') if literal else text, doc, path)
        if literal or re.fullmatch(r"[\w.]+", text):
            types.constants.setdefault(name, constant)
            if _DEFAULT_NAME.match(name):
                types.add_default(constant)
        type_name = text_of(spec.child_by_field_name("type"), data)
        if type_name and literal and declaration.type == "const_declaration":
            types.values.setdefault((folder, type_name), []).append(constant.value)


def value_of(types: GoTypes, constant: GoConstant) -> str:
    """Returns the value of a constant, followed once where it names another constant."""
    other = types.constants.get(constant.value.rpartition(".")[2])
    return other.value if other is not None else constant.value


def _first(pattern: re.Pattern[str], markers: tuple[str, ...]) -> str:
    return next((match.group(1).strip() for marker in markers if (match := pattern.search(marker))), "")
