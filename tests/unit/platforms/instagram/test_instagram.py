"""Instagram connector: containers, carousels, publish call, lookups, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import (
    Absent,
    AccountIdentity,
    Draft,
    DraftMedia,
    OfferedAccount,
    Pending,
    Published,
    Ready,
    Tokens,
    Unknown,
)
from socialpub.platforms.instagram import connector as instagram
from tests.support.platforms.meta_calls import STAMP, graph_refusal, image, make_upstream, video
from tests.support.platforms.rule_drafts import RuleScene
from tests.support.platforms.scripted_upstream import LOST, NOW, UNREACHED, ExpectedCall, check_finished, make_response

HOST = "https://graph.instagram.com"
API = f"{HOST}/v26.0"
PLAN = {"text": "hello", "since": NOW, "types": ["IMAGE"], "container": "900"}
LINK = "https://www.instagram.com/p/C1/"
OURS = {"id": "555", "caption": "hello", "media_type": "IMAGE", "permalink": LINK, "timestamp": STAMP}
POST = Published("555", LINK, None, LINK)
LISTED = {
    "fields": "id,caption,media_type,permalink,shortcode,timestamp",
    "limit": "25",
    "since": str((NOW - 120_000) // 1000),
}
PICTURE = {"image_url": "https://cdn.example.com/a.jpg"}
REEL = {"media_type": "REELS", "video_url": "https://cdn.example.com/v.mp4"}


def draft(*items: DraftMedia, text: str = "hello", **options: Any) -> Draft:
    return Draft(text, items=items, options=options, now_ms=NOW)


def quota(reply: UpstreamResponse | None = None) -> ExpectedCall:
    row = {"quota_usage": 3, "config": {"quota_total": 50, "quota_duration": 86_400}}
    found = reply or make_response(200, {"data": [row]})
    return ExpectedCall("GET", f"{API}/1784/content_publishing_limit", found, params={"fields": "quota_usage,config"})


def make(form: dict[str, str], reply: UpstreamResponse | ApiError | str = "900") -> ExpectedCall:
    made = make_response(200, {"id": reply}) if isinstance(reply, str) else reply
    return ExpectedCall("POST", f"{API}/1784/media", made, data=form)


def ask(status: str | UpstreamResponse | ApiError = "FINISHED", id: str = "900", words: str = "") -> ExpectedCall:
    body = make_response(200, {"id": id, "status_code": status, "status": words}) if isinstance(status, str) else status
    return ExpectedCall("GET", f"{API}/{id}", body, params={"fields": "status_code,status"})


def publish(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("POST", f"{API}/1784/media_publish", reply, data={"creation_id": "900"})


def posts(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("GET", f"{API}/1784/media", reply, params=LISTED)


def walked(content: Draft, *calls: ExpectedCall) -> Ready:
    """What `prepare` comes to in the end."""
    up = make_upstream(instagram.PLATFORM, quota(), *calls)
    saved = None
    while isinstance(found := instagram.prepare(up, content, saved), Pending):
        saved = found.saved
    check_finished(up)
    return found


# --- Making ----------------------------------------------------------------------------------------------------------

TAG = {"username": "ann", "x": 0.25, "y": 1}
SINGLES = [
    (
        draft(
            image(),
            collaborators=["ann", "bob.c"],
            userTags=[TAG],
            locationId="110",
            isAiGenerated=True,
            thumbOffset=1,
            coverUrl="https://cdn.example.com/c.jpg",
        ),
        PICTURE
        | {"caption": "hello", "collaborators": '["ann", "bob.c"]', "location_id": "110", "is_ai_generated": "true"}
        | {"user_tags": '[{"username": "ann", "x": 0.25, "y": 1}]'},
        "IMAGE",
    ),
    (
        draft(video(), thumbOffset=0, userTags=[TAG], locationId="110", collaborators=[], isAiGenerated=False),
        REEL | {"share_to_feed": "true", "thumb_offset": "0", "caption": "hello"},
        "VIDEO",
    ),
    (draft(image()), PICTURE | {"caption": "hello"}, "IMAGE"),
    (draft(image(alt="a cat"), text=""), PICTURE | {"alt_text": "a cat"}, "IMAGE"),
    (draft(video()), REEL | {"share_to_feed": "true", "caption": "hello"}, "VIDEO"),
    (draft(video(alt="not sent"), shareToFeed=False), REEL | {"share_to_feed": "false", "caption": "hello"}, "VIDEO"),
    (
        draft(video(), coverUrl="https://cdn.example.com/c.jpg"),
        REEL | {"share_to_feed": "true", "cover_url": "https://cdn.example.com/c.jpg", "caption": "hello"},
        "VIDEO",
    ),
]


@pytest.mark.parametrize(("content", "form", "kind"), SINGLES)
def test_one_container_is_made_and_asked_about(content: Draft, form: dict[str, str], kind: str) -> None:
    ready = walked(content, make(form), ask("IN_PROGRESS"), ask())
    assert ready == Ready(PLAN | {"text": content.text, "types": [kind]})


@pytest.mark.parametrize(
    ("item", "source", "kind"),
    [(image(alt="a cat"), PICTURE, "IMAGE"), (video(), {"video_url": "https://cdn.example.com/v.mp4"}, "VIDEO")],
)
def test_a_story_has_neither_text_nor_people(item: DraftMedia, source: dict[str, str], kind: str) -> None:
    ignored = {"collaborators": ["ann"], "userTags": [TAG], "locationId": "110", "coverUrl": "https://x.example/c.jpg"}
    content = draft(item, story=True, isAiGenerated=True, thumbOffset=1, shareToFeed=False, **ignored)
    ready = walked(content, make({"media_type": "STORIES", **source, "is_ai_generated": "true"}), ask())
    assert ready.plan == PLAN | {"text": "", "types": [kind], "list": "stories"}


def test_a_lost_story_is_looked_up_among_the_stories() -> None:
    shown = {name: value for name, value in OURS.items() if name != "caption"}
    listed = ExpectedCall("GET", f"{API}/1784/stories", page(shown), params=LISTED)
    up = make_upstream(instagram.PLATFORM, ask("PUBLISHED"), listed)
    assert instagram.settle(up, PLAN | {"text": "", "list": "stories"}, NOW) == POST
    check_finished(up)


def test_a_carousel_has_the_options_of_the_whole_post_on_the_whole() -> None:
    child = PICTURE | {"is_carousel_item": "true"}
    walked(
        draft(image(), image(), collaborators=["ann"], locationId="110", isAiGenerated=True, userTags=[TAG]),
        make(child, "901"),
        make(child, "902"),
        ask("FINISHED", "901"),
        ask("FINISHED", "902"),
        make(
            {"media_type": "CAROUSEL", "caption": "hello", "children": "901,902", "is_ai_generated": "true"}
            | {"collaborators": '["ann"]', "location_id": "110"}
        ),
        ask(),
    )


IGNORED = [
    (draft(image(), story=True), ["option_ignored"]),  # its text
    (draft(image(alt="a cat"), text="", story=True), ["alt_text_ignored"]),
    (
        draft(image(), text="", story=True, collaborators=["ann"], userTags=[TAG], locationId="1"),
        ["option_ignored"] * 3,
    ),
    (draft(image(), thumbOffset=1, shareToFeed=False), ["option_ignored"] * 2),
    (draft(video(), thumbOffset=1, coverUrl="https://x.example/c.jpg"), ["option_ignored"]),
    (draft(video(), locationId="1", userTags=[TAG]), ["option_ignored"] * 2),
    (draft(image(), image(), userTags=[TAG], locationId="1", collaborators=["ann"]), ["option_ignored"]),
    (draft(image(), userTags=[TAG], locationId="1", collaborators=["ann"], isAiGenerated=True), []),
]


@pytest.mark.parametrize(("content", "codes"), IGNORED)
def test_an_option_without_effect_is_warned_of(content: Draft, codes: list[str]) -> None:
    assert RuleScene(content).ids("instagram") == ([], codes)


def test_a_carousel_has_its_caption_on_the_whole_and_none_on_the_items() -> None:
    child = {"is_carousel_item": "true"}
    ready = walked(
        draft(image(alt="a cat"), video(alt="not sent")),
        make(PICTURE | child | {"alt_text": "a cat"}, "901"),
        make({"media_type": "VIDEO", "video_url": "https://cdn.example.com/v.mp4"} | child, "902"),
        ask("FINISHED", "901"),
        ask("FINISHED", "902"),
        make({"media_type": "CAROUSEL", "caption": "hello", "children": "901,902"}),
        ask(),
    )
    assert ready.plan == PLAN | {"types": ["CAROUSEL_ALBUM"]}


def test_a_carousel_keeps_what_is_made_when_an_item_fails_for_a_moment() -> None:
    child = {"is_carousel_item": "true"}
    up = make_upstream(
        instagram.PLATFORM,
        quota(),
        make(PICTURE | child, "901"),
        make(PICTURE | child, graph_refusal(-1, 2207001)),
        make(PICTURE | child, "902"),
    )
    first = instagram.prepare(up, draft(image(), image()), None)
    assert isinstance(first, Pending)
    assert first.saved["pieces"] == ["901"]
    second = instagram.prepare(up, draft(image(), image()), first.saved)
    assert isinstance(second, Pending)
    assert second.saved["pieces"] == ["901", "902"]
    check_finished(up)


FORM = PICTURE | {"caption": "hello"}
REFUSED = [
    # the answer to making a container: code, rule, tries
    (graph_refusal(190, 460), "platform_auth_failed", None, 1),
    (graph_refusal(190, 492), "platform_auth_failed", None, 1),
    (graph_refusal(102), "platform_auth_failed", None, 1),
    (graph_refusal(10), "platform_auth_failed", None, 1),
    (graph_refusal(3), "platform_auth_failed", None, 1),
    (graph_refusal(299), "platform_auth_failed", None, 1),
    (
        graph_refusal(100, message="The user is not an Instagram Business account"),
        "platform_auth_failed",
        "instagram.account_type.requires_professional",
        1,
    ),
    (graph_refusal(100, message="Not enough permissions to post"), "platform_auth_failed", None, 1),
    (graph_refusal(1, message="REVOKED_ACCESS_TOKEN"), "platform_auth_failed", None, 1),
    (graph_refusal(352, 2207026), "platform_rejected", "instagram.media.mime_allowed", 1),
    (graph_refusal(36001, 2207005), "platform_rejected", "instagram.media.mime_allowed", 1),
    (graph_refusal(36000, 2207004), "platform_rejected", "instagram.media.image_size_max", 1),
    (graph_refusal(36003, 2207009), "platform_rejected", "instagram.media.aspect_ratio", 1),
    (graph_refusal(36004, 2207010), "platform_rejected", "instagram.text.max_graphemes", 1),
    (graph_refusal(100, 2207028), "platform_rejected", "instagram.media.count_max", 1),
    (graph_refusal(100, 2207040), "platform_rejected", "instagram.text.mention_max", 1),
    (graph_refusal(100, 2207023), "platform_rejected", None, 1),
    (graph_refusal(9, 2207042), "platform_rejected", "instagram.account.daily_cap", 1),
    (graph_refusal(25, 2207050), "platform_rejected", "instagram.account.restricted", 1),
    (graph_refusal(4, 2207051), "platform_rejected", "instagram.account.spam_suspected", 1),
    (graph_refusal(368), "platform_rejected", "instagram.account.spam_suspected", 1),
    (graph_refusal(9004, 2207052), "platform_rejected", "instagram.media.reachable", 2),
    (graph_refusal(4), "platform_unavailable", None, 1),
    (graph_refusal(80002), "platform_unavailable", None, 1),
    (make_response(429, b""), "platform_unavailable", None, 1),
    (graph_refusal(-2, 2207003), "platform_unavailable", None, 4),
    (graph_refusal(24, 2207006), "platform_unavailable", None, 4),
    (graph_refusal(2), "platform_unavailable", None, 4),
    (make_response(502, "<html>"), "platform_unavailable", None, 4),
    (LOST, "platform_unavailable", None, 4),
    (make_response(200, b'{"id"'), "platform_unavailable", None, 4),
]


@pytest.mark.parametrize(("reply", "code", "rule", "tries"), REFUSED)
def test_what_stops_a_container_is_sorted(
    reply: UpstreamResponse | ApiError, code: str, rule: str | None, tries: int
) -> None:
    with pytest.raises(ApiError) as caught:
        walked(draft(image()), *[make(FORM, reply) for _ in range(tries)])
    assert (caught.value.code, caught.value.rule) == (code, rule)
    assert "access-token-1" not in repr(vars(caught.value))


FAILED = [
    ("2207026", "platform_rejected", "instagram.media.mime_allowed", 1),
    ("2207009", "platform_rejected", "instagram.media.aspect_ratio", 1),
    ("2207035", "platform_rejected", "instagram.container.error", 1),
    ("2207077", "platform_rejected", "instagram.media.reachable", 2),
    ("2207053", "platform_unavailable", None, 2),
]


@pytest.mark.parametrize(("number", "code", "rule", "rounds"), FAILED)
def test_a_container_that_failed_says_why_by_a_number(number: str, code: str, rule: str | None, rounds: int) -> None:
    words = f"Error: Media upload has failed with error code {number}"
    calls = [call for _ in range(rounds) for call in (make(FORM), ask("ERROR", words=words))]
    with pytest.raises(ApiError) as caught:
        walked(draft(image()), *calls)
    assert (caught.value.code, caught.value.rule) == (code, rule)
    assert words in caught.value.message


def test_a_video_is_waited_for_longer_than_an_image() -> None:
    form = REEL | {"share_to_feed": "true", "caption": "hello"}
    with pytest.raises(ApiError, match="within 15 minutes"):
        walked(draft(video()), make(form), *[ask("IN_PROGRESS") for _ in range(36)])


# --- Publishing ------------------------------------------------------------------------------------------------------


def send(*calls: ExpectedCall) -> Published:
    up = make_upstream(instagram.PLATFORM, *calls)
    try:
        return instagram.send(up, PLAN)
    finally:
        check_finished(up)


def look(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("GET", f"{API}/555", reply, params={"fields": "permalink,shortcode"})


def test_the_container_is_published_by_one_call_and_its_address_read() -> None:
    assert send(publish(make_response(200, {"id": "555"})), look(make_response(200, {"permalink": LINK}))) == POST
    assert send(publish(make_response(200, {"id": "555"})), look(make_response(200, {"shortcode": "C1"}))) == POST
    assert send(publish(make_response(200, {"id": "555"})), look(LOST)) == Published("555")


MATRIX = [
    (LOST, "platform_unavailable", Outcome.AMBIGUOUS, None),
    (UNREACHED, "platform_unavailable", Outcome.NOT_SENT, None),
    (graph_refusal(9007, 2207027), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(24, 2207008), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(-1, 2207001, status=500), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(1), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(100, is_transient=True), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(500, "<html>"), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(200, "<html>"), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(200, b'{"id": "55'), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(200, {}), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(429, b"", retry_after="7"), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(4, status=403), "platform_unavailable", Outcome.THROTTLED, None),
    (graph_refusal(190, 463), "platform_auth_failed", Outcome.REJECTED, None),
    (make_response(401, b""), "platform_auth_failed", Outcome.REJECTED, None),
    (graph_refusal(9, 2207042), "platform_rejected", Outcome.REJECTED, "instagram.account.daily_cap"),
    (graph_refusal(25, 2207050), "platform_rejected", Outcome.REJECTED, "instagram.account.restricted"),
    (graph_refusal(4, 2207051), "platform_rejected", Outcome.REJECTED, "instagram.account.spam_suspected"),
]


@pytest.mark.parametrize(("reply", "code", "outcome", "rule"), MATRIX)
def test_every_answer_to_publishing_is_sorted(
    reply: UpstreamResponse | ApiError, code: str, outcome: Outcome, rule: str | None
) -> None:
    with pytest.raises(ApiError) as caught:
        send(publish(reply))
    assert (caught.value.code, caught.value.outcome, caught.value.rule) == (code, outcome, rule)


def test_a_refusal_shows_the_words_for_people_and_what_to_do() -> None:
    words = "You reached the maximum number of posts."
    with pytest.raises(ApiError) as caught:
        send(publish(graph_refusal(9, 2207042, "Application request limit reached", error_user_msg=words)))
    row = next(rule for rule in instagram.PLATFORM.rules if rule.id == "instagram.account.daily_cap")
    assert caught.value.message == f"{row.message} Instagram did not publish the post: {words}"
    assert (caught.value.remediation, caught.value.platform_version) == (row.remediation, "v26.0")
    assert caught.value.platform_response["body"]["error"]["error_subcode"] == 2207042


# --- Settling --------------------------------------------------------------------------------------------------------


def settle(*calls: ExpectedCall, text: str = "hello") -> Published | Absent | Unknown:
    up = make_upstream(instagram.PLATFORM, *calls)
    found = instagram.settle(up, PLAN | {"text": text}, NOW)
    check_finished(up)
    return found


def page(*found: dict[str, Any]) -> UpstreamResponse:
    return make_response(200, {"data": list(found)})


def test_finished_container_is_unpublished_and_a_published_one_is_found() -> None:
    assert isinstance(settle(ask()), Absent)
    assert settle(ask("PUBLISHED"), posts(page(OURS | {"id": "1", "caption": "x"}, OURS))) == POST
    assert isinstance(settle(ask("IN_PROGRESS")), Unknown)


@pytest.mark.parametrize("kind", ["media", "stories"])
@pytest.mark.parametrize("reply", ["ERROR", "EXPIRED", graph_refusal(100, 33)])
def test_without_text_another_post_of_the_kind_is_not_taken(reply: Any, kind: str) -> None:
    """The owner may have published it by hand: only the container's own status tells."""
    up = make_upstream(instagram.PLATFORM, ask(reply))
    assert isinstance(instagram.settle(up, PLAN | {"text": " \n", "list": kind}, NOW), Unknown)
    check_finished(up)


def test_captions_may_come_back_without_their_at_signs() -> None:
    shown = OURS | {"caption": "with bob"}
    assert settle(ask("PUBLISHED"), posts(page(shown)), text="with @bob") == POST


def test_a_caption_that_is_not_told_proves_nothing() -> None:
    silent = {name: value for name, value in OURS.items() if name != "caption"}
    assert settle(ask("PUBLISHED"), posts(page(silent))) == Published("container:900")


# --- Connecting ------------------------------------------------------------------------------------------------------

JSON = {"Accept": "application/json"}
LONG = make_response(200, {"access_token": "long-token", "token_type": "bearer", "expires_in": 5_183_944})
EXCHANGE = {"grant_type": "ig_exchange_token", "client_secret": "app-secret-1", "access_token": "short-token"}
SCOPES = ["instagram_business_basic", "instagram_business_content_publish"]


def identified(who: dict[str, Any]) -> tuple[OfferedAccount, ...]:
    up = make_upstream(
        instagram.PLATFORM,
        ExpectedCall("GET", f"{HOST}/access_token", LONG, headers=JSON, params=EXCHANGE),
        ExpectedCall(
            "GET",
            f"{API}/me",
            make_response(200, who),
            headers={"Authorization": "Bearer long-token"},
            params={"fields": "user_id,username,name,account_type"},
        ),
        tokens=Tokens("short-token", private={"scopes": SCOPES}),
    )
    try:
        return instagram.identify(up, NOW)
    finally:
        check_finished(up)


def test_login_offers_the_professional_account_with_a_60_day_token() -> None:
    extra = {"kind": "instagram_login", "accountType": "BUSINESS", "grantedScopes": SCOPES, "username": "alice"}
    tokens = Tokens("long-token", "long-token", NOW + 5_183_944_000, {"scopes": SCOPES})
    who = {"id": "1", "user_id": "17841", "username": "alice", "account_type": "BUSINESS"}
    assert identified(who) == (OfferedAccount(AccountIdentity("17841", "alice", extra), tokens, "account"),)


def test_a_personal_account_is_refused_and_told_what_to_do() -> None:
    with pytest.raises(ApiError) as caught:
        identified({"user_id": "17841", "username": "alice", "account_type": "PERSONAL"})
    assert (caught.value.rule, caught.value.code) == (
        "instagram.account_type.requires_professional",
        "platform_auth_failed",
    )


def test_a_token_is_renewed_by_itself() -> None:
    params = {"grant_type": "ig_refresh_token", "access_token": "access-token-1"}
    up = make_upstream(
        instagram.PLATFORM, ExpectedCall("GET", f"{HOST}/refresh_access_token", LONG, headers=JSON, params=params)
    )
    fresh = instagram.refresh(up, NOW)
    assert (fresh.access, fresh.refresh, fresh.expires_at_ms) == ("long-token", "long-token", NOW + 5_183_944_000)
    check_finished(up)
