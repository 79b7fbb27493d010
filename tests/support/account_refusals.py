"""Upstream refusals that concern an account (token, permission), as simulator faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.support.token_accounts import TokenAccount


@dataclass(frozen=True)
class RefusedCall:
    """An answer to the public call (or the one before it): its status, its body."""

    operation: str
    status: int
    body: Any


def graph_refusals(operation: str, code: int, message: str) -> RefusedCall:
    said = {"message": message, "type": "OAuthException", "code": code, "fbtrace_id": "A"}
    return RefusedCall(operation, 403, {"error": said})


TOKENS = {
    "bluesky": RefusedCall("com.atproto.repo.putRecord", 401, {"error": "AuthMissing", "message": "no"}),
    "facebook": graph_refusals("feed.post", 190, "Error validating access token"),
    "instagram": graph_refusals("containers.publish", 190, "Error validating access token"),
    "threads": graph_refusals("containers.publish", 190, "Error validating access token"),
    "linkedin": RefusedCall("posts.create", 401, {"status": 401, "code": "REVOKED_ACCESS_TOKEN", "message": "revoked"}),
    "pinterest": RefusedCall("pins.create", 401, {"code": 2, "message": "Authentication failed."}),
    "tiktok": RefusedCall(
        "content.init", 401, {"error": {"code": "access_token_invalid", "message": "no", "log_id": "1"}}
    ),
    "twitter": RefusedCall("tweets.create", 401, {"title": "Unauthorized", "status": 401, "detail": "Unauthorized"}),
}


def set_responses(holder: TokenAccount, refused: RefusedCall) -> None:
    fault = {"fault": f"status:{refused.status}", "operation": refused.operation, "body": refused.body}
    holder.server.lab.lab.faults.add([fault | {"platform": holder.platform}])
