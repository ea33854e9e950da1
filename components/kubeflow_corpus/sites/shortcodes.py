"""Hugo shortcodes: text of alerts, tabs and notes stays, parameters are resolved, the rest is dropped and counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from kubeflow_corpus.sites.page_lines import Rewritten, blank_start, padded, starts_line

# A tag ends at its first closing delimiter; a longer one is text that happens to look like a tag.
_MAX_TAG: Final = 4_000
_OPEN: Final = re.compile(r"\{\{([<%])")
# A tab with a language encloses code: longer than what code is likely to hold.
CODE_FENCE: Final = "`" * 5
_NAME: Final = re.compile(r"\s*+(/?)\s*+([A-Za-z][\w./-]*)")
_PLACE: Final = re.compile(r"\{([\w-]+)\|([^{}]*)\}")
# A quote that nothing closes reaches to the end: it would be looked for again from each escaped one behind it.
_ARGUMENT: Final = re.compile(r'(?:([\w-]++)\s*+=\s*+)?(?:"((?:[^"\\]|\\(?s:.)?)*+)(?:"|\Z)|`([^`]*+)`|([^\s"`=]++))')


def _titled(arguments: Mapping[str, str]) -> str:
    title = arguments.get("title", "").strip()
    return f"**{title.rstrip(':')}:**" if title else ""


def _named(arguments: Mapping[str, str]) -> str:
    name = (arguments.get("name") or arguments.get("header") or arguments.get("0", "")).strip()
    return f"**{name.rstrip(':')}:**" if name else ""


def _labelled(arguments: Mapping[str, str]) -> str:
    return next((arguments[key].strip() for key in ("title", "caption", "alt") if arguments.get(key)), "")


def _sentence(text: str) -> Callable[[Mapping[str, str]], str]:
    """Shows a text in which ``{argument|text}`` is an argument, or the text without it."""
    return lambda arguments: _PLACE.sub(lambda place: arguments.get(place[1]) or place[2], text)


# What stands in for the opening tag (or the only one), beside the shortcodes that the vocabulary says the site
# defines. A shortcode that is not listed resolves to a parameter of the
# site of the same name, and where the site gives none it is dropped; what it encloses always stays.
Opening = Mapping[str, Callable[[Mapping[str, str]], str]]
OPENING: Final[Opening] = {
    "alert": _titled,
    "pageinfo": lambda arguments: "",
    "note": _sentence("**Note:**"),
    "tip": _sentence("**Tip:**"),
    "warning": _sentence("**Warning:**"),
    "caution": _sentence("**Caution:**"),
    "details": lambda arguments: f"**{arguments.get('summary') or arguments.get('0') or 'Details'}**",
    "tabs": lambda arguments: "",
    "tabpane": lambda arguments: "",
    "blocks/tabs": lambda arguments: "",
    "tab": _named,
    "blocks/tab": _named,
    "youtube": _labelled,
    "figure": _labelled,
    "imgproc": _labelled,
}
# The parameter of the site that a shortcode with an argument asks for.
PARAMETER_NAMES: Final = frozenset({"param", "params", "site-param"})
# What these enclose is for the generator, not for a reader: an address to load, a script.
ENCLOSES_NO_TEXT: Final = frozenset({"swaggerui-inline", "readfile", "comment"})


@dataclass(frozen=True, slots=True)
class _Tag:
    start: int
    end: int
    name: str
    closing: bool
    arguments: dict[str, str]


def rewrite_shortcodes(
    lines: list[str], params: Mapping[str, Any], sentences: Mapping[str, str] = MappingProxyType({})
) -> Rewritten:
    """Replaces every shortcode of a body by what a reader sees of it.

    Hugo reads shortcodes before Markdown, so those inside code fences are replaced too; ``{{</* x */>}}`` is how a
    page shows one, and becomes ``{{< x >}}``.

    Args:
        lines: The body.
        params: The site's parameters, by name or dotted path.
        sentences: Shortcodes that the site defines, and the text that each shows.
    """
    opening = {**OPENING, **{name: _sentence(text) for name, text in sentences.items()}}
    text = "\n".join(lines)
    result = Rewritten(lines)
    if "{{<" not in text and "{{%" not in text:
        return result
    tags = list(_tags(text))
    closed = {tag.name for tag in tags if tag.closing}
    out: list[str] = []
    at = 0
    enclosing = ""
    coded: set[str] = set()
    for tag in tags:
        between = text[at : tag.start]
        out.append("\n" * between.count("\n") if enclosing else between)
        original = text[tag.start : tag.end]
        at = tag.end
        if enclosing:
            enclosing = "" if tag.closing and tag.name == enclosing else enclosing
            out.append(padded("", original))
        elif tag.name in ENCLOSES_NO_TEXT and tag.name in closed and not tag.closing:
            enclosing = tag.name
            result.counts[f"shortcode:{tag.name}"] += 1
            out.append(padded("", original))
        else:
            out.append(padded(_replacement(tag, original, params, opening, coded, result.counts), original))
    out.append(text[at:])
    result.lines = "".join(out).split("\n")
    result.emptied(lines, "shortcode")
    return result


def _replacement(
    tag: _Tag, original: str, params: Mapping[str, Any], opening: Opening, coded: set[str], counts: Counter[str]
) -> str:
    if not tag.name:
        return original.replace("/*", "", 1).replace("*/", "", 1)
    if tag.closing:
        code = tag.name in coded
        coded.discard(tag.name)
        return CODE_FENCE if code else ""
    if tag.arguments.get("codelang") and tag.name.endswith("tab"):
        coded.add(tag.name)
        return f"{CODE_FENCE}{tag.arguments['codelang']} {tag.arguments.get('name', '')}".rstrip()
    substitute = _substitute(tag.name, tag.arguments, params, opening)
    if not substitute and tag.name not in opening:
        counts[f"shortcode:{tag.name}"] += 1
    return substitute


def _tags(text: str) -> Iterator[_Tag]:
    at = 0
    for match in _OPEN.finditer(text):
        closing = ">}}" if match.group(1) == "<" else "%}}"
        end = text.find(closing, match.end(), match.end() + _MAX_TAG)
        if match.start() < at or end < 0 or text.find("{{" + match.group(1), match.end(), end) >= 0:
            continue
        inner = text[match.end() : end]
        name = _NAME.match(inner)
        comment = inner.lstrip().startswith("/*")
        if name is None and not comment:
            continue
        start, at = _with_stray_braces(text, match.start(), end + len(closing))
        if name is None or comment:
            yield _Tag(start, at, "", False, {})
        else:
            yield _Tag(start, at, name.group(2), bool(name.group(1)), _arguments(inner[name.end() :]))


def _with_stray_braces(text: str, start: int, end: int) -> tuple[int, int]:
    """Takes in a brace too many on either side of a tag that has its line for itself."""
    after = text[end : end + 200].split("\n", 1)[0].strip()
    brace = blank_start(text, start) - 1
    opened = brace >= 0 and text[brace] == "{" and starts_line(text, brace)
    alone = (opened or starts_line(text, start)) and after in ("", "}")
    return (start - opened, end + (after == "}" and text[end : end + 1] == "}")) if alone else (start, end)


def _substitute(name: str, arguments: Mapping[str, str], params: Mapping[str, Any], opening: Opening) -> str:
    wanted = arguments.get("0", "") if name in PARAMETER_NAMES else name
    value = _lookup(params, wanted)
    if value:
        return value
    build = opening.get(name)
    return build(arguments) if build is not None else ""


def _lookup(params: Mapping[str, Any], name: str) -> str:
    value: Any = params.get(name)
    if value is None:
        value = params
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    return str(value) if isinstance(value, str | int | float) else ""


def _arguments(text: str) -> dict[str, str]:
    arguments: dict[str, str] = {}
    position = 0
    for match in _ARGUMENT.finditer(text.rstrip("/ ")):
        quoted, raw, bare = match.group(2), match.group(3), match.group(4)
        value = quoted.replace('\\"', '"') if quoted is not None else raw if raw is not None else bare
        if match.group(1):
            arguments[match.group(1)] = value
        else:
            arguments[str(position)] = value
            position += 1
    return arguments
