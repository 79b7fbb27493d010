"""Pinterest connector: exact calls for each pin kind, answers, uploads, lookups."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import CALL_SECONDS, UPLOAD_SECONDS, UpstreamResponse
from socialpub.platforms.contract import (
    Absent,
    AccountIdentity,
    Board,
    Draft,
    DraftMedia,
    MediaFacts,
    OfferedAccount,
    Pending,
    Published,
    Ready,
    Tokens,
    Unknown,
)
from socialpub.platforms.kit import oauth
from socialpub.platforms.pinterest import connector as pinterest
from socialpub.platforms.pinterest import media
from socialpub.platforms.pinterest.declaration import PLATFORM, PUBLIC, SCOPES, PinterestSite
from tests.support.platforms.pinterest_calls import BOARD, HOST, STORE, make_refusal, make_upstream
from tests.support.platforms.scripted_upstream import (
    AUTH,
    BOUNDARY,
    LOST,
    NONCE,
    NOW,
    UNREACHED,
    ExpectedCall,
    check_finished,
    make_response,
)

URL = "https://www.pinterest.com/pin/813744226420795884/"
PIN = "813744226420795884"
POST = Published(PIN, URL, None, URL)
CREATED = make_response(201, {"id": PIN, "link": "https://example.com"})
MEDIA = "5212123920968240771"
PLAN = {"pin": {"board_id": BOARD, "description": "hello"}, "source": {"source_type": "image_url", "url": "u"}}


def draft(*items: DraftMedia, text: str = "hello", **options: Any) -> Draft:
    return Draft(text, items=items, options=options, now_ms=NOW, nonce=NONCE)


def file(folder: Path, name: str, content: bytes, kind: str = "image/jpeg", alt: str | None = None) -> DraftMedia:
    (folder / name).write_bytes(content)
    medium = "video" if kind.startswith("video/") else "image"
    return DraftMedia(
        medium,
        alt,  # type: ignore[arg-type]
        f"https://cdn.example.com/{name}",
        facts=MediaFacts(kind, len(content)),
        path=folder / name,
    )


def creating(body: Any, reply: UpstreamResponse | ApiError, timeout: float = CALL_SECONDS) -> ExpectedCall:
    content = json.dumps(body).encode()
    headers = AUTH | {"Content-Type": "application/json", "Content-Length": str(len(content))}
    return ExpectedCall("POST", f"{HOST}/pins", reply, headers=headers, content=content, timeout=timeout)


def send(plan: dict[str, Any], *calls: ExpectedCall) -> Published:
    up = make_upstream(*calls)
    try:
        return pinterest.send(up, plan)
    finally:
        check_finished(up)


def plan_of(content: Draft) -> dict[str, Any]:
    """What images come to: no call is made."""
    ready = pinterest.prepare(make_upstream(), content, None)
    assert isinstance(ready, Ready)
    assert ready.warnings == ()
    return json.loads(json.dumps(ready.plan))  # type: ignore[no-any-return]


# --- Images ----------------------------------------------------------------------------------------------------------


def inline(content: bytes, kind: str = "image/jpeg") -> dict[str, str]:
    return {"content_type": kind, "data": base64.b64encode(content).decode()}


def test_an_image_travels_in_the_call_that_creates_the_pin(tmp_path: Path) -> None:
    content = draft(
        file(tmp_path, "a", b"picture", alt="ein “Kätzchen”"),
        text="hellö\n“world”",
        title="Cats",
        destinationUrl="https://example.com/?a=1",
        boardId="12",
    )
    body = {
        "board_id": "12",
        "title": "Cats",
        "description": "hellö\n“world”",
        "link": "https://example.com/?a=1",
        "alt_text": "ein “Kätzchen”",
        "media_source": {"source_type": "image_base64", **inline(b"picture")},
    }
    assert send(plan_of(content), creating(body, CREATED, UPLOAD_SECONDS)) == POST


def test_a_pin_without_words_names_only_its_board_and_image(tmp_path: Path) -> None:
    body = {"board_id": BOARD, "media_source": {"source_type": "image_base64", **inline(b"p", "image/png")}}
    plan = plan_of(draft(file(tmp_path, "a", b"p", "image/png"), text=""))
    assert send(plan, creating(body, make_response(200, {"id": int(PIN)}), UPLOAD_SECONDS)) == POST


@pytest.mark.parametrize("count", [2, 5])
def test_several_images_travel_together_in_their_order(tmp_path: Path, count: int) -> None:
    items = [file(tmp_path, f"{n}", b"picture" * n, alt=f"alt {n}") for n in range(1, count + 1)]
    source = {
        "source_type": "multiple_image_base64",
        "items": [inline(b"picture" * n) for n in range(1, count + 1)],
    }
    body = {"board_id": BOARD, "description": "hello", "alt_text": "alt 1", "media_source": source}
    assert send(plan_of(draft(*items)), creating(body, CREATED, UPLOAD_SECONDS)) == POST


@pytest.mark.parametrize("kind", ["image/webp", "image/gif"])
def test_what_bytes_may_not_be_is_named_by_its_address(tmp_path: Path, kind: str) -> None:
    first, second = file(tmp_path, "a", b"a", kind), file(tmp_path, "b", b"b")
    url = "https://cdn.example.com/"
    one = {"source_type": "image_url", "url": f"{url}a"}
    words = {"board_id": BOARD, "description": "hello"}
    assert send(plan_of(draft(first)), creating(words | {"media_source": one}, CREATED)) == POST
    both = {"source_type": "multiple_image_urls", "items": [{"url": f"{url}a"}, {"url": f"{url}b"}]}
    assert send(plan_of(draft(first, second)), creating(words | {"media_source": both}, CREATED)) == POST


def test_a_plan_holds_no_bytes(tmp_path: Path) -> None:
    plan = plan_of(draft(file(tmp_path, "a", b"p" * 1_000_000)))
    assert len(json.dumps(plan)) < 1000


@settings(deadline=None, max_examples=30)
@given(sizes=st.lists(st.integers(0, 3 * 65_536 + 4), min_size=1, max_size=3), text=st.text(max_size=20))
def test_the_streamed_body_is_the_json_and_as_long_as_announced(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], text: str
) -> None:
    folder = tmp_path_factory.mktemp("s")
    contents = [bytes(n % 251 for n in range(size)) for size in sizes]
    items = [file(folder, str(place), content) for place, content in enumerate(contents)]
    body = media.build_body({"board_id": "1", "description": text}, media.build_source(items))
    sent = b"".join(media.stream(body))
    source = json.loads(sent)["media_source"]
    assert len(sent) == media.count_bytes(body)
    assert json.loads(sent)["description"] == text
    assert [base64.b64decode(each["data"]) for each in source.get("items", [source])] == contents


def test_a_pin_without_a_board_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ApiError) as caught:
        pinterest.prepare(make_upstream(extra={}), draft(file(tmp_path, "a", b"p")), None)
    assert (caught.value.rule, caught.value.outcome) == ("pinterest.board.required", Outcome.REJECTED)


# --- Videos ----------------------------------------------------------------------------------------------------------

FORM = {"x-amz-date": "20261120T120000Z", "key": "uploads/11", "policy": "secret-policy", "Content-Type": "multipart"}
OPENED = make_response(201, {"media_id": MEDIA, "media_type": "video", "upload_url": STORE, "upload_parameters": FORM})
XML = b"<?xml version='1.0'?><Error><Code>EntityTooLarge</Code><Signature>secret</Signature></Error>"


def register(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("POST", f"{HOST}/media", reply, json={"media_type": "video"})


def put(content: bytes, reply: UpstreamResponse | ApiError) -> ExpectedCall:
    """The signed form, then the file; without a token (the store refuses a call with two kinds of credentials)."""
    start = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name="
    fields = "".join(f'{start}"{name}"\r\n\r\n{value}\r\n' for name, value in FORM.items())
    head = f'{fields}{start}"file"; filename="video"\r\nContent-Type: video/mp4\r\n\r\n'
    body = head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}", "Content-Length": str(len(body))}
    return ExpectedCall("POST", STORE, reply, headers=headers, content=body, timeout=UPLOAD_SECONDS)


def status(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("GET", f"{HOST}/media/{MEDIA}", reply)


def state(name: str) -> UpstreamResponse:
    return make_response(200, {"media_id": MEDIA, "media_type": "video", "status": name})


@pytest.fixture
def film(tmp_path: Path) -> DraftMedia:
    return file(tmp_path, "v", b"film" * 100_000, "video/mp4", "a cat runs")


def prepared(
    content: Draft, *calls: ExpectedCall, store: tuple[ExpectedCall, ...] = (), saved: dict[str, Any] | None = None
) -> Ready | Pending:
    up = make_upstream(*calls, store=store)
    try:
        return pinterest.prepare(up, content, saved)
    finally:
        check_finished(up)


def progress(**changes: Any) -> dict[str, Any]:
    return {"media": MEDIA, "waited": 0.0, "wait": 2.0, "misses": 0} | changes


def test_video_is_uploaded_by_signed_form_processed_then_pinned(film: DraftMedia) -> None:
    content = draft(film, coverImageUrl="https://example.com/c.jpg")
    first = prepared(content, register(OPENED), store=(put(b"film" * 100_000, make_response(204, b"")),))
    assert first == Pending(progress(), 2.0)
    later = prepared(content, status(state("registered")), saved=progress())
    assert later == Pending(progress(waited=2.0, wait=2.5), 2.0)
    later = prepared(content, status(state("processing")), saved=later.saved)
    assert later == Pending(progress(waited=4.5, wait=3.125), 2.5)
    ready = prepared(content, status(state("succeeded")), saved=later.saved)
    assert isinstance(ready, Ready)
    source = {"source_type": "video_id", "media_id": MEDIA, "cover_image_url": "https://example.com/c.jpg"}
    body = {"board_id": BOARD, "description": "hello", "alt_text": "a cat runs", "media_source": source}
    assert send(ready.plan, creating(body, CREATED)) == POST


def test_a_video_without_a_cover_has_its_first_frame(film: DraftMedia) -> None:
    ready = prepared(draft(film), status(state("succeeded")), saved=progress())
    assert isinstance(ready, Ready)
    assert ready.plan["source"] == {"source_type": "video_id", "media_id": MEDIA, "cover_image_key_frame_time": 0}


def test_the_signed_form_is_never_kept(film: DraftMedia) -> None:
    found = prepared(draft(film), register(OPENED), store=(put(b"film" * 100_000, make_response(204, b"")),))
    assert isinstance(found, Pending)
    assert "secret" not in json.dumps(found.saved)


def error_of(
    content: Draft, *calls: ExpectedCall, store: tuple[ExpectedCall, ...] = (), saved: dict[str, Any]
) -> ApiError:
    with pytest.raises(ApiError) as caught:
        prepared(content, *calls, store=store, saved=saved)
    return caught.value


BROKEN_REGISTERS = [
    make_refusal(500, 500),
    make_refusal(503, 503),
    make_response(502, "<html>bad gateway</html>"),
    make_refusal(400, 1),
    make_response(201, b'{"media_id": "52'),
    make_response(201, {"media_id": MEDIA, "media_type": "video"}),
    LOST,
    UNREACHED,
]


@pytest.mark.parametrize("reply", BROKEN_REGISTERS)
def test_an_upload_that_does_not_open_is_tried_again_and_then_told(
    film: DraftMedia, reply: UpstreamResponse | ApiError
) -> None:
    again = prepared(draft(film), register(reply))
    assert again == Pending(progress(media="", misses=1), 5.0)
    error = error_of(draft(film), register(reply), saved=progress(media="", misses=3))
    assert (error.code, error.rule, error.outcome) == (
        "platform_unavailable",
        "pinterest.media.register_failed",
        Outcome.NOT_SENT,
    )


@pytest.mark.parametrize(
    "reply", [make_response(400, XML), make_response(403, XML), make_response(503, b""), LOST, UNREACHED]
)
def test_lost_bytes_are_uploaded_anew_and_then_given_up(film: DraftMedia, reply: UpstreamResponse | ApiError) -> None:
    store = (put(b"film" * 100_000, reply),)
    again = prepared(draft(film), register(OPENED), store=store)
    assert again == Pending(progress(media="", misses=1), 5.0)
    error = error_of(draft(film), register(OPENED), store=store, saved=progress(media="", misses=3))
    assert (error.code, error.rule, error.outcome) == (
        "platform_unavailable",
        "pinterest.video.upload_failed",
        Outcome.NOT_SENT,
    )
    assert "secret" not in f"{error.message} {error.platform_response}"


@pytest.mark.parametrize(
    "reply", [make_refusal(500, 500), make_refusal(404, 404), make_response(200, "<html>"), state("puzzled"), LOST]
)
def test_unreadable_status_is_requested_again_and_then_given_up(
    film: DraftMedia, reply: UpstreamResponse | ApiError
) -> None:
    again = prepared(draft(film), status(reply), saved=progress(waited=9.0))
    assert again == Pending(progress(waited=9.0, misses=1), 5.0)
    error = error_of(draft(film), status(reply), saved=progress(misses=3))
    assert (error.code, error.rule) == ("platform_unavailable", "pinterest.media.status_unavailable")


def test_a_readable_status_forgives_the_misses(film: DraftMedia) -> None:
    found = prepared(draft(film), status(state("processing")), saved=progress(misses=3))
    assert found == Pending(progress(waited=2.0, wait=2.5), 2.0)


def test_failed_video_is_refused_and_a_slow_one_is_not_sent(film: DraftMedia) -> None:
    error = error_of(draft(film), status(state("failed")), saved=progress())
    assert (error.code, error.rule, error.outcome) == (
        "platform_rejected",
        "pinterest.video.transcode_failed",
        Outcome.REJECTED,
    )
    error = error_of(draft(film), status(state("processing")), saved=progress(waited=598.0, wait=5.0))
    assert (error.code, error.rule, error.outcome) == (
        "platform_unavailable",
        "pinterest.video.transcode_timeout",
        Outcome.NOT_SENT,
    )


@pytest.mark.parametrize("step", ["register", "status"])
def test_a_stale_token_is_told_at_every_step_of_a_video(film: DraftMedia, step: str) -> None:
    call = register(make_refusal(401, 2)) if step == "register" else status(make_refusal(401, 2))
    error = error_of(draft(film), call, saved=progress(media="" if step == "register" else MEDIA))
    assert (error.code, error.stale_token) == ("platform_auth_failed", True)


def test_a_throttled_upload_waits_as_long_as_pinterest_says(film: DraftMedia) -> None:
    error = error_of(
        draft(film), register(make_refusal(429, 8, headers={"x-ratelimit-reset": "17"})), saved=progress(media="")
    )
    assert (error.outcome, error.retry_after) == (Outcome.THROTTLED, 17)


# --- Answers ---------------------------------------------------------------------------------------------------------

SOURCES: dict[str, dict[str, Any]] = {
    "fetched": {"source_type": "image_url", "url": "u"},
    "several_fetched": {"source_type": "multiple_image_urls", "items": [{"url": "u"}, {"url": "v"}]},
    "video": {"source_type": "video_id", "media_id": MEDIA, "cover_image_key_frame_time": 0},
    "covered": {"source_type": "video_id", "media_id": MEDIA, "cover_image_url": "c"},
}
REACH = "Unable to reach the URL. Please check the URL and try again."
TRIAL = "Apps with Trial access may not create Pins in production https://api.pinterest.com - use API Sandbox"
COVER = "Invalid request: cover_image_url or cover_image_content_type is required."
REFUSED, AUTHED, GONE = "platform_rejected", "platform_auth_failed", "platform_unavailable"
R, A, T = Outcome.REJECTED, Outcome.AMBIGUOUS, Outcome.THROTTLED

ANSWERS: list[tuple[str, UpstreamResponse | ApiError, str, str | None, Outcome]] = [
    ("fetched", make_refusal(400, 1, "'x' does not match '^\\d+$'"), REFUSED, None, R),
    ("fetched", make_refusal(400, 1, REACH), GONE, "pinterest.image_url.reachable", R),
    ("several_fetched", make_refusal(400, 1, REACH), GONE, "pinterest.image_url.reachable", R),
    (
        "several_fetched",
        make_refusal(400, 1, "'multiple_image_urls' is no source_type"),
        REFUSED,
        "pinterest.media.single_only",
        R,
    ),
    ("several_fetched", make_refusal(400, 1, "description, constraint: maxLength=800"), REFUSED, None, R),
    ("video", make_refusal(400, 1, COVER), REFUSED, "pinterest.video.cover_required", R),
    ("covered", make_refusal(400, 1, COVER), REFUSED, "pinterest.cover_image_url.reachable", R),
    ("covered", make_refusal(400, 1, REACH), REFUSED, "pinterest.cover_image_url.reachable", R),
    ("fetched", make_refusal(401, 2, "Authentication failed."), AUTHED, None, R),
    ("fetched", make_refusal(401, 3), AUTHED, None, R),
    (
        "fetched",
        make_refusal(401, 3, "Your application consumer type is not supported"),
        REFUSED,
        "pinterest.access.trial",
        R,
    ),
    ("fetched", make_refusal(401, 7), REFUSED, "pinterest.board.not_writable", R),
    ("fetched", make_refusal(403, 3), AUTHED, None, R),
    ("fetched", make_refusal(403, 29, "You are not permitted to access that resource."), AUTHED, None, R),
    ("fetched", make_refusal(403, 29, TRIAL), REFUSED, "pinterest.access.trial", R),
    ("fetched", make_refusal(403, 403), REFUSED, None, R),
    ("fetched", make_refusal(404, 40, "Board not found."), REFUSED, "pinterest.board.unknown", R),
    ("fetched", make_refusal(404, 404, "Board not found."), REFUSED, "pinterest.board.unknown", R),
    ("fetched", make_refusal(404, 2031), REFUSED, "pinterest.board_section.unknown", R),
    ("fetched", make_refusal(409, 409), GONE, None, A),
    ("fetched", make_refusal(413, 413), REFUSED, None, R),
    ("fetched", make_refusal(429, 8), GONE, None, T),
    ("fetched", make_refusal(429, 8, message_detail="blocked for spam"), REFUSED, "pinterest.account.spam_blocked", R),
    ("fetched", make_refusal(500, 500), GONE, None, A),
    ("fetched", make_refusal(503, 503), GONE, None, A),
    ("fetched", make_response(302, b""), GONE, None, A),
    ("fetched", make_response(502, "<html>"), GONE, None, A),
    ("fetched", make_response(200, "<html>"), GONE, None, A),
    ("fetched", make_response(201, b'{"id": "81'), GONE, None, A),
    ("fetched", make_response(201, ["unexpected"]), GONE, None, A),
    ("fetched", make_response(201, {"link": "https://example.com"}), GONE, None, A),
    ("fetched", LOST, GONE, None, A),
    ("fetched", UNREACHED, GONE, None, Outcome.NOT_SENT),
]


@pytest.mark.parametrize(("step", "reply", "code", "rule", "outcome"), ANSWERS)
def test_every_answer_to_a_pin_means_what_the_table_says(
    step: str, reply: UpstreamResponse | ApiError, code: str, rule: str | None, outcome: Outcome
) -> None:
    plan = PLAN | {"source": SOURCES[step]}
    with pytest.raises(ApiError) as caught:
        send(plan, creating({**PLAN["pin"], "media_source": SOURCES[step]}, reply))
    error = caught.value
    assert (error.code, error.rule, error.outcome) == (code, rule, outcome)
    assert error.stale_token == (isinstance(reply, UpstreamResponse) and reply.record().get("code") == 2)
    if isinstance(reply, UpstreamResponse) and not reply.is_success:
        assert error.platform_response["status"] == reply.status_code
        assert (error.platform, error.platform_version) == ("pinterest", "v5")
    if rule or code == AUTHED:
        assert error.remediation


def test_every_public_step_is_tried() -> None:
    assert set(SOURCES) <= set(PUBLIC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "9"}, 9),
        ({"x-ratelimit-reset": "31"}, 31),
        ({"retry-after": "9", "x-ratelimit-reset": "31"}, 9),
        ({"x-ratelimit-reset": "1795165809"}, None),
        ({"x-ratelimit-reset": "soon"}, None),
        ({"x-ratelimit-reset": "0"}, None),
    ],
)
def test_a_throttled_pin_may_be_sent_when_pinterest_says(headers: dict[str, str], seconds: int | None) -> None:
    with pytest.raises(ApiError) as caught:
        send(PLAN, creating({**PLAN["pin"], "media_source": PLAN["source"]}, make_refusal(429, 8, headers=headers)))
    assert caught.value.retry_after == seconds


def test_no_secret_is_repeated_in_an_error() -> None:
    reply = make_refusal(400, 1, "access-token-1 and refresh-token-1 and app-secret-1")
    with pytest.raises(ApiError) as caught:
        send(PLAN, creating({**PLAN["pin"], "media_source": PLAN["source"]}, reply))
    shown = f"{caught.value.message} {caught.value.platform_response}"
    assert shown.count("[hidden]") == 6
    assert not any(secret in shown for secret in ("access-token-1", "refresh-token-1", "app-secret-1"))


# --- Looking ---------------------------------------------------------------------------------------------------------


def seen(**changes: Any) -> dict[str, Any]:
    body = {"id": PIN, "created_at": "2026-11-20T09:10:12", "description": "hello", "title": None, "link": ""}
    return body | {"is_owner": True, "creative_type": "REGULAR", "parent_pin_id": None} | changes


def look(*pins: Any, mark: str | None = None, after: str = "") -> ExpectedCall:
    params = {"page_size": "25"} | ({"bookmark": after} if after else {})
    return ExpectedCall(
        "GET", f"{HOST}/boards/{BOARD}/pins", make_response(200, {"items": list(pins), "bookmark": mark}), params=params
    )


def settled(*calls: ExpectedCall, plan: dict[str, Any] = PLAN, bound: frozenset[str] = frozenset()) -> Any:
    up = make_upstream(*calls, bound=bound)
    try:
        return pinterest.settle(up, plan, NOW)
    finally:
        check_finished(up)


def test_a_pin_of_a_section_is_looked_up_in_the_section() -> None:
    path, there = f"{HOST}/boards/{BOARD}/sections/5195/pins", make_response(200, {"items": [seen()], "bookmark": None})
    plan = PLAN | {"pin": PLAN["pin"] | {"board_section_id": "5195"}}
    assert settled(ExpectedCall("GET", path, there, params={"page_size": "25"}), plan=plan) == POST


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"created_at": "2026-11-20T09:08:10"},  # two minutes before the send, by a clock that is behind
        {"created_at": "2026-11-20T10:10:12+01:00"},
        {"created_at": "2026-11-20T09:10:12Z"},
        {"description": "hello \r\n"},
        {"creative_type": None},
        {"id": int(PIN)},
    ],
)
def test_the_pin_that_says_the_same_is_found(changes: dict[str, Any]) -> None:
    assert settled(look(seen(**changes))) == POST


@pytest.mark.parametrize(
    "changes",
    [
        {"created_at": "2026-11-20T09:08:09"},
        {"is_owner": False},
        {"is_owner": None},
        {"description": "Hello"},
        {"title": "hello"},
        {"link": "https://example.com"},
        {"alt_text": "a cat"},
        {"creative_type": "VIDEO"},
        {"parent_pin_id": "5"},
    ],
)
def test_a_pin_that_differs_is_never_taken_for_ours(changes: dict[str, Any]) -> None:
    assert isinstance(settled(look(seen(**changes))), Absent)


@pytest.mark.parametrize("id", [None, "", "1" * 2_000, "1\n"])
def test_a_pin_without_a_usable_id_does_not_count_as_absent(id: str | None) -> None:
    with pytest.raises(ApiError, match="The post id from the platform cannot be used"):
        settled(look(seen(id=id)))


def test_a_pin_of_another_post_is_never_taken_for_ours() -> None:
    assert isinstance(settled(look(seen()), bound=frozenset({PIN})), Absent)


def test_two_that_could_be_ours_are_told_and_not_chosen_between() -> None:
    assert settled(look(seen(), seen(id="2"))) == Unknown({"looked": 2, "alike": 2})


def test_a_pin_without_words_cannot_be_told_apart() -> None:
    plan = PLAN | {"pin": {"board_id": BOARD}}
    assert settled(look(seen(description=None)), plan=plan) == Unknown({"looked": 1, "alike": 1})
    assert settled(look(), plan=plan) == Absent({"looked": 0, "alike": 0})


def test_pages_are_read_back_to_where_older_pins_begin() -> None:
    old = seen(id="1", created_at="2026-11-19T09:10:12")
    young = seen(id="2", description="another")
    pages = (look(young, mark="b1"), look(young, seen(), old, mark="b2", after="b1"), look(old, mark="b3", after="b2"))
    assert settled(*pages) == POST


def test_what_lies_behind_too_many_pages_is_unknown() -> None:
    young = seen(id="2", description="another")
    pages = [look(young, mark="m", after="" if n == 0 else "m") for n in range(20)]
    assert settled(*pages) == Unknown({"looked": 20, "alike": 0})


@pytest.mark.parametrize(
    "reply", [make_refusal(500, 500), make_refusal(404, 40), make_response(200, "<html>"), make_response(200, {}), LOST]
)
def test_a_board_that_cannot_be_read_says_nothing(reply: UpstreamResponse | ApiError) -> None:
    with pytest.raises(ApiError):  # the protocol looks again, with a fresh token if this one has ended
        settled(replace(look(), reply=reply))


# --- Connecting ------------------------------------------------------------------------------------------------------

ME = ExpectedCall("GET", f"{HOST}/user_account", LOST)


@pytest.mark.parametrize(
    ("body", "who", "kind"),
    [
        (
            {"id": "278", "username": "ann", "business_name": "Ann & Co", "account_type": "BUSINESS"},
            AccountIdentity("278", "Ann & Co"),
            "business",
        ),
        (
            {"id": "278", "username": "ann", "business_name": None, "account_type": "PINNER"},
            AccountIdentity("278", "ann"),
            "pinner",
        ),
        ({"username": "ann"}, AccountIdentity("ann", "ann"), ""),
    ],
)
def test_a_login_is_one_account(body: dict[str, Any], who: AccountIdentity, kind: str) -> None:
    up = make_upstream(replace(ME, reply=make_response(200, body)))
    assert pinterest.identify(up, NOW) == (OfferedAccount(who, up.tokens, kind),)
    check_finished(up)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (make_response(200, {}), GONE),
        (make_response(200, "<html>"), GONE),
        (make_refusal(401, 2), AUTHED),
        (make_refusal(403, 29), AUTHED),
        (make_refusal(500, 500), GONE),
        (make_refusal(429, 8), GONE),
    ],
)
def test_a_login_that_says_nobodys_name_is_no_account(reply: UpstreamResponse, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        pinterest.identify(make_upstream(replace(ME, reply=reply)), NOW)
    assert caught.value.code == code


BASIC = {"Accept": "application/json", "Authorization": "Basic YXBwLTE6YXBwLXNlY3JldC0x"}


def renewal(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    form = {"grant_type": "refresh_token", "refresh_token": "refresh-token-1"}
    return ExpectedCall("POST", f"{HOST}/oauth/token", reply, headers=BASIC, data=form)


def test_a_refresh_gives_a_new_pair() -> None:
    body = {
        "access_token": "a2",
        "refresh_token": "r2",
        "expires_in": 2_592_000,
        "refresh_token_expires_at": 1_800_000_000,
        "scope": "boards:read pins:write",
    }
    up = make_upstream(renewal(make_response(200, body)))
    private = {"refreshExpiresAtMs": 1_800_000_000_000, "scopes": ["boards:read", "pins:write"]}
    assert pinterest.refresh(up, NOW) == Tokens("a2", "r2", NOW + 2_592_000_000, private)
    check_finished(up)


@pytest.mark.parametrize(
    ("reply", "code", "outcome"),
    [
        (make_refusal(400, 1), AUTHED, R),
        (make_refusal(401, 2), AUTHED, R),  # the account's, unless those of others are refused too
        (make_refusal(429, 8), GONE, T),
        (make_refusal(500, 500), GONE, A),
    ],
)
def test_a_refresh_that_fails_says_whose_fault_it_is(reply: UpstreamResponse, code: str, outcome: Outcome) -> None:
    with pytest.raises(ApiError) as caught:
        pinterest.refresh(make_upstream(renewal(reply)), NOW)
    assert (caught.value.code, caught.value.outcome) == (code, outcome)


def test_the_owner_is_asked_for_everything_a_pin_needs() -> None:
    site = PinterestSite(client_id="app-1")
    url = urlsplit(oauth.build_authorize_url(PLATFORM, site, "https://a.example/cb", "s", "v"))
    assert f"{url.scheme}://{url.netloc}{url.path}" == "https://www.pinterest.com/oauth/"
    assert dict(parse_qsl(url.query)) == {
        "response_type": "code",
        "client_id": "app-1",
        "redirect_uri": "https://a.example/cb",
        "scope": ",".join(SCOPES),
        "state": "s",
    }


def test_a_code_is_exchanged_for_a_refresh_token_that_can_be_renewed() -> None:
    form = {
        "grant_type": "authorization_code",
        "code": "code-1",
        "redirect_uri": "https://a.example/cb",
        "continuous_refresh": "true",
    }
    granted = {"access_token": "a2", "refresh_token": "r2", "expires_in": 60, "scope": ",".join(SCOPES)}
    up = make_upstream(
        ExpectedCall("POST", f"{HOST}/oauth/token", make_response(200, granted), headers=BASIC, data=form)
    )
    found = oauth.exchange(PLATFORM, up.http, up.site, "code-1", "https://a.example/cb", "v", NOW)
    assert (found.access, found.refresh) == ("a2", "r2")
    check_finished(up)


@pytest.mark.parametrize("missing", SCOPES)
def test_every_scope_has_to_be_granted(missing: str) -> None:
    with pytest.raises(ApiError) as caught:
        oauth.require_scopes(PLATFORM, [scope for scope in SCOPES if scope != missing], PinterestSite())
    assert missing in caught.value.message


def test_the_sandbox_has_tokens_of_its_own_and_a_lab_everything() -> None:
    sandbox = PinterestSite(api_base="https://api-sandbox.pinterest.com")
    assert sandbox.token_url == "https://api-sandbox.pinterest.com/v5/oauth/token"
    assert sandbox.authorize_url == "https://www.pinterest.com/oauth/"
    lab = PinterestSite(api_base="http://127.0.0.1:8099")
    assert lab.token_url == "http://127.0.0.1:8099/v5/oauth/token"
    assert lab.authorize_url == "http://127.0.0.1:8099/oauth/"
    own = PinterestSite(
        api_base="http://127.0.0.1:8099", authorize_url="http://a.example", token_url="http://b.example"
    )
    assert (own.authorize_url, own.token_url) == ("http://a.example", "http://b.example")


# --- Boards ----------------------------------------------------------------------------------------------------------


def listing(*boards: dict[str, Any], mark: str | None = None, after: str = "") -> ExpectedCall:
    params = {"page_size": "250"} | ({"bookmark": after} if after else {})
    return ExpectedCall(
        "GET", f"{HOST}/boards", make_response(200, {"items": list(boards), "bookmark": mark}), params=params
    )


def test_all_boards_are_listed_whatever_page_they_are_on() -> None:
    up = make_upstream(
        listing({"id": "1", "name": "One", "privacy": "PROTECTED"}, {"id": 2, "name": "Two"}, mark="b"),
        listing({"id": "3", "name": "Ads", "privacy": "PUBLIC", "is_ads_only": True}, {"name": "none"}, after="b"),
    )
    assert pinterest.boards(up) == (
        Board("1", "One", "PROTECTED"),
        Board("2", "Two", "PUBLIC"),
        Board("3", "Ads", "PUBLIC", pinnable=False),
    )
    check_finished(up)


@pytest.mark.parametrize(
    ("reply", "code"),
    [(make_refusal(401, 2), AUTHED), (make_response(200, "<html>"), GONE), (make_refusal(500, 500), GONE)],
)
def test_boards_that_cannot_be_listed_are_an_error(reply: UpstreamResponse, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        pinterest.boards(make_upstream(replace(listing(), reply=reply)))
    assert caught.value.code == code
