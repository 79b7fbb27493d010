"""OpenTelemetry traces, if `[tracing]` names a collector.

Spans cover requests, publish attempts and upstream calls. The packages are an extra (`pip install
"socialpub[tracing]"`) and imported only if a collector is configured; without one a span costs one check. Calls carry
no `traceparent`, and spans contain no texts, keys or tokens, and of URLs only the host.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

AttributeValue: TypeAlias = str | int | float | bool | None
"""The value of a span attribute; None leaves it out."""

_SCOPE_NAME = "socialpub"
_NO_SPAN: AbstractContextManager[None] = contextlib.nullcontext()


class _Tracer:
    """Creates spans. Running requests are stored by id, so that their attempts join them."""

    def __init__(self, exporter: SpanExporter, service_name: str, ratio: float, version: str) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

        resource = Resource.create({"service.name": service_name, "service.version": version})
        sampler = ParentBased(TraceIdRatioBased(ratio))
        self.provider = TracerProvider(sampler, resource, shutdown_on_exit=False)
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self.provider.get_tracer(_SCOPE_NAME, version)
        # Weak: a request whose client disconnected early is never ended.
        self._requests = weakref.WeakValueDictionary[str, "Span"]()

    def request(self, request_id: str, method: str, headers: Mapping[str, str]) -> Span:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        trace_headers = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        parent = TraceContextTextMapPropagator().extract(trace_headers)
        self._requests[request_id] = span = self._tracer.start_span(method, parent, SpanKind.SERVER)
        return span

    def forget(self, request_id: str, span: Span) -> None:
        if self._requests.get(request_id) is span:  # else another request has the same id
            del self._requests[request_id]

    def start_child(
        self, name: str, request_id: str | None, attributes: Mapping[str, AttributeValue]
    ) -> AbstractContextManager[Span]:
        from opentelemetry.trace import set_span_in_context

        request = self._requests.get(request_id or "")
        context = set_span_in_context(request) if request else None
        return self._tracer.start_as_current_span(
            name, context, attributes=_drop_none(attributes), record_exception=False
        )

    def start_call(self, name: str, attributes: Mapping[str, AttributeValue]) -> AbstractContextManager[Span]:
        from opentelemetry.trace import SpanKind

        # No exception texts: they may be confidential to the owner of the post.
        return self._tracer.start_as_current_span(
            name, kind=SpanKind.CLIENT, attributes=_drop_none(attributes), record_exception=False
        )


def _drop_none(attributes: Mapping[str, AttributeValue]) -> dict[str, str | int | float | bool]:
    return {name: value for name, value in attributes.items() if value is not None}


_tracer: _Tracer | None = None


def make_otlp_exporter(endpoint: str) -> SpanExporter:
    """Return an exporter that sends spans by OTLP over HTTP.

    Raise ImportError without the packages.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint)


def start(exporter: SpanExporter, service_name: str, ratio: float, version: str) -> None:
    """Start tracing; `ratio` is the share of the traces that start here to record."""
    global _tracer
    _tracer = _Tracer(exporter, service_name, ratio, version)


def stop() -> None:
    """Send the remaining spans and stop tracing."""
    global _tracer
    tracer, _tracer = _tracer, None
    if tracer:
        tracer.provider.shutdown()


# --- Requests --------------------------------------------------------------------------------------------------------


def start_request(request_id: str, method: str, headers: Mapping[str, str]) -> Span | None:
    """Start the span of a request, in the trace of its `traceparent` or in a new one."""
    return _tracer.request(request_id, method, headers) if _tracer else None


def get_trace_id(span: Span | None) -> str | None:
    """Return the id of a span's trace; None without a span."""
    return f"{span.get_span_context().trace_id:032x}" if span else None


def end_request(span: Span, request_id: str, name: str, status: int, attributes: Mapping[str, AttributeValue]) -> None:
    """End the span of a request with the status of its response."""
    from opentelemetry.trace import StatusCode

    if _tracer:
        _tracer.forget(request_id, span)
    span.update_name(name)
    span.set_attributes(_drop_none({"http.response.status_code": status, **attributes}))
    if status >= 500:
        span.set_status(StatusCode.ERROR)
    span.end()


# --- Attempts and calls ----------------------------------------------------------------------------------------------


def trace_attempt(
    request_id: str | None, attributes: Mapping[str, AttributeValue]
) -> AbstractContextManager[Span | None]:
    """Trace a publish attempt while the block runs.

    It belongs to the request's trace while the request waits, else to a new one.
    """
    return _tracer.start_child("publish", request_id, attributes) if _tracer else _NO_SPAN


def trace_call(method: str, url: str) -> AbstractContextManager[Span | None]:
    """Trace an upstream call while the block runs, as a child of the thread's current span."""
    if _tracer is None:
        return _NO_SPAN
    return _tracer.start_call(method, {"http.request.method": method, "server.address": urlsplit(url).hostname})


def set_status(span: Span | None, status: int) -> None:
    """Set the HTTP status of a call's span."""
    if span is not None:
        span.set_attribute("http.response.status_code", status)
