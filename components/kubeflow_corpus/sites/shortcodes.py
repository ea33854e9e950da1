"""Hugo shortcodes on a page: what the site's templates show, parameters, included files; the rest is counted."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any, Final

from kubeflow_corpus.sites.base import Page, RepositoryPaths
from kubeflow_corpus.sites.front_matter import read_front_matter
from kubeflow_corpus.sites.go_template import Inner, Unrenderable
from kubeflow_corpus.sites.hugo_shortcodes import Call, Templates, paths_ending, template_path
from kubeflow_corpus.sites.page_lines import Rewritten, blank_start, clean_lines, fenced_lines, starts_line
from kubeflow_corpus.text_lines import without_comments

# A tag ends at its first closing delimiter; a longer one is text that happens to look like a tag.
_MAX_TAG: Final = 4_000
_OPEN: Final = re.compile(r"\{\{([<%])")
# A tab with a language encloses code: longer than what code is likely to hold.
CODE_FENCE: Final = "`" * 5
_NAME: Final = re.compile(r"\s*+(/?)\s*+([A-Za-z][\w./-]*)")
_PLACE: Final = re.compile(r"\{([\w-]+)\|([^{}]*)\}")
# A quote that nothing closes reaches to the end: it would be looked for again from each escaped one behind it.
# How far a line is looked at: it may be the whole page, with a tag in every few of its characters.
_MAX_LINE: Final = 2_000
_MAX_AFTER: Final = 200
_MAX_ENCLOSED: Final = 200_000
_HTML_TAG: Final = re.compile(r"</?[A-Za-z][^<>]*>")
_PREFORMATTED: Final = re.compile(r"(<pre\b(?:(?!</?pre\b).)*+</pre>)", re.DOTALL | re.IGNORECASE)
_TICKS: Final = re.compile(r"`+")
# Names of shortcodes that show a file of the repository, in the themes that documentation sites use.
_INCLUDES: Final = re.compile(r"include|readfile|embed|sample|^(?:raw)?code|example|manifest", re.IGNORECASE)
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
    markdown: bool = False


def rewrite_shortcodes(page: Page) -> Rewritten:
    """Replaces every shortcode of a page by what a reader sees of it.

    Hugo reads shortcodes before Markdown, so those inside code fences are replaced too; ``{{</* x */>}}`` is how a
    page shows one, and becomes ``{{< x >}}``. What the templates of the site show is in the page's files; a shortcode
    that cannot be shown is counted, and leaves its name and arguments where a gap would make another command or table.
    """
    lines = page.body
    text = "\n".join(lines)
    if "{{<" not in text and "{{%" not in text:
        return Rewritten(lines)
    rewriter = _Rewriter(page, lines, text)
    rewriter.run()
    return rewriter.result


class _Lines:
    """Lines that grow from the left to the right, each with the line of the body that it comes from."""

    def __init__(self) -> None:
        self._parts: list[list[str]] = [[]]
        self.origins = [0]

    def source(self, text: str, line: int) -> None:
        """Adds text of the body that begins on a line of it."""
        first, *rest = text.split("\n")
        self._parts[-1].append(first)
        for number, part in enumerate(rest, start=line + 1):
            self._parts.append([part])
            self.origins.append(number)

    def made(self, text: str, line: int) -> None:
        """Adds text that stands for something on a line of the body."""
        first, *rest = text.split("\n")
        self._parts[-1].append(first)
        for part in rest:
            self._parts.append([part])
            self.origins.append(line)

    @property
    def lines(self) -> list[str]:
        return ["".join(parts) for parts in self._parts]


class _Rewriter:
    def __init__(self, page: Page, lines: list[str], text: str) -> None:
        self._page = page
        self._body = lines
        self._text = text
        self._fenced = fenced_lines(lines)
        self._templates = Templates(page)
        self._opening = {**OPENING, **{name: _sentence(words) for name, words in page.vocabulary.shortcodes}}
        self._tags = list(_tags(text))
        self._closings = _closings(self._tags)
        self._after: dict[int, str] = {}
        self._out = _Lines()
        self._line = 0
        self.result = Rewritten(lines)

    def run(self) -> None:
        at = index = 0
        while index < len(self._tags):
            tag = self._tags[index]
            self._source(self._text[at : tag.start])
            enclosed = self._replace(index)
            self._blank(self._text[tag.start : tag.end])
            if not enclosed and index in self._closings:
                # What nobody sees goes together with the tag that closes it.
                index = self._closings[index]
                self._blank(self._text[tag.end : self._tags[index].end])
            at = self._tags[index].end
            index += 1
        self._source(self._text[at:])
        self.result.lines = self._out.lines
        self.result.origins = self._out.origins
        self.result.emptied(self._body, "shortcode")

    def _source(self, text: str) -> None:
        self._out.source(text, self._line)
        self._line += text.count("\n")

    def _blank(self, text: str) -> None:
        self._source("\n" * text.count("\n"))

    def _replace(self, index: int) -> bool:
        """Writes what stands for a tag; returns whether what it encloses stays."""
        tag = self._tags[index]
        if not tag.name:
            self._made(self._text[tag.start : tag.end].replace("/*", "", 1).replace("*/", "", 1))
        elif tag.closing:
            self._place(tag, self._after.get(index, ""))
        elif tag.name in ENCLOSES_NO_TEXT and index in self._closings:
            self.result.counts[f"shortcode:{tag.name}"] += 1
            return False
        else:
            return self._open(index, tag)
        return True

    def _open(self, index: int, tag: _Tag) -> bool:
        closing = self._closings.get(index)
        language = tag.arguments.get("codelang", "") if tag.name.endswith("tab") else ""
        if tag.name == "highlight" and closing is not None and not self._templates.has(tag.name):
            language = tag.arguments.get("0") or "text"
        if language:
            if closing is not None:
                self._after[closing] = CODE_FENCE
            self._made(f"{CODE_FENCE}{language} {tag.arguments.get('name', '')}".rstrip())
            return True
        known = self._known(tag)
        if known is not None:
            self._made(known)
            return True
        shown = self._templated(index, tag)
        if shown is not None:
            return shown
        value = _lookup(self._page.site.params, tag.name) or self._included(tag)
        if value:
            self._place(tag, value)
            return True
        self.result.counts[f"shortcode:{tag.name}"] += 1
        self._made(self._mark(tag))
        return True

    def _known(self, tag: _Tag) -> str | None:
        """Returns what stands for a shortcode whose meaning does not depend on a template of the site."""
        if tag.name in PARAMETER_NAMES:
            value = self._templates.parameter(tag.arguments.get("0", ""))
            return str(value) if isinstance(value, str | int | float) and value != "" else None
        if tag.name in ("ref", "relref"):
            # The target of a link: nobody reads it, but without one Markdown does not see a link.
            return (tag.arguments.get("0") or tag.arguments.get("path") or "").replace(" ", "%20") or None
        build = self._opening.get(tag.name)
        if build is None:
            return None
        return _lookup(self._page.site.params, tag.name) or build(tag.arguments)

    def _templated(self, index: int, tag: _Tag) -> bool | None:
        """Writes what the site's template shows; returns whether what it encloses stays, None where none is shown."""
        closing = self._closings.get(index)
        if not self._templates.has(tag.name):
            return None
        if closing is not None and self._tags[closing].start - tag.end > _MAX_ENCLOSED:
            return None
        inner = self._text[tag.end : self._tags[closing].start] if closing is not None else None
        try:
            output = self._templates.render(Call(tag.name, tag.arguments, inner))
        except (Unrenderable, RecursionError):
            return None
        place = next((at for at, part in enumerate(output) if isinstance(part, Inner)), None)
        if closing is None or place is None:
            self._place(tag, "".join(map(str, output)))
            return closing is None
        self._place(tag, "".join(map(str, output[:place])))
        self._after[closing] = "".join(map(str, output[place + 1 :]))
        return True

    def _included(self, tag: _Tag) -> str:
        """Returns a file that a shortcode names, where its theme is not there to say how it shows it."""
        if not _INCLUDES.search(tag.name):
            return ""
        path, text = self._templates.file_like(list(tag.arguments.values()))
        if not path:
            return ""
        suffix = posixpath.splitext(path)[1].lower()
        lines = clean_lines(text)
        if suffix in (".md", ".markdown"):
            return "\n".join(lines[read_front_matter(lines).lines :]).strip("\n")
        fence = "`" * max([5, *(1 + len(run) for run in _TICKS.findall(text))])
        return f"{fence}{suffix[1:]}\n" + "\n".join(lines).rstrip("\n") + f"\n{fence}"

    def _made(self, text: str) -> None:
        self._out.made(" ".join(text.split("\n")), self._line)

    def _place(self, tag: _Tag, text: str) -> None:
        """Writes what a template shows: over several lines where the tag has its line for itself."""
        text = text.strip("\n").rstrip()
        in_code = self._fenced[self._line]
        if in_code and not tag.markdown:
            text = unescape(_HTML_TAG.sub("", without_comments(text)))
        alone = (
            starts_line(self._text, tag.start)
            and not self._text[tag.end : tag.end + _MAX_AFTER].split("\n", 1)[0].strip()
        )
        if not alone:
            self._made(text.strip())
            return
        indent = "" if tag.markdown else " " * (tag.start - blank_start(self._text, tag.start))
        lines = text.split("\n")
        if not in_code and text.lstrip().startswith("<"):
            # Hugo does not read it as Markdown: for a Markdown parser, an HTML block ends at a blank line, what stands
            # behind a comment is none, and four blanks begin code.
            lines = [*_raw_html(text).split("\n"), ""]
        self._out.made(f"\n{indent}".join(lines) if lines[-1] else f"\n{indent}".join(lines[:-1]) + "\n", self._line)

    def _mark(self, tag: _Tag) -> str:
        """Returns name and arguments of a shortcode in code and in tables: nothing would make another command of it."""
        start = self._body[self._line][:_MAX_AFTER].lstrip()
        before = self._text[max(tag.start - _MAX_LINE, 0) : tag.start].rsplit("\n", 1)[-1]
        if not (self._fenced[self._line] or start.startswith("|") or before.count("`") % 2):
            return ""
        named = (value if key.isdigit() else f"{key}={value}" for key, value in tag.arguments.items())
        return "{" + " ".join([tag.name, *named]).replace("|", "\\|") + "}"


def _raw_html(text: str) -> str:
    """Returns HTML without comments and without what Markdown would give a meaning to; what is in ``pre`` stays."""
    parts = _PREFORMATTED.split(without_comments(text))
    parts[::2] = ["\n".join(filter(None, (line.strip() for line in part.split("\n")))) for part in parts[::2]]
    parts[1::2] = [part.replace("\n\n", "\n&#10;") for part in parts[1::2]]
    return "".join(parts)


def _closings(tags: Sequence[_Tag]) -> dict[int, int]:
    """Returns the closing tag of each tag that has one."""
    found: dict[int, int] = {}
    open_tags: dict[str, list[int]] = {}
    for index, tag in enumerate(tags):
        if not tag.name:
            continue
        if not tag.closing:
            open_tags.setdefault(tag.name, []).append(index)
        elif open_tags.get(tag.name):
            found[open_tags[tag.name].pop()] = index
    return found


def _tags(text: str) -> Iterator[_Tag]:
    at = 0
    for match in _OPEN.finditer(text):
        closing = ">}}" if match.group(1) == "<" else "%}}"
        end = text.find(closing, match.end(), match.end() + _MAX_TAG)
        if match.start() < at or end < 0 or text.find("{{" + match.group(1), match.end(), end) >= 0:
            continue
        inner = text[match.end() : end]
        markdown = match.group(1) == "%"
        name = _NAME.match(inner)
        comment = inner.lstrip().startswith("/*")
        if name is None and not comment:
            continue
        start, at = _with_stray_braces(text, match.start(), end + len(closing))
        if name is None or comment:
            yield _Tag(start, at, "", False, {}, markdown)
        else:
            yield _Tag(start, at, name.group(2), bool(name.group(1)), _arguments(inner[name.end() :]), markdown)


def _with_stray_braces(text: str, start: int, end: int) -> tuple[int, int]:
    """Takes in a brace too many on either side of a tag that has its line for itself."""
    after = text[end : end + 200].split("\n", 1)[0].strip()
    brace = blank_start(text, start) - 1
    opened = brace >= 0 and text[brace] == "{" and starts_line(text, brace)
    alone = (opened or starts_line(text, start)) and after in ("", "}")
    return (start - opened, end + (after == "}" and text[end : end + 1] == "}")) if alone else (start, end)


def _lookup(params: Mapping[str, Any], name: str) -> str:
    value: Any = params.get(name)
    if value is None:
        value = params
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    return str(value) if isinstance(value, str | int | float) else ""


def shortcode_needs(text: str, known: RepositoryPaths) -> Iterable[str]:
    """Yields the files that the shortcodes of a page may show: their templates, and what their arguments name."""
    for tag in _tags(text) if "{{<" in text or "{{%" in text else ():
        if tag.name and not tag.closing:
            yield template_path(tag.name, known)
            for value in tag.arguments.values():
                if posixpath.splitext(value)[1]:
                    yield from paths_ending(value, known)


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
