"""LinkedIn connector: exact calls for each post kind, answers, uploads, lookups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UPLOAD_SECONDS, UpstreamResponse
from socialpub.platforms.contract import Absent, Draft, Pending, Published, Ready, Tokens, Unknown, Upstream
from socialpub.platforms.kit.text import escape_little_text
from socialpub.platforms.linkedin import connector as linkedin
from tests.support.platforms.linkedin_calls import (
    FINDER,
    IMAGE,
    PAGE,
    PERSON,
    REST,
    SHARE,
    VIDEO,
    VersionedCall,
    document,
    draft,
    image,
    make_refusal,
    make_upstream,
    post,
    video,
)
from tests.support.platforms.scripted_upstream import AUTH, NOW, check_finished, make_response

STORE = "https://www.linkedin.com/dms-uploads/x1"
BYTES = {"Content-Type": "application/octet-stream"}
LOST = ApiError("platform_unavailable", outcome=Outcome.AMBIGUOUS)
UNREACHED = ApiError("platform_unavailable", outcome=Outcome.NOT_SENT)
POSTED = Published(SHARE, SHARE, None, f"https://www.linkedin.com/feed/update/{SHARE}/")
BEGIN = {"action": "initializeUpload"}


def plan(**body: Any) -> dict[str, Any]:
    return {"body": post(**body)}


def open_image(
    owner: str = PERSON, urn: str = IMAGE, reply: UpstreamResponse | ApiError | None = None, kind: str = "image"
) -> VersionedCall:
    value = {"uploadUrlExpiresAt": NOW + 1, "uploadUrl": STORE, kind: urn}
    asked = {"initializeUploadRequest": {"owner": owner}}
    return VersionedCall(
        "POST", f"{REST}/{kind}s", reply or make_response(200, {"value": value}), params=BEGIN, json=asked
    )


def put_image(content: bytes = b"a jpeg", reply: UpstreamResponse | ApiError | None = None) -> VersionedCall:
    headers = {**BYTES, "Content-Length": str(len(content)), **AUTH}
    return VersionedCall("PUT", STORE, reply or make_response(201), headers, content=content, timeout=UPLOAD_SECONDS)


def put_part(number: int, content: bytes, reply: UpstreamResponse | ApiError | None = None) -> VersionedCall:
    headers = {**BYTES, "Content-Length": str(len(content))}
    there = reply or make_response(200, etag=f'"e{number}"')
    return VersionedCall("PUT", f"{STORE}/{number}?sig=1", there, headers, content=content, timeout=UPLOAD_SECONDS)


def status(kind: str, urn: str, reply: UpstreamResponse | ApiError | str) -> VersionedCall:
    told = make_response(200, {"id": urn, "status": reply}) if isinstance(reply, str) else reply
    return VersionedCall("GET", f"{REST}/{kind}/{urn.replace(':', '%3A')}", told)


def prepared(up: Upstream, content: Draft, saved: dict[str, Any] | None = None) -> Ready | Pending:
    found = linkedin.prepare(up, content, saved)
    check_finished(up)
    return found


def pending(found: Ready | Pending) -> Pending:
    assert isinstance(found, Pending)
    return found


def failure(up: Upstream, content: Draft, saved: dict[str, Any] | None = None) -> ApiError:
    with pytest.raises(ApiError) as caught:
        linkedin.prepare(up, content, saved)
    check_finished(up)
    return caught.value


# --- Text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "commentary"),
    [
        ("hello", "hello"),
        ("Save 50% (today) *now*", r"Save 50% \(today\) \*now\*"),
        ("hi @bob", r"hi \@bob"),
        ("go #launch", "go #launch"),
        ("C# rocks", r"C\# rocks"),
        ("snake_case ~ a|b {c} <b> C:\\temp", r"snake\_case \~ a\|b \{c\} \<b\> C:\\temp"),
        ("see https://example.com/a_b", r"see https://example.com/a\_b"),
    ],
)
def test_a_text_is_escaped_and_nothing_is_called_for_it(text: str, commentary: str) -> None:
    assert prepared(make_upstream(), draft(text)) == Ready(plan(text=commentary))


def test_visibility_is_as_it_was_asked_for() -> None:
    assert prepared(make_upstream(), draft(visibility="CONNECTIONS")) == Ready(plan(visibility="CONNECTIONS"))


def test_reposts_can_be_refused() -> None:
    body = plan()["body"] | {"isReshareDisabledByAuthor": True}
    assert prepared(make_upstream(), draft(reshareDisabled=True)) == Ready({"body": body})
    assert prepared(make_upstream(), draft(reshareDisabled=False)) == Ready(plan())


def test_a_page_is_the_author_of_its_posts() -> None:
    assert prepared(make_upstream(account=PAGE), draft()) == Ready(plan(author=PAGE))


# --- Images ----------------------------------------------------------------------------------------------------------


def test_a_members_image_is_given_a_moment_since_it_cannot_be_asked_for(tmp_path: Path) -> None:
    content = draft("hello", image(tmp_path / "a", "a cat"))
    later = pending(prepared(make_upstream(open_image(), put_image()), content))
    assert later.seconds == 2.0
    ready = prepared(make_upstream(), content, later.saved)
    assert ready == Ready(plan(media={"id": IMAGE, "altText": "a cat"}))


def test_a_pages_image_is_asked_for_until_it_is_available(tmp_path: Path) -> None:
    content = draft("hello", image(tmp_path / "a"))
    up = make_upstream(open_image(PAGE), put_image(), status("images", IMAGE, "PROCESSING"), account=PAGE)
    later = pending(prepared(up, content))
    up = make_upstream(status("images", IMAGE, "AVAILABLE"), account=PAGE)
    assert prepared(up, content, later.saved) == Ready(plan(author=PAGE, media={"id": IMAGE}))


def test_a_page_whose_token_may_not_read_images_waits_a_moment_too(tmp_path: Path) -> None:
    content = draft("hello", image(tmp_path / "a"))
    denied = make_refusal(403, "ACCESS_DENIED")
    up = make_upstream(open_image(PAGE), put_image(), status("images", IMAGE, denied), account=PAGE)
    later = pending(prepared(up, content))
    up = make_upstream(status("images", IMAGE, denied), account=PAGE)
    assert prepared(up, content, later.saved) == Ready(plan(author=PAGE, media={"id": IMAGE}))


DOCUMENT = "urn:li:document:D1"


def test_a_document_goes_up_as_an_image_does_and_has_its_title(tmp_path: Path) -> None:
    content = draft("read", document(tmp_path / "a"), documentTitle="Menu")
    put, media = put_image(b"%PDF-1.7"), {"id": DOCUMENT, "title": "Menu"}
    later = pending(prepared(make_upstream(open_image(urn=DOCUMENT, kind="document"), put), content))
    assert later.seconds == 2.0  # a member's token cannot read it
    assert prepared(make_upstream(), content, later.saved) == Ready(plan(text="read", media=media))
    opened, waiting = open_image(PAGE, DOCUMENT, kind="document"), status("documents", DOCUMENT, "PROCESSING")
    later = pending(prepared(make_upstream(opened, put_image(b"%PDF-1.7"), waiting, account=PAGE), content))
    up = make_upstream(status("documents", DOCUMENT, "AVAILABLE"), account=PAGE)
    assert prepared(up, content, later.saved) == Ready(plan(text="read", author=PAGE, media=media))


def test_several_images_stand_in_their_order_with_their_alt_texts(tmp_path: Path) -> None:
    second = "urn:li:image:D2"
    content = draft("two", image(tmp_path / "a", "one"), image(tmp_path / "b", content=b"another"))
    calls = (open_image(), put_image(), open_image(urn=second), put_image(b"another"))
    later = pending(prepared(make_upstream(*calls), content))
    images = [{"id": IMAGE, "altText": "one"}, {"id": second}]
    assert prepared(make_upstream(), content, later.saved) == Ready(plan(text="two", multiImage={"images": images}))


def test_images_that_are_there_are_not_uploaded_again_after_a_failure(tmp_path: Path) -> None:
    second = "urn:li:image:D2"
    content = draft("two", image(tmp_path / "a"), image(tmp_path / "b", content=b"another"))
    calls = (open_image(), put_image(), open_image(urn=second), put_image(b"another", LOST))
    later = pending(prepared(make_upstream(*calls), content))
    assert later.seconds == 5.0
    later = pending(prepared(make_upstream(open_image(urn=second), put_image(b"another")), content, later.saved))
    images = [{"id": IMAGE}, {"id": second}]
    assert prepared(make_upstream(), content, later.saved) == Ready(plan(text="two", multiImage={"images": images}))


def test_the_token_is_not_shown_to_a_stranger(tmp_path: Path) -> None:
    elsewhere = "https://cdn.example.com/put"
    opened = open_image(reply=make_response(200, {"value": {"uploadUrl": elsewhere, "image": IMAGE}}))
    headers = {**BYTES, "Content-Length": "6"}
    sent = VersionedCall("PUT", elsewhere, make_response(201), headers, content=b"a jpeg", timeout=UPLOAD_SECONDS)
    pending(prepared(make_upstream(opened, sent), draft("hello", image(tmp_path / "a"))))


# --- Videos ----------------------------------------------------------------------------------------------------------


def open_video(size: int, *parts: tuple[int, int]) -> VersionedCall:
    steps = [{"uploadUrl": f"{STORE}/{n}?sig=1", "firstByte": a, "lastByte": b} for n, (a, b) in enumerate(parts)]
    value = {"video": VIDEO, "uploadToken": "", "uploadInstructions": steps, "uploadUrlsExpireAt": NOW}
    asked = {"owner": PERSON, "fileSizeBytes": size, "uploadCaptions": False, "uploadThumbnail": False}
    reply = make_response(200, {"value": value})
    return VersionedCall("POST", f"{REST}/videos", reply, params=BEGIN, json={"initializeUploadRequest": asked})


def finish(*parts: str, reply: UpstreamResponse | ApiError | None = None) -> VersionedCall:
    asked = {"finalizeUploadRequest": {"video": VIDEO, "uploadToken": "", "uploadedPartIds": list(parts)}}
    params = {"action": "finalizeUpload"}
    return VersionedCall("POST", f"{REST}/videos", reply or make_response(200), params=params, json=asked)


def test_video_is_uploaded_in_linkedins_parts_and_awaited(tmp_path: Path) -> None:
    content = draft("look", video(tmp_path / "v", b"0123456789", "ignored"))
    calls = (
        open_video(10, (0, 3), (4, 7), (8, 9)),
        put_part(0, b"0123"),
        put_part(1, b"4567"),
        put_part(2, b"89"),
        finish("e0", "e1", "e2"),
        status("videos", VIDEO, "PROCESSING"),
    )
    first = pending(prepared(make_upstream(*calls), content))
    second = pending(prepared(make_upstream(status("videos", VIDEO, "PROCESSING")), content, first.saved))
    assert (first.seconds, second.seconds) == (2.0, 3.0)
    ready = prepared(make_upstream(status("videos", VIDEO, "AVAILABLE")), content, second.saved)
    assert ready == Ready(plan(text="look", media={"id": VIDEO}))


def test_a_part_whose_answer_was_lost_is_sent_again_to_its_address(tmp_path: Path) -> None:
    content = draft("look", video(tmp_path / "v", b"012345"))
    calls = (
        open_video(6, (0, 3), (4, 5)),
        put_part(0, b"0123", LOST),
        put_part(0, b"0123", make_response(503, "<html>busy</html>")),
        put_part(0, b"0123"),
        put_part(1, b"45"),
        finish("e0", "e1"),
        status("videos", VIDEO, "AVAILABLE"),
    )
    assert isinstance(prepared(make_upstream(*calls), content), Ready)


@pytest.mark.parametrize("reply", [make_refusal(400, "EXPIRED_UPLOAD_URL"), make_response(404, "<html>"), UNREACHED])
def test_an_upload_that_broke_off_is_begun_anew(tmp_path: Path, reply: UpstreamResponse | ApiError) -> None:
    content = draft("look", video(tmp_path / "v", b"0123"))
    later = pending(prepared(make_upstream(open_video(4, (0, 3)), put_part(0, b"0123", reply)), content))
    again = (open_video(4, (0, 3)), put_part(0, b"0123"), finish("e0"), status("videos", VIDEO, "AVAILABLE"))
    assert isinstance(prepared(make_upstream(*again), content, later.saved), Ready)


@pytest.mark.parametrize("reply", [LOST, make_response(503, "<html>")])
def test_a_video_whose_parts_are_there_is_only_assembled_again(
    tmp_path: Path, reply: UpstreamResponse | ApiError
) -> None:
    content = draft("look", video(tmp_path / "v", b"0123"))
    sent = (open_video(4, (0, 3)), put_part(0, b"0123"), finish("e0", reply=reply))
    later = pending(prepared(make_upstream(*sent), content))
    again = (finish("e0"), status("videos", VIDEO, "AVAILABLE"))
    assert isinstance(prepared(make_upstream(*again), content, later.saved), Ready)


@pytest.mark.parametrize("parts", [[(0, 4)], [(-1, 2)], [(3, 1)]])
def test_parts_that_the_file_does_not_have_are_no_instructions(tmp_path: Path, parts: list[tuple[int, int]]) -> None:
    content = draft("look", video(tmp_path / "v", b"0123"))
    assert pending(prepared(make_upstream(open_video(4, *parts)), content)).saved["misses"] == 1


def test_a_video_that_cannot_be_processed_is_refused_with_its_reason(tmp_path: Path) -> None:
    content = draft("look", video(tmp_path / "v", b"0123"))
    failed = make_response(200, {"id": VIDEO, "status": "PROCESSING_FAILED", "processingFailureReason": "TRANSCODING"})
    calls = (open_video(4, (0, 3)), put_part(0, b"0123"), finish("e0"), status("videos", VIDEO, failed))
    error = failure(make_upstream(*calls), content)
    assert (error.rule, error.outcome) == ("linkedin.media.processing_failed", Outcome.REJECTED)
    assert "TRANSCODING" in error.message


def test_waiting_ends_after_ten_minutes(tmp_path: Path) -> None:
    content = draft("look", video(tmp_path / "v", b"0123"))
    saved = {"done": [VIDEO], "waited": 590.0, "wait": 15.0}
    error = failure(make_upstream(status("videos", VIDEO, "PROCESSING")), content, saved)
    assert (error.code, error.outcome) == ("platform_unavailable", Outcome.NOT_SENT)


# --- What goes wrong before the post -------------------------------------------------------------------------------

BROKEN = [
    LOST,
    UNREACHED,
    make_response(500, "oops"),
    make_response(200, "<html>"),
    make_response(200, '{"value":'),
    make_response(200, []),
]


@pytest.mark.parametrize("reply", BROKEN)
def test_an_upload_that_does_not_open_is_tried_again_and_then_given_up(
    tmp_path: Path, reply: UpstreamResponse | ApiError
) -> None:
    content, saved = draft("hello", image(tmp_path / "a")), None
    for _ in range(3):
        saved = pending(prepared(make_upstream(open_image(reply=reply)), content, saved)).saved
    assert failure(make_upstream(open_image(reply=reply)), content, saved).code == "platform_unavailable"


@pytest.mark.parametrize(
    ("reply", "code", "stale"),
    [
        (make_refusal(401, "EXPIRED_ACCESS_TOKEN", serviceErrorCode=65602), "platform_auth_failed", True),
        (make_refusal(401, "REVOKED_ACCESS_TOKEN", serviceErrorCode=65601), "platform_auth_failed", False),
        (make_refusal(403, "ACCESS_DENIED"), "platform_auth_failed", False),
        (make_refusal(400, "INVALID_URN_ID"), "platform_rejected", False),
        (make_refusal(426, "NONEXISTENT_VERSION"), "platform_unavailable", False),
        (make_refusal(429, "TOO_MANY_REQUESTS"), "platform_unavailable", False),
    ],
)
def test_a_refused_upload_ends_the_attempt(tmp_path: Path, reply: UpstreamResponse, code: str, stale: bool) -> None:
    error = failure(make_upstream(open_image(reply=reply)), draft("hello", image(tmp_path / "a")))
    assert (error.code, error.stale_token) == (code, stale)


# --- The post --------------------------------------------------------------------------------------------------------


def create(reply: UpstreamResponse | ApiError, **body: Any) -> VersionedCall:
    return VersionedCall("POST", f"{REST}/posts", reply, json=post(**body))


@pytest.mark.parametrize("urn", [SHARE, "urn:li:ugcPost:7396"])
def test_the_post_is_known_by_a_header(urn: str) -> None:
    up = make_upstream(create(make_response(201, x_restli_id=urn)))
    address = f"https://www.linkedin.com/feed/update/{urn}/"
    assert linkedin.send(up, plan()) == Published(urn, urn, None, address)
    check_finished(up)


DAILY = "Resource level throttle APPLICATION_AND_MEMBER DAY limit for calls to this resource is reached."
SENDS: list[tuple[str, UpstreamResponse | ApiError, Outcome, str, str | None]] = [
    ("timeout", LOST, Outcome.AMBIGUOUS, "platform_unavailable", None),
    ("no connection", UNREACHED, Outcome.NOT_SENT, "platform_unavailable", None),
    ("500", make_refusal(500, "INTERNAL_SERVER_ERROR"), Outcome.AMBIGUOUS, "platform_unavailable", None),
    ("504", make_response(504, "<html>"), Outcome.AMBIGUOUS, "platform_unavailable", None),
    ("conflict", make_refusal(409, "CONFLICT"), Outcome.AMBIGUOUS, "platform_unavailable", None),
    ("html", make_response(200, "<html>"), Outcome.AMBIGUOUS, "platform_unavailable", None),
    ("a proxy's 400", make_response(400, "<html>"), Outcome.AMBIGUOUS, "platform_unavailable", None),
    ("no id", make_response(201), Outcome.AMBIGUOUS, "platform_unavailable", None),
    ("an odd id", make_response(201, x_restli_id="7396"), Outcome.AMBIGUOUS, "platform_unavailable", None),
    ("429", make_refusal(429, "TOO_MANY_REQUESTS"), Outcome.THROTTLED, "platform_unavailable", None),
    ("expired", make_refusal(401, "EXPIRED_ACCESS_TOKEN"), Outcome.REJECTED, "platform_auth_failed", None),
    ("revoked", make_refusal(401, "REVOKED_ACCESS_TOKEN"), Outcome.REJECTED, "platform_auth_failed", None),
    ("denied", make_refusal(403, "ACCESS_DENIED"), Outcome.REJECTED, "platform_auth_failed", None),
    (
        "wrong author",
        make_refusal(400, "ILLEGAL_ARGUMENT", "Member permissions must be used when using member as author"),
        Outcome.REJECTED,
        "platform_auth_failed",
        None,
    ),
    (
        "version",
        make_refusal(426, "NONEXISTENT_VERSION"),
        Outcome.REJECTED,
        "platform_unavailable",
        "linkedin.version.retired",
    ),
    (
        "header",
        make_refusal(400, "VERSION_MISSING"),
        Outcome.REJECTED,
        "platform_unavailable",
        "linkedin.version.retired",
    ),
    ("field", make_refusal(400, "INVALID_VALUE_FOR_FIELD"), Outcome.REJECTED, "platform_rejected", None),
    (
        "too long",
        make_refusal(400, "FIELD_LENGTH_TOO_LONG", "/commentary is too long"),
        Outcome.REJECTED,
        "platform_rejected",
        "linkedin.text.max_graphemes",
    ),
    ("waiting", make_refusal(400, "MEDIA_ASSET_WAITING_UPLOAD"), Outcome.NOT_SENT, "platform_unavailable", None),
    (
        "broken",
        make_refusal(400, "MEDIA_ASSET_PROCESSING_FAILED"),
        Outcome.REJECTED,
        "platform_rejected",
        "linkedin.media.processing_failed",
    ),
    (
        "twin",
        make_refusal(422, "UNPROCESSABLE_ENTITY", f"Content is a duplicate of {SHARE}"),
        Outcome.REJECTED,
        "platform_rejected",
        "linkedin.post.duplicate",
    ),
]


@pytest.mark.parametrize(
    ("reply", "outcome", "code", "rule"), [row[1:] for row in SENDS], ids=[row[0] for row in SENDS]
)
def test_every_answer_to_the_post_has_its_meaning(
    reply: UpstreamResponse | ApiError, outcome: Outcome, code: str, rule: str | None
) -> None:
    up = make_upstream(create(reply))
    with pytest.raises(ApiError) as caught:
        linkedin.send(up, plan())
    check_finished(up)
    assert (caught.value.outcome, caught.value.code, caught.value.rule) == (outcome, code, rule)
    assert caught.value.retryable is (rule != "linkedin.version.retired")
    assert caught.value.duplicate is (rule == "linkedin.post.duplicate")
    assert caught.value.remediation


def test_a_page_that_is_denied_has_lost_its_role() -> None:
    with pytest.raises(ApiError) as caught:
        linkedin.send(
            make_upstream(create(make_refusal(403, "ACCESS_DENIED"), author=PAGE), account=PAGE), plan(author=PAGE)
        )
    assert (caught.value.code, caught.value.rule) == ("platform_rejected", "linkedin.page.role_missing")


def test_a_page_without_the_scope_is_connected_again() -> None:
    held = Tokens("access-token-1", private={"scopes": ["w_member_social"]})
    up = make_upstream(create(make_refusal(403, "ACCESS_DENIED"), author=PAGE), account=PAGE, tokens=held)
    with pytest.raises(ApiError) as caught:
        linkedin.send(up, plan(author=PAGE))
    assert caught.value.code == "platform_auth_failed"


@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"retry_after": "7"}, DAILY, 7),
        ({"date": "Fri, 20 Nov 2026 23:59:00 GMT"}, DAILY, 60),
        ({"date": "Fri, 20 Nov 2026 00:00:00 GMT"}, DAILY, 86_400),
        ({"date": "Fri, 20 Nov 2026 23:59:00 GMT"}, "slow down", None),
        ({}, DAILY, None),
        ({"date": "yesterday"}, DAILY, None),
    ],
)
def test_a_days_calls_begin_anew_at_midnight(headers: dict[str, str], message: str, seconds: int | None) -> None:
    with pytest.raises(ApiError) as caught:
        linkedin.send(make_upstream(create(make_refusal(429, "TOO_MANY_REQUESTS", message, headers=headers))), plan())
    assert (caught.value.outcome, caught.value.retry_after) == (Outcome.THROTTLED, seconds)


def test_a_refusal_names_the_field_and_shows_no_secret() -> None:
    where = {"errorDetails": {"inputErrors": [{"code": "X", "input": {"inputPath": {"fieldPath": "/visibility"}}}]}}
    reply = make_refusal(400, "INVALID_VALUE_FOR_FIELD", "wrong: access-token-1", **where)
    with pytest.raises(ApiError) as caught:
        linkedin.send(make_upstream(create(reply)), plan())
    assert caught.value.message == "LinkedIn did not accept the post: wrong: [hidden] (/visibility)"
    assert "access-token-1" not in str(caught.value.platform_response)
    assert caught.value.platform_version == "202609"


# --- Settling --------------------------------------------------------------------------------------------------------


def own(urn: str = SHARE, at: int = NOW, **changes: Any) -> dict[str, Any]:
    """A post of the page as LinkedIn lists it."""
    stamps = {"createdAt": at, "publishedAt": at, "lastModifiedAt": at}
    return {**post(author=PAGE), "id": urn, **stamps, **changes}


def look(
    *posts: dict[str, Any], start: int = 0, total: int | None = None, reply: UpstreamResponse | None = None
) -> VersionedCall:
    params = {"q": "author", "author": PAGE, "sortBy": "LAST_MODIFIED", "start": str(start), "count": "25"}
    paging = {"start": start, "count": 25, "links": [], "total": len(posts) if total is None else total}
    there = reply or make_response(200, {"elements": list(posts), "paging": paging})
    return VersionedCall("GET", f"{REST}/posts", there, FINDER, params)


def settled(*calls: VersionedCall, bound: frozenset[str] = frozenset(), **body: Any) -> Published | Absent | Unknown:
    up = make_upstream(*calls, account=PAGE, bound=bound)
    found = linkedin.settle(up, plan(author=PAGE, **body), NOW)
    check_finished(up)
    return found


def test_a_members_post_stays_unknown_and_nothing_is_called() -> None:
    found = linkedin.settle(make_upstream(), plan(), NOW)
    assert isinstance(found, Unknown)
    assert found.final


@pytest.mark.parametrize("commentary", [r"a \(b\)  c", "a (b) c", "a (b)\r\nc"])
def test_a_pages_post_is_found_by_its_words_however_they_are_given_back(commentary: str) -> None:
    assert settled(look(own(commentary=commentary)), text=r"a \(b\) c") == POSTED


@pytest.mark.parametrize("commentary", [r"we {hashtag|\#|like} a\_b", r"we #like a\_b", "we #like\u200b a_b"])
def test_hashtags_may_be_given_back_as_templates(commentary: str) -> None:
    assert settled(look(own(commentary=commentary)), text=r"we #like a\_b") == POSTED


def test_a_template_that_is_meant_literally_stays_one() -> None:
    literal = escape_little_text("we {hashtag|#|like} it")
    assert settled(look(own(commentary=literal)), text=literal) == POSTED
    assert isinstance(settled(look(own(commentary="we #like it")), text=literal), Absent)


@pytest.mark.parametrize("content", [None, {}, {"media": {}}, {"media": {"altText": "a cat"}}, {"multiImage": {}}])
def test_a_post_whose_media_are_not_told_may_be_ours(content: dict[str, Any] | None) -> None:
    there = own(content=content)
    assert isinstance(settled(look(there), media={"id": IMAGE}), Unknown)


def test_posts_without_the_time_of_their_change_do_not_end_the_list() -> None:
    old = {name: value for name, value in own("urn:li:share:1", at=NOW - 120_001).items() if name != "lastModifiedAt"}
    assert settled(look(old, total=99), look(own(), start=1, total=2)) == POSTED


@pytest.mark.parametrize(
    "other",
    [
        own(at=NOW - 120_001),
        own(author=PERSON),
        own(commentary="hello!"),
        own(lifecycleState="PUBLISH_FAILED"),
        own(content={"media": {"id": IMAGE}}),
        own(urn="urn:li:activity:1"),
    ],
)
def test_what_is_not_the_post_is_not_taken_for_it(other: dict[str, Any]) -> None:
    assert isinstance(settled(look(other)), Absent)


@pytest.mark.parametrize("urn", ["", "urn:li:share:" + "1" * 2_000, "urn:li:share:1\n"])
def test_a_post_without_a_usable_id_does_not_count_as_absent(urn: str) -> None:
    with pytest.raises(ApiError, match="The post id from the platform cannot be used"):
        settled(look(own(urn=urn)))


def test_a_post_of_another_row_is_never_answered() -> None:
    assert isinstance(settled(look(own()), bound=frozenset({SHARE})), Absent)


def test_two_alike_cannot_be_told_apart() -> None:
    assert settled(look(own(), own("urn:li:share:7397"))) == Unknown({"looked": 2, "alike": 2})


def test_media_tell_posts_apart() -> None:
    several = {"multiImage": {"images": [{"id": IMAGE}, {"id": "urn:li:image:D2"}]}}
    assert settled(look(own("urn:li:share:1"), own(content=several)), **several) == POSTED


def test_the_list_is_read_until_it_is_older_than_the_post() -> None:
    old = own("urn:li:share:1", at=NOW - 120_001)
    calls = (look(own("urn:li:share:2", commentary="other"), total=99), look(own(), old, start=1, total=99))
    assert settled(*calls, look(old, start=3, total=99)) == POSTED


def test_a_list_that_does_not_end_settles_nothing() -> None:
    calls = [look(own(f"urn:li:share:{n}", commentary="other"), start=n, total=99) for n in range(20)]
    assert settled(*calls) == Unknown({"looked": 20, "alike": 0})


def test_a_token_that_may_not_list_never_will() -> None:
    found = settled(look(reply=make_refusal(403, "ACCESS_DENIED")))
    assert isinstance(found, Unknown)
    assert found.final


@pytest.mark.parametrize(
    "reply", [make_refusal(401, "EXPIRED_ACCESS_TOKEN"), make_refusal(500, "X"), make_response(200, "<html>")]
)
def test_a_look_that_failed_is_told_as_an_error(reply: UpstreamResponse) -> None:
    with pytest.raises(ApiError):
        settled(look(reply=reply))


def test_progress_survives_being_stored(tmp_path: Path) -> None:
    content = draft("hello", image(tmp_path / "a"))
    later = pending(prepared(make_upstream(open_image(), put_image()), content))
    assert later.saved["done"] == (IMAGE,)
    stored = replace(later, saved={**later.saved, "done": [IMAGE]})
    assert isinstance(prepared(make_upstream(), content, stored.saved), Ready)
