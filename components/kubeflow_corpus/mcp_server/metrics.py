"""What an operator watches, in Prometheus's terms. Labels are closed lists: no text of a caller becomes a label."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from kubeflow_corpus.collections import COLLECTIONS

_NAMESPACE: Final = "kubeflow_corpus"
# From a cached answer on a laptop to a reranked one on a busy cluster.
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        space, registry = _NAMESPACE, self.registry
        self.calls = Counter(
            "tool_calls", "Tool calls by outcome (a code, or OK).", ["tool", "code"], space, registry=registry
        )
        self.seconds = Histogram(
            "tool_seconds", "Time of a whole tool call.", ["tool"], space, buckets=_SECONDS, registry=registry
        )
        self.stages = Histogram(
            "stage_seconds", "Time of each stage.", ["stage"], space, buckets=_SECONDS, registry=registry
        )
        self.intents = Counter(
            "intents", "Searches by intent and mode.", ["tool", "intent", "mode"], space, registry=registry
        )
        self.degraded = Counter(
            "degraded_searches",
            "Searches without the dense list or the keyword list.",
            ["tool"],
            space,
            registry=registry,
        )
        self.empty = Counter("empty_results", "Searches without a hit.", ["tool"], space, registry=registry)
        self.requests = Counter(
            "requests", "Requests other than tool calls, by outcome.", ["method", "code"], space, registry=registry
        )
        self.request_seconds = Histogram(
            "request_seconds", "Time of such a request.", ["method"], space, buckets=_SECONDS, registry=registry
        )
        # A counter that begins with its first event hides that event from a rate.
        for collection in COLLECTIONS:
            self.degraded.labels(collection.tool)
            self.empty.labels(collection.tool)
        self.inside = Gauge("calls_inside", "Calls that run or wait.", [], space, registry=registry)

    def render(self) -> bytes:
        """Returns the text exposition."""
        return generate_latest(self.registry)
