"""What a response tells of its upstream: one whose body never ends holds a slot as long as no response."""

from __future__ import annotations

from typing import Any

import pytest

from socialpub.base.http import Reply, Unread
from socialpub.base.http.circuit_breakers import ENOUGH
from socialpub.domain.core import upstreams
from tests.kit import Server
from tests.platforms.upstream_kit import Line


class Always(Line):
    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    def request(self, method: str, url: str, **sent: Any) -> Reply:
        return self.reply


@pytest.mark.parametrize(("unread", "asks_on"), [(None, True), *((each, each is not Unread.LATE) for each in Unread)])
def test_only_a_body_that_does_not_come_in_time_counts_as_silence(
    server: Server, unread: Unread | None, asks_on: bool
) -> None:
    http = upstreams.configured(server.service, "bluesky", Always(Reply(200, {}, b"", unread=unread)))
    for _ in range(ENOUGH):
        http.request("GET", "http://bluesky.test/")
    assert server.service.breakers.may_call("bluesky") == asks_on
