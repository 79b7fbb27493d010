"""Bluesky replies: resolution of parent and thread root, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.contract import Draft, PreviousPiece, Ready
from tests.support.platforms.bluesky_calls import (
    BOB,
    CID,
    PDS,
    PUBLIC,
    BlueskyCall,
    lookup_call,
    make_refusal,
    make_upstream,
)
from tests.support.platforms.scripted_upstream import LOST, NONCE, NOW, UNREACHED, check_finished, make_response

PARENT = {"uri": f"at://{BOB}/app.bsky.feed.post/3n2qaial32p6v", "cid": CID}
ROOT = {"uri": f"at://{BOB}/app.bsky.feed.post/3n2qaial32p6a", "cid": CID.replace("4", "5")}
TO_PARENT = {"replyToUri": PARENT["uri"], "replyToCid": PARENT["cid"]}
BEGINS = make_response(200, PARENT | {"value": {"text": "x"}})
FOLLOWS = make_response(200, PARENT | {"value": {"text": "x", "reply": {"root": ROOT, "parent": ROOT}}})
GONE = make_refusal(400, "RecordNotFound", "Could not locate record")


def looking(reply: UpstreamResponse | ApiError, host: str = PDS, repo: str = BOB) -> BlueskyCall:
    where = {"repo": repo, "collection": "app.bsky.feed.post", "rkey": "3n2qaial32p6v"}
    return lookup_call("com.atproto.repo.getRecord", reply, host, params=where)


def reply_of(
    options: dict[str, str],
    own: BlueskyCall | None = None,
    public: BlueskyCall | None = None,
    previous: PreviousPiece | None = None,
) -> Any:
    up = make_upstream([public] if public else [], [own] if own else [])
    draft = Draft("hello", options=options, now_ms=NOW, nonce=NONCE, previous=previous)
    try:
        ready = bluesky.prepare(up, draft, None)
    finally:
        check_finished(up)
    assert isinstance(ready, Ready)
    return ready.plan["record"]["reply"]


def refused(own: BlueskyCall, public: BlueskyCall | None = None) -> ApiError:
    with pytest.raises(ApiError) as caught:
        reply_of(TO_PARENT, own, public)
    return caught.value


def test_a_named_root_is_taken_without_looking() -> None:
    options = TO_PARENT | {"replyRootUri": ROOT["uri"], "replyRootCid": ROOT["cid"]}
    assert reply_of(options) == {"root": ROOT, "parent": PARENT}


def test_the_parents_own_root_is_the_root() -> None:
    assert reply_of(TO_PARENT, looking(FOLLOWS)) == {"root": ROOT, "parent": PARENT}


def test_a_parent_that_begins_a_thread_is_the_root() -> None:
    assert reply_of(TO_PARENT, looking(BEGINS)) == {"root": PARENT, "parent": PARENT}


def test_a_parent_that_is_named_by_a_handle_is_referred_to_by_its_did() -> None:
    options = TO_PARENT | {"replyToUri": "at://bob.test/app.bsky.feed.post/3n2qaial32p6v"}
    assert reply_of(options, looking(BEGINS, repo="bob.test")) == {"root": PARENT, "parent": PARENT}


UNREADABLE = [
    LOST,
    UNREACHED,
    make_refusal(500, "InternalServerError"),
    make_refusal(502, "UpstreamFailure"),
    make_refusal(429, "RateLimitExceeded"),
    make_refusal(400, "InvalidRequest"),
    make_response(200, "<html>"),
    make_response(200, {"value": {"text": "x"}}),
    make_response(200, PARENT),
    make_response(200, PARENT | {"value": None}),
    make_response(200, ROOT | {"value": {"text": "another record"}}),
]


@pytest.mark.parametrize("reply", UNREADABLE)
def test_unreadable_parent_is_read_from_the_public_view(
    reply: UpstreamResponse | ApiError,
) -> None:
    found = reply_of(TO_PARENT, looking(reply), looking(FOLLOWS, PUBLIC))
    assert found == {"root": ROOT, "parent": PARENT}


@pytest.mark.parametrize("reply", UNREADABLE)
def test_parent_unreadable_everywhere_stops_the_post_before_publication(
    reply: UpstreamResponse | ApiError,
) -> None:
    error = refused(looking(reply), looking(reply, PUBLIC))
    assert (error.code, error.outcome) == ("platform_unavailable", Outcome.NOT_SENT)
    assert "could not be read, so its thread is unknown" in error.message
    assert "replyRootUri" in str(error.remediation)


@pytest.mark.parametrize("answers", ["x", {}, {"root": "x"}, {"root": {"uri": 1, "cid": CID}}, {"root": {"uri": "x"}}])
def test_a_parent_whose_thread_cannot_be_told_stops_the_post(answers: Any) -> None:
    error = refused(looking(make_response(200, PARENT | {"value": {"reply": answers}})))
    assert (error.code, error.outcome) == ("platform_unavailable", Outcome.NOT_SENT)


def test_a_parent_that_is_gone_is_a_refusal() -> None:
    error = refused(looking(GONE))
    assert (error.code, error.rule, error.outcome) == ("platform_rejected", "bluesky.reply.refs", Outcome.REJECTED)
    assert "Could not locate record" in error.message


def test_another_version_of_the_parent_than_was_named_is_a_refusal() -> None:
    error = refused(looking(make_response(200, PARENT | {"cid": ROOT["cid"], "value": {"text": "x"}})))
    assert (error.code, error.rule, error.outcome) == ("platform_rejected", "bluesky.reply.refs", Outcome.REJECTED)
    assert f"has the CID {ROOT['cid']} now, not {CID}" in error.message


# --- Quotes ----------------------------------------------------------------------------------------------------------

QUOTE = {"quoteUri": PARENT["uri"]}


def quote_of(own: BlueskyCall, public: BlueskyCall | None = None, text: str = "hello") -> Any:
    up = make_upstream([public] if public else [], [own])
    try:
        ready = bluesky.prepare(up, Draft(text, options=QUOTE, now_ms=NOW, nonce=NONCE), None)
    finally:
        check_finished(up)
    assert isinstance(ready, Ready)
    return ready.plan["record"]["embed"]


def test_a_quoted_post_is_named_as_it_is_now() -> None:
    assert quote_of(looking(FOLLOWS)) == {"$type": "app.bsky.embed.record", "record": PARENT}


@pytest.mark.parametrize("reply", UNREADABLE)
def test_an_unreadable_quote_is_read_from_the_public_view_or_refused(reply: UpstreamResponse | ApiError) -> None:
    assert quote_of(looking(reply), looking(BEGINS, PUBLIC))["record"] == PARENT
    with pytest.raises(ApiError) as caught:
        quote_of(looking(reply), looking(reply, PUBLIC))
    assert (caught.value.code, caught.value.outcome) == ("platform_unavailable", Outcome.NOT_SENT)
    assert "The post to quote could not be read" in caught.value.message


# --- Threads ---------------------------------------------------------------------------------------------------------

FIRST: dict[str, Any] = {"record": {"text": "first"}}
LATER: dict[str, Any] = {"record": {"text": "later", "reply": {"root": ROOT, "parent": ROOT}}}


@pytest.mark.parametrize(("plan", "root"), [(FIRST, PARENT), (LATER, ROOT)], ids=["first", "later"])
def test_a_piece_replies_to_the_piece_before_it_without_looking(plan: dict[str, Any], root: dict[str, str]) -> None:
    previous = PreviousPiece(PARENT["uri"], PARENT["uri"], PARENT["cid"], plan)
    assert reply_of({}, previous=previous) == {"root": root, "parent": PARENT}


@pytest.mark.parametrize(("reply", "root"), [(BEGINS, PARENT), (FOLLOWS, ROOT)], ids=["first", "later"])
def test_a_piece_that_was_reported_is_read_first(reply: UpstreamResponse, root: dict[str, str]) -> None:
    previous = PreviousPiece(None, PARENT["uri"], None, FIRST)
    assert reply_of({}, looking(reply), previous=previous) == {"root": root, "parent": PARENT}


def test_a_reported_piece_that_is_not_there_is_not_answered() -> None:
    with pytest.raises(ApiError) as caught:
        reply_of({}, looking(GONE), previous=PreviousPiece(None, PARENT["uri"], None, FIRST))
    assert (caught.value.rule, caught.value.outcome) == ("bluesky.reply.refs", Outcome.REJECTED)
