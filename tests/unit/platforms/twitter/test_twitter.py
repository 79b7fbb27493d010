"""X connector: media uploads, post calls, answers, lookups, login."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import (
    Absent,
    AccountIdentity,
    Draft,
    DraftMedia,
    OfferedAccount,
    Pending,
    PreviousPiece,
    Published,
    Ready,
    Tokens,
    Unknown,
    Upstream,
)
from socialpub.platforms.twitter import connector as twitter
from socialpub.platforms.twitter import post_search as twitter_look
from socialpub.platforms.twitter.media import MIB, segment_size
from socialpub.platforms.twitter.text import weighted_length
from socialpub.simulator.twitter.text import rewritten, weight
from tests.support.platforms.meta_calls import jpeg
from tests.support.platforms.scripted_upstream import LOST, NOW, UNREACHED, ExpectedCall, check_finished, make_response
from tests.support.platforms.twitter_calls import (
    API,
    append,
    create,
    describe,
    draft,
    finalize,
    initialize,
    invalid_response,
    item,
    make_upstream,
    one_shot,
    problem_response,
    processing,
    status,
    upload_response,
)

PLAN: dict[str, Any] = {"body": {"text": "hello"}, "keys": []}
LINK = "https://x.com/alice/status/1990"
POST = Published("1990", LINK, None, LINK)
DONE = make_response(201, {"data": {"id": "1990", "text": "hello", "edit_history_post_ids": ["1990"]}})
FILM = bytes(range(256)) * 10_240  # two and a half MiB


def walked(up: Upstream, content: Draft) -> tuple[Ready, list[float]]:
    """What `prepare` comes to in the end, and its waits."""
    saved, waits = None, []
    while isinstance(found := twitter.prepare(up, content, saved), Pending):
        saved = found.saved
        waits.append(found.seconds)
    check_finished(up)
    return found, waits


def stopped(up: Upstream, content: Draft) -> ApiError:
    with pytest.raises(ApiError) as caught:
        walked(up, content)
    check_finished(up)
    assert "access-token-1" not in repr(vars(caught.value))
    return caught.value


@pytest.fixture
def film(tmp_path: Path) -> DraftMedia:
    return item(tmp_path / "v.mp4", "video/mp4", FILM)


@pytest.fixture
def picture(tmp_path: Path) -> DraftMedia:
    return item(tmp_path / "a.jpg", "image/jpeg", jpeg(), "a cat")


# --- Preparing -------------------------------------------------------------------------------------------------------

TEXTS = [
    (draft(), {"text": "hello"}),
    (draft("hello", replyToTweetId="77"), {"text": "hello", "reply": {"in_reply_to_tweet_id": "77"}}),
    (draft("hello", quoteTweetId="78"), {"text": "hello", "quote_tweet_id": "78"}),
    (
        draft("hello", replySettings="mentionedUsers", communityId="5", madeWithAi=True, paidPartnership=True),
        {
            "text": "hello",
            "reply_settings": "mentionedUsers",
            "community_id": "5",
            "made_with_ai": True,
            "paid_partnership": True,
        },
    ),
    (draft("hello", replySettings="everyone", madeWithAi=False, paidPartnership=False), {"text": "hello"}),
]


PREVIOUS = [
    PreviousPiece("77", "https://x.com/alice/status/77"),
    PreviousPiece(None, "https://x.com/alice/status/77"),
    PreviousPiece(None, "https://twitter.com/alice/status/77"),
    PreviousPiece(None, "https://x.com/i/web/status/77"),
]
TEXTS += [
    (replace(draft("hello"), previous=previous), {"text": "hello", "reply": {"in_reply_to_tweet_id": "77"}})
    for previous in PREVIOUS
]


@pytest.mark.parametrize(("content", "body"), TEXTS)
def test_a_text_needs_no_call(content: Draft, body: dict[str, Any]) -> None:
    piece = {"is_later_piece": True} if content.previous else {}
    assert twitter.prepare(make_upstream(), content, None) == Ready({"body": body, "keys": [], **piece})


def test_an_image_goes_up_whole_and_gets_its_alt_text(picture: DraftMedia) -> None:
    up = make_upstream(one_shot(picture.read(), upload_response("71")), describe("a cat"))
    ready, waits = walked(up, draft("", picture))
    body = {"text": "", "media": {"media_ids": ["71"]}}
    assert (ready, waits) == (Ready({"body": body, "keys": ["3_71"]}), [])


def test_several_images_keep_their_order(tmp_path: Path) -> None:
    contents = [jpeg(40 + number) for number in range(4)]
    items = [item(tmp_path / f"{n}.jpg", "image/jpeg", content) for n, content in enumerate(contents)]
    up = make_upstream(*(one_shot(content, upload_response(str(70 + n))) for n, content in enumerate(contents)))
    ready, _ = walked(up, draft("hello", *items))
    assert ready.plan["body"]["media"] == {"media_ids": ["70", "71", "72", "73"]}
    assert ready.plan["keys"] == ["3_70", "3_71", "3_72", "3_73"]


def test_a_gif_that_stands_still_is_an_image(tmp_path: Path) -> None:
    still = item(tmp_path / "a.gif", "image/gif", b"GIF89a")
    walked(make_upstream(one_shot(b"GIF89a", upload_response("71"), "image/gif")), draft("hello", still))


@pytest.mark.parametrize("kind", ["image/webp", "image/png"])
def test_an_animation_that_is_no_gif_is_an_image(tmp_path: Path, kind: str) -> None:
    moving = item(tmp_path / "a", kind, b"moving", frames=3)
    walked(make_upstream(one_shot(b"moving", upload_response("71"), kind)), draft("hello", moving))


def test_an_animation_goes_up_in_segments_and_gets_its_alt_text(tmp_path: Path) -> None:
    moving = item(tmp_path / "a.gif", "image/gif", b"GIF89a", "a cat", frames=3)
    up = make_upstream(
        initialize(6, kind="image/gif", category="tweet_gif"),
        append(0, b"GIF89a", kind="image/gif"),
        finalize(processing("succeeded")),
        describe("a cat"),
    )
    walked(up, draft("hello", moving))


def test_a_video_goes_up_in_segments_and_is_waited_for(film: DraftMedia) -> None:
    up = make_upstream(
        initialize(len(FILM)),
        append(0, FILM[:MIB]),
        append(1, FILM[MIB : 2 * MIB]),
        append(2, FILM[2 * MIB :]),
        finalize(processing("pending", check_after_secs=3)),
        status(processing("in_progress", check_after_secs=90, progress_percent=50)),
        status(processing("in_progress")),
        status(processing("succeeded", progress_percent=100)),
    )
    ready, waits = walked(up, draft("hello", film))
    assert (ready.plan["keys"], waits) == (["3_71"], [3.0, 30.0, 5.0])


def test_alt_text_of_a_video_is_not_sent(tmp_path: Path) -> None:
    clip = item(tmp_path / "v.mp4", "video/mp4", b"film", "a film")
    walked(make_upstream(initialize(4), append(0, b"film"), finalize()), draft("hello", clip))


@pytest.mark.parametrize(
    ("total", "size", "segments"),
    [
        (1, MIB, 1),
        (3_145_728, MIB, 3),
        (512_000_000, MIB, 489),
        (8_000_000_000, 8 * MIB, 954),
        (16 << 30, 17 * MIB, 964),
    ],
)
def test_no_video_needs_more_than_a_thousand_segments(total: int, size: int, segments: int) -> None:
    assert (segment_size(total), -(-total // size)) == (size, segments)


PASSING = [LOST, UNREACHED, problem_response(503), make_response(500, "<html>"), make_response(503, b"")]


@pytest.mark.parametrize("reply", PASSING)
def test_every_step_of_an_upload_is_tried_again_after_what_passes(
    film: DraftMedia, reply: UpstreamResponse | ApiError
) -> None:
    up = make_upstream(
        *(initialize(len(FILM), reply), initialize(len(FILM))),
        *(append(0, FILM[:MIB], reply), append(0, FILM[:MIB])),
        append(1, FILM[MIB : 2 * MIB]),
        append(2, FILM[2 * MIB :]),
        *(finalize(reply), finalize(processing("pending", check_after_secs=1))),
        *(status(reply), status(processing("succeeded"))),
    )
    assert walked(up, draft("hello", film))[1] == [2.0, 2.0, 2.0, 1.0, 2.0]


def test_images_and_alt_texts_are_tried_again_after_what_passes(picture: DraftMedia) -> None:
    content = picture.read()
    up = make_upstream(
        *(one_shot(content, LOST), one_shot(content, upload_response("71"))),
        *(describe("a cat", LOST), describe("a cat")),
    )
    walked(up, draft("hello", picture))


def test_a_segment_that_cannot_be_sent_is_given_up_after_four_tries(film: DraftMedia) -> None:
    error = stopped(make_upstream(initialize(len(FILM)), *[append(0, FILM[:MIB], LOST)] * 4), draft("hello", film))
    assert (error.code, error.rule) == ("platform_unavailable", None)


@pytest.mark.parametrize(
    "reply", [problem_response(404, kind="resource-not-found"), invalid_response("bytes do not match")]
)
def test_an_upload_that_x_has_lost_is_begun_anew_once(tmp_path: Path, reply: UpstreamResponse) -> None:
    clip = item(tmp_path / "v.mp4", "video/mp4", b"film")
    first = [initialize(4), append(0, b"film"), finalize(reply)]
    second = [initialize(4, upload_response("72")), append(0, b"film", id="72"), finalize(id="72")]
    assert walked(make_upstream(*first, *second), draft("hello", clip))[0].plan["keys"] == ["3_72"]
    error = stopped(make_upstream(*first, *first), draft("hello", clip))
    assert (error.code, error.outcome) == ("platform_rejected", Outcome.REJECTED)


def test_a_video_that_x_cannot_process_is_refused(film: DraftMedia) -> None:
    clip = draft("hello", film)
    failed = processing("failed", error={"code": 1, "name": "InvalidMedia", "message": "file is unsupported"})
    parts = [append(n, FILM[n * MIB : (n + 1) * MIB]) for n in range(3)]
    error = stopped(make_upstream(initialize(len(FILM)), *parts, finalize(failed)), clip)
    assert (error.code, error.rule) == ("platform_rejected", "twitter.media.video_processing_failed")
    assert "file is unsupported" in error.message


def test_waiting_has_an_end() -> None:
    saved = {"phase": "wait", "id": "71", "key": "3_71", "waited": 1790.0, "begun": 1}
    up = make_upstream(status(processing("in_progress", check_after_secs=30)))
    with pytest.raises(ApiError) as caught:
        twitter.prepare(up, draft("hello", DraftMedia("video")), saved)
    error = caught.value
    assert (error.rule, error.code) == ("twitter.media.processing_timeout", "platform_unavailable")
    assert error.outcome is Outcome.NOT_SENT


# --- What an answer means ------------------------------------------------------------------------------------------

_DATE = "Fri, 20 Nov 2026 12:00:00 GMT"
_NOON = 1_795_176_000
_LIMITED = {"date": _DATE, "x_rate_limit_remaining": "0", "x_rate_limit_reset": str(_NOON + 77)}
U, R, A = "platform_unavailable", "platform_rejected", "platform_auth_failed"

MATRIX = [
    (LOST, U, Outcome.AMBIGUOUS, None),
    (UNREACHED, U, Outcome.NOT_SENT, None),
    (problem_response(500), U, Outcome.AMBIGUOUS, None),
    (problem_response(503, title="Service Unavailable"), U, Outcome.AMBIGUOUS, None),
    (make_response(500, "<html>"), U, Outcome.AMBIGUOUS, None),
    (make_response(502, b""), U, Outcome.AMBIGUOUS, None),
    (make_response(403, "<html>"), U, Outcome.AMBIGUOUS, None),
    (make_response(400, "<html>"), U, Outcome.AMBIGUOUS, None),
    (make_response(302, b"", location="https://elsewhere"), U, Outcome.AMBIGUOUS, None),
    (make_response(201, "<html>"), U, Outcome.AMBIGUOUS, None),
    (make_response(201, b'{"data": {"id": "19'), U, Outcome.AMBIGUOUS, None),
    (make_response(201, {"data": {}}), U, Outcome.AMBIGUOUS, None),
    (make_response(201, {"data": {"id": 1990}}), U, Outcome.AMBIGUOUS, None),
    (make_response(200, {"errors": [{"title": "odd"}]}), U, Outcome.AMBIGUOUS, None),
    (make_response(429, b""), U, Outcome.THROTTLED, None),
    (problem_response(429, title="Too Many Requests"), U, Outcome.THROTTLED, None),
    (make_response(429, {"errors": [{"code": 88, "message": "Rate limit exceeded"}]}), U, Outcome.THROTTLED, None),
    (invalid_response("Your media IDs are invalid."), U, Outcome.NOT_SENT, None),
    (problem_response(402, title="CreditsDepleted"), U, Outcome.REJECTED, "twitter.credits.exhausted"),
    (make_response(402, "<html>"), U, Outcome.REJECTED, "twitter.credits.exhausted"),
    (problem_response(403, kind="usage-capped"), U, Outcome.REJECTED, "twitter.credits.exhausted"),
    (problem_response(429, kind="usage-capped"), U, Outcome.REJECTED, "twitter.credits.exhausted"),
    (problem_response(403, kind="client-forbidden"), U, Outcome.REJECTED, "twitter.app.not_enrolled"),
    (problem_response(401, title="Unauthorized"), A, Outcome.REJECTED, None),
    (make_response(401, b""), A, Outcome.REJECTED, None),
    (problem_response(403, kind="unsupported-authentication"), A, Outcome.REJECTED, None),
    (problem_response(403, kind="user-suspended"), A, Outcome.REJECTED, "twitter.account.suspended"),
    (problem_response(403, "Your account is suspended and is not permitted"), A, Outcome.REJECTED,
     "twitter.account.suspended"),
    (problem_response(403, "To protect our users, this account is temporarily locked."), A, Outcome.REJECTED, None),
    (problem_response(403, "You attempted to reply to a Tweet that is deleted or not visible to you."), R,
     Outcome.REJECTED,
     "twitter.reply.not_allowed"),
    (problem_response(403, "Reply to this conversation is not allowed because"), R, Outcome.REJECTED,
     "twitter.reply.not_allowed"),
    (problem_response(403, "This user is not allowed to post a video longer than 2 minutes."), R, Outcome.REJECTED,
     "twitter.video.too_long"),
    (problem_response(403, "Your Tweet text is too long."), R, Outcome.REJECTED, "twitter.text.max_graphemes"),
    (invalid_response("text field exceeds maximum length of 280 characters"), R, Outcome.REJECTED,
     "twitter.text.max_graphemes"),
    (invalid_response("maximum of one cashtag"), R, Outcome.REJECTED, "twitter.text.cashtag_max"),
    (invalid_response("value must be a string"), R, Outcome.REJECTED, None),
    (problem_response(403, "You are not permitted to perform this action."), R, Outcome.REJECTED, None),
    (problem_response(404, kind="resource-not-found"), R, Outcome.REJECTED, None),
    (make_response(403, {"errors": [{"detail": "no", "title": "Unsupported Authentication",
                              "type": "https://api.twitter.com/2/problems/unsupported-authentication"}]}),
     A, Outcome.REJECTED, None),
]  # fmt: skip


def sent(*calls: ExpectedCall, plan: dict[str, Any] = PLAN) -> Published:
    up = make_upstream(*calls)
    try:
        return twitter.send(up, plan)
    finally:
        check_finished(up)


def test_the_post_is_made_by_one_call() -> None:
    assert sent(create({"text": "hello"}, DONE)) == POST


def test_a_post_of_an_account_without_a_name_has_an_address_too() -> None:
    link = "https://x.com/i/web/status/1990"
    up = make_upstream(create({"text": "hello"}, DONE), extra={})
    assert twitter.send(up, PLAN) == Published("1990", link, None, link)


@pytest.mark.parametrize(("reply", "code", "outcome", "rule"), MATRIX)
def test_every_answer_to_publishing_is_sorted(
    reply: UpstreamResponse | ApiError, code: str, outcome: Outcome, rule: str | None
) -> None:
    with pytest.raises(ApiError) as caught:
        sent(create({"text": "hello"}, reply))
    error = caught.value
    assert (error.code, error.outcome, error.rule) == (code, outcome, rule)
    assert error.stale_token == (isinstance(reply, UpstreamResponse) and reply.status_code == 401)
    assert error.retryable == (rule not in ("twitter.credits.exhausted", "twitter.app.not_enrolled"))
    assert isinstance(reply, ApiError) or error.platform_response["status"] == reply.status_code


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (_LIMITED, 77),
        (_LIMITED | {"x_rate_limit_reset": str(_NOON - 5)}, 1),
        (_LIMITED | {"x_rate_limit_remaining": "3"}, None),
        (_LIMITED | {"x_app_limit_24hour_remaining": "0", "x_app_limit_24hour_reset": str(_NOON + 900)}, 900),
        (_LIMITED | {"x_rate_limit_reset": "soon"}, None),
        (_LIMITED | {"date": ""}, None),
        ({"retry_after": "9"}, 9),
        ({}, None),
    ],
)
def test_throttling_says_how_long_by_the_answers_own_date(headers: dict[str, str], seconds: int | None) -> None:
    with pytest.raises(ApiError) as caught:
        sent(create({"text": "hello"}, problem_response(429, **headers)))
    assert (caught.value.outcome, caught.value.retry_after) == (Outcome.THROTTLED, seconds)


def test_a_quote_that_is_refused_without_a_reason_is_about_quoting() -> None:
    plan = {"body": {"text": "hello", "quote_tweet_id": "78"}, "keys": []}
    with pytest.raises(ApiError) as caught:
        sent(create(plan["body"], problem_response(403, "You are not permitted to perform this action.")), plan=plan)
    assert caught.value.rule == "twitter.quote.not_allowed"
    with pytest.raises(ApiError) as caught:
        sent(create(plan["body"], problem_response(403, "Your account is suspended and")), plan=plan)
    assert caught.value.rule == "twitter.account.suspended"


def test_a_token_that_x_repeats_is_not_shown() -> None:
    with pytest.raises(ApiError) as caught:
        sent(create({"text": "hello"}, problem_response(401, "bad token access-token-1")))
    assert caught.value.message == "X did not publish the post: bad token [hidden]"
    assert "access-token-1" not in repr(vars(caught.value))


# --- Looking -------------------------------------------------------------------------------------------------------

STAMP = "2026-11-20T09:10:12.000Z"
OURS = {"id": "1990", "text": "hello", "created_at": STAMP}
NEW = {"post.fields": "attachments,created_at,entities,note_post,text", "expansions": "referenced_posts"}
OLD = {"tweet.fields": "attachments,created_at,entities,note_tweet,referenced_tweets,text"}


def look(
    reply: UpstreamResponse | ApiError, start: str = "2026-11-20T09:08:09Z", fields: Any = NEW, **more: str
) -> ExpectedCall:
    params = {"max_results": "100", "start_time": start, "exclude": "retweets", **fields, **more}
    return ExpectedCall("GET", f"{API}/2/users/1500/tweets", reply, params=params)


def listed(*posts: dict[str, Any], **meta: Any) -> UpstreamResponse:
    return make_response(200, {"data": list(posts), "meta": {"result_count": len(posts), **meta}})


def settled(*calls: ExpectedCall, plan: dict[str, Any] = PLAN, **more: Any) -> Published | Absent | Unknown:
    up = make_upstream(*calls, **more)
    try:
        return twitter.settle(up, plan, NOW)
    finally:
        check_finished(up)


def test_the_post_is_found_by_its_words() -> None:
    assert settled(look(listed(OURS | {"id": "1991", "text": "other"}, OURS))) == POST


def test_an_empty_list_and_one_without_ours_are_absent() -> None:
    assert settled(look(make_response(200, {"meta": {"result_count": 0}}))) == Absent({"posts": 0})
    assert settled(look(listed(OURS | {"text": "other"}))) == Absent({"posts": 1})


def test_a_community_post_that_is_not_listed_is_not_absent() -> None:
    plan = PLAN | {"body": PLAN["body"] | {"community_id": "5"}}
    assert settled(look(listed()), plan=plan) == Unknown({"posts": 0})
    assert settled(look(listed(OURS)), plan=plan) == POST


@pytest.mark.parametrize("kind", ["photo", "video"])
@pytest.mark.parametrize("keys", [[], ["3_71"]])
def test_a_post_with_media_whose_keys_are_not_listed_may_be_ours(keys: list[str], kind: str) -> None:
    plan = {"body": {"text": "hello", "media": {"media_ids": ["71"]}}, "keys": keys}
    link = _url("1", f"https://x.com/ann/status/1990/{kind}/1")
    shown = OURS | {"text": "hello https://t.co/1", "entities": {"urls": [link]}}
    assert settled(look(listed(shown)), plan=plan) == Unknown({"alike": ["1990"]})
    named = shown | {"attachments": {"media_keys": ["3_99"]}}
    assert isinstance(settled(look(listed(named)), plan=plan), Absent if keys else Unknown)


OTHERS = [
    OURS | {"created_at": "2026-11-20T09:08:08.000Z"},
    OURS | {"id": "1"},
    OURS | {"attachments": {"media_keys": ["3_71"]}},
    OURS | {"referenced_posts": [{"type": "replied_to", "id": "77"}]},
    OURS | {"referenced_tweets": [{"type": "quoted", "id": "78"}]},
    OURS | {"text": "hello!"},
]


@pytest.mark.parametrize("post", OTHERS)
def test_a_post_that_only_looks_like_ours_is_not_bound(post: dict[str, Any]) -> None:
    assert isinstance(settled(look(listed(post)), bound=frozenset({"1"})), Absent)


@pytest.mark.parametrize("id", [None, "", "1" * 2_000, "1\n"])
def test_ours_without_a_usable_id_does_not_count_as_absent(id: str | None) -> None:
    with pytest.raises(ApiError, match="The post id from the platform cannot be used"):
        settled(look(listed(OURS | {"id": id})))


def test_two_that_look_like_ours_bind_none() -> None:
    assert settled(look(listed(OURS | {"id": "1991"}, OURS))) == Unknown({"alike": ["1991", "1990"]})


def test_the_list_is_read_to_its_end() -> None:
    pages = [look(listed(next_token="p2")), look(listed(OURS), pagination_token="p2")]
    assert settled(*pages) == POST
    endless = [look(listed(next_token="more"))] + [look(listed(next_token="more"), pagination_token="more")] * 19
    assert isinstance(settled(*endless), Unknown)


def test_the_older_spelling_is_asked_when_the_newer_one_is_refused() -> None:
    pages = [
        look(invalid_response("The query parameter [post.fields] is not one of")),
        look(listed(next_token="p2"), fields=OLD),
        look(listed(OURS), fields=OLD, pagination_token="p2"),
    ]
    assert settled(*pages) == POST


def _url(short: str, target: str) -> dict[str, Any]:
    return {"url": f"https://t.co/{short}", "expanded_url": target}


REWRITTEN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    # what was sent, how it is listed
    ({"text": "a & b <c>"}, {"text": "a &amp; b &lt;c&gt;"}),
    ({"text": "cafe\u0301  x\n\n\ny "}, {"text": "caf\u00e9 x\n\ny"}),
    (
        {"text": "see https://Example.com/A/ now"},
        {"text": "see https://t.co/1 now", "entities": {"urls": [_url("1", "https://example.com/A")]}},
    ),
    (
        {"text": "see example.com & co"},
        {"text": "see https://t.co/1 &amp; co", "entities": {"urls": [_url("1", "http://example.com")]}},
    ),
    (
        {"text": "look", "quote_tweet_id": "78"},
        {
            "text": "look https://t.co/1",
            "entities": {"urls": [_url("1", "https://x.com/bob/status/78")]},
            "referenced_posts": [{"type": "quoted", "id": "78"}],
        },
    ),
    (
        {"text": "yes", "reply": {"in_reply_to_tweet_id": "77"}},
        {"text": "@bob @eve yes", "referenced_tweets": [{"type": "replied_to", "id": "77"}]},
    ),
    ({"text": "a long one"}, {"text": "a long…", "note_post": {"text": "a long one"}}),
    (
        {"text": "long https://a.com"},
        {
            "text": "l…",
            "note_tweet": {"text": "long https://t.co/1", "entities": {"urls": [_url("1", "https://a.com")]}},
        },
    ),
]


@pytest.mark.parametrize(("body", "shown"), REWRITTEN)
def test_what_x_makes_of_a_text_is_taken_back(body: dict[str, Any], shown: dict[str, Any]) -> None:
    plan = {"body": body, "keys": []}
    assert settled(look(listed(OURS | shown)), plan=plan) == POST
    assert isinstance(settled(look(listed(OURS | shown)), plan=plan | {"body": {"text": "x"}}), Absent)


def test_a_post_with_media_is_found_by_their_keys_alone() -> None:
    plan = {"body": {"text": "hello", "media": {"media_ids": ["71", "72"]}}, "keys": ["3_71", "3_72"]}
    shown = OURS | {"text": "hello https://t.co/1", "attachments": {"media_keys": ["3_71", "3_72"]}}
    assert settled(look(listed(shown)), plan=plan) == POST
    assert settled(look(listed(OURS)), plan=plan) == Absent({"posts": 1})


def test_a_list_that_may_not_be_read_is_unknown_for_good() -> None:
    found = settled(look(problem_response(403, kind="client-forbidden")))
    assert isinstance(found, Unknown)
    assert (found.final, found.evidence["answer"]["status"]) == (True, 403)


@pytest.mark.parametrize(
    "reply",
    [
        LOST,
        problem_response(503),
        problem_response(402),
        problem_response(429),
        problem_response(401),
        make_response(200, "<html>"),
    ],
)
def test_a_list_that_cannot_be_read_now_is_looked_at_later(reply: UpstreamResponse | ApiError) -> None:
    with pytest.raises(ApiError) as caught:
        settled(look(reply))
    assert caught.value.stale_token == (isinstance(reply, UpstreamResponse) and reply.status_code == 401)


# --- Duplicates ------------------------------------------------------------------------------------------------------

_TWICE = problem_response(403, "You are not allowed to create a Tweet with duplicate content.")


def test_a_duplicate_is_refused_and_told_as_one() -> None:
    with pytest.raises(ApiError) as caught:
        sent(create({"text": "hello"}, _TWICE))
    error = caught.value
    assert (error.rule, error.outcome, error.duplicate) == ("twitter.post.duplicate", Outcome.REJECTED, True)


# --- Connecting ------------------------------------------------------------------------------------------------------

BASIC = {"Accept": "application/json", "Authorization": "Basic YXBwLTE6YXBwLXNlY3JldC0x"}


def me(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("GET", f"{API}/2/users/me", reply, params={"user.fields": "name,subscription_type,username"})


@pytest.mark.parametrize(("given", "kept"), [("Premium", "Premium"), ("None", "None"), (None, "None")])
def test_a_login_offers_its_one_account(given: str | None, kept: str) -> None:
    who = {"id": "1500", "name": "Alice", "username": "alice", "subscription_type": given}
    up = make_upstream(me(make_response(200, {"data": who})))
    identity = AccountIdentity("1500", "@alice", {"username": "alice", "subscriptionType": kept})
    assert twitter.identify(up, NOW) == (OfferedAccount(identity, up.tokens, "person"),)


@pytest.mark.parametrize(
    "reply", [make_response(200, {}), make_response(200, {"data": {"id": "1500"}}), make_response(200, "<html>"), LOST]
)
def test_a_login_that_does_not_say_whose_it_is_offers_nothing(reply: UpstreamResponse | ApiError) -> None:
    with pytest.raises(ApiError) as caught:
        twitter.identify(make_upstream(me(reply)), NOW)
    assert caught.value.code == "platform_unavailable"


def refreshing(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    form = {"grant_type": "refresh_token", "refresh_token": "refresh-token-1"}
    return ExpectedCall("POST", f"{API}/2/oauth2/token", reply, BASIC, data=form)


def test_a_refresh_brings_a_new_pair_of_tokens() -> None:
    fresh = {"token_type": "bearer", "expires_in": 7200, "access_token": "a2", "refresh_token": "r2", "scope": "x y"}
    up = make_upstream(refreshing(make_response(200, fresh)))
    assert twitter.refresh(up, NOW) == Tokens("a2", "r2", NOW + 7_200_000, {"scopes": ["x", "y"]})
    check_finished(up)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (
            make_response(
                400, {"error": "invalid_request", "error_description": "Value passed for the token was invalid."}
            ),
            A,
        ),
        (make_response(400, {"error": "invalid_grant"}), A),
        (make_response(401, {"error": "unauthorized_client", "error_description": "Missing"}), "platform_not_enabled"),
        (make_response(503, b""), U),
        (make_response(429, b""), U),
        (make_response(200, "<html>"), U),
        (LOST, U),
    ],
)
def test_a_refresh_that_fails_is_sorted(reply: UpstreamResponse | ApiError, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        twitter.refresh(make_upstream(refreshing(reply)), NOW)
    assert caught.value.code == code
    assert "refresh-token-1" not in repr(vars(caught.value))


def test_disconnecting_ends_both_tokens() -> None:
    done = make_response(200, {"revoked": True})
    url = f"{API}/2/oauth2/revoke"
    up = make_upstream(
        ExpectedCall("POST", url, done, BASIC, data={"token": "refresh-token-1"}),
        ExpectedCall("POST", url, done, BASIC, data={"token": "access-token-1"}),
    )
    twitter.revoke(up)
    check_finished(up)


# --- Laws ------------------------------------------------------------------------------------------------------------

PIECES = ["a", "&", "<b>", "&amp;", "👋", "日本", "cafe\u0301", "#tag", "@bob", "$A", "example.com", "\n", "\n\n", "  "]
LINKS = ["https://Example.com/A/?b=1", "http://x.org/", "https://a.b.dev/c#d", "example.org/x/"]
texts_like_these = st.lists(st.sampled_from(PIECES + LINKS), min_size=1, max_size=12).map(" ".join)


@given(texts_like_these)
def test_what_the_fake_makes_of_any_text_is_taken_back(text: str) -> None:
    shown, links = rewritten(text, [])
    urls = [{"url": link.short, "expanded_url": link.target} for link in links]
    post = OURS | {"text": shown, "entities": {"urls": urls}}
    assert twitter_look.is_match(post, PLAN | {"body": {"text": text}})
    assert not twitter_look.is_match(post, PLAN | {"body": {"text": f"{text} z"}})


@pytest.mark.parametrize(
    "links",
    [
        [{"url": "", "expanded_url": "https://a.com/" + "y" * 500_000}],
        [{"url": "a", "expanded_url": "https://a.com/" + "y" * 500_000}],
        [{"url": "a", "expanded_url": "https://" + "a" * 1000}] * 100,
        [{"url": " ", "expanded_url": ""}, {"expanded_url": "https://a.com"}, None, {"url": None}, {"url": ["a"]}],
        [{"url": "no", "expanded_url": "https://a.com"}] * 10_000,
    ],
    ids=["an empty one", "a letter", "a letter of its own", "nothing", "many"],
)
def test_no_links_of_a_listed_post_make_its_text_grow_without_end(links: list[Any]) -> None:
    """What is put in place of a link may be long, and the link may stand anywhere, and often."""
    post = OURS | {"text": "a " * 50_000, "entities": {"urls": links}}
    tracemalloc.start()
    try:
        assert not twitter_look.is_match(post, PLAN | {"body": {"text": "other"}})
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024 * 1024
    finally:
        tracemalloc.stop()


@given(texts_like_these)
def test_the_fake_weighs_as_the_counter_does(text: str) -> None:
    assert weight(text) == weighted_length(text)
