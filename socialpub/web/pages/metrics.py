"""`GET /metrics`: for Prometheus, on this machine or with the token of the settings."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from socialpub.base.errors import ApiError, refuse
from socialpub.base.metrics import REGISTRY
from socialpub.domain.engine.gauges import gauges_at
from socialpub.web import edge, http
from socialpub.web.http import Call, Reply

_PASSED_ON = ("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "forwarded", "via")


async def metrics(call: Call) -> Reply:
    """GET /metrics, in Prometheus' text format."""
    _check(call)
    now_ms = call.service.now_ms
    gauges = await call.service.read(lambda: gauges_at(now_ms))
    return Reply(generate_latest(REGISTRY) + text_of(gauges), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def text_of(families: Iterable[Metric]) -> bytes:
    """Metric families that have been read already, in Prometheus' text format."""

    class Given(Collector):
        def collect(self) -> Iterable[Metric]:
            return families

    registry = CollectorRegistry()
    registry.register(Given())
    return generate_latest(registry)


def _check(call: Call) -> None:
    """ApiError `unauthenticated`, or rule `metrics.unforwarded`, without the token from elsewhere."""
    token, presented = call.service.runtime.settings.server.metrics_token, http.bearer(call.request)
    if token and presented is not None and hmac.compare_digest(presented.encode(), token.encode()):
        return
    if presented is None and _is_local(call):
        return
    if presented is None and edge.is_unforwarded(call.service, call.request):
        raise refuse("metrics.unforwarded")
    raise ApiError(
        "unauthenticated", "Metrics are served to this machine only, or with the token in server.metrics_token."
    )


def _is_local(call: Call) -> bool:
    """Whether it comes from this machine to this machine, and no proxy can have passed it on.

    A proxy may keep quiet about itself and rewrite Host: where there is a public address, nothing without a token is
    known to be local.
    """
    public = call.service.runtime.settings.server.base_url.partition("://")[2]
    if public and not edge.is_loopback(public):
        return False
    if any(name in call.request.headers for name in _PASSED_ON):
        return False
    return edge.is_local(call.request, call.request.headers.get("host", ""))
