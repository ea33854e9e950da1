"""MyST Markdown: what a reader sees of directives, roles, targets and substitutions.

Sources: ``myst-parser`` (``docs/syntax``), ``sphinx-design``, and the directives of docutils and Sphinx.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kubeflow_corpus.sites.base import Page, Site
from kubeflow_corpus.sites.front_matter import read_front_matter
from kubeflow_corpus.sites.page_lines import Rewritten, clean_lines, fenced_lines, label

_OPENING: Final = re.compile(r"^([ \t]*)(`{3,}|~{3,}|:{3,})\{([\w:.-]+)\}[ \t]*+(.{0,2000})$")
_PLAIN_FENCE: Final = re.compile(r"^[ \t]*(`{3,}|~{3,})")
_OPTION: Final = re.compile(r"^[ \t]*:([\w-]+):[ \t]*+(.*)$")
_TARGET: Final = re.compile(r"^[ \t]*\(([\w .:/-]{1,200})\)=[ \t]*$")
_ROLE: Final = re.compile(r"\{([A-Za-z][\w:.+-]{0,60})\}(`++)((?:(?!\2).)++)\2")
_SUBSTITUTION: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_ICON_ROLE: Final = re.compile(r"^(?:octicon|fa[sbrl]?|material-\w+)$")
_ADMONITIONS: Final = frozenset(
    ("attention", "caution", "danger", "error", "hint", "important", "note", "tip", "warning", "seealso", "todo")
)
_VERSIONS: Final = {
    "versionadded": "New in version {}",
    "versionchanged": "Changed in version {}",
    "deprecated": "Deprecated since version {}",
}
# What their title says, their content explains.
_TITLED: Final = frozenset(
    [
        "admonition",
        "card",
        "grid-item-card",
        "dropdown",
        "tab",
        "tab-item",
        "details",
        "topic",
        "sidebar",
        "table",
        "list-table",
        "csv-table",
        "rubric",
    ]
)
_CONTAINERS: Final = frozenset(
    [
        "grid",
        "grid-item",
        "tab-set",
        "tabs",
        "container",
        "div",
        "card-carousel",
        "only",
        "ifconfig",
        "figure",
        "epigraph",
        "compound",
        "tab-container",
    ]
)
_CODE: Final = frozenset(
    ["code-block", "code", "sourcecode", "code-cell", "parsed-literal", "prompt", "mermaid", "graphviz", "math"]
)
# What these hold is for the generator.
_NOT_TEXT: Final = frozenset(
    [
        "toctree",
        "contents",
        "index",
        "meta",
        "tabularcolumns",
        "highlight",
        "default-role",
        "currentmodule",
        "module",
        "iframe",
        "video",
    ]
)
_INCLUDES: Final = frozenset(("include", "literalinclude"))
_CODE_ROLES: Final = frozenset(["code", "kbd", "samp", "file", "command", "program", "option", "envvar", "literal"])
_OBJECT_ROLES: Final = frozenset(["class", "func", "meth", "mod", "attr", "obj", "exc", "data", "const"])
_MAX_DEPTH: Final = 8
_MAX_LINES: Final = 50_000


@dataclass(slots=True)
class _Directive:
    """A directive whose content is Markdown, and the fence that closes it."""

    fence: str
    code: bool = False


@dataclass(slots=True)
class _Writer:
    """What is written so far, each line with the line of the body that it comes from."""

    lines: list[str] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)

    def add(self, line: str, origin: int) -> None:
        self.lines.append(line)
        self.origins.append(origin)


def included_paths(path: str, text: str, site: Site) -> Iterator[str]:
    """Yields the paths of the files that a page includes."""
    for line in text.split("\n") if "include}" in text else ():
        match = _OPENING.match(line.rstrip("\r"))
        if match is not None and match.group(3) in _INCLUDES:
            yield _resolved(match.group(4).strip(), path, site)


def _resolved(name: str, path: str, site: Site) -> str:
    folder = site.root if name.startswith("/") else posixpath.dirname(path)
    return posixpath.normpath(posixpath.join(folder, name.lstrip("/")))


def rewrite_myst(page: Page) -> Rewritten:
    """Replaces directives, roles, targets, comments and substitutions of a page's body by what a reader sees."""
    body = page.body
    result = Rewritten(body)
    rewriter = _Rewriter(page, result)
    rewriter.rewrite(body, None, page.document.path, 0)
    result.lines, result.origins = rewriter.out.lines, rewriter.out.origins
    result.emptied(body, "directive")
    return result


class _Rewriter:
    def __init__(self, page: Page, result: Rewritten) -> None:
        self._page = page
        self._result = result
        self._substitutions = _substitutions(page)
        self.out = _Writer()

    def rewrite(self, lines: list[str], origin: int | None, path: str, depth: int) -> None:
        """Writes lines of a file.

        Args:
            lines: The lines.
            origin: The line of the body that includes them; None where they are the body.
            path: Their file.
            depth: How many files include each other here.
        """
        stack: list[_Directive] = []
        at = 0
        while at < len(lines) and len(self.out.lines) < _MAX_LINES:
            line, place = lines[at], at if origin is None else origin
            opening = _OPENING.match(line)
            if stack and _closes(line, stack[-1].fence):
                self.out.add(line if stack.pop().code else "", place)
                at += 1
            elif opening is not None:
                at = self._directive(opening, lines, at, origin, stack, path, depth)
            elif _PLAIN_FENCE.match(line):
                at = self._code(lines, at, origin)
            else:
                self.out.add(self._text(line, place), place)
                at += 1

    def _code(self, lines: list[str], at: int, origin: int | None) -> int:
        """Writes a fence as it is; returns the line after it."""
        inside = fenced_lines(lines[at : at + _MAX_LINES])
        end = next((index for index, fenced in enumerate(inside) if not fenced), len(inside))
        # One fence may stand right behind another: each ends at its own closing line.
        mark = _PLAIN_FENCE.match(lines[at])
        assert mark is not None
        for index in range(1, end):
            if _closes(lines[at + index], mark.group(1)):
                end = index + 1
                break
        for index in range(at, at + end):
            self.out.add(self._substituted(lines[index]), index if origin is None else origin)
        return at + end

    def _directive(
        self,
        opening: re.Match[str],
        lines: list[str],
        at: int,
        origin: int | None,
        stack: list[_Directive],
        path: str,
        depth: int,
    ) -> int:
        indent, fence, name, argument = opening.groups()
        argument = argument.strip()
        place = at if origin is None else origin
        options, after = _options(lines, at + 1)
        if name in _CODE or name in _INCLUDES or name in _NOT_TEXT or name in ("raw", "eval-rst", "image"):
            end = next((index for index in range(after, len(lines)) if _closes(lines[index], fence)), len(lines))
            self._whole(name, argument, options, lines[after:end], (indent, place, after), origin, path, depth)
            self.out.add("", max(place, min(end, len(lines) - 1)) if origin is None else origin)
            return end + 1
        stack.append(_Directive(fence))
        self.out.add(indent + self._title(name, argument, options), place)
        return after

    def _whole(
        self,
        name: str,
        argument: str,
        options: Mapping[str, str],
        content: list[str],
        where: tuple[str, int, int],
        origin: int | None,
        path: str,
        depth: int,
    ) -> None:
        """Writes a directive whose content is not Markdown of the page."""
        indent, place, first = where
        if name in _CODE:
            language = "math" if name == "math" else "mermaid" if name == "mermaid" else argument.split(" ")[0]
            mark = "`" * max([3, *(1 + len(run) for line in content for run in re.findall(r"`{3,}", line))])
            self.out.add(f"{indent}{mark}{language}", place)
            for index, line in enumerate(content):
                self.out.add(line, first + index if origin is None else origin)
            self.out.add(indent + mark, first + len(content) - 1 if origin is None and content else place)
        elif name == "raw" and argument == "html":
            for index, line in enumerate(content):
                self.out.add(line, first + index if origin is None else origin)
        elif name == "image":
            self.out.add(indent + options.get("alt", ""), place)
        elif name in _INCLUDES:
            self._include(name, argument, options, (indent, place), path, depth)
        elif name == "eval-rst":
            self._result.counts["directive:eval-rst"] += 1
            for index, line in enumerate(content):
                self.out.add(line, first + index if origin is None else origin)

    def _include(
        self, name: str, argument: str, options: Mapping[str, str], where: tuple[str, int], path: str, depth: int
    ) -> None:
        indent, place = where
        target = _resolved(argument, path, self._page.site)
        text = self._page.files.get(target)
        if text is None or depth >= _MAX_DEPTH:
            self._result.counts[f"include:{argument}"] += 1
            return
        lines = _selected(clean_lines(text), options)
        if name == "include" and "literal" not in options and "code" not in options:
            self.rewrite(lines[read_front_matter(lines).lines :], place, target, depth + 1)
            return
        language = options.get("language") or options.get("code") or posixpath.splitext(target)[1][1:]
        mark = "`" * max([3, *(1 + len(run) for line in lines for run in re.findall(r"`{3,}", line))])
        for line in (f"{mark}{language}", *lines, mark):
            self.out.add(indent + line if line else "", place)

    def _title(self, name: str, argument: str, options: Mapping[str, str]) -> str:
        shown = self._inline(argument)
        if name in _ADMONITIONS:
            kind = "See also" if name == "seealso" else name.capitalize()
            return label(f"{kind}: {shown}" if shown else f"{kind}:")
        if name in _VERSIONS:
            return label(_VERSIONS[name].format(shown) + ":")
        if name in _TITLED:
            return label(shown) if shown else ""
        if name not in _CONTAINERS:
            self._result.counts[f"directive:{name}"] += 1
            return label(shown) if shown else ""
        return options.get("alt", "") if name == "figure" else ""

    def _text(self, line: str, place: int) -> str:
        if line.startswith("%") and not line.startswith("%%"):
            self._result.reasons.setdefault(place, "comment")
            return ""
        if line.rstrip() == "+++" or _TARGET.match(line):
            return ""
        return self._inline(self._substituted(line))

    def _substituted(self, line: str) -> str:
        if "{{" not in line or not self._substitutions:
            return line
        return _SUBSTITUTION.sub(lambda match: self._substitutions.get(match.group(1), match.group()), line)

    def _inline(self, line: str) -> str:
        return _ROLE.sub(self._role, line) if "}`" in line else line

    def _role(self, match: re.Match[str]) -> str:
        name, content = match.group(1).rpartition(":")[2], match.group(3)
        if _ICON_ROLE.match(name):
            return ""
        if name in _CODE_ROLES:
            return f"`{content}`"
        if name in _OBJECT_ROLES:
            return f"`{content.rpartition('.')[2] if content.startswith('~') else content}`"
        title, opened, target = content.rpartition("<")
        if opened and len(target) > 1 and target.find(">") == len(target) - 1:
            return title.rstrip()
        if name in ("ref", "doc", "numref", "any"):
            # Its text is the title of another page, which is not here.
            self._result.counts[f"role:{name}"] += 1
            return content.rstrip("/").rpartition("/")[2].replace("-", " ").replace("_", " ")
        return content


def _substitutions(page: Page) -> dict[str, str]:
    given = page.site.params.get("myst_substitutions")
    myst = page.front.data.get("myst")
    own = myst.get("substitutions") if isinstance(myst, Mapping) else None
    return {str(key): str(value) for each in (given, own) if isinstance(each, Mapping) for key, value in each.items()}


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and bare == fence[0] * len(bare)


def _options(lines: list[str], at: int) -> tuple[dict[str, str], int]:
    """Reads the options of a directive; returns them and the line after them."""
    options: dict[str, str] = {}
    if at < len(lines) and lines[at].strip() == "---":
        for index in range(at + 1, min(at + 50, len(lines))):
            if lines[index].strip() == "---":
                return options, index + 1
            key, colon, value = lines[index].partition(":")
            options |= {key.strip(): value.strip().strip("\"'")} if colon else {}
        return {}, at
    while at < len(lines) and (match := _OPTION.match(lines[at])) is not None:
        options[match.group(1)] = match.group(2).strip()
        at += 1
    return options, at


def _selected(lines: list[str], options: Mapping[str, str]) -> list[str]:
    """Returns the lines of a file that an include asks for."""
    if "lines" in options:
        lines = [lines[number - 1] for number in _numbers(options["lines"], len(lines))]
    for key, keep in (("start-at", 0), ("start-after", 1)):
        if key in options:
            start = next((index for index, line in enumerate(lines) if options[key] in line), -keep)
            lines = lines[start + keep :]
    for key, keep in (("end-before", 0), ("end-at", 1)):
        if key in options:
            end = next((index for index, line in enumerate(lines) if options[key] in line), len(lines))
            lines = lines[: end + keep]
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def _numbers(text: str, most: int) -> Iterable[int]:
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first or last).isdigit():
            continue
        start = int(first[:9]) if first.isdigit() else 1
        end = (int(last[:9]) if last.isdigit() else most) if dash else start
        yield from range(max(start, 1), min(end, most) + 1)
