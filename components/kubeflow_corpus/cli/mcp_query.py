"""``kubeflow-corpus mcp-query TOOL "..."``: calls one tool through an in-memory client and server."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from kubeflow_corpus.collections import COLLECTIONS
from kubeflow_corpus.errors import InvalidArgument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("tool", help=f"such as {', '.join(spec.tool for spec in COLLECTIONS)}")
    parser.add_argument("query", nargs="?", help="the question of a search")
    parser.add_argument(
        "--argument",
        "-a",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a further argument of the tool, such as version=1.10 or limit=3 (may be repeated)",
    )
    parser.add_argument("--json", action="store_true", help="print the structured content too")


def run(args: argparse.Namespace) -> int:
    """Prints what an agent would read; returns 1 where the tool answers with an error."""
    result = asyncio.run(
        _call(args.tool, {**({"query": args.query} if args.query else {}), **dict(map(_argument, args.argument))})
    )
    for block in result.content:
        print(getattr(block, "text", ""))
    if args.json and result.structured_content is not None:
        print(json.dumps(result.structured_content, ensure_ascii=False, indent=2))
    return 1 if result.is_error else 0


async def _call(tool: str, arguments: dict[str, Any]) -> Any:
    from mcp import Client

    from kubeflow_corpus.cli.search import TIMEOUT_SECONDS
    from kubeflow_corpus.mcp_server.assembly import StatusReader
    from kubeflow_corpus.mcp_server.server import build_server
    from kubeflow_corpus.mcp_server.service import Service
    from kubeflow_corpus.mcp_server.settings import ServerSettings
    from kubeflow_corpus.query.client import AsyncCorpusClient
    from kubeflow_corpus.settings import Settings

    settings = Settings.from_env()
    async with AsyncCorpusClient(settings=settings, timeout=TIMEOUT_SECONDS) as corpus:
        server = build_server(Service(corpus, ServerSettings()), StatusReader(settings))
        async with Client(server) as client:
            return await client.call_tool(tool, arguments)


def _argument(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise InvalidArgument(f"--argument {text!r} is not NAME=VALUE", remedy="Write it as version=1.10")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
