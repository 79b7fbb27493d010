"""Cache of an account's recent posts agrees with the post log."""

from __future__ import annotations

from typing import Any

import pytest

from socialpub.domain.context import recent_posts
from tests.support.app_server import error_of
from tests.support.request_cast import RequestCast
from tests.support.validation_results import codes, many, result

ENOUGH = 250 * 4 // 5 - 1  # of Threads: with the new one it is near the cap


def is_near(world: RequestCast, account: str) -> bool:
    body = {"targets": [{"accountId": account}], "deep": False, "scheduledAt": world.soon(7200), "text": "new"}
    answer = world.alice.api.post("/v1/posts/validate", json=world.body(**body))
    return "daily_cap_near" in codes(result(answer)["warnings"])


def test_post_counts_from_acceptance_at_its_due_time_until_canceled(world: RequestCast) -> None:
    account = world.server.connect(world.alice, "threads")["id"]
    due = world.server.clock.now_ms() + 7_000_000
    many(world, account, "threads", ENOUGH - 1, status="queued", scheduled_at=due)
    assert not is_near(world, account)
    fields: dict[str, Any] = {"targets": [{"accountId": account}], "text": "one more", "scheduledAt": world.soon(7000)}
    post = world.scheduled(**fields)
    assert is_near(world, account)
    for seconds, near in ((5 * 86_400, False), (6900, True)):
        moved = world.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": world.soon(seconds)})
        assert (moved.status_code, is_near(world, account)) == (200, near)
    assert world.alice.api.delete(f"/v1/posts/{post}").status_code == 200
    assert not is_near(world, account)


@pytest.mark.parametrize("kept", [1, recent_posts.ACCOUNTS_MAX])
def test_text_is_a_repeat_for_a_day_and_after_a_restart(
    kept: int, world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_posts, "ACCOUNTS_MAX", kept)
    again = {"onDuplicate": "refuse", "text": "once", "scheduledAt": world.soon()}
    first = world.scheduled(**again)
    world.charlie.api.publish(
        {"targets": [{"accountId": world.charlie.bluesky}], "text": "else", "scheduledAt": world.soon()}
    )
    for _ in range(2):
        refused = error_of(world.post(**again))
        assert (refused["rule"], refused["platformResponse"][0]["postId"]) == ("post.duplicate", first)
        world.server.restart(world.alice, world.charlie)
    world.server.clock.skip(86_400)
    assert world.post(**again | {"scheduledAt": world.soon()}).status_code == 202
