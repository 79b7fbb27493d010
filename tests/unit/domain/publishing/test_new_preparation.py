"""Attempts after a failure of what was prepared: a later one prepares the content again."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.media_files import mp4
from tests.support.token_accounts import TokenAccount

TEMPORARY = "2207003"  # "It takes too long to download the media."
NO_BLOB = {"error": "BlobNotFound", "message": "Could not find blob: b"}


def publish(holder: TokenAccount, **content: Any) -> dict[str, Any]:
    """The row of a scheduled post whose first attempt fails."""
    post = holder.schedule(60, **content)
    holder.server.skip(61)
    with holder.server.hurried():
        holder.server.wait(post, "validated")
    holder.server.skip(31)
    return holder.ended(post)


def test_failed_containers_are_made_anew_by_the_next_attempt(connect_account: Callable[..., TokenAccount]) -> None:
    holder = connect_account("instagram")
    failing = holder.server.lab.lab.fake("instagram").made.failing
    failing += [TEMPORARY] * 2  # an attempt makes its container anew once
    row = publish(holder)
    assert (row["status"], row["attempts"], failing) == ("published", 2, [])
    assert len(holder.server.lab.lab.ledger.posts("instagram")) == 1


@pytest.mark.parametrize(
    ("platform", "upload", "fault"),
    [
        (
            "bluesky",
            "app.bsky.video.uploadVideo",
            {"fault": "status:400", "operation": "com.atproto.repo.putRecord", "times": 1, "body": NO_BLOB},
        ),
        (
            "bluesky",
            "app.bsky.video.uploadVideo",
            {"fault": "status:404", "operation": "app.bsky.video.getJobStatus", "times": 5, "body": {"error": "NoJob"}},
        ),
        (
            "pinterest",
            "media.register",
            {"fault": "status:404", "operation": "media.get", "times": 4, "body": {"code": 404, "message": "Gone."}},
        ),
    ],
)
def test_a_video_that_the_platform_has_lost_is_uploaded_again(
    connect_account: Callable[..., TokenAccount], platform: str, upload: str, fault: dict[str, Any]
) -> None:
    holder = connect_account(platform)
    lab = holder.server.lab.lab
    lab.faults.add([fault])
    video = {"kind": "video", "bytesBase64": base64.b64encode(mp4(seconds=5.0)).decode()}
    row = publish(holder, media=[video])
    assert (row["status"], row["attempts"]) == ("published", 2)
    assert [call.operation for call in lab.calls].count(upload) == 2
