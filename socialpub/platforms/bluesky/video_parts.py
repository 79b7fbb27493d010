"""Large videos: uploaded to the video service in parts.

Parts and the last step may be repeated, so a lost answer costs one part instead of the whole video.
Source: lexicons app.bsky.video.startUpload, uploadPart, finishUpload.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UPLOAD_SECONDS, UpstreamResponse
from socialpub.platforms.bluesky.xrpc import ask_video_service, build_response_error, build_unusable_error, error_name
from socialpub.platforms.contract import DraftMedia, Json, Pending, Upstream
from socialpub.platforms.contract.bounds import is_id
from socialpub.platforms.kit.api_errors import to_record
from socialpub.platforms.kit.uploads import FileSlice, whole_file

PARTS_MAX = 10_000
MISSES_MAX = 5
MISS_WAIT = 3.0
# At the start: the whole video at once may work, as in the official app.
_NO_PARTS = frozenset({"XRPCNotSupported", "MethodNotImplemented", "TooManyOpenUploads", "ServiceOverloaded"})
_PASSING = frozenset({"UploadNotReady", "MissingParts"})
_OVER = frozenset({"UploadNotFound", "UploadExpired", "UploadAborted"})  # another upload may be started


@dataclass(frozen=True)
class PartUpload:
    """Upload in progress: the first `done` parts are there. `job`: empty before it is started."""

    job: str = ""
    part: int = 0  # bytes
    count: int = 0
    done: int = 0
    misses: int = 0


def load(saved: Json | None) -> PartUpload | None:
    """Return the upload that a saved state describes, if any."""
    return PartUpload(**saved["parts"]) if saved and "parts" in saved else None


def upload(up: Upstream, item: DraftMedia, name: str, token: str, state: PartUpload) -> Json | Pending | None:
    """Upload the rest and return the job; None where the service takes no parts.

    Returns `Pending` after a failure.
    """
    try:
        if not state.job:
            started = _start(up, item, name, token)
            if started is None:
                return None
            state = replace(started, misses=state.misses)
        while state.done < state.count:
            _send_part(up, item, token, state)
            state = replace(state, done=state.done + 1, misses=0)
        return _finish(up, token, state)
    except ApiError as error:
        over = to_record(to_record(error.platform_response).get("body")).get("error") in _OVER
        if error.code != "platform_unavailable" or state.misses >= MISSES_MAX:
            raise replace(error, prepare_again=over) from error
        kept = PartUpload() if over else state
        return Pending({"parts": asdict(replace(kept, misses=state.misses + 1))}, error.retry_after or MISS_WAIT)


def _start(up: Upstream, item: DraftMedia, name: str, token: str) -> PartUpload | None:
    size = whole_file(item).size
    body = {"sizeBytes": size, "mimeType": item.content_type, "name": name}
    reply = ask_video_service(up, "POST", "startUpload", token, json=body)
    if not reply.is_success and (reply.status_code in (404, 501) or error_name(reply) in _NO_PARTS):
        return None
    found = _accept(up, reply, token).record()
    job, part, count = found.get("jobId"), found.get("partSizeBytes"), found.get("partCount")
    if not is_id(job) or not isinstance(part, int) or part < 1 or count != -(-size // part):
        raise build_unusable_error(up, "video", reply)
    if count > PARTS_MAX:
        raise build_unusable_error(up, "video", reply)
    return PartUpload(job, part, count)


def _send_part(up: Upstream, item: DraftMedia, token: str, state: PartUpload) -> None:
    """Send the next part; one that is there already, or an upload that is complete, is as good."""
    start = state.done * state.part
    part = FileSlice(item.file, start, min(start + state.part, whole_file(item).size))
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(part.size)}
    sent = {"params": {"jobId": state.job, "partNumber": state.done + 1}, "content": part, "timeout": UPLOAD_SECONDS}
    reply = ask_video_service(up, "POST", "uploadPart", token, headers, **sent)
    if error_name(reply) != "UploadAlreadyCompleted":
        _accept(up, reply, token)


def _finish(up: Upstream, token: str, state: PartUpload) -> Json:
    """Finish and return the job to poll: an older one for a video that is known."""
    reply = _accept(up, ask_video_service(up, "POST", "finishUpload", token, json={"jobId": state.job}), token)
    job, status = reply.record().get("completedJobId"), reply.record().get("jobStatus")
    if not is_id(job) or not isinstance(status, dict):
        raise build_unusable_error(up, "video", reply)
    return status | {"jobId": job}


def _accept(up: Upstream, reply: UpstreamResponse, token: str) -> UpstreamResponse:
    """Return a successful response. Raises others as the video step classifies them."""
    if reply.is_success:
        return reply
    error = build_response_error(up, "video", reply, secrets=(token,))
    raise _to_unavailable(error) if error_name(reply) in _OVER | _PASSING else to_service_error(error)


def to_service_error(error: ApiError) -> ApiError:
    """Convert an authorization error: it concerns the upload token, not the account."""
    return error if error.code != "platform_auth_failed" else _to_unavailable(error)


def _to_unavailable(error: ApiError) -> ApiError:
    unavailable = ApiError("platform_unavailable", error.message, outcome=Outcome.NOT_SENT)
    unavailable.platform, unavailable.platform_version = error.platform, error.platform_version
    unavailable.platform_response = error.platform_response
    return unavailable
