"""A transport that knows the calls to TikTok to come, whole and in order, and refuses everything else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO, Self

from socialpub.base.errors import ApiError
from socialpub.base.net import BODY_MAX, CALL_SECONDS, Reply

API = "https://open.tiktokapis.com/v2"
FORM = {"client_key": "app-1", "client_secret": "app-secret-1"}
_AUTH = {"Authorization": "Bearer access-token-1"}


@dataclass
class Call:
    """One call that must come next, and what it gets. `body`: how many bytes are streamed."""

    method: str
    url: str
    reply: Reply | ApiError
    headers: Mapping[str, str] = field(default_factory=lambda: _AUTH)
    params: Mapping[str, str] | None = None
    json: Any = None
    data: Mapping[str, str] | None = None
    body: int | None = None
    deadline: float = CALL_SECONDS


@dataclass
class Script:
    """`starts`: the first byte of every body that was streamed."""

    calls: list[Call] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        deadline: float = CALL_SECONDS,
        max_bytes: int = BODY_MAX,
    ) -> Reply:
        assert self.calls, f"an unexpected call: {method} {url} {params} {json} {data}"
        assert max_bytes == BODY_MAX
        expected = self.calls.pop(0)
        size = None if content is None else self._drained(content)
        sent = Call(method, url, expected.reply, dict(headers or {}), params, json, data, size, deadline)
        assert vars(sent) == {**vars(expected), "headers": dict(expected.headers)}
        if isinstance(expected.reply, ApiError):
            raise expected.reply
        return expected.reply

    def _drained(self, content: bytes | Iterable[bytes]) -> int:
        """How many bytes there are; they never are in memory all at once."""
        assert not isinstance(content, bytes), "a file's bytes are streamed"
        size = 0
        for piece in content:
            if size == 0:
                self.starts.append(piece[0])
            size += len(piece)
        return size

    def download(self, url: str, into: BinaryIO, *, max_bytes: int, deadline: float, redirects: int = 3) -> Reply:
        raise AssertionError(f"an unexpected download: {url}")
