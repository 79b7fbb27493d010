"""What the tests of LinkedIn share: a transport that checks every call whole, a line to an account, and answers."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from socialpub.base.errors import ApiError
from socialpub.base.net import BODY_MAX, CALL_SECONDS, Reply
from socialpub.platforms import linkedin
from socialpub.platforms.base import Account, Draft, Facts, Item, Tokens, Upstream

NOW = 1_795_165_809_123  # 2026-11-20T09:10:09.123Z
REST = "https://api.linkedin.com/rest"
PERSON = "urn:li:person:a1B2-c3_"
PAGE = "urn:li:organization:123"
IMAGE, VIDEO = "urn:li:image:C4E1", "urn:li:video:C5F2"
SHARE = "urn:li:share:7396"
BEARER = {"Authorization": "Bearer access-token-1"}
VERSIONED = {**BEARER, "LinkedIn-Version": "202609", "X-Restli-Protocol-Version": "2.0.0"}
FINDER = {**VERSIONED, "X-RestLi-Method": "FINDER"}


def answer(status: int, body: Any = None, **headers: str) -> Reply:
    """A reply with a JSON body, or with the given bytes or text as they are."""
    raw = body.encode() if isinstance(body, str) else body
    content = raw if isinstance(raw, bytes) else b"" if body is None else json_module.dumps(body).encode()
    return Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, content)


def said(status: int, code: str, message: str = "said so", **more: Any) -> Reply:
    """A refusal in LinkedIn's shape; `headers` among `more` go into the reply."""
    headers = more.pop("headers", {})
    return answer(status, {"status": status, "code": code, "message": message} | more, **headers)


@dataclass
class Call:
    """One call that must come next, whole, and what it gets."""

    method: str
    url: str
    reply: Reply | ApiError
    headers: Mapping[str, str] = field(default_factory=lambda: VERSIONED)
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
        assert self.calls, f"an unexpected call: {method} {url} {params} {json}"
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
    account: str = PERSON,
    tokens: Tokens | None = None,
    bound: frozenset[str] = frozenset(),
) -> Upstream:
    """A line to an account; `calls` are those to come, whether to the API or to the store of bytes."""
    script = Script(list(calls))
    site = linkedin.PLATFORM.site(client_id="app-1", client_secret="app-secret-1")
    held = tokens or Tokens("access-token-1", "refresh-token-1")
    return Upstream(script, script, site, Account(account, "Ann"), held, bound)


def finished(up: Upstream) -> None:
    """Everything that had to be called was called."""
    assert isinstance(up.http, Script)
    assert up.http.calls == [], "these calls were never made"


def draft(text: str = "hello", *items: Item, **options: Any) -> Draft:
    return Draft(text, items=items, options=options, now_ms=NOW)


def image(path: Path, alt: str | None = None, content: bytes = b"a jpeg") -> Item:
    path.write_bytes(content)
    return Item("image", alt, facts=Facts("image/jpeg", len(content), width=40, height=40), path=path)


def video(path: Path, content: bytes, alt: str | None = None) -> Item:
    path.write_bytes(content)
    return Item("video", alt, facts=Facts("video/mp4", len(content), duration_ms=5000), path=path)


def post(text: str = "hello", author: str = PERSON, visibility: str = "PUBLIC", **content: Any) -> dict[str, Any]:
    """The whole body of a post."""
    return {
        "author": author,
        "commentary": text,
        "visibility": visibility,
        "distribution": {"feedDistribution": "MAIN_FEED", "targetEntities": [], "thirdPartyDistributionChannels": []},
        **({"content": content} if content else {}),
        "lifecycleState": "PUBLISHED",
        "isReshareDisabledByAuthor": False,
    }
