"""`GET /metrics`: for Prometheus, on this machine or with the token of the settings."""

from __future__ import annotations

import hmac
import ipaddress
import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from socialpub.base import meters
from socialpub.base.errors import ApiError
from socialpub.base.meters import Gauge, Meter
from socialpub.domain.engine.gauges import gauges_at
from socialpub.web import edge, http
from socialpub.web.http import Call, Reply

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_PASSED_ON = ("x-forwarded-for", "forwarded", "via")


async def metrics(call: Call) -> Reply:
    """GET /metrics, in Prometheus' text format."""
    _check(call)
    now_ms = call.service.now_ms
    standing = await call.service.read(lambda: gauges_at(now_ms))
    text, kind = written(meters.ALL, standing)
    return Reply(text, content_type=kind)


def written(counted: Iterable[Meter], standing: Iterable[Gauge]) -> tuple[bytes, str]:
    """All of them in Prometheus' text format, and what that is called."""
    from prometheus_client import CollectorRegistry, generate_latest  # read here: few servers are asked
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
    from prometheus_client.registry import Collector

    class Now(Collector):
        """The families, which were read already."""

        def collect(self) -> Iterator[Metric]:
            yield from map(_counted, counted)
            yield from map(_standing, standing)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Now())
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


def _counted(meter: Meter) -> Metric:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    if not meter.buckets:
        counter = CounterMetricFamily(meter.name, meter.about, labels=meter.names)
        for labels, series in meter.rows():
            counter.add_metric(labels, series.read()[0][-1])
        return counter
    histogram = HistogramMetricFamily(meter.name, meter.about, labels=meter.names)
    bounds = [*map(str, map(float, meter.buckets)), "+Inf"]
    for labels, series in meter.rows():
        counts, total = series.read()
        histogram.add_metric(labels, list(zip(bounds, itertools.accumulate(counts), strict=True)), total)
    return histogram


def _standing(gauge: Gauge) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(gauge.name, gauge.about, labels=gauge.labels)
    for labels, value in [((), gauge.value)] if gauge.value is not None else gauge.samples:
        family.add_metric(labels, value)
    return family


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
