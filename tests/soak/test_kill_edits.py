"""SIGKILL while edits race their due time: the old content or the new, once."""

from __future__ import annotations

import concurrent.futures
import json
import time
from pathlib import Path

import httpx
import pytest

from tests.support.reporting import ReportLine
from tests.support.soak.server_kills import IN_FLIGHT, PUBLISHING, SENDS
from tests.support.soak.soak_world import (
    ServerProcess,
    SoakWorld,
    configured_count,
    pause,
    running_world,
    schedule_soon,
    wait_for,
)

pytestmark = pytest.mark.slow

EDITS = configured_count("edits", 200)  # on each class of platform
PLATFORMS = ("bluesky", "threads", "plain")  # key, container, no key
POLLED = "container polled"
POINTS = ("edit.before_commit", "edit.after_commit", *PUBLISHING)
CALLS = {  # during which the server is killed from outside: what becomes of them, and which they are
    IN_FLIGHT: ("late_effect:0.05", SENDS),
    POLLED: ("delay:0.3", {"threads": ("node",)}),
}
LEADS = (2.5, 5.0, 15.0)  # seconds from a request to the due time of its posts
SPREAD = 0.2  # seconds around the due time, in which the edits come
END_SECONDS = 60.0


@pytest.mark.parametrize("platform", PLATFORMS)
def test_an_edit_at_its_due_time_is_whole_or_not_there(platform: str, tmp_path: Path, tell: ReportLine) -> None:
    points = (*POINTS, POLLED) if platform in CALLS[POLLED][1] else POINTS
    began, each, answers = time.monotonic(), -(-EDITS // len(points)), dict[str, int | None]()
    killed: list[str] = []
    with running_world(tmp_path, each=4, on=(platform,), minute=1.0) as world:
        for number, point in enumerate(points):
            nth = 1 + number % 3
            child = _start(world, platform, point, nth)
            with concurrent.futures.ThreadPoolExecutor(1) as beside:
                struck = beside.submit(_kill_during_call, world) if point in CALLS else None
                early = nth if point.startswith("edit.") else 0
                answers |= _edit_all(world, platform, f"{point} {platform}", each, early)
                is_killed = struck.result() if struck else _has_ended(world, child)
            if is_killed:
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
    passed = {"edit.before_commit", "edit.after_commit", "pub.after_intent", IN_FLIGHT, "pub.after_reply"}
    assert passed | ({POLLED} & set(points)) <= set(killed)
    assert platform == "plain" or not unknown


def _start(world: SoakWorld, platform: str, point: str, nth: int) -> ServerProcess:
    """Start a server that kills itself at its nth passing of the point, or makes a call that takes its time."""
    if point not in CALLS:
        return world.start(f"{point}=kill@{nth}")
    fault, operations = CALLS[point]
    (operation,) = operations[platform]
    world.lab.faults({"fault": fault, "platform": platform, "operation": operation, "nth": nth})
    return world.start()


def _has_ended(world: SoakWorld, child: ServerProcess) -> bool:
    """Wait until the server has killed itself, or has nothing more to do."""
    wait_for(lambda: child.ended.is_set() or not world.open_posts(), END_SECONDS)
    return child.ended.wait(0.5)


def _kill_during_call(world: SoakWorld) -> bool:
    """Kill the server while the call is under way; False if none came."""
    wait_for(lambda: _is_under_way(world), END_SECONDS, 0.01)
    is_under_way = _is_under_way(world)
    world.kill()
    pause(0.1)  # the call takes effect meanwhile
    world.lab.faults()
    return is_under_way


def _is_under_way(world: SoakWorld) -> bool:
    return any(line["fired"] for line in world.lab.script())


def _edit_all(world: SoakWorld, platform: str, name: str, count: int, early: int) -> dict[str, int | None]:
    """Schedule posts and edit them about when they are due; the status of each edit, None: not answered.

    `early`: how many are edited as soon as they are accepted, so that a busy machine does not make them too late.
    """
    accounts = world.accounts[platform]
    with world.client(5) as client:
        targets = [{"accountId": accounts[n % len(accounts)], "text": f"old {name} {n}"} for n in range(count)]
        answer, due_ms = schedule_soon(client, {"targets": targets}, *LEADS)
        assert answer.status_code == 202, answer.text
        due = due_ms / 1000
        posts = [result["postId"] for result in answer.json()["results"]]

        def edit(number: int) -> int | None:
            if number >= early:
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
