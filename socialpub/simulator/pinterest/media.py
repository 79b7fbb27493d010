"""Videos: registered, sent to the storage service with a signed form, then processed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from socialpub.simulator.content_types import mime_type
from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.ledger import PublishedMedia
from socialpub.simulator.pinterest.api import People, page, refuse
from socialpub.simulator.state import SimulatorState

_KINDS = ("video/mp4", "video/quicktime", "video/x-m4v")
_FORM_MS = 3_600_000  # validity of a signed form


@dataclass
class Video:
    """Upload. `medium` is set once its bytes have arrived."""

    id: str
    account: str
    form: dict[str, str]
    made_at: int
    medium: PublishedMedia | None = None
    stored_at: int = 0
    broken: bool = False


@dataclass
class Media:
    """All uploads. `failing`: how many of the next ones fail in processing."""

    lab: SimulatorState
    people: People
    by_id: dict[str, Video] = field(default_factory=dict)
    failing: int = 0
    _count: int = 0

    def reads(self) -> tuple[Operation, ...]:
        return (
            Operation("media.list", ("GET",), "/v5/media", self.list),
            Operation("media.get", ("GET",), "/v5/media/<media>", self.get),
        )

    def writes(self) -> tuple[Operation, ...]:
        return (Operation("media.register", ("POST",), "/v5/media", self.register),)

    def store(self) -> tuple[Operation, ...]:
        """Return the operations of the storage service: no tokens or rate limits, responses in XML."""
        return (Operation("media.upload", ("POST",), "/upload/", self.upload),)

    def reset(self) -> None:
        self.by_id.clear()
        self.failing = 0

    # --- Pinterest ---

    def register(self, call: Call) -> FakeResponse:
        """Register an upload; return its signed form."""
        person = self.people.caller(call, "pins:read", "pins:write")
        asked = call.record()
        if asked is None or asked.get("media_type") != "video":
            raise refuse(400, 1, "Invalid request: media_type is not one of ['video'].")
        self._count += 1
        id = str(5_212_123_920_968_240_000 + self._count)
        video = self.by_id[id] = Video(id, person.id, _form(person.id, id), self.lab.clock.now_ms())
        where = {"upload_url": f"{call.origin}/upload/", "upload_parameters": video.form}
        return FakeResponse(201, {"media_id": id, "media_type": "video", **where})

    def get(self, call: Call) -> FakeResponse:
        person = self.people.caller(call, "pins:read")
        video = self.of(call.parts["media"], person.id)
        if video is None:
            raise refuse(404, 404, "Media upload not found.")
        return FakeResponse(200, self._shown(video))

    def list(self, call: Call) -> FakeResponse:
        """List the caller's uploads, newest first."""
        person = self.people.caller(call, "pins:read")
        mine = [self._shown(video) for video in self.by_id.values() if video.account == person.id]
        return page(call, mine[::-1], self.lab)

    def of(self, id: str, account: str) -> Video | None:
        video = self.by_id.get(id)
        return video if video is not None and video.account == account else None

    def status(self, video: Video) -> str:
        if video.medium is None:
            return "registered"
        if self.lab.clock.now_ms() < video.stored_at + self.lab.settings.processing_ms:
            return "processing"
        return "failed" if video.broken else "succeeded"

    def _shown(self, video: Video) -> dict[str, str]:
        return {"media_id": video.id, "media_type": "video", "status": self.status(video)}

    # --- Storage service ---

    def upload(self, call: Call) -> FakeResponse:
        """Receive the file, after all signed fields of the form."""
        if "authorization" in call.headers:
            raise _xml(400, "InvalidArgument", "Only one auth mechanism allowed")
        fields, content = _fields(call)
        video = next((each for each in self.by_id.values() if each.form["key"] == fields.get("key")), None)
        if video is None or any(fields.get(name) != value for name, value in video.form.items()):
            raise _xml(403, "SignatureDoesNotMatch", "The request signature we calculated does not match.")
        if self.lab.clock.now_ms() > video.made_at + _FORM_MS:
            raise _xml(403, "AccessDenied", "Invalid according to Policy: Policy expired.")
        kind = mime_type(content, "")
        video.medium = self.lab.add_medium(content, kind)
        video.stored_at = self.lab.clock.now_ms()
        video.broken = kind not in _KINDS or self.failing > 0
        self.failing = max(self.failing - 1, 0)
        return FakeResponse(204)


def _form(account: str, id: str) -> dict[str, str]:
    key = f"uploads/lab/3:video:{account}:{id}"
    return {
        "x-amz-date": "20261120T120000Z",
        "x-amz-signature": hashlib.sha256(key.encode()).hexdigest(),
        "x-amz-security-token": "IQoJb3JpZ2luX2VjEJr==",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "key": key,
        "policy": "eyJleHBpcmF0aW9uIjoiMj==",
        "x-amz-credential": "LAB/20261120/us-east-1/s3/aws4_request",
        "Content-Type": "multipart/form-data",
    }


def _fields(call: Call) -> tuple[dict[str, str], bytes]:
    """Return the fields before the file, and the file; anything after it is ignored."""
    found = re.search(r'boundary="?([^";]+)', call.headers.get("content-type", ""))
    if found is None:
        raise _xml(412, "PreconditionFailed", "Bucket POST must be of the enclosure-type multipart/form-data")
    texts: dict[str, str] = {}
    for part in (b"\r\n" + call.body).split(b"\r\n--" + found[1].encode())[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        name = re.search(rb'name="([^"]+)"', head)
        if name and name[1] == b"file":
            return texts, content
        if name:
            texts[name[1].decode()] = content.decode("utf-8", "replace")
    raise _xml(400, "InvalidArgument", "POST requires exactly one file upload per request.")


def _xml(status: int, code: str, message: str) -> RefusedError:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return RefusedError(FakeResponse(status, text, content_type="application/xml"))
