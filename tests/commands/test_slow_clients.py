"""500 slow clients at a server process are cut off, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Callable

import httpx
import pytest

from socialpub.simulator.server import SimulatorThread
from tests.support.command_runner import AskCommand, CommandProcess, make_client, read_address
from tests.support.reporting import TIMED
from tests.support.slow_client import DripResult, drip

pytestmark = [pytest.mark.slow, pytest.mark.alone]

SOCKETS = 500
CUT_SECONDS = 15.0
LATE_SECONDS = 10.0  # Sanic looks every 7.5 s
HEALTH_SECONDS = 0.2
PUBLISH_SECONDS = 5.0


class Siege(threading.Thread):
    """The slow clients; `complete` once all of them are connected."""

    def __init__(self, port: int, heads: list[bytes]) -> None:
        super().__init__()
        self.port, self.heads, self.complete = port, heads, threading.Event()
        self.begun, self.ended = 0, list[DripResult]()

    def run(self) -> None:
        self.ended += asyncio.run(self._drip())

    async def _drip(self) -> list[DripResult]:
        return await asyncio.gather(
            *(drip(self.port, head, b"x", every=1.0, begun=self._one_more) for head in self.heads)
        )

    def _one_more(self) -> None:
        self.begun += 1
        if self.begun == len(self.heads):
            self.complete.set()


def timed(call: Callable[[], httpx.Response]) -> tuple[float, httpx.Response]:
    began = time.monotonic()
    answer = call()
    return time.monotonic() - began, answer


def test_500_slow_clients_hold_nobody_up_and_are_cut_off(
    start: Callable[..., CommandProcess], ask: AskCommand, simulator: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOCIALPUB_LIMITS__POSTS", "100000")
    alice = simulator.lab.add_account("bluesky", handle="alice.test")
    process = start("serve", "--port", "0")
    url = read_address(process)
    assert process.popen.stderr is not None
    threading.Thread(target=process.popen.stderr.read, daemon=True).start()  # a full pipe would stop the server's log
    org = ask("org", "create", "Acme")["id"]
    where = ("--profile", ask("profile", "list", "--org", org)[0]["id"], "--handle", "alice.test")
    account = ask("account", "connect", "bluesky", *where, stdin=alice["appPassword"])["id"]
    key = ask("key", "create", "--org", org)["key"]

    headers = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: "
    body = (
        f"POST /v1/posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: 99999\r\n\r\n".encode()
    )
    siege = Siege(int(url.rpartition(":")[2]), [headers, body] * (SOCKETS // 2))
    siege.start()
    assert siege.complete.wait(60)
    health, publishing = [], []
    with make_client(url, key) as api:
        while siege.is_alive():
            took, answer = timed(lambda: api.get("/healthz"))
            assert answer.status_code == 200
            health.append(took)
            wanted = {"targets": [{"accountId": account}], "text": f"number {len(publishing)}"}
            took, answer = timed(lambda wanted=wanted: api.post("/v1/posts", json=wanted))  # type: ignore[misc]
            assert answer.json()["status"] == "published"
            publishing.append(took)
            siege.join(0.2)
    times = sorted(one.seconds for one in siege.ended)
    behind_their_arrival, *health = health
    print(
        f"healthz: {behind_their_arrival * 1000:.0f} ms behind their arrival, then median "
        f"{statistics.median(health) * 1000:.0f} ms, worst {max(health) * 1000:.0f} of {len(health)}; "
        f"publish: worst {max(publishing) * 1000:.0f} ms; cut off after {times[0]:.1f} to {times[-1]:.1f} s"
    )
    assert len(times) == SOCKETS
    assert {one.status for one in siege.ended} == {408}
    assert times[0] >= CUT_SECONDS - 0.5
    assert times[-1] <= CUT_SECONDS + LATE_SECONDS or not TIMED
    assert max(publishing) < PUBLISH_SECONDS or not TIMED
    assert max(health) < HEALTH_SECONDS or not TIMED
