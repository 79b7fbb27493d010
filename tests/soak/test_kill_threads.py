"""SIGKILL at every step of a thread of five: each piece once, in order, to the end."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.reporting import ReportLine
from tests.support.soak.invariants import UNKNOWN, database_problems
from tests.support.soak.post_contents import PHOTO
from tests.support.soak.server_kills import IN_FLIGHT, PATIENCE, PUBLISHING, SENDS, prepare_contents
from tests.support.soak.soak_world import (
    SoakWorld,
    configured_count,
    new_seed,
    pause,
    running_world,
    schedule_soon,
    wait_for,
)
from tests.support.thread_posts import ENDS, FIVE, THREADED, chained, parent_of

pytestmark = pytest.mark.slow

KILLS = configured_count("thread_kills", 50)  # per platform: there are 35 or 40 steps
MINUTE = 1.0  # seconds that a minute of the connectors' waiting takes here
END_SECONDS = 60.0
LEADS = (1.1, 2.0, 5.0)  # seconds from a request to the time of its thread
PREPARING = ("pub.after_claim", "pub.after_media")  # a text alone is planned with the claim


@dataclass
class Chain:
    """One thread: its texts, and what its owner did to get it out."""

    texts: tuple[str, ...]
    scheduled: bool
    media: tuple[str, ...] = ()  # of each piece
    settled: int = 0
    retried: int = 0


@dataclass
class ThreadKills:
    """One platform's threads, each with one kill at the next step."""

    world: SoakWorld
    platform: str
    chance: random.Random
    image: str  # its media id
    kills: Counter[tuple[str, int]] = field(default_factory=Counter)
    chains: list[Chain] = field(default_factory=list)

    def run(self, count: int) -> None:
        steps = self._shuffle()
        for _ in range(count):
            point, place = next(steps)
            texts = tuple(f"{len(self.chains)} {self.platform} {text}" for text in FIVE)
            media = (self.image,) if point in PREPARING else ()
            chain = Chain(texts, self.chance.random() < 0.5, media)
            self.chains.append(chain)
            self._kill(chain, point, place)
            self.world.start()
            self._finish(chain)
            self.world.kill()

    def _shuffle(self) -> Iterator[tuple[str, int]]:
        """Every step in turn, in the order of the seed."""
        points = (*PUBLISHING, "cont.after_create_before_save") if self.platform == "threads" else PUBLISHING
        steps = list(itertools.product(points, range(1, len(FIVE) + 1)))
        self.chance.shuffle(steps)
        return itertools.cycle(steps)

    def _kill(self, chain: Chain, point: str, place: int) -> None:
        """Publish the thread, and kill the server at this point of this piece."""
        if point == IN_FLIGHT:
            child = self._start_in_flight(place)
        else:
            child = self.world.start(f"{point}=kill@{place}", wait=False)
        assert self.world.wait_ready(), self.world.log.read_text()[-2000:]
        self._publish(chain)
        if point == IN_FLIGHT:
            wait_for(lambda: any(line["fired"] for line in self.world.lab.script()), PATIENCE, 0.01)
            self.world.kill()
            pause(0.1)  # the call takes effect meanwhile
            self.world.lab.faults()
        elif not child.ended.wait(PATIENCE):
            self.world.kill()
            return
        self.kills[point, place] += 1

    def _start_in_flight(self, place: int) -> Any:
        """Let the public call of this piece take effect only when the server is dead."""
        (operation,) = SENDS[self.platform]
        line = {"fault": "late_effect:0.05", "platform": self.platform, "operation": operation, "nth": place}
        self.world.lab.faults(line)
        return self.world.start(wait=False)

    def _publish(self, chain: Chain) -> None:
        first, *rest = ({"text": text, "media": list(chain.media)} for text in chain.texts)
        body = {"targets": [{"accountId": self.world.accounts[self.platform][0]}], **first, "thread": rest}
        try:
            with self.world.client(10) as client:
                if chain.scheduled:
                    answer, _ = schedule_soon(client, body, *LEADS, Prefer="respond-async")
                else:
                    answer = client.post("/v1/posts", json=body, headers={"Prefer": "respond-async"})
                assert answer.status_code in (200, 202), answer.text
        except httpx.TransportError:
            pass  # killed before the answer: the rows tell
        assert len(self._rows(chain)) == len(FIVE), "a thread is accepted as a whole, before anything is sent"

    def _rows(self, chain: Chain) -> list[dict[str, Any]]:
        marks = ", ".join("?" * len(chain.texts))
        found = self.world.rows(f"SELECT * FROM post WHERE text IN ({marks}) ORDER BY position", *chain.texts)
        return [row for row in found if row["thread_position"] is not None]

    def _finish(self, chain: Chain) -> None:
        """Wait for the end; report what is unknown and retry what failed, as its owner would, until all is out."""
        deadline = time.monotonic() + END_SECONDS
        while True:
            assert wait_for(lambda: self._is_over(chain), deadline - time.monotonic()), self._rows(chain)
            missing = next((row for row in self._rows(chain) if row["status"] != "published"), None)
            if missing is None:
                return
            self._mend(chain, missing)

    def _is_over(self, chain: Chain) -> bool:
        return all(row["status"] in ENDS for row in self._rows(chain))

    def _mend(self, chain: Chain, row: dict[str, Any]) -> None:
        assert row["status"] == "failed", str(row["error"])
        later = [json.loads(each["error"])["rule"] for each in self._rows(chain)[row["thread_position"] + 1 :]]
        assert set(later) <= {"thread.previous_missing"}, later
        path = f"/v1/posts/{row['id']}"
        with self.world.client(10) as client:
            if json.loads(row["error"]).get("rule") == UNKNOWN:
                chain.settled += 1
                there = next((entry for entry in self.world.lab.ledger() if entry["text"] == row["text"]), None)
                found = {"published": False} if there is None else {"published": True, "uri": there["url"]}
                answer = client.post(f"{path}/settle", json=found)
                assert answer.status_code == 200, answer.text
                if there is not None:
                    return
            chain.retried += 1
            answer = client.post(f"{path}/retry", json={})
            assert answer.status_code == 202, answer.text

    # --- What must be true ---

    def check(self) -> None:
        ledger = [entry for entry in self.world.lab.ledger() if entry["platform"] == self.platform]
        texts = {entry["remote_id"]: entry["text"] for entry in ledger}
        public = [(entry["text"], texts.get(parent_of(entry["request"]))) for entry in ledger]
        assert public == [piece for chain in self.chains for piece in chained(*chain.texts)]
        uris = {entry["text"]: (entry["remote_id"], entry["url"], None) for entry in ledger}
        for row in self.world.rows("SELECT * FROM post"):
            assert row["platform_uri"] in uris[row["text"]], row
        assert self.world.rows("SELECT id FROM intent WHERE outcome IS NULL") == []
        assert self.world.rows("SELECT j.key FROM job j JOIN post p ON p.id = j.key") == []
        assert database_problems(self.world.database) == []

    def shown(self) -> str:
        settled, retried = (sum(getattr(chain, name) for chain in self.chains) for name in ("settled", "retried"))
        points = Counter[str]()
        for (point, _), number in self.kills.items():
            points[point] += number
        steps = "  ".join(f"{point} {number}" for point, number in sorted(points.items()))
        return f"{self.kills.total()} kills at {len(self.kills)} steps, {settled} settled, {retried} retried\n  {steps}"


@pytest.mark.parametrize("platform", THREADED)
def test_kills_in_a_thread_double_and_disorder_nothing(platform: str, tmp_path: Path, tell: ReportLine) -> None:
    seed, began = new_seed(), time.monotonic()
    with running_world(tmp_path, on=(platform,), minute=MINUTE) as world:
        world.lab.post("/lab/settings", {"processingMs": 20})
        world.start()
        image = prepare_contents(world, {platform: (PHOTO,)}).stored["photo"]
        world.kill()
        threads = ThreadKills(world, platform, random.Random(seed), image)
        threads.run(KILLS)
        threads.check()
    tell(f"kills in threads of five on {platform}: seed {seed}, {time.monotonic() - began:.0f} s\n  {threads.shown()}")
    assert threads.kills.total() == KILLS
    assert platform == "twitter" or sum(chain.settled for chain in threads.chains) == 0
