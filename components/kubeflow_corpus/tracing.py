"""Traces for an OpenTelemetry collector. Off where no endpoint is set: then every call here is one comparison.

The collector is `OTEL_EXPORTER_OTLP_ENDPOINT` (OTLP over HTTP), as the SDK of OpenTelemetry reads it with its other
variables. No text of a question and no content of a document becomes an attribute.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kubeflow_corpus.errors import SettingsError

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
# W3C's header as a variable: the program that starts the steps of a run hands its span on.
PARENT_VARIABLE: Final = "TRACEPARENT"

_tracer: Any = None


def start_tracing(service: str) -> bool:
    """Starts to send traces, where an endpoint is set; what is left is sent when the process ends.

    Args:
        service: Name of the program, unless `OTEL_SERVICE_NAME` says otherwise.

    Returns:
        Whether traces are sent.

    Raises:
        SettingsError: An endpoint is set and OpenTelemetry is not installed.
    """
    global _tracer
    if _tracer is not None or not any(os.environ.get(name) for name in ENDPOINTS):
        return _tracer is not None
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"{ENDPOINTS[0]} is set, and OpenTelemetry is not installed",
            remedy="Install kubeflow-corpus[mcp] or kubeflow-corpus[ingest], or unset it",
            setting=ENDPOINTS[0],
        ) from error
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": service}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    _tracer = trace.get_tracer("kubeflow_corpus")
    return True


def record_stages(stages: Sequence[tuple[str, float, float]], **attributes: Any) -> None:
    """Adds what has happened already to the span around it: one span a stage.

    Args:
        stages: Name, begin (`time.perf_counter`) and seconds of each.
        **attributes: Of the span around.
    """
    if _tracer is None:
        return
    from opentelemetry import trace

    trace.get_current_span().set_attributes(attributes)
    zero = time.time_ns() - round(time.perf_counter() * 1e9)
    for name, begun, seconds in stages:
        begin = zero + round(begun * 1e9)
        _tracer.start_span(name, start_time=begin).end(begin + round(seconds * 1e9))


@contextmanager
def run_span(name: str) -> Iterator[None]:
    """Opens the span of a whole run, which the steps that this process starts are given through the environment."""
    if _tracer is None:
        yield
        return
    from opentelemetry.propagate import inject

    with _tracer.start_as_current_span(name):
        carrier: dict[str, str] = {}
        inject(carrier)
        os.environ[PARENT_VARIABLE] = carrier["traceparent"]
        try:
            yield
        finally:
            del os.environ[PARENT_VARIABLE]


@contextmanager
def step_span(name: str, run: str, **attributes: str) -> Iterator[None]:
    """Opens the span of a step.

    Args:
        name: Name of the step.
        run: Id of the run. Steps that no common program started find each other by it: all spans of a run are in the
            trace whose id is made of it. Empty: the step has a trace of its own.
        **attributes: What the step works on.
    """
    if _tracer is None:
        yield
        return
    with _tracer.start_as_current_span(name, context=_parent(run), attributes=attributes):
        yield


def _parent(run: str) -> Any:
    from opentelemetry import trace
    from opentelemetry.propagate import extract

    if given := os.environ.get(PARENT_VARIABLE, ""):
        return extract({"traceparent": given})
    if not run:
        return None
    digest = hashlib.sha256(run.encode()).digest()
    identity = trace.SpanContext(
        int.from_bytes(digest[:16]), int.from_bytes(digest[16:24]), is_remote=True, trace_flags=trace.TraceFlags(1)
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(identity))
