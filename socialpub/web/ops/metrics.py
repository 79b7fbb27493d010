"""`GET /metrics` for Prometheus: from this machine, or with the token of the settings."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from socialpub.base.errors import ApiError, rule_error
from socialpub.base.observability.metrics import REGISTRY
from socialpub.domain.operations.gauges import build_gauges
from socialpub.web.http import handler, request_headers
from socialpub.web.http.handler import HandlerResponse, RequestContext

_PROXY_HEADERS = ("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "forwarded", "via")


async def read_metrics(call: RequestContext) -> HandlerResponse:
    """GET /metrics, in Prometheus' text format."""
    _check_access(call)
    now_ms = call.service.now_ms
    gauges = await call.service.read(lambda: build_gauges(now_ms))
    return HandlerResponse(generate_latest(REGISTRY) + format_families(gauges), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def format_families(families: Iterable[Metric]) -> bytes:
    """Return metric families in Prometheus' text format."""

    class Given(Collector):
        def collect(self) -> Iterable[Metric]:
            return families

    registry = CollectorRegistry()
    registry.register(Given())
    return generate_latest(registry)


def _check_access(call: RequestContext) -> None:
    """Raise `unauthenticated` or rule `metrics.unforwarded` without the token from elsewhere."""
    token, presented = call.service.runtime.settings.server.metrics_token, handler.find_bearer(call.request)
    if token and presented is not None and hmac.compare_digest(presented.encode(), token.encode()):
        return
    if presented is None and _is_local(call):
        return
    if presented is None and request_headers.is_client_unnamed(call.service, call.request):
        raise rule_error("metrics.unforwarded")
    raise ApiError(
        "unauthenticated", "Metrics are served to this machine only, or with the token in server.metrics_token."
    )


def _is_local(call: RequestContext) -> bool:
    """Return whether the request comes from this machine and no proxy can have forwarded it.

    A proxy may hide itself and rewrite Host. So with a public address no request without the token counts as local.
    """
    public = call.service.runtime.settings.server.base_url.partition("://")[2]
    if public and not request_headers.is_loopback(public):
        return False
    if any(name in call.request.headers for name in _PROXY_HEADERS):
        return False
    return request_headers.is_local(call.request, call.request.headers.get("host", ""))
