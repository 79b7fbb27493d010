"""Hosts that take bytes under a signed address are shown no token: what they refuse is never the account's."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.simulator import page
from socialpub.simulator.server import SimulatorThread
from tests.domain.accounts.refresh_kit import Holder, at_the_lab
from tests.kit import Server

CLIP = Path(page.__path__[0]) / "clip.mp4"
# Where the bytes of a video go, and what such a store may say of a token in its 401.
STORES: dict[str, tuple[str, Any]] = {
    "linkedin": ("media.upload", {"status": 401, "code": "REVOKED_ACCESS_TOKEN", "message": "no"}),
    "pinterest": ("media.upload", {"code": 2, "message": "Authentication failed."}),
    "tiktok": ("video.upload", {"error": {"code": "access_token_invalid", "message": "no", "log_id": "1"}}),
}


@pytest.fixture(params=list(STORES))
def holder(
    request: pytest.FixtureRequest,
    make_server: Callable[..., Server],
    lab: SimulatorThread,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Holder]:
    return at_the_lab(make_server, lab, monkeypatch, request.param)


def refuses(holder: Holder, **times: int) -> None:
    operation, body = STORES[holder.platform]
    fault = {"fault": "status:401", "operation": operation, "platform": holder.platform, "body": body, **times}
    holder.server.lab.lab.faults.add([fault])


def clip(holder: Holder) -> dict[str, Any]:
    media = [{"kind": "video", "bytesBase64": base64.b64encode(CLIP.read_bytes()).decode()}]
    targets = [{"accountId": holder.account, "text": "a clip"}]
    answer = holder.api.publish({"targets": targets, "media": media})
    return holder.ended(answer.json()["results"][0]["postId"])


def test_a_401_of_a_store_is_about_its_address_and_another_one_is_asked_for(holder: Holder) -> None:
    refuses(holder, times=1)
    assert clip(holder)["status"] == "published"
    assert (holder.status(), holder.told(), holder.renewals()) == ("active", [], 0)


def test_a_store_that_stays_with_its_401_ends_the_post_and_not_the_account(holder: Holder) -> None:
    refuses(holder)
    row = clip(holder)
    assert row["status"] in ("failed", "rejected")
    assert row["error_code"] != "platform_auth_failed"
    assert (holder.status(), holder.told(), holder.renewals()) == ("active", [], 0)
