"""Benchmark of webhook deliveries: redeliveries per second to one receiver."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from benchmarks import load_client
from benchmarks.goals import DELIVERIES, DELIVERIES_RATE, DELIVERIES_SLOW, BenchmarkResult
from benchmarks.processes import BenchError, BenchmarkProcess, free_ports
from benchmarks.servers import ROOT, BenchmarkSetup, CheckoutServer
from benchmarks.throughput import later
from benchmarks.wrk_load import CONNECTIONS

POSTS, QUICK_POSTS = 1500, 600  # each with two events: it is queued, and it has passed preflight
LOOPED, LOOPS = 1600, (1, 8)  # calls of the bare loop; threads, each with a kept connection: a busy machine likes more
PATIENCE_SECONDS = 120.0
LOOK_SECONDS = 0.005
ENDPOINTS, RECORDS = "/v1/webhook-endpoints", "/v1/webhook-deliveries"


@dataclass(frozen=True)
class DeliveryRound:
    """One time that everything went out."""

    rate: float
    cpu_ms: float  # of the server, for each delivery


@dataclass
class ReceiverProcess:
    """The receiver, a process of its own."""

    url: str
    http: httpx.Client

    @property
    def answered(self) -> int:
        return int(self.http.get("/count").text)

    def wait(self, count: int) -> None:
        """Until it has answered so many; BenchError when it is not in time."""
        until = time.monotonic() + PATIENCE_SECONDS
        while (answered := self.answered) < count:
            if time.monotonic() > until:
                raise BenchError(f"Of {count} deliveries {answered} have come.")
            time.sleep(LOOK_SECONDS)


@dataclass
class WebhookEndpoint:
    """An endpoint of the side's people, for the time of the measurement."""

    side: CheckoutServer
    http: httpx.Client
    id: str

    def change(self, url: str) -> None:
        self.http.patch(f"{ENDPOINTS}/{self.id}", json={"url": url}).raise_for_status()

    def again(self) -> int:
        """Everything goes out once more; how many deliveries that is."""
        asked = {"since": "2020-01-01T00:00:00Z", "status": "succeeded"}
        answer = self.http.post(f"{ENDPOINTS}/{self.id}/redeliver", json=asked)
        return int(answer.raise_for_status().json()["count"])

    def settle(self) -> None:
        """Until every answer is written down; BenchError when it is not in time."""
        until = time.monotonic() + PATIENCE_SECONDS
        query: dict[str, str | int] = {"endpointId": self.id, "status": "pending", "limit": 1}
        while self.http.get(RECORDS, params=query).raise_for_status().json()["data"]:
            if time.monotonic() > until:
                raise BenchError("Deliveries are still pending.")
            time.sleep(LOOK_SECONDS)


def measure(stage: BenchmarkSetup) -> Iterator[BenchmarkResult]:
    """To a receiver that answers at once, by turns with a bare loop; then to one that takes 100 ms."""
    with _receiving(stage) as receiver, _endpoint(stage.first, f"{receiver.url}/live") as endpoint:
        posts = QUICK_POSTS if stage.quick else POSTS
        accounts = stage.first.people.accounts
        bodies = [
            {"text": f"Told {number}", "targets": [{"accountId": accounts[number % len(accounts)]}], "scheduledAt": at}
            for at in [later()]
            for number in range(posts)
        ]
        load_client.post_all(stage.first.port, stage.first.people, bodies, CONNECTIONS)
        receiver.wait(2 * posts)
        endpoint.settle()
        live, loops = [], []
        for _ in range(stage.rounds):
            loops.append(_loop(f"{receiver.url}/live"))
            live.append(_round(receiver, endpoint))
        yield BenchmarkResult(DELIVERIES, 100 * statistics.median(_shares(live, loops)), _told(live, loops))
        yield BenchmarkResult(DELIVERIES_RATE, statistics.median(one.rate for one in live))
        endpoint.change(f"{receiver.url}/slow")
        slow = [_round(receiver, endpoint) for _ in range(stage.rounds)]
        yield BenchmarkResult(DELIVERIES_SLOW, statistics.median(one.rate for one in slow), _told(slow))


def _shares(rounds: list[DeliveryRound], loops: list[float]) -> list[float]:
    return [one.rate / loop for one, loop in zip(rounds, loops, strict=True)]


def _told(rounds: list[DeliveryRound], loops: list[float] | None = None) -> str:
    rate, cpu = (statistics.median(values) for values in zip(*((one.rate, one.cpu_ms) for one in rounds), strict=True))
    bare = f"; the bare loop {statistics.median(loops):,.0f}/s" if loops else ""
    return f"{rate:,.0f}/s, CPU {cpu:.2f} ms a delivery{bare}"


def _round(receiver: ReceiverProcess, endpoint: WebhookEndpoint) -> DeliveryRound:
    process = endpoint.side.running
    before, used, began = receiver.answered, process.usage(), time.monotonic()
    count = endpoint.again()
    receiver.wait(before + count)
    took = time.monotonic() - began
    endpoint.settle()
    return DeliveryRound(count / took, (process.usage() - used).cpu_ms / count)


def _loop(url: str) -> float:
    """Calls a second of a process that does nothing else, with a body of the same size: the best of these ways."""
    return max(_looped(url, threads) for threads in LOOPS)


def _looped(url: str, threads: int) -> float:
    command = [sys.executable, "-c", _LOOP, url, str(LOOPED // threads), str(threads)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"The bare loop failed: {done.stderr[-500:]}")
    return LOOPED / float(done.stdout)


_LOOP = """
import sys, threading, time, httpx
url, count, body = sys.argv[1], int(sys.argv[2]), b"x" * 600
def loop():
    with httpx.Client(trust_env=False, verify=False) as client:
        for _ in range(count):
            assert client.post(url, content=body).is_success
threads = [threading.Thread(target=loop) for _ in range(int(sys.argv[3]))]
began = time.monotonic()
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(time.monotonic() - began)
"""


@contextlib.contextmanager
def _receiving(stage: BenchmarkSetup) -> Iterator[ReceiverProcess]:
    port = free_ports(1)
    process = BenchmarkProcess(
        [sys.executable, "-m", "benchmarks.webhook_receiver", str(port)], ROOT, stage.folder / "receiver.log"
    )
    try:
        process.wait_listening(port)
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, trust_env=False) as http:
            yield ReceiverProcess(url, http)
    finally:
        process.stop()


@contextlib.contextmanager
def _endpoint(side: CheckoutServer, url: str) -> Iterator[WebhookEndpoint]:
    with httpx.Client(base_url=side.url, headers=side.people.headers, trust_env=False, timeout=60) as http:
        made = http.post(ENDPOINTS, json={"url": url}).raise_for_status().json()
        try:
            yield WebhookEndpoint(side, http, made["id"])
        finally:
            http.delete(f"{ENDPOINTS}/{made['id']}").raise_for_status()
