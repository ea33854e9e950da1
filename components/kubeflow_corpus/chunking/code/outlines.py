"""The outline of a source file: its symbols in order, each with the comments, decorators and markers that belong to it.

One walk serves every language. A language adds a function that says what a node declares; comments attach to the
declaration right below them, and a comment block with a blank line below it stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kubeflow_corpus.chunking.code import exclusions as generated
from kubeflow_corpus.chunking.code.grammars import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from kubeflow_corpus.chunking.line_rows import SourceText

# Syntax trees of hostile files are as deep as they like; ours is not.
MAX_DEPTH: Final = 60
# Kinds of items that are not declarations.
MODULE, CODE, MARKERS, COMMENT = "module", "code", "markers", "comment"
STAGE: Final = "stage"
_COMMENTS: Final = frozenset({"comment", "line_comment", "block_comment", "html_comment", "hash_bang_line"})
_MARKER: Final = re.compile(r"^[^\S\n]*(//|#)\s*\+\w", re.MULTILINE)


@dataclass(slots=True)
class Symbol:
    """One item of an outline.

    Attributes:
        name: Qualified name (``Client.create_run``), or "" for code without one.
        kind: function, method, class, struct, interface, type, enum, const, var, component, module, code, markers, ...
        start: First line with attached comments and decorators, from 0.
        end: End of the item itself, exclusive; blank lines up to the next item are not in it.
        declared: Line of the declaration.
        body: First line of the body; the lines from `declared` up to it are the signature.
        node: Where to look for statement boundaries.
        members: Symbols inside: methods of a class, entries of a group.
        lead: Lines that a part which starts at this item must repeat, such as the heading of its group.
    """

    name: str
    kind: str
    start: int
    end: int
    declared: int
    body: int
    node: Node | None = None
    members: list[Symbol] = field(default_factory=list)
    lead: tuple[int, ...] = ()


Declare = Callable[["Node", str], "list[Symbol]"]


def read_symbols(language: str, root: Node, path: str, source: SourceText) -> list[Symbol]:
    """Returns the symbols of a file in order, after a repair of what did not parse.

    Args:
        language: Language of the tree.
        root: Root of the tree.
        path: Path in the repository: a default export without a name is called like its file.
        source: The lines that were parsed.
    """
    declare = _DECLARATIONS[language](generated.stem(path), language, source.data)
    symbols = _walk(root, "", declare, source)
    if root.has_error:
        symbols = _repaired(symbols, _RESYNC.get(language), source)
    return _merge_shared_lines(symbols)


def _walk(block: Node, owner: str, declare: Declare, source: SourceText) -> list[Symbol]:
    """Returns the items of one block, comments attached."""
    items: list[Symbol] = []
    pending: Symbol | None = None
    for child in block.children:
        start, end = line_range(child)
        if start >= len(source):
            # After a line continuation at the end of a text the parser reports an error on the line that would follow.
            continue
        if child.type in _COMMENTS:
            if items and pending is None and start < items[-1].end:
                items[-1].end = max(items[-1].end, end)
            elif pending is not None and start == pending.end:
                pending.end = end
            else:
                items.extend(_standalone_comment(pending, source))
                pending = Symbol("", COMMENT, start, end, start, end)
            continue
        if not child.is_named and child.type not in _BARE:
            continue
        found = declare(child, owner)
        if not found:
            continue
        if pending is not None:
            if pending.end == found[0].start:
                found[0].start = pending.start
            else:
                items.extend(_standalone_comment(pending, source))
            pending = None
        items.extend(found)
    items.extend(_standalone_comment(pending, source))
    return items


def _standalone_comment(pending: Symbol | None, source: SourceText) -> Iterator[Symbol]:
    if pending is not None:
        marked = _MARKER.search("\n".join(source.lines[pending.start : pending.end])) is not None
        yield replace(pending, name="markers" if marked else "", kind=MARKERS if marked else COMMENT)


def line_range(node: Node) -> tuple[int, int]:
    """Returns the half-open range of lines of a node."""
    start, (end, column) = node.start_point.row, node.end_point
    return start, end + (1 if column > 0 or end == start else 0)


def _named(node: Node, name: str, kind: str, outer: Node | None = None, body: Node | None = None) -> Symbol:
    """Returns the symbol of a declaration; `outer` is the node with decorators or ``export`` around it."""
    start, end = line_range(outer or node)
    declared = node.start_point.row
    body = body or node.child_by_field_name("body")
    first = end
    if body is not None:
        row = body.start_point.row
        first = row + 1 if row == declared or _opens(body) else row
    else:
        first = declared + 1
    return Symbol(name, kind, start, end, declared, min(max(first, declared + 1), end), outer or node)


def _opens(body: Node) -> bool:
    """Returns whether a body begins with its bracket, which belongs to the signature."""
    first = body.child(0) if body.child_count else None
    return first is not None and first.type in ("{", "(")


def _join(owner: str, name: str) -> str:
    return f"{owner}.{name}" if owner else name


# --- Go ---------------------------------------------------------------------------------------------------------


# `(r *Reconciler)`, `(l List[T])`; a pattern must not be led up a kilobyte of letters.
_RECEIVER: Final = re.compile(r"([A-Za-z_]\w*)\s*(\[[^\]]*\]\s*)?\)\s*$")
_LONGEST_RECEIVER: Final = 300


def _go(stem: str, language: str, data: bytes) -> Declare:
    del stem, language
    return partial(_go_declaration, data)


def _go_declaration(data: bytes, node: Node, owner: str) -> list[Symbol]:
    kind = node.type
    if kind == "function_declaration":
        return [_named(node, text_of(node.child_by_field_name("name"), data), "function")]
    if kind == "method_declaration":
        receiver = _go_receiver(text_of(node.child_by_field_name("receiver"), data))
        return [_named(node, _join(receiver, text_of(node.child_by_field_name("name"), data)), "method")]
    if kind == "type_declaration":
        return _go_group(node, "type", partial(_go_type, data))
    if kind in ("const_declaration", "var_declaration"):
        return _go_group(node, kind.partition("_")[0], partial(_go_value, data))
    start, end = line_range(node)
    return [
        Symbol("", MODULE if kind in ("package_clause", "import_declaration") else CODE, start, end, start, end, node)
    ]


def _go_receiver(text: str) -> str:
    match = _RECEIVER.search(text[-_LONGEST_RECEIVER:])
    return match.group(1) if match else ""


def _go_group(node: Node, kind: str, entry: Callable[[Node, str], Symbol]) -> list[Symbol]:
    """Returns one symbol for a declaration, with its entries as members where it is a parenthesised group."""
    specs = [child for child in node.named_children if child.type.endswith(("_spec", "_alias"))]
    listed = [child for child in node.named_children if child.type == "var_spec_list"]
    holder = listed[0] if listed else node
    if listed:
        specs = [child for child in holder.named_children if child.type == "var_spec"]
    if len(specs) == 1 and "(" not in [child.type for child in holder.children]:
        single = entry(specs[0], kind)
        start, end = line_range(node)
        return [replace(single, start=start, end=end, declared=start, node=node)]
    members = _go_entries(holder, kind, entry)
    start, end = line_range(node)
    name = ", ".join(member.name for member in members)
    kinds = {member.kind for member in members}
    return [
        Symbol(name, kinds.pop() if len(kinds) == 1 else kind, start, end, start, start + 1, node, members),
    ]


def _go_entries(holder: Node, kind: str, entry: Callable[[Node, str], Symbol]) -> list[Symbol]:
    """Returns the entries of a group; each knows the heading comment of its paragraph."""
    members: list[Symbol] = []
    comments: list[Node] = []
    heading: tuple[int, ...] = ()
    last_end = -1
    for child in holder.named_children:
        start, end = line_range(child)
        if child.type == "comment":
            if members and start < members[-1].end:
                continue
            comments = [*comments, child] if comments and line_range(comments[-1])[1] == start else [child]
            continue
        if not child.type.endswith(("_spec", "_alias")):
            continue
        member = entry(child, kind)
        attached = bool(comments) and line_range(comments[-1])[1] == start
        first = comments[0].start_point.row if comments else start
        if first > last_end:
            heading = tuple(row for comment in comments for row in range(*line_range(comment)))
            member.lead = ()
        else:
            member.lead = () if attached else heading
        if comments:
            member.start = first
        comments = []
        members.append(member)
        last_end = member.end
    return members


def _go_type(data: bytes, spec: Node, kind: str) -> Symbol:
    value = spec.child_by_field_name("type")
    shape = {"struct_type": "struct", "interface_type": "interface"}.get(value.type if value else "", kind)
    body = next((child for child in value.children if child.type.endswith("_list")), value) if value else None
    symbol = _named(spec, text_of(spec.child_by_field_name("name"), data), shape, body=body)
    return replace(symbol, body=symbol.declared + 1)


def _go_value(data: bytes, spec: Node, kind: str) -> Symbol:
    names = [text_of(name, data) for name in spec.children_by_field_name("name") if name.type == "identifier"]
    return replace(_named(spec, ", ".join(names), kind), body=spec.start_point.row + 1)


# --- Python -----------------------------------------------------------------------------------------------------


def _python(stem: str, language: str, data: bytes) -> Declare:
    del stem, language
    return partial(_python_declaration, data)


def _python_declaration(data: bytes, node: Node, owner: str) -> list[Symbol]:
    inner = node.child_by_field_name("definition") if node.type == "decorated_definition" else node
    if inner is None:
        inner = node
    if inner.type == "function_definition":
        name = _join(owner, text_of(inner.child_by_field_name("name"), data))
        return [_named(inner, name, "method" if owner else "function", outer=node)]
    if inner.type == "class_definition":
        return [_named(inner, _join(owner, text_of(inner.child_by_field_name("name"), data)), "class", outer=node)]
    start, end = line_range(node)
    if node.type in ("import_statement", "import_from_statement", "future_import_statement"):
        return [Symbol("", MODULE, start, end, start, end, node)]
    if node.type == "expression_statement" and node.named_child_count:
        first = node.named_children[0]
        if first.type == "string":
            return [Symbol("", MODULE, start, end, start, end, node)]
        name = text_of(first.child_by_field_name("left"), data) if first.type == "assignment" else ""
        if re.fullmatch(r"[A-Za-z_][\w, ]*", name):
            kind = "const" if name.isupper() else "var"
            return [Symbol(_join(owner, name), kind, start, end, start, start + 1, node)]
    if node.type in ("if_statement", "try_statement", "with_statement"):
        names = [symbol.name for child in _blocks(node) for symbol in _defined(data, child)]
        return [Symbol(", ".join(dict.fromkeys(names)), CODE, start, end, start, start + 1, node)]
    return [Symbol("", CODE, start, end, start, end, node)]


def _blocks(node: Node) -> Iterator[Node]:
    for child in node.named_children:
        if child.type == "block":
            yield child
        elif child.type.endswith("_clause"):
            yield from (block for block in child.named_children if block.type == "block")


def _defined(data: bytes, block: Node) -> Iterator[Symbol]:
    for child in block.named_children:
        if child.type in ("function_definition", "class_definition", "decorated_definition"):
            yield from _python_declaration(data, child, "")


# --- TypeScript and JavaScript ------------------------------------------------------------------------------------

_TS_KINDS: Final = {
    "function_declaration": "function",
    "generator_function_declaration": "function",
    "function_signature": "function",
    "class_declaration": "class",
    "abstract_class_declaration": "class",
    "class": "class",
    "interface_declaration": "interface",
    "type_alias_declaration": "type",
    "enum_declaration": "enum",
    "internal_module": "namespace",
    "module": "namespace",
    "function_expression": "function",
    "arrow_function": "function",
}
_TS_MEMBERS: Final = frozenset({"method_definition", "abstract_method_signature", "method_signature"})
_FUNCTIONS: Final = frozenset({"arrow_function", "function_expression", "function", "generator_function"})


def _typescript(stem: str, language: str, data: bytes) -> Declare:
    default = stem.partition(".")[0] or stem
    jsx = language in ("tsx", "javascript")

    def declare(node: Node, owner: str) -> list[Symbol]:
        inner, exported = node, False
        if node.type in ("export_statement", "ambient_declaration"):
            exported = any(child.type == "default" for child in node.children)
            value = node.child_by_field_name("declaration") or node.child_by_field_name("value")
            value = value or next((child for child in node.named_children if child.type in _TS_KINDS), None)
            inner = value or node
        if inner.type == "expression_statement" and inner.named_child_count:
            inner = inner.named_children[0] if inner.named_children[0].type == "internal_module" else inner
        start, end = line_range(node)
        if inner.type in ("lexical_declaration", "variable_declaration"):
            return [_ts_variables(data, inner, node, owner, jsx)]
        if inner.type in _TS_KINDS:
            name = text_of(inner.child_by_field_name("name"), data) or (default if exported else "")
            kind = _TS_KINDS[inner.type]
            component = jsx and kind == "function" and name[:1].isupper()
            return [_named(inner, _join(owner, name), "component" if component else kind, outer=node)]
        if inner.type in _TS_MEMBERS:
            return [_named(inner, _join(owner, text_of(inner.child_by_field_name("name"), data)), "method", outer=node)]
        if inner.type in ("public_field_definition", "field_definition"):
            return [_ts_field(data, inner, owner)]
        if exported and inner.type not in ("identifier", "export_statement"):
            kind = "component" if jsx and default[:1].isupper() else "var"
            return [_named(inner, default, kind, outer=node)]
        kind = MODULE if node.type == "import_statement" else CODE
        return [Symbol("", kind, start, end, start, end, node)]

    return declare


def _ts_variables(data: bytes, node: Node, outer: Node, owner: str, jsx: bool) -> Symbol:
    declarators = [child for child in node.named_children if child.type == "variable_declarator"]
    names = [text_of(child.child_by_field_name("name"), data) for child in declarators]
    name = ", ".join(re.sub(r"\s+", " ", item) for item in names)
    value = declarators[0].child_by_field_name("value") if declarators else None
    function = _function_in(value)
    constant = any(child.type == "const" for child in node.children)
    kind = "const" if constant else "var"
    if function is not None:
        kind = "component" if jsx and name[:1].isupper() else "function"
    body = function.child_by_field_name("body") if function is not None else None
    symbol = _named(node, _join(owner, name), kind, outer=outer, body=body)
    return symbol if body is not None else replace(symbol, body=symbol.declared + 1)


def _function_in(value: Node | None, depth: int = 3) -> Node | None:
    """Returns the function that a value is, or that ``memo(...)``, ``forwardRef(...)`` and the like wrap."""
    if value is None or depth == 0:
        return None
    if value.type in _FUNCTIONS:
        return value
    if value.type == "call_expression":
        arguments = value.child_by_field_name("arguments")
        if arguments is not None and arguments.named_child_count:
            return _function_in(arguments.named_children[0], depth - 1)
    return None


def _ts_field(data: bytes, node: Node, owner: str) -> Symbol:
    name = text_of(node.child_by_field_name("name") or node.child_by_field_name("property"), data)
    function = _function_in(node.child_by_field_name("value"))
    body = function.child_by_field_name("body") if function is not None else None
    return _named(node, _join(owner, name), "method" if function is not None else "var", body=body)


# --- Bash and Dockerfiles -----------------------------------------------------------------------------------------


def _bash(stem: str, language: str, data: bytes) -> Declare:
    del stem, language
    return partial(_bash_declaration, data)


def _bash_declaration(data: bytes, node: Node, owner: str) -> list[Symbol]:
    if node.type == "function_definition":
        return [_named(node, text_of(node.child_by_field_name("name"), data), "function")]
    start, end = line_range(node)
    return [Symbol("", CODE, start, end, start, end, node)]


def _dockerfile(stem: str, language: str, data: bytes) -> Declare:
    del stem, language
    return partial(_dockerfile_declaration, data)


def _dockerfile_declaration(data: bytes, node: Node, owner: str) -> list[Symbol]:
    start, end = line_range(node)
    if node.type == "from_instruction":
        image = next((text_of(child, data) for child in node.named_children if child.type == "image_spec"), "")
        name = text_of(node.child_by_field_name("as"), data) or image
        return [Symbol(name, STAGE, start, end, start, start + 1, node)]
    return [Symbol("", CODE, start, end, start, end, node)]


_DECLARATIONS: Final[dict[str, Callable[[str, str, bytes], Declare]]] = {
    "go": _go,
    "python": _python,
    "typescript": _typescript,
    "tsx": _typescript,
    "javascript": _typescript,
    "bash": _bash,
    "dockerfile": _dockerfile,
}
PARSED: Final = frozenset({*_DECLARATIONS, "proto"})
_BARE: Final = frozenset({"ERROR"})

# --- Members ------------------------------------------------------------------------------------------------------

_CLASS_BODIES: Final = frozenset({"block", "class_body", "statement_block"})


def read_members(symbol: Symbol, language: str, path: str, source: SourceText) -> list[Symbol]:
    """Returns what is declared inside a class or namespace, or the entries of a group; computed when it is needed.

    Args:
        symbol: A symbol of `outline`.
        language: Language of the tree.
        path: Path in the repository.
        source: The lines that were parsed.
    """
    if symbol.members or symbol.kind not in ("class", "namespace") or symbol.node is None:
        return symbol.members
    body = _class_body(symbol.node)
    if body is None:
        return []
    declare = _DECLARATIONS[language](generated.stem(path), language, source.data)
    found = _walk(body, symbol.name, declare, source)
    return [
        member for member in _merge_shared_lines(found) if symbol.start <= member.start and member.start >= symbol.body
    ]


def _class_body(node: Node, depth: int = 3) -> Node | None:
    body = node.child_by_field_name("body")
    if body is not None and body.type in _CLASS_BODIES:
        return body
    if depth == 0:
        return None
    return next((found for child in node.named_children if (found := _class_body(child, depth - 1))), None)


# --- Repair -------------------------------------------------------------------------------------------------------

_LONGEST_DECLARATION: Final = 300
# Declarations at the left margin, by which a file is read on after a part that does not parse.
_RESYNC: Final = {
    "go": re.compile(
        r"func\s++(?:\((?:\s*+\w++\s++)?\*?(?P<owner>\w++)[^)]*+\)\s*+)?(?P<function>\w+)|(?:type|const|var)\s+(?P<type>\w+)"
    ),
    "python": re.compile(r"(?:async\s+)?def\s+(?P<function>\w+)|class\s+(?P<type>\w+)"),
    "typescript": re.compile(
        r"(?:export\s+)?(?:default\s+)?(?:async\s+)?function\s+(?P<function>\w+)"
        r"|(?:export\s+)?(?:default\s+)?(?:abstract\s+)?(?:class|interface|type|enum)\s+(?P<type>\w+)"
        r"|(?:export\s+)?const\s+(?P<value>\w+)"
    ),
    "bash": re.compile(r"(?:function\s+)?(?P<function>[\w-]+)\s*\(\)"),
}
_RESYNC["tsx"] = _RESYNC["javascript"] = _RESYNC["typescript"]
_KEYWORD_KINDS: Final = {"class": "class", "interface": "interface", "enum": "enum", "const": "const", "var": "var"}
_COMMENT_LINE: Final = re.compile(r"\s*(//|#|@|/\*|\*)")


def _repaired(symbols: list[Symbol], resync: re.Pattern[str] | None, source: SourceText) -> list[Symbol]:
    """Returns the symbols with those added that a syntax error swallowed."""
    if resync is None:
        return symbols
    known = {symbol.declared for symbol in symbols if symbol.kind not in (CODE, COMMENT, MARKERS)}
    added: list[Symbol] = []
    for symbol in symbols:
        if symbol.node is None or not symbol.node.has_error:
            continue
        for row in range(symbol.start, symbol.end):
            match = resync.match(source.lines[row], 0, _LONGEST_DECLARATION)
            own = symbol.kind != CODE and symbol.start <= row < symbol.body
            if match and row not in known and not own:
                added.append(_resynced(match, row, symbol.end, source))
    if not added:
        return symbols
    return sorted([*symbols, *added], key=lambda symbol: (symbol.start, symbol.kind == CODE))


def _resynced(match: re.Match[str], row: int, end: int, source: SourceText) -> Symbol:
    groups = match.groupdict()
    name = groups.get("function") or groups.get("type") or groups.get("value") or ""
    word = next((word for word in match.group().split() if word in _KEYWORD_KINDS), "")
    kind = "function" if groups.get("function") else _KEYWORD_KINDS.get(word, "type")
    if groups.get("owner"):
        name, kind = f"{groups['owner']}.{name}", "method"
    start = row
    while start > 0 and _COMMENT_LINE.match(source.lines[start - 1]):
        start -= 1
    return Symbol(name, kind, start, end, row, row + 1)


def _merge_shared_lines(symbols: list[Symbol]) -> list[Symbol]:
    """Returns the symbols with strictly ascending starts: what begins on a line that is taken joins the item there."""
    result: list[Symbol] = []
    for symbol in sorted(symbols, key=lambda symbol: symbol.start):
        if result and symbol.start <= result[-1].start:
            earlier = result[-1]
            names = [name for name in (earlier.name, symbol.name) if name]
            kept = symbol if earlier.kind in (CODE, COMMENT) and symbol.name else earlier
            start, end = earlier.start, max(earlier.end, symbol.end)
            kept.name, kept.start, kept.end = ", ".join(dict.fromkeys(names)), start, end
            result[-1] = kept
        elif result and symbol.start < result[-1].end and symbol.node is not None and result[-1].node is not None:
            # It begins on the last line of the item above: that line stays there.
            symbol.start = min(result[-1].end, symbol.end)
            if symbol.start >= symbol.end:
                result[-1].name = ", ".join(name for name in (result[-1].name, symbol.name) if name)
            else:
                result.append(symbol)
        else:
            result.append(symbol)
    return result
