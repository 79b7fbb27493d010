"""Start and stop of the simulator, in a thread and as a process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from socialpub.base.runtime import SystemClock
from socialpub.simulator.registry import FAKES
from socialpub.simulator.server import SimulatorThread, serve
from socialpub.simulator.state import SimulatorState
from tests.support.fixed_clock import NOON, FixedClock
from tests.support.ports import free_ports

SERVE = """
from pathlib import Path
from socialpub.simulator.server import run

def ready(running):
    print(running.url, *running.origins.values(), flush=True)

run(port={port}, ledger=Path({ledger!r}), ready=ready)
"""


@contextlib.contextmanager
def start(ledger: Path, port: int = 0) -> Iterator[subprocess.Popen[str]]:
    """The simulator as a process; it does not outlive the block, whatever happens there."""
    code = SERVE.format(port=port, ledger=str(ledger))
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_every_platform_of_the_catalogue_has_an_origin_of_its_own() -> None:
    with SimulatorThread() as simulator:
        origins = {simulator.url, *(simulator.origin(name) for name in FAKES)}
        assert len(origins) == len(FAKES) + 1
        assert all(httpx.get(f"{simulator.origin(name)}/").status_code == 404 for name in FAKES)


def test_every_platform_response_carries_the_labs_time() -> None:
    clock = FixedClock()
    with SimulatorThread(clock) as simulator:
        account = simulator.lab.add_account("bluesky", handle="alice.test")
        addresses = (f"{simulator.origin('bluesky')}/{account['did']}", f"{simulator.origin('twitter')}/nowhere")
        for fault, (at, date) in itertools.product(
            ("ok", "status:503", "html", "slow", "gzip_bomb"),
            ((NOON, "Fri, 20 Nov 2026 12:00:00 GMT"), (NOON + 90_999, "Fri, 20 Nov 2026 12:01:30 GMT")),
        ):
            clock.ms = at
            simulator.lab.faults.add([{"fault": fault, "times": 1}])
            for address in addresses:
                with httpx.stream("GET", address, timeout=60) as answer:
                    assert answer.headers["Date"] == date, fault


def test_two_simulators_in_one_process_know_nothing_of_each_other() -> None:
    with SimulatorThread() as one, SimulatorThread() as other:
        made = [lab.add_account("bluesky", handle="alice.test") for lab in (one.lab, other.lab)]
        assert [account["pds"] for account in made] == [one.origin("bluesky"), other.origin("bluesky")]


def test_a_stopped_simulator_answers_no_more() -> None:
    with SimulatorThread() as simulator:
        url = simulator.url
        assert httpx.get(url).status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_stopping_does_not_wait_for_a_held_call() -> None:
    with SimulatorThread() as simulator:
        simulator.lab.faults.add([{"fault": "late_effect:3600"}])
        with httpx.Client() as client, pytest.raises(httpx.ReadTimeout):
            client.get(f"{simulator.origin('bluesky')}/did:plc:a", timeout=httpx.Timeout(60, read=0.1))
    assert not simulator.lab.ledger.entries()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_as_a_process_it_says_where_it_is_and_ends_with_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """On the ports after the control page's where one is named."""
    ledger, port = tmp_path / "ledger.jsonl", free_ports(1 + len(FAKES)) if number is signal.SIGINT else 0
    with start(ledger, port) as process:
        assert process.stdout is not None
        url, *origins = process.stdout.readline().split()
        if port:
            ports = [int(each.rpartition(":")[2]) for each in (url, *origins)]
            assert ports == [port + place for place in range(1 + len(FAKES))]
        bluesky = origins[list(FAKES).index("bluesky")]
        account = httpx.post(f"{url}/lab/accounts", json={"platform": "bluesky", "handle": "alice.test"}).json()
        assert httpx.get(f"{bluesky}/{account['did']}").json()["id"] == account["did"]
        process.send_signal(number)
        _, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (0, "")


def test_a_taken_port_is_an_error_and_leaves_nothing_listening() -> None:
    with SimulatorThread() as simulator:
        port = int(simulator.origin("bluesky").rpartition(":")[2])
        with pytest.raises(OSError):
            asyncio.run(serve(SimulatorState(SystemClock(), FAKES), port=port))
        assert httpx.get(f"{simulator.origin('bluesky')}/xrpc/_health").status_code == 200
