"""Odd responses to the publishing call of each platform lose no published post.

Each post is published, or ends as `REPLIES` of the platform's module says.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from socialpub.base import http as outbound
from socialpub.base.json_codec import dumps
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Account
from tests.support.app_server import AppServer, Person, unused_name
from tests.support.odd_responses import ODD_RESPONSES, OddResponse
from tests.support.platforms.meta_calls import jpeg
from tests.support.response_relay import ResponseRelay

PUBLIC: Mapping[str, tuple[str, str]] = {
    "bluesky": (r"^POST /xrpc/com\.atproto\.repo\.putRecord$", "send"),
    "facebook": (r"^POST /v[\d.]+/\d+/feed$", "send"),
    "instagram": (r"^POST /v[\d.]+/\d+/media_publish$", "publish"),
    "linkedin": (r"^POST /rest/posts$", "send"),
    "pinterest": (r"^POST /v5/pins$", "pin"),
    "threads": (r"^POST /v[\d.]+/\d+/threads_publish$", "publish"),
    "tiktok": (r"^POST /v2/post/publish/content/init/$", "photos"),
    "twitter": (r"^POST /2/tweets$", "send"),
}
"""The publishing call of each platform, and its step in REPLIES."""
QUICK = (
    "as usual",
    "labelled gzip, empty",
    "labelled br, packed",
    "labelled UTF-8, plain",
    "2 MB in chunks",
    "reset within the body",
    "silent after the head",
    "empty",
)


PART = 15  # posts of one account: some platforms take fifty a day


class Hurried:
    """The client of the program, but for a shorter deadline of a publishing call whose answer never ends."""

    def __init__(self, http: outbound.HttpClient, world: World) -> None:
        self._http, self._world = http, world

    def __enter__(self) -> Hurried:
        return self

    def __exit__(self, *_: object) -> None:
        """It holds nothing."""

    def request(self, method: str, url: str, **more: Any) -> outbound.UpstreamResponse:
        if self._world.hangs and any(relay.is_public(method, url) for relay in self._world.relays.values()):
            more["timeout"] = 1.0
        return self._http.request(method, url, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._http, name)


class World:
    """A server with an account on each platform, each behind a relay."""

    def __init__(self, make_server: Callable[..., AppServer], lab: SimulatorThread) -> None:
        self.relays = {name: ResponseRelay(lab.origin(name), pattern) for name, (pattern, _) in PUBLIC.items()}
        app = {"enabled": True, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
        sites = {name: {"api_base": relay.origin, **app} for name, relay in self.relays.items() if name != "bluesky"}
        self.server = make_server(
            platforms={"bluesky": {"api_base": self.relays["bluesky"].origin}, **sites},
            publishing={"settle_horizon": 1, "threads": 64},
            limits={"posts": 100_000, "media": 100_000, "writes": 100_000, "reads": 100_000},
        )
        runtime = self.server.service.runtime
        opened, self.hangs = runtime.open_http, False
        object.__setattr__(runtime, "open_http", lambda *how: Hurried(opened(*how), self))
        self.person = self.server.person("Ann")
        self.text = ""
        self.accounts = {name: self._connect(self.person, name) for name in PUBLIC}

    def _connect(self, person: Person, name: str) -> str:
        if name == "bluesky":
            made = self.server.connect_bluesky(person)
            known = {"handle": made["displayName"], "pds": self.relays[name].origin}
            self.server.service.write(lambda tx: _moved(made["id"], known)).result()
            return str(made["id"])
        return str(self.server.connect_simulated(person, name)["id"])

    def entries(self, name: str) -> list[Any]:
        """What the last post has made on a platform."""
        found = self.server.lab.lab.ledger.entries(name)
        return [entry for entry in found if self.text in f"{entry.text} {entry.request}"]

    def publish(self, odd: OddResponse) -> dict[str, dict[str, Any]]:
        """What becomes of a post to all eight whose publishing calls are all answered like this; by platform."""
        for relay in self.relays.values():
            relay.odd, relay.answered = odd, 0
        self.hangs = odd.end == "hang"
        picture = {"kind": "image", "bytesBase64": base64.b64encode(jpeg()).decode()}
        targets = [{"accountId": account} for account in self.accounts.values()]
        self.text = unused_name("text ")
        body = {"targets": targets, "text": f"{self.text}.", "media": [picture]}
        with self.server.hurried():
            posts = [result["postId"] for result in self.person.api.publish(body).json()["results"]]
            ended = [self.server.wait(post, "published", "failed", "rejected", seconds=60) for post in posts]
        return {row["platform"]: row for row in ended}

    def close(self) -> None:
        for relay in self.relays.values():
            relay.close()


def _moved(account: str, extra: Mapping[str, str]) -> None:
    Account.update(extra=dumps(dict(extra))).where(Account.id == account).execute()


@pytest.fixture
def world(make_server: Callable[..., AppServer], lab: SimulatorThread) -> Iterator[World]:
    found = World(make_server, lab)
    yield found
    found.close()


def check(world: World, odd: OddResponse) -> None:
    for name, row in world.publish(odd).items():
        said, told = str(row["error"]), (name, odd.name, row["status"], row["error"])
        if name == "tiktok" and odd.delivers == "nothing":  # it lists no drafts
            assert "publish.outcome_unknown" in said, told
            assert f"responded with status {odd.status or 200}" in said, told
            assert "no response came" not in said, told
        else:
            assert row["status"] == "published", told
        assert world.relays[name].answered == 1, told
        assert len(world.entries(name)) == 1, told


@pytest.mark.slow
def test_an_odd_answer_to_the_publishing_call_loses_no_success(subtests: pytest.Subtests, world: World) -> None:
    for name in QUICK:
        with subtests.test(name=name):
            check(world, next(odd for odd in ODD_RESPONSES if odd.name == name))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(ODD_RESPONSES), PART))
def test_every_odd_answer_on_every_platform(world: World, first: int) -> None:
    for odd in ODD_RESPONSES[first : first + PART]:
        check(world, odd)
