"""Bluesky videos: processed by the video service, stored at the account's server.

The flow is that of docs.bsky.app (video uploads): two service tokens, one upload, then polling. Uploading a video again
returns the existing blob, so every step is repeatable. A large video goes up in parts, where the service takes them.
"""

from __future__ import annotations

from dataclasses import replace

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UPLOAD_SECONDS, UpstreamResponse
from socialpub.platforms.bluesky import video_parts
from socialpub.platforms.bluesky.blobs import upload
from socialpub.platforms.bluesky.xrpc import (
    ask_video_service,
    build_response_error,
    build_rule_error,
    build_unusable_error,
    call,
    decode_claims,
    find_blob,
    find_server_origin,
    parse_origin,
)
from socialpub.platforms.contract import Draft, DraftMedia, Json, Pending, Upstream
from socialpub.platforms.contract.bounds import is_id
from socialpub.platforms.kit.uploads import whole_file

PARTS_FROM = 16 * 1024 * 1024  # bytes, as the official app
FIRST_WAIT = 2.0
LONGEST_WAIT = 10.0
TOTAL_WAIT = 900.0
MISSES_MAX = 5  # consecutive polls without a readable response
_AUTH_SECONDS = 1800  # the service reuses the token when it hands the video over; servers allow an hour
_ENDINGS = {"video/quicktime": "mov", "video/webm": "webm"}


def prepare_blob(up: Upstream, draft: Draft, saved: Json | None) -> Json | Pending:
    """Return the blob of the video, or `Pending` while it is processed; `saved`: pending job."""
    item = draft.items[0]
    parts = video_parts.load(saved)
    if saved and parts is None:
        return _poll(up, saved)
    if not up.site.video_service:
        return _upload_directly(up, item)
    token, name = _check_allowed(up, is_begun=bool(parts and parts.job)), f"{draft.nonce:016x}.{_ending(item)}"
    found = None
    if parts or whole_file(item).size > PARTS_FROM:
        found = video_parts.upload(up, item, name, token, parts or video_parts.PartUpload())
    if isinstance(found, Pending):
        return found
    job = found or _upload(up, item, name, token)
    return find_blob(job) or _state(up, job, {"job": job.get("jobId"), "waited": 0.0, "wait": FIRST_WAIT, "misses": 0})


def _upload_directly(up: Upstream, item: DraftMedia) -> Json:
    """Upload the video to the account's server itself (docs.bsky.app, video, first method)."""
    return upload(up, "video", _headers(item), content=whole_file(item), timeout=UPLOAD_SECONDS)


def _check_allowed(up: Upstream, *, is_begun: bool) -> str:
    """Check that the account may upload; return the upload token.

    An upload that has begun may be the last one that the limits allow.
    """
    service = _did(parse_origin(up.site.video_service))
    first = _token(up, service, "app.bsky.video.getUploadLimits")
    if not is_begun:
        _check_limits(up, first)
    # The issuing server's clock counts: read it from its first token.
    issued = decode_claims(first).get("iat")
    until = {"exp": str(issued + _AUTH_SECONDS)} if isinstance(issued, int) else {}
    return _token(up, _did(find_server_origin(up)), "com.atproto.repo.uploadBlob", **until)


def _token(up: Upstream, audience: str, method: str, **more: str) -> str:
    params = {"aud": audience, "lxm": method, **more}
    nsid = "com.atproto.server.getServiceAuth"
    reply = call(up, "grant", "GET", find_server_origin(up), nsid, bearer=up.tokens.access, params=params)
    token = reply.record().get("token")
    if not isinstance(token, str) or not token:
        raise build_unusable_error(up, "grant", reply)
    return token


def _did(host: str) -> str:
    return "did:web:" + host.split("://", 1)[1].replace(":", "%3A")


def _check_limits(up: Upstream, token: str) -> None:
    reply = ask_video_service(up, "GET", "getUploadLimits", token)
    limits = reply.record()
    if not reply.is_success or limits.get("canUpload") is not False:
        return  # an inconclusive check is repeated at the upload
    said = str(limits.get("message") or limits.get("error") or "")[:300]
    email = "email" in said.lower() or "e-mail" in said.lower()
    rule = "video.email_unverified" if email else "video.quota_exhausted"
    raise build_rule_error(up, rule, Outcome.REJECTED, said, {"status": reply.status_code, "body": limits})


def _upload(up: Upstream, item: DraftMedia, name: str, token: str) -> Json:
    """Upload and return the job; an error with a blob (`already_exists`) is a success."""
    params, file = {"did": up.account.platform_account_id, "name": name}, whole_file(item)
    sent = {"params": params, "content": file, "timeout": UPLOAD_SECONDS}
    reply = ask_video_service(up, "POST", "uploadVideo", token, _headers(item), **sent)
    job = _job(reply)
    if find_blob(job) or (reply.is_success and is_id(job.get("jobId"))):
        return job
    if reply.is_success:
        raise build_unusable_error(up, "video", reply)
    raise video_parts.to_service_error(build_response_error(up, "video", reply, secrets=(token,)))


def _poll(up: Upstream, saved: Json) -> Json | Pending:
    try:
        reply = ask_video_service(up, "GET", "getJobStatus", params={"jobId": str(saved["job"])})
    except ApiError as error:
        return _poll_after_error(up, saved, error)
    if not reply.is_success or not _job(reply):
        return _poll_after_error(up, saved, build_response_error(up, "job", reply))
    return _state(up, _job(reply), saved | {"misses": 0})


def _state(up: Upstream, job: Json, saved: Json) -> Json | Pending:
    """Interpret a job's state; any non-final state means waiting."""
    found, state = find_blob(job), job.get("state")
    if found:
        return found
    response = {"body": job}
    if state == "JOB_STATE_FAILED":
        said = str(job.get("message") or job.get("error") or job.get("failureCode") or "")[:300]
        raise build_rule_error(up, "video.job_failed", Outcome.REJECTED, said, response)
    if state == "JOB_STATE_COMPLETED":
        raise build_rule_error(up, "video.completed_without_blob", Outcome.REJECTED, said=response)
    return _poll_later(up, saved)


def _poll_later(up: Upstream, saved: Json) -> Pending:
    wait = saved["wait"]
    if saved["waited"] + wait > TOTAL_WAIT:
        raise build_rule_error(up, "video.transcode_timeout", Outcome.NOT_SENT)
    return Pending(saved | {"waited": saved["waited"] + wait, "wait": min(wait * 1.5, LONGEST_WAIT)}, wait)


def _poll_after_error(up: Upstream, saved: Json, error: ApiError) -> Pending:
    if saved["misses"] + 1 >= MISSES_MAX:
        lost = build_rule_error(up, "video.job_status_unavailable", Outcome.NOT_SENT, error.message)
        raise replace(lost, prepare_again=error.outcome is Outcome.REJECTED) from error
    return _poll_later(up, saved | {"misses": saved["misses"] + 1})


def _job(reply: UpstreamResponse) -> Json:
    """Return the job, wrapped as in the lexicon or flat as the service sends it."""
    body = reply.record()
    inner = body.get("jobStatus")
    return inner if isinstance(inner, dict) else body


def _headers(item: DraftMedia) -> dict[str, str]:
    kind = item.facts.content_type if item.facts else "video/mp4"
    return {"Content-Type": kind, "Content-Length": str(whole_file(item).size)}


def _ending(item: DraftMedia) -> str:
    return _ENDINGS.get(item.facts.content_type, "mp4") if item.facts else "mp4"
