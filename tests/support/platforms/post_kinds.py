"""Posts of every kind to the fakes, by a connector whose responses a test may change."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError
from socialpub.base.http import UpstreamResponse
from socialpub.platforms import CONNECTORS
from socialpub.platforms.contract import (
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
from tests.support.file_server import serve_folder
from tests.support.fixed_clock import FixedClock
from tests.support.platforms import live_connector
from tests.support.platforms.meta_calls import jpeg, mp4

_KINDS = {
    "bluesky": ("words", "mention", "gate", "image", "video"),
    "facebook": ("words", "images", "video", "story", "video story"),
    "instagram": ("image", "images", "video", "story"),
    "linkedin": ("words", "images", "video"),
    "pinterest": ("images", "video"),
    "threads": ("words", "images", "video"),
    "tiktok": ("image", "video"),
    "twitter": ("words", "images", "video"),
}
KINDS = [(name, kind) for name, kinds in _KINDS.items() for kind in kinds]
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
STEPS_MAX = 100
POSTS_PER_ACCOUNT = 20  # fewer than a platform's quota


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


@contextlib.contextmanager
def serving_media(folder: Path) -> Iterator[tuple[str, Path]]:
    """The address of a web server with an image and a video, and its folder."""
    (folder / "image").write_bytes(jpeg())
    (folder / "video").write_bytes(mp4(filler=1000))
    with serve_folder(folder) as address:
        yield address, folder


@dataclass
class KindCase:
    """Posts of one kind to one platform. `states`: what the preparations of the last one have stored."""

    name: str
    kind: str
    simulator: SimulatorThread
    clock: FixedClock
    client: ChangingClient
    files: tuple[str, Path]
    up: Upstream = field(init=False)
    board: str = ""
    posts: int = 0
    states: list[dict[str, Any]] = field(default_factory=list)

    def connect(self) -> Upstream:
        """A new account."""
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
        if self.name == "pinterest":
            self.board = CONNECTORS["pinterest"].boards(up)[0].id  # type: ignore[attr-defined]
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

    def begin(self) -> Draft:
        """The next post."""
        if self.posts % POSTS_PER_ACCOUNT == 0:
            self.up = self.connect()
        self.posts, self.clock.ms = self.posts + 1, self.clock.ms + 1000
        self.client.replies.clear()
        self.states.clear()
        return self.draft()

    def publish(self) -> Any:
        """Publish a post; return the outcome, or the error that comes before the public call."""
        module: Any = CONNECTORS[self.name]
        draft, since = self.begin(), self.clock.now_ms()
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
        """The plan, after as much waiting as was asked for."""
        module: Any = CONNECTORS[self.name]
        for _ in range(STEPS_MAX):
            found = module.prepare(self.up, draft, saved)
            if isinstance(found, Ready):
                return json.loads(json.dumps(found.plan))
            saved, self.clock.ms = json.loads(json.dumps(found.saved)), self.clock.ms + int(found.seconds * 1000)
            self.states.append(saved)
        raise AssertionError("the preparation has no end")

    def follow(self, draft: Draft, found: Any) -> Any:
        """The outcome of what was only accepted."""
        if not isinstance(found, Pending):
            return found
        self.clock.ms += int(found.seconds * 1000)
        module: Any = CONNECTORS[self.name]
        return module.send(self.up, self.prepare(draft, json.loads(json.dumps(found.saved))))


def _check_error(error: ApiError) -> ApiError:
    assert isinstance(error.message, str)
    json.dumps(error.platform_response)
    return error
