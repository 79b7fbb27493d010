"""/v1/media, and the public addresses of stored files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sanic.exceptions import SanicException
from sanic.http import Http

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access import idempotency
from socialpub.domain.access.actions import bind
from socialpub.domain.media import files, library
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.common import DeletedBody, ProfileQuery
from socialpub.domain.schemas.media import MediaBody, MediaChange, MediaFields, MediaPage, MediaQuery
from socialpub.store.rows import MediaRow
from socialpub.web.api.write_handlers import commit, commit_without_body
from socialpub.web.http.file_response import ByteRange, FileRangeBody, has_matching_tag, parse_range
from socialpub.web.http.handler import HandlerResponse, RequestContext, respond
from socialpub.web.http.multipart import UploadForm, parse_boundary
from socialpub.web.http.operation import Operation, SuccessResponse
from socialpub.web.http.request_body import close_after_response
from socialpub.web.openapi.examples import MEDIA_ID, PROFILE_ID

MEDIA: MediaBody = {
    "id": MEDIA_ID,
    "url": f"https://socialpub.example.org/media/{MEDIA_ID}/1f0c9a7be23d4856a1f0c9a7be23d485.jpg",
    "contentType": "image/jpeg",
    "sizeBytes": 184211,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "kind": "image",
    "width": 1600,
    "height": 1200,
    "durationMs": None,
    "profileId": PROFILE_ID,
    "altText": "Loaves on a wooden shelf",
    "createdAt": "2026-05-04T09:12:31.884Z",
}

T = TypeVar("T")
F = TypeVar("F", bound=UploadForm)
IDLE_SECONDS = 15.0
UPLOAD_SECONDS = 3600.0
BLOCK_BYTES = 256 * 1024
FORM_OVERHEAD_BYTES = 1024 * 1024  # of a multipart body beside its file
PUBLIC_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Accept-Ranges": "bytes",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
}


# --- Uploading -----------------------------------------------------------------------------------------------------


@dataclass
class ReceivedUpload:
    """A completely received file, not yet stored."""

    arriving: files.IncomingFile
    fields: MediaFields

    @property
    def fingerprint_source(self) -> bytes:
        """The bytes that identify the upload for its Idempotency-Key."""
        return json.dumps([self.arriving.sha256, self.fields.profile_id, self.fields.alt_text]).encode()


async def receive(call: RequestContext) -> ReceivedUpload:
    """Write an upload's file to disk while it arrives. An aborted upload leaves no file."""

    def finish(form: UploadForm) -> ReceivedUpload:
        assert form.arriving is not None, "`UploadForm.end` raises without a file"
        return ReceivedUpload(form.arriving, _parse_fields(call, form))

    return await receive_form(call, UploadForm, finish)


def _parse_fields(call: RequestContext, form: UploadForm) -> MediaFields:
    query = call.query(MediaFields)
    given = query.model_dump(by_alias=True, exclude_unset=True)
    fields = validation.parse_object(MediaFields, given | form.fields)
    if query.profile_id not in (None, fields.profile_id):
        message = "profileId: The query and the body have different values."
        raise ApiError("validation_failed", message, rule="profileId", remediation="Send profileId once.")
    return fields


async def receive_form(
    call: RequestContext, make: Callable[[bytes, Callable[[], files.IncomingFile]], F], finish: Callable[[F], T]
) -> T:
    """Read a multipart body and return `finish(form)`. On an error its file is deleted."""
    service, most = call.service, call.service.runtime.settings.media.max_bytes
    form: F | None = None
    try:
        boundary = parse_boundary(call.request.headers.get("content-type", ""))
        # Without `call`: the request context may keep the form, which keeps this function.
        form = make(boundary, lambda: files.IncomingFile(files.media_directory(service), most))
        form.check_size(int(call.request.headers.get("content-length") or 0), most + FORM_OVERHEAD_BYTES)
        async for block in _read_blocks(call):
            await _run_in_pool(call, form.feed, block)
        form.end()
        return finish(form)
    except BaseException as error:
        if form is not None:
            form.close()
        if isinstance(error, ApiError):
            await _drain_body(call, most)
        raise


async def _read_blocks(call: RequestContext) -> AsyncIterator[bytes]:
    """Yield the body in blocks.

    Raises `http.timeout` after 15 s without a byte, or an hour in all.
    """
    loop = asyncio.get_running_loop()
    ends, block = loop.time() + UPLOAD_SECONDS, bytearray()
    stream = call.request.stream
    if not isinstance(stream, Http):
        return
    stream.request_max_size = sys.maxsize  # counted here, where the file's own bytes are known
    try:
        while stream.request_body:
            async with asyncio.timeout_at(min(ends, loop.time() + IDLE_SECONDS)):
                block += await stream.read() or b""
            if len(block) >= BLOCK_BYTES:
                yield bytes(block)
                block.clear()
    except TimeoutError:
        close_after_response(call.request)
        raise rule_error("http.timeout") from None
    if block:
        yield bytes(block)


async def _drain_body(call: RequestContext, most: int) -> None:
    """Read the rest of a refused body.

    Many clients read no response before they have sent the whole body. A client that sent `Expect: 100-continue` has
    sent none yet, so its connection is closed.
    """
    stream = call.request.stream
    if not isinstance(stream, Http):
        return
    if stream.expecting_continue:
        stream.expecting_continue = False
        close_after_response(call.request)
        return
    drained = 0
    with contextlib.suppress(SanicException, ApiError):
        async for block in _read_blocks(call):
            drained += len(block)
            if drained > most + FORM_OVERHEAD_BYTES:
                break
    if stream.request_body:
        close_after_response(call.request)


async def _run_in_pool(call: RequestContext, run: Callable[..., T], *arguments: Any) -> T:
    return await call.service.executors.immediate.run(ShareKey(owner=call.scope.organization), run, *arguments)


UPLOAD = Operation(
    "Media",
    "uploadMedia",
    "Upload a file",
    "Send one image (JPEG, PNG, WebP, GIF), video (MP4, QuickTime, WebM) or document (PDF) as the part `file`. Its "
    "type is read from its bytes. Use its `id` in the media of posts.",
    query=MediaFields,
    answers={201: SuccessResponse(MediaBody, "The file is stored.", MEDIA)},
    errors=(
        "media.content_type",
        "media.parse_failed",
        "media.empty_body",
        "media.missing_file",
        "media.single_file",
        "media.size_max",
        "media.type_unsupported",
        "media.type_mismatch",
        "media.pixels_max",
        "media.unreadable",
        "http.timeout",
        "not_found",
        "profile.scope_mismatch",
    ),
    links={"readMedia": "/id", "describeMedia": "/id", "deleteMedia": "/id"},
)


async def upload(call: RequestContext) -> HandlerResponse:
    """POST /v1/media."""
    upload: ReceivedUpload = call.received
    with upload.arriving:
        header, fingerprint = call.request.headers.get("idempotency-key"), idempotency.start_fingerprint("")
        fingerprint.update(upload.fingerprint_source)
        call.key = idempotency.parse_key(call.scope, "POST", call.request.path, header, fingerprint.hexdigest())
        return respond(await library.upload(call.actor, upload.arriving, upload.fields))


# --- Records -------------------------------------------------------------------------------------------------------


PAGE: MediaPage = {"data": [MEDIA], "nextCursor": None}
LIST = Operation(
    "Media",
    "listMedia",
    "List files",
    "Newest first. For the next page send `nextCursor` as `cursor`, until it is null.",
    query=MediaQuery,
    answers={200: SuccessResponse(MediaPage, "One page.", PAGE)},
    errors=("cursor", "not_found", "api_key.profile_scope"),
    links={"readMedia": "/data/0/id"},
)


async def list_media(call: RequestContext) -> HandlerResponse:
    """GET /v1/media."""
    query = call.query(MediaQuery)
    return HandlerResponse(await call.service.read(lambda: library.load_page(call.service, call.scope, query)))


READ = Operation(
    "Media",
    "readMedia",
    "Read a file's record",
    "The content is at its `url`.",
    query=ProfileQuery,
    answers={200: SuccessResponse(MediaBody, "The record.", MEDIA)},
    errors=("media.unknown",),
)


async def read(call: RequestContext) -> HandlerResponse:
    """GET /v1/media/{id}."""
    row = await call.service.read(lambda: library.find(call.profile_scope, None, call.path_value("media_id")))
    return HandlerResponse(library.to_body(call.service, row))


DESCRIBE = Operation(
    "Media",
    "describeMedia",
    "Describe a file",
    "Changes the description that posts take which have none of their own. Rejected while a queued post uses the file; "
    "an approval of a draft with the file ends. A key that is limited to a profile can change only the files of that "
    "profile.",
    query=ProfileQuery,
    body=MediaChange,
    requests={"describe": {"altText": "Loaves on a wooden shelf"}},
    answers={200: SuccessResponse(MediaBody, "The changed record.", MEDIA)},
    errors=("media.unknown", "media.in_use"),
)


async def describe(call: RequestContext) -> HandlerResponse:
    """PATCH /v1/media/{id}."""
    media = call.path_value("media_id")
    return await commit(call, MediaChange, lambda change: bind(call.actor, library.describe, media, change))


DELETED: DeletedBody = {"id": MEDIA_ID, "deleted": True}
DELETE = Operation(
    "Media",
    "deleteMedia",
    "Delete a file",
    "Its address stops working at once. Rejected while a queued post uses the file. A key that is limited to a "
    "profile can delete only the files of that profile.",
    query=ProfileQuery,
    answers={200: SuccessResponse(DeletedBody, "The file was deleted.", DELETED)},
    errors=("media.unknown", "media.in_use"),
)


async def delete(call: RequestContext) -> HandlerResponse:
    """DELETE /v1/media/{id}."""
    return await commit_without_body(call, lambda: bind(call.actor, library.delete, call.path_value("media_id")))


# --- Public addresses ----------------------------------------------------------------------------------------------


async def download(call: RequestContext) -> HandlerResponse:
    """GET /media/{id}/{hmac}.{ext}: the file, for every client that has the address."""
    service, headers = call.service, call.request.headers
    name, file_name = call.path_value("media_id"), call.path_value("name")
    row = await service.read(lambda: library.find_public(service, name, file_name))
    path, tag = files.file_path(service, row["sha256"]), f'"{row["sha256"]}"'
    if not path.exists():
        files.check_folder(service)
        raise ApiError("not_found", "There is nothing at this address.")
    common = PUBLIC_HEADERS | {"ETag": tag, "Content-Disposition": f'attachment; filename="{_file_name(row)}"'}
    if has_matching_tag(headers.get("if-none-match", ""), tag):
        return HandlerResponse(b"", 304, common, row["content_type"])
    has_range = call.request.method == "GET" and headers.get("if-range", tag) == tag  # RFC 9110, 14.2
    range_header = headers.get("range") if has_range else None
    size = row["size_bytes"]
    span = parse_range(range_header, size)
    if span is None:
        return HandlerResponse(FileRangeBody(path, ByteRange(0, size)), 200, common, row["content_type"])
    if not span.length:
        beyond = {"Content-Range": f"bytes */{size}"}
        raise ApiError("validation_failed", "The range starts beyond the end of the file.", status=416, headers=beyond)
    common["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{size}"
    return HandlerResponse(FileRangeBody(path, span), 206, common, row["content_type"])


def _file_name(row: MediaRow) -> str:
    return f"{row['id']}.{library.EXTENSIONS.get(row['content_type'], 'bin')}"
