"""What begins with its acceptance, and what stands in its way by then."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from socialpub.domain.core.service import Service
from socialpub.domain.publishing import immediate
from socialpub.store.db import Tx
from socialpub.store.models import Account, Attempt, Intent, Job, Post
from socialpub.store.queue import Claim
from tests.kit import Person, Server, breathe


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
    assert server.service.jobs.lanes.try_enter(alice.bluesky, rested=True)
