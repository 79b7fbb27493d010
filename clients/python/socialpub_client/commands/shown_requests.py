"""Requests as curl lines: what `--show-request` prints in place of sending it."""

from __future__ import annotations

import json
import shlex
from typing import Any
from urllib.parse import urlsplit

from socialpub_client.messages import FileUpload, Request, Response

UPLOADED = "med_" + "0" * 22


class RequestRecorder:
    """Transport that sends reads, and records each write as a curl line instead."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.lines: list[str] = []

    def send(self, request: Request) -> Response:
        """Return the server's response to a read, and a made-up one to a write."""
        if request.method == "GET":
            response: Response = self._transport.send(request)
            return response
        self.lines.append(format_curl(request))
        path = urlsplit(request.url).path
        made_up = _UPLOAD if path.endswith("/media") else _BATCH
        return Response(201, {}, json.dumps(made_up).encode())

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


_TIME = "1970-01-01T00:00:00.000Z"
_UPLOAD: dict[str, Any] = {
    "id": UPLOADED,
    "url": "",
    "contentType": "image/jpeg",
    "sizeBytes": 0,
    "sha256": "",
    "kind": "image",
    "width": None,
    "height": None,
    "durationMs": None,
    "profileId": None,
    "altText": None,
    "createdAt": _TIME,
}
_BATCH: dict[str, Any] = {"id": "", "status": "queued", "createdAt": _TIME, "results": [], "valid": True}


def format_curl(request: Request) -> str:
    """Format a request as a curl line; the key is a variable of the shell."""
    words = ["curl", "-X", request.method, shlex.quote(request.url)]
    is_upload = isinstance(request.body, FileUpload)
    for name, value in request.headers.items():
        if name == "Authorization":
            words += ["-H", '"Authorization: Bearer $SOCIALPUB_KEY"']
        elif name not in ("User-Agent", "Accept") and not (is_upload and name == "Content-Type"):
            words += ["-H", shlex.quote(f"{name}: {value}")]
    if isinstance(request.body, FileUpload):
        words += ["-F", shlex.quote(f"file=@{request.body.name}")]
    elif request.body:
        words += ["--data-binary", shlex.quote(request.body.decode())]
    return " ".join(words)
