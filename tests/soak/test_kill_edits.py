"""SIGKILL while edits race their due time: the old content or the new, once."""

from __future__ import annotations

import concurrent.futures
import json
import time
from pathlib import Path

import httpx
import pytest

from tests.support.app_server import format_instant
from tests.support.reporting import ReportLine
from tests.support.soak.server_kills import IN_FLIGHT, PUBLISHING
from tests.support.soak.soak_world import CLASSES, SoakWorld, configured_count, pause, running_world

pytestmark = pytest.mark.slow

EDITS = configured_count("edits", 200)  # on each class of platform
POINTS = ("edit.before_commit", "edit.after_commit", *(point for point in PUBLISHING if point != IN_FLIGHT))
LEAD, SPREAD = 2.5, 0.2  # seconds from acceptance to the due time, around which the edits come


@pytest.mark.parametrize("platform", CLASSES)
def test_an_edit_at_its_due_time_is_whole_or_not_there(platform: str, tmp_path: Path, tell: ReportLine) -> None:
    began, each, answers = time.monotonic(), -(-EDITS // len(POINTS)), dict[str, int | None]()
    killed: list[str] = []
    with running_world(tmp_path, each=4) as world:
        for number, point in enumerate(POINTS):
            child = world.start(f"{point}=kill@{1 + number % 3}")
            answers |= _edit_all(world, platform, f"{point} {platform}", each)
            if child.ended.wait(2):
                killed.append(point)
            else:  # nobody came by that point: a platform with an offline plan has fewer
                world.kill()
            world.start()
            world.drain()
            assert world.stop() == 0
        new, unknown = _check(world, answers)
    granted = sum(status == 200 for status in answers.values())
    tell(
        f"edits at their due time on {platform}, {time.monotonic() - began:.0f} s: {len(answers)}, {granted} granted, "
        f"{new} with the new text, {unknown} with an unknown outcome, killed at {', '.join(killed)}"
    )
    assert {"edit.before_commit", "edit.after_commit", "pub.after_intent", "pub.after_reply"} <= set(killed)
    assert platform == "plain" or not unknown


def _edit_all(world: SoakWorld, platform: str, name: str, count: int) -> dict[str, int | None]:
    """Schedule posts and edit them about when they are due; the status of each edit, None: not answered."""
    accounts, due = world.accounts[platform], time.time() + LEAD
    with world.client(5) as client:
        targets = [{"accountId": accounts[n % len(accounts)], "text": f"old {name} {n}"} for n in range(count)]
        body = {"targets": targets, "scheduledAt": format_instant(int(due * 1000))}
        answer = client.post("/v1/posts", json=body)
        assert answer.status_code == 202, answer.text
        posts = [result["postId"] for result in answer.json()["results"]]

        def edit(number: int) -> int | None:
            pause(max(0.0, due - SPREAD + 1.5 * SPREAD * number / count - time.time()))
            try:
                change = {"text": f"new {name} {number}"}
                return client.patch(f"/v1/posts/{posts[number]}", json=change).status_code
            except httpx.HTTPError:
                return None

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            return dict(zip(posts, pool.map(edit, range(count)), strict=True))


def _check(world: SoakWorld, answers: dict[str, int | None]) -> tuple[int, int]:
    """Compare what is public, the rows and the events; how many have the new text, and an unknown outcome."""
    public: dict[str, int] = {}
    for entry in world.lab.ledger():
        public[entry["text"]] = public.get(entry["text"], 0) + 1
    edited = {event.post for event in world.happened(type="post.edited")}
    new = unknown = 0
    for row in world.rows("SELECT id, text, status, error FROM post"):
        old_or_new = [public.get(f"{word} {row['text'].partition(' ')[2]}", 0) for word in ("old", "new")]
        here = (row, answers[row["id"]], old_or_new)
        assert sum(old_or_new) == public.get(row["text"], 0) <= 1, here
        assert (row["text"].startswith("new")) == (row["id"] in edited), here
        assert answers[row["id"]] != 200 or row["id"] in edited, here
        assert answers[row["id"]] in (200, 409, None), here
        if row["error"] and json.loads(row["error"]).get("rule") == "publish.outcome_unknown":
            unknown += 1
        else:
            assert (row["status"], sum(old_or_new)) == ("published", 1), here
        new += row["id"] in edited
    return new, unknown
