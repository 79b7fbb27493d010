"""Traces for an OpenTelemetry collector, where `[tracing]` names one: requests, attempts at a post, calls to others.

The packages for it are not in the base install (`pip install "socialpub[tracing]"`) and are read only where a collector
is named; without one a span costs a look at a variable. Nothing of a trace goes to anybody but the collector: no call
carries a `traceparent`. And no span has a text, a key, a token, or of an address more than the host.
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
"""Of an attribute; None: there is none."""

_SCOPE_NAME = "socialpub"
_NO_SPAN: AbstractContextManager[None] = contextlib.nullcontext()


class _Tracer:
    """A request is known by its id while it is under way, so that the attempts that it waits for are of its trace."""

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
        # A request that nobody ends goes with its span: its client went before it had come whole.
        self._requests = weakref.WeakValueDictionary[str, "Span"]()

    def request(self, request_id: str, method: str, headers: Mapping[str, str]) -> Span:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carried = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        parent = TraceContextTextMapPropagator().extract(carried)
        self._requests[request_id] = span = self._tracer.start_span(method, parent, SpanKind.SERVER)
        return span

    def forget(self, request_id: str, span: Span) -> None:
        if self._requests.get(request_id) is span:  # else another request has come with the same id
            del self._requests[request_id]

    def inner(
        self, name: str, request_id: str | None, about: Mapping[str, AttributeValue]
    ) -> AbstractContextManager[Span]:
        from opentelemetry.trace import set_span_in_context

        request = self._requests.get(request_id or "")
        within = set_span_in_context(request) if request else None
        return self._tracer.start_as_current_span(name, within, attributes=_drop_none(about), record_exception=False)

    def outward(self, name: str, about: Mapping[str, AttributeValue]) -> AbstractContextManager[Span]:
        from opentelemetry.trace import SpanKind

        # What an exception says may be for nobody but the owner of the post.
        return self._tracer.start_as_current_span(
            name, kind=SpanKind.CLIENT, attributes=_drop_none(about), record_exception=False
        )


def _drop_none(about: Mapping[str, AttributeValue]) -> dict[str, str | int | float | bool]:
    return {name: value for name, value in about.items() if value is not None}


_tracer: _Tracer | None = None


def make_otlp_exporter(endpoint: str) -> SpanExporter:
    """What sends spans to a collector by OTLP over HTTP; ImportError where the packages are not there."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint)


def start(exporter: SpanExporter, service_name: str, ratio: float, version: str) -> None:
    """From now on there are traces; `ratio`: the share of those that begin here."""
    global _tracer
    _tracer = _Tracer(exporter, service_name, ratio, version)


def stop() -> None:
    """Send what was not sent yet; from now on there are none."""
    global _tracer
    tracer, _tracer = _tracer, None
    if tracer:
        tracer.provider.shutdown()


# --- Requests --------------------------------------------------------------------------------------------------------


def start_request(request_id: str, method: str, headers: Mapping[str, str]) -> Span | None:
    """A request has come: its span, in the trace that its `traceparent` names or in a new one."""
    return _tracer.request(request_id, method, headers) if _tracer else None


def get_trace_id(span: Span | None) -> str | None:
    """The id of a span's trace; None without one."""
    return f"{span.get_span_context().trace_id:032x}" if span else None


def end_request(span: Span, request_id: str, name: str, status: int, about: Mapping[str, AttributeValue]) -> None:
    """The request is answered."""
    from opentelemetry.trace import StatusCode

    if _tracer:
        _tracer.forget(request_id, span)
    span.update_name(name)
    span.set_attributes(_drop_none({"http.response.status_code": status, **about}))
    if status >= 500:
        span.set_status(StatusCode.ERROR)
    span.end()


# --- What is done ----------------------------------------------------------------------------------------------------


def trace_attempt(request_id: str | None, about: Mapping[str, AttributeValue]) -> AbstractContextManager[Span | None]:
    """An attempt at a post while the block runs: of its request's trace while that waits, else of one of its own."""
    return _tracer.inner("publish", request_id, about) if _tracer else _NO_SPAN


def trace_call(method: str, url: str) -> AbstractContextManager[Span | None]:
    """A call to somebody else while the block runs: part of what this thread is at."""
    if _tracer is None:
        return _NO_SPAN
    return _tracer.outward(method, {"http.request.method": method, "server.address": urlsplit(url).hostname})


def set_status(span: Span | None, status: int) -> None:
    """A call was."""
    if span is not None:
        span.set_attribute("http.response.status_code", status)
