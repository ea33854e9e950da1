"""CRDs whole: one unit per CRD and version, rendered as one line per field, and joined with the Go types behind it.

A raw CRD is mostly repetition: InferenceService holds the schema of a container a hundred times. Here identical
sub-schemas are written once, types of Kubernetes' core are named instead of spelled out, and each remaining field is
one line: path, type, whether it is required, default, allowed values, bounds, description.

The rows of a unit are a *definition* (names, scope, versions: the raw lines before the schema), a *header* and field
views. `kind` of the definition is ``CustomResourceDefinition`` and of every other row the kind that the CRD defines, so
a filter on either finds what is meant: ``kind=InferenceService`` the fields, ``kind=CustomResourceDefinition`` the
definitions. Field views that come from Go types because the CRD has no schema are called ``go:...``; they repeat the
lines of the schema's place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Final

from kubeflow_corpus.chunking.code.values import NamedValues, may_name_values, read_values
from kubeflow_corpus.chunking.line_rows import LineRows
from kubeflow_corpus.chunking.manifests.go_types import GoStruct, GoTypes, add_go_file, value_of
from kubeflow_corpus.chunking.manifests.yaml_tree import YamlNode, flow, split_documents
from kubeflow_corpus.file_context import CRD_KIND
from kubeflow_corpus.records import Document, FieldValue
from kubeflow_corpus.vocabulary import Vocabulary, default_vocabulary

DEFINITION: Final = "definition"
# Schemas nest as deep as an attacker likes, and an alias may lead back to its own parent.
MAX_DEPTH: Final = 60
MAX_FIELDS: Final = 20_000
_MAX_GO_DEPTH: Final = 10
# Every Kubernetes object has these; they say nothing about the kind.
_BOILERPLATE: Final = frozenset({"apiVersion", "kind", "metadata"})
_BOUNDS: Final = (
    ("minimum", ">="),
    ("maximum", "<="),
    ("minLength", "min length"),
    ("maxLength", "max length"),
    ("minItems", "min items"),
    ("maxItems", "max items"),
    ("minProperties", "min properties"),
    ("maxProperties", "max properties"),
    ("multipleOf", "multiple of"),
    ("pattern", "pattern"),
)
# Types of Kubernetes' own API: the fields that give one away; its fields are documented there and are not repeated.
_CORE_TYPES: Final = (
    ("core/v1 Container", {"image", "imagePullPolicy", "volumeMounts", "terminationMessagePath"}),
    ("core/v1 PodSpec", {"containers", "nodeSelector", "tolerations", "schedulerName"}),
    ("core/v1 Volume", {"hostPath", "emptyDir", "persistentVolumeClaim", "configMap"}),
    ("core/v1 Affinity", {"nodeAffinity", "podAffinity", "podAntiAffinity"}),
    ("core/v1 EnvVar", {"name", "value", "valueFrom"}),
    ("core/v1 EnvFromSource", {"configMapRef", "prefix", "secretRef"}),
    ("core/v1 Probe", {"initialDelaySeconds", "periodSeconds", "failureThreshold", "httpGet"}),
    ("core/v1 Lifecycle", {"postStart", "preStop"}),
    ("core/v1 SecurityContext", {"allowPrivilegeEscalation", "capabilities", "readOnlyRootFilesystem"}),
    ("core/v1 PodSecurityContext", {"fsGroup", "runAsUser", "supplementalGroups"}),
    ("core/v1 ResourceRequirements", {"limits", "requests", "claims"}),
    ("core/v1 Toleration", {"key", "operator", "effect", "tolerationSeconds"}),
    ("core/v1 TopologySpreadConstraint", {"maxSkew", "topologyKey", "whenUnsatisfiable"}),
    ("core/v1 VolumeMount", {"mountPath", "name", "subPath", "readOnly"}),
    ("core/v1 VolumeDevice", {"devicePath", "name"}),
    ("core/v1 ContainerPort", {"containerPort", "hostPort", "protocol"}),
    ("core/v1 PersistentVolumeClaimSpec", {"accessModes", "storageClassName", "volumeName"}),
    ("core/v1 ObjectReference", {"fieldPath", "resourceVersion", "uid", "namespace"}),
    ("meta/v1 LabelSelector", {"matchLabels", "matchExpressions"}),
    ("meta/v1 Condition", {"lastTransitionTime", "status", "type", "reason", "message"}),
)
# A type is named only where it is nearly all that there is: projects add fields of their own to a PodSpec.
_OWN_FIELDS: Final = {
    "core/v1 Container": 27,
    "core/v1 PodSpec": 45,
    "core/v1 Volume": 33,
    "core/v1 Probe": 10,
    "core/v1 SecurityContext": 12,
    "core/v1 PodSecurityContext": 14,
    "core/v1 PersistentVolumeClaimSpec": 10,
    "core/v1 ObjectReference": 7,
    "core/v1 VolumeMount": 7,
    "core/v1 TopologySpreadConstraint": 8,
    "core/v1 ContainerPort": 5,
    "meta/v1 Condition": 6,
}
_SAME_FIELDS: Final = 2
# How the pattern of a Kubernetes quantity (`500m`, `1Gi`) begins.
_QUANTITY: Final = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)"
_SHOWN_PLACES: Final = 5

# --- Which copy of a CRD is indexed ---

# Copies made for installing: rendered bundles, charts, and schemas cut down to fit a chart.
_COPY: Final = re.compile(
    r"(^|/)(charts?|install|hack|minimal|bundle|test|tests|examples?)/|-minimal|_minimal|\.minimal"
)
# The first part has no dot, so that there is one way to match: whatever has to be tried again is tried for ever.
_NAME: Final = re.compile(r"^ {1,4}name: [\"']?([a-z0-9][a-z0-9-]*\.[a-z0-9.-]+)[\"']?\s*$", re.MULTILINE)
_VERSION: Final = re.compile(r"(?:name|version): [\"']?(v\d+(?:(?:alpha|beta)\d+)?)[\"']?\s*\n")
_VERSION_INDENT: Final = 12
_IS_CRD: Final = re.compile(rf"^kind: [\"']?{CRD_KIND}[\"']?\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CrdCopy:
    """One place where a version of a CRD is defined."""

    path: str
    fields: int

    @property
    def rank(self) -> tuple[bool, int, str]:
        """Sorts the best copy first: no install copy, then the fullest, then the first path."""
        return bool(_COPY.search(self.path)), -self.fields, self.path


@dataclass(slots=True)
class CodeContext:
    """What the files of a repository say about each other; without it every file is chunked on its own.

    Attributes:
        go: Go types by repository.
        copies: Copies by repository, CRD name and version.
        values: Named values and environment variables by repository.
        repos: Repositories that the same collection holds; copies of what one of them owns are left out elsewhere.
        vocabulary: Names the owners of CRDs and the fields that are a project's own.
    """

    go: dict[str, GoTypes] = field(default_factory=dict)
    copies: dict[tuple[str, str, str], list[CrdCopy]] = field(default_factory=dict)
    values: dict[str, NamedValues] = field(default_factory=dict)
    repos: frozenset[str] = frozenset()
    vocabulary: Vocabulary = field(default_factory=default_vocabulary)

    def add(self, document: Document) -> None:
        """Adds what one file says; files that say nothing cost little."""
        if may_name_values(document):
            named = read_values(document)
            self.values.setdefault(document.repo, NamedValues(named.project)).merge(named)
        if document.path.endswith(".go"):
            add_go_file(self.go.setdefault(document.repo, GoTypes()), document)
        elif CRD_KIND in document.text:
            for name, version, fields in _definitions(document.text):
                self.copies.setdefault((document.repo, name, version), []).append(CrdCopy(document.path, fields))

    def merge(
        self,
        go: Mapping[str, GoTypes],
        copies: Mapping[tuple[str, str, str], list[CrdCopy]],
        values: Mapping[str, NamedValues],
    ) -> None:
        """Adds what another context knows, as if its files had been added here."""
        for repo, named in values.items():
            self.values.setdefault(repo, NamedValues(named.project)).merge(named)
        for repo, types in go.items():
            self.go.setdefault(repo, GoTypes()).merge(types)
        for key, found in copies.items():
            self.copies.setdefault(key, []).extend(found)

    def places(self, document: Document, name: str, version: str) -> list[str]:
        """Returns the paths of a version of a CRD in the repository of a document, the best first."""
        copies = self.copies.get((document.repo, name, version), [])
        return [copy.path for copy in sorted(copies, key=lambda copy: copy.rank)]

    def owned_elsewhere(self, document: Document, name: str) -> bool:
        """Returns whether another repository of the collection owns a CRD."""
        owner = owner_of(name, self.vocabulary)
        return owner != document.repo and owner in self.repos


# What `CodeContext.merge` takes: what one file says, without what is the same for all files.
CodeParts = tuple[dict[str, GoTypes], dict[tuple[str, str, str], list[CrdCopy]], dict[str, NamedValues]]


def collect_context(
    documents: Iterable[Document], repos: Iterable[str] = (), vocabulary: Vocabulary | None = None
) -> CodeContext:
    """Reads the files of one or more repositories once, before they are chunked.

    Args:
        documents: All files of the source.
        repos: ``owner/name`` of every repository of the catalogue.
        vocabulary: The words of the project; None is the packaged one.

    Returns:
        What `manifests.chunk` takes as its context; it can be pickled.
    """
    context = CodeContext(repos=frozenset(repos), vocabulary=vocabulary or default_vocabulary())
    for document in documents:
        context.add(document)
    return context


def owner_of(name: str, vocabulary: Vocabulary) -> str:
    """Returns the repository that owns a CRD, or "" where no rule names one.

    Args:
        name: Name of the CRD, ``<plural>.<group>``.
        vocabulary: Names the owners.
    """
    owners = dict(vocabulary.crd_owners)
    return owners.get(name) or owners.get(name.partition(".")[2], "")


def is_copy(text: str, document: Document, context: CodeContext) -> bool:
    """Returns whether a CRD that does not parse, such as one in a chart, gives way to a copy that does.

    Args:
        text: One document of a YAML file.
        document: The file.
        context: What is known about the repository.
    """
    places = [context.places(document, name, version) for name, version, _ in _definitions(text)]
    return bool(places) and all(paths and paths[0] != document.path for paths in places)


def _definitions(text: str) -> Iterator[tuple[str, str, int]]:
    lines = text.split("\n")
    for start, end in split_documents(lines):
        part = "\n".join(lines[start:end])
        name = _NAME.search(part)
        if name and _IS_CRD.search(part):
            fields = part.count(" type: ")
            for version in dict.fromkeys(_version_names(part)):
                yield name.group(1), version, fields


def _version_names(text: str) -> Iterator[str]:
    """Yields what is called like a version near the left margin, where no field of a schema is."""
    for match in _VERSION.finditer(text):
        start = match.start()
        if start - text.rfind("\n", 0, start) <= _VERSION_INDENT:
            yield match.group(1)


# --- Rendering ---


@dataclass(frozen=True, slots=True)
class FieldLine:
    """One field of a rendered schema.

    Attributes:
        path: Dotted path, ``[]`` after a list and ``.*`` after a map.
        line: Line of the document.
        text: The rendered line.
        origin: The Go type and file that the description is from, where it is not from the CRD.
    """

    path: str
    line: int
    text: str
    origin: str = ""


@dataclass(frozen=True, slots=True)
class CrdVersion:
    """One version of a CRD: its name, where it starts, its schema, whether it is served and stored."""

    name: str
    line: int
    schema: YamlNode | None
    node: YamlNode


class Renderer:
    """Renders the schema of one version."""

    def __init__(self, go: GoTypes | None, own_fields: Collection[str] = ()) -> None:
        self._go = go
        self._own_fields = frozenset(own_fields)
        self._seen: dict[int, str] = {}
        self._digests: dict[int, int] = {}
        self._lines: list[FieldLine] = []

    def render(self, schema: YamlNode, root: GoStruct | None) -> list[FieldLine]:
        """Returns the lines of a schema in the order of the document.

        Args:
            schema: ``openAPIV3Schema``.
            root: Go type of the kind.
        """
        self._choose_places(schema)
        self._properties(schema, "", root, 0)
        return self._lines

    def _choose_places(self, schema: YamlNode) -> None:
        """Decides where each repeated sub-schema is written: at its shortest path, the first of equals.

        Document order would do it at ``spec.canary[].predictor``, and nobody asks for that.
        """
        level = [(schema, "")]
        for _ in range(MAX_DEPTH):
            following: list[tuple[YamlNode, str]] = []
            for node, path in level:
                properties = node.get("properties")
                for name, child in properties.entries.items() if properties is not None else ():
                    place = f"{path}.{name}" if path else name
                    inner, suffix = _inner(child)
                    if inner.get("properties") is None or core_type(inner, self._own_fields):
                        continue
                    if self._seen.setdefault(self._digest(inner, 0), place) == place:
                        following.append((inner, place + suffix))
            # A list is one step further away than a plain field.
            level = sorted(following, key=lambda item: item[1].count("[]") + item[1].count(".*"))
            if not level or len(self._seen) > MAX_FIELDS:
                return

    def _properties(self, schema: YamlNode, path: str, owner: GoStruct | None, depth: int) -> None:
        properties = schema.get("properties")
        if properties is None or depth > MAX_DEPTH:
            return
        required = _texts(schema.get("required"))
        documented = self._documented(owner)
        for name, child in properties.entries.items():
            if (depth == 0 and name in _BOILERPLATE) or len(self._lines) >= MAX_FIELDS:
                continue
            self._field(name, child, path, properties.lines[name], name in required, documented.get(name), depth)

    def _documented(self, owner: GoStruct | None) -> dict[str, tuple[GoStruct, int]]:
        if owner is None or self._go is None:
            return {}
        found: dict[str, tuple[GoStruct, int]] = {}
        for struct, item in self._go.fields(owner):
            found.setdefault(item.json, (struct, struct.fields.index(item)))
        return found

    def _field(
        self,
        name: str,
        schema: YamlNode,
        parent: str,
        line: int,
        required: bool,
        documented: tuple[GoStruct, int] | None,
        depth: int,
    ) -> None:
        path = f"{parent}.{name}" if parent else name
        inner, suffix = _inner(schema)
        properties = inner.get("properties")
        folded = ""
        if properties is not None:
            folded = core_type(inner, self._own_fields) or self._repeated(inner, path)
        text = f"{path} <{_type_name(schema)}>{_constraints(schema, required)}"
        if folded:
            text += f" ({folded})"
        text += self._described(schema, path, documented)
        origin = ""
        if documented is not None and not schema.scalar("description"):
            origin = origin_of(documented[0])
        self._lines.append(FieldLine(path, line, text, origin))
        if not folded:
            struct = None
            if documented is not None and self._go is not None:
                owner, index = documented
                struct = self._go.struct_of(owner.fields[index].type, owner)
            self._properties(inner, path + suffix, struct, depth + 1)

    def _repeated(self, schema: YamlNode, path: str) -> str:
        properties = schema.get("properties")
        if properties is None or len(properties.entries) < _SAME_FIELDS:
            return ""
        first = self._seen.get(self._digest(schema, 0), path)
        return f"same fields as {first}" if first != path else ""

    def _digest(self, node: YamlNode, depth: int) -> int:
        key = id(node)
        if key not in self._digests:
            self._digests[key] = 0
            if depth > MAX_DEPTH * 3:
                return 0
            parts = [node.text, *node.entries]
            inner = [self._digest(child, depth + 1) for child in (*node.entries.values(), *node.items)]
            self._digests[key] = hash((node.kind, *parts, *inner))
        return self._digests[key]

    def _described(self, schema: YamlNode, path: str, documented: tuple[GoStruct, int] | None) -> str:
        parts: list[str] = []
        text = " ".join(schema.scalar("description").split())
        if text:
            parts.append(text)
        rules = schema.get("x-kubernetes-validations")
        for rule in rules.items if rules is not None else ():
            message = rule.scalar("message")
            parts.append(f"Rule: {flow(rule.entries['rule'])}" if "rule" in rule.entries else "Rule")
            if message:
                parts[-1] += f" ({message})"
        if documented is not None:
            parts.extend(self._from_go(schema, path, documented, described=bool(text)))
        return " - " + " ".join(parts) if parts else ""

    def _from_go(
        self, schema: YamlNode, path: str, documented: tuple[GoStruct, int], *, described: bool
    ) -> Iterator[str]:
        struct, index = documented
        item = struct.fields[index]
        if not described and item.doc:
            yield item.doc
        if schema.get("default") is None:
            yield from go_default(self._go, item.name, item.default, path)
        if schema.get("enum") is None and _inner(schema)[0].get("enum") is None and self._go is not None:
            values = item.enum or self._go.enum(item.type, struct)
            if values:
                yield f"Values in Go: {values}."


def origin_of(struct: GoStruct) -> str:
    """Returns where a reader finds a Go type; no line, for it would change with every edit above it."""
    return f"Go type {PurePosixPath(struct.folder).name}.{struct.name} in {struct.path}"


def go_default(go: GoTypes | None, name: str, marked: str, path: str) -> Iterator[str]:
    """Yields what Go says about the default of a field, and where it says so."""
    if marked:
        yield f"Default {marked} (Go marker)."
        return
    constant = go.default_of(name, path) if go is not None else None
    if constant is not None and go is not None:
        yield f"Default {value_of(go, constant)} (Go constant {constant.name} in {constant.path})."


def _inner(schema: YamlNode) -> tuple[YamlNode, str]:
    """Returns the schema of the elements of a list or map, and what that adds to the path."""
    suffix = ""
    for _ in range(MAX_DEPTH):
        items, values = schema.get("items"), schema.get("additionalProperties")
        if items is not None and items.kind == "mapping":
            schema, suffix = items, suffix + "[]"
        elif values is not None and values.kind == "mapping" and schema.get("properties") is None:
            schema, suffix = values, suffix + ".*"
        else:
            break
    return schema, suffix


def _type_name(schema: YamlNode, depth: int = 0) -> str:
    name = schema.scalar("type")
    if schema.scalar("pattern").startswith(_QUANTITY):
        return "quantity"
    if schema.scalar("x-kubernetes-int-or-string") == "true":
        return "int-or-string"
    items, values = schema.get("items"), schema.get("additionalProperties")
    if name == "array" and items is not None and depth < 8:
        return "[]" + _type_name(items, depth + 1)
    if values is not None and values.kind == "mapping" and depth < 8:
        return "map[string]" + _type_name(values, depth + 1)
    text = schema.scalar("format")
    name = name or "any"
    return f"{name}({text})" if text else name


def _constraints(schema: YamlNode, required: bool) -> str:
    parts = ["required"] if required else []
    default = schema.get("default")
    if default is not None:
        parts.append(f"default {flow(default)}")
    inner = _inner(schema)[0]
    enum = schema.get("enum") or inner.get("enum")
    if enum is not None and enum.items:
        parts.append("enum " + " | ".join(flow(item) for item in enum.items[:50]))
    for key, word in _BOUNDS:
        value = schema.scalar(key)
        if value and not value.startswith(_QUANTITY):
            parts.append(f"{word} {value}")
    if schema.scalar("x-kubernetes-preserve-unknown-fields") == "true":
        parts.append("any fields")
    if schema.scalar("nullable") == "true":
        parts.append("nullable")
    return "".join(f" {part}" for part in parts)


def core_type(schema: YamlNode, own_fields: frozenset[str] = frozenset()) -> str:
    """Returns the name of the Kubernetes type that a schema spells out, or "".

    Args:
        schema: An object's schema.
        own_fields: Fields that no type of Kubernetes has: the project adds them to one.
    """
    properties = schema.get("properties")
    if properties is None or not properties.entries:
        return ""
    names = properties.entries.keys()
    spec = properties.entries["spec"] if "spec" in names and names <= {"metadata", "spec"} else None
    if spec is not None and core_type(spec, own_fields) == "core/v1 PodSpec":
        return "core/v1 PodTemplateSpec"
    if names & own_fields:
        return ""
    for core, wanted in _CORE_TYPES:
        if wanted <= names and len(names) <= _OWN_FIELDS.get(core, len(wanted)):
            return core
    return ""


def _texts(node: YamlNode | None) -> frozenset[str]:
    return frozenset(item.text for item in node.items) if node is not None else frozenset()


# --- Rows ---


def read_versions(crd: YamlNode) -> list[CrdVersion]:
    """Returns the versions of a CRD, in the order of the document; lines count from its first line."""
    listed = crd.get("spec", "versions")
    found: list[CrdVersion] = []
    for node in listed.items if listed is not None else ():
        schema = node.get("schema", "openAPIV3Schema") or crd.get("spec", "validation", "openAPIV3Schema")
        found.append(CrdVersion(node.scalar("name"), node.line, schema, node))
    if not found:
        spec = crd.get("spec") or crd
        found.append(
            CrdVersion(crd.scalar("spec", "version"), spec.line, crd.get("spec", "validation", "openAPIV3Schema"), spec)
        )
    return found


def add_crd(rows: LineRows, crd: YamlNode, start: int, end: int, context: CodeContext) -> bool:
    """Adds the rows of one CRD.

    Args:
        rows: Rows of the document.
        crd: Tree of the CRD; its lines count from `start`.
        start: First line of the CRD in the document.
        end: End of the CRD, exclusive.
        context: What is known about other files.

    Returns:
        Whether it is a CRD with a name and a kind; otherwise nothing was added.
    """
    kind, group = crd.scalar("spec", "names", "kind"), crd.scalar("spec", "group")
    name = crd.scalar("metadata", "name")
    if not kind or not name:
        return False
    document = rows.document
    kept: dict[str, list[str]] = {}
    listed = read_versions(crd)
    for version in listed:
        places = context.places(document, name, version.name)
        if places and places[0] != document.path:
            rows.counts["crd_copy"] += 1
        else:
            kept[version.name] = places[1:]
    if context.owned_elsewhere(document, name):
        rows.counts["crd_owned_elsewhere"] += len(kept)
        kept = {}
    if not kept:
        rows.remove("crd_duplicate", start, end)
        return True
    maker = _CrdRows(rows, start, end, context.go.get(document.repo), context.vocabulary.own_crd_fields)
    maker.add(kind, group, name, listed, kept)
    return True


class _CrdRows:
    """Emits the rows of one CRD so that their spans partition its lines."""

    def __init__(self, rows: LineRows, start: int, end: int, go: GoTypes | None, own_fields: Collection[str]) -> None:
        self._rows = rows
        self._start = start
        self._end = end
        self._go = go
        self._own_fields = own_fields
        self._costs = rows.costs

    def add(self, kind: str, group: str, name: str, listed: list[CrdVersion], kept: Mapping[str, list[str]]) -> None:
        # Versions stand behind one another in every CRD; one that does not gets no lines of its own.
        starts = [self._start + version.line for version in listed]
        ordered = all(first < second for first, second in zip(starts, starts[1:], strict=False))
        bounds = [*starts[1:], self._end] if ordered else [self._end] * len(listed)
        first = next(version for version in listed if version.name in kept)
        cursor = self._start
        for version, begin, stop in zip(listed, starts, bounds, strict=True):
            if version.name not in kept:
                if ordered and cursor < stop:
                    self._rows.remove("crd_duplicate", cursor, stop)
                    cursor = stop
                continue
            unit_id = self._rows.unit(f"{group}/{kind}/{version.name}")
            fields: dict[str, FieldValue] = {
                "language": "yaml",
                "symbol": kind,
                "kind": kind,
                "api_version": f"{group}/{version.name}" if group else version.name,
                "resource_name": name,
            }
            if version is first and cursor < begin:
                self._definition(unit_id, fields, listed, kept[version.name], (cursor, begin))
                cursor = begin
            if cursor < stop:
                self._version(unit_id, fields, version, (cursor, stop))
                cursor = stop
        if cursor < self._end:
            self._rows.remove("crd_duplicate", cursor, self._end)

    def _definition(
        self,
        unit_id: str,
        fields: Mapping[str, FieldValue],
        listed: list[CrdVersion],
        places: list[str],
        span: tuple[int, int],
    ) -> None:
        """Adds the row of the definition: the raw lines above the versions, and which versions there are."""
        names = []
        for version in listed:
            states = [
                word
                for word, key in (("served", "served"), ("stored", "storage"), ("deprecated", "deprecated"))
                if version.node.scalar(key) == "true"
            ]
            names.append(f"{version.name} ({', '.join(states)})" if states else version.name)
        content = self._rows.source.text(*span).removeprefix("---\n")
        content += f"\n# versions: {', '.join(names)}"
        if places:
            shown = [f"{self._rows.document.repo}:{path}" for path in places[:_SHOWN_PLACES]]
            more = [f"and {len(places) - len(shown)} more"] if len(places) > len(shown) else []
            content += "\n# also at: " + ", ".join([*shown, *more])
        section = f"{CRD_KIND} {fields['resource_name']}"
        self._rows.add(unit_id, section, content, span, {**fields, "kind": CRD_KIND}, view=DEFINITION)

    def _version(self, unit_id: str, fields: dict[str, FieldValue], version: CrdVersion, span: tuple[int, int]) -> None:
        section = f"{fields['kind']} {fields['api_version']}"
        root = self._go.root(str(fields["kind"]), version.name) if self._go is not None else None
        lines: list[FieldLine] = []
        if version.schema is not None:
            lines = Renderer(self._go, self._own_fields).render(version.schema, root)
        # An alias leads back to lines above; the rows go on.
        furthest = accumulate((line.line + self._start for line in lines), max)
        lines = [replace(line, line=row) for line, row in zip(lines, furthest, strict=True)]
        inside = [line for line in lines if span[0] < line.line < span[1]]
        header = self._header(fields, version, inside or lines, root)
        first = inside[0].line if inside else span[1]
        self._rows.add(unit_id, section, header, (span[0], first), fields)
        if inside:
            self._views(unit_id, section, fields, inside, span[1])
        elif self._go is not None and root is not None:
            self._go_views(unit_id, section, fields, root, span)

    def _header(
        self, fields: Mapping[str, FieldValue], version: CrdVersion, lines: list[FieldLine], root: GoStruct | None
    ) -> str:
        schema = version.schema
        text = " ".join(schema.scalar("description").split()) if schema is not None else ""
        content = [f"{fields['kind']} {fields['api_version']} (CRD {fields['resource_name']})"]
        if text:
            content.append(text)
        elif root is not None and root.doc:
            content.append(f"{root.doc} [Go: {root.path}]")
        if not lines:
            content.append(
                "The CRD has no schema."
                + (f" Its fields are those of the Go type {root.name} in {root.path}." if root else "")
            )
        top = [line.path for line in lines if line.path.count(".") <= 1]
        if top:
            content.append("Fields: " + ", ".join(top))
        columns = version.node.get("additionalPrinterColumns")
        if columns is not None and columns.items:
            shown = (f"{item.scalar('name')} {item.scalar('jsonPath')}" for item in columns.items[:30])
            content.append("Columns: " + ", ".join(shown))
        return "\n".join(content)

    def _views(
        self, unit_id: str, section: str, fields: Mapping[str, FieldValue], lines: list[FieldLine], end: int
    ) -> None:
        """Adds views of consecutive fields; a view begins at the line of its first field."""
        by_path = {line.path: line for line in lines}
        groups = list(self._groups(section, lines, by_path, distinct_lines=True))
        for index, (group, parent) in enumerate(groups):
            stop = groups[index + 1][0][0].line if index + 1 < len(groups) else end
            self._view(unit_id, section, fields, group, parent, "field:", (group[0].line, stop))

    def _view(
        self,
        unit_id: str,
        section: str,
        fields: Mapping[str, FieldValue],
        group: list[FieldLine],
        parent: str,
        prefix: str,
        span: tuple[int, int],
    ) -> None:
        content = [f"{fields['kind']} {fields['api_version']}", *([parent] if parent else ())]
        content.extend(line.text for line in group)
        content.extend(f"[{origin}]" for origin in dict.fromkeys(line.origin for line in group if line.origin))
        self._rows.add(unit_id, section, "\n".join(content), span, fields, view=prefix + group[0].path)

    def _groups(
        self, section: str, lines: list[FieldLine], by_path: Mapping[str, FieldLine], *, distinct_lines: bool
    ) -> Iterator[tuple[list[FieldLine], str]]:
        """Yields fields that fit into a row together, and the line of the parent of the first where it is short."""
        room = self._rows.room(section) - self._costs.cost(section)
        group: list[FieldLine] = []
        parent, used = "", 0
        for line in lines:
            cost = self._costs.cost(line.text)
            if line.origin and all(line.origin != other.origin for other in group):
                cost += self._costs.cost(line.origin) + 2
            depth = line.path.count(".")
            leaves = bool(group) and depth < group[0].path.count(".") and used * 2 > room
            full = bool(group) and (used + cost > room or leaves)
            if full and not (distinct_lines and line.line <= group[-1].line):
                yield group, parent
                group, used = [], 0
            if not group:
                parent = self._parent(line, by_path, room - cost)
                used = self._costs.cost(parent)
            group.append(line)
            used += cost
        if group:
            yield group, parent

    def _parent(self, line: FieldLine, by_path: Mapping[str, FieldLine], room: int) -> str:
        path = line.path.rpartition(".")[0]
        above = by_path.get(path) or by_path.get(path.removesuffix(".*")) or by_path.get(path.rstrip("[]"))
        if above is None or self._costs.cost(above.text) * 3 > room:
            return ""
        return above.text

    def _go_views(
        self, unit_id: str, section: str, fields: Mapping[str, FieldValue], root: GoStruct, span: tuple[int, int]
    ) -> None:
        """Adds the fields that the Go type has and the CRD does not show; they repeat the lines of the version."""
        lines = list(self._go_fields(root, "", (root.name,), span[0]))
        by_path = {line.path: line for line in lines}
        for group, parent in self._groups(section, lines, by_path, distinct_lines=False):
            self._view(unit_id, section, fields, group, parent, "go:", span)

    def _go_fields(self, owner: GoStruct, parent: str, stack: tuple[str, ...], line: int) -> Iterator[FieldLine]:
        go = self._go
        if go is None:
            return
        for struct, item in go.fields(owner):
            if not parent and item.json in _BOILERPLATE:
                continue
            path = f"{parent}.{item.json}" if parent else item.json
            text = f"{path} <{go.json_type(item.type, struct)}>" + ("" if item.optional else " required")
            values = item.enum or go.enum(item.type, struct)
            parts = [item.doc, *go_default(go, item.name, item.default, path)]
            if values:
                parts.append(f"Values: {values}.")
            described = " ".join(part for part in parts if part)
            yield FieldLine(path, line, f"{text} - {described}" if described else text, origin_of(struct))
            inner = go.struct_of(item.type, struct)
            if inner is not None and inner.name not in stack and len(stack) < _MAX_GO_DEPTH:
                suffix = "[]" if item.type.lstrip("*").startswith("[]") else ""
                suffix = ".*" if item.type.startswith("map[") else suffix
                yield from self._go_fields(inner, path + suffix, (*stack, inner.name), line)
