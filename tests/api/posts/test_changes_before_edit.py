"""Every kind of edit, with each change between its checks and its transaction."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import pytest

from socialpub.domain.access.actor import build_operator
from socialpub.domain.accounts import accounts
from socialpub.domain.identity import api_keys
from socialpub.domain.media import library
from socialpub.domain.posts import post_actions
from socialpub.store.database import Tx
from socialpub.store.schema.models import Post
from tests.support.app_server import UNLIMITED, AppServer, blocked_writer, read_tables
from tests.support.media_uploads import stored_files, stored_media, wait_until
from tests.support.request_cast import RequestCast, inline_item, make_picture
from tests.support.writes_in_order import check_refused, listing_actions, write_for

HEIGHTS = itertools.count(8)
OTHER_EDITS = ("text edited", "moved", "media added")
STATUSES = {"canceled": 409, "due": 409, "media deleted": 404, "key revoked": 401}
CHANGES = ("none", "account disconnected", *OTHER_EDITS, *STATUSES)  # what has no status is no reason to refuse
FIELDS = ("text", "inline media", "stored media", "no media", "time", "text and time")


class Case(NamedTuple):
    """An edit that would be accepted, and the change."""

    what: str  # is edited: the post, or its batch
    fields: str
    is_thread: bool
    change: str


CASES = [
    Case(*each)
    for each in itertools.product(("posts", "batches"), FIELDS, (False, True), CHANGES)
    if each[3] != "media deleted" or each[1] == "stored media"
]


class Attempt:
    """A request in a new organization."""

    def __init__(self, server: AppServer, case: Case) -> None:
        self.case, self.server, alice = case, server, server.connected_person("Alice")
        self.world, self.api = RequestCast(server, alice), alice.api
        thread = {"thread": [{"text": "second"}]} if case.is_thread else {}
        made = self.world.post(scheduledAt=self.world.soon(), **thread).json()
        self.post, self.batch = made["results"][0]["postId"], made["id"]
        self.media, self.other_media = (self.store() for _ in range(2))
        self.edit = self.build_edit()
        self.tables: dict[str, Any] = {}  # as the change leaves them

    def store(self) -> str:
        return str(stored_media(self.api, make_picture(size=(8, next(HEIGHTS))))["id"])

    def build_edit(self) -> dict[str, Any]:
        time = {"scheduledAt": self.world.soon(7200)}
        edits: dict[str, dict[str, Any]] = {
            "text": {"text": "mine"},
            "inline media": {"media": [inline_item(make_picture(size=(8, next(HEIGHTS))))]},
            "stored media": {"media": [self.media]},
            "no media": {"media": []},
            "time": time,
            "text and time": {"text": "mine", **time},
        }
        return edits[self.case.fields]

    def send(self) -> httpx.Response:
        return self.api.patch(self.address, json=self.edit)

    @property
    def address(self) -> str:
        return f"/v1/posts/{self.post}" if self.case.what == "posts" else f"/v1/batches/{self.batch}"

    def run(self) -> httpx.Response:
        """Send the edit; the change is written between its checks and its transaction."""
        service = self.server.service
        with ThreadPoolExecutor(2) as threads:
            with listing_actions(self.server) as queued, blocked_writer(service.db):
                if self.case.change in OTHER_EDITS:
                    first: Any = threads.submit(self.edit_otherwise)
                    wait_until(lambda: len(queued) == 1)
                else:
                    first = write_for(self.server, self.world.alice.organization, self.change)
                earlier = len(queued)
                sent = threads.submit(self.send)
                wait_until(lambda: len(queued) > earlier)
            first.result()
            return sent.result()

    def edit_otherwise(self) -> None:
        bodies: dict[str, dict[str, Any]] = {
            "text edited": {"text": "other"},
            "moved": {"scheduledAt": self.world.soon(10_800)},
            "media added": {"media": [self.other_media]},
        }
        assert self.api.patch(self.address, json=bodies[self.case.change]).status_code == 200

    def change(self, tx: Tx) -> None:
        service, alice = self.server.service, self.world.alice
        who = build_operator(service, "test").within(alice.organization)
        match self.case.change:
            case "canceled":
                post_actions.cancel(tx, who, self.post)
            case "due":
                Post.update(scheduled_at=service.now_ms).where(Post.batch == self.batch).execute()
            case "account disconnected":
                accounts.disconnect(service, tx, who.scope, alice.bluesky, "req_test", keep=True)
            case "media deleted":
                library.delete(tx, who, self.media)
            case "key revoked":
                api_keys.revoke(tx, who, alice.key_id)
        self.tables = read_tables()

    def check_accepted(self, answer: httpx.Response) -> None:
        assert answer.status_code == 200, answer.text
        post = self.api.get(f"/v1/posts/{self.post}").json()
        text = "mine" if "text" in self.edit else "other" if self.case.change == "text edited" else "hello"
        assert post["text"] == text
        if "media" in self.edit:
            assert len(post["mediaRefs"]) == len(self.edit["media"])
        else:
            assert len(post["mediaRefs"]) == (self.case.change == "media added")
        pieces = self.server.rows(Post, batch=self.batch)
        assert len({row["scheduled_at"] for row in pieces}) == 1
        if "scheduledAt" in self.edit:
            assert post["scheduledAt"] == self.edit["scheduledAt"]
        names = [name for name, _ in self.server.events(self.post)]
        others = self.case.change in ("text edited", "media added")
        own = "text" in self.edit or (
            self.case.fields != "time" and (self.edit["media"] != [] or self.case.change == "media added")
        )
        assert names.count("post.edited") == others + own


@pytest.mark.slow
@pytest.mark.parametrize(("what", "change"), dict.fromkeys((case.what, case.change) for case in CASES))
def test_each_change_before_the_edit_is_seen_by_it(
    make_server: Callable[..., AppServer], what: str, change: str
) -> None:
    server = make_server(limits=UNLIMITED)
    for case in [case for case in CASES if (case.what, case.change) == (what, change)]:
        attempt = Attempt(server, case)
        files = stored_files(server)
        answer = attempt.run()
        if change in STATUSES:
            check_refused(server, answer, STATUSES[change], attempt.tables, files, change)
        else:
            attempt.check_accepted(answer)
