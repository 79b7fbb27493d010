"""Pinterest test account, and its API refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import ConnectorAccount, Tokens, Upstream
from socialpub.platforms.pinterest.connector import PLATFORM
from tests.support.platforms.scripted_upstream import SITE, ExpectedCall, ScriptedTransport, make_response

HOST = "https://api.pinterest.com/v5"
STORE = "https://pinterest-media-upload.s3-accelerate.amazonaws.com/"
BOARD = "549755885175"
DEFAULT = {"defaultBoardId": BOARD, "defaultBoardName": "Summer recipes"}


def make_refusal(
    status: int, code: int, message: str = "no", headers: Mapping[str, str] | None = None, **more: str
) -> UpstreamResponse:
    """A refusal in Pinterest's shape."""
    return make_response(status, {"code": code, "message": message, **more}, **dict(headers or {}))


def make_upstream(
    *calls: ExpectedCall,
    store: Iterable[ExpectedCall] = (),
    extra: Mapping[str, Any] = DEFAULT,
    tokens: Tokens | None = None,
    bound: frozenset[str] = frozenset(),
) -> Upstream:
    """A line to Alice's account; `calls` are those to come at Pinterest, `store` those at the store behind it."""
    held = tokens or Tokens("access-token-1", "refresh-token-1")
    return Upstream(
        ScriptedTransport(list(calls)),
        ScriptedTransport(list(store)),
        PLATFORM.site(**SITE),
        ConnectorAccount("77", "Alice", dict(extra)),
        held,
        bound,
    )
