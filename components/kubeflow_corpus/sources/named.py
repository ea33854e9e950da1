"""Documents that a run is asked for by name: ``source:path``, or ``source:number`` for an issue thread.

That is how a webhook names what changed. A name is a path of the repository and nothing more: no pattern, no folder, no
way out of the tree. Whether such a file exists and whether its source selects it is found when the source is read: a
webhook knows neither, and a file that is gone is one whose rows have to go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NoReturn

from kubeflow_corpus.errors import InvalidArgument
from kubeflow_corpus.sites.registry import generator_named
from kubeflow_corpus.sources.catalogue import Catalogue
from kubeflow_corpus.sources.decoding import unsafe_path
from kubeflow_corpus.sources.github.crawl import MAX_NUMBER

# They travel as one parameter of a step, which is an argument of a process. Above this a whole run costs no more.
MAX_NAMED: Final = 500
MAX_NAMED_BYTES: Final = 64_000

_SHOWN: Final = 200
_FORM: Final = "Write SOURCE:PATH with the path from the root of the repository, or SOURCE:NUMBER for an issue thread"
_WHOLE: Final = "Name each document, or read the whole source (--source NAME, parameter sources)"


def named_documents(
    catalogue: Catalogue, words: Sequence[str], *, sources: Collection[str] = (), rebuild: bool = False
) -> dict[str, tuple[str, ...]]:
    """Returns the documents that a run is asked for, by source; nothing where it is asked for whole sources.

    Args:
        catalogue: Which sources there are.
        words: As in the parameter ``changed_paths``.
        sources: The sources that the run is restricted to; none means no restriction.
        rebuild: Whether the run fills a new version, which needs every document.

    Returns:
        Source to paths (numbers of an issue source), each once, sorted.

    Raises:
        InvalidArgument: A word names no document, or the combination makes no sense.
        CatalogueError: There is no such source; the error names those that are near.
    """
    named = parse_named(words)
    if named and rebuild:
        raise InvalidArgument(
            "changed_paths and rebuild exclude each other: a new version needs every document",
            remedy="Leave one of them out",
            argument="changed_paths",
        )
    chosen = {source.name: source for source in catalogue.select("", named)} if named else {}
    for name, paths in named.items():
        if sources and name not in sources:
            raise InvalidArgument(
                f"changed_paths names source {name!r}, which is not among the sources of this run",
                remedy=f"Leave sources out, or add {name!r} to them",
                argument="changed_paths",
            )
        wrong = next((path for path in paths if not _is_number(path)), "")
        if chosen[name].type == "issue" and wrong:
            _refuse(f"{name}:{wrong}", f"is not an issue: {name} is a source of issue threads", _FORM)
    return named


def parse_named(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Reads ``source:path`` without looking at a catalogue.

    Raises:
        InvalidArgument: A word names no document, or there are too many.
    """
    found: dict[str, set[str]] = {}
    for word in words:
        source, colon, path = word.partition(":") if isinstance(word, str) else ("", "", "")
        if not colon or not source or not path:
            _refuse(word, "names no document", _FORM)
        _check_path(word, path)
        found.setdefault(source, set()).add(path)
    if (
        len(words) > MAX_NAMED
        or sum(len(str(word).encode("utf-8", "surrogatepass")) for word in words) > MAX_NAMED_BYTES
    ):
        raise InvalidArgument(
            f"changed_paths names {len(words):,} documents; it takes {MAX_NAMED:,}, and {MAX_NAMED_BYTES:,} bytes",
            remedy="Read the whole sources instead: that costs no more",
            argument="changed_paths",
        )
    return {source: tuple(sorted(paths)) for source, paths in sorted(found.items())}


def section_pages(paths: Collection[str], generator: str) -> frozenset[str]:
    """Returns the other pages of a site that may set front matter for documents: it is part of their rows."""
    above = generator_named(generator).inheritance_pages
    return frozenset(page for path in paths for page in above(path)).difference(paths)


def _check_path(word: str, path: str) -> None:
    remedies: Mapping[str, str] = {
        "holds a control character": _FORM,
        "is an absolute path": "Write the path from the root of the repository, without a leading /",
        "names a folder": _WHOLE,
        "is a pattern": _WHOLE,
        "leads out of the repository or around in it": "Write the path without empty segments, . and ..",
        "is not a path that a document can have": _FORM,
    }
    problems: Mapping[str, bool] = {
        "holds a control character": not path.isprintable(),
        "is an absolute path": path.startswith(("/", "\\")) or path[1:3] in (":/", ":\\"),
        "names a folder": path.endswith("/"),
        "is a pattern": "*" in path or "?" in path,
        "leads out of the repository or around in it": bool({"", ".", ".."} & set(path.split("/"))),
        "is not a path that a document can have": unsafe_path(path),
    }
    for problem, found in problems.items():
        if found:
            _refuse(word, problem, remedies[problem])


def _is_number(path: str) -> bool:
    return path.isascii() and path.isdigit() and path[0] != "0" and len(path) <= 7 and int(path) <= MAX_NUMBER


def _refuse(word: object, problem: str, remedy: str) -> NoReturn:
    shown = repr(word)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    raise InvalidArgument(f"changed_paths: {shown} {problem}", remedy=remedy, argument="changed_paths")
