"""Scripted HTTP transport: expects exact calls in order and refuses all others."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Self

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import CALL_SECONDS, Request, UpstreamResponse
from socialpub.platforms.contract import Upstream

NOW = 1_795_165_809_123  # 2026-11-20T09:10:09.123Z
NONCE = 0x0123_4567_89AB_CDEF
BOUNDARY = f"socialpub-{NONCE:016x}"
AUTH = {"Authorization": "Bearer access-token-1"}
SITE = {"client_id": "app-1", "client_secret": "app-secret-1"}
LOST = ApiError("platform_unavailable", outcome=Outcome.AMBIGUOUS)
UNREACHED = ApiError("platform_unavailable", outcome=Outcome.NOT_SENT)


def make_response(status: int, body: Any = None, **headers: str) -> UpstreamResponse:
    """A reply with a JSON body, or with the given bytes or text as they are."""
    raw = body.encode() if isinstance(body, str) else body
    content = raw if isinstance(raw, bytes) else json_module.dumps(body).encode()
    return UpstreamResponse(status, {name.replace("_", "-"): value for name, value in headers.items()}, content)


@dataclass
class ExpectedCall:
    """One call that must come next, whole, and what it gets: a reply, or an exception."""

    method: str
    url: str
    reply: UpstreamResponse | ApiError
    headers: Mapping[str, str] = field(default_factory=lambda: AUTH)
    params: Mapping[str, str] | None = None
    json: Any = None
    data: Mapping[str, str] | None = None
    content: Any = None  # what `ScriptedTransport.read` makes of what is sent
    timeout: float = CALL_SECONDS


@dataclass
class ExpectedDownload:
    """One download that must come next; `content` is written even when an exception follows."""

    url: str
    reply: UpstreamResponse | ApiError
    content: bytes = b""
    max_bytes: int = 0
    timeout: float = 0.0
    whole: bool = True
    at: str = ""  # where redirects led


class FakeTransport:
    """What a fake transport has beside its `request`: it opens, closes, and downloads nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def download(
        self, url: str, into: BinaryIO, *, max_bytes: int, timeout: float, redirects: int = 3, whole: bool = True
    ) -> UpstreamResponse:
        raise AssertionError(f"an unexpected download: {url}")


@dataclass
class ScriptedTransport(FakeTransport):
    """The transport."""

    calls: list[ExpectedCall | ExpectedDownload] = field(default_factory=list)

    def __exit__(self, *_: object) -> None:
        self.done()

    def done(self) -> None:
        assert self.calls == [], "these calls were never made"

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        data: Mapping[str, str] | None = None,
        content: bytes | Iterable[bytes] | None = None,
        timeout: float = CALL_SECONDS,
    ) -> UpstreamResponse:
        expected = self._next(f"{method} {url} {params} {json} {data}")
        assert isinstance(expected, ExpectedCall)
        body = None if content is None else self.read(content)
        sent = ExpectedCall(method, url, expected.reply, dict(headers or {}), params, json, data, body, timeout)
        assert vars(sent) == {**vars(expected), "headers": dict(expected.headers)}
        return _return_or_raise(expected.reply)

    def download(
        self, url: str, into: BinaryIO, *, max_bytes: int, timeout: float, redirects: int = 3, whole: bool = True
    ) -> UpstreamResponse:
        expected = self._next(f"download {url}")
        assert isinstance(expected, ExpectedDownload)
        assert (url, max_bytes, timeout, redirects) == (expected.url, expected.max_bytes, expected.timeout, 3)
        assert whole == expected.whole
        into.write(expected.content)
        reply = _return_or_raise(expected.reply)
        reply.request = Request("GET", expected.at or url)
        return reply

    def read(self, content: bytes | Iterable[bytes]) -> Any:
        """What is compared of a body."""
        return content if isinstance(content, bytes) else b"".join(content)

    def _next(self, what: str) -> ExpectedCall | ExpectedDownload:
        assert self.calls, f"an unexpected call: {what}"
        return self.calls.pop(0)


def _return_or_raise(reply: UpstreamResponse | ApiError) -> UpstreamResponse:
    if isinstance(reply, ApiError):
        raise reply
    return reply


def check_finished(up: Upstream) -> None:
    """Everything that had to be called was called."""
    for script in (up.http, up.guarded):
        assert isinstance(script, ScriptedTransport)
        script.done()
