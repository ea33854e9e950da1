"""One hop: what the names in a row stand for elsewhere in the repository, and the environment variables it reads.

"What is the default" is answered by a constant in one file and asked of the code that uses it in another. The files of
a source are read once before they are cut; a row that uses a constant then says its value and place, and every
environment variable gets a row of its own. Only what is certain is said: a name is followed through the imports of its
file, and nothing is said where two constants fit. Lines are read, not trees: formatted code has one value on a line.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kubeflow_corpus.chunking.code import exclusions as generated
from kubeflow_corpus.chunking.compose import MAX_TEXT_BYTES, Budget, fit_bytes
from kubeflow_corpus.chunking.line_rows import LineRows, SourceText
from kubeflow_corpus.file_context import FOLLOWED_SUFFIXES
from kubeflow_corpus.records import Chunk, Chunked, Document, seal

ENVIRONMENT_VARIABLE: Final = "environment variable"
_COMMENT: Final = dict(zip(FOLLOWED_SUFFIXES, ("//", "#"), strict=True))
_MAX_BYTES: Final = 600_000
# A longer line holds data.
_MAX_LINE: Final = 400
_MOST_JOINED: Final = 6
_MOST_NOTES: Final = 8
_MOST_PLACES: Final = 20
_MOST_HOPS: Final = 3
_LONGEST_VALUE: Final = 120
_UNKNOWN: Final = "?"

_GO_SINGLE: Final = re.compile(r"(?:const|var) (\w+)(?: [\w.*\[\]]+)? += (.+)")
_GO_ENTRY: Final = re.compile(r"\t(\w+)(?: +[\w.*\[\]]+)? += (.+)")
_GO_GROUP: Final = re.compile(r"(?:const|var) \(\s*$")
_PY_VALUE: Final = re.compile(r"([A-Z][A-Z0-9_]{2,})(?: ?: ?[\w.\[\], ]+)? = (.+)")
_GO_FIELD: Final = re.compile(r"^\t([A-Z]\w*) +\S", re.MULTILINE)
_LINE_COMMENT: Final = re.compile(r"(?<!\s)\s+(?://|#)\s.*$")
_GO_IMPORT: Final = re.compile(r'^(?:import |\t)(?:(\w+) )?"([\w./~-]+)"', re.MULTILINE)
_PY_FROM: Final = re.compile(r"^from \.*+([\w.]*+) import (?:\(([^)]{0,2000})\)|([^\n(]*))", re.MULTILINE)
_PY_IMPORT: Final = re.compile(r"^import ([\w.]+)(?: as (\w+))?", re.MULTILINE)
_NAME: Final = re.compile(r"(?<![\w.\"'])(?:([A-Za-z_]\w*)\.)?([A-Za-z_]\w*)\b(?![\w(\"'])")
_REFERENCE: Final = re.compile(r"(?:([A-Za-z_]\w*)\.)?([A-Za-z_]\w*)")
# A name that is all small letters may be that of a local variable.
_TELLING: Final = re.compile(r"[A-Z]")
_LITERAL: Final = re.compile(r"""(["'`])([A-Za-z_]\w*)\1""")
_CONVERTED: Final = re.compile(r"[\w.]+\([\w.\"'`-]+\)")
_READ: Final = re.compile(
    r"\b(?:os\.(?:Getenv|LookupEnv|getenv|environ\.get)|(?:\w+\.)?[gG]et_?[eE]nv\w*)\(\s*(?P<name>[\w.\"'`]+)\s*"
    r"(?:,(?P<default>(?:[^()]|\([^()]*+\))*+))?\)|\bos\.environ\[(?P<item>[\w.\"']+)\](?!\s*=[^=])"
)


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A constant or package variable.

    Attributes:
        name: Its name.
        value: What it is set to, as written.
        path: File.
        line: From 1.
        origin: Where the name in its value is imported from, if it has one from elsewhere.
    """

    name: str
    value: str
    path: str
    line: int
    origin: str = ""


@dataclass(frozen=True, slots=True)
class EnvironmentRead:
    """One place that reads an environment variable.

    Attributes:
        name: Its name or that of a constant, as written.
        default: What is used where it is not set, as written.
        path: File.
        line: From 1.
        imports: What the qualifiers in both stand for.
    """

    name: str
    default: str
    path: str
    line: int
    imports: Mapping[str, str]


@dataclass(slots=True)
class NamedValues:
    """The named values of one repository, and where it reads environment variables.

    Attributes:
        project: The name of the repository without its owner, which is in the import paths of its Go packages.
        by_name: Values by name.
        reads: Places that read an environment variable.
    """

    project: str
    by_name: dict[str, list[NamedValue]] = field(default_factory=dict)
    reads: list[EnvironmentRead] = field(default_factory=list)
    _environment: dict[str, list[EnvironmentRead]] | None = None

    def merge(self, other: NamedValues) -> None:
        """Adds those of further files."""
        for name, values in other.by_name.items():
            self.by_name.setdefault(name, []).extend(values)
        self.reads += other.reads
        self._environment = None

    def find(self, name: str, path: str, origin: str = "") -> NamedValue | None:
        """Returns what a name stands for in a file; None where that is not certain.

        Args:
            name: The name.
            path: The file that uses it.
            origin: What its qualifier, or it itself, is imported from.
        """
        fitting = [value for value in self.by_name.get(name, ()) if self._is_from(value, path, origin)]
        return fitting[0] if len({value.value for value in fitting}) == 1 else None

    def explain(self, value: NamedValue) -> str:
        """Returns a value with what the names in it stand for: ``DefaultPolicy = Never = "never"``."""
        parts = [value.name, _short(value.value)]
        for _ in range(_MOST_HOPS):
            reference = _REFERENCE.fullmatch(value.value)
            following = self.find(reference[2], value.path, value.origin) if reference else None
            if following is None:
                break
            value = following
            parts.append(_short(value.value))
        return " = ".join(dict.fromkeys(parts))

    def literal(self, written: str, path: str, imports: Mapping[str, str]) -> str:
        """Returns what an argument is in the end, as far as that is certain; else what is written."""
        reference = _REFERENCE.fullmatch(written)
        value = self.find(reference[2], path, _origin(reference, imports)) if reference else None
        if value is None:
            return written
        read = _READ.fullmatch(value.value)
        # A default that is itself the value of a variable is, where nothing is set, the default of that one.
        return (_default(read) if read else "") or self.explain(value).rpartition(" = ")[2]

    def environment(self) -> dict[str, list[EnvironmentRead]]:
        """Returns the places that read each environment variable, in order."""
        if self._environment is None:
            self._environment = {}
            for read in sorted(self.reads, key=lambda read: (read.path, read.line)):
                literal = _LITERAL.fullmatch(self.literal(read.name, read.path, read.imports))
                if literal:
                    self._environment.setdefault(literal[2], []).append(read)
        return self._environment

    def _is_from(self, value: NamedValue, path: str, origin: str) -> bool:
        folder, file = posixpath.split(value.path)
        if file.endswith(".go"):
            # A Go package is a folder, and its import path ends with it.
            if not origin:
                return folder == posixpath.dirname(path)
            return bool(folder) and f"/{self.project}/" in f"/{origin}" and origin.endswith(f"/{folder}")
        if not origin:
            return value.path == path
        module = f"/{value.path.removesuffix('.py').removesuffix('/__init__')}"
        return module.endswith(f"/{origin}") or f"/{origin}".endswith(module)


def _origin(reference: re.Match[str], imports: Mapping[str, str]) -> str:
    """Returns where a name comes from; empty for this file or package, a place without files where it is unknown."""
    return imports.get(reference[1], _UNKNOWN) if reference[1] else imports.get(reference[2], "")


def may_name_values(document: Document) -> bool:
    """Returns whether a file is of a language whose names are followed."""
    return posixpath.splitext(document.path)[1] in _COMMENT and len(document.text) <= _MAX_BYTES


def read_values(document: Document) -> NamedValues:
    """Returns the values that a file names, and the environment variables that it reads."""
    found = NamedValues(document.repo.rpartition("/")[2])
    if not may_name_values(document) or generated.exclusion(document.path, document.text):
        return found
    lines, imports = document.text.split("\n"), read_imports(document)
    for number, name, text in _declared(lines, document.path):
        value = _LINE_COMMENT.sub("", _joined(lines, number, text)).strip()
        if _is_telling(value):
            reference = _REFERENCE.fullmatch(value)
            origin = _origin(reference, imports) if reference else ""
            found.by_name.setdefault(name, []).append(NamedValue(name, value, document.path, number + 1, origin))
    for number, line in enumerate(lines):
        if "env" in line.lower() and len(line) <= _MAX_LINE:
            for match in _READ.finditer(_joined(lines, number, line)):
                if match.start() < len(line):
                    name = match["name"] or match["item"]
                    found.reads.append(EnvironmentRead(name, _default(match), document.path, number + 1, imports))
    return found


def _is_telling(value: str) -> bool:
    """Returns whether a value says something: a literal, a name, an amount, or the default of a variable."""
    if not value or value.endswith(("{", "(", "[", "\\", ",")):
        return False
    return "(" not in value or _READ.search(value) is not None or _CONVERTED.fullmatch(value) is not None


def _default(read: re.Match[str]) -> str:
    """Returns what a call that reads a variable takes where it is not set; empty where it names nothing."""
    return (read["default"] or "").strip().removesuffix(",").rstrip()


def _declared(lines: list[str], path: str) -> Iterator[tuple[int, str, str]]:
    """Yields the number of the line, the name and the beginning of the value of what a file declares at its top."""
    in_group = False
    for number, line in enumerate(lines):
        if len(line) > _MAX_LINE:
            continue
        if path.endswith(".py"):
            match = _PY_VALUE.match(line)
        elif in_group:
            in_group = not line.startswith(")")
            match = _GO_ENTRY.match(line)
        else:
            in_group = _GO_GROUP.match(line) is not None
            match = _GO_SINGLE.match(line)
        if match:
            yield number, match[1], match[2]


def _joined(lines: list[str], number: int, text: str) -> str:
    """Returns a text with the lines after it on which its brackets are closed."""
    for line in lines[number + 1 : number + _MOST_JOINED]:
        if text.count("(") <= text.count(")") or len(text) > _MAX_LINE:
            break
        text = f"{text} {line.strip()}"
    return text


def read_imports(document: Document) -> dict[str, str]:
    """Returns what the imported names of a file stand for: an import path, or a module with slashes."""
    if document.path.endswith(".go"):
        return {alias or path.rpartition("/")[2]: path for alias, path in _GO_IMPORT.findall(document.text)}
    found = {}
    for module, alias in _PY_IMPORT.findall(document.text):
        found[alias or module] = module.replace(".", "/")
    for module, several, one_line in _PY_FROM.findall(document.text):
        for item in (several or one_line).split(","):
            name, _, alias = item.split("#")[0].strip().partition(" as ")
            # A constant of a module or a module of a package: both are looked for.
            place = module.replace(".", "/")
            found[alias or name] = place if name.isupper() else f"{place}/{name}".strip("/")
    return found


def add_values(document: Document, chunked: Chunked, values: NamedValues, budget: Budget) -> Chunked:
    """Returns the rows of a file with what their names stand for elsewhere, and those of environment variables.

    What is added is evidence. What the model and BM25 read stays: a row is found by its code, and longer rows of every
    user of a constant would hide those that set it.

    Args:
        document: The file.
        chunked: Its rows.
        values: What the files of its repository say.
        budget: What the embedding model reads.
    """
    if not chunked.chunks or not may_name_values(document):
        return chunked
    imports = read_imports(document)
    rows = [_noted(chunk, values, imports) for chunk in chunked.chunks]
    variables = _variable_rows(document, values, budget)
    return replace(chunked, chunks=tuple(seal([*rows, *variables])))


def _noted(chunk: Chunk, values: NamedValues, imports: Mapping[str, str]) -> Chunk:
    """Returns a row with the values of the names that it uses and does not set itself."""
    names = dict.fromkeys(_used(chunk, values, imports))
    found = (values.find(name, chunk.file_path, origin) for name, origin in names)
    elsewhere = (
        value
        for value in found
        if value and not (value.path == chunk.file_path and chunk.start_line <= value.line <= chunk.end_line)
    )
    notes = dict.fromkeys(f"{values.explain(value)} ({value.path}:{value.line})" for value in elsewhere)
    if not notes:
        return chunk
    sign = _COMMENT[posixpath.splitext(chunk.file_path)[1]]
    added = "\n".join(f"{sign} {note}" for note in [*notes][:_MOST_NOTES])
    return replace(chunk, content_text=fit_bytes(f"{chunk.content_text}\n\n{added}", MAX_TEXT_BYTES))


def _used(chunk: Chunk, values: NamedValues, imports: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the names that a row uses, and where each is from: a field of a struct uses the default of its name."""
    if chunk.fields["kind"] == "struct":
        for name in _GO_FIELD.findall(chunk.content_text):
            yield f"Default{name}", ""
    for reference in _NAME.finditer(chunk.content_text):
        if reference[2] in values.by_name and _TELLING.search(reference[2]):
            yield reference[2], _origin(reference, imports)


def _variable_rows(document: Document, values: NamedValues, budget: Budget) -> tuple[Chunk, ...]:
    """Returns a row for each environment variable of the repository that this file is the first to read."""
    first = {name: reads for name, reads in values.environment().items() if reads[0].path == document.path}
    if not first:
        return ()
    rows = LineRows(document, budget, SourceText(document.text, budget.counter))
    for name, reads in first.items():
        defaults = dict.fromkeys(
            values.literal(read.default, read.path, read.imports) for read in reads if read.default
        )
        lines = [
            f"{name}: {ENVIRONMENT_VARIABLE} of {document.repo}",
            f"Default: {', '.join(map(_short, defaults)) or 'none'}",
            *(f"Read in {read.path}:{read.line}" for read in reads[:_MOST_PLACES]),
        ]
        fields = {"language": "", "symbol": name, "kind": ENVIRONMENT_VARIABLE, "api_version": "", "resource_name": ""}
        span = (reads[0].line - 1, reads[0].line)
        rows.add(rows.unit(f"env:{name}"), f"{ENVIRONMENT_VARIABLE} {name}", "\n".join(lines), span, fields)
    return rows.result().chunks


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}..."
