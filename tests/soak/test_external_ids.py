"""Sixteen clients create the same external ids across SIGKILLs: one batch for each."""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests.support.app_server import format_instant
from tests.support.reporting import ReportLine
from tests.support.soak.soak_world import SoakWorld, configured_count, new_seed, pause, running_world, wait_for

pytestmark = pytest.mark.slow
IDS, CLIENTS, KILLS = configured_count("external_ids", 500), 16, configured_count("external_id_kills", 25)
FAR_FUTURE = format_instant(4_000_000_000_000)


class Creator:
    """A client that creates every id, in an order of its own, until each is answered."""

    def __init__(self, world: SoakWorld, seed: int) -> None:
        self.batches: dict[str, str] = {}  # by id
        self.created = self.refused = 0
        self._world, self._order = world, [f"soak/{number}" for number in range(IDS)]
        random.Random(seed).shuffle(self._order)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        (account,) = self._world.accounts["bluesky"]
        with self._world.client() as client:
            for name in self._order:
                # Every fifth is published now; the content is the same whichever client sends it.
                time = {} if name.endswith(("0", "5")) else {"scheduledAt": FAR_FUTURE}
                body = {"targets": [{"accountId": account}], "text": f"about {name}", "externalId": name, **time}
                answer = self._create(client, body)
                self.batches[name] = answer.json()["id"]
                self.created += "Idempotency-Replayed" not in answer.headers

    def _create(self, client: httpx.Client, body: dict[str, object]) -> httpx.Response:
        while True:
            try:
                answer = client.post("/v1/posts", json=body, headers={"Prefer": "wait=1"})
            except httpx.HTTPError:
                pause(0.02)  # killed, or not up yet
                continue
            if answer.status_code in (200, 202):
                return answer
            assert answer.status_code in (429, 503), answer.text
            self.refused += 1
            pause(0.1)


def test_there_are_as_many_batches_as_ids(tmp_path: Path, tell: ReportLine) -> None:
    seed, kills = new_seed(), 0
    chance = random.Random(seed)
    with running_world(tmp_path, on=("bluesky",)) as world:
        world.start()
        creators = [Creator(world, seed + number) for number in range(CLIENTS)]
        while kills < KILLS and any(creator.thread.is_alive() for creator in creators):
            pause(chance.uniform(0.05, 0.5))
            world.kill()
            kills += 1
            world.start()
        for creator in creators:
            creator.thread.join(300)
            assert not creator.thread.is_alive(), "a client did not come to its end"
        unfinished = "SELECT id FROM post WHERE status IN ('validated', 'publishing')"
        assert wait_for(lambda: not world.rows(unfinished), 60)
        assert world.stop() == 0
        names = [f"soak/{number}" for number in range(IDS)]
        batches = {name: {creator.batches[name] for creator in creators} for name in names}
        assert all(len(same) == 1 for same in batches.values())
        assert Counter(row["external_id"] for row in world.rows("SELECT external_id FROM post")) == Counter(names)
        assert len(world.rows("SELECT id FROM batch")) == IDS
        assert len(world.rows("SELECT id FROM external_id")) == IDS
        texts = Counter(post["text"] for post in world.lab.ledger())
        assert texts == Counter(f"about {name}" for name in names if name.endswith(("0", "5")))
        created = sum(creator.created for creator in creators)
        assert created <= IDS
        tell(f"external ids: {IDS} ids by {CLIENTS} clients, {kills} kills, {created} answers of creators, seed {seed}")
