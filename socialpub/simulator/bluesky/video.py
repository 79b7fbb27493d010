"""Video service: accepts a video with a service token, processes it, stores it on the PDS.

Sources: docs.bsky.app (video uploads), the lexicons app.bsky.video.*, packages/xrpc-server/src/auth.ts for token
errors. Job responses are flat, as the service sends them, or wrapped, as the lexicon of `getJobStatus` specifies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from socialpub.base.runtime import format_iso
from socialpub.simulator import content_types
from socialpub.simulator.bluesky.accounts import Account, Accounts
from socialpub.simulator.bluesky.cbor import blob_cid
from socialpub.simulator.bluesky.sessions import service_claims, service_did
from socialpub.simulator.bluesky.xrpc import OPEN, Method, Request, content_type, error, invalid
from socialpub.simulator.contract import FakeResponse, RefusedError
from socialpub.simulator.state import SimulatorState

_TAKEN = frozenset({"video/mp4", "video/quicktime", "video/webm"})
_MADE = "video/mp4"  # regardless of the upload's type
_PART = 8 * 1024 * 1024
_UPLOAD_MS = 3_600_000
_VIDEOS, _BYTES = 25, 10 * 1024**3  # per day


@dataclass(frozen=True)
class _Job:
    id: str
    account: Account
    content: bytes
    ready_ms: int
    failure: str


@dataclass
class _PartUpload:
    """Upload in parts: received ones by number."""

    account: Account
    size: int
    type: str
    part: int
    received: dict[int, bytes] = field(default_factory=dict)
    job: str = ""  # once finished

    @property
    def count(self) -> int:
        return -(-self.size // self.part)


@dataclass
class Videos:
    """Video service.

    For tests: `failing` holds errors of the next jobs, `refusing` why uploads are refused, `part` the bytes of a part
    (0: no parts are taken).
    """

    lab: SimulatorState
    accounts: Accounts
    failing: list[str] = field(default_factory=list)
    refusing: str = ""
    part: int = _PART
    _uploads: dict[str, _PartUpload] = field(default_factory=dict)
    _jobs: dict[str, _Job] = field(default_factory=dict)

    def methods(self) -> tuple[Method, ...]:
        video = "app.bsky.video"
        return (
            Method("GET", f"{video}.getUploadLimits", self._limits),
            Method("POST", f"{video}.uploadVideo", self._upload, takes_blob=True),
            Method("GET", f"{video}.getJobStatus", self._status),
            Method("POST", f"{video}.startUpload", self._start),
            Method("POST", f"{video}.uploadPart", self._take_part, takes_blob=True),
            Method("POST", f"{video}.finishUpload", self._finish),
        )

    def reset(self) -> None:
        self._jobs.clear()
        self._uploads.clear()
        self.failing.clear()
        self.refusing, self.part = "", _PART

    def _limits(self, request: Request) -> Any:
        self._caller(request, "app.bsky.video.getUploadLimits")
        if self.refusing:
            return {"canUpload": False, "message": self.refusing}
        return {"canUpload": True, "remainingDailyVideos": _VIDEOS, "remainingDailyBytes": _BYTES}

    def _upload(self, request: Request) -> Any:
        """Start a job. Bytes that the account has sent before get the finished job, as an error."""
        account = self._caller(request, "com.atproto.repo.uploadBlob")
        did, name = (request.call.query.get(key, [""])[0] for key in ("did", "name"))
        if did != account.did or not name:
            raise invalid("did and name are required, and did is that of the token")
        return self._begin(account, request.call.body, content_type(request.call))

    def _begin(self, account: Account, content: bytes, declared: str) -> Any:
        """Start the job of a whole file."""
        if content_types.mime_type(content, declared) not in _TAKEN:
            raise error(400, "UnsupportedContentType", "Unsupported content type")
        id = f"{blob_cid(content)[-13:]}{account.did[-7:]}"
        if id in self._jobs and self._is_ready(self._jobs[id]):
            known = {
                **self._build_status(self._jobs[id]),
                "error": "already_exists",
                "message": "Video already processed",
            }
            raise RefusedError(FakeResponse(409, known, OPEN))
        ready = self.lab.clock.now_ms() + self.lab.settings.processing_ms
        failure = self.failing.pop(0) if self.failing else ""
        return self._build_status(self._jobs.setdefault(id, _Job(id, account, content, ready, failure)))

    def _start(self, request: Request) -> Any:
        account = self._caller(request, "com.atproto.repo.uploadBlob")
        if not self.part:
            raise error(404, "XRPCNotSupported", "Method not found")
        if request.input["mimeType"] not in _TAKEN:
            raise error(400, "UnsupportedContentType", "Unsupported content type")
        upload = _PartUpload(account, request.input["sizeBytes"], request.input["mimeType"], self.part)
        id = f"upload-{len(self._uploads) + 1}"
        self._uploads[id] = upload
        until = format_iso(self.lab.clock.now_ms() + _UPLOAD_MS)
        return {"jobId": id, "partSizeBytes": upload.part, "partCount": upload.count, "expiresAt": until}

    def _take_part(self, request: Request) -> Any:
        """Receive one part; repeating one replaces it."""
        upload = self._find_upload(request, request.call.query.get("jobId", [""])[0])
        number, content = request.call.query.get("partNumber", [""])[0], request.call.body
        if upload.job:
            raise error(400, "UploadAlreadyCompleted", "The upload is completed")
        if not number.isdecimal() or not 1 <= int(number) <= upload.count:
            raise error(400, "InvalidPartNumber", "Part number out of range")
        if len(content) != min(upload.part, upload.size - (int(number) - 1) * upload.part):
            raise error(400, "PartSizeMismatch", "Content-Length does not match the part")
        upload.received[int(number)] = content
        return {"partNumber": int(number), "sizeBytes": len(content)}

    def _finish(self, request: Request) -> Any:
        """Begin the job of the assembled file; repeating it returns the same job."""
        upload = self._find_upload(request, request.input["jobId"])
        if not upload.job:
            if missing := sorted(set(range(1, upload.count + 1)) - set(upload.received)):
                raise error(400, "MissingParts", f"Missing parts: {', '.join(map(str, missing))}")
            content = b"".join(upload.received[number] for number in sorted(upload.received))
            try:
                upload.job = self._begin(upload.account, content, upload.type)["jobId"]
            except RefusedError as known:
                if "jobId" not in known.answer.body:
                    raise
                upload.job = known.answer.body["jobId"]  # of the same file, which was processed before
        return {"completedJobId": upload.job, "jobStatus": self._build_status(self._jobs[upload.job])}

    def _find_upload(self, request: Request, id: str) -> _PartUpload:
        account, upload = self._caller(request, "com.atproto.repo.uploadBlob"), self._uploads.get(id)
        if upload is None or upload.account is not account:
            raise error(404, "UploadNotFound", "Upload not found")
        return upload

    def _status(self, request: Request) -> Any:
        job = self._jobs.get(request.call.query.get("jobId", [""])[0])
        if job is None:
            raise error(400, "NotFound", "Job not found")
        return {"jobStatus": self._build_status(job)}

    def _is_ready(self, job: _Job) -> bool:
        return self.lab.clock.now_ms() >= job.ready_ms

    def _build_status(self, job: _Job) -> dict[str, Any]:
        status = {"jobId": job.id, "did": job.account.did}
        if not self._is_ready(job):
            return {**status, "state": "JOB_STATE_ENCODING", "progress": 50}
        if job.failure:
            return {**status, "state": "JOB_STATE_FAILED", "error": "encoding_failure", "message": job.failure}
        return {**status, "state": "JOB_STATE_COMPLETED", "blob": job.account.repo.upload(job.content, _MADE)}

    def _caller(self, request: Request, method: str) -> Account:
        """Return the account of a valid service token for this service and method."""
        scheme, _, token = request.call.headers.get("authorization", "").partition(" ")
        claims = service_claims(token) if scheme.lower() == "bearer" else None
        account = self.accounts.find(str(claims.get("iss"))) if claims else None
        if claims is None or account is None:
            raise error(401, "BadJwt", "poorly formatted jwt")
        self._check(claims, method, service_did(request.call.origin))
        return account

    def _check(self, claims: Mapping[str, Any], method: str, audience: str) -> None:
        if claims["exp"] <= self.lab.clock.now_ms() // 1000:
            raise error(401, "JwtExpired", "jwt expired")
        if claims["aud"] != audience:
            raise error(401, "BadJwtAudience", "jwt audience does not match service did")
        if claims.get("lxm") != method:
            raise error(401, "BadJwtLexiconMethod", f'bad jwt lexicon method ("lxm"). must match: {method}')
