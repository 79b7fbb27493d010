"""Attempts after a failure of what was prepared: a later one prepares the content again."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.media_files import mp4
from tests.support.platforms.meta_calls import jpeg
from tests.support.token_accounts import TokenAccount

TEMPORARY = "2207003"  # "It takes too long to download the media."


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


LOST = [  # the call that uploads, the one that fails, how often, and what is said
    ("bluesky", "app.bsky.video.uploadVideo", "com.atproto.repo.putRecord", 1, 400, {"error": "BlobNotFound"}),
    ("bluesky", "app.bsky.video.uploadVideo", "app.bsky.video.getJobStatus", 5, 404, {"error": "NoJob"}),
    ("linkedin", "videos.act", "posts.create", 1, 400, {"status": 400, "code": "MEDIA_ASSET_WAITING_UPLOAD"}),
    ("linkedin", "videos.act", "videos.get", 4, 404, {"status": 404, "message": "Could not find video"}),
    ("pinterest", "media.register", "media.get", 4, 404, {"code": 404, "message": "Gone."}),
    ("twitter", "media.initialize", "tweets.create", 1, 400, {"detail": "Your media IDs are invalid."}),
]


@pytest.mark.matrix
@pytest.mark.parametrize(("platform", "upload", "operation", "times", "status", "body"), LOST)
def test_a_video_that_the_platform_has_lost_is_uploaded_again(
    connect_account: Callable[..., TokenAccount],
    platform: str,
    upload: str,
    operation: str,
    times: int,
    status: int,
    body: dict[str, Any],
) -> None:
    holder = connect_account(platform)
    lab = holder.server.lab.lab
    lab.faults.add([{"fault": f"status:{status}", "operation": operation, "times": times, "body": body}])
    video = {"kind": "video", "bytesBase64": base64.b64encode(mp4(seconds=5.0)).decode()}
    row = publish(holder, media=[video])
    assert (row["status"], row["attempts"]) == ("published", 2)
    calls = [call.operation for call in lab.calls if call.operation == upload]
    assert len(calls) == (4 if platform == "linkedin" else 2)  # LinkedIn's begin and end of an upload have one address


BIG = {"kind": "video", "bytesBase64": base64.b64encode(mp4(seconds=5.0, frame_bytes=16_000)).decode()}
IMAGES = [{"kind": "image", "bytesBase64": base64.b64encode(jpeg(20 + n, 20)).decode()} for n in range(4)]
BEGUN = [  # the content, the calls that upload it, which one is refused, and how many there are
    ("linkedin", IMAGES, "images.initialize", 3, 4),
    ("linkedin", [BIG], "videos.act", 2, 2),  # the one that assembles the video
    ("twitter", IMAGES, "media.upload", 3, 4),
    ("twitter", [BIG], "media.append", 3, 3),
]


@pytest.mark.parametrize("status", [401, 429])
@pytest.mark.parametrize(("platform", "media", "operation", "nth", "calls"), BEGUN)
def test_what_was_uploaded_before_a_refusal_is_kept(
    connect_account: Callable[..., TokenAccount],
    platform: str,
    media: list[dict[str, Any]],
    operation: str,
    nth: int,
    calls: int,
    status: int,
) -> None:
    holder = connect_account(platform, **({"vetted": True} if platform == "linkedin" else {}))
    lab = holder.server.lab.lab
    body = {"status": status, "message": "No."}
    lab.faults.add([{"fault": f"status:{status}", "operation": operation, "nth": nth, "times": 2, "body": body}])
    post = holder.schedule(60, media=media)
    holder.server.skip(61)
    if status == 429:
        with holder.server.hurried():
            holder.server.wait(post, "validated")
        holder.server.skip(31)
    row = holder.ended(post)
    assert (row["status"], row["attempts"]) == ("published", 2 if status == 429 else 1)
    assert sum(call.operation == operation for call in lab.calls) == calls + 2
