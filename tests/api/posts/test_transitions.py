"""State transitions of a post: every state with every move.

The allowed moves are listed here a second time, so that a slip in the table is seen.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from socialpub.domain import post_states
from socialpub.domain.access import authentication
from socialpub.domain.accounts import accounts
from socialpub.domain.background import recovery
from socialpub.store.database import Tx
from socialpub.store.schema.models import Attempt, Intent, Job, Post
from tests.support.app_server import AppServer, error_of, sleep_briefly
from tests.support.request_cast import RequestCast

STATES = ("queued", "validated", "publishing", "published", "failed", "rejected", "canceled")
# Move: from where, to where, and the events it tells.
ALLOWED: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "claim": (("queued", "validated"), "publishing", ()),
    "publish": (("publishing",), "published", ("post.published",)),
    "reject": (("publishing",), "rejected", ("post.rejected",)),
    "fail": (("publishing",), "failed", ("post.failed",)),
    "wait": (("publishing",), "validated", ("post.failed",)),
    "doubt": (("validated",), "failed", ("post.failed",)),
    "overdue": (("queued", "validated", "publishing"), "failed", ("post.failed",)),
    "refuse": (("queued", "validated"), "rejected", ("post.rejected",)),
    "stop": (("queued", "validated"), "failed", ("post.failed",)),
    "reschedule": (("queued",), "queued", ("post.rescheduled",)),
    "edit": (("queued",), "queued", ("post.edited",)),
    "edit_at": (("queued",), "queued", ("post.rescheduled", "post.edited")),
    "cancel": (("queued",), "canceled", ("post.canceled",)),
    "disconnect": (("queued", "validated"), "canceled", ("post.canceled",)),
    "retry": (("failed", "rejected"), "validated", ("post.validated",)),
    "retry_at": (("failed", "rejected"), "queued", ("post.queued", "post.validated")),
    "settle_published": (("failed",), "published", ("post.published",)),
    "settle_absent": (("failed",), "failed", ()),
}
SINCE: post_states.TransitionData = {"previousScheduledAt": "2026-11-20T12:00:00.000Z", "changed": ["text"]}
PLAIN = {"code": "platform_rejected", "message": "no", "platform": "bluesky", "docUrl": "x"}
UNKNOWN = {"code": "platform_unavailable", "message": "lost", "rule": "publish.outcome_unknown", "docUrl": "x"}


def test_the_table_has_these_moves_and_no_others() -> None:
    assert set(post_states.TRANSITIONS) == set(ALLOWED)


def put(world: RequestCast, post: str, state: str, error: dict[str, Any] | None = None) -> dict[str, Any]:
    """Put a post into a state, with what a post of that state has; its job is gone. The row."""

    def change(tx: Tx) -> None:
        shown = json.dumps(error) if error else None
        Post.update(status=state, error=shown).where(Post.id == post).execute()
        world.server.service.jobs.remove(tx, post)

    world.server.service.write(change).result()
    return world.server.rows(Post, id=post)[0]


def told(world: RequestCast, post: str) -> list[str]:
    return [type_ for type_, _ in world.server.events(post)]


@pytest.mark.matrix
@pytest.mark.parametrize("name", ALLOWED)
def test_a_move_takes_the_states_it_is_for_and_no_other(name: str, world: RequestCast) -> None:
    sources, target, events = ALLOWED[name]
    service = world.server.service
    columns = {"published_at": service.now_ms} if target == "published" else {}
    for state in STATES:
        post = world.scheduled(text=state)
        before = put(world, post, state, PLAIN)
        heard = len(told(world, post))
        moved = service.write(
            lambda tx, post=post: post_states.apply(service, tx, name, post, data=SINCE, **columns)
        ).result()
        (row,) = world.server.rows(Post, id=post)
        if state in sources:
            assert moved is not None
            assert (row["status"], tuple(told(world, post)[heard:])) == (target, events), state
        else:
            assert moved is None
            assert (row, told(world, post)[heard:]) == (before, []), state


# --- Through the front door: what a person asks for ---

BY_A_PERSON: dict[str, tuple[str, str, Any]] = {
    "cancel": ("DELETE", "", None),
    "reschedule": ("PATCH", "", "soon"),
    "edit": ("PATCH", "", {"text": "edited"}),
    "retry": ("POST", "/retry", {}),
    "retry_at": ("POST", "/retry", "soon"),
    "settle_published": ("POST", "/settle", {"published": True}),
    "settle_absent": ("POST", "/settle", {"published": False}),
}


def ask(world: RequestCast, post: str, name: str) -> httpx.Response:
    method, path, body = BY_A_PERSON[name]
    sent = {"scheduledAt": world.soon(7200)} if body == "soon" else body
    return world.alice.api.request(method, f"/v1/posts/{post}{path}", json=sent)


@pytest.mark.parametrize("name", BY_A_PERSON)
def test_a_person_moves_what_may_be_moved_and_is_told_409_of_the_rest(name: str, world: RequestCast) -> None:
    settles = name.startswith("settle")
    for state in STATES:
        for error in (PLAIN, UNKNOWN) if state == "failed" else (None,):
            post = world.scheduled(text=f"{state} {error}")
            before = put(world, post, state, error)
            heard = len(told(world, post))
            answer = ask(world, post, name)
            if state in ALLOWED[name][0] and settles == (error is UNKNOWN):
                assert answer.is_success, (state, answer.text)
                assert tuple(told(world, post)[heard:])[: len(ALLOWED[name][2])] == ALLOWED[name][2]
            else:
                assert (answer.status_code, error_of(answer)["code"]) == (409, "validation_failed"), state
                assert world.server.rows(Post, id=post) == [before]
                assert told(world, post)[heard:] == []


def test_disconnecting_cancels_what_waits_and_nothing_else(world: RequestCast) -> None:
    posts = {state: world.scheduled(text=state) for state in STATES}
    before = {state: put(world, post, state) for state, post in posts.items()}
    scope = authentication.Scope(world.alice.organization)
    service = world.server.service
    service.write(lambda tx: accounts.disconnect(service, tx, scope, world.alice.bluesky, "r")).result()
    for state, post in posts.items():
        (row,) = world.server.rows(Post, id=post)
        if state in ("queued", "validated"):
            assert row["status"] == "canceled"
        else:
            assert row == before[state]


# --- And what the server does by itself ---


def ring(world: RequestCast, post: str) -> None:
    """A doorbell for a post, whatever its state: as one that was left behind."""
    service = world.server.service
    service.write(lambda tx: service.jobs.put(tx, "publish", post, service.now_ms, world.alice.bluesky)).result()


def answered(world: RequestCast, post: str) -> None:
    while world.server.rows(Job, key=post):
        sleep_briefly()


@pytest.mark.parametrize("state", [state for state in STATES if state != "publishing"])
def test_a_doorbell_publishes_what_waits_and_nothing_that_has_ended(state: str, world: RequestCast) -> None:
    post = world.scheduled()
    before = put(world, post, state)
    ring(world, post)
    answered(world, post)
    (row,) = world.server.rows(Post, id=post)
    if state in ("queued", "validated"):
        assert row["status"] == "published"
        assert len(world.server.lab.lab.ledger.posts()) == 1
    else:
        assert row == before
        assert world.server.lab.lab.ledger.posts() == []
        assert world.server.rows(Attempt) == world.server.rows(Intent) == []


def test_a_doorbell_of_a_post_in_the_midst_of_an_attempt_goes_on_with_it(world: RequestCast) -> None:
    """A claim that is made again after a crash: the attempt is the same, and the post goes out once."""
    post = world.scheduled()
    put(world, post, "publishing")
    service = world.server.service
    attempt = {"id": "a", "post": post, "number": 1, "started_at": service.now_ms}
    draft = {"attempts": 1, "tries": 1, "draft_at": service.now_ms, "draft_nonce": 1}

    def began(tx: Tx) -> None:
        Attempt.insert(**attempt).execute()
        Post.update(**draft).where(Post.id == post).execute()

    service.write(began).result()
    ring(world, post)
    answered(world, post)
    assert world.server.rows(Post, id=post)[0]["status"] == "published"
    assert len(world.server.rows(Attempt)) == len(world.server.lab.lab.ledger.posts()) == 1


@pytest.mark.parametrize("state", [state for state in STATES if state != "publishing"])
def test_job_of_a_disconnected_account_refuses_only_waiting_posts(state: str, world: RequestCast) -> None:
    post = world.scheduled()
    service, scope = world.server.service, authentication.Scope(world.alice.organization)
    service.write(lambda tx: accounts.disconnect(service, tx, scope, world.alice.bluesky, "r")).result()
    before = put(world, post, state)
    ring(world, post)
    answered(world, post)
    (row,) = world.server.rows(Post, id=post)
    assert row["status"] == ("rejected" if state in ("queued", "validated") else state)
    assert state in ("queued", "validated") or row == before
    assert world.server.lab.lab.ledger.posts() == []


def test_what_is_overdue_fails_unless_it_has_ended(server: AppServer, world: RequestCast) -> None:
    posts = {state: world.scheduled(text=state) for state in STATES}
    before = {state: put(world, post, state) for state, post in posts.items()}
    server.clock.skip(24 * 3600)
    recovery.fail_overdue(server.service)
    for state, post in posts.items():
        (row,) = server.rows(Post, id=post)
        if state in ("queued", "validated", "publishing"):
            assert row["status"] == "failed"
            assert server.happened(post=post)[-1].type == "post.failed"
        else:
            assert row == before[state]
