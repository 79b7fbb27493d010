"""Circuit breaker of platform calls: silent platforms, and bodies that never end."""

from __future__ import annotations

import pytest

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http.circuit_breakers import FAILURES_TO_OPEN
from socialpub.domain.context import upstreams
from tests.support.app_server import AppServer
from tests.support.odd_responses import ODD_RESPONSES, OddServer

LATE, OTHERS = "silent within the body", ("as usual", "half of its length", "gzip cut short", "2 MB")


@pytest.mark.matrix
@pytest.mark.parametrize("name", [LATE, *OTHERS])
def test_only_a_body_that_does_not_come_in_time_counts_as_silence(server: AppServer, name: str) -> None:
    upstream = OddServer(lambda _: (200, {}, b"{}"))
    url = upstream.url(next(odd for odd in ODD_RESPONSES if odd.name == name))
    runtime = server.service.runtime
    wrap = upstreams.build_breaker(server.service, "bluesky")
    with runtime.open_http(runtime.http_policy(guarded=False), wrap) as http:
        for _ in range(FAILURES_TO_OPEN):
            http.request("GET", url, timeout=0.2 if name == LATE else 30)
    upstream.close()
    assert server.service.upstream.breakers.may_call("bluesky") == (name != LATE)


def test_an_upstream_that_is_held_back_is_not_called(server: AppServer) -> None:
    called: list[str] = []

    def answer(request: outbound.Request) -> outbound.UpstreamResponse:
        called.append(str(request.url))
        return outbound.UpstreamResponse(200)

    transport = upstreams.build_breaker(server.service, "bluesky")(outbound.MockTransport(answer))
    with outbound.HttpClient(outbound.UNGUARDED_POLICY, transport=transport) as http:
        assert http.request("GET", "http://bluesky.test/").is_success
        for _ in range(FAILURES_TO_OPEN):
            server.service.upstream.breakers.unanswered("bluesky")
        with pytest.raises(ApiError) as caught:
            http.request("GET", "http://bluesky.test/")
    assert (caught.value.outcome, caught.value.held_back, len(called)) == (Outcome.NOT_SENT, True, 1)
