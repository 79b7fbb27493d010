"""Upload hosts with signed URLs: their 401 never revokes the account."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from socialpub.simulator import page
from tests.support.token_accounts import TokenAccount

CLIP = Path(page.__path__[0]) / "clip.mp4"
# Where the bytes of a video go, and what such a store may say of a token in its 401.
STORES: dict[str, tuple[str, Any]] = {
    "linkedin": ("media.upload", {"status": 401, "code": "REVOKED_ACCESS_TOKEN", "message": "no"}),
    "pinterest": ("media.upload", {"code": 2, "message": "Authentication failed."}),
    "tiktok": ("video.upload", {"error": {"code": "access_token_invalid", "message": "no", "log_id": "1"}}),
}


@pytest.fixture(params=list(STORES))
def holder(request: pytest.FixtureRequest, connect_account: Callable[..., TokenAccount]) -> TokenAccount:
    return connect_account(request.param)


def refuses(holder: TokenAccount, **times: int) -> None:
    operation, body = STORES[holder.platform]
    fault = {"fault": "status:401", "operation": operation, "platform": holder.platform, "body": body, **times}
    holder.server.lab.lab.faults.add([fault])


def clip(holder: TokenAccount) -> dict[str, Any]:
    media = [{"kind": "video", "bytesBase64": base64.b64encode(CLIP.read_bytes()).decode()}]
    targets = [{"accountId": holder.account, "text": "a clip"}]
    answer = holder.api.publish({"targets": targets, "media": media})
    return holder.ended(answer.json()["results"][0]["postId"])


@pytest.mark.matrix
def test_upload_host_401_is_about_its_url_and_another_is_requested(holder: TokenAccount) -> None:
    refuses(holder, times=1)
    assert clip(holder)["status"] == "published"
    assert (holder.status(), holder.told(), holder.renewals()) == ("active", [], 0)


@pytest.mark.matrix
def test_persistent_upload_host_401_ends_the_post_not_the_account(holder: TokenAccount) -> None:
    refuses(holder)
    row = clip(holder)
    assert row["status"] in ("failed", "rejected")
    assert row["error_code"] != "platform_auth_failed"
    assert (holder.status(), holder.told(), holder.renewals()) == ("active", [], 0)
