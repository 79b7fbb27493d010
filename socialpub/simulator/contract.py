"""Contract of a fake platform: call, response, operation. Independent of the HTTP server."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Protocol

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@functools.lru_cache(maxsize=8)
def http_date(seconds: int) -> str:
    """Format a time for HTTP headers; cached for one second, since every response needs it."""
    return formatdate(seconds, usegmt=True)


@dataclass(frozen=True)
class FetchedUrl:
    """Result of fetching a media URL: status (0: no response) and bytes."""

    status: int
    content: bytes = b""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300 and bool(self.content)


@dataclass(frozen=True)
class Call:
    """HTTP call. `origin` is the fake platform's own address; header names are in lower case."""

    method: str
    path: str
    origin: str
    query: Mapping[str, list[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    parts: Mapping[str, str] = field(default_factory=dict)  # values of the path's placeholders
    fetched: Mapping[str, FetchedUrl] = field(default_factory=dict)  # by URL: what `Operation.pulls` requested

    def json(self) -> Any:
        """Parse the body as JSON, read-only. Raises ValueError."""
        return self._parsed

    @functools.cached_property
    def _parsed(self) -> Any:
        return json.loads(self.body)

    def record(self) -> dict[str, Any] | None:
        """Parse the body as a JSON object; None if it is not one."""
        try:
            found = self.json()
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


@dataclass(frozen=True)
class FakeResponse:
    """Response. `body`: JSON, text, bytes with `content_type`, or None for an empty body."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json; charset=utf-8"

    def content(self) -> bytes:
        if self.body is None:
            return b""
        if isinstance(self.body, bytes):
            return self.body
        if isinstance(self.body, str) and "json" not in self.content_type:
            return self.body.encode()
        return _ENCODER.encode(self.body).encode()


class RefusedError(Exception):
    """Response to return instead, raised anywhere in an operation; nothing was published."""

    def __init__(self, answer: FakeResponse) -> None:
        super().__init__(f"{answer.status} {answer.body}")
        self.answer = answer


@dataclass(frozen=True)
class Operation:
    """API operation. Faults refer to it by `name`; `path` may hold `<placeholders>`.

    `urls_to_fetch` lists the URLs that the platform fetches before the effect; it is called again with the results.
    """

    name: str
    methods: tuple[str, ...]
    path: str
    handle: Callable[[Call], FakeResponse]
    urls_to_fetch: Callable[[Call], Iterable[str]] | None = None


class FakePlatform(Protocol):
    """Fake platform: one module of the simulator and one line in `registry.py`.

    Operations run one at a time, under the state's lock. They write what they publish to the ledger.
    """

    name: str
    max_body: int  # bytes; larger calls are refused by Content-Length, before they are read
    ids: tuple[str, ...]  # keys of a response that name the created object; the fault `missing_id` removes them

    def operations(self) -> tuple[Operation, ...]: ...

    def add_account(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Create an account; return its credentials as JSON. Raises ValueError."""

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        """Expire access tokens, revoke refresh tokens, of one account or all."""

    def refusal(self, status: int, retry_after: int | None) -> FakeResponse:
        """Build the platform's error for faults, unknown paths and oversized bodies."""

    def reset(self) -> None:
        """Delete everything published and uploaded; keep accounts and tokens."""
