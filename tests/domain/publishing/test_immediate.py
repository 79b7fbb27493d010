"""What begins with its acceptance, and what stands in its way by then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest

from socialpub.domain.core.service import Service
from socialpub.domain.publishing import immediate, records
from socialpub.store.connections import failed, unavailable
from socialpub.store.db import Tx
from socialpub.store.models import Account, Attempt, Intent, Job, Post
from socialpub.store.queue import Claim
from tests.kit import Person, Server, breathe, iso
from tests.soak.world import wait_for


def test_an_account_that_has_ended_by_the_time_of_the_acceptance_is_not_sent_to(
    server: Server, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = immediate.take

    def once_it_has_ended(
        service: Service, tx: Tx, accepted: Sequence[tuple[immediate.Beginning, Sequence[Claim]]]
    ) -> None:
        Account.update(status="revoked").where(Account.id == alice.bluesky).execute()
        take(service, tx, accepted)

    monkeypatch.setattr(immediate, "take", once_it_has_ended)
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
        breathe()
    assert wait_for(lambda: server.service.jobs.lanes.try_enter(alice.bluesky, rested=True), 30)


def test_a_result_that_cannot_be_written_is_written_as_soon_as_it_can(
    server: Server, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread waits for the disk after the last send; who hears that it did not take the result goes on."""
    service, refused = server.service, list[str]()
    write_together = service.write_together

    def full(kind: Any, what: Any) -> Any:
        if kind is records.sent and len(refused) < 2:
            refused.append(what.snapshot.post["id"])
            return failed(unavailable("the disk is full"))
        return write_together(kind, what)

    monkeypatch.setattr(service, "write_together", full)
    answer = alice.api.publish({"text": "once", "targets": [{"accountId": alice.bluesky}]}).json()
    (result,) = answer["results"]
    assert (answer["status"], refused) == ("published", [result["postId"]] * 2)
    assert len(server.lab.lab.ledger.posts()) == 1
    while service.jobs.held():
        breathe()
    assert wait_for(lambda: service.jobs.lanes.try_enter(alice.bluesky, rested=True), 30)


@pytest.mark.parametrize("is_due", [False, True])
def test_the_lane_is_left_once_the_result_is_on_the_disk(is_due: bool, server: Server, alice: Person) -> None:
    """Not before: what is sent next on the account finds what was sent before it. No thread waits for that."""
    service, entered = server.service, list[bool]()
    write_together, lanes, crew = service.write_together, service.jobs.lanes, service.crew

    def hold(tx: Tx) -> None:
        while len(crew._idle) < crew.threads:  # whoever has sent it has nothing to do any more
            breathe()
        entered.append(lanes.try_enter(alice.bluesky, rested=True))

    def held(kind: Any, what: Any) -> Any:
        if kind is records.sent:
            service.db.write(hold)
        return write_together(kind, what)

    body = {"text": "one", "targets": [{"accountId": alice.bluesky}]}
    with mock.patch.object(service, "write_together", held):
        alice.api.publish(body | ({"scheduledAt": iso(server.clock.now_ms() + 3_600_000)} if is_due else {}))
        if is_due:
            server.skip(3601)
        while not server.lab.lab.ledger.posts() or service.jobs.held():
            breathe()
    assert ([row["status"] for row in server.rows(Post)], entered) == (["published"], [False])
    assert lanes.try_enter(alice.bluesky, rested=True)
