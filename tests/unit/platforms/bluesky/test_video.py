"""Bluesky video upload: service tokens, job polling, limits, direct upload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UPLOAD_SECONDS, UpstreamResponse
from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.bluesky import video
from socialpub.platforms.contract import Draft, DraftMedia, MediaFacts, Pending, Ready
from tests.support.platforms.bluesky_calls import (
    AUTH,
    DID,
    VIDEO,
    BlueskyCall,
    lookup_call,
    make_jwt,
    make_refusal,
    make_upstream,
    xrpc_call,
)
from tests.support.platforms.scripted_upstream import NONCE, NOW, check_finished, make_response

LOST = ApiError("platform_unavailable", outcome=Outcome.AMBIGUOUS)
BLOB = {"$type": "blob", "ref": {"$link": "bafkreivideo"}, "mimeType": "video/mp4", "size": 5}
ISSUED = 1_795_165_810
FIRST, SECOND = make_jwt(iat=ISSUED, n=1), make_jwt(iat=ISSUED, n=2)
DONE = {"jobId": "job-1", "did": DID, "state": "JOB_STATE_COMPLETED", "blob": BLOB}
RUNNING = {"jobId": "job-1", "did": DID, "state": "JOB_STATE_CREATED"}
SAVED = {"job": "job-1", "waited": 2.0, "wait": 3.0, "misses": 0}


@pytest.fixture
def item(tmp_path: Path) -> DraftMedia:
    path = tmp_path / "v.mp4"
    path.write_bytes(b"video")
    facts = MediaFacts("video/mp4", 5, width=1280, height=720)
    return DraftMedia("video", alt_text="waves", facts=facts, path=path)


def draft(item: DraftMedia) -> Draft:
    return Draft("look", (item,), now_ms=NOW, nonce=NONCE)


def granting(method: str, token: str, reply: UpstreamResponse | None = None, **params: str) -> BlueskyCall:
    sent = {"lxm": method} | params
    return xrpc_call(
        "GET",
        "com.atproto.server.getServiceAuth",
        reply or make_response(200, {"token": token}),
        headers=AUTH,
        params=sent,
    )


def first_token() -> BlueskyCall:
    return granting("app.bsky.video.getUploadLimits", FIRST, aud="did:web:video.bsky.app")


def second_token(**params: str) -> BlueskyCall:
    sent = {"aud": "did:web:pds.example.com", "exp": str(ISSUED + 1800)} | params
    return granting("com.atproto.repo.uploadBlob", SECOND, **sent)


def limits(reply: UpstreamResponse) -> BlueskyCall:
    headers = {"Authorization": f"Bearer {FIRST}"}
    return xrpc_call("GET", "app.bsky.video.getUploadLimits", reply, VIDEO, headers=headers)


def uploading(reply: UpstreamResponse | ApiError) -> BlueskyCall:
    return xrpc_call(
        "POST",
        "app.bsky.video.uploadVideo",
        reply,
        VIDEO,
        params={"did": DID, "name": "0123456789abcdef.mp4"},
        headers={"Authorization": f"Bearer {SECOND}", "Content-Type": "video/mp4", "Content-Length": "5"},
        content=b"video",
        timeout=UPLOAD_SECONDS,
    )


def polling(reply: UpstreamResponse | ApiError) -> BlueskyCall:
    return xrpc_call("GET", "app.bsky.video.getJobStatus", reply, VIDEO, params={"jobId": "job-1"})


ALLOWED = make_response(200, {"canUpload": True, "remainingDailyVideos": 24})


def prepare(
    item: DraftMedia, guarded: list[BlueskyCall], http: list[BlueskyCall], saved: Any = None, **settings: Any
) -> Ready | Pending:
    up = make_upstream(http, guarded, **settings)
    try:
        return bluesky.prepare(up, draft(item), saved)
    finally:
        check_finished(up)


def upload(item: DraftMedia, reply: UpstreamResponse | ApiError) -> Ready | Pending:
    return prepare(item, [first_token(), second_token()], [limits(ALLOWED), uploading(reply)])


def poll(item: DraftMedia, reply: UpstreamResponse | ApiError, **saved: Any) -> Ready | Pending:
    return prepare(item, [], [polling(reply)], SAVED | saved)


def embed(found: Ready | Pending) -> Any:
    assert isinstance(found, Ready)
    return found.plan["record"]["embed"]


EMBED = {
    "$type": "app.bsky.embed.video",
    "video": BLOB,
    "alt": "waves",
    "aspectRatio": {"width": 1280, "height": 720},
}


@pytest.mark.parametrize(
    "reply",
    [
        make_response(200, DONE),
        make_response(200, {"jobStatus": DONE}),
        make_response(409, RUNNING | {"error": "already_exists", "state": "JOB_STATE_COMPLETED", "blob": BLOB}),
    ],
    ids=["flat", "wrapped", "already there"],
)
def test_a_video_that_is_ready_at_once_goes_into_the_record(item: DraftMedia, reply: UpstreamResponse) -> None:
    assert embed(upload(item, reply)) == EMBED


@pytest.mark.parametrize("reply", [make_response(200, RUNNING), make_response(200, {"jobStatus": RUNNING})])
def test_a_video_that_is_being_processed_is_waited_for(item: DraftMedia, reply: UpstreamResponse) -> None:
    assert upload(item, reply) == Pending({"job": "job-1", "waited": 2.0, "wait": 3.0, "misses": 0}, 2.0)


@pytest.mark.parametrize("reply", [make_response(200, DONE), make_response(200, {"jobStatus": DONE})])
def test_once_it_is_processed_it_goes_into_the_record(item: DraftMedia, reply: UpstreamResponse) -> None:
    assert embed(poll(item, reply)) == EMBED


@pytest.mark.parametrize("state", ["JOB_STATE_ENCODING", "JOB_STATE_SCANNED", "JOB_STATE_SOMETHING_NEW", None])
def test_every_state_that_is_no_end_means_wait(item: DraftMedia, state: str | None) -> None:
    found = poll(item, make_response(200, {"jobStatus": RUNNING | {"state": state}}))
    assert found == Pending({"job": "job-1", "waited": 5.0, "wait": 4.5, "misses": 0}, 3.0)


def test_the_waits_grow_to_ten_seconds_and_end_after_fifteen_minutes(item: DraftMedia) -> None:
    found, waits = upload(item, make_response(200, RUNNING)), []
    with pytest.raises(ApiError) as caught:  # noqa: PT012 - the loop ends by the error
        while isinstance(found, Pending):
            waits.append(found.seconds)
            found = prepare(item, [], [polling(make_response(200, {"jobStatus": RUNNING}))], found.saved)
    assert waits[:5] == [2.0, 3.0, 4.5, 6.75, 10.0]
    assert set(waits[5:]) == {10.0}
    assert 890 < sum(waits) <= 900
    error = caught.value
    assert (error.code, error.rule) == ("platform_unavailable", "bluesky.video.transcode_timeout")
    assert error.outcome is Outcome.NOT_SENT


def test_a_failed_job_says_why(item: DraftMedia) -> None:
    job = RUNNING | {"state": "JOB_STATE_FAILED", "failureCode": "encoding_failure", "message": "no video stream"}
    with pytest.raises(ApiError) as caught:
        poll(item, make_response(200, {"jobStatus": job}))
    error = caught.value
    assert (error.code, error.rule, error.outcome) == (
        "platform_rejected",
        "bluesky.video.job_failed",
        Outcome.REJECTED,
    )
    assert error.message.endswith("no video stream")
    assert error.platform_response == {"body": job}


def test_a_finished_job_without_a_video_is_refused(item: DraftMedia) -> None:
    with pytest.raises(ApiError) as caught:
        poll(item, make_response(200, {"jobStatus": RUNNING | {"state": "JOB_STATE_COMPLETED"}}))
    assert caught.value.rule == "bluesky.video.completed_without_blob"


@pytest.mark.parametrize(
    "reply", [LOST, make_response(502, "<html>"), make_response(200, "<html>"), make_refusal(429, "RateLimitExceeded")]
)
def test_unanswered_poll_is_repeated_at_most_five_times(item: DraftMedia, reply: UpstreamResponse | ApiError) -> None:
    assert poll(item, reply) == Pending({"job": "job-1", "waited": 5.0, "wait": 4.5, "misses": 1}, 3.0)
    with pytest.raises(ApiError) as caught:
        poll(item, reply, misses=4)
    assert (caught.value.code, caught.value.rule) == (
        "platform_unavailable",
        "bluesky.video.job_status_unavailable",
    )


def test_an_answered_poll_counts_the_misses_anew(item: DraftMedia) -> None:
    found = poll(item, make_response(200, {"jobStatus": RUNNING}), misses=4)
    assert isinstance(found, Pending)
    assert found.saved["misses"] == 0


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"canUpload": False, "message": "Please verify your email"}, "bluesky.video.email_unverified"),
        ({"canUpload": False, "error": "daily limit"}, "bluesky.video.quota_exhausted"),
        ({"canUpload": False}, "bluesky.video.quota_exhausted"),
    ],
)
def test_an_account_that_may_not_upload_is_told_why_before_the_upload(item: DraftMedia, body: Any, rule: str) -> None:
    with pytest.raises(ApiError) as caught:
        prepare(item, [first_token()], [limits(make_response(200, body))])
    assert (caught.value.rule, caught.value.outcome) == (rule, Outcome.REJECTED)
    assert caught.value.platform_response == {"status": 200, "body": body}


@pytest.mark.parametrize(
    "reply", [make_response(500, "<html>"), make_response(200, "<html>"), make_refusal(404, "MethodNotImplemented")]
)
def test_limits_that_cannot_be_read_do_not_stop_the_upload(item: DraftMedia, reply: UpstreamResponse) -> None:
    found = prepare(item, [first_token(), second_token()], [limits(reply), uploading(make_response(200, DONE))])
    assert embed(found) == EMBED


REFUSALS = [
    (make_refusal(400, "VideoTooLong"), "platform_rejected", "bluesky.video.too_long"),
    (make_refusal(413, "VideoTooLarge"), "platform_rejected", "bluesky.media.video_size_max"),
    (make_response(413, "<html>"), "platform_rejected", "bluesky.media.video_size_max"),
    (make_refusal(415, "UnsupportedContentType"), "platform_rejected", "bluesky.media.mime_allowed"),
    (make_refusal(400, "BadAspectRatio"), "platform_rejected", "bluesky.video.upload_failed"),
    (make_refusal(403, "UploadForbidden"), "platform_rejected", "bluesky.video.upload_failed"),
    (make_refusal(429, "DailyLimitExceeded"), "platform_rejected", "bluesky.video.quota_exhausted"),
    (make_refusal(429, "RateLimitExceeded"), "platform_unavailable", None),
    (make_refusal(503, "ServiceOverloaded"), "platform_unavailable", None),
    (make_response(200, "<html>"), "platform_unavailable", None),
    (make_response(200, {"jobStatus": {}}), "platform_unavailable", None),
    (LOST, "platform_unavailable", None),
]


@pytest.mark.parametrize(("reply", "code", "rule"), REFUSALS)
def test_a_refused_upload_is_sorted(
    item: DraftMedia, reply: UpstreamResponse | ApiError, code: str, rule: str | None
) -> None:
    with pytest.raises(ApiError) as caught:
        upload(item, reply)
    assert (caught.value.code, caught.value.rule) == (code, rule)
    assert SECOND not in repr(vars(caught.value))


def test_an_expired_token_is_refreshed_before_the_video_goes_out(item: DraftMedia) -> None:
    refused = granting(
        "app.bsky.video.getUploadLimits", "", make_refusal(400, "ExpiredToken"), aud="did:web:video.bsky.app"
    )
    with pytest.raises(ApiError) as caught:
        prepare(item, [refused], [])
    assert (caught.value.stale_token, caught.value.outcome) == (True, Outcome.NOT_SENT)


def test_a_token_without_a_time_is_asked_for_without_an_end(item: DraftMedia) -> None:
    first = granting("app.bsky.video.getUploadLimits", "opaque", aud="did:web:video.bsky.app")
    second = granting("com.atproto.repo.uploadBlob", SECOND, aud="did:web:pds.example.com")
    allowed = xrpc_call(
        "GET", "app.bsky.video.getUploadLimits", ALLOWED, VIDEO, headers={"Authorization": "Bearer opaque"}
    )
    assert embed(prepare(item, [first, second], [allowed, uploading(make_response(200, DONE))])) == EMBED


@pytest.mark.parametrize("body", [{}, {"token": ""}, {"token": 1}, "<html>"])
def test_a_grant_without_a_token_stops_the_upload(item: DraftMedia, body: Any) -> None:
    first = granting("app.bsky.video.getUploadLimits", "", make_response(200, body), aud="did:web:video.bsky.app")
    with pytest.raises(ApiError) as caught:
        prepare(item, [first], [])
    assert (caught.value.code, caught.value.outcome) == ("platform_unavailable", Outcome.NOT_SENT)


def straight(reply: UpstreamResponse) -> BlueskyCall:
    headers = AUTH | {"Content-Type": "video/mp4", "Content-Length": "5"}
    return xrpc_call(
        "POST", "com.atproto.repo.uploadBlob", reply, headers=headers, content=b"video", timeout=UPLOAD_SECONDS
    )


def test_without_a_video_service_the_video_goes_to_the_accounts_server(item: DraftMedia) -> None:
    assert embed(prepare(item, [straight(make_response(200, {"blob": BLOB}))], [], video_service="")) == EMBED


def test_a_server_that_takes_no_file_of_this_size_says_what_it_takes(item: DraftMedia) -> None:
    described = lookup_call("com.atproto.server.describeServer", make_response(200, {"blobUploadLimit": 5_242_880}))
    with pytest.raises(ApiError) as caught:
        prepare(item, [straight(make_refusal(413, "PayloadTooLarge")), described], [], video_service="")
    assert caught.value.rule == "bluesky.media.video_size_max"
    assert caught.value.message.endswith("The account's server takes files of at most 5,242,880 bytes.")


def test_a_server_that_answers_without_a_blob_has_not_taken_the_video(item: DraftMedia) -> None:
    with pytest.raises(ApiError) as caught:
        prepare(item, [straight(make_response(200, {}))], [], video_service="")
    assert caught.value.rule is None


@pytest.mark.parametrize("name", ["ExpiredToken", "InvalidToken"])
def test_an_expired_token_is_refreshed_for_a_direct_upload_too(item: DraftMedia, name: str) -> None:
    with pytest.raises(ApiError) as caught:
        prepare(item, [straight(make_refusal(400, name))], [], video_service="")
    assert (caught.value.stale_token, caught.value.outcome) == (True, Outcome.NOT_SENT)


@pytest.mark.parametrize(
    ("content_type", "name"),
    [("video/quicktime", "0123456789abcdef.mov"), ("video/webm", "0123456789abcdef.webm")],
)
def test_the_service_is_told_what_kind_of_video_comes(item: DraftMedia, content_type: str, name: str) -> None:
    other = DraftMedia("video", facts=MediaFacts(content_type, 5), path=item.path)
    call = uploading(make_response(200, DONE))
    call.params = {"did": DID, "name": name}
    call.headers = {**call.headers, "Content-Type": content_type}
    found = prepare(other, [first_token(), second_token()], [limits(ALLOWED), call])
    assert embed(found) == {"$type": "app.bsky.embed.video", "video": BLOB}


def test_a_port_is_escaped_in_a_servers_name(item: DraftMedia) -> None:
    host = "http://localhost:2583"
    up = make_upstream(
        [
            granting("app.bsky.video.getUploadLimits", FIRST, aud="did:web:localhost%3A9"),
            xrpc_call(
                "GET",
                "app.bsky.video.getUploadLimits",
                make_response(200, {"canUpload": False}),
                "http://localhost:9",
                headers={"Authorization": f"Bearer {FIRST}"},
            ),
        ],
        service=host,
        video_service="http://localhost:9",
    )
    up.account.extra["pds"] = host  # type: ignore[index]
    up.http.calls[0].url = up.http.calls[0].url.replace("https://pds.example.com", host)  # type: ignore[attr-defined]
    with pytest.raises(ApiError):
        bluesky.prepare(up, draft(item), None)
    check_finished(up)


@pytest.mark.parametrize(("status", "name"), [(401, "AuthMissing"), (401, "ExpiredToken"), (400, "InvalidToken")])
def test_upload_token_errors_do_not_affect_the_account_tokens(item: DraftMedia, status: int, name: str) -> None:
    with pytest.raises(ApiError) as caught:
        upload(item, make_refusal(status, name))
    error = caught.value
    assert (error.code, error.outcome) == ("platform_unavailable", Outcome.NOT_SENT)
    assert (error.stale_token, error.token_refused) == (False, False)
    assert error.platform_response["status"] == status


# --- In parts --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "PARTS_FROM", 4)


TOKENS = (first_token, second_token)
OPENED = {"jobId": "up-1", "partSizeBytes": 3, "partCount": 2, "expiresAt": "2026-11-20T10:00:00.000Z"}
FINISHED = {"completedJobId": "job-1", "jobStatus": RUNNING | {"jobId": "other"}}


def service_call(method: str, reply: UpstreamResponse | ApiError, **sent: Any) -> BlueskyCall:
    headers = {"Authorization": f"Bearer {SECOND}", **sent.pop("headers", {})}
    return xrpc_call("POST", f"app.bsky.video.{method}", reply, VIDEO, headers=headers, **sent)


def starting(reply: UpstreamResponse | ApiError) -> BlueskyCall:
    body = {"sizeBytes": 5, "mimeType": "video/mp4", "name": "0123456789abcdef.mp4"}
    return service_call("startUpload", reply, json=body)


def sending(number: int, content: bytes, reply: UpstreamResponse | ApiError | None = None) -> BlueskyCall:
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(len(content))}
    sent = {"params": {"jobId": "up-1", "partNumber": number}, "content": content, "timeout": UPLOAD_SECONDS}
    done = make_response(200, {"partNumber": number, "sizeBytes": len(content)})
    return service_call("uploadPart", reply or done, headers=headers, **sent)


def finishing(reply: UpstreamResponse | ApiError | None = None) -> BlueskyCall:
    return service_call("finishUpload", reply or make_response(200, FINISHED), json={"jobId": "up-1"})


def in_parts(item: DraftMedia, *calls: BlueskyCall, saved: Any = None) -> Ready | Pending:
    checks = [] if saved and saved["parts"]["job"] else [limits(ALLOWED)]  # its own limit may be used up by then
    return prepare(item, [make() for make in TOKENS], [*checks, *calls], saved)


@pytest.mark.usefixtures("small_parts")
def test_a_large_video_goes_up_in_the_parts_that_are_asked_for(item: DraftMedia) -> None:
    calls = (starting(make_response(200, OPENED)), sending(1, b"vid"), sending(2, b"eo"), finishing())
    found = in_parts(item, *calls)
    assert found == Pending({"job": "job-1", "waited": 2.0, "wait": 3.0, "misses": 0}, 2.0)


@pytest.mark.usefixtures("small_parts")
def test_a_video_in_parts_that_was_processed_before_is_ready_at_once(item: DraftMedia) -> None:
    done = make_response(200, {"completedJobId": "job-1", "jobStatus": DONE})
    calls = (starting(make_response(200, OPENED)), sending(1, b"vid"), sending(2, b"eo"), finishing(done))
    assert embed(in_parts(item, *calls)) == EMBED


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    "reply",
    [
        make_refusal(404, "XRPCNotSupported"),
        make_refusal(501, "MethodNotImplemented"),
        make_refusal(429, "TooManyOpenUploads"),
        make_refusal(503, "ServiceOverloaded"),
        make_response(404, "<html>"),
    ],
)
def test_without_parts_the_video_goes_up_whole(item: DraftMedia, reply: UpstreamResponse) -> None:
    assert embed(in_parts(item, starting(reply), uploading(make_response(200, DONE)))) == EMBED


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("reply", [LOST, make_refusal(503, "ServiceOverloaded"), make_response(502, "<html>")])
def test_an_upload_in_parts_goes_on_after_the_parts_that_are_there(
    item: DraftMedia, reply: UpstreamResponse | ApiError
) -> None:
    first = in_parts(item, starting(make_response(200, OPENED)), sending(1, b"vid"), sending(2, b"eo", reply))
    assert isinstance(first, Pending)
    assert first.saved["parts"] == {"job": "up-1", "part": 3, "count": 2, "done": 1, "misses": 1}
    again = in_parts(item, sending(2, b"eo"), finishing(reply), saved=first.saved)
    assert isinstance(again, Pending)
    assert again.saved["parts"] == {"job": "up-1", "part": 3, "count": 2, "done": 2, "misses": 1}
    assert in_parts(item, finishing(), saved=again.saved) == Pending(SAVED, 2.0)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", ["UploadNotFound", "UploadExpired", "UploadAborted"])
def test_an_upload_that_is_over_is_started_anew(item: DraftMedia, name: str) -> None:
    saved = {"parts": {"job": "up-1", "part": 3, "count": 2, "done": 1, "misses": 0}}
    found = in_parts(item, sending(2, b"eo", make_refusal(400, name)), saved=saved)
    assert isinstance(found, Pending)
    assert found.saved["parts"] == {"job": "", "part": 0, "count": 0, "done": 0, "misses": 1}
    calls = (starting(make_response(200, OPENED)), sending(1, b"vid"), sending(2, b"eo"), finishing())
    assert in_parts(item, *calls, saved=found.saved) == Pending(SAVED, 2.0)


@pytest.mark.usefixtures("small_parts")
def test_an_upload_in_parts_that_does_not_get_on_is_given_up(item: DraftMedia) -> None:
    saved = {"parts": {"job": "up-1", "part": 3, "count": 2, "done": 1, "misses": 5}}
    with pytest.raises(ApiError) as caught:
        in_parts(item, sending(2, b"eo", LOST), saved=saved)
    assert caught.value.code == "platform_unavailable"


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    ("status", "name", "rule"),
    [
        (400, "VideoTooLarge", "bluesky.media.video_size_max"),
        (429, "DailyLimitExceeded", "bluesky.video.quota_exhausted"),
        (403, "UploadForbidden", "bluesky.video.upload_failed"),
    ],
)
def test_a_refused_start_is_sorted(item: DraftMedia, status: int, name: str, rule: str) -> None:
    with pytest.raises(ApiError) as caught:
        in_parts(item, starting(make_refusal(status, name)))
    assert (caught.value.code, caught.value.rule) == ("platform_rejected", rule)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("change", [{"jobId": ""}, {"partSizeBytes": 0}, {"partCount": 3}, {"partSizeBytes": "3"}])
def test_a_start_that_cannot_be_followed_is_repeated_later(item: DraftMedia, change: dict[str, Any]) -> None:
    found = in_parts(item, starting(make_response(200, OPENED | change)))
    assert isinstance(found, Pending)
    assert found.saved["parts"]["job"] == ""


@pytest.mark.usefixtures("small_parts")
def test_an_upload_that_is_complete_already_is_finished(item: DraftMedia) -> None:
    calls = (sending(2, b"eo", make_refusal(400, "UploadAlreadyCompleted")), finishing())
    saved = {"parts": {"job": "up-1", "part": 3, "count": 2, "done": 1, "misses": 1}}
    assert in_parts(item, *calls, saved=saved) == Pending(SAVED, 2.0)
