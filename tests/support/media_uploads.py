"""Media uploads over HTTP, and the files in the server's media storage."""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

import httpx
import pytest

from socialpub.domain.media import probe
from tests.support.app_server import (
    ApiClient,
    AppServer,
    Person,
    sleep_briefly,
)
from tests.support.media_files import picture

JPEG = picture()
BUSY = ("too slow", "killed", "not started")
"""What happens to the process that reads a file while the machine has no time or memory for it."""


@contextlib.contextmanager
def busy_machine(how: str) -> Iterator[None]:
    """For files that no test has read before: of those the tests know what the process says."""

    def run(command: list[str], file: IO[bytes]) -> tuple[bytes, int]:
        if how == "too slow":
            raise subprocess.TimeoutExpired(command, probe.WALL_SECONDS)
        if how == "not started":
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return b"", -9

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(probe, "_run_process", run)
        yield


def upload_media(
    api: ApiClient, data: bytes = JPEG, kind: str = "", key: str | None = None, **fields: str
) -> httpx.Response:
    part = ("name.bin", data, kind or "application/octet-stream")
    headers = {"Idempotency-Key": key} if key else {}
    return api.post("/v1/media", files={"file": part}, data=fields, headers=headers)


def stored_media(api: ApiClient, data: bytes = JPEG, **fields: str) -> dict[str, Any]:
    response = upload_media(api, data, **fields)
    assert response.status_code == 201, response.text
    return dict(response.json())


def stored_files(server: AppServer) -> list[str]:
    """The names of all files in the media directory."""
    return sorted(path.name for path in (server.home / "media").rglob("*") if path.is_file())


def wait_until(check: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        sleep_briefly()


def inline_post(person: Person, *contents: bytes, **more: Any) -> dict[str, Any]:
    items = [{"kind": "image", "bytesBase64": base64.b64encode(content).decode()} for content in contents]
    return {"targets": [{"accountId": person.bluesky}], "text": "Look.", "media": items} | more
