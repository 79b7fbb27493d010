"""Threads connector: containers, quota, publish call, lookups, login."""

from __future__ import annotations

from dataclasses import replace
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
    PreviousPiece,
    Published,
    Ready,
    Tokens,
    Unknown,
    Upstream,
)
from socialpub.platforms.threads import connector as threads
from tests.support.platforms.media_rule_cases import (
    AVC_AAC,
    GIB,
    MIB,
    RATE,
    WIDE_AND_HIGH,
    WIDTH,
    clip_bytes,
    kinds,
    longest,
    photo_bytes,
    shape,
)
from tests.support.platforms.meta_calls import STAMP, graph_refusal, image, make_upstream, video
from tests.support.platforms.rule_cases import BLANK, CLIP, FAMILY, NO_TEXT, PIC, PUBLIC, Cases, alt, option
from tests.support.platforms.rule_drafts import clip, images, photo, scene
from tests.support.platforms.scripted_upstream import LOST, NOW, UNREACHED, ExpectedCall, check_finished, make_response

HOST = "https://graph.threads.net"
API = f"{HOST}/v1.0"
STATUS = {"fields": "status,error_message"}
LISTED = {
    "fields": "id,text,media_type,permalink,shortcode,timestamp",
    "limit": "25",
    "since": str((NOW - 120_000) // 1000),
}
PLAN = {"text": "hello", "types": ["TEXT_POST"], "since": NOW, "list": "threads", "container": "900"}
LINK = "https://www.threads.com/@alice/post/C1"
OURS = {"id": "555", "text": "hello", "media_type": "TEXT_POST", "permalink": LINK, "timestamp": STAMP}
POST = Published("555", LINK, None, LINK)


def draft(text: str = "hello", *items: DraftMedia, **options: Any) -> Draft:
    return Draft(text, items=items, options=options, now_ms=NOW)


def quota(
    used: int = 3, reply: UpstreamResponse | ApiError | None = None, fields: str = "quota_usage,config"
) -> ExpectedCall:
    usage, config = fields.split(",")
    row = {usage: used, config: {"quota_total": 250, "quota_duration": 86_400}}
    return ExpectedCall(
        "GET",
        f"{API}/1784/threads_publishing_limit",
        reply or make_response(200, {"data": [row]}),
        params={"fields": fields},
    )


def make(form: dict[str, str], reply: UpstreamResponse | ApiError | str = "900") -> ExpectedCall:
    made = make_response(200, {"id": reply}) if isinstance(reply, str) else reply
    return ExpectedCall("POST", f"{API}/1784/threads", made, data=form)


def ask(status: str | UpstreamResponse | ApiError = "FINISHED", id: str = "900", **more: str) -> ExpectedCall:
    body = make_response(200, {"id": id, "status": status, **more}) if isinstance(status, str) else status
    return ExpectedCall("GET", f"{API}/{id}", body, params=STATUS)


def publish(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("POST", f"{API}/1784/threads_publish", reply, data={"creation_id": "900"})


def look(reply: UpstreamResponse | ApiError, id: str = "555") -> ExpectedCall:
    return ExpectedCall("GET", f"{API}/{id}", reply, params={"fields": "permalink,shortcode"})


def posts(reply: UpstreamResponse | ApiError, edge: str = "threads", **more: str) -> ExpectedCall:
    return ExpectedCall("GET", f"{API}/1784/{edge}", reply, params=LISTED | more)


def walked(up: Upstream, content: Draft) -> tuple[Ready, list[float]]:
    """What `prepare` comes to in the end, and its waits."""
    saved, waits = None, []
    while isinstance(found := threads.prepare(up, content, saved), Pending):
        saved = found.saved
        waits.append(found.seconds)
    check_finished(up)
    return found, waits


# --- Making ----------------------------------------------------------------------------------------------------------

TEXT = {"media_type": "TEXT", "text": "hello"}
SINGLES = [
    (draft(), TEXT, "TEXT_POST"),
    (draft("", image()), {"media_type": "IMAGE", "image_url": "https://cdn.example.com/a.jpg"}, "IMAGE"),
    (
        draft("hello", image(alt="a cat")),
        {"media_type": "IMAGE", "image_url": "https://cdn.example.com/a.jpg", "alt_text": "a cat", "text": "hello"},
        "IMAGE",
    ),
    (
        draft("hello", video(alt="a film")),
        {"media_type": "VIDEO", "video_url": "https://cdn.example.com/v.mp4", "alt_text": "a film", "text": "hello"},
        "VIDEO",
    ),
]


@pytest.mark.parametrize(("content", "form", "kind"), SINGLES)
def test_one_container_is_made_asked_about_and_left_a_moment(content: Draft, form: dict[str, str], kind: str) -> None:
    up = make_upstream(threads.PLATFORM, quota(), make(form), ask("IN_PROGRESS"), ask(), ask())
    ready, waits = walked(up, content)
    assert ready == Ready(PLAN | {"text": content.text, "types": [kind]})
    assert waits == [1.0, 1.0, 3.0]


def test_a_carousel_is_made_once_all_its_items_are_finished() -> None:
    first = {"media_type": "IMAGE", "image_url": "https://cdn.example.com/a.jpg", "alt_text": "a cat"}
    second = {"media_type": "VIDEO", "video_url": "https://cdn.example.com/v.mp4"}
    child = {"is_carousel_item": "true"}
    up = make_upstream(
        threads.PLATFORM,
        quota(),
        make(first | child, "901"),
        make(second | child, "902"),
        ask("FINISHED", "901"),
        ask("IN_PROGRESS", "902"),
        ask("FINISHED", "902"),
        make({"media_type": "CAROUSEL", "text": "hello", "children": "901,902"}),
        ask(),
        ask(),
    )
    ready, _ = walked(up, draft("hello", image(alt="a cat"), video()))
    assert ready.plan == PLAN | {"types": ["CAROUSEL_ALBUM"]}


def test_a_reply_names_its_parent_and_counts_against_the_quota_of_replies() -> None:
    fields = "reply_quota_usage,reply_config"
    up = make_upstream(threads.PLATFORM, quota(fields=fields), make(TEXT | {"reply_to_id": "77"}), ask(), ask())
    ready, _ = walked(up, draft(replyToId="77"))
    assert ready.plan == PLAN | {"list": "replies"}


def test_the_options_are_parameters_of_the_post_and_not_of_its_items() -> None:
    options = {"topicTag": "Cats", "replyControl": "mentioned_only", "quotePostId": "78"}
    form = {"topic_tag": "Cats", "reply_control": "mentioned_only", "quote_post_id": "78"}
    link = {"linkAttachment": "https://a.example/"}
    text = make(TEXT | form | {"link_attachment": "https://a.example/"})
    walked(make_upstream(threads.PLATFORM, quota(), text, ask(), ask()), draft(**options, **link))
    item = {"media_type": "IMAGE", "image_url": "https://cdn.example.com/a.jpg", "is_carousel_item": "true"}
    whole = {"media_type": "CAROUSEL", "text": "hello", "children": "901,902"}
    calls = (make(item, "901"), make(item, "902"), ask(id="901"), ask(id="902"), make(whole | form), ask(), ask())
    walked(make_upstream(threads.PLATFORM, quota(), *calls), draft("hello", image(), image(), **options))


BEFORE = {"id": "77", "text": "before", "media_type": "TEXT_POST", "shortcode": "C7", "timestamp": STAMP}
BEFORE_PLAN = PLAN | {"text": "before", "container": "800"}
ADDRESS = "https://www.threads.com/@alice/post/C7"
FOUND = make_response(200, {"data": [BEFORE, OURS | {"shortcode": "C1"}]})
PREVIOUS = {
    "published": (PreviousPiece("77", ADDRESS, None, BEFORE_PLAN), ()),
    "published without an id": (PreviousPiece("container:800", None, None, BEFORE_PLAN), (posts(FOUND),) * 3),
    "reported": (PreviousPiece(None, ADDRESS, None, BEFORE_PLAN | {"text": "as it was"}), (posts(FOUND),) * 3),
}


@pytest.mark.parametrize("case", PREVIOUS)
def test_a_piece_names_the_piece_before_it(case: str) -> None:
    previous, looks = PREVIOUS[case]
    own = (quota(fields="reply_quota_usage,reply_config"), make(TEXT | {"reply_to_id": "77"}), ask(), ask())
    calls = [*looks[:1], *own[:2], *looks[:1], own[2], *looks[:1], own[3]]
    up = make_upstream(threads.PLATFORM, *calls)
    ready, _ = walked(up, replace(draft(), previous=previous))
    assert ready.plan == PLAN | {"list": "replies"}


@pytest.mark.parametrize("listed", [[], [BEFORE, BEFORE | {"id": "78"}], [OURS]], ids=["none", "two", "another"])
def test_a_piece_waits_while_the_piece_before_it_cannot_be_found(listed: list[dict[str, str]]) -> None:
    up = make_upstream(threads.PLATFORM, posts(make_response(200, {"data": listed})))
    with pytest.raises(ApiError) as caught:
        threads.prepare(up, replace(draft(), previous=PreviousPiece("container:800", plan=BEFORE_PLAN)), None)
    assert (caught.value.code, caught.value.outcome) == ("platform_unavailable", Outcome.NOT_SENT)
    check_finished(up)


def test_a_quota_that_is_used_up_stops_the_post_before_anything_is_made() -> None:
    up = make_upstream(threads.PLATFORM, quota(250))
    with pytest.raises(ApiError) as caught:
        threads.prepare(up, draft(), None)
    assert (caught.value.rule, caught.value.outcome) == ("threads.account.daily_cap", Outcome.REJECTED)
    assert "250 of 250" in caught.value.message


def test_a_quota_that_is_nearly_used_up_is_a_warning() -> None:
    ready, _ = walked(make_upstream(threads.PLATFORM, quota(200), make(TEXT), ask(), ask()), draft())
    assert [note.code for note in ready.warnings] == ["daily_cap_near"]


@pytest.mark.parametrize(
    "reply",
    [
        graph_refusal(1),
        graph_refusal(4),
        graph_refusal(10),
        make_response(200, {"data": []}),
        make_response(200, "<html>"),
        LOST,
        UNREACHED,
    ],
)
def test_an_unreadable_quota_stops_no_post(reply: UpstreamResponse | ApiError) -> None:
    walked(make_upstream(threads.PLATFORM, quota(reply=reply), make(TEXT), ask(), ask()), draft())


def test_container_published_by_an_earlier_attempt_is_not_repeated() -> None:
    up = make_upstream(
        threads.PLATFORM, quota(), make(TEXT), ask("PUBLISHED"), posts(make_response(200, {"data": [OURS]}))
    )
    saved = threads.prepare(up, draft(), None)
    assert isinstance(saved, Pending)
    ready = threads.prepare(up, draft(), saved.saved)
    assert isinstance(ready, Ready)
    assert threads.send(up, ready.plan) == POST
    check_finished(up)


PASSING = [
    LOST,
    UNREACHED,
    graph_refusal(2),
    graph_refusal(100, is_transient=True),
    make_response(503, b""),
    make_response(200, "<html>"),
]


@pytest.mark.parametrize("reply", PASSING)
def test_making_and_asking_are_tried_again_after_what_passes(reply: UpstreamResponse | ApiError) -> None:
    if isinstance(reply, UpstreamResponse) and reply.is_success:
        up = make_upstream(threads.PLATFORM, quota(), make(TEXT), ask(reply), ask(), ask())
    else:
        up = make_upstream(threads.PLATFORM, quota(), make(TEXT, reply), make(TEXT), ask(reply), ask(), ask())
    assert walked(up, draft())[0] == Ready(PLAN)


REFUSED = [
    # the answer to making a container: code, rule, tries
    (graph_refusal(190, 463), "platform_auth_failed", None, 1),
    (graph_refusal(190, 463, status=401), "platform_auth_failed", None, 1),
    (graph_refusal(10), "platform_auth_failed", None, 1),
    (graph_refusal(200, status=403), "platform_auth_failed", None, 1),
    (make_response(401, "<html>"), "platform_auth_failed", None, 1),
    (graph_refusal(100), "platform_rejected", None, 1),
    (graph_refusal(100, message="THREADS_API__LINK_LIMIT_EXCEEDED"), "platform_rejected", "threads.text.link_max", 1),
    (
        graph_refusal(100, message="Param text must be at most 500 characters long."),
        "platform_rejected",
        "threads.text.max_graphemes",
        1,
    ),
    (graph_refusal(4279013), "platform_rejected", "threads.account.restricted", 1),
    (graph_refusal(24, 2207051), "platform_rejected", "threads.account.restricted", 1),
    (graph_refusal(9, 2207042), "platform_rejected", "threads.account.daily_cap", 1),
    (
        graph_refusal(100, 2207052, "The media could not be fetched from this URI."),
        "platform_rejected",
        "threads.media.reachable",
        2,
    ),
    (graph_refusal(4), "platform_unavailable", None, 1),
    (graph_refusal(613, status=429), "platform_unavailable", None, 1),
    (make_response(429, b"", retry_after="7"), "platform_unavailable", None, 1),
    (graph_refusal(2500, status=401), "platform_auth_failed", None, 1),
    (graph_refusal(999), "platform_rejected", None, 1),
    (graph_refusal(999, status=500), "platform_unavailable", None, 4),
    (graph_refusal(1), "platform_unavailable", None, 4),
    (make_response(500, "<html>"), "platform_unavailable", None, 4),
    (LOST, "platform_unavailable", None, 4),
    (make_response(200, {"id": None}), "platform_unavailable", None, 4),
    (make_response(200, b'{"id": "9'), "platform_unavailable", None, 4),
]


@pytest.mark.parametrize(("reply", "code", "rule", "tries"), REFUSED)
def test_what_stops_a_container_is_sorted(
    reply: UpstreamResponse | ApiError, code: str, rule: str | None, tries: int
) -> None:
    up = make_upstream(threads.PLATFORM, quota(), *[make(TEXT, reply) for _ in range(tries)])
    with pytest.raises(ApiError) as caught:
        walked(up, draft())
    assert (caught.value.code, caught.value.rule) == (code, rule)
    assert "access-token-1" not in repr(vars(caught.value))
    check_finished(up)


def test_throttling_says_how_long() -> None:
    usage = '{"1": [{"type": "threads", "estimated_time_to_regain_access": 19}]}'
    reply = graph_refusal(4, headers={"x_business_use_case_usage": usage})
    with pytest.raises(ApiError) as caught:
        walked(make_upstream(threads.PLATFORM, quota(), make(TEXT, reply)), draft())
    assert (caught.value.outcome, caught.value.retry_after) == (Outcome.THROTTLED, 19 * 60)


FAILED = [
    ("INVALID_DURATION", "threads.container.error"),
    ("FAILED_PROCESSING_VIDEO", "threads.container.error"),
    ("UNKNOWN", "threads.container.error"),
    ("FAILED_DOWNLOADING_VIDEO", "threads.media.reachable"),
]


@pytest.mark.parametrize(("why", "rule"), FAILED)
def test_a_container_that_failed_is_made_anew_once_where_that_helps(why: str, rule: str) -> None:
    rounds = 2 if why in ("UNKNOWN", "FAILED_DOWNLOADING_VIDEO") else 1
    calls = [call for _ in range(rounds) for call in (make(TEXT), ask("ERROR", error_message=why))]
    up = make_upstream(threads.PLATFORM, quota(), *calls)
    with pytest.raises(ApiError) as caught:
        walked(up, draft())
    assert (caught.value.code, caught.value.status, caught.value.rule) == ("platform_rejected", 422, rule)
    assert caught.value.platform_response["body"]["error_message"] == why
    check_finished(up)


def test_an_expired_container_is_made_anew_once() -> None:
    again = [make(TEXT), ask("EXPIRED"), make(TEXT, "901"), ask("FINISHED", "901"), ask("FINISHED", "901")]
    assert walked(make_upstream(threads.PLATFORM, quota(), *again), draft())[0].plan["container"] == "901"
    twice = [make(TEXT), ask("EXPIRED"), make(TEXT), ask("EXPIRED")]
    with pytest.raises(ApiError) as caught:
        walked(make_upstream(threads.PLATFORM, quota(), *twice), draft())
    assert (caught.value.rule, caught.value.code) == ("threads.container.expired", "platform_unavailable")


def test_waiting_ends_and_later_attempts_use_the_same_container() -> None:
    up = make_upstream(threads.PLATFORM, quota(), make(TEXT), *[ask("IN_PROGRESS") for _ in range(16)])
    with pytest.raises(ApiError, match="within 5 minutes") as caught:
        walked(up, draft())
    assert (caught.value.code, caught.value.outcome) == ("platform_unavailable", Outcome.NOT_SENT)
    check_finished(up)


# --- Publishing ------------------------------------------------------------------------------------------------------


def send(*calls: ExpectedCall) -> Published:
    up = make_upstream(threads.PLATFORM, *calls)
    try:
        return threads.send(up, PLAN)
    finally:
        check_finished(up)


def test_the_container_is_published_by_one_call_and_its_address_read() -> None:
    assert (
        send(publish(make_response(200, {"id": "555"})), look(make_response(200, {"id": "555", "permalink": LINK})))
        == POST
    )
    assert send(publish(make_response(200, {"id": 555})), look(make_response(200, {"shortcode": "C1"}))) == POST


@pytest.mark.parametrize(
    "reply", [LOST, graph_refusal(190), graph_refusal(100, 33), make_response(200, {}), make_response(200, "<html>")]
)
def test_a_post_whose_address_cannot_be_read_is_published_all_the_same(reply: UpstreamResponse | ApiError) -> None:
    assert send(publish(make_response(200, {"id": "555"})), look(reply)) == Published("555")


MATRIX = [
    (LOST, "platform_unavailable", Outcome.AMBIGUOUS, None),
    (UNREACHED, "platform_unavailable", Outcome.NOT_SENT, None),
    (
        graph_refusal(24, 4279009, "The requested resource does not exist"),
        "platform_unavailable",
        Outcome.AMBIGUOUS,
        None,
    ),
    (graph_refusal(1), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(2, status=500), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(500, "<html>"), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(503, b""), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(200, "<html>"), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(200, b'{"id": "55'), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(200, {"id": None}), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(200, []), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(302, b"", location="https://elsewhere"), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(429, b"", retry_after="7"), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(999), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(4, status=429), "platform_unavailable", Outcome.THROTTLED, None),
    (graph_refusal(32), "platform_unavailable", Outcome.THROTTLED, None),
    (graph_refusal(190, 460), "platform_auth_failed", Outcome.REJECTED, None),
    (make_response(401, b""), "platform_auth_failed", Outcome.REJECTED, None),
    (graph_refusal(9, 2207042), "platform_rejected", Outcome.REJECTED, "threads.account.daily_cap"),
    (graph_refusal(1, 2207051), "platform_rejected", Outcome.REJECTED, "threads.account.restricted"),
    (graph_refusal(368), "platform_rejected", Outcome.REJECTED, "threads.account.restricted"),
]


@pytest.mark.parametrize(("reply", "code", "outcome", "rule"), MATRIX)
def test_every_answer_to_publishing_is_sorted(
    reply: UpstreamResponse | ApiError, code: str, outcome: Outcome, rule: str | None
) -> None:
    with pytest.raises(ApiError) as caught:
        send(publish(reply))
    error = caught.value
    assert (error.code, error.outcome, error.rule, error.stale_token) == (code, outcome, rule, False)
    assert "access-token-1" not in repr(vars(error))


def test_a_token_that_threads_repeats_is_not_shown() -> None:
    with pytest.raises(ApiError) as caught:
        send(publish(graph_refusal(190, message="bad token access-token-1")))
    assert caught.value.message == "Threads did not publish the post: bad token [hidden]"
    assert caught.value.platform_response["body"]["error"]["message"] == "bad token [hidden]"


# --- Settling --------------------------------------------------------------------------------------------------------


def settle(
    *calls: ExpectedCall, plan: dict[str, Any] = PLAN, bound: frozenset[str] = frozenset()
) -> Published | Absent | Unknown:
    up = make_upstream(threads.PLATFORM, *calls, bound=bound)
    found = threads.settle(up, plan, NOW)
    check_finished(up)
    return found


def page(*found: dict[str, Any], after: str = "") -> UpstreamResponse:
    paging = {"paging": {"cursors": {"after": after}, "next": "https://x/?access_token=t"}} if after else {}
    return make_response(200, {"data": list(found), **paging})


def test_a_finished_container_was_not_published() -> None:
    assert settle(ask()) == Absent({"status": 200, "body": {"id": "900", "status": "FINISHED"}})


def test_published_container_is_found_by_its_post_on_a_later_page() -> None:
    other = OURS | {"id": "1", "text": "other"}
    assert settle(ask("PUBLISHED"), posts(page(other, OURS))) == POST
    assert settle(ask("PUBLISHED"), posts(page(other, after="x")), posts(page(OURS), after="x")) == POST
    spaced = OURS | {"text": "hello\r\n"}
    assert settle(ask("PUBLISHED"), posts(page(spaced))) == POST


def test_a_reply_is_looked_for_among_the_replies() -> None:
    assert settle(ask("PUBLISHED"), posts(page(OURS), "replies"), plan=PLAN | {"list": "replies"}) == POST


NOT_OURS = [
    (),
    (OURS | {"text": "hello!"},),
    (OURS | {"media_type": "IMAGE"},),
    (OURS | {"timestamp": "2026-11-20T09:08:08+0000"},),
    (OURS | {"timestamp": "soon"},),
    (OURS | {"id": None},),
    (OURS, OURS | {"id": "556"}),
]


@pytest.mark.parametrize("found", NOT_OURS)
def test_published_container_without_a_certain_post_has_no_address(
    found: tuple[dict[str, Any], ...],
) -> None:
    assert settle(ask("PUBLISHED"), posts(page(*found))) == Published("container:900")


def test_a_post_that_is_anothers_is_never_taken() -> None:
    assert settle(ask("PUBLISHED"), posts(page(OURS)), bound=frozenset({"555"})) == Published("container:900")


def test_a_list_without_an_end_is_not_read_for_ever_and_proves_nothing() -> None:
    first = posts(page(OURS, after="0"))
    more = [posts(page(OURS | {"id": "1", "text": "x"}, after="0"), after="0") for _ in range(19)]
    assert settle(ask("PUBLISHED"), first, *more) == Published("container:900")


@pytest.mark.parametrize("status", ["ERROR", "EXPIRED"])
def test_container_in_another_end_state_is_unknown_unless_posted(status: str) -> None:
    assert settle(ask(status), posts(page(OURS))) == POST
    found = settle(ask(status), posts(page()))
    assert isinstance(found, Unknown)
    assert found.final


@pytest.mark.parametrize(
    "reply", [LOST, graph_refusal(100, 33), graph_refusal(190), make_response(200, "<html>"), make_response(500, b"")]
)
def test_a_status_that_cannot_be_read_is_worth_another_look(reply: UpstreamResponse | ApiError) -> None:
    assert settle(ask(reply), posts(page(OURS))) == POST
    for listed in (page(), LOST, make_response(200, {"data": "x"})):
        found = settle(ask(reply), posts(listed))
        assert isinstance(found, Unknown)
        assert not found.final


def test_a_container_that_is_on_its_way_is_unknown() -> None:
    assert settle(ask("IN_PROGRESS")) == Unknown({"status": 200, "body": {"id": "900", "status": "IN_PROGRESS"}})


# --- Connecting ------------------------------------------------------------------------------------------------------

JSON = {"Accept": "application/json"}
EXCHANGE = {"grant_type": "th_exchange_token", "client_secret": "app-secret-1", "access_token": "short-token"}
RENEW = {"grant_type": "th_refresh_token", "access_token": "access-token-1"}
LONG = make_response(200, {"access_token": "long-token", "token_type": "bearer", "expires_in": 5_183_944})
ENDS = NOW + 5_183_944_000


BEARER = {"Authorization": "Bearer long-token"}
ALL = ["threads_basic", "threads_content_publish", "threads_manage_replies"]


def granted(*scopes: str) -> UpstreamResponse:
    return make_response(200, {"data": {"type": "USER", "is_valid": True, "scopes": list(scopes), "user_id": "1784"}})


def login(told: UpstreamResponse | ApiError, *more: ExpectedCall) -> Upstream:
    """A fresh login whose token is exchanged, and asked about by name (`told`)."""
    return make_upstream(
        threads.PLATFORM,
        ExpectedCall("GET", f"{HOST}/access_token", LONG, headers=JSON, params=EXCHANGE),
        ExpectedCall("GET", f"{API}/debug_token", told, headers=BEARER, params={"input_token": "long-token"}),
        *more,
        tokens=Tokens("short-token", private={"scopes": ALL}),
    )


PROFILE = ExpectedCall(
    "GET",
    f"{API}/me",
    make_response(200, {"id": "1784", "username": "alice", "name": "Alice A."}),
    headers=BEARER,
    params={"fields": "id,username,name"},
)


@pytest.mark.parametrize(
    ("told", "scopes"),
    [
        (granted(*ALL[:2]), ALL[:2]),
        (granted(*ALL, "threads_delete"), [*ALL, "threads_delete"]),
        (granted(), ALL),
        (make_response(200, {"data": {"scopes": "threads_basic"}}), ALL),
        (make_response(200, {"data": []}), ALL),
        (make_response(200, "<html>"), ALL),
        (make_response(503, {"data": {"scopes": ["threads_basic"]}}), ALL),
        (graph_refusal(10, status=403), ALL),
        (LOST, ALL),
        (UNREACHED, ALL),
    ],
)
def test_login_offers_one_profile_with_a_60_day_token_and_its_scopes(
    told: UpstreamResponse | ApiError, scopes: list[str]
) -> None:
    up = login(told, PROFILE)
    tokens = Tokens("long-token", "long-token", ENDS, {"scopes": scopes})
    assert threads.identify(up, NOW) == (
        OfferedAccount(AccountIdentity("1784", "Alice A.", {"username": "alice"}), tokens, "person"),
    )
    check_finished(up)


@pytest.mark.parametrize("declined", ["threads_basic", "threads_content_publish"])
def test_login_without_a_publishing_scope_is_refused_by_name(declined: str) -> None:
    up = login(granted(*(scope for scope in ALL if scope != declined)))
    with pytest.raises(ApiError, match=f"Threads did not grant {declined}.") as caught:
        threads.identify(up, NOW)
    assert caught.value.code == "platform_auth_failed"
    check_finished(up)


def refresh(*calls: ExpectedCall) -> Tokens:
    up = make_upstream(threads.PLATFORM, *calls)
    try:
        return threads.refresh(up, NOW)
    finally:
        check_finished(up)


def renewal(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("GET", f"{HOST}/refresh_access_token", reply, headers=JSON, params=RENEW)


def me(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("GET", f"{API}/me", reply, params={"fields": "id"})


def test_a_token_is_renewed_by_itself() -> None:
    fresh = refresh(renewal(LONG))
    assert (fresh.access, fresh.refresh, fresh.expires_at_ms) == ("long-token", "long-token", ENDS)


@pytest.mark.parametrize(
    ("reply", "alive", "code"),
    [
        (graph_refusal(190, 463), graph_refusal(190, 463), "platform_auth_failed"),
        (graph_refusal(100), make_response(200, {"id": "1784"}), "platform_unavailable"),
        (graph_refusal(2), None, "platform_unavailable"),
        (graph_refusal(4), None, "platform_unavailable"),
        (make_response(500, b""), None, "platform_unavailable"),
        (make_response(200, "<html>"), None, "platform_unavailable"),
        (LOST, None, "platform_unavailable"),
    ],
)
def test_only_a_token_that_is_over_asks_for_a_new_connection(
    reply: UpstreamResponse | ApiError, alive: UpstreamResponse | None, code: str
) -> None:
    with pytest.raises(ApiError) as caught:
        refresh(renewal(reply), *([me(alive)] if alive else []))
    assert caught.value.code == code
    assert "access-token-1" not in repr(vars(caught.value))


# --- Rules -----------------------------------------------------------------------------------------------------------

LINKS = " ".join(f"https://a.example/{n}" for n in range(5))
RULE_CASES: Cases = {
    "threads.text.required": NO_TEXT,
    "threads.text.max_graphemes": (
        [
            scene("a" * 500),
            scene("日" * 500),
            scene("🎉" * 125),
            scene(FAMILY * 20),
            scene("e\u0301" * 500),
            scene("☺" * 500),
        ],
        [
            scene("a" * 501),
            scene("🎉" * 125 + "a"),
            scene(FAMILY * 20 + "a"),
            scene("🇩🇪" * 63),
            scene("1\ufe0f\u20e3" * 72),
        ],
    ),
    "threads.text.link_max": (
        [
            scene(" ".join(f"https://a.example/{n}" for n in range(5)) + " https://a.example/1. (https://a.example/2)"),
            scene("a.example " * 6),
            scene(LINKS, options={"linkAttachment": "https://a.example/4"}),
        ],
        [
            scene(" ".join(f"http://a.example/{n}" for n in range(6))),
            scene(LINKS, options={"linkAttachment": "https://a.example/5"}),
        ],
    ),
    "threads.topic_tag.max_graphemes": ([option("topicTag", FAMILY * 50)], [option("topicTag", "a" * 51)]),
    "threads.topic_tag.format": (
        [option("topicTag", "Cats, dogs #1")],
        [option("topicTag", tag) for tag in ("", BLANK, "a.b", "a & b")],
    ),
    "threads.link_attachment.http": (
        [option("linkAttachment", "HTTP://a.example"), scene()],
        [option("linkAttachment", "ftp://a.example/x"), option("linkAttachment", "https://")],
    ),
    "threads.link_attachment.text_only": (
        [option("linkAttachment", "https://a.example"), scene("", PIC)],
        [option("linkAttachment", "https://a.example", PIC), option("linkAttachment", "https://a.example", CLIP)],
    ),
    "threads.media.count_max": ([scene("", *images(19), CLIP)], [scene("", *images(20), CLIP)]),
    "threads.media.alt_text_max_graphemes": (
        [alt("a" * 1000), alt("a" * 1000, CLIP)],
        [alt("a" * 1001), alt("a" * 1001, CLIP)],
    ),
    "threads.media.url_public": PUBLIC,
    "threads.media.mime_allowed": kinds("jpeg png mp4 quicktime", "webp gif webm"),
    "threads.media.image_size_max": photo_bytes(8 * MIB),
    "threads.media.aspect_ratio": shape(photo, [(100, 1000), (10_100, 1000)], [(98, 1000), (10_101, 1000)]),
    "threads.media.video_size_max": clip_bytes(GIB),
    "threads.video.too_long": longest(300_000),
    "threads.video.codec": AVC_AAC,
    "threads.video.frame_rate": RATE,
    "threads.video.width_max": WIDTH,
    "threads.video.bitrate_max": ([clip(bit_rate=100_000_000)], [clip(bit_rate=100_000_001)]),
    "threads.video.aspect_ratio": WIDE_AND_HIGH,
}
"""For every row with a check: drafts that pass it and drafts that break it; `test_rules` runs them."""
