"""Cost of dashboard pages, counted in steps of SQLite: it does not grow with the history."""

from __future__ import annotations

from typing import Any

import pytest

from socialpub.domain.media import library
from socialpub.store.database import Tx
from socialpub.store.engine import reader_pool
from socialpub.store.schema.models import Media
from tests.support.app_server import ApiClient
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML
from tests.support.post_drafts import new_draft
from tests.support.post_list import insert_rows
from tests.support.request_cast import RequestCast

STATUSES = ("published", "failed", "rejected", "queued", "canceled")
FEW, MANY = 1_500, 3_000  # more than any part of a page reads
UNIT = 100  # steps of SQLite's machine between two counts


class StepCounter:
    """Counts how often SQLite has gone UNIT steps in a page's reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.units = 0
        is_over = reader_pool.ReadDeadline.is_over
        monkeypatch.setattr(reader_pool, "STEPS_BETWEEN_CHECKS", UNIT)
        monkeypatch.setattr(reader_pool.ReadDeadline, "is_over", lambda limit: self._count() or is_over(limit))

    def _count(self) -> None:
        self.units += 1

    def measure(self, browser: ApiClient, path: str) -> int:
        assert browser.get(path, headers=HTML).status_code == 200, path
        self.units = 0
        browser.get(path, headers=HTML)
        return self.units


def insert_history(world: RequestCast, first: int, end: int) -> list[str]:
    """Posts of every state, a second apart, the newest of them now; and files."""
    now = world.server.service.now_ms

    def build(number: int) -> dict[str, Any]:
        status = STATUSES[number % len(STATUSES)]
        error = {"error": '{"code": "platform_rejected", "message": "No."}', "error_code": "platform_rejected"}
        at = now - (MANY - number) * 1000
        media = f'[{{"kind": "image", "mediaId": "med_{number:026d}"}}]' if number % 300 == 0 else "[]"
        more = error if status in ("failed", "rejected") else {}
        due = {"scheduled_at": now + number * 1000} if status == "queued" else {}
        return {"status": status, "created_at": at, "text": f"Number {number}", "media": media, **more, **due}

    def write(tx: Tx) -> None:
        for number in range(first, end, 10):
            Media.insert(
                id=f"med_{number:026d}",
                organization=world.alice.organization,
                content_type="image/jpeg",
                kind="image",
                size_bytes=1,
                sha256=f"{number:064x}",
                alt_text=f"File {number}",
                created_at=now - (MANY - number) * 1000,
                used_at=now,  # else the next cleaning up deletes it
            ).execute()

    world.server.service.write(write).result()
    return insert_rows(world.server, world.alice, *map(build, range(first, end)))


@pytest.mark.slow
def test_no_page_reads_more_the_longer_the_history_is(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "SEARCHED_MAX", 100)
    clock = world.server.clock
    clock.skip((12 * 3_600_000 - clock.now_ms()) % 86_400_000 / 1000)  # to noon: all of it is of one day
    counter = StepCounter(monkeypatch)
    browser = sign_in(world.server, world.alice.organization)
    posts = insert_history(world, 0, FEW)
    batch = world.alice.api.get(f"/v1/posts/{posts[3]}").json()["batchId"]
    # Not here: a search, which `benchmarks/post_list.py` measures, and an account, whose open posts are counted.
    draft = new_draft(world.alice.api, text="x", scheduledAt="2098-03-03T10:00:00Z")["id"]
    paths = [
        "/",
        f"/drafts/{draft}/move",
        "/posts",
        *(f"/posts?status={status}" for status in (*STATUSES, "failed,rejected")),
        "/posts?status=queued&order=scheduledAt",
        f"/posts?batchId={batch}",
        f"/posts/{posts[3]}",
        f"/publications/{batch}/move",
        "/calendar",
        "/calendar/week",
        "/drafts",
        "/media",
        "/media?q=nothing",
        f"/library/med_{10:026d}",
        "/accounts",
        "/settings/system",
    ]
    before = {path: counter.measure(browser, path) for path in paths}
    assert min(before.values()) > 0
    insert_history(world, FEW, MANY)
    after = {path: counter.measure(browser, path) for path in paths}
    grown = {path: (before[path], after[path]) for path in paths if after[path] > before[path] * 1.1 + 5}
    assert grown == {}
