"""Go templates as documentation sites write them: text, fields, variables, conditions, loops and plain functions.

A template comes from a foreign repository. It is read and evaluated within bounds, it reaches nothing but the values
that it is given, and what is not known here is `Unrenderable`: whoever asked decides what stands there instead.

Source of the language: Go ``text/template`` and ``text/template/parse``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from typing import Any, Final

MAX_TEMPLATE: Final = 100_000
_MAX_STEPS: Final = 20_000
_MAX_OUTPUT: Final = 200_000
_MAX_DEPTH: Final = 40
_ACTION: Final = re.compile(
    r"\{\{(-(?=\s))?"
    r"(\s*+/\*(?:(?!\*/|\{\{).)*+\*/\s*+-?"
    r'|(?:"(?:[^"\\\n]|\\.)*+"|`[^`]*+`|(?!\}\}|\{\{)[^"`])*+)\}\}',
    re.DOTALL,
)
_TOKEN: Final = re.compile(
    r"""\s*+(?:
        (?P<string>"(?:[^"\\]|\\.)*+"|`[^`]*+`)
      | (?P<number>-?\d++(?:\.\d++)?)
      | (?P<variable>\$\w*+)
      | (?P<field>\.\w++)
      | (?P<dot>\.)
      | (?P<word>[A-Za-z_]\w*+)
      | (?P<sign>:=|=|\||\(|\)|,)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_OPENERS: Final = frozenset({"if", "with", "range"})


class Unrenderable(Exception):
    """A template says what is not known here; the text says what it is."""


class Html(str):
    """Text that is written as it is; any other is escaped."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Inner:
    """What a shortcode encloses: a template that only places it leaves it as it stands on the page.

    Attributes:
        text: Its source.
    """

    text: str

    def __str__(self) -> str:
        return self.text


# What a template gives: text, and where it placed what the shortcode encloses.
Output = list[str | Inner]
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Operand:
    """A literal, a variable, a function or a pipeline in brackets, and the fields that are read of it."""

    kind: str
    value: Any = None
    fields: tuple[str, ...] = ()


_Command = tuple[_Operand, ...]


@dataclass(frozen=True, slots=True)
class _Pipeline:
    commands: tuple[_Command, ...]
    targets: tuple[str, ...] = ()
    declares: bool = False


@dataclass(slots=True)
class _Node:
    """Text, or an action with what stands between it and its end."""

    kind: str
    text: str = ""
    pipeline: _Pipeline = field(default_factory=lambda: _Pipeline(()))
    body: list[_Node] = field(default_factory=list)
    otherwise: list[_Node] = field(default_factory=list)


@lru_cache(maxsize=512)
def parse_template(source: str) -> tuple[_Node, ...]:
    """Reads a template.

    Raises:
        Unrenderable: It is not closed, too long or too deep, or holds what is not read here.
    """
    if len(source) > MAX_TEMPLATE:
        raise Unrenderable("template too long")
    return tuple(_Parser(source).parse())


class _Parser:
    def __init__(self, source: str) -> None:
        self._pieces = list(_pieces(source))
        self._at = 0

    def parse(self) -> list[_Node]:
        nodes, end = self._nodes(0)
        if end:
            raise Unrenderable(f"{end} without a beginning")
        return nodes

    def _nodes(self, depth: int) -> tuple[list[_Node], str]:
        """Reads up to an ``else`` or ``end`` of the block around, which it returns beside the nodes."""
        if depth > _MAX_DEPTH:
            raise Unrenderable("template too deep")
        nodes: list[_Node] = []
        while self._at < len(self._pieces):
            kind, text = self._pieces[self._at]
            self._at += 1
            if kind == "text":
                nodes.append(_Node("text", text))
                continue
            word, _, rest = text.partition(" ")
            if word in ("end", "else"):
                return nodes, text
            if word in _OPENERS:
                nodes.append(self._block(word, rest, depth))
            elif word in ("define", "block", "template", "break", "continue", "return"):
                raise Unrenderable(word)
            elif text:
                nodes.append(_Node("action", pipeline=_pipeline(text)))
        return nodes, ""

    def _block(self, kind: str, condition: str, depth: int) -> _Node:
        node = _Node(kind, pipeline=_pipeline(condition))
        node.body, end = self._nodes(depth + 1)
        if end.startswith("else "):
            word, _, rest = end[5:].strip().partition(" ")
            node.otherwise = [self._block(word, rest, depth + 1)]
            return node
        if end == "else":
            node.otherwise, end = self._nodes(depth + 1)
        if end != "end":
            raise Unrenderable(f"{kind} without an end")
        return node


def _pieces(source: str) -> Iterator[tuple[str, str]]:
    """Yields text and actions, blanks trimmed where an action says so."""
    at, trim = 0, False
    for match in _ACTION.finditer(source):
        text = source[at : match.start()]
        text = text.lstrip() if trim else text
        body = match.group(2)
        yield "text", text.rstrip() if match.group(1) else text
        trim = body.endswith("-") and body[-2:-1].isspace()
        body = " ".join(_outside_strings((body[:-1] if trim else body).strip()))
        if not body.startswith("/*"):
            yield "action", body
        at = match.end()
    rest = source[at:]
    if "{{" in rest:
        raise Unrenderable("action without an end")
    yield "text", rest.lstrip() if trim else rest


def _outside_strings(action: str) -> Iterator[str]:
    # Only the first word has to stand apart: blanks in strings are part of them.
    word = re.match(r"\S+", action)
    if word is not None and not action.startswith("/*"):
        yield word.group()
        rest = action[word.end() :].strip()
        if rest:
            yield rest
    elif action:
        yield action


def _pipeline(text: str) -> _Pipeline:
    tokens = list(_tokens(text))
    reader = _PipelineReader(tokens)
    found = reader.pipeline(0)
    if reader.left:
        raise Unrenderable(f"action {text[:40]!r}")
    return found


def _tokens(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yields kind and text of each token, and whether a blank stands before it."""
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise Unrenderable(f"action {text[:40]!r}")
        token = match.group(match.lastgroup)
        yield match.lastgroup, token, match.end() - len(token) > at or at == 0
        at = match.end()


class _PipelineReader:
    def __init__(self, tokens: Sequence[tuple[str, str, bool]]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def left(self) -> bool:
        return self._at < len(self._tokens)

    def _peek(self, ahead: int = 0) -> tuple[str, str, bool]:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ("", "", True)

    def pipeline(self, depth: int) -> _Pipeline:
        if depth > _MAX_DEPTH:
            raise Unrenderable("action too deep")
        targets = self._targets()
        declares = bool(targets) and self._tokens[self._at - 1][1] == ":="
        commands = [self._command(depth)]
        while self._peek()[1] == "|":
            self._at += 1
            commands.append(self._command(depth))
        if not all(commands):
            raise Unrenderable("an action without a value")
        return _Pipeline(tuple(commands), targets, declares)

    def _targets(self) -> tuple[str, ...]:
        names: list[str] = []
        ahead = 0
        while self._peek(ahead)[0] == "variable":
            names.append(self._peek(ahead)[1])
            sign = self._peek(ahead + 1)[1]
            if sign in (":=", "="):
                self._at += ahead + 2
                return tuple(names)
            if sign != ",":
                break
            ahead += 2
        return ()

    def _command(self, depth: int) -> _Command:
        operands: list[_Operand] = []
        while self.left and self._peek()[1] not in ("|", ")"):
            operands.append(self._operand(depth))
        return tuple(operands)

    def _operand(self, depth: int) -> _Operand:
        kind, text, _ = self._peek()
        self._at += 1
        if kind == "string":
            return _Operand("literal", _unquoted(text))
        if kind == "number":
            return _Operand("literal", float(text) if "." in text else int(text[:18]))
        if text == "(":
            inner = self.pipeline(depth + 1)
            if self._peek()[1] != ")":
                raise Unrenderable("a bracket without an end")
            self._at += 1
            return _Operand("pipeline", inner, self._fields())
        if kind == "variable":
            return _Operand("variable", text, self._fields())
        if kind == "field":
            self._at -= 1
            return _Operand("variable", ".", self._fields(first=True))
        if kind == "dot":
            return _Operand("variable", ".")
        if text in ("true", "false", "nil"):
            return _Operand("literal", {"true": True, "false": False}.get(text))
        if kind == "word":
            return _Operand("function", text, self._fields())
        raise Unrenderable(f"{text!r} in an action")

    def _fields(self, *, first: bool = False) -> tuple[str, ...]:
        names: list[str] = []
        while self._peek()[0] == "field" and (first or not self._peek()[2]):
            names.append(self._peek()[1][1:])
            self._at += 1
            first = False
        return tuple(names)


def _unquoted(text: str) -> str:
    if text[0] == "`":
        return text[1:-1]
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match.group(1), match.group(1)), text[1:-1])


class Evaluation:
    """Evaluates templates that share one budget.

    Args:
        functions: What a template may call, by name, and the objects that it may name (``site``, ``strings``).
        steps: How many steps it may take.
    """

    def __init__(self, functions: Mapping[str, Any], steps: int = _MAX_STEPS) -> None:
        self._functions = dict(functions)
        self._given = self._steps = min(steps, _MAX_STEPS)
        self._size = _MAX_OUTPUT
        self._depth = 0

    @property
    def taken(self) -> int:
        """How many steps it has taken."""
        return self._given - self._steps

    def offer(self, functions: Mapping[str, Any]) -> None:
        """Adds what a template may call: a function may itself render one within the same budget."""
        self._functions |= functions

    def render(self, source: str, dot: object) -> Output:
        """Returns what a template writes.

        Raises:
            Unrenderable: It needs what is not there, or more than a template may take.
        """
        if self._depth > _MAX_DEPTH:
            raise Unrenderable("templates nested too deeply")
        self._depth += 1
        out: Output = []
        self._run(parse_template(source), dot, [{"$": dot}], out)
        self._depth -= 1
        return out

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise Unrenderable("template does not end")

    def _run(self, nodes: Sequence[_Node], dot: object, scopes: list[dict[str, Any]], out: Output) -> None:
        for node in nodes:
            self._step()
            if node.kind == "text":
                self._write(out, Html(node.text))
            elif node.kind == "action":
                value = self._value(node.pipeline, dot, scopes)
                if not node.pipeline.targets:
                    self._write(out, value)
            elif node.kind == "range":
                self._range(node, dot, scopes, out)
            else:
                self._branch(node, dot, scopes, out)

    def _branch(self, node: _Node, dot: object, scopes: list[dict[str, Any]], out: Output) -> None:
        inside = [*scopes, {}]
        value = self._value(node.pipeline, dot, inside)
        if truth(value):
            self._run(node.body, value if node.kind == "with" else dot, inside, out)
        else:
            self._run(node.otherwise, dot, inside, out)

    def _range(self, node: _Node, dot: object, scopes: list[dict[str, Any]], out: Output) -> None:
        inside: list[dict[str, Any]] = [*scopes, {}]
        plain = _Pipeline(node.pipeline.commands)
        items = _items(self._value(plain, dot, inside))
        for key, value in items:
            self._step()
            names = node.pipeline.targets
            own = dict(zip(names, (key, value) if len(names) > 1 else (value,), strict=False))
            self._run(node.body, value, [*inside, own], out)
        if not items:
            self._run(node.otherwise, dot, inside, out)

    def _write(self, out: Output, value: Any) -> None:
        if isinstance(value, Inner):
            out.append(value)
            return
        text = shown(value)
        self._size -= len(text)
        if self._size < 0:
            raise Unrenderable("template writes too much")
        out.append(text if isinstance(value, Html) else escape(text, quote=False))

    def _value(self, pipeline: _Pipeline, dot: object, scopes: list[dict[str, Any]]) -> Any:
        extra: tuple[Any, ...] = ()
        value: Any = None
        for command in pipeline.commands:
            value = self._command(command, dot, scopes, extra)
            extra = (value,)
        for name in pipeline.targets[-1:]:
            scope = next((each for each in reversed(scopes) if name in each), scopes[-1])
            (scopes[-1] if pipeline.declares else scope)[name] = value
        return value

    def _command(self, command: _Command, dot: object, scopes: list[dict[str, Any]], extra: tuple[Any, ...]) -> Any:
        self._step()
        head, *rest = command
        arguments = [self._operand(operand, dot, scopes, ()) for operand in rest]
        return self._operand(head, dot, scopes, (*arguments, *extra))

    def _operand(self, operand: _Operand, dot: object, scopes: list[dict[str, Any]], arguments: tuple[Any, ...]) -> Any:
        fields, value = operand.fields, operand.value
        if operand.kind == "pipeline":
            value = self._value(operand.value, dot, scopes)
        elif operand.kind == "variable":
            value = dot if value == "." else self._variable(value, scopes)
        elif operand.kind == "function":
            if value not in self._functions:
                raise Unrenderable(f"function {value}")
            value = self._functions[value]
        for index, name in enumerate(fields):
            value = _field(value() if callable(value) else value, name)
            if callable(value) and index < len(fields) - 1:
                value = value()
        if callable(value):
            return _called(value, arguments, ".".join((str(operand.value), *fields)))
        if arguments:
            raise Unrenderable("a value with arguments")
        return value

    def _variable(self, name: str, scopes: list[dict[str, Any]]) -> Any:
        for scope in reversed(scopes):
            if name in scope:
                return scope[name]
        raise Unrenderable(f"variable {name}")


def _called(function: Function, arguments: tuple[Any, ...], name: str) -> Any:
    try:
        result = function(*arguments)
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise Unrenderable(f"{name}: {error}") from error
    # What grows without an end is caught before it is taken as an argument again.
    if (isinstance(result, str) and len(result) > _MAX_OUTPUT) or (isinstance(result, int) and abs(result) > 1 << 62):
        raise Unrenderable(f"{name}: too large a value")
    return result


def _field(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return looked_up(value, name)
    read = getattr(value, "field", None)
    if read is None:
        if value is None:
            return None
        raise Unrenderable(f"field {name}")
    return read(name)


def looked_up(values: Mapping[Any, Any], name: str) -> Any:
    """Returns a value by its name, in which case does not count."""
    if name in values:
        return values[name]
    lower = name.lower()
    return next((item for key, item in values.items() if isinstance(key, str) and key.lower() == lower), None)


def truth(value: Any) -> bool:
    """Returns whether a value counts as true: nothing, zero and what is empty do not."""
    return bool(value.text) if isinstance(value, Inner) else bool(value)


def shown(value: Any) -> str:
    """Returns how Go writes a value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str | int | Inner):
        return str(value)
    # Lists in lists may share them: a few lines of a template could stand for any number of values.
    if isinstance(value, list | tuple) and not any(isinstance(item, list | tuple | Mapping) for item in value):
        return f"[{' '.join(map(shown, value))}]"
    raise Unrenderable(f"a value of type {type(value).__name__}")


def _items(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return sorted(value.items(), key=lambda item: str(item[0]))
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    if isinstance(value, int) and not isinstance(value, bool):
        if value > _MAX_STEPS:
            raise Unrenderable("template does not end")
        return [(number, number) for number in range(value)]
    if value in (None, ""):
        return []
    raise Unrenderable("range over something else than a list")
