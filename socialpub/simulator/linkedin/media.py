"""Media: upload initialized, bytes sent to another URL, then processed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from socialpub.simulator.content_types import mime_type
from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.forms import bearer, fields
from socialpub.simulator.ledger import PublishedMedia
from socialpub.simulator.linkedin.api import People, body_of, invalid, part, refuse
from socialpub.simulator.state import SimulatorState

PART = 4_194_304
_TYPES = {
    "image": ("image/jpeg", "image/png", "image/gif"),
    "document": ("application/pdf",),
    "video": ("video/mp4",),
}
_ADDRESS_MS = 3_600_000


@dataclass
class Asset:
    """Uploaded file. `parts`: received parts by number; `medium` is set once complete."""

    urn: str
    kind: str
    owner: str
    secret: str
    made_at: int
    size: int = 0
    parts: dict[int, bytes] = field(default_factory=dict)
    medium: PublishedMedia | None = None
    whole_at: int = 0
    broken: bool = False

    def bounds(self) -> list[tuple[int, int]]:
        return [(first, min(first + PART, self.size) - 1) for first in range(0, self.size, PART)]


@dataclass
class Media:
    """All uploads. `failing`: how many of the next ones fail in processing."""

    lab: SimulatorState
    people: People
    by_urn: dict[str, Asset] = field(default_factory=dict)
    failing: int = 0
    _count: int = 0

    def operations(self) -> tuple[Operation, ...]:
        versioned = (
            Operation("images.initialize", ("POST",), "/rest/images", lambda call: self.initialize(call, "image")),
            Operation("images.get", ("GET",), "/rest/images/<urn>", lambda call: self.show(call, "image")),
            Operation("documents.initialize", ("POST",), "/rest/documents", lambda c: self.initialize(c, "document")),
            Operation("documents.get", ("GET",), "/rest/documents/<urn>", lambda call: self.show(call, "document")),
            Operation("videos.act", ("POST",), "/rest/videos", self.videos),
            Operation("videos.get", ("GET",), "/rest/videos/<urn>", self.video),
        )
        store = Operation("media.upload", ("PUT",), "/dms-uploads/<secret>/<part>", self.upload)
        return (*self.people.add_checks(versioned), store)

    def reset(self) -> None:
        self.by_urn.clear()
        self.failing = 0

    def status(self, asset: Asset) -> str:
        if asset.medium is None:
            return "WAITING_UPLOAD"
        if self.lab.clock.now_ms() < asset.whole_at + self.lab.settings.processing_ms:
            return "PROCESSING"
        return "PROCESSING_FAILED" if asset.broken else "AVAILABLE"

    # --- Images and documents ---

    def initialize(self, call: Call, kind: str) -> FakeResponse:
        """Initialize the upload of an image or a document."""
        if fields(call).get("action") != "initializeUpload":
            raise refuse(400, "ILLEGAL_ARGUMENT", "Unknown action")
        asset = self._open(call, kind, _asked(call, "initializeUploadRequest"))
        url = f"{call.origin}/dms-uploads/{asset.secret}/0?ca=vector_feedshare"
        until = asset.made_at + _ADDRESS_MS
        return FakeResponse(200, {"value": {"uploadUrlExpiresAt": until, "uploadUrl": url, kind: asset.urn}})

    def show(self, call: Call, kind: str) -> FakeResponse:
        """Return an image or a document; members' tokens are write-only."""
        caller = self.people.caller(call)
        asset = self._find(call, kind)
        if "r_organization_social" not in caller.scopes or asset.owner not in caller.member.roles:
            raise refuse(403, "ACCESS_DENIED", f"Not enough permissions to access: {kind}s.GET.20260901")
        return FakeResponse(200, {"id": asset.urn, "owner": asset.owner, "status": self.status(asset)})

    # --- Videos ---

    def videos(self, call: Call) -> FakeResponse:
        """Handle both actions on videos."""
        actions = {"initializeUpload": self._initialize, "finalizeUpload": self._finalize}
        act = actions.get(fields(call).get("action", ""))
        if act is None:
            raise refuse(400, "ILLEGAL_ARGUMENT", "Unknown action")
        return act(call)

    def _initialize(self, call: Call) -> FakeResponse:
        asked = _asked(call, "initializeUploadRequest")
        size = asked.get("fileSizeBytes")
        if not isinstance(size, int) or not 0 < size <= 5_000_000_000:
            raise invalid("/initializeUploadRequest/fileSizeBytes", "INVALID_VALUE_FOR_FIELD", "fileSizeBytes is wrong")
        asset = self._open(call, "video", asked)
        asset.size = size
        where = f"{call.origin}/dms-uploads/{asset.secret}"
        steps = [
            {"uploadUrl": f"{where}/{n}?sig={asset.secret}", "firstByte": first, "lastByte": last}
            for n, (first, last) in enumerate(asset.bounds())
        ]
        value = {"uploadUrlsExpireAt": asset.made_at + _ADDRESS_MS, "video": asset.urn, "uploadInstructions": steps}
        return FakeResponse(200, {"value": {**value, "uploadToken": ""}})

    def _finalize(self, call: Call) -> FakeResponse:
        asked = _asked(call, "finalizeUploadRequest")
        asset = self.by_urn.get(str(asked.get("video")))
        if asset is None or asset.kind != "video":
            raise refuse(404, "RESOURCE_NOT_FOUND", "Could not find video")
        self.people.author(call, asset.owner, "videos.ACTION-finalizeUpload")
        wanted = [_etag(asset.parts[n]) if n in asset.parts else None for n in range(len(asset.bounds()))]
        if asked.get("uploadedPartIds") != wanted:
            path = "/finalizeUploadRequest/uploadedPartIds"
            raise invalid(path, "INVALID_VALUE_FOR_FIELD", "uploadedPartIds are not those of all parts in order")
        self._whole(asset)
        return FakeResponse(200)

    def video(self, call: Call) -> FakeResponse:
        self.people.caller(call)
        asset = self._find(call, "video")
        self.people.author(call, asset.owner, "videos.GET")
        status = self.status(asset)
        why = {"processingFailureReason": "TRANSCODING_FAILED"} if status == "PROCESSING_FAILED" else {}
        return FakeResponse(200, {"id": asset.urn, "owner": asset.owner, "status": status, **why})

    # --- The store ---

    def upload(self, call: Call) -> FakeResponse:
        """Receive a whole file, by token, or a part of a video, by the signature in the URL alone."""
        asset = next((each for each in self.by_urn.values() if each.secret == call.parts["secret"]), None)
        if asset is None:
            raise RefusedError(FakeResponse(404, "Not Found", content_type="text/plain"))
        if self.lab.clock.now_ms() > asset.made_at + _ADDRESS_MS:
            raise refuse(400, "EXPIRED_UPLOAD_URL", "The upload URL has expired")
        if asset.kind != "video":
            if self.people.server.access(bearer(call)).state != "alive":
                raise RefusedError(FakeResponse(401, "Unauthorized", content_type="text/plain"))
            asset.parts, asset.size = {0: call.body}, len(call.body)
            self._whole(asset)
            return FakeResponse(201)
        return self._part(asset, call)

    def _part(self, asset: Asset, call: Call) -> FakeResponse:
        if "authorization" in call.headers or fields(call).get("sig") != asset.secret:
            raise RefusedError(FakeResponse(400, "Bad Request", content_type="text/plain"))
        number = call.parts["part"]
        bounds = asset.bounds()
        place = int(number) if number.isdecimal() else len(bounds)
        if place >= len(bounds) or len(call.body) != bounds[place][1] - bounds[place][0] + 1:
            raise RefusedError(FakeResponse(400, "Bad Request", content_type="text/plain"))
        asset.parts[place] = call.body
        return FakeResponse(200, headers={"etag": f'"{_etag(call.body)}"'})

    # --- Tools ---

    def _open(self, call: Call, kind: str, asked: dict[str, Any]) -> Asset:
        owner = str(asked.get("owner", ""))
        self.people.author(call, owner, f"{kind}s.ACTION-initializeUpload")
        self._count += 1
        secret = hashlib.sha256(f"{kind} {self._count}".encode()).hexdigest()[:32]
        urn = f"urn:li:{kind}:D5{self._count:08d}QGx"
        asset = self.by_urn[urn] = Asset(urn, kind, owner, secret, self.lab.clock.now_ms())
        return asset

    def _find(self, call: Call, kind: str) -> Asset:
        asset = self.by_urn.get(part(call, "urn"))
        if asset is None or asset.kind != kind:
            raise refuse(404, "RESOURCE_NOT_FOUND", f"Could not find {kind}")
        return asset

    def _whole(self, asset: Asset) -> None:
        content = b"".join(asset.parts[place] for place in sorted(asset.parts))
        found = mime_type(content, "")
        asset.medium = self.lab.add_medium(content, found)
        asset.whole_at = self.lab.clock.now_ms()
        asset.broken = found not in _TYPES[asset.kind] or self.failing > 0
        self.failing = max(self.failing - 1, 0)


def _asked(call: Call, name: str) -> dict[str, Any]:
    inner = body_of(call).get(name)
    if not isinstance(inner, dict):
        raise invalid(f"/{name}", "MISSING_FIELD", f"{name} is required")
    return inner


def _etag(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
