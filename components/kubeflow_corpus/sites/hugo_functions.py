"""The functions and objects of Hugo that shortcode templates use, as far as a page's text depends on them.

Source: hugo ``tpl/*/init.go`` and ``docs/content/en/functions``.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from markdown_it import MarkdownIt

from kubeflow_corpus.sites.front_matter import parse_mapping
from kubeflow_corpus.sites.go_template import Html, Inner, Unrenderable, looked_up, shown, truth

_GROUP: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
# A pattern of a foreign repository is tried on short texts only, and only if it cannot run away.
_MAX_MATCHED: Final = 2_000
_NESTED_REPEAT: Final = re.compile(r"[+*}]\)[+*{]|\(\?<?[=!]|\\[1-9]")
# Longer texts and lists are not made: a few lines of a template could ask for any size.
_MAX_TEXT: Final = 200_000
_MAX_ITEMS: Final = 10_000
_ANCHOR_DROPPED: Final = re.compile(r"[^\w\- ]")


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def markdownify(value: Any) -> Any:
    """Renders Markdown; the text of one paragraph comes without its tags."""
    if isinstance(value, Inner):
        return value
    done = _markdown().render(shown(value)).strip()
    single = done.startswith("<p>") and done.endswith("</p>") and done.count("<p>") == 1
    return Html(done[3:-4] if single else done)


def _as_is(value: Any) -> Any:
    return value if isinstance(value, Inner) else Html(shown(value))


def _joined(parts: Sequence[str], by: str = "") -> str:
    if sum(map(len, parts)) + len(by) * len(parts) > _MAX_TEXT:
        raise Unrenderable("a text that is too long")
    return by.join(parts)


def _replaced(text: Any, old: Any, new: Any, limit: int = -1) -> str:
    text, old, new = shown(text), shown(old), shown(new)
    if len(text) + (text.count(old) if old else len(text)) * len(new) > _MAX_TEXT:
        raise Unrenderable("a text that is too long")
    return str(text.replace(old, new, limit))


def _sequence(*values: Any) -> list[int]:
    numbers = [int(_number(value)) for value in values]
    first, step, last = (1, 1, numbers[0]) if len(numbers) == 1 else (numbers[0], 1, numbers[-1])
    step = numbers[1] if len(numbers) == 3 else -1 if last < first else step
    found = range(first, last + (1 if step > 0 else -1), step)
    if len(found) > _MAX_ITEMS:
        raise Unrenderable("a list that is too long")
    return list(found)


def _text(operation: Callable[[str], str]) -> Callable[[Any], str]:
    return lambda value: operation(shown(value))


def _trimmed(value: Any, characters: str = " \t\r\n") -> Any:
    return value if isinstance(value, Inner) and not characters.strip() else shown(value).strip(shown(characters))


def _replace_re(pattern: str, replacement: str, text: Any, limit: int = 0) -> str:
    text = shown(text)
    if max(map(len, (text, pattern, replacement))) > _MAX_MATCHED or _NESTED_REPEAT.search(pattern):
        raise Unrenderable("replaceRE of a long text or a pattern that is not tried")
    made = _GROUP.sub(lambda match: f"\\g<{match.group(1) or match.group(2)}>", replacement.replace("\\", "\\\\"))
    try:
        return re.sub(pattern, made, text, count=max(limit, 0))
    except (re.error, IndexError) as error:
        raise Unrenderable(f"replaceRE {pattern!r}") from error


def _printf(form: str, *values: Any) -> str:
    left = list(values)

    def one(match: re.Match[str]) -> str:
        if match.group() == "%%":
            return "%"
        if not left:
            raise Unrenderable("printf without a value")
        value, verb = left.pop(0), match.group()[-1]
        if verb == "q":
            return json.dumps(shown(value), ensure_ascii=False)
        if verb in "svt":
            return shown(value)
        if verb in "df" and isinstance(value, int | float):
            return match.group() % value
        raise Unrenderable(f"printf {match.group()}")

    form = shown(form)
    _joined([form, *map(shown, values)])
    return re.sub(r"%%|%[0-9.+-]{0,3}[a-zA-Z]", one, form)


def _number(value: Any) -> float | int:
    if isinstance(value, int | float):
        return value
    text = shown(value).strip()
    return float(text) if "." in text else int(text or 0)


def _compared(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def pair(one: Any, two: Any) -> bool:
        one, two = (item if isinstance(item, int | float) else shown(item) for item in (one, two))
        if type(one) is not type(two) and isinstance(one, str) != isinstance(two, str):
            one, two = shown(one), shown(two)
        return compare(one, two)

    return pair


def _equal(one: Any, *others: Any) -> bool:
    return any(
        shown(one) == shown(other) if one is not None and other is not None else one is other for other in others
    )


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, Mapping):
            value = looked_up(value, shown(key))
        elif isinstance(value, Sequence) and isinstance(key, int):
            value = value[key] if 0 <= key < len(value) else None
        else:
            return None
    return value


def _dictionary(*pairs: Any) -> dict[str, Any]:
    return dict(zip(map(shown, pairs[::2]), pairs[1::2], strict=True))


def _contained(collection: Any, item: Any) -> bool:
    if isinstance(collection, str | Inner):
        return shown(item) in shown(collection)
    return shown(item) in map(shown, collection) if isinstance(collection, list | tuple) else False


def _default(fallback: Any, value: Any = None) -> Any:
    return value if truth(value) or value is False else fallback


def _chosen(condition: Any, yes: Any, no: Any) -> Any:
    return yes if truth(condition) else no


def _both(*values: Any) -> Any:
    return next((value for value in values if not truth(value)), values[-1])


def _either(*values: Any) -> Any:
    return next((value for value in values if truth(value)), values[-1])


def _refused(*arguments: Any) -> Any:
    raise Unrenderable("the template reports an error")


def _nothing(*arguments: Any) -> str:
    return ""


def _unmarshal(text: Any, *_: Any) -> Any:
    for syntax in ("json", "yaml"):
        data = parse_mapping(shown(text), syntax)
        if data is not None:
            return data
    raise Unrenderable("unmarshal")


def _anchorize(text: Any) -> str:
    return _ANCHOR_DROPPED.sub("", shown(text).strip().lower()).replace(" ", "-")


_STRINGS: Final[Mapping[str, Any]] = {
    "Chomp": _trimmed,
    "Contains": lambda text, part: shown(part) in shown(text),
    "HasPrefix": lambda text, part: shown(text).startswith(shown(part)),
    "HasSuffix": lambda text, part: shown(text).endswith(shown(part)),
    "Replace": _replaced,
    "ReplaceRE": _replace_re,
    "Split": lambda text, by: shown(text).split(shown(by)) if by else list(shown(text)),
    "ToLower": _text(str.lower),
    "ToUpper": _text(str.upper),
    "Title": _text(str.title),
    "FirstUpper": _text(lambda text: text[:1].upper() + text[1:]),
    "Trim": _trimmed,
    "TrimSpace": _trimmed,
    "TrimLeft": lambda characters, text: shown(text).lstrip(shown(characters)),
    "TrimRight": lambda characters, text: shown(text).rstrip(shown(characters)),
    "TrimPrefix": lambda part, text: shown(text).removeprefix(shown(part)),
    "TrimSuffix": lambda part, text: shown(text).removesuffix(shown(part)),
}
_PATHS: Final[Mapping[str, Any]] = {
    "Join": lambda *parts: posixpath.normpath("/".join(map(shown, parts))),
    "Ext": lambda path: posixpath.splitext(shown(path))[1],
    "Base": lambda path: posixpath.basename(shown(path).rstrip("/")),
    "Dir": lambda path: posixpath.dirname(shown(path)) or ".",
}
_SAME: Final = {name: _as_is for name in ("safeHTML", "safeURL", "safeJS", "safeCSS", "safeHTMLAttr")}

# What depends on nothing but its arguments.
PLAIN: Final[Mapping[str, Any]] = {
    **_SAME,
    "and": _both,
    "or": _either,
    "not": lambda value: not truth(value),
    "eq": _equal,
    "ne": lambda one, *others: not _equal(one, *others),
    "lt": _compared(lambda one, two: one < two),
    "le": _compared(lambda one, two: one <= two),
    "gt": _compared(lambda one, two: one > two),
    "ge": _compared(lambda one, two: one >= two),
    "add": lambda *values: sum(map(_number, values)),
    "sub": lambda one, two: _number(one) - _number(two),
    "mul": lambda one, two: _number(one) * _number(two),
    "int": lambda value: int(_number(value)),
    "string": lambda value: value if isinstance(value, Inner) else shown(value),
    "len": lambda value: len(value.text) if isinstance(value, Inner) else len(value),
    "default": _default,
    "cond": _chosen,
    "isset": lambda values, key: _index(values, key) is not None,
    "index": _index,
    "dict": _dictionary,
    "slice": lambda *values: list(values),
    "seq": _sequence,
    "in": _contained,
    "first": lambda limit, values: list(values)[: int(limit)],
    "delimit": lambda values, by, last=None: _joined(list(map(shown, values)), shown(by)),
    "split": _STRINGS["Split"],
    "printf": _printf,
    "print": lambda *values: _joined(list(map(shown, values))),
    "println": lambda *values: _joined(list(map(shown, values)), " ") + "\n",
    "replace": _STRINGS["Replace"],
    "replaceRE": _replace_re,
    "lower": _STRINGS["ToLower"],
    "upper": _STRINGS["ToUpper"],
    "title": _STRINGS["Title"],
    "humanize": _text(lambda text: text.replace("-", " ").replace("_", " ").capitalize()),
    "trim": _trimmed,
    "chomp": _trimmed,
    "strings": _STRINGS,
    "path": _PATHS,
    "markdownify": markdownify,
    "plainify": _text(lambda text: re.sub(r"<[^<>]*>", "", text)),
    "htmlEscape": _text(html.escape),
    "htmlUnescape": lambda value: value if isinstance(value, Inner) else html.unescape(shown(value)),
    "html": _text(html.escape),
    "anchorize": _anchorize,
    "urlize": _anchorize,
    "relURL": shown,
    "absURL": shown,
    "relLangURL": shown,
    "absLangURL": shown,
    "i18n": shown,
    "T": shown,
    "unmarshal": _unmarshal,
    "transform": {"Unmarshal": _unmarshal, "Markdownify": markdownify},
    "errorf": _refused,
    "warnf": _nothing,
}
