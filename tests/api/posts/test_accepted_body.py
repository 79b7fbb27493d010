"""Response to an accepted batch, built in memory, equals its database rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.domain.posts import batches
from tests.support.request_cast import RequestCast

warnings = st.lists(st.fixed_dictionaries({"code": st.text(min_size=1), "message": st.text()}), max_size=3)


@given(
    warned=st.lists(warnings, min_size=1, max_size=4),
    at_ms=st.none() | st.integers(0, 4_000_000_000_000),
    now=st.integers(0, 4_000_000_000_000),
)
def test_a_body_from_memory_is_the_body_of_its_rows(warned: list[Any], at_ms: int | None, now: int) -> None:
    results = [
        batches.build_accepted_result(f"post-{n}", "a", "bluesky", at_ms, notes) for n, notes in enumerate(warned)
    ]
    rows: list[Any] = [
        {
            "id": f"post-{n}",
            "account": "a",
            "platform": "bluesky",
            "status": "validated" if at_ms is None else "queued",
            "scheduled_at": at_ms,
            "warnings": batches.dumps(notes),
            "error": None,
        }
        | dict.fromkeys(
            (
                "platform_uri",
                "platform_cid",
                "url",
                "first_comment_uri",
                "first_comment_cid",
                "thread_of",
                "external_id",
            )
        )
        for n, notes in enumerate(warned)
    ]
    told = batches.build_accepted_body("batch", now, at_ms, results, None)
    of_rows = batches.build_body({"id": "batch", "created_at": now, "scheduled_at": at_ms}, rows)
    assert batches.dumps(told) == batches.dumps(of_rows)


@pytest.mark.parametrize("times", [1, 2])
def test_the_answer_to_a_scheduled_batch_is_what_its_rows_say(times: int, world: RequestCast) -> None:
    for _ in range(times):  # the second warns of a text that was there
        answer = world.post(scheduledAt=world.soon(), text="the same").json()
    service = world.server.service
    assert answer == service.read(lambda: batches.load_body(answer["id"])).result()
