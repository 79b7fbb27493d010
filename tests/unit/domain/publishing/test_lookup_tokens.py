"""Lookups of a send whose access token ended in the meantime."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.token_accounts import TokenAccount

SENDS = {"pinterest": "pins.create", "twitter": "tweets.create"}


@pytest.mark.parametrize("platform", SENDS)
def test_the_token_of_a_lookup_is_refreshed(connect_account: Callable[..., TokenAccount], platform: str) -> None:
    holder = connect_account(platform)
    lab = holder.server.lab.lab
    lab.faults.add([{"fault": "reset_after", "operation": SENDS[platform], "times": 1}])
    answer = holder.api.publish(holder.body()).json()
    post = answer["results"][0]["postId"]
    holder.server.wait(post, "publishing")
    assert lab.ledger.wait(1, 60)
    holder.kill()
    row = holder.ended(post)
    assert (row["status"], row["error"]) == ("published", None), json.loads(row["error"] or "null")
    assert len(lab.ledger.posts(platform)) == 1
