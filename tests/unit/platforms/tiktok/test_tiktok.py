"""TikTok connector: chunked uploads, drafts, answers, status lookups, login."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UPLOAD_SECONDS, UpstreamResponse
from socialpub.platforms import CATALOGUE
from socialpub.platforms.contract import (
    CONTAINER,
    NO_KEY,
    AccountIdentity,
    ConnectorAccount,
    Draft,
    DraftMedia,
    MediaFacts,
    OfferedAccount,
    Pending,
    Published,
    PublishWarning,
    Ready,
    Tokens,
    Unknown,
    Upstream,
)
from socialpub.platforms.kit import oauth
from socialpub.platforms.kit.rule_catalog import WARNINGS
from socialpub.platforms.tiktok import connector as tiktok
from socialpub.platforms.tiktok.declaration import TiktokSite
from socialpub.platforms.tiktok.upload import CHUNK, WHOLE_MAX, TiktokUpload, plan_chunks
from tests.support.platforms.scripted_upstream import AUTH, LOST, NOW, UNREACHED, ExpectedCall, make_response
from tests.support.platforms.tiktok_transport import API, FORM, StreamCountingTransport

PUT_URL = "https://upload.us.tiktokapis.com/video/?upload_id=1&upload_token=t"
ID = "v_inbox_file~v2.123"
PHOTO_ID = "p_inbox_url~v2.9"
INBOX = PublishWarning("tiktok_inbox_draft", WARNINGS["tiktok_inbox_draft"])
SIZE = 64_000_001
HELLO = {"description": "hello 🎉"}
SCOPES = ["user.info.basic", "user.info.profile", "video.upload"]
OPEN = {"source_info": {"source": "FILE_UPLOAD", "video_size": 5, "chunk_size": 5, "total_chunk_count": 1}}


def ok(**data: Any) -> UpstreamResponse:
    return make_response(200, {"data": data, "error": {"code": "ok", "message": "", "log_id": "L"}})


def no(status: int, code: str, **headers: str) -> UpstreamResponse:
    body = {"data": {}, "error": {"code": code, "message": "said so, access-token-1", "log_id": "L"}}
    return make_response(status, body, **headers)


def upstream(*calls: ExpectedCall, tokens: Tokens | None = None, extra: dict[str, str] | None = None) -> Upstream:
    site = TiktokSite(client_id="app-1", client_secret="app-secret-1")
    who = ConnectorAccount("open-1", "Alice", {"username": "alice"} if extra is None else extra)
    held = tokens or Tokens("access-token-1", "refresh-token-1", None, {"scopes": SCOPES})
    return Upstream(StreamCountingTransport(list(calls)), StreamCountingTransport(), site, who, held)


def done(up: Upstream) -> None:
    assert isinstance(up.http, StreamCountingTransport)
    assert up.http.calls == [], "these calls were never made"


@pytest.fixture
def small(tmp_path: Path) -> Draft:
    path = tmp_path / "v.mp4"
    path.write_bytes(b"bytes")
    return film(path)


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Draft]:
    path = tmp_path / "v.mov"
    with path.open("wb") as file:
        file.truncate(SIZE)
        for place in range(7):
            file.seek(place * CHUNK)
            file.write(bytes([place + 1]))
    yield film(path, "video/quicktime")
    path.unlink()


def film(path: Path, kind: str = "video/mp4") -> Draft:
    item = DraftMedia("video", None, None, facts=MediaFacts(kind, path.stat().st_size), path=path)
    return Draft("hello", (item,), {}, now_ms=NOW)


def photos(**options: str) -> Draft:
    items = tuple(DraftMedia("image", None, f"https://m.example.com/{n}.jpg") for n in range(2))
    return Draft("hello 🎉", items, options, now_ms=NOW)


JSON = AUTH | {"Content-Type": "application/json; charset=UTF-8"}


def init(reply: UpstreamResponse | ApiError, body: dict[str, Any] = OPEN) -> ExpectedCall:
    return ExpectedCall("POST", f"{API}/post/publish/inbox/video/init/", reply, JSON, json=body)


def ask(reply: UpstreamResponse | ApiError, id: str = ID) -> ExpectedCall:
    return ExpectedCall("POST", f"{API}/post/publish/status/fetch/", reply, JSON, json={"publish_id": id})


def put(
    reply: UpstreamResponse | ApiError, first: int = 0, end: int = 5, total: int = 5, kind: str = "video/mp4"
) -> ExpectedCall:
    headers = {
        "Content-Type": kind,
        "Content-Length": str(end - first),
        "Content-Range": f"bytes {first}-{end - 1}/{total}",
    }
    return ExpectedCall("PUT", PUT_URL, reply, headers, content=end - first, timeout=UPLOAD_SECONDS)


def content(reply: UpstreamResponse | ApiError, info: dict[str, str] = HELLO) -> ExpectedCall:
    return ExpectedCall("POST", f"{API}/post/publish/content/init/", reply, JSON, json=opening(info)["photos"])


def opening(info: dict[str, str] = HELLO, rebuilt: int = 0) -> dict[str, Any]:
    """The plan of two photos whose draft is to be opened."""
    images = [f"https://m.example.com/{n}.jpg" for n in range(2)]
    body = {
        "post_mode": "MEDIA_UPLOAD",
        "media_type": "PHOTO",
        "post_info": info,
        "source_info": {"source": "PULL_FROM_URL", "photo_cover_index": 0, "photo_images": images},
    }
    return {"photos": body, "rebuilt": rebuilt}


def kept(**changes: Any) -> dict[str, Any]:
    return vars(TiktokUpload(ID, PUT_URL, 5, 5)) | changes


def prepared(draft: Draft, saved: dict[str, Any] | None, *calls: ExpectedCall) -> Ready | Pending:
    up = upstream(*calls)
    found = tiktok.prepare(up, draft, saved)
    done(up)
    return found


def refused(draft: Draft, saved: dict[str, Any] | None, *calls: ExpectedCall) -> ApiError:
    up = upstream(*calls)
    with pytest.raises(ApiError) as caught:
        tiktok.prepare(up, draft, saved)
    done(up)
    return caught.value


def unsent(call: ExpectedCall) -> ApiError:
    """The error of photos whose draft could not be opened."""
    up = upstream(call)
    with pytest.raises(ApiError) as caught:
        tiktok.send(up, opening())
    done(up)
    return caught.value


# --- The parts of a video ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "chunk", "count", "last"),
    [
        (1, 1, 1, 1),
        (4_000_000, 4_000_000, 1, 4_000_000),
        (64_000_000, 64_000_000, 1, 64_000_000),
        (64_000_001, 10_000_000, 6, 14_000_001),
        (99_999_999, 10_000_000, 9, 19_999_999),
        (1_234_567_890, 10_000_000, 123, 14_567_890),
        (4_000_000_000, 10_000_000, 400, 10_000_000),
    ],
)
def test_the_parts_are_counted_down_and_the_last_takes_the_rest(size: int, chunk: int, count: int, last: int) -> None:
    assert plan_chunks(size) == (chunk, count)
    assert size - chunk * (count - 1) == last


@given(st.integers(1, 4_294_967_296))
def test_every_size_is_cut_within_the_limits_in_both_readings_of_mb(size: int) -> None:
    chunk, count = plan_chunks(size)
    last = size - chunk * (count - 1)
    assert count == size // chunk
    assert 1 <= count <= 1000
    assert chunk <= last <= WHOLE_MAX
    assert chunk == size or chunk >= 5 * 1024 * 1024


# --- Videos --------------------------------------------------------------------------------------------------------


def test_a_video_has_its_id_kept_before_its_first_byte(small: Draft) -> None:
    opened = prepared(small, None, init(ok(publish_id=ID, upload_url=PUT_URL)))
    assert opened == Pending(kept(), 0)
    sent = prepared(small, kept(), put(make_response(201)))
    assert sent == Pending(kept(sent=5), 1)
    waiting = prepared(small, kept(sent=5), ask(ok(status="PROCESSING_UPLOAD", uploaded_bytes=5)))
    assert waiting == Pending(kept(sent=5, waited=1.0, wait=1.6), 1)
    ready = prepared(small, kept(sent=5), ask(ok(status="SEND_TO_USER_INBOX")))
    assert ready == Ready({"publish": ID, "video": True, "confirmed": False, "post": ""})


def test_a_large_video_goes_in_parts_in_order_read_from_its_file(large: Draft) -> None:
    source = {"source": "FILE_UPLOAD", "video_size": SIZE, "chunk_size": CHUNK, "total_chunk_count": 6}
    opened = prepared(large, None, init(ok(publish_id=ID, upload_url=PUT_URL), {"source_info": source}))
    assert isinstance(opened, Pending)
    ends = [CHUNK, 2 * CHUNK, 3 * CHUNK, 4 * CHUNK, 5 * CHUNK, SIZE]
    firsts = [0, *ends[:-1]]
    calls = [
        put(make_response(201 if end == SIZE else 206), first, end, SIZE, "video/quicktime")
        for first, end in zip(firsts, ends, strict=True)
    ]
    up = upstream(*calls)
    found = tiktok.prepare(up, large, opened.saved)
    assert isinstance(found, Pending)
    assert found.saved["sent"] == SIZE
    assert isinstance(up.http, StreamCountingTransport)
    assert up.http.starts == [1, 2, 3, 4, 5, 6]


def test_a_draft_that_its_creator_has_posted_by_now_has_an_address(small: Draft) -> None:
    post = 7_512_345_678_901_234_567
    said = ok(status="PUBLISH_COMPLETE", publicaly_available_post_id=[post])
    ready = prepared(small, kept(sent=5), ask(said))
    assert ready == Ready({"publish": ID, "video": True, "confirmed": True, "post": str(post)})
    assert isinstance(ready, Ready)
    url = f"https://www.tiktok.com/@alice/video/{post}"
    assert tiktok.send(upstream(), ready.plan) == Published(ID, f"tiktok:publish:{ID}", None, url)
    assert tiktok.send(upstream(extra={}), ready.plan).url is None


def test_a_draft_in_the_inbox_is_success_without_another_call() -> None:
    plan = {"publish": ID, "video": True, "confirmed": False, "post": ""}
    found = Published(ID, f"tiktok:publish:{ID}", None, None, (INBOX,))
    assert tiktok.send(upstream(), plan) == tiktok.settle(upstream(), plan, NOW) == found


@pytest.mark.parametrize(
    "reply", [LOST, UNREACHED, make_response(500, "<html>"), make_response(200, "<html>"), make_response(200, '{"da')]
)
def test_opening_an_upload_is_repeated_since_it_shows_nothing(small: Draft, reply: UpstreamResponse | ApiError) -> None:
    assert prepared(small, None, init(reply)) == Pending(vars(TiktokUpload(misses=1)), 5)
    error = refused(small, vars(TiktokUpload(misses=3)), init(reply))
    assert (error.code, error.outcome) == ("platform_unavailable", Outcome.NOT_SENT)


@pytest.mark.parametrize(
    "url", ["https://evil.example/up", "http://upload.tiktokapis.com/", "https://tiktokapis.com.x/"]
)
def test_bytes_go_to_tiktoks_own_hosts_only(small: Draft, url: str) -> None:
    assert prepared(small, None, init(ok(publish_id=ID, upload_url=url))) == Pending(vars(TiktokUpload(misses=1)), 5)


# --- Parts that go wrong -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply", [LOST, UNREACHED, make_response(500), make_response(503), make_response(429), make_response(416)]
)
def test_after_a_lost_part_tiktok_is_asked_how_far_it_is(small: Draft, reply: UpstreamResponse | ApiError) -> None:
    assert prepared(small, kept(), put(reply)) == Pending(kept(unsure=True, misses=1), 5)
    refusal = refused(small, kept(misses=3), put(reply))
    assert (refusal.code, refusal.outcome) == ("platform_unavailable", Outcome.NOT_SENT)


@pytest.mark.parametrize(
    ("said", "first"),
    [
        ({"uploaded_bytes": 0}, 0),
        ({"uploaded_bytes": 2 * CHUNK}, 2 * CHUNK),
        ({"uploaded_bytes": 2 * CHUNK + 7}, 2 * CHUNK),
        ({"uploaded_bytes": 6 * CHUNK}, 5 * CHUNK),
        ({}, 3 * CHUNK),
        ({"uploaded_bytes": SIZE + 1}, 3 * CHUNK),
    ],
)
def test_an_upload_goes_on_where_tiktok_says(large: Draft, said: dict[str, int], first: int) -> None:
    saved = vars(TiktokUpload(ID, PUT_URL, SIZE, CHUNK, sent=3 * CHUNK, unsure=True, misses=1))
    end = SIZE if first == 5 * CHUNK else first + CHUNK
    calls = ask(ok(status="PROCESSING_UPLOAD", **said)), put(LOST, first, end, SIZE, "video/quicktime")
    found = prepared(large, saved, *calls)
    assert found == Pending(saved | {"sent": first, "misses": 2}, 5)


@pytest.mark.parametrize(
    "said", [{"status": "SEND_TO_USER_INBOX"}, {"status": "PROCESSING_UPLOAD", "uploaded_bytes": 5}]
)
def test_nothing_is_sent_again_once_tiktok_has_everything(small: Draft, said: dict[str, Any]) -> None:
    assert prepared(small, kept(unsure=True, misses=1), ask(ok(**said))) == Pending(kept(sent=5), 1)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_expired_upload_url_is_opened_anew_once_if_bytes_are_missing(small: Draft, status: int) -> None:
    gone = kept(unsure=True, gone=True, misses=1)
    assert prepared(small, kept(), put(make_response(status))) == Pending(gone, 5)
    half = ask(ok(status="PROCESSING_UPLOAD", uploaded_bytes=3))
    assert prepared(small, gone, half) == Pending(vars(TiktokUpload(rebuilt=1)), 5)
    assert refused(small, gone | {"rebuilt": 1}, half).rule == "tiktok.upload.chunk_failed"
    error = refused(small, gone, ask(ok(status="PROCESSING_UPLOAD")))
    assert (error.rule, error.outcome) == ("tiktok.upload.chunk_failed", Outcome.NOT_SENT)


def test_a_malformed_part_is_a_refusal(small: Draft) -> None:
    error = refused(small, kept(), put(make_response(400)))
    assert (error.code, error.rule) == ("platform_rejected", "tiktok.upload.chunk_failed")


# --- Photos --------------------------------------------------------------------------------------------------------


def test_photos_are_opened_with_their_texts_and_pulled_by_tiktok() -> None:
    info = {"title": "Cats", "description": "hello 🎉"}
    assert prepared(photos(title="Cats"), None) == Ready(opening(info))
    up = upstream(content(ok(publish_id=PHOTO_ID), info))
    assert tiktok.send(up, opening(info)) == Pending(vars(TiktokUpload(PHOTO_ID)), 1)
    done(up)
    ready = prepared(photos(), vars(TiktokUpload(PHOTO_ID)), ask(ok(status="SEND_TO_USER_INBOX"), PHOTO_ID))
    assert ready == Ready({"publish": PHOTO_ID, "video": False, "confirmed": False, "post": ""})


@pytest.mark.parametrize(
    "reply",
    [
        LOST,
        no(500, "internal_error"),
        no(400, "never_heard_of"),
        make_response(200, "<html>"),
        make_response(200, '{"data":'),
        ok(),
        make_response(200, {"data": {"publish_id": PHOTO_ID}}),
    ],
)
def test_photos_whose_answer_is_unclear_may_be_in_the_inbox(reply: UpstreamResponse | ApiError) -> None:
    error = unsent(content(reply))
    assert (error.code, error.outcome) == ("platform_unavailable", Outcome.AMBIGUOUS)


def test_photos_whose_id_is_lost_are_a_persons_to_look_for() -> None:
    up = upstream()
    found = tiktok.settle(up, opening(), NOW)
    assert isinstance(found, Unknown)
    assert (found.final, tiktok.PLATFORM.unknown_outcome_advice) == (True, "Check the creator's TikTok inbox.")


def test_only_the_call_that_opens_a_draft_of_photos_has_no_key() -> None:
    plan = {"publish": PHOTO_ID, "video": False, "confirmed": False, "post": ""}
    assert (tiktok.PLATFORM.choose_send_class(opening()), tiktok.PLATFORM.choose_send_class(plan)) == (
        NO_KEY,
        CONTAINER,
    )


def test_photos_that_cannot_have_been_sent_are_known_not_to_be_there() -> None:
    assert unsent(content(UNREACHED)).outcome is Outcome.NOT_SENT


# --- Refusals ------------------------------------------------------------------------------------------------------

REFUSALS = [
    (401, "access_token_invalid", "platform_auth_failed", None, True),
    (401, "scope_not_authorized", "platform_auth_failed", None, False),
    (400, "scope_permission_missed", "platform_auth_failed", None, False),
    (400, "invalid_params", "platform_rejected", "tiktok.upload.init_failed", False),
    (200, "invalid_param", "platform_rejected", "tiktok.upload.init_failed", False),
    (400, "app_version_check_failed", "platform_rejected", "tiktok.app_version.too_old", False),
    (403, "spam_risk_too_many_pending_share", "platform_rejected", "tiktok.inbox.pending_limit", False),
    (403, "spam_risk_too_many_posts", "platform_rejected", "tiktok.account.blocked", False),
    (403, "spam_risk_user_banned_from_posting", "platform_rejected", "tiktok.account.blocked", False),
    (403, "reached_active_user_cap", "platform_unavailable", "tiktok.active_user_cap", False),
    (403, "url_ownership_unverified", "platform_rejected", "tiktok.photo.url_verified", False),
    (429, "rate_limit_exceeded", "platform_unavailable", "tiktok.rate_limited", False),
    (200, "rate_limit_exceeded", "platform_unavailable", "tiktok.rate_limited", False),
]


@pytest.mark.parametrize("kind", ["video", "photos"])
@pytest.mark.parametrize(("status", "name", "code", "rule", "stale"), REFUSALS)
def test_a_refusal_is_known_by_its_name_whatever_its_status(
    small: Draft, kind: str, status: int, name: str, code: str, rule: str | None, stale: bool
) -> None:
    reply = no(status, name)
    error = refused(small, None, init(reply)) if kind == "video" else unsent(content(reply))
    assert (error.code, error.rule, error.stale_token) == (code, rule, stale)
    assert rule is None or error.remediation == CATALOGUE[rule].remediation
    assert error.platform_response["body"]["error"]["code"] == name
    assert "access-token-1" not in f"{error.message} {error.platform_response}"


@pytest.mark.parametrize(("headers", "seconds"), [({}, 60), ({"retry_after": "7"}, 7)])
def test_a_rate_limit_without_an_hour_lasts_its_window(small: Draft, headers: dict[str, str], seconds: int) -> None:
    error = refused(small, None, init(no(429, "rate_limit_exceeded", **headers)))
    assert (error.retry_after, error.outcome) == (seconds, Outcome.THROTTLED)


# --- Waiting -------------------------------------------------------------------------------------------------------

FAILURES = [
    ("file_format_check_failed", "platform_rejected", "tiktok.file_format.invalid"),
    ("duration_check_failed", "platform_rejected", "tiktok.publish.failed"),
    ("frame_rate_check_failed", "platform_rejected", "tiktok.video.frame_rate"),
    ("picture_size_check_failed", "platform_rejected", "tiktok.publish.failed"),
    ("publish_cancelled", "platform_rejected", "tiktok.publish.failed"),
    ("spam_risk_text", "platform_rejected", "tiktok.account.blocked"),
    ("auth_removed", "platform_auth_failed", None),
    ("", "platform_rejected", "tiktok.publish.failed"),
]


@pytest.mark.parametrize(("reason", "code", "rule"), FAILURES)
def test_a_failed_draft_says_why(small: Draft, reason: str, code: str, rule: str | None) -> None:
    error = refused(small, kept(sent=5), ask(ok(status="FAILED", fail_reason=reason)))
    assert (error.code, error.rule, error.retryable) == (code, rule, False)
    assert error.platform_response["body"]["data"]["fail_reason"] == reason


@pytest.mark.parametrize(
    ("reason", "rule"),
    [
        ("photo_pull_failed", "tiktok.photo.reachable"),
        ("video_pull_failed", "tiktok.video.reachable"),
        ("internal", "tiktok.publish.failed"),
    ],
)
def test_a_draft_that_failed_by_chance_is_made_once_more(reason: str, rule: str) -> None:
    said, saved = ok(status="FAILED", fail_reason=reason), vars(TiktokUpload(PHOTO_ID))
    again = TiktokUpload(rebuilt=1, misses=1)
    assert prepared(photos(), saved, ask(said, PHOTO_ID)) == Pending(vars(again), 5)
    assert prepared(photos(), vars(again)) == Ready(opening(rebuilt=1))
    up = upstream(content(ok(publish_id=PHOTO_ID)))
    assert tiktok.send(up, opening(rebuilt=1)) == Pending(vars(TiktokUpload(PHOTO_ID, rebuilt=1)), 1)
    error = refused(photos(), saved | {"rebuilt": 1}, ask(said, PHOTO_ID))
    assert (error.code, error.rule, error.retryable) == ("platform_unavailable", rule, False)


@pytest.mark.parametrize("said", ["PROCESSING_UPLOAD", "PROCESSING_DOWNLOAD", "EXPIRED", None])
def test_half_an_hour_without_an_end_is_told_and_the_draft_stays_the_same(small: Draft, said: str | None) -> None:
    saved, waits = kept(sent=5), []
    for _ in range(200):
        up = upstream(ask(ok(status=said)))
        try:
            found = tiktok.prepare(up, small, saved)
        except ApiError as late:
            error = late
            break
        assert isinstance(found, Pending)
        saved = found.saved
        waits.append(found.seconds)
    assert (error.code, error.rule, error.outcome) == (
        "platform_unavailable",
        "tiktok.publish.pending",
        Outcome.NOT_SENT,
    )
    assert 1770 <= sum(waits) <= 1800
    assert (saved["publish"], waits == sorted(waits), waits[-1]) == (ID, True, 30.0)


@pytest.mark.parametrize(
    "reply", [LOST, UNREACHED, make_response(500), make_response(200, "<html>"), make_response(200, '{"da')]
)
def test_a_status_that_cannot_be_read_is_asked_for_again(small: Draft, reply: UpstreamResponse | ApiError) -> None:
    assert prepared(small, kept(sent=5), ask(reply)) == Pending(kept(sent=5, misses=1), 5)
    error = refused(small, kept(sent=5, misses=3), ask(reply))
    assert (error.code, error.outcome) == ("platform_unavailable", Outcome.NOT_SENT)


@pytest.mark.parametrize("name", ["invalid_publish_id", "token_not_authorized_for_specified_publish_id"])
def test_a_draft_that_tiktok_does_not_know_any_more_is_not_made_again(small: Draft, name: str) -> None:
    error = refused(small, kept(sent=5), ask(no(400, name)))
    assert (error.code, error.outcome) == ("platform_rejected", Outcome.NOT_SENT)
    assert "inbox" in (error.remediation or "")


# --- Connecting ----------------------------------------------------------------------------------------------------


def me(fields: str, reply: UpstreamResponse) -> ExpectedCall:
    return ExpectedCall("GET", f"{API}/user/info/", reply, params={"fields": fields})


def test_the_creator_of_a_login_is_one_account() -> None:
    user = {"open_id": "open-9", "display_name": "Ann B", "username": "annb"}
    up = upstream(me("open_id,display_name,username", ok(user=user)))
    identity = AccountIdentity("open-9", "Ann B", {"username": "annb"})
    assert tiktok.identify(up, NOW) == (OfferedAccount(identity, up.tokens, "person"),)


def test_creator_with_a_hidden_profile_connects_without_a_user_name() -> None:
    tokens = Tokens("access-token-1", None, None, {"scopes": ["user.info.basic", "video.upload"]})
    up = upstream(me("open_id,display_name", ok(user={"open_id": "open-9", "display_name": "Ann"})), tokens=tokens)
    assert tiktok.identify(up, NOW)[0].identity == AccountIdentity("open-9", "Ann", {})


@pytest.mark.parametrize("reply", [ok(), ok(user={}), make_response(200, "<html>"), no(401, "access_token_invalid")])
def test_an_account_without_an_id_is_not_connected(reply: UpstreamResponse) -> None:
    with pytest.raises(ApiError):
        tiktok.identify(upstream(me("open_id,display_name,username", reply)), NOW)


def test_people_are_asked_with_a_client_key_and_commas() -> None:
    site = TiktokSite(client_id="app-1")
    url = oauth.build_authorize_url(tiktok.PLATFORM, site, "https://me.example/cb", "s1", "v" * 43)
    assert url == (
        "https://www.tiktok.com/v2/auth/authorize/?response_type=code&client_key=app-1"
        "&redirect_uri=https%3A%2F%2Fme.example%2Fcb&scope=user.info.basic%2Cuser.info.profile%2Cvideo.upload&state=s1"
    )


def test_refreshing_takes_the_new_refresh_token() -> None:
    form = {"grant_type": "refresh_token", "refresh_token": "refresh-token-1"}
    body = {"open_id": "o", "scope": "a,b", "access_token": "a2", "expires_in": 7200, "refresh_token": "r2"}
    reply = make_response(200, body | {"refresh_expires_in": 15_552_000, "token_type": "Bearer"})
    up = upstream(ExpectedCall("POST", f"{API}/oauth/token/", reply, {"Accept": "application/json"}, data=form | FORM))
    private = {"scopes": ["a", "b"], "refreshExpiresAtMs": NOW + 15_552_000_000}
    assert tiktok.refresh(up, NOW) == Tokens("a2", "r2", NOW + 7_200_000, private)


def test_an_error_with_status_200_is_no_refresh() -> None:
    form = {"grant_type": "refresh_token", "refresh_token": "refresh-token-1"}
    reply = make_response(200, {"error": "invalid_grant", "error_description": "over", "log_id": "L"})
    up = upstream(ExpectedCall("POST", f"{API}/oauth/token/", reply, {"Accept": "application/json"}, data=form | FORM))
    with pytest.raises(ApiError) as caught:
        tiktok.refresh(up, NOW)
    assert (caught.value.code, caught.value.outcome) == ("platform_auth_failed", Outcome.REJECTED)


@pytest.mark.parametrize("reply", [make_response(200, ""), make_response(200, {})])
def test_revoking_names_the_app_and_its_secret(reply: UpstreamResponse) -> None:
    form = {"token": "access-token-1"} | FORM
    up = upstream(ExpectedCall("POST", f"{API}/oauth/revoke/", reply, {"Accept": "application/json"}, data=form))
    tiktok.revoke(up)
    done(up)


def test_a_lab_stands_in_for_every_host_and_tiktok_is_off_at_first() -> None:
    lab = TiktokSite.model_validate({"api_base": "http://127.0.0.1:9"})
    assert (lab.authorize_url, lab.token_url) == (
        "http://127.0.0.1:9/v2/auth/authorize/",
        "http://127.0.0.1:9/v2/oauth/token/",
    )
    assert (lab.enabled, TiktokSite().token_url) == (False, "https://open.tiktokapis.com/v2/oauth/token/")
    other = TiktokSite(api_base="https://tiktokapis.com.evil.example")  # another host with a similar name
    assert other.token_url == "https://tiktokapis.com.evil.example/v2/oauth/token/"
