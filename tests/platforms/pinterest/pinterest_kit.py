"""Alice's line to Pinterest, and its refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import ConnectorAccount, Tokens, Upstream
from socialpub.platforms.pinterest.connector import PLATFORM
from tests.platforms.upstream_kit import SITE, Call, Script, answer

HOST = "https://api.pinterest.com/v5"
STORE = "https://pinterest-media-upload.s3-accelerate.amazonaws.com/"
BOARD = "549755885175"
DEFAULT = {"defaultBoardId": BOARD, "defaultBoardName": "Summer recipes"}


def said(
    status: int, code: int, message: str = "no", headers: Mapping[str, str] | None = None, **more: str
) -> UpstreamResponse:
    """A refusal in Pinterest's shape."""
    return answer(status, {"code": code, "message": message, **more}, **dict(headers or {}))


def upstream(
    *calls: Call,
    store: Iterable[Call] = (),
    extra: Mapping[str, Any] = DEFAULT,
    tokens: Tokens | None = None,
    bound: frozenset[str] = frozenset(),
) -> Upstream:
    """A line to Alice's account; `calls` are those to come at Pinterest, `store` those at the store behind it."""
    held = tokens or Tokens("access-token-1", "refresh-token-1")
    return Upstream(
        Script(list(calls)),
        Script(list(store)),
        PLATFORM.site(**SITE),
        ConnectorAccount("77", "Alice", dict(extra)),
        held,
        bound,
    )
