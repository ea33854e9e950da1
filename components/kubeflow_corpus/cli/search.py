"""``kubeflow-corpus search docs "..."``: one question, its evidence and its citations."""

from __future__ import annotations

import argparse
import json
import logging
import textwrap
from collections.abc import Iterator
from typing import Any, Final

from kubeflow_corpus.cli.arguments import add_collection_argument
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.query.resolve import resolve
from kubeflow_corpus.query.results import SearchResult
from kubeflow_corpus.query.tuning import (
    DEFAULT_LIMIT,
    DEFAULT_TOKEN_BUDGET,
    FUSIONS,
    MODES,
)

WIDTH: Final = 100
# A person waits for one answer, on a machine that may be busy; a server has many callers and shorter limits.
TIMEOUT_SECONDS: Final = 30.0
# Option: (filter, help). Options of filters that a collection does not know are refused with the known ones.
FILTER_OPTIONS: Final = {
    "--product-area": ("product_area", "only this product; may be repeated"),
    "--version": ("version", "only this version; may be repeated"),
    "--state": ("state", "issues: open or closed"),
    "--label": ("labels", "issues: with this label; may be repeated"),
    "--kind": ("kind", "code: only this kind of object or symbol; may be repeated"),
    "--language": ("language", "code: only this language; may be repeated"),
    "--repo": ("repo", "only this repository (owner/name); may be repeated"),
    "--source": ("source", "only this catalogue entry; may be repeated"),
    "--doc-type": ("doc_type", "docs: docs or release_notes"),
}
DATE_OPTIONS: Final = {
    "--updated-after": ("updated_after", "changed at its source on or after this date"),
    "--updated-before": ("updated_before", "changed at its source on or before this date"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_collection_argument(parser, help="what to ask")
    parser.add_argument("query", help="a question or keywords")
    for option, (name, text) in FILTER_OPTIONS.items():
        parser.add_argument(option, dest=name, action="append", metavar="VALUE", help=text)
    for option, (name, text) in DATE_OPTIONS.items():
        parser.add_argument(option, dest=name, metavar="DATE", help=text)
    parser.add_argument("--limit", type=int, default=DEFAULT_LIMIT, help="hits (default: %(default)s)")
    parser.add_argument("--mode", choices=MODES, help="instead of the mode that the question asks for")
    parser.add_argument("--fusion", choices=FUSIONS, help="instead of the measured default")
    parser.add_argument("--exclude", action="append", default=[], metavar="UNIT_ID", help="leave this unit out")
    parser.add_argument("--infer-filters", action="store_true", help="filter by the product and version that are named")
    parser.add_argument(
        "--token-budget", type=int, default=DEFAULT_TOKEN_BUDGET, help="tokens of evidence (default: %(default)s)"
    )
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT_SECONDS, help="seconds for the search (default: %(default)s)"
    )
    parser.add_argument("--trace", action="store_true", help="show the lists, the fusion, the drops and the times")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Asks and prints.

    Returns:
        0, also where nothing was found: an honest "no results" is an answer.
    """
    names = [name for name, _ in (*FILTER_OPTIONS.values(), *DATE_OPTIONS.values())]
    # What goes wrong is the last line of the output; the events of the library are for servers.
    logging.getLogger("kubeflow_corpus").addHandler(logging.NullHandler())
    filters = {name: getattr(args, name) for name in names if getattr(args, name)}
    with CorpusClient.from_env() as client:
        result = client.search(
            args.collection.name,
            args.query,
            limit=args.limit,
            mode=args.mode,
            fusion=args.fusion,
            exclude=args.exclude,
            infer_filters=args.infer_filters,
            token_budget=args.token_budget,
            timeout=args.timeout,
            **filters,
        )
    print(result.to_json(indent=2) if args.json else "\n".join(readable(result, trace=args.trace)))
    return 0


def readable(result: SearchResult, *, trace: bool = False) -> Iterator[str]:
    """Yields the lines of a result; those that are not of a source have at most `WIDTH` columns.

    Args:
        result: The answer.
        trace: Whether to show how it came about.
    """
    yield from _wrapped(f"intent: {result.intent.name} ({result.intent.mode}): {result.intent.reason}")
    if result.filters:
        yield from _wrapped(f"filters: {_facts(result.filters)}")
    if result.filters_inferred:
        yield from _wrapped(f"named in the question: {_facts(result.filters_inferred)}")
    yield ""
    # As it is, with its addresses: a command that was wrapped, or lost its address, could not be copied and run.
    head, blank, body = resolve(result.evidence(), result, style="places").text.partition("\n\n")
    for line in head.split("\n"):
        yield from _wrapped(line)
    yield from f"{blank}{body}\n".split("\n")[1:]
    for citation in result.citations:
        place = " > ".join(part for part in (citation["title"], citation["section"]) if part)
        yield from _wrapped(f"[{citation['id']}] {citation['score']:.3f} {citation['mode']:<6} {place}", indent=6)
        yield f"      {citation['url']}"
        for other in citation["also_at"]:
            yield f"      also at {other}"
    for name, counts in result.facets.items():
        shown = ", ".join(f"{value} {count}" for value, count in list(counts.items())[:8])
        yield from _wrapped(f"{name}: {shown}", indent=len(name) + 2)
    if trace:
        yield ""
        yield from _trace(dict(result.trace))
    units = "1 unit" if len(result.citations) == 1 else f"{len(result.citations)} units"
    yield f"{units} shown in {result.total_ms:.0f} ms, request {result.request_id}"


def _trace(trace: dict[str, Any]) -> Iterator[str]:
    fusion = trace.get("fusion", {})
    yield f"collection {trace['collection']}, filter {trace.get('expression') or '(none)'}"
    yield f"fusion {fusion.get('method')}, pool {fusion.get('pool')}, weights {fusion.get('weights')}"
    for name, found in trace.get("lists", {}).items():
        yield f"{name}: {found['rows']} rows"
        for row in found["top"][:10]:
            yield f"  {row['rank']:>3} {row['score']:>9.4f} {_short(row['unit_id'])}"
    yield "fused:"
    for unit in trace.get("fused", [])[:10]:
        added = ", ".join(f"{name} {value:+.2f}" for name, value in unit["preferences"].items())
        yield f"      {unit['score']:>9.4f} {_short(unit['unit_id'])}"
        if added:
            yield f"                {added}"
    for drop in trace["drops"]:
        yield from _wrapped(f"dropped {_short(drop['unit_id'])}: {drop['reason']}", indent=8)
    for name in ("degraded", "relaxed", "rerank"):
        if name in trace:
            yield from _wrapped(f"{name}: {json.dumps(trace[name], ensure_ascii=False)}", indent=8)
    times = ", ".join(f"{name} {milliseconds:.1f}" for name, milliseconds in trace["stages_ms"].items())
    yield from _wrapped(f"milliseconds: {times}")


def _short(unit: str) -> str:
    return unit if len(unit) <= WIDTH - 20 else f"...{unit[-(WIDTH - 23) :]}"


def _facts(values: Any) -> str:
    return ", ".join(
        f"{name} {' or '.join(value) if isinstance(value, list) else value}" for name, value in values.items()
    )


def _wrapped(line: str, indent: int = 0) -> list[str]:
    """Breaks a line at blanks; the start of a line (code, tables, lists) keeps its indentation."""
    if len(line) <= WIDTH:
        return [line]
    lead = line[: len(line) - len(line.lstrip())][: WIDTH // 2]
    return textwrap.wrap(
        line,
        WIDTH,
        subsequent_indent=lead + " " * indent,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    ) or [line]
