"""Bluesky posts through the API: byte order marks, replies and animations."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.media_files import animation
from tests.support.request_cast import RequestCast, inline_item, make_picture

PUT, GET = "com.atproto.repo.putRecord", "com.atproto.repo.getRecord"
BOM = "\ufeff"


def result(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["results"][0])


def fault(world: RequestCast, kind: str, operation: str, **more: Any) -> None:
    world.server.lab.lab.faults.add([{"fault": kind, "operation": operation, **more}])


def records(world: RequestCast) -> list[dict[str, Any]]:
    return [post.request["record"] for post in world.server.lab.lab.ledger.posts()]


def test_windows_text_is_published_once_though_its_response_is_lost(world: RequestCast) -> None:
    fault(world, "reset_after", PUT, times=1)
    item = inline_item(make_picture(), altText=f"{BOM}a cat")
    answer = world.post(text=f"{BOM}#fresh bread", media=[item], firstComment={"text": f"{BOM}#warm"})
    assert result(answer)["status"] == "published"
    post, comment = records(world)
    assert (post["text"], comment["text"]) == ("#fresh bread", "#warm")
    assert post["embed"]["images"][0]["alt"] == "a cat"
    assert [record["facets"][0]["index"] for record in (post, comment)] == [
        {"byteStart": 0, "byteEnd": 6},
        {"byteStart": 0, "byteEnd": 5},
    ]


def test_nothing_but_a_byte_order_mark_is_no_text(world: RequestCast) -> None:
    answer = world.post(text=BOM)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "preflight_failed")
    assert records(world) == []


@pytest.mark.parametrize("kind", ["status:502", "reset_before", "html"])
def test_a_reply_to_a_post_that_cannot_be_read_goes_into_no_thread(world: RequestCast, kind: str) -> None:
    parent = result(world.post(text="root", firstComment={"text": "parent"}))
    options = {
        "platform": "bluesky",
        "replyToUri": parent["firstCommentUri"],
        "replyToCid": parent["firstCommentCid"],
    }
    fault(world, kind, GET)
    lost = result(world.post(text="leaf", targets=[world.target(options=options)]))
    assert (lost["status"], lost["error"]["code"]) == ("failed", "platform_unavailable")
    assert len(records(world)) == 2
    world.server.lab.lab.faults.clear()
    fault(world, kind, GET, times=1)
    assert result(world.post(text="leaf", targets=[world.target(options=options)]))["status"] == "published"
    assert records(world)[2]["reply"]["root"] == {"uri": parent["uri"], "cid": parent["cid"]}


def test_a_reply_to_a_post_that_is_gone_is_rejected(world: RequestCast) -> None:
    parent = result(world.post(text="root"))
    options = {
        "platform": "bluesky",
        "replyToUri": parent["uri"][:-1] + ("3" if parent["uri"][-1] == "2" else "2"),
        "replyToCid": parent["cid"],
    }
    gone = result(world.post(text="leaf", targets=[world.target(options=options)]))
    assert (gone["status"], gone["error"]["rule"]) == ("rejected", "bluesky.reply.refs")
    assert len(records(world)) == 1


def test_an_animation_is_told_to_become_a_still(world: RequestCast) -> None:
    answer = world.post(media=[inline_item(animation())])
    assert [warning["code"] for warning in result(answer)["warnings"]] == ["animation_still"]
    checked = world.alice.api.post("/v1/posts/validate", json=world.body(media=[inline_item(animation())])).json()
    assert "animation_still" in str(checked)
