"""`GET /metrics`: for Prometheus, on this machine or with the token of the settings."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from socialpub.base import meters
from socialpub.base.errors import ApiError
from socialpub.domain.engine.gauges import gauges_at
from socialpub.web import edge, http
from socialpub.web.http import Call, Reply

_PASSED_ON = ("x-forwarded-for", "forwarded", "via")


class _Now(Collector):
    """How things stand, as families that were read already."""

    def __init__(self, families: Iterable[GaugeMetricFamily]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


async def metrics(call: Call) -> Reply:
    """GET /metrics, in Prometheus' text format."""
    _check(call)
    now_ms = call.service.now_ms
    standing = CollectorRegistry(auto_describe=False)
    standing.register(_Now(await call.service.read(lambda: gauges_at(now_ms))))
    told = generate_latest(meters.REGISTRY) + generate_latest(standing)
    return Reply(told, content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _check(call: Call) -> None:
    """ApiError `unauthenticated` for whoever neither asks from this machine itself nor has the token."""
    token, presented = call.service.runtime.settings.server.metrics_token, http.bearer(call.request)
    if token and presented is not None and hmac.compare_digest(presented.encode(), token.encode()):
        return
    if presented is None and _is_local(call):
        return
    raise ApiError(
        "unauthenticated", "Metrics are served to this machine only, or with the token in server.metrics_token."
    )


def _is_local(call: Call) -> bool:
    """Whether nobody has passed the request on: a proxy of this machine speaks for others."""
    if any(name in call.request.headers for name in _PASSED_ON):
        return False
    try:
        return ipaddress.ip_address(edge.caller(call.service, call.request)).is_loopback
    except ValueError:
        return False
