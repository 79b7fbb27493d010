"""Sending and lookup of Bluesky records, error mapping, first comment."""

from __future__ import annotations

from typing import Any

import pytest

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse
from socialpub.domain.schemas.errors import build_error_body
from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.contract import Absent, Draft, Published, Unknown
from tests.support.platforms.bluesky_calls import AUTH, CID, DID, BlueskyCall, make_refusal, make_upstream, xrpc_call
from tests.support.platforms.scripted_upstream import NONCE, NOW, ExpectedDownload, check_finished, make_response

RKEY = "3n2qaial32p6v"
WHERE = {"repo": DID, "collection": "app.bsky.feed.post", "rkey": RKEY}
URI = f"at://{DID}/app.bsky.feed.post/{RKEY}"
RECORD = {"$type": "app.bsky.feed.post", "text": "first post 👋", "createdAt": "2026-11-20T09:10:09.000Z"}
PLAN = WHERE | {"record": RECORD}
OURS = Published(URI, URI, CID, f"https://bsky.app/profile/{DID}/post/{RKEY}")
WRITTEN = {"uri": URI, "cid": CID, "commit": {"cid": "b", "rev": "c"}, "validationStatus": "valid"}
LOST = ApiError("platform_unavailable", outcome=Outcome.AMBIGUOUS)
UNREACHED = ApiError("platform_unavailable", outcome=Outcome.NOT_SENT)


def put(reply: UpstreamResponse | ApiError) -> BlueskyCall:
    body = WHERE | {"validate": True, "record": RECORD, "swapRecord": None}
    return xrpc_call("POST", "com.atproto.repo.putRecord", reply, headers=AUTH, json=body)


def get(reply: UpstreamResponse | ApiError) -> BlueskyCall:
    return xrpc_call("GET", "com.atproto.repo.getRecord", reply, params=WHERE)


def send(*calls: BlueskyCall) -> Published:
    up = make_upstream(guarded=calls)
    try:
        return bluesky.send(up, PLAN)
    finally:
        check_finished(up)


def test_record_is_written_under_its_key_only_where_none_exists() -> None:
    assert send(put(make_response(200, WRITTEN))) == OURS


def test_a_replay_of_the_same_plan_is_the_same_post() -> None:
    replayed = {"uri": URI, "cid": CID, "validationStatus": "valid"}  # recorded: no commit
    assert send(put(make_response(200, replayed))) == OURS


MATRIX = [
    # what came back, code, outcome, rule, refresh the token
    (LOST, "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (UNREACHED, "platform_unavailable", Outcome.NOT_SENT, None, False),
    (make_refusal(429, "RateLimitExceeded"), "platform_unavailable", Outcome.THROTTLED, None, False),
    (
        make_refusal(429, "RateLimitExceeded", retry_after="3564"),
        "platform_unavailable",
        Outcome.THROTTLED,
        None,
        False,
    ),
    (make_response(429, "<html>"), "platform_unavailable", Outcome.THROTTLED, None, False),
    (make_refusal(500, "InternalServerError"), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_response(502, "<html>bad gateway</html>"), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_response(503, b""), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_response(504, b""), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_response(200, "<html>"), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_response(200, b'{"uri": "at://did'), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_response(200, []), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_response(200, {"uri": URI}), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_response(200, {"uri": URI, "cid": ""}), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_response(200, {"uri": URI + "x", "cid": CID}), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_response(200, b""), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_response(301, b"", location="https://elsewhere"), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_refusal(404, "XRPCNotSupported"), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_refusal(400, "SomethingNew"), "platform_unavailable", Outcome.AMBIGUOUS, None, False),
    (make_refusal(400, "ExpiredToken"), "platform_auth_failed", Outcome.NOT_SENT, None, True),
    (make_refusal(400, "InvalidToken"), "platform_auth_failed", Outcome.NOT_SENT, None, True),
    (make_response(401, "<html>"), "platform_auth_failed", Outcome.NOT_SENT, None, True),
    (make_refusal(401, "ExpiredToken"), "platform_auth_failed", Outcome.NOT_SENT, None, True),
    (make_refusal(401, "AuthMissing"), "platform_auth_failed", Outcome.REJECTED, None, False),
    (make_refusal(401, "AccountTakedown"), "platform_auth_failed", Outcome.REJECTED, None, False),
    (make_refusal(401, "AccountDeactivated"), "platform_auth_failed", Outcome.REJECTED, None, False),
    (make_refusal(403, "AccountNotFound"), "platform_auth_failed", Outcome.REJECTED, None, False),
    (make_refusal(403, "ScopeMissingError"), "platform_auth_failed", Outcome.REJECTED, None, False),
    (make_refusal(400, "InvalidRequest"), "platform_rejected", Outcome.REJECTED, "bluesky.record.invalid", False),
    (make_refusal(400, "InvalidMimeType"), "platform_rejected", Outcome.REJECTED, "bluesky.record.invalid", False),
    (make_refusal(400, "InvalidSize"), "platform_rejected", Outcome.REJECTED, "bluesky.record.invalid", False),
    (make_refusal(413, "PayloadTooLarge"), "platform_rejected", Outcome.REJECTED, "bluesky.record.invalid", False),
    (make_refusal(400, "BlobNotFound"), "platform_unavailable", Outcome.NOT_SENT, None, False),
]


@pytest.mark.parametrize(("reply", "code", "outcome", "rule", "stale"), MATRIX)
def test_every_answer_to_a_write_is_sorted(
    reply: UpstreamResponse | ApiError, code: str, outcome: Outcome, rule: str | None, stale: bool
) -> None:
    with pytest.raises(ApiError) as caught:
        send(put(reply))
    error = caught.value
    assert (error.code, error.outcome, error.rule, error.stale_token) == (code, outcome, rule, stale)
    assert "access-1" not in repr(vars(error))


GATE = {"$type": "app.bsky.feed.threadgate", "post": URI, "allow": [], "createdAt": "2026-11-20T09:10:09.000Z"}


def send_gated(reply: UpstreamResponse | ApiError) -> Published:
    kind = "com.atproto.repo.applyWrites#create"
    writes = [
        {"$type": kind, "collection": "app.bsky.feed.post", "rkey": RKEY, "value": RECORD},
        {"$type": kind, "collection": "app.bsky.feed.threadgate", "rkey": RKEY, "value": GATE},
    ]
    body = {"repo": DID, "validate": True, "writes": writes}
    up = make_upstream(guarded=[xrpc_call("POST", "com.atproto.repo.applyWrites", reply, headers=AUTH, json=body)])
    try:
        return bluesky.send(up, PLAN | {"gate": GATE})
    finally:
        check_finished(up)


def test_a_post_and_its_threadgate_are_one_commit() -> None:
    results = [{"uri": URI, "cid": CID}, {"uri": URI.replace("post", "threadgate"), "cid": "b"}]
    assert send_gated(make_response(200, {"commit": {}, "results": results})) == OURS


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"results": []},
        {"results": "x"},
        {"results": [None]},
        {"results": [{"uri": URI}]},
        {"results": [{"uri": URI + "x", "cid": CID}]},
    ],
)
def test_a_commit_whose_answer_does_not_name_the_post_is_looked_up(body: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as caught:
        send_gated(make_response(200, body))
    assert (caught.value.code, caught.value.outcome) == ("platform_unavailable", Outcome.AMBIGUOUS)


def test_an_unreadable_answer_counts_as_one_and_is_not_shown() -> None:
    with pytest.raises(ApiError) as caught:
        send(put(make_response(200, "<html>access-1")))
    assert caught.value.platform_response == {"status": 200}
    with pytest.raises(ApiError) as caught:
        send(put(LOST))
    assert caught.value.platform_response is None


def test_a_refusal_says_what_bluesky_said_and_what_to_do() -> None:
    said = 'Invalid app.bsky.feed.post record: Missing required key "alt" at $.record.embed.images[0]'
    with pytest.raises(ApiError) as caught:
        send(put(make_refusal(400, "InvalidRequest", said)))
    body = build_error_body(caught.value, "https://sp.example")
    assert body == {
        "code": "platform_rejected",
        "message": f"The account's server did not accept the post. Bluesky did not publish the post: {said}",
        "rule": "bluesky.record.invalid",
        "platform": "bluesky",
        "platformVersion": "atproto-xrpc-2026-08-20",
        "platformResponse": {"status": 400, "body": {"error": "InvalidRequest", "message": said}},
        "remediation": "Read the server's response in `platformResponse`. An older server may have lower limits.",
        "docUrl": "https://sp.example/docs/errors/platform_rejected",
        "ruleUrl": "https://sp.example/docs/rules/bluesky.record.invalid",
    }


def test_a_limit_says_how_long_to_wait() -> None:
    with pytest.raises(ApiError) as caught:
        send(put(make_refusal(429, "RateLimitExceeded", retry_after="3564")))
    assert caught.value.retry_after == 3564


def test_a_token_that_a_server_repeats_is_not_shown() -> None:
    with pytest.raises(ApiError) as caught:
        send(put(make_refusal(400, "InvalidRequest", "bad header: Bearer access-1")))
    assert caught.value.platform_response == {
        "status": 400,
        "body": {"error": "InvalidRequest", "message": "bad header: Bearer [hidden]"},
    }


# --- Something is under the key ---------------------------------------------------------------------------------------

SWAP = make_refusal(400, "InvalidSwap", f"Record was at {CID}")


def test_the_same_record_under_the_key_is_our_post() -> None:
    assert (
        send(put(SWAP), get(make_response(200, {"uri": URI, "cid": CID, "value": dict(reversed(RECORD.items()))})))
        == OURS
    )


def test_another_record_under_the_key_is_a_conflict() -> None:
    with pytest.raises(ApiError) as caught:
        send(put(SWAP), get(make_response(200, {"uri": URI, "cid": CID, "value": RECORD | {"text": "other"}})))
    assert (caught.value.rule, caught.value.outcome) == ("bluesky.record.conflict", Outcome.REJECTED)


@pytest.mark.parametrize(
    "reply",
    [
        LOST,
        UNREACHED,
        make_refusal(500, "InternalServerError"),
        make_response(200, "<html>"),
        make_response(200, {"uri": URI, "value": RECORD}),
        make_refusal(400, "RecordNotFound"),
    ],
)
def test_a_record_under_the_key_that_cannot_be_read_leaves_it_open(reply: UpstreamResponse | ApiError) -> None:
    with pytest.raises(ApiError) as caught:
        send(put(SWAP), get(reply))
    assert (caught.value.code, caught.value.outcome) == ("platform_unavailable", Outcome.AMBIGUOUS)


# --- Looking ----------------------------------------------------------------------------------------------------------


def settle(reply: UpstreamResponse | ApiError, *more: BlueskyCall) -> Published | Absent | Unknown:
    up = make_upstream(guarded=[get(reply), *more])
    found = bluesky.settle(up, PLAN, NOW)
    check_finished(up)
    return found


def test_what_is_under_the_key_is_published() -> None:
    assert settle(make_response(200, {"uri": URI, "cid": CID, "value": RECORD})) == OURS


def test_only_the_servers_own_word_for_it_is_absence() -> None:
    assert settle(make_refusal(400, "RecordNotFound")) == Absent({"status": 400, "error": "RecordNotFound"})


OTHER = make_response(200, {"uri": URI, "cid": CID, "value": RECORD | {"text": "reads differently"}})


def test_record_that_reads_differently_is_confirmed_by_the_server() -> None:
    assert settle(OTHER, put(make_response(200, {"uri": URI, "cid": CID, "validationStatus": "valid"}))) == OURS


def test_another_record_under_the_key_cannot_be_settled_by_looking_again() -> None:
    found = settle(OTHER, put(SWAP))
    assert isinstance(found, Unknown)
    assert found.final
    assert "another post with the key" in found.evidence["compared"]


@pytest.mark.parametrize(
    "reply",
    [
        LOST,
        UNREACHED,
        make_refusal(500, "InternalServerError"),
        make_refusal(429, "RateLimitExceeded"),
        make_response(200, ""),
    ],
)
def test_a_comparison_without_an_answer_is_worth_another_look(reply: UpstreamResponse | ApiError) -> None:
    found = settle(OTHER, put(reply))
    assert isinstance(found, Unknown)
    assert not found.final


def test_a_comparison_with_an_expired_token_asks_for_a_new_one() -> None:
    with pytest.raises(ApiError) as caught:
        settle(OTHER, put(make_refusal(400, "ExpiredToken")))
    assert caught.value.stale_token


@pytest.mark.parametrize(
    "reply",
    [
        LOST,
        UNREACHED,
        make_refusal(500, "InternalServerError"),
        make_refusal(502, "UpstreamFailure"),
        make_refusal(404, "RecordNotFound"),
        make_refusal(400, "RepoNotFound"),
        make_refusal(429, "RateLimitExceeded"),
        make_response(400, "<html>"),
        make_response(200, "<html>"),
        make_response(200, {"uri": URI, "cid": CID}),
        make_response(500, {"uri": URI, "cid": CID, "value": {}}),
        make_response(200, {"uri": "at://other", "cid": CID, "value": RECORD}),
        make_response(200, b""),
    ],
)
def test_everything_else_is_unknown_and_worth_another_look(reply: UpstreamResponse | ApiError) -> None:
    found = settle(reply)
    assert isinstance(found, Unknown)
    assert not found.final


# --- The first comment ------------------------------------------------------------------------------------------------


def comment(plan: dict[str, Any], text: str, *calls: BlueskyCall | ExpectedDownload, **options: Any) -> dict[str, Any]:
    up = make_upstream(guarded=calls)
    made = bluesky.comment(up, Draft("x", first_comment=text, options=options, now_ms=NOW, nonce=NONCE), OURS, plan)
    check_finished(up)
    return made


def test_the_first_comment_answers_our_post_under_a_key_of_its_own() -> None:
    ours = {"uri": URI, "cid": CID}
    assert comment(PLAN, "more", langs=["en"]) == {
        "repo": DID,
        "collection": "app.bsky.feed.post",
        "rkey": bluesky.make_record_key(NOW + 1, NONCE),
        "record": {
            "$type": "app.bsky.feed.post",
            "text": "more",
            "createdAt": "2026-11-20T09:10:09.124Z",
            "langs": ["en"],
            "reply": {"root": ours, "parent": ours},
        },
    }


def test_under_a_reply_the_first_comment_stays_in_the_thread() -> None:
    root = {"uri": "at://did:plc:other/app.bsky.feed.post/3n2qaial32p6a", "cid": "bafyreia"}
    plan = PLAN | {"record": RECORD | {"reply": {"root": root, "parent": root}}}
    assert comment(plan, "more")["record"]["reply"] == {"root": root, "parent": {"uri": URI, "cid": CID}}


def test_a_link_in_the_first_comment_has_its_card() -> None:
    url = "https://example.com/a"
    page = ExpectedDownload(url, UpstreamResponse(200, {}, b""), b"<title>T</title>", 1024 * 1024, 3.0, whole=False)
    external = {"uri": url, "title": "T", "description": ""}
    assert comment(PLAN, url, page)["record"]["embed"] == {"$type": "app.bsky.embed.external", "external": external}
