"""Immediate posts claimed at acceptance: revoked accounts, new tokens, unwritable results."""

from __future__ import annotations

import base64
import concurrent.futures
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from socialpub.base.errors import ApiError
from socialpub.domain.accounts import attention
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.posts import batch_transaction, request_lookup
from socialpub.domain.posts.batch_plan import BatchPlan
from socialpub.domain.publishing import transactions
from socialpub.domain.publishing.intents import RunSnapshot
from socialpub.store.database import Tx
from socialpub.store.engine.sqlite import failed_future, unavailable_error
from socialpub.store.jobs.leases import Claim
from socialpub.store.schema.models import Account, Attempt, Intent, Job, Post
from tests.support.app_server import AppServer, Person, blocked_writer, format_instant, sleep_briefly
from tests.support.media_files import picture
from tests.support.soak.soak_world import wait_for


def test_account_ended_by_acceptance_is_not_sent_to(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_again = batch_transaction._recheck

    def once_it_has_ended(service: AppContext, orders: Sequence[BatchPlan]) -> Any:
        """In the transaction, which sees it."""
        Account.update(status="revoked").where(Account.id == alice.bluesky).execute()
        return look_again(service, orders)

    monkeypatch.setattr(batch_transaction, "_recheck", once_it_has_ended)
    answer = alice.api.publish({"text": "too late", "targets": [{"accountId": alice.bluesky}]}).json()
    (result,) = answer["results"]
    assert (answer["status"], result["status"], result["error"]["rule"]) == (
        "failed",
        "rejected",
        "account.reconnect_required",
    )
    assert server.lab.lab.ledger.posts() == []
    (row,), (attempt,) = server.rows(Post), server.rows(Attempt)
    assert (row["status"], row["attempts"], attempt["number"], attempt["succeeded"]) == ("rejected", 1, 1, False)
    assert (server.rows(Intent), server.rows(Job)) == ([], [])
    assert [type_ for type_, _ in server.events(row["id"])] == ["post.validated", "post.rejected"]
    while server.service.jobs.held():
        sleep_briefly()
    assert wait_for(lambda: server.service.jobs.groups.try_enter(alice.bluesky, rested=True), 30)


def test_a_post_accepted_when_its_pool_is_closed_holds_nothing(server: AppServer, alice: Person) -> None:
    """Its job continues it at the next start: here it must not make the stop wait, nor the account seem busy."""
    jobs, body = server.service.jobs, {"text": "too late", "targets": [{"accountId": alice.bluesky}]}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        with blocked_writer(server.service.db):
            answer = pool.submit(alice.api.post, "/v1/posts", json=body, headers={"Prefer": "respond-async"})
            assert wait_for(lambda: alice.bluesky in jobs.groups.closed()[0], 30)
            server.service.executors.immediate.shutdown(wait=False)
        assert answer.result().json()["results"][0]["status"] == "publishing"
    assert not jobs.is_busy
    assert jobs.groups.try_enter(alice.bluesky)
    assert [row["epoch"] for row in server.rows(Job)] == [jobs.epoch]


CONTENTS: tuple[dict[str, Any], ...] = (
    {"text": "plain"},
    {"text": "with options, and a first comment", "firstComment": {"text": "the comment"}},
    {"text": 'Quotes " and Ünïcode 🙂', "media": "stored"},
    {"text": "inline", "media": "inline"},
)


@pytest.mark.parametrize("content", CONTENTS, ids=[content["text"][:6] for content in CONTENTS])
def test_what_begins_with_its_acceptance_is_known_as_its_rows_are(
    content: dict[str, Any], server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is read back: what its run has is what another run would read, in the same transaction."""
    begin, seen = transactions.claim_inserted, list[tuple[RunSnapshot, RunSnapshot]]()

    def compared(service: AppContext, tx: Tx, claims: Sequence[Claim], inserted: Any) -> Any:
        begun = begin(service, tx, claims, inserted)
        read = transactions.claim_posts(service, tx, claims)
        seen.extend((one, replace(other, resumed=False)) for one, other in zip(begun, read, strict=True))
        return begun

    monkeypatch.setattr(transactions, "claim_inserted", compared)
    file = {"file": ("a.jpg", picture(), "image/jpeg")}
    media = {
        "stored": lambda: [alice.api.post("/v1/media", files=file).json()["id"]],
        "inline": lambda: [{"kind": "image", "bytesBase64": base64.b64encode(picture()).decode(), "altText": "a"}],
    }
    other = str(server.connect_bluesky(alice, "other")["id"])
    targets: list[dict[str, Any]] = [
        {"accountId": alice.bluesky},
        {"accountId": other, "options": {"platform": "bluesky", "langs": ["en"]}},
    ]
    fields = content | ({"media": media[content["media"]]()} if "media" in content else {})
    for number in range(2):  # the second time the accounts are known
        body = fields | {"text": f"{content['text']} {number}", "targets": targets}
        alice.api.publish(body).raise_for_status()
        while server.service.jobs.held() or server.service.jobs.groups.closed()[0]:
            sleep_briefly()
    assert len(seen) == 2 * len(targets)
    for one, other in seen:
        assert one == other
        assert list(one.post) == list(other.post)
        assert [type(value) for value in one.post.values()] == [type(value) for value in other.post.values()]


def test_whoever_connects_again_is_sent_for_with_the_new_tokens(server: AppServer, alice: Person) -> None:
    """What is known of an account is forgotten with its tokens, and with what was refused to it."""
    service, known = server.service, list[tuple[str | None, str | None]]()

    def send(number: int) -> None:
        body = {"text": f"number {number}", "targets": [{"accountId": alice.bluesky}]}
        alice.api.publish(body).raise_for_status()
        found = service.write(lambda tx: request_lookup.load_connected([alice.bluesky])[alice.bluesky]).result()
        known.append((found["secret"], found["attention"]))

    send(1)
    secret, _ = known[0]
    server.connect_bluesky(alice)
    send(2)
    service.write(
        lambda tx: attention.save(service, tx, alice.bluesky, ApiError("platform_auth_failed", "no"))
    ).result()
    service.write(lambda tx: attention.clear(service, tx, [])).result()
    found = service.write(lambda tx: request_lookup.load_connected([alice.bluesky])[alice.bluesky]).result()
    assert known[1][0] not in (None, secret)
    assert found["attention"] is not None
    send(3)
    assert known[2] == (known[1][0], None)


def test_a_result_that_cannot_be_written_is_written_as_soon_as_it_can(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run keeps the result, and the account's slot, until the disk takes it."""
    service, refused = server.service, list[str]()
    write_together = service.write_together

    def full(kind: Any, what: Any) -> Any:
        if kind is transactions.publish_sent and len(refused) < 2:
            refused.append(what.snapshot.post["id"])
            return failed_future(unavailable_error("the disk is full"))
        return write_together(kind, what)

    monkeypatch.setattr(service, "write_together", full)
    answer = alice.api.publish({"text": "once", "targets": [{"accountId": alice.bluesky}]}).json()
    (result,) = answer["results"]
    assert (answer["status"], refused) == ("published", [result["postId"]] * 2)
    assert len(server.lab.lab.ledger.posts()) == 1
    while service.jobs.held():
        sleep_briefly()
    assert wait_for(lambda: service.jobs.groups.try_enter(alice.bluesky, rested=True), 30)


@pytest.mark.parametrize("is_due", [False, True])
def test_the_group_is_left_once_the_result_is_on_the_disk(is_due: bool, server: AppServer, alice: Person) -> None:
    """Not before: what is sent next on the account finds what was sent before it."""
    service, entered = server.service, list[bool]()
    write_together, groups = service.write_together, service.jobs.groups

    def hold(tx: Tx) -> None:
        entered.append(groups.try_enter(alice.bluesky, rested=True))

    def held(kind: Any, what: Any) -> Any:
        if kind is transactions.publish_sent:
            service.db.write(hold)
        return write_together(kind, what)

    body = {"text": "one", "targets": [{"accountId": alice.bluesky}]}
    with mock.patch.object(service, "write_together", held):
        alice.api.publish(body | ({"scheduledAt": format_instant(server.clock.now_ms() + 3_600_000)} if is_due else {}))
        if is_due:
            server.skip(3601)
        while not server.lab.lab.ledger.posts() or service.jobs.held():
            sleep_briefly()
    assert ([row["status"] for row in server.rows(Post)], entered) == (["published"], [False])
    assert groups.try_enter(alice.bluesky, rested=True)
