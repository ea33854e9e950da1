"""Every tool that the server can offer, in the order in which it lists them."""

from __future__ import annotations

from typing import Final

from kubeflow_corpus.mcp_server.tools.base import Tool
from kubeflow_corpus.mcp_server.tools.documents import DELETE, UPSERT
from kubeflow_corpus.mcp_server.tools.feedback import REPORT
from kubeflow_corpus.mcp_server.tools.listing import LIST_SOURCES
from kubeflow_corpus.mcp_server.tools.search import SEARCH_TOOLS
from kubeflow_corpus.mcp_server.tools.unit import GET_UNIT

TOOLS: Final[tuple[Tool, ...]] = (*SEARCH_TOOLS, GET_UNIT, LIST_SOURCES, REPORT, UPSERT, DELETE)
