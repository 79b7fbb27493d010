"""A transport that checks every call of the Pinterest connector whole, and lines over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Self

from socialpub.base.errors import ApiError
from socialpub.base.net import BODY_MAX, CALL_SECONDS, Reply
from socialpub.platforms.base import Account, Tokens, Upstream
from socialpub.platforms.pinterest import PLATFORM

from .meta_kit import AUTH, answer

HOST = "https://api.pinterest.com/v5"
STORE = "https://pinterest-media-upload.s3-accelerate.amazonaws.com/"
BOARD = "549755885175"
DEFAULT = {"defaultBoardId": BOARD, "defaultBoardName": "Summer recipes"}


def said(status: int, code: int, message: str = "no", headers: Mapping[str, str] | None = None, **more: str) -> Reply:
    """A refusal in Pinterest's shape."""
    return answer(status, {"code": code, "message": message, **more}, **dict(headers or {}))


@dataclass
class Call:
    """One call that must come next, whole, and what it gets."""

    method: str
    url: str
    reply: Reply | ApiError
    headers: Mapping[str, str] = field(default_factory=lambda: AUTH)
    params: Mapping[str, str] | None = None
    json: Any = None
    data: Mapping[str, str] | None = None
    content: bytes | None = None
    deadline: float = CALL_SECONDS


@dataclass
class Script:
    """A transport that knows the calls to come, in order, and refuses everything else."""

    calls: list[Call] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

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
        assert self.calls, f"an unexpected call: {method} {url} {params} {data}"
        expected = self.calls.pop(0)
        body = content if content is None or isinstance(content, bytes) else b"".join(content)
        sent = Call(method, url, expected.reply, dict(headers or {}), params, json, data, body, deadline)
        assert max_bytes == BODY_MAX
        assert vars(sent) == {**vars(expected), "headers": dict(expected.headers)}
        if isinstance(expected.reply, ApiError):
            raise expected.reply
        return expected.reply

    def download(self, url: str, into: BinaryIO, *, max_bytes: int, deadline: float, redirects: int = 3) -> Reply:
        raise AssertionError(f"an unexpected download: {url}")


def upstream(
    *calls: Call,
    store: Iterable[Call] = (),
    extra: Mapping[str, Any] = DEFAULT,
    tokens: Tokens | None = None,
    bound: frozenset[str] = frozenset(),
) -> Upstream:
    """A line to Alice's account; `calls` are those to come at Pinterest, `store` those at the store behind it."""
    site = PLATFORM.site(client_id="app-1", client_secret="app-secret-1")
    held = tokens or Tokens("access-token-1", "refresh-token-1")
    return Upstream(Script(list(calls)), Script(list(store)), site, Account("77", "Alice", dict(extra)), held, bound)


def finished(up: Upstream) -> None:
    """Everything that had to be called was called."""
    for script in (up.http, up.guarded):
        assert isinstance(script, Script)
        assert script.calls == [], "these calls were never made"
