"""MDX: imports and comments go, components leave the text that they show, HTML stays, admonitions become text."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from kubeflow_corpus.sites.page_lines import Rewritten, label, padded, starts_line, unfenced_runs

_ESM: Final = re.compile(r"^(?:import\s+[\w*{'\"]|export\s+(?:const|let|var|function|async|class|default|\{|\*))")
_MAX_ESM_LINES: Final = 200
# No part gives back what it took: parts that may share a run of blanks would try every way to divide it.
_ADMONITION: Final = re.compile(
    r"^(\s*+)(:{3,}+)\s*+([A-Za-z][\w-]*+)(?:\[(.*?)\]|[ \t]++([^{]*+))?\s*+(?:\{[^}]*+\})?\s*+$"
)
_ADMONITION_END: Final = re.compile(r"^\s*:{3,}\s*$")
_HEADING_COMMENT_ID: Final = re.compile(r"^([ \t]*#{1,6}[ \t].*?)\{/\*[ \t]*#([^\s{}*]+)[ \t]*\*/\}[ \t]*$")
# The places where MDX may stop being text: code spans, comments, string expressions and tags.
_SPECIAL: Final = re.compile(r"`+|\{/\*|\{[ \t]*[\"'`]|<(?=/?[A-Za-z>])|\\[<{`]")
_TAG_NAME: Final = re.compile(r"</?\s*([A-Za-z][\w.-]*)?")
_ATTRIBUTE: Final = re.compile(r"\s*([A-Za-z_:][\w:.-]*)(\s*=\s*)?")
_STRING: Final = re.compile(r"""\{\s*(["'`])((?:(?!\1)[^\\\n]|\\.)*)\1\s*\}""")
_TICKS: Final = re.compile(r"`+")
_WHITE: Final = re.compile(r"\s*")
# What all expressions of a page may cost to read, as a multiple of its length: nested braces that never close would
# otherwise be read again from each of their beginnings.
_EFFORT: Final = 30
_MAX_EXPRESSION: Final = 200_000
_MAX_SCHEMA_FIELDS: Final = 400
_MAX_SCHEMA_DEPTH: Final = 8

Attributes = Mapping[str, str]


def _tab(attributes: Attributes) -> str:
    text = attributes.get("label") or attributes.get("value") or ""
    return f"{text}:" if text else ""


def _nothing(attributes: Attributes) -> str:
    return ""


def _children(attributes: Attributes) -> str:
    return attributes.get("children", "")


def _field(attributes: Attributes) -> str:
    required = "required" if attributes.get("required") == "true" else "optional"
    about = " ".join(attributes.get("description", "").split())
    return f"- `{attributes.get('name', '')}` ({attributes.get('type', '')}, {required})" + (
        f": {about}" if about else ""
    )


def _endpoint(attributes: Attributes) -> str:
    return f"`{attributes.get('method', '').upper()} {attributes.get('path', '')}`"


def _schema(name: str) -> Callable[[Attributes], str]:
    def build(attributes: Attributes) -> str:
        fields = "; ".join(_schema_fields(attributes.get(name, "")))
        title = attributes.get("title", "")
        return ": ".join(part for part in (title, fields) if part) if fields else ""

    return build


def _any_text(attributes: Attributes) -> str:
    return next(
        (attributes[key] for key in ("title", "label", "children", "alt", "caption") if attributes.get(key)), ""
    )


# How a vocabulary may say that a component of the site is shown.
FORMS: Final[dict[str, Callable[[Attributes], str]]] = {
    "nothing": _nothing,
    "label": _tab,
    "text": _children,
    "field": _field,
}

# What stands in for the opening tag of the generator's own components and of those of its OpenAPI plugin, beside what
# the vocabulary says of the site's. Others leave the first of title, label, children, alt and caption;
# what a component encloses always stays.
COMPONENTS: Final[dict[str, Callable[[Attributes], str]]] = {
    "Tabs": _nothing,
    "TabItem": _tab,
    "Heading": _children,
    "MethodEndpoint": _endpoint,
    "ParamsDetails": _schema("parameters"),
    "RequestSchema": _schema("body"),
    "StatusCodes": _schema("responses"),
}

# What these show is a block of its own.
LABELS: Final = frozenset({"TabItem", "Heading"})


def rewrite_mdx(
    lines: list[str], params: Mapping[str, Any], components: Mapping[str, str] = MappingProxyType({})
) -> Rewritten:
    """Replaces what is MDX in a body by what a reader sees of it, outside code fences.

    Args:
        lines: The body.
        params: The site's parameters: the text of components that show a value, by name.
        components: Components that the site defines, and the form in `FORMS` in which each is shown.
    """
    known = {**COMPONENTS, **{name: FORMS.get(form, _any_text) for name, form in components.items()}}
    result = Rewritten(list(lines))
    effort = _Effort(_EFFORT * sum(map(len, lines)) + 10_000)
    _admonitions(result)
    _modules(result)
    before = list(result.lines)
    for start, end in list(unfenced_runs(result.lines)):
        text = "\n".join(result.lines[start:end])
        if "<" in text or "{" in text:
            headed = "\n".join(_HEADING_COMMENT_ID.sub(r"\1{#\2}", line) for line in text.split("\n"))
            result.lines[start:end] = _markup(headed, _Shown(params, known, result.counts), effort).split("\n")
    result.emptied(before, "component")
    return result


def _admonitions(result: Rewritten) -> None:
    for start, end in unfenced_runs(result.lines):
        for index in range(start, end):
            line = result.lines[index]
            if ":::" not in line:
                continue
            if _ADMONITION_END.match(line):
                result.lines[index] = ""
                result.reasons[index] = "admonition_end"
            elif len(line) < 1_000 and (match := _ADMONITION.match(line)):
                title = (match.group(4) or match.group(5) or "").strip()
                kind = match.group(3).capitalize()
                result.lines[index] = match.group(1) + label(f"{kind}: {title}" if title else f"{kind}:")


def _modules(result: Rewritten) -> None:
    before = list(result.lines)
    for start, end in unfenced_runs(result.lines):
        index = start
        while index < end:
            # A module statement starts a block: after a blank line, or after another one, which is blank by now.
            starts_block = index == 0 or not result.lines[index - 1].strip()
            if starts_block and _ESM.match(result.lines[index]):
                index = _module_end(result, index, end)
            else:
                index += 1
    result.emptied(before, "import_or_export")


def _module_end(result: Rewritten, index: int, end: int) -> int:
    depth = 0
    first = index
    while index < end and index - first < _MAX_ESM_LINES:
        line = result.lines[index]
        if not line.strip() and depth <= 0:
            break
        depth += line.count("{") + line.count("(") - line.count("}") - line.count(")")
        result.lines[index] = ""
        index += 1
    result.counts["import_or_export"] += 1
    return index


class _Shown:
    """What a reader sees of a component."""

    def __init__(
        self, params: Mapping[str, Any], known: Mapping[str, Callable[[Attributes], str]], counts: Counter[str]
    ) -> None:
        self._params, self._known, self.counts = params, known, counts

    def text(self, name: str, attributes: Attributes) -> str:
        value = self._params.get(name)
        if isinstance(value, str | int | float):
            return str(value)
        text = self._known.get(name, _any_text)(attributes)
        if not text and name not in self._known:
            self.counts[f"component:{name}"] += 1
        return text


class _Effort:
    """Characters that may still be read in search of a closing brace."""

    def __init__(self, left: int) -> None:
        self.left = left


def _markup(text: str, shown: _Shown, effort: _Effort) -> str:
    out: list[str] = []
    at = 0
    spans = _Spans(text)
    last_comment_end = text.rfind("*/}")
    while (match := _SPECIAL.search(text, at)) is not None:
        out.append(text[at : match.start()])
        found = match.group()
        if found[0] == "`":
            end = spans.end(match.start(), len(found))
            out.append(text[match.start() : end])
        elif found[0] == "\\":
            end = match.end()
            out.append(found)
        elif found == "{/*":
            stop = text.find("*/}", match.end()) if match.end() <= last_comment_end else -1
            end = stop + 3 if stop >= 0 else match.end()
            out.append("\n" * text.count("\n", match.start(), end) if stop >= 0 else found)
            shown.counts["mdx_comment"] += stop >= 0
        elif found[0] == "{":
            string = _STRING.match(text, match.start())
            end = string.end() if string is not None else match.end()
            out.append(padded(string.group(2), string.group()) if string is not None else found)
        else:
            end = _tag(text, match.start(), shown, effort, out)
        at = end
    out.append(text[at:])
    return "".join(out)


class _Spans:
    """Finds the end of code spans: where runs of backticks stand is read once, by their length."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._runs: dict[int, list[int]] = {}
        for run in _TICKS.finditer(text):
            self._runs.setdefault(len(run.group()), []).append(run.start())

    def end(self, start: int, length: int) -> int:
        after = start + length
        runs = self._runs.get(length, [])
        place = bisect_left(runs, after)
        if place == len(runs):
            return after
        closing = runs[place]
        # A span ends with its paragraph.
        broken = self._text.find("\n\n", after, min(closing, after + 100_000)) >= 0
        return after if broken else closing + length


def _tag(text: str, start: int, shown: _Shown, effort: _Effort, out: list[str]) -> int:
    tag = _read_tag(text, start, effort)
    if tag is None:
        out.append("<")
        return start + 1
    name, closing, attributes, end, braces = tag
    original = text[start:end]
    if not name or name[0].isupper() or "." in name:
        visible = "" if closing or not name else shown.text(name, attributes)
        labelled = visible and name in LABELS and starts_line(text, start)
        out.append(padded(label(visible) if labelled else visible, original))
    elif braces:
        kept = "".join(f' {key}="{value}"' for key, value in attributes.items() if '"' not in value and key != "style")
        hidden = ' style="display:none"' if "none" in attributes.get("style", "") else ""
        out.append(padded(f"<{name}{kept}{hidden}{' /' if original.endswith('/>') else ''}>", original))
    else:
        out.append(original)
    return end


def _read_tag(text: str, start: int, effort: _Effort) -> tuple[str, bool, dict[str, str], int, bool] | None:
    """Returns name, whether it closes, attributes, end and whether it has expressions; None where it is not a tag."""
    head = _TAG_NAME.match(text, start)
    assert head is not None
    name = head.group(1) or ""
    attributes: dict[str, str] = {}
    braces = False
    at = head.end()
    while True:
        at = _white_end(text, at)
        if text.startswith("/>", at):
            return name, False, attributes, at + 2, braces
        if text.startswith(">", at):
            return name, text.startswith("</", start), attributes, at + 1, braces
        if text.startswith("{", at):
            at = _expression_end(text, at, effort)
            braces = True
        else:
            attribute = _ATTRIBUTE.match(text, at)
            if attribute is None or not name:
                return None
            at = attribute.end()
            if attribute.group(2):
                value_start = at
                braces = braces or text.startswith("{", at)
                at = _value_end(text, at, effort)
                attributes[attribute.group(1)] = _value(text[value_start:at])
            else:
                attributes[attribute.group(1)] = "true"
        if at < 0:
            return None


def _white_end(text: str, at: int) -> int:
    match = _WHITE.match(text, at)
    return match.end() if match is not None else at


def _value_end(text: str, at: int, effort: _Effort) -> int:
    first = text[at : at + 1]
    if first in ('"', "'"):
        effort.left -= 50
        end = text.find(first, at + 1, at + _MAX_EXPRESSION) if effort.left > 0 else -1
        if end < 0:
            effort.left -= min(_MAX_EXPRESSION, len(text) - at)
        return end + 1 if end >= 0 else -1
    return _expression_end(text, at, effort) if first == "{" else -1


_BRACE: Final = re.compile(r"[{}\"'`]")


def _expression_end(text: str, at: int, effort: _Effort) -> int:
    depth = 0
    position = at
    limit = min(len(text), at + _MAX_EXPRESSION)
    while effort.left > 0:
        match = _BRACE.search(text, position, limit)
        if match is None:
            break
        effort.left -= match.end() - position
        position = match.end()
        char = match.group()
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return position
        else:
            close = _string_end(text, position, char, limit)
            effort.left -= 20
            position = close if close > 0 else position
    effort.left -= limit - at
    return -1


def _string_end(text: str, at: int, quote: str, limit: int) -> int:
    while (end := text.find(quote, at, limit)) >= 0:
        if text[end - 1] != "\\":
            return end + 1
        at = end + 1
    return -1


def _value(raw: str) -> str:
    if raw[:1] in ('"', "'"):
        return raw[1:-1]
    inner = raw[1:-1].strip()
    return inner[1:-1] if inner[:1] in ('"', "'", "`") and inner[-1:] == inner[:1] else inner


def _schema_fields(raw: str) -> list[str]:
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return []
    return list(dict.fromkeys(_walk_schema(data, "", 0)))[:_MAX_SCHEMA_FIELDS]


def _walk_schema(data: Any, path: str, depth: int) -> Iterator[str]:
    if depth > _MAX_SCHEMA_DEPTH:
        return
    if isinstance(data, list):
        for item in data:
            yield from _walk_schema(item, path, depth + 1)
        return
    if not isinstance(data, dict):
        return
    if "name" in data and "in" in data and isinstance(data["name"], str):
        kind = (data.get("schema") or {}).get("type", "") if isinstance(data.get("schema"), dict) else ""
        yield f"`{data['name']}` ({', '.join(str(part) for part in (kind, data['in']) if part)})"
        return
    required = data.get("required") if isinstance(data.get("required"), list) else []
    for name, field in (data.get("properties") or {}).items() if isinstance(data.get("properties"), dict) else ():
        kind = str(field.get("type", "object")) if isinstance(field, dict) else ""
        need = ", required" if isinstance(required, list) and name in required else ""
        yield f"`{path}{name}` ({kind}{need})"
        yield from _walk_schema(field, f"{path}{name}.", depth + 1)
    for key, value in data.items():
        if key in ("items", "schema", "content", "responses", "allOf", "oneOf", "anyOf"):
            yield from _walk_schema(value, path, depth + 1)
        elif "/" in key or re.fullmatch(r"\d{3}", key):
            if key.isdigit() and isinstance(value, dict) and value.get("description"):
                yield f"{key} {value['description']}"
            yield from _walk_schema(value, path, depth + 1)
