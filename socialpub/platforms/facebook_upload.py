"""Images and videos on their way to a Page: uploaded as bytes, unpublished, streamed from their files.

A video goes up in the pieces that Facebook asks for, and has its id before anything is public
(developers.facebook.com/docs/graph-api/reference/page/videos, chunked upload).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from socialpub.base.errors import ApiError
from socialpub.base.net import UPLOAD_SECONDS, Reply
from socialpub.platforms.base import Draft, Item, Json, Pending, Upstream
from socialpub.platforms.facebook_platform import GRAPH
from socialpub.platforms.meta import fault_of, text_of

_READ = 1 << 18
_MISSES_MAX = 5
_MISS_WAIT = 3.0
_WRONG_OFFSET = 1363037  # its error_data says where to go on


@dataclass(frozen=True)
class Piece:
    """A part of a file, to be sent as one field of a form."""

    field: str
    path: Path
    content_type: str
    start: int
    end: int

    def chunks(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            file.seek(self.start)
            left = self.end - self.start
            while left > 0 and (chunk := file.read(min(_READ, left))):
                left -= len(chunk)
                yield chunk


def photo(up: Upstream, item: Item, draft: Draft) -> str:
    """The id of an image that is uploaded and not published; it vanishes after a day when no post takes it."""
    path, kind = _file(item)
    form = {"published": "false"} | ({"alt_text_custom": item.alt_text} if item.alt_text else {})
    piece = Piece("source", path, kind, 0, path.stat().st_size)
    reply = _posted(up, f"{up.account.platform_account_id}/photos", form, piece, draft)
    if not reply.ok:
        raise GRAPH.refused(up, "photo", reply)
    return GRAPH.id_of(up, "photo", reply)


# --- Videos ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Session:
    """A video on its way: the piece that is to come next is [start, end)."""

    session: str
    video: str
    start: int
    end: int
    misses: int = 0


def video(up: Upstream, draft: Draft, saved: Json | None) -> Session | Pending:
    """The session of a video that is uploaded whole and not published; `Pending` to go on after a failure."""
    state = Session(**saved) if saved else _started(up, draft.items[0])
    while state.start < state.end:
        found = _next(up, draft, state)
        if isinstance(found, Pending):
            return found
        state = found
    return state


def edge(up: Upstream) -> str:
    """Where videos are uploaded and published."""
    return f"{up.site.upload_base}/{GRAPH.platform.pinned(up.site)}/{up.account.platform_account_id}/videos"


def _started(up: Upstream, item: Item) -> Session:
    path, _ = _file(item)
    form = {"upload_phase": "start", "file_size": str(path.stat().st_size)}
    reply = GRAPH.call(up, "video", "POST", edge(up), data=form)
    session = GRAPH.id_of(up, "video", reply, key="upload_session_id")
    found = _moved(Session(session, GRAPH.id_of(up, "video", reply, key="video_id"), 0, 0), reply.record())
    if found is None or found.start == found.end:
        raise GRAPH.unusable(up, "video", reply)
    return found


def _next(up: Upstream, draft: Draft, state: Session) -> Session | Pending:
    """The state after one more piece; sending a piece again is harmless."""
    path, kind = _file(draft.items[0])
    form = {"upload_phase": "transfer", "upload_session_id": state.session, "start_offset": str(state.start)}
    piece = Piece("video_file_chunk", path, kind, state.start, state.end)
    try:
        reply = _posted(up, edge(up), form, piece, draft)
        error = None if reply.ok else GRAPH.refused(up, "video", reply)
        found = _moved(state, reply.record() if reply.ok else _corrected(reply))
    except ApiError as lost:
        error, found = lost, None
    if found and found.start != state.start:
        return replace(found, misses=0)
    if state.misses >= _MISSES_MAX or (error and error.code != "platform_unavailable"):
        raise error or GRAPH.unusable(up, "video", reply)
    return Pending(asdict(replace(found or state, misses=state.misses + 1)), _MISS_WAIT)


def _corrected(reply: Reply) -> Json:
    fault = fault_of(reply)
    return dict(fault.data) if fault.subcode == _WRONG_OFFSET else {}


def _moved(state: Session, body: Json) -> Session | None:
    """The state with the offsets of an answer (texts of digits); None when it holds none."""
    start, end = text_of(body.get("start_offset")), text_of(body.get("end_offset"))
    if not (start.isascii() and start.isdigit() and end.isascii() and end.isdigit()):
        return None
    return replace(state, start=int(start), end=int(end)) if int(start) <= int(end) else None


# --- Forms -------------------------------------------------------------------------------------------------------


def _posted(up: Upstream, path: str, form: Mapping[str, str], piece: Piece, draft: Draft) -> Reply:
    """Send a form with a piece of a file in it (RFC 7578)."""
    boundary = f"socialpub-{draft.nonce:016x}"
    head, tail = _around(form, piece, boundary)
    headers = {
        "Content-Type": f"multipart/form-data; boundary={boundary}",
        "Content-Length": str(len(head) + piece.end - piece.start + len(tail)),
    }
    return GRAPH.ask(up, "POST", path, headers=headers, content=_body(head, piece, tail), deadline=UPLOAD_SECONDS)


def _around(form: Mapping[str, str], piece: Piece, boundary: str) -> tuple[bytes, bytes]:
    open_part = f"--{boundary}\r\nContent-Disposition: form-data; name="
    fields = "".join(f'{open_part}"{name}"\r\n\r\n{value}\r\n' for name, value in form.items())
    file = f'{open_part}"{piece.field}"; filename="media"\r\nContent-Type: {piece.content_type}\r\n\r\n'
    return (fields + file).encode("utf-8", "replace"), f"\r\n--{boundary}--\r\n".encode()


def _body(head: bytes, piece: Piece, tail: bytes) -> Iterator[bytes]:
    yield head
    yield from piece.chunks()
    yield tail


def _file(item: Item) -> tuple[Path, str]:
    if item.path is None:
        raise ValueError("the item's bytes have not been resolved")
    return item.path, item.facts.content_type if item.facts else "application/octet-stream"
