"""No writes by a run that lost its claim, for every function that writes results."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from socialpub.base.errors import ApiError, Outcome
from socialpub.domain.publishing import intents, run, transactions
from socialpub.domain.publishing.intents import LostClaimError, RunSnapshot
from socialpub.platforms.contract import Pending, Published, PublishWarning
from socialpub.store.database import Tx
from socialpub.store.rows import IntentRow
from socialpub.store.schema.models import Job, Post
from tests.support.app_server import AppServer, Person, unchanged
from tests.support.publishing_protocol import claim_post

OUT = Published("at://did/app.bsky.feed.post/1", "at://did/app.bsky.feed.post/1", "cid", "https://bsky.example/1")
COMMENT = Published("at://did/app.bsky.feed.post/2", "at://did/app.bsky.feed.post/2", "cid", "https://bsky.example/2")
WARNING = PublishWarning("bluesky.text.odd", "odd")
PENDING = Pending({"id": "1"}, 60)
UNCLEAR = ApiError("platform_unavailable", "no answer", outcome=Outcome.AMBIGUOUS, platform_response={"odd": 1})

Write = Callable[[Any, Tx, RunSnapshot, Any], object]
"""Of the service, the transaction, what was taken, and its intent."""


def failure(code: str, **fields: Any) -> ApiError:
    return ApiError(code, "it did not work", **fields)


WRITES: dict[str, Write] = {
    "transactions.record_intent": lambda service, tx, taken, intent: transactions.record_intent(
        service, tx, taken, "comment", {}, ()
    ),
    "transactions.publish_sent": lambda service, tx, taken, intent: transactions.publish_sent(
        tx, [transactions.SuccessfulSend(service, taken, intent, OUT)]
    ),
    "transactions.record_sent": lambda service, tx, taken, intent: transactions.record_sent(
        service, tx, taken, intent, OUT
    ),
    "transactions.publish_with_comment": lambda service, tx, taken, intent: transactions.publish_with_comment(
        service, tx, taken, intent, OUT, COMMENT
    ),
    "transactions.publish_without_comment": lambda service, tx, taken, intent: transactions.publish_without_comment(
        service, tx, taken, intent, OUT, WARNING, "unknown"
    ),
    "transactions.publish_without_comment, before its intent": lambda service, tx, taken, intent: (
        transactions.publish_without_comment(service, tx, taken, None, OUT, WARNING, "")
    ),
    "transactions.save_progress": lambda service, tx, taken, intent: transactions.save_progress(
        service, tx, taken, PENDING
    ),
    "transactions.save_progress, by the answer": lambda service, tx, taken, intent: transactions.save_progress(
        service, tx, taken, PENDING, intent
    ),
    "transactions.postpone": lambda service, tx, taken, intent: transactions.postpone(service, tx, taken, 60),
    "transactions.record_failure, rejected": lambda service, tx, taken, intent: transactions.record_failure(
        service, tx, taken, failure("platform_rejected"), intent, "rejected"
    ),
    "transactions.record_failure, failed": lambda service, tx, taken, intent: transactions.record_failure(
        service, tx, taken, failure("internal_error"), intent, "absent"
    ),
    "transactions.record_failure, to be tried again": lambda service, tx, taken, intent: transactions.record_failure(
        service, tx, taken, failure("platform_unavailable", retry_after=5), intent, "absent"
    ),
    "transactions.record_failure, before its intent": lambda service, tx, taken, intent: transactions.record_failure(
        service, tx, taken, failure("platform_rejected")
    ),
    "intents.record_resend": lambda service, tx, taken, intent: intents.record_resend(service, tx, taken, intent),
    "intents.record_lookup": lambda service, tx, taken, intent: intents.record_lookup(
        service, tx, taken, intent, {}, None
    ),
    "intents.record_lookup, to look again": lambda service, tx, taken, intent: intents.record_lookup(
        service, tx, taken, intent, {}, service.now_ms + 60_000
    ),
    "intents.record_ambiguity": lambda service, tx, taken, intent: intents.record_ambiguity(
        service, tx, taken, intent, UNCLEAR, is_answered=True, refused=False
    ),
}

# The caller has seen the claim: `transactions.record_intent`, and `run.take` in the transaction that claims.
UNCHECKED = {"intents.check_claim", "intents.record", "intents.record_all"}


@pytest.fixture
def server(open_shared: Callable[..., AppServer]) -> AppServer:
    return open_shared()


@pytest.fixture
def taken(server: AppServer, alice: Person) -> RunSnapshot:
    return claim_post(server, alice)


@pytest.mark.parametrize("name", WRITES)
def test_a_run_that_lost_its_claim_writes_nothing(server: AppServer, taken: RunSnapshot, name: str) -> None:
    service = server.service

    def claim_again(tx: Tx) -> None:
        Job.update(claims=Job.claims + 1).where(Job.key == taken.post["id"]).execute()

    service.write(claim_again).result()
    with unchanged(server), pytest.raises(LostClaimError):
        service.write(lambda tx: WRITES[name](service, tx, taken, taken.intended)).result()


@pytest.mark.parametrize("name", WRITES)
def test_a_run_whose_claim_stands_writes(server: AppServer, taken: RunSnapshot, name: str) -> None:
    """So that no row of the table writes nothing in any case."""
    service, before = server.service, server.stock()
    service.write(lambda tx: WRITES[name](service, tx, taken, taken.intended)).result()
    assert server.stock() != before


def test_a_lost_claim_takes_no_post(server: AppServer, taken: RunSnapshot) -> None:
    """As where its worker was so late that another one has claimed the post."""
    service, late = server.service, replace(taken.claim, claims=taken.claim.claims - 1)
    with unchanged(server):
        assert service.write(lambda tx: run.claim_posts(service, tx, [late])).result() == [None]


def test_a_post_that_is_no_longer_being_published_stays_as_it_is(
    server: AppServer, alice: Person, taken: RunSnapshot
) -> None:
    service, other = server.service, claim_post(server, alice)
    service.write(lambda tx: Post.update(status="canceled").where(Post.id == taken.post["id"]).execute()).result()
    sends = [
        transactions.SuccessfulSend(service, each, cast(IntentRow, each.intended), published)
        for each, published in ((taken, OUT), (other, COMMENT))
    ]
    with unchanged(server), pytest.raises(transactions.MixedGroupError):
        service.write(lambda tx: transactions.publish_sent(tx, sends)).result()
    service.write(lambda tx: transactions.publish_sent(tx, sends[:1])).result()
    assert server.rows(id=taken.post["id"])[0]["status"] == "canceled"
    assert "post.published" not in [type_ for type_, _ in server.events(taken.post["id"])]


def test_a_lost_claim_gives_no_job_back(server: AppServer, taken: RunSnapshot) -> None:
    """A run that has nothing to do but wait."""
    service, late = server.service, replace(taken.claim, claims=taken.claim.claims - 1)
    with unchanged(server):
        assert not service.write(lambda tx: service.jobs.reschedule(tx, late, service.now_ms)).result()


def test_every_function_that_writes_for_a_run_is_in_the_table() -> None:
    found = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in (transactions, intents)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and function.__module__ == module.__name__ and _is_for_a_run(function)
    }
    assert found - UNCHECKED == {name.partition(",")[0] for name in WRITES}


def _is_for_a_run(function: Callable[..., Any]) -> bool:
    """Whether it is handed what a run has taken."""
    annotations = [str(each.annotation) for each in inspect.signature(function).parameters.values()]
    return any(word in text for text in annotations for word in ("RunSnapshot", "SuccessfulSend", "PlannedPost"))
