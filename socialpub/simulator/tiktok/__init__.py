"""Fake TikTok: creators, video and photo drafts, inboxes (Content Posting API v2).

The ledger shows a `draft` once TikTok has all of it and will deliver it; `confirm` is the creator posting it in the
app.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from socialpub.simulator.content_types import mime_type
from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.forms import bearer
from socialpub.simulator.ledger import Publication, PublishedMedia
from socialpub.simulator.oauth import OAuthServer
from socialpub.simulator.state import SimulatorState
from socialpub.simulator.tiktok.api import (
    CODES,
    LAST_MAX,
    MIB,
    OAUTH_QUIRKS,
    body_of,
    find_chunk_problem,
    find_photo_problem,
    ok,
    photo_urls,
    record,
    refuse,
    whole,
)

SCOPES = ("user.info.basic", "user.info.profile", "video.upload")
_FIELDS = {"open_id": SCOPES[0], "union_id": SCOPES[0], "avatar_url": SCOPES[0], "display_name": SCOPES[0]}
_FIELDS |= {"username": SCOPES[1]}
_HOUR_MS, _MINUTE_MS, _DAY_MS = 3_600_000, 60_000, 86_400_000
_PENDING_MAX, _INITS_MAX = 5, 6
_VIDEOS = ("video/mp4", "video/quicktime", "video/webm")
_PHOTOS = ("image/jpeg", "image/webp")
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


# --- State ----------------------------------------------------------------------------------------------------------


class _AccountRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    handle: str = Field("lab", min_length=1)
    display_name: str | None = None


@dataclass(frozen=True)
class Creator:
    id: str
    username: str
    name: str


@dataclass
class TiktokDraft:
    """Draft. `whole_at`: when TikTok had all of it; `failed`: why it is never delivered."""

    id: str
    creator: Creator
    photos: bool
    made_at: int
    size: int = 0
    chunk: int = 0
    request: Mapping[str, Any] = field(default_factory=dict)
    received: bytearray = field(default_factory=bytearray)
    whole_at: int | None = None
    failed: str = ""
    post: int | None = None


@dataclass
class Tiktok:
    """Fake platform; implements `FakePlatform`.

    For tests: `verified` holds the URL prefixes allowed for photos (empty: any), `fails` the reason why the next drafts
    fail.
    """

    lab: SimulatorState
    name: str = "tiktok"
    max_body: int = LAST_MAX + MIB
    ids: tuple[str, ...] = ("data", "access_token")
    verified: tuple[str, ...] = ()
    fails: str = ""
    _creators: dict[str, Creator] = field(default_factory=dict)
    _tasks: dict[str, TiktokDraft] = field(default_factory=dict)
    _inits: dict[str, list[int]] = field(default_factory=dict)
    _made: int = 0

    def __post_init__(self) -> None:
        self.server = OAuthServer(self.lab.clock, OAUTH_QUIRKS, lambda: tuple(self._creators))

    def operations(self) -> tuple[Operation, ...]:
        posting = "/v2/post/publish"
        return (
            *self.server.operations(),
            Operation("user.info", ("GET",), "/v2/user/info/", self.me),
            Operation("video.init", ("POST",), f"{posting}/inbox/video/init/", self.open_video),
            Operation("video.upload", ("PUT",), "/upload/<task>", self.upload),
            Operation("content.init", ("POST",), f"{posting}/content/init/", self.open_photos, photo_urls),
            Operation("status.fetch", ("POST",), f"{posting}/status/fetch/", self.status),
            Operation("cancel", ("POST",), f"{posting}/cancel/", self.cancel),
        )

    def add_account(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Create a creator with tokens. Raises ValueError if the name is taken.

        `wanted`: `handle`, optional `displayName`.
        """
        asked = _AccountRequest.model_validate(wanted)
        if self._find(asked.handle):
            raise ValueError(f"the username {asked.handle} is taken")
        id = f"-000lab{len(self._creators):04d}"
        self._creators[id] = Creator(id, asked.handle, asked.display_name or asked.handle)
        issue = self.server.issue(id, SCOPES)
        ends = datetime.fromtimestamp(issue.now + (issue.expires_in or 0), UTC)
        return {
            "platformAccountId": id,
            "displayName": self._creators[id].name,
            "accessToken": issue.access,
            "refreshToken": issue.refresh,
            "expiresAt": f"{ends:%Y-%m-%dT%H:%M:%S}.000Z",
            "extra": {"username": asked.handle},
        }

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        found = self._find(account) if account is not None else None
        if account is not None and found is None:
            raise ValueError(f"there is no account {account!r}")
        self.server.end_tokens(found.id if found else None, access=access, refresh=refresh)

    def refusal(self, status: int, retry_after: int | None) -> FakeResponse:
        answer = refuse(status, CODES.get(status, "internal_error"), "Something went wrong.").answer
        return FakeResponse(status, answer.body, {} if retry_after is None else {"retry-after": str(retry_after)})

    def reset(self) -> None:
        self._tasks.clear()
        self._inits.clear()
        self.verified, self.fails = (), ""

    def confirm(self, publish: str) -> str:
        """Post a draft of the inbox, as its creator; return the post's id.

        Raises ValueError if missing.
        """
        task = self._tasks.get(publish)
        if task is None or self._state(task) != "SEND_TO_USER_INBOX":
            raise ValueError(f"{publish} is not in an inbox")
        task.post = 7_500_000_000_000_000_000 + self._number()
        return str(task.post)

    # --- Callers ---

    def _find(self, wanted: str) -> Creator | None:
        return next((each for each in self._creators.values() if wanted in (each.id, each.username)), None)

    def _caller(self, call: Call, *scopes: str) -> Creator:
        found = self.server.access(bearer(call))
        if found.state != "alive":
            raise refuse(401, "access_token_invalid", "The access token is invalid or not found in the request.")
        if not set(scopes) <= set(found.scopes):
            raise refuse(401, "scope_not_authorized", "The user did not authorize the scope required.")
        return self._creators[found.account]

    def me(self, call: Call) -> FakeResponse:
        """Return the requested fields, each subject to its scope."""
        wanted = ",".join(call.query.get("fields", [])).split(",")
        unknown = [name for name in wanted if name not in _FIELDS]
        creator = self._caller(call, *(_FIELDS[name] for name in wanted if name in _FIELDS))
        if unknown:
            raise refuse(400, "invalid_params", "Some fields are not supported.")
        every = {
            "open_id": creator.id,
            "union_id": f"union{creator.id}",
            "avatar_url": "",
            "display_name": creator.name,
            "username": creator.username,
        }
        return ok({"user": {name: every[name] for name in wanted}})

    # --- Opening drafts ---

    def open_video(self, call: Call) -> FakeResponse:
        """Start a video upload; its chunk sizes are checked here."""
        creator = self._caller(call, "video.upload")
        source = record(body_of(call).get("source_info"))
        self._count(creator)
        if source.get("source") != "FILE_UPLOAD":
            raise refuse(403, "url_ownership_unverified", "Please review our URL ownership verification rules.")
        size, chunk, count = (whole(source.get(key)) for key in ("video_size", "chunk_size", "total_chunk_count"))
        if problem := find_chunk_problem(size, chunk, count):
            raise refuse(400, "invalid_params", problem)
        task = self._task("v_inbox_file~v2", creator, photos=False, size=size, chunk=chunk)
        return ok({"publish_id": task.id, "upload_url": f"{call.origin}/upload/{task.id.rpartition('.')[2]}"})

    def open_photos(self, call: Call) -> FakeResponse:
        """Create a draft of photos, which are already fetched."""
        creator = self._caller(call, "video.upload")
        body = body_of(call)
        info, urls = record(body.get("post_info")), tuple(photo_urls(call))
        self._count(creator)
        if problem := find_photo_problem(body, info, urls):
            raise refuse(400, "invalid_params", problem)
        if self.verified and not all(url.startswith(self.verified) for url in urls):
            raise refuse(403, "url_ownership_unverified", "Please review our URL ownership verification rules.")
        task = self._task("p_inbox_url~v2", creator, photos=True, request=info)
        fetched = [call.fetched[url] for url in urls]
        types = [mime_type(each.content, "application/octet-stream") for each in fetched]
        if not all(each.ok for each in fetched):
            task.failed = "photo_pull_failed"
        elif not all(found in _PHOTOS for found in types):
            task.failed = "file_format_check_failed"
        media = [self.lab.add_medium(each.content, found) for each, found in zip(fetched, types, strict=True)]
        self._complete(task, tuple(media))
        return ok({"publish_id": task.id})

    def _count(self, creator: Creator) -> None:
        """Enforce six drafts a minute and five pending ones, if rate limits are on."""
        if not self.lab.settings.rate_limits:
            return
        now = self.lab.clock.now_ms()
        recent = self._inits[creator.id] = [at for at in self._inits.get(creator.id, []) if at > now - _MINUTE_MS]
        if len(recent) >= _INITS_MAX:
            raise refuse(429, "rate_limit_exceeded", "The API rate limit was exceeded.")
        recent.append(now)
        waiting = [task for task in self._tasks.values() if task.creator == creator and self._waits(task, now)]
        if len(waiting) >= _PENDING_MAX:
            raise refuse(403, "spam_risk_too_many_pending_share", "There are too many pending shares.")

    def _waits(self, task: TiktokDraft, now: int) -> bool:
        return task.whole_at is not None and task.post is None and not task.failed and task.made_at > now - _DAY_MS

    def _task(self, kind: str, creator: Creator, **more: Any) -> TiktokDraft:
        id = f"{kind}.{self._number():019d}"
        self._tasks[id] = TiktokDraft(id, creator, made_at=self.lab.clock.now_ms(), **more)
        return self._tasks[id]

    def _number(self) -> int:
        self._made += 1
        return self._made

    # --- Bytes ---

    def upload(self, call: Call) -> FakeResponse:
        """Receive the next chunk of a video: 206, for the last one 201."""
        task = next((each for each in self._tasks.values() if each.id.endswith(f".{call.parts['task']}")), None)
        if task is None:
            raise refuse(404, "invalid_params", "The task is not found.")
        if self.lab.clock.now_ms() - task.made_at > _HOUR_MS:
            raise refuse(403, "invalid_params", "The upload url has expired.")
        first, end = self._range(call, task)
        last = task.size - end < task.chunk and end == task.size
        if first != len(task.received) or task.whole_at is not None:
            has = {"content-range": f"bytes 0-{len(task.received) - 1}/{task.size}"} if task.received else {}
            answer = refuse(416, "invalid_params", "The range does not follow what was received.").answer
            raise RefusedError(FakeResponse(416, answer.body, has))
        if not last and end - first != task.chunk:
            raise refuse(400, "invalid_params", "The chunk is not of the announced size.")
        task.received += call.body
        if last:
            self._complete(task, (self._video(task),))
        return FakeResponse(201 if last else 206, None)

    def _range(self, call: Call, task: TiktokDraft) -> tuple[int, int]:
        found = _RANGE.fullmatch(call.headers.get("content-range", ""))
        first, end, total = (int(found[1]), int(found[2]) + 1, int(found[3])) if found else (0, 0, 0)
        fits = len(call.body) == end - first and total == task.size and end <= total
        if not found or not fits or call.headers.get("content-type") not in _VIDEOS:
            raise refuse(400, "invalid_params", "The headers of the part are malformed.")
        if end != total and total - end < task.chunk:
            raise refuse(400, "invalid_params", "What is left over belongs to the last chunk.")
        return first, end

    def _video(self, task: TiktokDraft) -> PublishedMedia:
        content = bytes(task.received)
        found = mime_type(content, "application/octet-stream")
        if found not in _VIDEOS:
            task.failed = "file_format_check_failed"
        return self.lab.add_medium(content, found)

    def _complete(self, task: TiktokDraft, media: tuple[PublishedMedia, ...]) -> None:
        task.whole_at = self.lab.clock.now_ms()
        task.failed = task.failed or self.fails
        if task.failed:
            return
        text, asked = task.request.get("description"), dict(task.request)
        self.lab.ledger.write(Publication(self.name, task.creator.id, "draft", task.id, None, text, media, asked))

    # --- Delivery ---

    def status(self, call: Call) -> FakeResponse:
        task = self._own(call)
        state = self._state(task)
        data: dict[str, Any] = {"status": state}
        if state == "FAILED":
            data["fail_reason"] = task.failed
        if task.post is not None:
            data["publicaly_available_post_id"] = [task.post]
        if not task.photos:
            data["uploaded_bytes"] = len(task.received)
        return ok(data)

    def cancel(self, call: Call) -> FakeResponse:
        """Cancel a draft in progress; refuse for any other."""
        task = self._own(call)
        if task.whole_at is not None:
            raise refuse(400, "publish_not_cancellable", "The post cannot be cancelled any more.")
        task.whole_at, task.failed = self.lab.clock.now_ms(), "publish_cancelled"
        return ok({})

    def _own(self, call: Call) -> TiktokDraft:
        creator = self._caller(call, "video.upload")
        task = self._tasks.get(str(body_of(call).get("publish_id", "")))
        if task is None:
            raise refuse(400, "invalid_publish_id", "The publish_id does not exist.")
        if task.creator != creator:
            code = "token_not_authorized_for_specified_publish_id"
            raise refuse(403, code, "The access token does not have authorization for the publish_id.")
        return task

    def _state(self, task: TiktokDraft) -> str:
        since, processing = task.whole_at, self.lab.settings.processing_ms
        if since is None or self.lab.clock.now_ms() < since + processing:
            return "PROCESSING_DOWNLOAD" if task.photos else "PROCESSING_UPLOAD"
        if task.failed:
            return "FAILED"
        return "SEND_TO_USER_INBOX" if task.post is None else "PUBLISH_COMPLETE"
