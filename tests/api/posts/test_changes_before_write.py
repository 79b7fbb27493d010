"""Every way to publish, with each change between its checks and its transaction."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import pytest

from socialpub.domain.access.actor import Actor, build_operator
from socialpub.domain.accounts import accounts
from socialpub.domain.identity import api_keys
from socialpub.domain.media import library
from socialpub.domain.organizations import quotas
from socialpub.domain.posts import drafts
from socialpub.store.database import Tx
from socialpub.store.schema.models import Batch, Organization, Post
from tests.support.app_server import UNLIMITED, AppServer, blocked_writer, error_of, read_tables
from tests.support.media_uploads import stored_files, stored_media, wait_until
from tests.support.post_drafts import new_draft, read_draft
from tests.support.request_cast import RequestCast, inline_item, make_picture
from tests.support.writes_in_order import check_refused, count_checked, write_for

SLOTS = {"zone": "UTC", "weekly": [{"day": "mon", "time": "09:30"}]}
QUOTA = 100
HEIGHTS = itertools.count(8)
DRAFTS = ("draft", "named draft")


class Case(NamedTuple):
    """A request that would be accepted, and the change."""

    source: str
    time: str
    media: str
    is_thread: bool
    change: str


SOURCES = ("post", "keyed post", "named post", "plan", *DRAFTS)
TIMES, MEDIA = ("now", "later", "next slot"), ("no media", "inline media", "stored media")
CHANGES = {  # and the status of the request after it; None: accepted
    "none": None,
    "slot taken": None,
    "account disconnected": 404,
    "media deleted": 404,
    "quota used up": 402,
    "key revoked": 401,
    "draft changed": 409,
    "draft deleted": 404,
}


def is_possible(case: Case) -> bool:
    if case.source == "plan" and (case.time == "next slot" or case.media == "inline media"):
        return False  # refused by the check that would make the plan
    if case.source in DRAFTS and case.change == "media deleted":
        return False  # a draft keeps its files
    needed = {"slot taken": case.time == "next slot", "media deleted": case.media == "stored media"}
    return needed.get(case.change, True) and (case.source in DRAFTS or not case.change.startswith("draft"))


CASES = [
    case
    for each in itertools.product(SOURCES, TIMES, MEDIA, (False, True), CHANGES)
    if is_possible(case := Case(*each))
]


class Attempt:
    """A request in a new organization."""

    def __init__(self, server: AppServer, case: Case) -> None:
        self.case, self.server, alice = case, server, server.connected_person("Alice")
        self.world = RequestCast(server, alice)
        self.api, self.organization = alice.api, alice.organization
        tier = Organization.update(tier="free").where(Organization.id == alice.organization)
        server.service.write(lambda tx: tier.execute()).result()
        assert alice.api.put("/v1/slots", json={**SLOTS, "profileId": alice.profile}).status_code == 200
        self.slot = str(alice.api.get("/v1/slots", params={"profileId": alice.profile}).json()["next"])
        self.picture = make_picture(size=(8, next(HEIGHTS)))  # no other case has its bytes
        self.media = str(stored_media(alice.api, self.picture)["id"]) if case.media == "stored media" else ""
        self.send = self.build_send()
        self.tables: dict[str, Any] = {}  # as the change leaves them

    def build_body(self) -> dict[str, Any]:
        times = {"now": {}, "later": {"scheduledAt": self.world.soon()}, "next slot": {"slot": "next"}}
        items = {"no media": [], "inline media": [inline_item(self.picture)], "stored media": [self.media]}
        body = self.world.body(**times[self.case.time])
        if media := items[self.case.media]:
            body["media"] = media
        if self.case.is_thread:
            body["thread"] = [{"text": "second"}]
        if "named" in self.case.source:
            body["externalId"] = "one"
        return body

    def build_send(self) -> Callable[[], httpx.Response]:
        body = self.build_body()
        if self.case.source in DRAFTS:
            self.draft = new_draft(self.api, **body)["id"]
            return lambda: self.api.post(f"/v1/drafts/{self.draft}/publish")
        if self.case.source == "plan":
            checked = self.api.post("/v1/posts/validate", json={**body, "plan": True}).json()
            return lambda: self.api.publish({"plan": checked["plan"]["token"]})
        key = "one key" if self.case.source == "keyed post" else None
        return lambda: self.api.publish(body, key)

    def run(self) -> httpx.Response:
        """Send the request; the change is written between its checks and its transaction."""
        service = self.server.service
        with ThreadPoolExecutor(2) as threads:
            with blocked_writer(service.db):
                if self.case.change == "slot taken":
                    other = {"targets": [self.world.target()], "text": "other", "slot": "next"}
                    first: Any = threads.submit(self.api.publish, other)
                    wait_until(lambda: count_checked(self.server, self.organization) == 1)
                else:
                    first = write_for(self.server, self.organization, self.change)
                earlier = count_checked(self.server, self.organization)
                sent = threads.submit(self.send)
                wait_until(lambda: count_checked(self.server, self.organization) > earlier)
            first.result()
            return sent.result()

    def change(self, tx: Tx) -> None:
        service, alice = self.server.service, self.world.alice
        who = build_operator(service, "test").within(self.organization)
        match self.case.change:
            case "account disconnected":
                accounts.disconnect(service, tx, who.scope, alice.bluesky, "req_test")
            case "media deleted":
                library.delete(tx, who, self.media)
            case "quota used up":
                quotas.spend(service, tx, self.organization, QUOTA, QUOTA)
            case "key revoked":
                api_keys.revoke(tx, who, alice.key_id)
            case "draft changed":
                self.change_draft(tx, who)
            case "draft deleted":
                drafts.delete(tx, who, self.draft)
        self.tables = read_tables()

    def change_draft(self, tx: Tx, who: Actor) -> None:
        content = drafts.load_content(drafts.find(who.scope, self.draft)) | {"text": "changed"}
        drafts.change(tx, who, self.draft, None, drafts.CheckedContent(content, [], {}))

    def check_accepted(self, answer: httpx.Response) -> None:
        assert answer.is_success, answer.text
        batch = answer.json()
        if self.case.time == "next slot":
            assert (batch["scheduledAt"] > self.slot) == (self.case.change == "slot taken")
        if self.case.source in DRAFTS:
            draft = read_draft(self.api, self.draft)
            assert (draft["status"], draft["batchId"]) == ("published", batch["id"])
        if self.case.source != "post":
            again = self.send()
            repeated = error_of(again)["platformResponse"]["batchId"] if again.is_error else again.json()["id"]
            assert repeated == batch["id"]
        texts = [row["text"] for row in self.server.rows(Post, batch=batch["id"])]
        assert texts == (["hello", "second"] if self.case.is_thread else ["hello"])
        batches = self.server.rows(Batch, organization=self.organization)
        assert len(batches) == (2 if self.case.change == "slot taken" else 1)


@pytest.mark.slow
@pytest.mark.parametrize(("source", "change"), dict.fromkeys((case.source, case.change) for case in CASES))
def test_each_change_before_the_write_is_seen_by_it(
    make_server: Callable[..., AppServer], source: str, change: str
) -> None:
    cases = [case for case in CASES if (case.source, case.change) == (source, change)]
    server = make_server(billing={"free": QUOTA}, limits=UNLIMITED)
    for case in cases:
        attempt = Attempt(server, case)
        files = stored_files(server)
        answer = attempt.run()
        if CHANGES[change] is None:
            attempt.check_accepted(answer)
        else:
            check_refused(server, answer, CHANGES[change], attempt.tables, files, change)
