"""Facebook connector: calls for posts, photos and videos, lookups, Page login."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UPLOAD_SECONDS, UpstreamResponse
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
from socialpub.platforms.facebook import connector as facebook
from tests.support.platforms.meta_calls import STAMP, graph_refusal, image, make_upstream, video
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

HOST = "https://graph.facebook.com/v26.0"
VIDEOS = f"{HOST}/1784/videos"
FIELDS = {"fields": "id,permalink_url"}
LINK = "https://www.facebook.com/1784/posts/5"
POST = Published("1784_5", LINK, None, LINK)
PLAN = {"kind": "feed", "message": "hello", "link": "", "photos": []}
TOKENS = Tokens("access-token-1", "user-token-1", None, {"login": "42"})


def draft(text: str = "hello", *items: DraftMedia, **options: Any) -> Draft:
    return Draft(text, items=items, options=options, now_ms=NOW, nonce=NONCE)


def prepared(content: Draft, *calls: ExpectedCall, saved: dict[str, Any] | None = None) -> Ready | Pending:
    up = make_upstream(facebook.PLATFORM, *calls)
    try:
        return facebook.prepare(up, content, saved)
    finally:
        check_finished(up)


def send(plan: dict[str, Any], *calls: ExpectedCall) -> Published | Pending:
    up = make_upstream(facebook.PLATFORM, *calls)
    try:
        return facebook.send(up, plan)
    finally:
        check_finished(up)


def feed(form: dict[str, str], reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("POST", f"{HOST}/1784/feed", reply, params=FIELDS, data=form)


# --- Posts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (draft(), {"message": "hello"}),
        (draft("", link="https://example.com"), {"link": "https://example.com"}),
        (draft(link="https://example.com"), {"message": "hello", "link": "https://example.com"}),
    ],
)
def test_words_and_links_are_one_call(content: Draft, form: dict[str, str]) -> None:
    ready = prepared(content)
    assert ready == Ready(PLAN | {"message": content.text, "link": content.options.get("link", "")})
    assert send(ready.plan, feed(form, make_response(200, {"id": "1784_5", "permalink_url": LINK}))) == POST


BACKDATED = PLAN | {"backdated": 1_556_983_800}


def test_a_backdated_post_has_its_time_in_seconds() -> None:
    assert prepared(draft(backdatedTime="2019-05-04T17:30:00+02:00")) == Ready(BACKDATED)
    form = {"message": "hello", "backdated_time": "1556983800"}
    assert send(BACKDATED, feed(form, make_response(200, {"id": "1784_5", "permalink_url": LINK}))) == POST


def test_post_without_a_permalink_gets_the_documented_address() -> None:
    url = "https://www.facebook.com/1784_5"
    assert send(PLAN, feed({"message": "hello"}, make_response(200, {"id": "1784_5"}))) == Published(
        "1784_5", url, None, url
    )


def form_with(fields: dict[str, str], name: str, kind: str, content: bytes) -> tuple[dict[str, str], bytes]:
    """Headers and body of a form with a file, as RFC 7578 has it."""
    parts = [f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{fields[key]}\r\n' for key in fields]
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="media"\r\nContent-Type: {kind}\r\n'
    )
    body = "".join([*parts, head, "\r\n"]).encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    return AUTH | {"Content-Type": kind, "Content-Length": str(len(body))}, body


def photo(content: bytes, reply: UpstreamResponse | ApiError, alt: str = "") -> ExpectedCall:
    fields = {"published": "false"} | ({"alt_text_custom": alt} if alt else {})
    headers, body = form_with(fields, "source", "image/jpeg", content)
    return ExpectedCall("POST", f"{HOST}/1784/photos", reply, headers=headers, content=body, timeout=UPLOAD_SECONDS)


@pytest.fixture
def pictures(tmp_path: Path) -> tuple[DraftMedia, DraftMedia]:
    (tmp_path / "a").write_bytes(b"first picture")
    (tmp_path / "b").write_bytes(b"second")
    return image(alt="ein Kätzchen", path=tmp_path / "a"), image(path=tmp_path / "b")


def test_images_go_up_unpublished_and_then_into_one_post(pictures: tuple[DraftMedia, DraftMedia]) -> None:
    ready = prepared(
        draft("hello", *pictures, link="https://ignored.example"),
        photo(b"first picture", make_response(200, {"id": "11"}), "ein Kätzchen"),
        photo(b"second", make_response(200, {"id": 12})),
    )
    assert ready == Ready(PLAN | {"photos": ["11", "12"]})
    media = {"attached_media[0]": '{"media_fbid":"11"}', "attached_media[1]": '{"media_fbid":"12"}'}
    assert send(
        ready.plan, feed({"message": "hello"} | media, make_response(200, {"id": "1784_5", "permalink_url": LINK}))
    )


def test_images_that_are_uploaded_are_kept_after_a_failure(pictures: tuple[DraftMedia, DraftMedia]) -> None:
    content = draft("hello", *pictures)
    first = photo(b"first picture", make_response(200, {"id": "11"}), "ein Kätzchen")
    found = prepared(content, first, photo(b"second", LOST))
    assert found == Pending({"photos": ["11"], "misses": 1}, 3.0)
    ready = prepared(content, photo(b"second", make_response(200, {"id": "12"})), saved=found.saved)
    assert ready == Ready(PLAN | {"photos": ["11", "12"]})


STORY = {"kind": "story", "photo": "11"}
STORIES = {"fields": "post_id,status,media_id,url", "limit": "100"}
TOLD = {"post_id": "77", "status": "PUBLISHED", "media_id": "11", "url": "https://facebook.com/stories/1784/77"}
SHOWN_STORY = Published("77", TOLD["url"], None, TOLD["url"])


def told(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("POST", f"{HOST}/1784/photo_stories", reply, data={"photo_id": "11"})


def stories(*found: dict[str, Any], more: bool = False) -> ExpectedCall:
    paging = {"paging": {"cursors": {"after": "x"}, "next": "https://x/?access_token=t"}} if more else {}
    reply = make_response(200, {"data": list(found), **paging})
    return ExpectedCall("GET", f"{HOST}/1784/stories", reply, params=STORIES)


def test_a_story_is_an_unpublished_photo_that_is_published_as_one(pictures: tuple[DraftMedia, DraftMedia]) -> None:
    ready = prepared(draft("", pictures[1], story=True), photo(b"second", make_response(200, {"id": "11"})))
    assert ready == Ready(STORY)
    success = make_response(200, {"success": True, "post_id": "77"})
    assert send(STORY, told(success), stories(TOLD)) == SHOWN_STORY
    assert send(STORY, told(success), stories()) == Published("77")


@pytest.mark.parametrize("body", [{"success": False, "post_id": "77"}, {"success": True}, {"post_id": "77"}, []])
def test_a_story_without_a_clear_answer_is_looked_up(body: Any) -> None:
    with pytest.raises(ApiError) as caught:
        send(STORY, told(make_response(200, body)))
    assert (caught.value.code, caught.value.outcome) == ("platform_unavailable", Outcome.AMBIGUOUS)


UNLISTED = ExpectedCall("GET", f"{HOST}/1784/stories", make_response(200, {}), params=STORIES)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (stories(TOLD | {"media_id": "12"}, TOLD), Published),
        (stories(TOLD | {"status": "published"}), Published),
        (stories(TOLD | {"media_id": "12"}), Absent),
        (stories(TOLD | {"status": "ARCHIVED"}), Unknown),
        (stories(TOLD | {"post_id": None}), Unknown),
        (stories(more=True), Unknown),
        (replace(UNLISTED, reply=LOST), Unknown),
        (UNLISTED, Unknown),
    ],
)
def test_a_story_is_found_by_its_photo(found: ExpectedCall, kind: type) -> None:
    up = make_upstream(facebook.PLATFORM, found)
    seen = facebook.settle(up, STORY, NOW)
    check_finished(up)
    assert isinstance(seen, kind)
    assert kind is not Published or seen == SHOWN_STORY


PHOTOS = [
    (graph_refusal(324, 2069019), "platform_rejected", Outcome.REJECTED, "facebook.media.invalid"),
    (graph_refusal(1, 1366046), "platform_rejected", Outcome.REJECTED, "facebook.media.image_size_max"),
    (graph_refusal(1, 1366051), "platform_rejected", Outcome.REJECTED, "facebook.media.already_posted"),
    (graph_refusal(190, 459), "platform_auth_failed", Outcome.REJECTED, None),
    (graph_refusal(200, status=403), "platform_auth_failed", Outcome.REJECTED, None),
    (graph_refusal(32), "platform_unavailable", Outcome.THROTTLED, None),
    (make_response(429, b""), "platform_unavailable", Outcome.THROTTLED, None),
    (graph_refusal(6001), "platform_unavailable", Outcome.NOT_SENT, None),
    (graph_refusal(100, 1363047), "platform_unavailable", Outcome.NOT_SENT, None),
    (graph_refusal(200, 1609010), "platform_unavailable", Outcome.NOT_SENT, None),
    (graph_refusal(2, is_transient=True), "platform_unavailable", Outcome.NOT_SENT, None),
    (make_response(500, "<html>"), "platform_unavailable", Outcome.NOT_SENT, None),
    (make_response(200, "<html>"), "platform_unavailable", Outcome.NOT_SENT, None),
    (make_response(200, b'{"id": "1'), "platform_unavailable", Outcome.NOT_SENT, None),
    (make_response(200, {}), "platform_unavailable", Outcome.NOT_SENT, None),
    (LOST, "platform_unavailable", Outcome.AMBIGUOUS, None),
]


@pytest.mark.parametrize("story", [False, True])
@pytest.mark.parametrize(("reply", "code", "outcome", "rule"), PHOTOS)
def test_refused_image_stops_the_post_before_publication(
    pictures: tuple[DraftMedia, DraftMedia],
    reply: UpstreamResponse | ApiError,
    code: str,
    outcome: Outcome,
    rule: str | None,
    story: bool,
) -> None:
    content, saved = draft("hello", pictures[1], story=story), None
    for misses in range(1, {"platform_unavailable": 6 if outcome is not Outcome.THROTTLED else 2}.get(code, 1)):
        found = prepared(content, photo(b"second", reply), saved=saved)
        assert found == Pending({"photos": [], "misses": misses}, 3.0)
        saved = found.saved
    with pytest.raises(ApiError) as caught:
        prepared(content, photo(b"second", reply), saved=saved)
    assert (caught.value.code, caught.value.outcome, caught.value.rule) == (code, outcome, rule)
    assert "access-token-1" not in repr(vars(caught.value))


MATRIX = [
    (LOST, "platform_unavailable", Outcome.AMBIGUOUS, None),
    (UNREACHED, "platform_unavailable", Outcome.NOT_SENT, None),
    (graph_refusal(1), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(2, 1363047, status=500), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(100, is_transient=True), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(100, 1609010), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(6000, 1363047), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(999), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(500, "<html>"), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(503, b""), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(429, b"", retry_after="7"), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(301, b"", location="https://elsewhere"), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(200, "<html>"), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(200, b'{"id": "1784'), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(200, []), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (make_response(200, {"permalink_url": LINK}), "platform_unavailable", Outcome.AMBIGUOUS, None),
    (graph_refusal(4, status=429), "platform_unavailable", Outcome.THROTTLED, None),
    (graph_refusal(80001), "platform_unavailable", Outcome.THROTTLED, None),
    (graph_refusal(341), "platform_unavailable", Outcome.THROTTLED, None),
    (graph_refusal(190, 460), "platform_auth_failed", Outcome.REJECTED, None),
    (graph_refusal(102), "platform_auth_failed", Outcome.REJECTED, None),
    (graph_refusal(283), "platform_auth_failed", Outcome.REJECTED, None),
    (graph_refusal(1705), "platform_auth_failed", Outcome.REJECTED, None),
    (make_response(401, b""), "platform_auth_failed", Outcome.REJECTED, None),
    (graph_refusal(1, 1404078), "platform_auth_failed", Outcome.REJECTED, "facebook.page.authorization_required"),
    (graph_refusal(1, 4854002), "platform_auth_failed", Outcome.REJECTED, "facebook.page.authorization_required"),
    (graph_refusal(100), "platform_rejected", Outcome.REJECTED, None),
    (
        graph_refusal(100, message="Name parameter too long"),
        "platform_rejected",
        Outcome.REJECTED,
        "facebook.text.max_graphemes",
    ),
    (graph_refusal(506), "platform_rejected", Outcome.REJECTED, "facebook.post.duplicate"),
    (graph_refusal(1, 1609005), "platform_rejected", Outcome.REJECTED, "facebook.link.reachable"),
    (graph_refusal(1609005), "platform_rejected", Outcome.REJECTED, "facebook.link.reachable"),
    (graph_refusal(1609008), "platform_rejected", Outcome.REJECTED, "facebook.link.not_allowed"),
    (graph_refusal(100, 506), "platform_rejected", Outcome.REJECTED, "facebook.post.duplicate"),
    (graph_refusal(100, 1609008), "platform_rejected", Outcome.REJECTED, "facebook.link.not_allowed"),
    (graph_refusal(1, 1404102), "platform_rejected", Outcome.REJECTED, "facebook.content.flagged"),
    (graph_refusal(368), "platform_rejected", Outcome.REJECTED, "facebook.account.blocked"),
    (graph_refusal(368, 1390008), "platform_rejected", Outcome.REJECTED, "facebook.account.blocked"),
]


@pytest.mark.parametrize("kind", ["feed", "video"])
@pytest.mark.parametrize(("reply", "code", "outcome", "rule"), MATRIX)
def test_every_answer_to_the_public_call_is_sorted(
    reply: UpstreamResponse | ApiError, code: str, outcome: Outcome, rule: str | None, kind: str
) -> None:
    plan, calls = (PLAN, [feed({"message": "hello"}, reply)]) if kind == "feed" else (FILM, [finish(reply)])
    refused = outcome is Outcome.REJECTED and code != "platform_auth_failed"
    if kind == "video" and refused:
        calls.append(seen(film_state("upload_complete")))
    elif rule == "facebook.link.reachable":
        calls *= 2
    with pytest.raises(ApiError) as caught:
        send(plan, *calls)
    error = caught.value
    # What a look has shown at once, and a refusal of the token, is the end: nobody is kept waiting for more looks.
    assert error.absent is (code == "platform_auth_failed" or (kind == "video" and refused))
    assert (error.code, error.outcome, error.rule, error.stale_token) == (code, outcome, rule, False)
    assert error.duplicate is (rule == "facebook.post.duplicate")
    assert "access-token-1" not in repr(vars(error))


# --- Videos ----------------------------------------------------------------------------------------------------------

FILM = {"kind": "video", "session": "70", "video": "71", "message": "hello"}
CONTENT = hashlib.sha256(b"film").digest() * 25_000  # 800,000 bytes
SEEN = {"fields": "status,published,permalink_url,post_id"}
WATCH = "https://www.facebook.com/1784/videos/71/"
SHOWN = Published("71", WATCH, None, WATCH)


def started(reply: UpstreamResponse | ApiError | None = None) -> ExpectedCall:
    body = {"upload_session_id": "70", "video_id": "71", "start_offset": "0", "end_offset": "500000"}
    form = {"upload_phase": "start", "file_size": str(len(CONTENT))}
    return ExpectedCall("POST", VIDEOS, reply or make_response(200, body), data=form)


def piece(start: int, end: int, reply: UpstreamResponse | ApiError) -> ExpectedCall:
    fields = {"upload_phase": "transfer", "upload_session_id": "70", "start_offset": str(start)}
    headers, body = form_with(fields, "video_file_chunk", "video/mp4", CONTENT[start:end])
    return ExpectedCall("POST", VIDEOS, reply, headers=headers, content=body, timeout=UPLOAD_SECONDS)


def offsets(start: int, end: int) -> dict[str, str]:
    return {"start_offset": str(start), "end_offset": str(end)}


def finish(reply: UpstreamResponse | ApiError, message: str = "hello") -> ExpectedCall:
    form = {"upload_phase": "finish", "upload_session_id": "70"}
    return ExpectedCall("POST", VIDEOS, reply, data=form | ({"description": message} if message else {}))


def seen(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("GET", f"{HOST}/71", reply, params=SEEN)


def film_state(word: str, publishing: str = "not_started", **more: Any) -> UpstreamResponse:
    status = {"video_status": word, "publishing_phase": {"status": publishing}, **more.pop("phases", {})}
    return make_response(200, {"id": "71", "status": status, **more})


@pytest.fixture
def film(tmp_path: Path) -> DraftMedia:
    (tmp_path / "v").write_bytes(CONTENT)
    return video(path=tmp_path / "v")


def test_a_video_goes_up_in_the_pieces_that_are_asked_for(film: DraftMedia) -> None:
    ready = prepared(
        draft("hello", film),
        started(),
        piece(0, 500_000, make_response(200, offsets(500_000, 800_000))),
        piece(500_000, 800_000, make_response(200, offsets(800_000, 800_000))),
    )
    assert ready == Ready(FILM)


def test_an_upload_goes_on_where_it_was_after_a_failure(film: DraftMedia) -> None:
    first = prepared(
        draft("hello", film),
        started(),
        piece(0, 500_000, make_response(200, offsets(500_000, 800_000))),
        piece(500_000, 800_000, LOST),
    )
    assert first == Pending({"session": "70", "video": "71", "start": 500_000, "end": 800_000, "misses": 1}, 3.0)
    done = piece(500_000, 800_000, make_response(200, offsets(800_000, 800_000)))
    assert prepared(draft("hello", film), done, saved=first.saved) == Ready(FILM)


def test_an_upload_follows_facebooks_correction_of_its_place(film: DraftMedia) -> None:
    wrong = graph_refusal(6000, 1363037, error_data=offsets(300_000, 800_000))
    done = piece(300_000, 800_000, make_response(200, offsets(800_000, 800_000)))
    assert prepared(draft("hello", film), started(), piece(0, 500_000, wrong), done) == Ready(FILM)


@pytest.mark.parametrize(
    "reply",
    [
        LOST,
        UNREACHED,
        graph_refusal(6001),
        graph_refusal(2),
        make_response(500, b""),
        make_response(200, "<html>"),
        make_response(200, {"start_offset": "x", "end_offset": "1"}),
        make_response(200, offsets(9, 1)),
        make_response(200, offsets(0, 500_000)),
    ],
)
def test_an_upload_that_does_not_get_on_is_given_up(film: DraftMedia, reply: UpstreamResponse | ApiError) -> None:
    found = prepared(draft("hello", film), started(), piece(0, 500_000, reply))
    for _ in range(4):
        assert isinstance(found, Pending)
        found = prepared(draft("hello", film), piece(0, 500_000, reply), saved=found.saved)
    assert isinstance(found, Pending)
    with pytest.raises(ApiError) as caught:
        prepared(draft("hello", film), piece(0, 500_000, reply), saved=found.saved)
    assert caught.value.code == "platform_unavailable"


# --- Stories with a video ---

RUPLOAD = "https://rupload.facebook.com/video-upload/v26.0/71"
MISSED = {"video": "71", "url": RUPLOAD, "unsure": True}


def story_started(url: object = RUPLOAD) -> ExpectedCall:
    reply = make_response(200, {"video_id": "71", "upload_url": url})
    return ExpectedCall("POST", f"{HOST}/1784/video_stories", reply, data={"upload_phase": "start"})


def story_bytes(start: int, reply: UpstreamResponse | ApiError) -> ExpectedCall:
    sizes = {"offset": str(start), "file_size": "800000", "Content-Length": str(800_000 - start)}
    headers = {"Authorization": "OAuth access-token-1"} | sizes
    return ExpectedCall("POST", RUPLOAD, reply, headers=headers, content=CONTENT[start:], timeout=UPLOAD_SECONDS)


def received(count: object, name: str = "bytes_transfered") -> ExpectedCall:
    reply = make_response(200, {"id": "71", "status": {"uploading_phase": {name: count}}})
    return ExpectedCall("GET", f"{HOST}/71", reply, params={"fields": "status"})


def upload_refusal(kind: str, *, retriable: bool) -> UpstreamResponse:
    """A refusal in the upload host's shape."""
    return make_response(400, {"debug_info": {"retriable": retriable, "type": kind, "message": "early"}})


def test_a_story_goes_on_where_its_upload_was(film: DraftMedia) -> None:
    plan, done = Ready({"kind": "video_story", "video": "71"}), make_response(200, {"success": True})
    content = draft("", film, story=True)
    broken = upload_refusal("PartialRequestError", retriable=False)
    assert prepared(content, story_started(), story_bytes(0, done)) == plan
    wrong = upload_refusal("OffsetInvalidError", retriable=False)
    other = upload_refusal("ProcessingFailedError", retriable=True)
    for lost in (LOST, broken, wrong, other, make_response(200, {"success": False})):
        first = prepared(content, story_started(), story_bytes(0, lost))
        assert first == Pending({"story": MISSED | {"misses": 1}}, 3.0)
        assert prepared(content, received(300_000), story_bytes(300_000, done), saved=first.saved) == plan
        assert prepared(content, received(800_000, "bytes_transferred"), saved=first.saved) == plan
    with pytest.raises(ApiError) as caught:
        prepared(content, received(0), story_bytes(0, broken), saved={"story": MISSED | {"misses": 5}})
    assert (caught.value.code, caught.value.outcome) == ("platform_unavailable", Outcome.NOT_SENT)


@pytest.mark.parametrize(
    "url", [None, "", "http://rupload.facebook.com/x", "https://evil.example/x", "https://evilfacebook.com/x"]
)
def test_the_token_goes_to_no_other_host_with_a_story(film: DraftMedia, url: object) -> None:
    with pytest.raises(ApiError) as caught:
        prepared(draft("", film, story=True), story_started(url))
    assert caught.value.code == "platform_unavailable"


def test_a_refused_upload_of_a_story_is_told(film: DraftMedia) -> None:
    said = {"debug_info": {"retriable": False, "type": "ProcessingFailedError", "message": "The video is broken."}}
    with pytest.raises(ApiError, match="The video is broken") as caught:
        prepared(draft("", film, story=True), story_started(), story_bytes(0, make_response(400, said)))
    assert caught.value.code == "platform_rejected"


@pytest.mark.parametrize(
    ("reply", "code", "rule"),
    [
        (graph_refusal(352), "platform_rejected", "facebook.media.invalid"),
        (graph_refusal(6000, 1363033), "platform_rejected", "facebook.media.invalid"),
        (graph_refusal(190), "platform_auth_failed", None),
        (graph_refusal(100, message="No permission to publish the video"), "platform_auth_failed", None),
    ],
)
def test_a_video_that_is_refused_stops_the_post(
    film: DraftMedia, reply: UpstreamResponse, code: str, rule: str | None
) -> None:
    for calls in ([started(reply)], [started(), piece(0, 500_000, reply)]):
        with pytest.raises(ApiError) as caught:
            prepared(draft("hello", film), *calls)
        assert (caught.value.code, caught.value.rule) == (code, rule)


# --- Where there are no phases any more ---

OVER = graph_refusal(100, message="(#100) upload_phase is deprecated")
OAUTH = {"Authorization": "OAuth access-token-1"}
FILE = f"{HOST}/upload:9"
BY_HANDLE = {"kind": "handle", "handle": "h9", "message": "hello", "link": "", "photos": []}


def opening(reply: UpstreamResponse | ApiError | None = None) -> ExpectedCall:
    form = {"file_name": "video", "file_length": str(len(CONTENT)), "file_type": "video/mp4"}
    return ExpectedCall("POST", f"{HOST}/app-1/uploads", reply or make_response(200, {"id": "upload:9"}), data=form)


def bytes_from(start: int, reply: UpstreamResponse | ApiError) -> ExpectedCall:
    headers = OAUTH | {"file_offset": str(start), "Content-Length": str(len(CONTENT) - start)}
    return ExpectedCall("POST", FILE, reply, headers=headers, content=CONTENT[start:], timeout=UPLOAD_SECONDS)


def offset(at: Any) -> ExpectedCall:
    return ExpectedCall("GET", FILE, make_response(200, {"id": "upload:9", "file_offset": at}), headers=OAUTH)


@pytest.mark.parametrize("refusal", [OVER, graph_refusal(12), graph_refusal(2500, status=404)])
def test_without_phases_the_file_is_uploaded_whole_and_published(film: DraftMedia, refusal: UpstreamResponse) -> None:
    ready = prepared(draft("hello", film), started(refusal), opening(), bytes_from(0, make_response(200, {"h": "h9"})))
    assert ready == Ready(BY_HANDLE)
    assert facebook.PLATFORM.choose_send_class(ready.plan).name == "none"
    form = {"fbuploader_video_file_chunk": "h9", "description": "hello"}
    assert send(ready.plan, ExpectedCall("POST", VIDEOS, make_response(200, {"id": "71"}), data=form)) == Pending(
        TAKEN, 1.0
    )
    with pytest.raises(ApiError) as caught:
        send(ready.plan, ExpectedCall("POST", VIDEOS, make_response(200, {}), data=form))
    assert caught.value.outcome is Outcome.AMBIGUOUS
    video = OURS | attached({"media_type": "video", "target": {"id": "71"}})
    assert settle(ready.plan, listed(video)) == POST
    assert isinstance(settle(ready.plan, listed(OURS)), Unknown)  # its attachment may not be listed yet
    photo = OURS | attached({"media_type": "photo", "target": {"id": "9"}})
    assert isinstance(settle(ready.plan, listed(photo)), Absent)
    for other in (video, photo, OURS):
        assert isinstance(settle(ready.plan | {"message": ""}, listed(other | {"message": ""})), Unknown)


def test_a_whole_file_goes_on_where_it_was_after_a_failure(film: DraftMedia) -> None:
    first = prepared(draft("hello", film), started(OVER), opening(), bytes_from(0, LOST))
    unsure = {"upload": {"id": "upload:9", "sent": 0, "unsure": True, "misses": 1}}
    assert first == Pending(unsure, 3.0)
    rest = bytes_from(300_000, make_response(200, {"h": "h9"}))
    assert prepared(draft("hello", film), offset(300_000), rest, saved=unsure) == Ready(BY_HANDLE)
    anew = prepared(draft("hello", film), offset(len(CONTENT)), opening(), saved=unsure)
    assert anew == Pending({"upload": {"id": "upload:9", "sent": 0, "unsure": False, "misses": 1}}, 0)
    assert isinstance(prepared(draft("hello", film), offset("?"), saved=unsure), Pending)
    with pytest.raises(ApiError) as caught:
        prepared(draft("hello", film), offset("?"), saved={"upload": unsure["upload"] | {"misses": 5}})
    assert (caught.value.code, caught.value.outcome) == ("platform_unavailable", Outcome.NOT_SENT)


@pytest.mark.parametrize(
    "body", [{}, {"video_id": "71"}, {"upload_session_id": "70", "video_id": "71"} | offsets(0, 0)]
)
def test_an_upload_that_does_not_begin_stops_the_post(film: DraftMedia, body: dict[str, str]) -> None:
    with pytest.raises(ApiError) as caught:
        prepared(draft("hello", film), started(make_response(200, body)))
    assert (caught.value.code, caught.value.outcome) == ("platform_unavailable", Outcome.NOT_SENT)


TAKEN = {"taken": {"video": "71", "waited": 0.0, "wait": 1.0, "misses": 0, "story": False}}


def test_the_last_step_is_taken_and_the_video_is_looked_at() -> None:
    assert send(FILM, finish(make_response(200, {"success": True}))) == Pending(TAKEN, 1.0)
    silent = FILM | {"message": ""}
    assert send(silent, finish(make_response(200, {"success": True}), "")) == Pending(TAKEN, 1.0)


def asked(reply: UpstreamResponse | ApiError, **more: Any) -> Ready | Pending:
    return prepared(draft("hello"), seen(reply), saved={"taken": TAKEN["taken"] | more})


NOT_YET = [
    film_state("processing", "in_progress", permalink_url="/1784/videos/71/"),
    film_state("processing", "not_started", published=False),
    film_state("ready", "not_started", published=False),
    film_state("ready", "in_progress", published=False),
    film_state("processing", "complete", published=True),
    film_state("upload_complete"),
    make_response(200, {"id": "71"}),
]


@pytest.mark.parametrize("reply", NOT_YET)
def test_a_video_is_pending_until_it_is_both_ready_and_published(reply: UpstreamResponse) -> None:
    found = asked(reply)
    assert found == Pending({"taken": TAKEN["taken"] | {"waited": 1.0, "wait": 1.6}}, 1.0)


@pytest.mark.parametrize("more", [{"published": True}, {"phases": {"publishing_phase": {"status": "complete"}}}])
def test_a_public_video_has_its_address_and_is_not_sent_again(more: dict[str, Any]) -> None:
    ready = asked(film_state("ready", permalink_url="/1784/videos/71/", **more))
    assert ready == Ready({"kind": "video", "video": "71", "live": WATCH})
    assert send(ready.plan) == SHOWN
    assert settle(ready.plan) == SHOWN
    by_post = asked(make_response(200, {"status": {"video_status": "ready"}, "published": True, "post_id": "1784_9"}))
    assert isinstance(by_post, Ready)
    assert by_post.plan["live"] == "https://www.facebook.com/1784_9"


FAILURES = [
    (film_state("error", phases={"processing_phase": {"status": "error", "error": {"message": "too odd"}}}), "too odd"),
    (film_state("error", phases={"processing_phase": {"status": "error", "errors": [{"message": "no"}]}}), "no"),
    (film_state("ready", phases={"publishing_phase": {"status": "error", "error": {"message": "not out"}}}), "not out"),
    (film_state("ready", phases={"publishing_phase": {"publish_status": "error", "error": "plain"}}), "plain"),
    (film_state("error", phases={"processing_phase": {"error": {"code": 7}}}), '{"code": 7}'),
    (film_state("expired"), "expired"),
    (film_state("upload_failed"), "upload_failed"),
]


@pytest.mark.parametrize(("reply", "words"), FAILURES)
def test_a_video_that_comes_to_nothing_ends_with_facebooks_words(reply: UpstreamResponse, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        asked(reply)
    error = caught.value
    assert (error.code, error.rule, error.outcome) == (
        "platform_rejected",
        "facebook.media.invalid",
        Outcome.REJECTED,
    )
    assert (error.absent, error.retryable) == (True, False)
    assert words in error.message
    assert error.platform_response["body"] == reply.record()


def test_the_waits_grow_to_a_minute_and_end_after_an_hour() -> None:
    found, waits = prepared(draft(), seen(NOT_YET[0]), saved=TAKEN), []
    with pytest.raises(ApiError, match="within an hour") as caught:  # noqa: PT012 - the loop ends by the error
        while isinstance(found, Pending):
            waits.append(found.seconds)
            found = prepared(draft(), seen(NOT_YET[0]), saved=found.saved)
    assert waits[:4] == pytest.approx([1.0, 1.6, 2.56, 4.096])
    assert max(waits) == 60.0
    assert 3500 < sum(waits) <= 3600
    assert (caught.value.code, caught.value.absent) == ("platform_unavailable", False)


@pytest.mark.parametrize(
    "reply", [LOST, UNREACHED, graph_refusal(2), make_response(500, b""), graph_refusal(100, 33), graph_refusal(4)]
)
def test_a_look_that_fails_is_made_again(reply: UpstreamResponse | ApiError) -> None:
    assert asked(reply) == Pending({"taken": TAKEN["taken"] | {"waited": 1.0, "wait": 1.6, "misses": 1}}, 1.0)
    with pytest.raises(ApiError) as caught:
        asked(reply, misses=8)
    assert (caught.value.code, caught.value.outcome) == ("platform_unavailable", Outcome.NOT_SENT)


def test_a_throttled_look_waits_as_long_as_it_is_told() -> None:
    usage = '{"1784": [{"estimated_time_to_regain_access": 5}]}'
    found = asked(graph_refusal(80001, headers={"x-business-use-case-usage": usage}))
    assert isinstance(found, Pending)
    assert found.seconds == 300


def test_a_refused_token_ends_the_looking() -> None:
    with pytest.raises(ApiError) as caught:
        asked(graph_refusal(190, 460))
    assert (caught.value.code, caught.value.outcome) == ("platform_auth_failed", Outcome.NOT_SENT)


def test_a_last_step_that_was_refused_is_looked_at_before_it_is_believed() -> None:
    refusal = finish(graph_refusal(6000, 1363033))
    assert send(FILM, refusal, seen(film_state("ready", "complete", published=False))) == Pending(TAKEN, 1.0)
    for look in (film_state("processing"), LOST):
        with pytest.raises(ApiError) as caught:
            send(FILM, refusal, seen(look))
        assert (caught.value.rule, caught.value.absent) == ("facebook.media.invalid", False)


def test_a_last_step_that_was_not_confirmed_is_open() -> None:
    for body in ({"success": False}, {}):
        with pytest.raises(ApiError) as caught:
            send(FILM, finish(make_response(200, body)))
        assert caught.value.outcome is Outcome.AMBIGUOUS


# --- Settling --------------------------------------------------------------------------------------------------------

POST_FIELDS = (
    "id,message,created_time,permalink_url,application,"
    "attachments{media_type,unshimmed_url,target{id},subattachments{target{id}}}"
)
LISTED = {"fields": POST_FIELDS, "limit": "25", "since": str((NOW - 120_000) // 1000)}
OURS = {
    "id": "1784_5",
    "message": "hello",
    "created_time": STAMP,
    "permalink_url": LINK,
    "application": {"id": "app-1"},
}


def settle(
    plan: dict[str, Any], *calls: ExpectedCall, bound: frozenset[str] = frozenset()
) -> Published | Pending | Absent | Unknown:
    up = make_upstream(facebook.PLATFORM, *calls, bound=bound)
    found = facebook.settle(up, plan, NOW)
    check_finished(up)
    return found


def listed(*found: dict[str, Any], after: str = "", before: str = "") -> ExpectedCall:
    paging = {"paging": {"cursors": {"after": after}, "next": "https://x/?access_token=t"}} if after else {}
    params = LISTED | ({"after": before} if before else {})
    return ExpectedCall(
        "GET", f"{HOST}/1784/published_posts", make_response(200, {"data": list(found), **paging}), params=params
    )


def test_a_post_is_found_by_its_words_its_author_and_its_time() -> None:
    other = OURS | {"id": "1784_4", "message": "other"}
    assert settle(PLAN, listed(other, OURS)) == POST
    assert settle(PLAN, listed(other, after="x"), listed(OURS, before="x")) == POST
    assert settle(PLAN, listed({name: OURS[name] for name in OURS if name != "application"})) == POST


@pytest.mark.parametrize(
    "other",
    [
        OURS | {"message": "hello!"},
        OURS | {"created_time": "2026-11-20T09:08:08+0000"},
        OURS | {"application": {"id": "another"}},
    ],
)
def test_what_is_not_ours_is_not_taken(other: dict[str, Any]) -> None:
    assert isinstance(settle(PLAN, listed(other)), Absent)


@pytest.mark.parametrize("id", [None, "", "1" * 2_000, "1\n"])
def test_ours_without_a_usable_id_does_not_count_as_absent(id: str | None) -> None:
    assert isinstance(settle(PLAN, listed(OURS | {"id": id})), Unknown)


def test_what_belongs_to_another_post_of_ours_is_not_taken() -> None:
    assert isinstance(settle(PLAN, listed(OURS), bound=frozenset({"1784_5"})), Absent)


def test_of_two_that_look_the_same_none_is_taken() -> None:
    assert settle(PLAN, listed(OURS, OURS | {"id": "1784_6"})) == Unknown({"looked": 2, "alike": 2})


def attached(*items: dict[str, Any]) -> dict[str, Any]:
    return {"attachments": {"data": list(items)}}


def album(*ids: str | None) -> dict[str, Any]:
    inner = [{"target": {"id": id}} for id in ids]
    return attached({"media_type": "album", "subattachments": {"data": inner}})


def test_images_are_compared_by_their_ids() -> None:
    plan = PLAN | {"message": "", "photos": ["11", "12"]}
    silent = {name: OURS[name] for name in OURS if name != "message"}
    assert settle(plan, listed(silent | album("12", "11"))) == POST
    assert isinstance(settle(plan, listed(silent | album("13"))), Absent)
    alone = OURS | {"message": ""} | attached({"media_type": "photo", "target": {"id": "11"}})
    assert settle(plan | {"photos": ["11"]}, listed(alone)) == POST


def test_one_photo_is_enough_whatever_became_of_the_text() -> None:
    """Facebook lists some of many photos, and may rewrite a text."""
    plan = PLAN | {"photos": ["11", "12"]}
    assert settle(plan, listed(OURS | {"message": "hello Ann"} | album("12", None))) == POST
    assert isinstance(settle(plan, listed(OURS | album("13", "14"))), Absent)


@pytest.mark.parametrize("shown", [{}, {"attachments": None}, album(None), attached({"media_type": "photo"})])
def test_a_post_whose_photos_have_no_ids_may_be_ours(shown: dict[str, Any]) -> None:
    assert isinstance(settle(PLAN | {"photos": ["11", "12"]}, listed(OURS | shown)), Unknown)


def test_a_post_of_words_is_not_one_with_photos_of_the_same_words() -> None:
    photo = OURS | attached({"media_type": "photo", "target": {"id": "9"}})
    assert isinstance(settle(PLAN, listed(photo)), Unknown)
    assert settle(PLAN, listed(photo | {"id": "1784_6"}, OURS)) == POST
    shared = {"media_type": "video", "unshimmed_url": "https://videos.example/1"}
    assert settle(PLAN, listed(OURS | attached(shared))) == POST


def test_a_link_is_compared_and_another_one_proves_nothing() -> None:
    """Facebook may list another address of the same page."""
    for message in ("", "hello"):
        plan, words = PLAN | {"message": message, "link": "https://example.com/a"}, {"message": message or None}
        same, other = (
            OURS | words | attached({"media_type": "share", "unshimmed_url": f"https://example.com/{name}"})
            for name in "ab"
        )
        assert settle(plan, listed(same)) == POST
        assert settle(plan, listed(other | {"id": "1784_6"}, same)) == POST
        assert isinstance(settle(plan, listed(other)), Unknown)


@pytest.mark.parametrize("message", ["hello \r\n", "hel\u200blo", "\ufeffhello", "hello\u00a0"])
def test_changed_white_space_and_invisible_characters_hide_no_post(message: str) -> None:
    assert settle(PLAN, listed(OURS | {"message": message})) == POST


def test_an_older_post_before_newer_ones_does_not_end_the_list() -> None:
    old = OURS | {"id": "1784_1", "created_time": "2026-11-19T09:10:12+0000"}
    other = OURS | {"message": "other"}
    assert settle(PLAN, listed(old, other, after="x"), listed(OURS, before="x")) == POST
    assert isinstance(settle(PLAN, listed(old, after="x")), Absent)


def test_a_list_that_goes_on_without_a_cursor_proves_nothing() -> None:
    body = {"data": [OURS | {"message": "other"}], "paging": {"next": "https://x/?until=1"}}
    call = ExpectedCall("GET", f"{HOST}/1784/published_posts", make_response(200, body), params=LISTED)
    assert isinstance(settle(PLAN, call), Unknown)


def test_a_list_without_an_end_proves_nothing() -> None:
    other = OURS | {"message": "other"}
    more = [listed(other, after="x", before="x") for _ in range(19)]
    assert settle(PLAN, listed(other, after="x"), *more) == Unknown({"looked": 20, "alike": 0})


@pytest.mark.parametrize(
    "reply", [LOST, graph_refusal(190), graph_refusal(4), make_response(500, b""), make_response(200, {"data": 7})]
)
def test_a_look_that_fails_is_no_absence(reply: UpstreamResponse | ApiError) -> None:
    call = ExpectedCall("GET", f"{HOST}/1784/published_posts", reply, params=LISTED)
    assert isinstance(settle(PLAN, call), Unknown)
    assert isinstance(settle(FILM, seen(reply if reply is LOST else graph_refusal(190))), Unknown)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (film_state("ready", "complete", published=True, permalink_url=WATCH), SHOWN),
        (film_state("ready", published=True, permalink_url=WATCH), SHOWN),
        # The last step was taken: from here on the video is asked about.
        (film_state("processing", "in_progress"), Pending),
        (film_state("ready", "complete", published=False), Pending),
        # Nothing can come of it any more: asking about it tells why.
        (film_state("error", published=True), Pending),
        (film_state("expired", "in_progress"), Pending),
        # The last step has not come.
        (film_state("upload_complete"), Absent),
        (film_state("uploading"), Absent),
        (film_state("ready", published=False), Absent),
        # It may have.
        (film_state("processing"), Unknown),
        (make_response(200, {"id": "71"}), Unknown),
    ],
)
def test_a_video_is_looked_at_under_its_id(reply: UpstreamResponse, expected: Any) -> None:
    found = settle(FILM, seen(reply))
    assert found == expected if isinstance(expected, Published) else isinstance(found, expected)


# --- Connecting ------------------------------------------------------------------------------------------------------

EXCHANGE = {
    "grant_type": "fb_exchange_token",
    "client_id": "app-1",
    "client_secret": "app-secret-1",
    "fb_exchange_token": "user-token-1",
}
TOKEN_URL = "https://graph.facebook.com/v26.0/oauth/access_token"
LONG = make_response(200, {"access_token": "long-user-token", "token_type": "bearer", "expires_in": 5_183_944})
USER = {"Authorization": "Bearer long-user-token"}
PAGES = {"fields": "id,name,access_token,tasks,category", "limit": "100"}
SCOPES = ["pages_show_list", "pages_read_engagement", "pages_manage_posts"]
BUSINESS = [*SCOPES, "business_management"]


def exchange(reply: UpstreamResponse | ApiError = LONG) -> ExpectedCall:
    return ExpectedCall("GET", TOKEN_URL, reply, headers={"Accept": "application/json"}, params=EXCHANGE)


def page_row(id: str = "1784", tasks: tuple[str, ...] = ("CREATE_CONTENT",)) -> dict[str, Any]:
    return {
        "id": id,
        "name": f"Page {id}",
        "access_token": f"page-token-{id}",
        "tasks": list(tasks),
        "category": "Shop",
    }


def pages(*rows: dict[str, Any], after: str = "", before: str = "") -> ExpectedCall:
    paging = {"paging": {"cursors": {"after": after}, "next": "https://x"}} if after else {}
    params = PAGES | ({"after": before} if before else {})
    return ExpectedCall(
        "GET", f"{HOST}/me/accounts", make_response(200, {"data": list(rows), **paging}), headers=USER, params=params
    )


def granted(scopes: list[str] = SCOPES) -> list[ExpectedCall]:
    rows = [{"permission": name, "status": "granted" if name in scopes else "declined"} for name in BUSINESS]
    return [
        ExpectedCall("GET", f"{HOST}/me", make_response(200, {"id": "42"}), headers=USER, params={"fields": "id"}),
        ExpectedCall("GET", f"{HOST}/me/permissions", make_response(200, {"data": rows}), headers=USER),
    ]


def identified(*calls: ExpectedCall) -> tuple[OfferedAccount, ...]:
    up = make_upstream(facebook.PLATFORM, *calls, tokens=Tokens("user-token-1"))
    try:
        return facebook.identify(up, NOW)
    finally:
        check_finished(up)


def test_a_login_offers_the_pages_on_which_it_may_create_content() -> None:
    found = identified(
        exchange(),
        *granted(),
        pages(page_row(), page_row("2", ("ANALYZE",)), after="x"),
        pages(page_row("3"), before="x"),
    )
    private = {"scopes": SCOPES, "login": "42"}
    assert found == tuple(
        OfferedAccount(
            AccountIdentity(id, f"Page {id}", {"category": "Shop"}),
            Tokens(f"page-token-{id}", "long-user-token", None, private),
            "page",
        )
        for id in ("1784", "3")
    )


def portfolios(*ids: str, reply: UpstreamResponse | ApiError | None = None) -> ExpectedCall:
    body = {"data": [{"id": id, "name": f"Portfolio {id}"} for id in ids]}
    params = {"fields": "id,name", "limit": "100"}
    return ExpectedCall("GET", f"{HOST}/me/businesses", reply or make_response(200, body), headers=USER, params=params)


def held(
    portfolio: str, kind: str, *rows: dict[str, Any], reply: UpstreamResponse | ApiError | None = None
) -> ExpectedCall:
    """The Pages of a portfolio, which tells no tasks."""
    told = [{name: row[name] for name in row if name != "tasks"} for row in rows]
    params = {"fields": "id,name,access_token,category", "limit": "100"}
    url = f"{HOST}/{portfolio}/{kind}_pages"
    return ExpectedCall("GET", url, reply or make_response(200, {"data": told}), headers=USER, params=params)


def test_the_pages_of_business_portfolios_are_offered_too_and_each_once() -> None:
    found = identified(
        exchange(),
        *granted(BUSINESS),
        pages(page_row("1"), page_row("2", ("ANALYZE",))),
        portfolios("71", "72"),
        held("71", "owned", page_row("1"), page_row("3")),
        held("71", "client", page_row("2"), page_row("4")),
        held("72", "owned", page_row("4"), {"id": "5", "name": "closed"}),
        held("72", "client"),
    )
    assert [one.identity.platform_account_id for one in found] == ["1", "3", "4"]
    assert found[1].tokens == Tokens("page-token-3", "long-user-token", None, {"scopes": BUSINESS, "login": "42"})


def test_the_requests_for_the_pages_of_many_portfolios_have_a_bound() -> None:
    ids = [str(number) for number in range(100, 300)]
    lists = [held(id, kind, page_row(id)) for id in ids for kind in ("owned", "client")]
    found = identified(exchange(), *granted(BUSINESS), pages(page_row("1")), portfolios(*ids), *lists[:198])
    assert [one.identity.platform_account_id for one in found] == ["1", *ids[:99]]


def test_login_accounts_suffice_when_portfolios_are_unavailable() -> None:
    for reply in (LOST, graph_refusal(2), graph_refusal(10, status=403), graph_refusal(100)):
        found = identified(exchange(), *granted(BUSINESS), pages(page_row("1")), portfolios(reply=reply))
        assert [one.identity.platform_account_id for one in found] == ["1"]
    with pytest.raises(ApiError) as caught:
        identified(exchange(), *granted(BUSINESS), pages(), portfolios(reply=graph_refusal(2)))
    assert caught.value.code == "platform_unavailable"


NOTHING = [
    ([*granted(), pages()], "business_management was not granted; without it Facebook does not list"),
    ([*granted(), pages(page_row(tasks=("ANALYZE",)))], "It may not create content on Page 1784."),
    ([*granted(BUSINESS), pages(), portfolios()], "It belongs to no business portfolios."),
    (
        [*granted(BUSINESS), pages(), portfolios("71"), held("71", "owned"), held("71", "client")],
        "It belongs to 1 business portfolio.",
    ),
    (
        [
            *granted(BUSINESS),
            pages(),
            portfolios("71"),
            held("71", "owned", {"id": "5", "name": "Shop"}),
            held("71", "client"),
        ],
        "A business portfolio has Shop, but gives this person no access to it: a person with full control",
    ),
    (
        [*granted(BUSINESS), pages(), portfolios(reply=graph_refusal(10, status=403, message="needs review"))],
        "The business portfolios could not be searched: Facebook did not list the Pages: needs review",
    ),
]


@pytest.mark.parametrize(("calls", "words"), NOTHING)
def test_a_login_without_such_a_page_is_refused_with_what_is_missing(calls: list[ExpectedCall], words: str) -> None:
    with pytest.raises(ApiError) as caught:
        identified(exchange(), *calls)
    assert (caught.value.rule, caught.value.code) == ("facebook.pages.none", "platform_rejected")
    assert words in caught.value.message


def test_many_pages_are_named_shortly() -> None:
    rows = [page_row(str(number), ("ANALYZE",)) for number in range(7)]
    with pytest.raises(ApiError, match="Page 0, Page 1, Page 2, Page 3, Page 4 and 2 more"):
        identified(exchange(), *granted(), pages(*rows))


def test_a_login_that_declined_a_permission_is_refused() -> None:
    with pytest.raises(ApiError, match="pages_manage_posts") as caught:
        identified(exchange(), *granted(SCOPES[:2]))
    assert caught.value.code == "platform_auth_failed"


def refreshed(*calls: ExpectedCall) -> Tokens:
    up = make_upstream(facebook.PLATFORM, *calls, tokens=TOKENS)
    try:
        return facebook.refresh(up, NOW)
    finally:
        check_finished(up)


def alive(reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("GET", f"{HOST}/1784", reply, params={"fields": "id"})


def test_a_refresh_renews_the_login_and_takes_the_pages_token_from_it() -> None:
    assert refreshed(exchange(), pages(page_row("2"), page_row())) == Tokens(
        "page-token-1784", "long-user-token", None, {"login": "42"}
    )


def test_a_refresh_finds_the_page_in_its_portfolio() -> None:
    held_tokens = {**TOKENS.private} | {"scopes": BUSINESS}
    up = make_upstream(
        facebook.PLATFORM,
        exchange(),
        pages(page_row("2")),
        portfolios("71"),
        held("71", "owned", page_row()),
        tokens=Tokens("access-token-1", "user-token-1", None, held_tokens),
    )
    assert facebook.refresh(up, NOW).access == "page-token-1784"
    check_finished(up)


def test_unlisted_page_keeps_its_token_while_it_works() -> None:
    assert refreshed(exchange(), pages(page_row("2")), alive(make_response(200, {"id": "1784"}))) == TOKENS


def test_page_token_outlives_the_login_while_it_works() -> None:
    assert refreshed(exchange(graph_refusal(190, 463)), alive(make_response(200, {"id": "1784"}))) == Tokens(
        "access-token-1", None, None, {"login": "42"}
    )
    with pytest.raises(ApiError) as caught:
        refreshed(exchange(graph_refusal(190, 460)), alive(graph_refusal(190, 460)))
    assert caught.value.code == "platform_auth_failed"


@pytest.mark.parametrize(
    "reply",
    [LOST, UNREACHED, graph_refusal(2), graph_refusal(4), make_response(500, b""), make_response(200, "<html>")],
)
def test_a_refresh_that_is_only_disturbed_revokes_nothing(reply: UpstreamResponse | ApiError) -> None:
    with pytest.raises(ApiError) as caught:
        refreshed(exchange(reply))
    assert caught.value.code == "platform_unavailable"
    assert "user-token-1" not in json.dumps(caught.value.platform_response)


def revoked(reply: UpstreamResponse | ApiError) -> None:
    call = ExpectedCall("DELETE", f"{HOST}/42/permissions", reply, headers={"Authorization": "Bearer user-token-1"})
    up = make_upstream(facebook.PLATFORM, call, tokens=TOKENS)
    facebook.revoke(up)
    check_finished(up)


def test_disconnecting_takes_back_what_the_login_allowed() -> None:
    revoked(make_response(200, b"true"))
    revoked(graph_refusal(190, 458))
    facebook.revoke(make_upstream(facebook.PLATFORM, tokens=Tokens("access-token-1", "user-token-1")))
    with pytest.raises(ApiError):
        revoked(graph_refusal(2))
