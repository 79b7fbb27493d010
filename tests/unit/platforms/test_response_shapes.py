"""Connector behavior on JSON of any shape, at every call that a post takes on every platform."""

from __future__ import annotations

import functools
import http.server
import itertools
import json
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError
from socialpub.base.http import UpstreamResponse
from socialpub.platforms import CONNECTORS
from socialpub.platforms.contract import (
    Absent,
    ConnectorAccount,
    Draft,
    DraftMedia,
    MediaFacts,
    Pending,
    Ready,
    Tokens,
    Upstream,
)
from socialpub.simulator.server import SimulatorThread
from tests.support.fixed_clock import FixedClock
from tests.support.platforms import live_connector
from tests.support.platforms.meta_calls import jpeg, mp4

KINDS = {
    "bluesky": ("words", "mention", "gate", "image", "video"),
    "facebook": ("words", "images", "video", "story", "video story"),
    "instagram": ("image", "images", "video", "story"),
    "linkedin": ("words", "images", "video"),
    "pinterest": ("images", "video"),
    "threads": ("words", "images", "video"),
    "tiktok": ("image", "video"),
    "twitter": ("words", "images", "video"),
}
OPTIONS = {"gate": {"threadgate": ["mention"]}, "story": {"story": True}, "video story": {"story": True}}
ITEMS = {
    "words": (),
    "mention": (),
    "gate": (),
    "image": ("image",),
    "images": ("image", "image"),
    "video": ("video",),
    "story": ("image",),
    "video story": ("video",),
}
VALUES: tuple[Any, ...] = (None, [], {}, "", "x", 0, -1, 1.5, True, [None], [[]], {"a": None}, 10**30)
ERRORS: tuple[Any, ...] = (
    *VALUES,
    {"error": None},
    {"error": []},
    {"error": "x"},
    {"error": {"code": {}, "message": []}},
    {"error": {"code": 190, "error_subcode": [], "error_data": [], "message": None}},
    {"errors": [None, 1, "x", {"message": None, "type": []}], "type": None, "title": {}, "detail": []},
    {"message": {"a": 1}, "code": [], "errorDetails": {"inputErrors": [None, {"input": [], "code": {}}]}},
    {"message": None, "message_detail": [], "code": None},
    {"debug_info": []},
    {"debug_info": {"message": [], "retriable": "x"}},
)
STATUSES = (400, 401, 404, 429, 500)
STEPS_MAX = 100
POSTS_PER_ACCOUNT = 20  # fewer than a platform's quota


def list_changed(value: Any) -> Iterator[Any]:
    """Yield a body with each of its values replaced, or left out."""
    parts = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in parts:
        if isinstance(value, dict):
            yield {name: each for name, each in value.items() if name != key}
        for changed in (*VALUES, *list_changed(inner)):
            made = value.copy()
            made[key] = changed
            yield made


@dataclass
class ChangingClient:
    """A client that changes the response of one call, after the platform has acted on it."""

    client: outbound.HttpClient
    replies: list[UpstreamResponse] = field(default_factory=list)
    place: int = -1
    status: int = 200
    body: Any = None

    def request(self, method: str, url: str, **sent: Any) -> UpstreamResponse:
        reply = self.client.request(method, url, **sent)
        self.replies.append(reply)
        if len(self.replies) - 1 != self.place:
            return reply
        headers = {name: text for name, text in reply.headers.items() if not name.startswith("content-")}
        changed = UpstreamResponse(self.status, headers)
        changed.body = json.dumps(self.body).encode()
        return changed


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A web server with an image and a video, and its folder."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "image").write_bytes(jpeg())
    (folder / "video").write_bytes(mp4(filler=1000))
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass
class ShapeCase:
    """Posts of one kind to one platform, each with another change of a response."""

    name: str
    kind: str
    simulator: SimulatorThread
    clock: FixedClock
    client: ChangingClient
    files: tuple[str, Path]
    up: Upstream = field(init=False)
    posts: int = 0

    def connect(self) -> Upstream:
        client = self.client.client
        if self.name == "bluesky":
            made = self.simulator.lab.add_account("bluesky", handle=f"alice{self.posts}.test", displayName="Alice")
            module: Any = CONNECTORS["bluesky"]
            site = module.PLATFORM.site(api_base=self.simulator.origin("bluesky"))
            stranger = Upstream(client, client, site, ConnectorAccount(""), Tokens(""))
            fields = {"handle": made["handle"], "password": made["appPassword"]}
            identity, tokens = module.login(stranger, fields, self.clock.now_ms())
            account = ConnectorAccount(identity.platform_account_id, identity.display_name, identity.extra)
            up = replace(stranger, account=account, tokens=tokens)
        else:
            up = live_connector.connect_alice(self.name, self.simulator, client, f"alice{self.posts}")
        self.board = next(iter(CONNECTORS["pinterest"].boards(up))).id if self.name == "pinterest" else ""  # type: ignore[attr-defined]
        return replace(up, http=self.client, guarded=self.client)  # type: ignore[arg-type]

    def draft(self) -> Draft:
        options: dict[str, Any] = {**OPTIONS.get(self.kind, {}), **({"boardId": self.board} if self.board else {})}
        text = f"post {self.posts}" + (" to @alice0.test" if self.kind == "mention" else "")
        items = tuple(self.item(kind) for kind in ITEMS[self.kind])
        return Draft(text, items=items, options=options, now_ms=self.clock.now_ms(), nonce=self.posts)

    def item(self, kind: str) -> DraftMedia:
        base, folder = self.files
        path = folder / kind
        content_type = "image/jpeg" if kind == "image" else "video/mp4"
        facts = MediaFacts(content_type, path.stat().st_size, width=40, height=40)
        return DraftMedia(kind, url=f"{base}/{kind}", facts=facts, path=path, alt_text="alt")  # type: ignore[arg-type]

    def publish(self) -> Any:
        """Publish a post; return the outcome, or the error that comes before the public call."""
        if self.posts % POSTS_PER_ACCOUNT == 0:
            self.up = self.connect()
        self.posts, self.clock.ms = self.posts + 1, self.clock.ms + 1000
        self.client.replies.clear()
        module: Any = CONNECTORS[self.name]
        draft, since = self.draft(), self.clock.now_ms()
        try:
            plan = self.prepare(draft, None)
        except ApiError as error:
            return _check_error(error)
        try:
            return self.follow(draft, module.send(self.up, plan))
        except ApiError as error:
            _check_error(error)
        try:
            return self.follow(draft, module.settle(self.up, plan, since))
        except ApiError as error:
            return _check_error(error)

    def prepare(self, draft: Draft, saved: Any) -> Any:
        module: Any = CONNECTORS[self.name]
        for _ in range(STEPS_MAX):
            found = module.prepare(self.up, draft, saved)
            if isinstance(found, Ready):
                return json.loads(json.dumps(found.plan))
            saved, self.clock.ms = json.loads(json.dumps(found.saved)), self.clock.ms + int(found.seconds * 1000)
        raise AssertionError("the preparation has no end")

    def follow(self, draft: Draft, found: Any) -> Any:
        if not isinstance(found, Pending):
            return found
        self.clock.ms += int(found.seconds * 1000)
        module: Any = CONNECTORS[self.name]
        return module.send(self.up, self.prepare(draft, json.loads(json.dumps(found.saved))))

    def find_fault(self) -> str | None:
        """Publish a post with the change; return how it ended, if it should not."""
        before = len(self.simulator.lab.ledger.entries(self.name))
        try:
            outcome = self.publish()
        except Exception:  # noqa: BLE001 - any other error than an ApiError
            return traceback.format_exc(limit=-1)
        is_there = len(self.simulator.lab.ledger.entries(self.name)) > before
        return "it is there, but absent" if is_there and isinstance(outcome, Absent) else None


def _check_error(error: ApiError) -> ApiError:
    assert isinstance(error.message, str)
    json.dumps(error.platform_response)
    return error


def list_responses(reply: UpstreamResponse) -> Iterator[tuple[int, Any]]:
    """Yield the changes of a response, as status and body."""
    yield from itertools.product(STATUSES, ERRORS)
    yield from ((reply.status_code, body) for body in (*VALUES, *list_changed(reply.record())))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in KINDS.items() for kind in kinds])
def test_no_shape_of_a_response_breaks_a_post(
    simulator: SimulatorThread,
    clock: FixedClock,
    client: outbound.HttpClient,
    files: tuple[str, Path],
    name: str,
    kind: str,
) -> None:
    case = ShapeCase(name, kind, simulator, clock, ChangingClient(client), files)
    assert not isinstance(case.publish(), ApiError | Absent)
    shapes = {}  # of the calls, the last of each
    for place, reply in enumerate(case.client.replies):
        shapes[reply.request.method, reply.status_code, tuple(reply.record())] = (place, reply)
    faults = {}
    for case.client.place, reply in shapes.values():
        for case.client.status, case.client.body in list_responses(reply):
            if fault := case.find_fault():
                said = f"{reply.request.method} {reply.request.url}: {case.client.status} {case.client.body}"
                faults.setdefault(fault, said)
    assert faults == {}
