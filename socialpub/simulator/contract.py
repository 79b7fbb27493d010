"""A call and its answer as fake platforms see them, and what a fake platform is. No HTTP server is known here."""

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
    """A time as headers tell it; made once in a second, for every answer has one."""
    return formatdate(seconds, usegmt=True)


@dataclass(frozen=True)
class FetchedUrl:
    """What the address of a medium gave: the answer's status (0: none came) and its bytes."""

    status: int
    content: bytes = b""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300 and bool(self.content)


@dataclass(frozen=True)
class Call:
    """One HTTP call. `origin` is the fake platform's own address; header names are in lower case."""

    method: str
    path: str
    origin: str
    query: Mapping[str, list[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    parts: Mapping[str, str] = field(default_factory=dict)  # what the path's placeholders matched
    pulled: Mapping[str, FetchedUrl] = field(default_factory=dict)  # by URL: what `Operation.pulls` asked for

    def json(self) -> Any:
        """The body as JSON, for reading only; ValueError when it is none."""
        return self._parsed

    @functools.cached_property
    def _parsed(self) -> Any:
        return json.loads(self.body)

    def record(self) -> dict[str, Any] | None:
        """The body as a JSON object; None when it is none."""
        try:
            found = self.json()
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


@dataclass(frozen=True)
class FakeResponse:
    """What goes back: `body` is JSON, or text, or bytes with their own `content_type`; None is an empty body."""

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
    """Raised anywhere in an operation: this answer goes back, and nothing has become public."""

    def __init__(self, answer: FakeResponse) -> None:
        super().__init__(f"{answer.status} {answer.body}")
        self.answer = answer


@dataclass(frozen=True)
class Operation:
    """One thing that the platform's API can do. Faults name it by `name`; `path` may hold `<placeholders>`.

    `pulls`: the URLs that a call makes the platform fetch before it does anything; asked again with what they gave.
    """

    name: str
    methods: tuple[str, ...]
    path: str
    handle: Callable[[Call], FakeResponse]
    pulls: Callable[[Call], Iterable[str]] | None = None


class FakePlatform(Protocol):
    """A fake platform: one module of the simulator, one line in `catalogue.py`.

    Its operations run one at a time, under the lab's lock. What becomes public it writes into the lab's ledger itself.
    """

    name: str
    max_body: int  # larger calls are refused by their Content-Length, before they are read
    ids: tuple[str, ...]  # the keys of an answer that name what was made; the fault `missing_id` drops them

    def operations(self) -> tuple[Operation, ...]: ...

    def add_account(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """A new account as wanted, with its credentials, as JSON; ValueError when it cannot be made."""

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        """Access tokens are expired from now on, refresh tokens revoked (of one account, or of all)."""

    def refusal(self, status: int, retry_after: int | None) -> FakeResponse:
        """The platform's own form of an error that has no better cause (faults, unknown paths, too large bodies)."""

    def reset(self) -> None:
        """Forget everything that was published and uploaded; accounts and their tokens stay."""
