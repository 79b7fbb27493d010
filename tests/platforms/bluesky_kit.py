"""What the Bluesky tests share: a scripted transport that checks every call whole, and one account with a session."""

from __future__ import annotations

import base64
import json as json_module
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO, Self

from socialpub.base.errors import ApiError
from socialpub.base.net import BODY_MAX, CALL_SECONDS, Reply
from socialpub.platforms import bluesky
from socialpub.platforms.base import Account, Tokens, Upstream

DID = "did:plc:lm3ip5ipkqdb7tbmw56pvthx"
BOB = "did:plc:d4x7lkvljxs722uhzpvpf4ed"
PDS = "https://pds.example.com"
SERVICE = "https://bsky.social"
PUBLIC = "https://public.api.bsky.app"
PLC = "https://plc.directory"
VIDEO = "https://video.bsky.app"
CID = "bafyreif4jtespwoq3nwgutnzzs4l47sa6b6hgqriu3o2qys4oisro3uhdu"
NOW = 1_795_165_809_123
NONCE = 0x0123_4567_89AB_CDEF
AUTH = {"Authorization": "Bearer access-1"}


def jwt(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json_module.dumps(claims).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJIUzI1NiJ9.{body}.sig"


def answer(status: int, body: Any = None, **headers: str) -> Reply:
    """A reply with a JSON body, or with the given bytes or text as they are."""
    raw = (
        body
        if isinstance(body, bytes)
        else body.encode()
        if isinstance(body, str)
        else json_module.dumps(body).encode()
    )
    return Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, raw)


def refusal(status: int, name: str, message: str = "said so", **headers: str) -> Reply:
    return answer(status, {"error": name, "message": message}, **headers)


@dataclass
class Call:
    """One call that must come next, whole, and what it gets: a reply, or an exception."""

    method: str
    url: str
    reply: Reply | ApiError
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] | None = None
    json: Any = None
    content: bytes | None = None
    deadline: float = CALL_SECONDS


@dataclass
class Download:
    """One download that must come next; `content` is written even when an exception follows."""

    url: str
    reply: Reply | ApiError
    content: bytes = b""
    max_bytes: int = 0
    deadline: float = 0.0


@dataclass
class Script:
    """A transport that knows the calls to come, in order, and refuses everything else."""

    calls: list[Call | Download] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done()

    def done(self) -> None:
        assert self.calls == [], "these calls were never made"

    def _next(self, what: str) -> Call | Download:
        assert self.calls, f"an unexpected call: {what}"
        return self.calls.pop(0)

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
        deadline: float = CALL_SECONDS,
        max_bytes: int = BODY_MAX,
    ) -> Reply:
        expected = self._next(f"{method} {url}")
        body = content if content is None or isinstance(content, bytes) else b"".join(content)
        sent = Call(method, url, Reply(0, {}, b""), dict(headers or {}), params, json, body, deadline)
        assert isinstance(expected, Call)
        assert data is None
        assert max_bytes == BODY_MAX
        assert {**vars(sent), "reply": None} == {**vars(expected), "reply": None, "headers": dict(expected.headers)}
        if isinstance(expected.reply, ApiError):
            raise expected.reply
        return expected.reply

    def download(self, url: str, into: BinaryIO, *, max_bytes: int, deadline: float, redirects: int = 3) -> Reply:
        expected = self._next(f"download {url}")
        assert isinstance(expected, Download)
        assert (url, max_bytes, deadline, redirects) == (expected.url, expected.max_bytes, expected.deadline, 3)
        into.write(expected.content)
        if isinstance(expected.reply, ApiError):
            raise expected.reply
        return expected.reply


def upstream(
    http: Iterable[Call | Download] = (),
    guarded: Iterable[Call | Download] = (),
    *,
    tokens: Tokens | None = None,
    **settings: Any,
) -> Upstream:
    """A line to Alice's account on a server of her own; `http` and `guarded` are the calls to come."""
    return Upstream(
        Script(list(http)),
        Script(list(guarded)),
        bluesky.PLATFORM.site(**settings),
        Account(DID, "Alice", {"handle": "alice.example.com", "pds": PDS}),
        tokens or Tokens("access-1", "refresh-1"),
    )


def finished(up: Upstream) -> None:
    """Everything that had to be called was called."""
    for script in (up.http, up.guarded):
        assert isinstance(script, Script)
        script.done()


def look(nsid: str, reply: Reply | ApiError, host: str = PDS, **sent: Any) -> Call:
    """A GET that is not waited for long."""
    return xrpc("GET", nsid, reply, host, deadline=10.0, **sent)


def xrpc(method: str, nsid: str, reply: Reply | ApiError, host: str = PDS, **sent: Any) -> Call:
    return Call(method, f"{host}/xrpc/{nsid}", reply, **sent)
