"""Videos of Pages: uploaded in chunks or by URL, published once processed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from socialpub.simulator.content_types import mime_type
from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.facebook.feed import WEB, Feed
from socialpub.simulator.facebook.pages import Page, Pages
from socialpub.simulator.forms import fields
from socialpub.simulator.meta.graph import VERSION, instant, missing, refuse
from socialpub.simulator.meta.multipart import form_of
from socialpub.simulator.state import SimulatorState

_PINNED = "v26.0"
_TYPES = ("video/mp4", "video/quicktime", "video/webm", "video/x-m4v")


@dataclass
class Video:
    """Unpublished video. `ready_ms`: end of processing, None before the last step.

    `error`: why it fails.
    """

    id: str
    page: str
    session: str
    size: int
    content: bytearray = field(default_factory=bytearray)
    ready_ms: int | None = None
    error: str = ""
    form: Mapping[str, str] = field(default_factory=dict)  # of the last step
    public: bool = False
    story: str = ""  # id of the story that shows it, once finished


@dataclass
class File:
    """File uploaded whole, not a video of any Page yet."""

    size: int
    content: bytearray = field(default_factory=bytearray)


@dataclass
class Videos:
    """Videos. For tests: `failing` holds errors of the next videos, `piece` the chunk size."""

    lab: SimulatorState
    pages: Pages
    feed: Feed
    piece: int = 1024 * 1024
    failing: list[str] = field(default_factory=list)
    videos: dict[str, Video] = field(default_factory=dict)
    phases: bool = True  # False: phases are discontinued, and a file goes up whole in an upload of the app
    files: dict[str, File] = field(default_factory=dict)

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation("videos", ("POST",), f"/{VERSION}/<page>/videos", self.upload, _url),
            Operation("video_stories", ("POST",), f"/{VERSION}/<page>/video_stories", self.tell),
            Operation("story.bytes", ("POST",), f"/video-upload/{VERSION}/<video>", self.receive),
            Operation("uploads", ("POST",), f"/{VERSION}/<app>/uploads", self.open),
            Operation("upload.bytes", ("POST",), f"/{VERSION}/<file>", self.take),
        )

    def reset(self) -> None:
        self.videos.clear()
        self.failing.clear()
        self.files.clear()
        self.phases = True
        self.piece = 1024 * 1024

    def due(self) -> None:
        """Publish the videos whose processing is over."""
        for video in self.videos.values():
            if self._is_over(video) and not (video.error or video.public):
                self._show(video)

    def node(self, id: str, account: str) -> dict[str, Any] | None:
        self.due()
        video = self.videos.get(id)
        if video is None or video.page != account:
            return None
        return {
            "id": id,
            "status": self._status(video),
            "published": video.public,
            "permalink_url": None if video.story else f"/{video.page}/videos/{id}/",
            "post_id": video.story or (f"{video.page}_{id}" if video.public else None),
        }

    def _is_over(self, video: Video) -> bool:
        return video.ready_ms is not None and self.feed.now >= video.ready_ms

    # --- Calls ---

    def upload(self, call: Call) -> FakeResponse:
        """Handle the edge's four forms: the three phases, or a URL."""
        page, form = self.pages.page(call), form_of(call)
        phase = form.texts.get("upload_phase", "")
        if phase and not self.phases:
            raise refuse(100, "(#100) upload_phase is deprecated")
        if "fbuploader_video_file_chunk" in form.texts:
            return self._named(page, form.texts)
        if phase == "start":
            return self._start(page, form.texts)
        if phase == "transfer":
            return self._transfer(page, form.texts, form.files.get("video_file_chunk", ("", b""))[1])
        if phase == "finish":
            return self._finish(page, form.texts)
        return self._pulled(page, call, form.texts)

    def tell(self, call: Call) -> FakeResponse:
        """Start a story with a video, or finish it: after processing, the story is published."""
        page, form = self.pages.page(call), fields(call)
        if form.get("upload_phase") == "start":
            video = self._new(page, 0)
            return FakeResponse(
                200, {"video_id": video.id, "upload_url": f"{call.origin}/video-upload/{_PINNED}/{video.id}"}
            )
        found = self.videos.get(form.get("video_id", ""))
        if form.get("upload_phase") != "finish" or found is None or found.page != page.id:
            raise refuse(100, "(#100) upload_phase or video_id is invalid")
        if not 0 < found.size == len(found.content):
            raise refuse(6000, "The video is not complete", 1363033)
        if found.ready_ms is not None:
            raise refuse(6000, "The video was published already", 1363033)
        found.story = self.feed.new_id()
        self._take(found, form)
        return FakeResponse(200, {"success": True, "post_id": found.story})

    def receive(self, call: Call) -> FakeResponse:
        """Receive the bytes of a story's video from their offset."""
        account = self.pages.access(call).account
        video = self.videos.get(call.parts["video"])
        if video is None or video.page != account or video.ready_ms is not None:
            raise missing(call.parts["video"])
        size, offset = call.headers.get("file_size", ""), call.headers.get("offset", "")
        if not size.isdecimal() or offset != str(len(video.content)):
            raise _broken("OffsetInvalidError", f"The offset is {len(video.content)}.")
        video.size = int(size)
        video.content += call.body
        if len(video.content) != video.size:
            raise _broken("PartialRequestError", "The request ended early.")
        return FakeResponse(200, {"success": True})

    def open(self, call: Call) -> FakeResponse:
        """Start an upload of the app."""
        self.pages.access(call)
        asked = fields(call)
        if call.parts["app"] != self.pages.server.client_id:
            raise missing(call.parts["app"])
        if not asked.get("file_length", "").isdecimal() or asked.get("file_type") not in _TYPES:
            raise refuse(100, "(#100) file_length and file_type are required")
        id = f"upload:{self.feed.new_id()}"
        self.files[id] = File(int(asked["file_length"]))
        return FakeResponse(200, {"id": id})

    def take(self, call: Call) -> FakeResponse:
        """Receive the bytes of an upload from its offset; return its handle once complete."""
        self.pages.access(call)
        file = self.files.get(call.parts["file"])
        if file is None:
            raise missing(call.parts["file"])
        if call.headers.get("file_offset") != str(len(file.content)):
            raise refuse(100, "(#100) file_offset is not where the upload is")
        file.content += call.body
        if len(file.content) != file.size:
            raise refuse(100, "(#100) The upload is not complete")
        return FakeResponse(200, {"h": f"h:{call.parts['file']}"})

    def progress(self, id: str) -> dict[str, Any] | None:
        """Return the offset of an upload."""
        file = self.files.get(id)
        return {"id": id, "file_offset": len(file.content)} if file else None

    def _named(self, page: Page, form: Mapping[str, str]) -> FakeResponse:
        file = self.files.get(form["fbuploader_video_file_chunk"].removeprefix("h:"))
        if file is None or len(file.content) != file.size:
            raise refuse(6000, "The upload is unknown or not complete", 1363033)
        video = self._new(page, file.size)
        video.content += file.content
        self._take(video, form)
        return FakeResponse(200, {"id": video.id})

    def _start(self, page: Page, form: Mapping[str, str]) -> FakeResponse:
        size = form.get("file_size", "")
        if not size.isdecimal() or int(size) < 1:
            raise refuse(100, "(#100) file_size must be a number above 0")
        video = self._new(page, int(size))
        return FakeResponse(200, {"upload_session_id": video.session, "video_id": video.id, **self._next(video)})

    def _transfer(self, page: Page, form: Mapping[str, str], chunk: bytes) -> FakeResponse:
        video = self._found(page, form)
        expected = self._next(video)
        if form.get("start_offset") != expected["start_offset"]:
            words = "There was a problem uploading your video file. Please try again with another file."
            raise refuse(6000, words, 1363037, error_data=expected)
        if not chunk or len(video.content) + len(chunk) > int(expected["end_offset"]):
            raise refuse(6001, "There was a problem uploading your video. Please try again.", 1363030)
        video.content += chunk
        return FakeResponse(200, self._next(video))

    def _finish(self, page: Page, form: Mapping[str, str]) -> FakeResponse:
        """Finish the upload: after processing, the video is published."""
        video = self._found(page, form)
        if len(video.content) != video.size:
            raise refuse(6000, "The video is not complete", 1363033)
        if video.ready_ms is not None:
            raise refuse(6000, "The upload session is over", 1363033)
        self._take(video, form)
        return FakeResponse(200, {"success": True})

    def _pulled(self, page: Page, call: Call, form: Mapping[str, str]) -> FakeResponse:
        fetched = call.fetched.get(form.get("file_url", ""))
        if fetched is None or not fetched.ok:
            raise refuse(389, "(#389) Unable to fetch video file from URL")
        video = self._new(page, len(fetched.content))
        video.content += fetched.content
        self._take(video, form)
        return FakeResponse(200, {"id": video.id})

    # --- Tools ---

    def _new(self, page: Page, size: int) -> Video:
        id = self.feed.new_id()
        video = self.videos[id] = Video(id, page.id, str(int(id) + 3), size)
        return video

    def _found(self, page: Page, form: Mapping[str, str]) -> Video:
        session = form.get("upload_session_id")
        for video in self.videos.values():
            if video.session == session and video.page == page.id:
                return video
        raise refuse(6000, "The upload session is unknown", 1363033)

    def _next(self, video: Video) -> dict[str, str]:
        start = len(video.content)
        return {"start_offset": str(start), "end_offset": str(min(start + self.piece, video.size))}

    def _take(self, video: Video, form: Mapping[str, str]) -> None:
        kind = mime_type(bytes(video.content), "")
        video.form, video.ready_ms = form, self.feed.now + self.lab.settings.processing_ms
        video.error = self.failing.pop(0) if self.failing else "" if kind in _TYPES else "The format is not supported."
        self.due()

    def _show(self, video: Video) -> None:
        content, page = bytes(video.content), self.pages.pages[video.page]
        medium = self.lab.add_medium(content, mime_type(content, ""))
        if video.story:
            video.public = True
            self.feed.add_story(page, video.story, "video", video.id, medium)
            return
        text = video.form.get("description", "")
        node = {
            "id": f"{page.id}_{video.id}",
            "message": text,
            "created_time": instant(self.feed.now),
            "permalink_url": f"{WEB}/{page.id}/videos/{video.id}/",
            "application": {"id": self.pages.server.client_id, "name": "Lab"},
            "attachments": {"data": [{"media_type": "video", "target": {"id": video.id}}]},
        }
        video.public = True
        self.feed.add(page, (text, video.id), node, text, (medium,), dict(video.form), remote_id=video.id)

    def _status(self, video: Video) -> dict[str, Any]:
        """Build the status, with Meta's own spelling of one field in phases."""
        whole, over = 0 < video.size == len(video.content), self._is_over(video)
        uploading = {"status": "complete" if whole else "in_progress", "bytes_transfered": len(video.content)}
        idle: dict[str, Any] = {"status": "not_started"}
        phases = {"uploading_phase": uploading, "processing_phase": idle, "publishing_phase": idle}
        if video.error and over:
            failed = {"status": "error", "error": {"message": video.error}}
            return {"video_status": "error", **phases, "processing_phase": failed}
        if video.ready_ms is None:
            return {"video_status": "upload_complete" if whole else "uploading", **phases}
        if not over:
            return {"video_status": "processing", **phases, "processing_phase": {"status": "in_progress"}}
        done = {"status": "complete"}
        publishing = {**done, "publish_status": "published"}
        return {"video_status": "ready", **phases, "processing_phase": done, "publishing_phase": publishing}


def _broken(kind: str, message: str) -> RefusedError:
    """Build the upload host's refusal; the same bytes may be sent again."""
    return RefusedError(FakeResponse(400, {"debug_info": {"retriable": True, "type": kind, "message": message}}))


def _url(call: Call) -> Iterable[str]:
    url = fields(call).get("file_url", "")
    return [url] if url.startswith(("http://", "https://")) else []
