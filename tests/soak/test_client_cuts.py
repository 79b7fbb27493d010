"""Python library behind a proxy that cuts: each publish is one post, in both clients."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from socialpub.simulator.server import SimulatorThread
from socialpub_client import AsyncSocialpub, Socialpub
from tests.support.app_server import UNLIMITED, running_server
from tests.support.faulty_proxy import FaultyProxy
from tests.support.reporting import ReportLine
from tests.support.soak.soak_world import configured_count

RUNS = configured_count("client_cuts", 100)
SEED = 20261126
RETRIES = 8  # the proxy cuts at most five tries in a row


@pytest.mark.slow
def test_cut_calls_of_the_library_publish_once(tmp_path: Path, lab_thread: SimulatorThread, tell: ReportLine) -> None:
    lab_thread.lab.reset()
    blocking = [f"blocking {number}" for number in range(RUNS)]
    awaited = [f"awaited {number}" for number in range(RUNS)]
    with running_server(tmp_path, lab_thread, limits=UNLIMITED) as server:
        alice = server.connected_person("Alice")
        with FaultyProxy(server.url, SEED, share=0.6, cutting=True).serving() as proxy:
            with Socialpub(proxy.url, alice.key, retries=RETRIES, sleep=lambda _: None) as sp:
                ends = [sp.posts.publish_and_wait(text, to=alice.bluesky).status for text in blocking]
            ends += asyncio.run(_publish(proxy.url, alice.key, alice.bluesky, awaited))
            cuts = Counter(name for name, _ in proxy.cuts.elements())
        posts = Counter(entry.text for entry in lab_thread.lab.ledger.posts())
    assert set(ends) == {"published"}
    assert posts == Counter([*blocking, *awaited])
    tell(f"{2 * RUNS} publishes of the library, {cuts.total()} tries cut {dict(cuts)}: each is one post, seed {SEED}")


async def _publish(url: str, key: str, account: str, texts: list[str]) -> list[str]:
    async def no_wait(seconds: float) -> None:
        await asyncio.sleep(0)

    async with AsyncSocialpub(url, key, retries=RETRIES, sleep=no_wait) as sp:
        batches = []
        for at in range(0, len(texts), 4):
            calls = [sp.posts.publish_and_wait(text, to=account) for text in texts[at : at + 4]]
            batches += await asyncio.gather(*calls)
        return [batch.status for batch in batches]
