"""Publishes through mitmproxy, two tries of each cut: one post each, in five clients.

SOAK_PROXY_RUNS: publishes of each client.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from socialpub.simulator.server import SimulatorThread
from socialpub_client import AsyncSocialpub, Socialpub
from tests.project.generators.conftest import generate
from tests.support.app_server import UNLIMITED, AppServer, MovableClock, Person
from tests.support.foreign_tools import install_from_pypi, run_tool
from tests.support.media_uploads import wait_until
from tests.support.ports import free_port
from tests.support.reporting import ReportLine
from tests.support.soak.soak_world import configured_count

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
DRIVERS = HERE / "drivers"
PROGRAM = Path(sys.executable).with_name("socialpub")
RUNS = configured_count("proxy_runs", 100)
TRIES = 2  # of each publish that are cut
FAULTS = {"reset before", "reset during", "reset after", "429", "503", "502 after"}


@dataclass
class CutWorld:
    """A server behind the proxy, and Alice's key for it."""

    server: AppServer
    alice: Person
    url: str
    cuts: Path

    def environment(self, texts: list[str]) -> dict[str, str]:
        """What the drivers of other clients read."""
        account = self.alice.bluesky
        return {"URL": self.url, "KEY": self.alice.key, "ACCOUNT": account, "TEXTS": json.dumps(texts)}


@pytest.fixture(scope="session")
def mitmdump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_from_pypi(HERE / "mitmproxy" / "requirements.txt", tmp_path_factory.mktemp("mitmproxy")) / "mitmdump"


@pytest.fixture
def cut_world(tmp_path: Path, lab_thread: SimulatorThread, mitmdump: Path) -> Iterator[CutWorld]:
    lab_thread.lab.reset()
    server = AppServer(tmp_path, lab_thread, MovableClock(), {"limits": UNLIMITED}).start()
    alice = server.connected_person("Alice")
    port, cuts, log = free_port(), tmp_path / "cuts", tmp_path / "log"
    command = [mitmdump, "--mode", f"reverse:{server.url}", "--listen-host", "127.0.0.1", "--listen-port", str(port)]
    options = ["--set", f"confdir={tmp_path / 'settings'}", "-s", HERE / "mitmproxy" / "cut.py"]

    def is_ready() -> bool:
        assert process.poll() is None, log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    with log.open("wb") as written:
        process = subprocess.Popen(
            [*command, *options], stdout=written, stderr=written, env=os.environ | {"CUTS": str(cuts)}
        )
    try:
        wait_until(is_ready, 60)
        yield CutWorld(server, alice, f"http://127.0.0.1:{port}", cuts)
    finally:
        process.terminate()
        process.wait()
        server.stop()


def publish_blocking(world: CutWorld, texts: list[str]) -> list[str]:
    with Socialpub(world.url, world.alice.key, sleep=lambda _: None) as sp:
        return [str(sp.posts.publish_and_wait(text, to=world.alice.bluesky).status) for text in texts]


def publish_awaited(world: CutWorld, texts: list[str]) -> list[str]:
    async def no_wait(seconds: float) -> None:
        await asyncio.sleep(0)

    async def run() -> list[str]:
        async with AsyncSocialpub(world.url, world.alice.key, sleep=no_wait) as sp:
            calls = [sp.posts.publish_and_wait(text, to=world.alice.bluesky) for text in texts]
            return [str(batch.status) for batch in await asyncio.gather(*calls)]

    return asyncio.run(run())


def publish_by_command(world: CutWorld, texts: list[str]) -> list[str]:
    keys = {"SOCIALPUB_URL": world.url, "SOCIALPUB_KEY": world.alice.key}
    ends = []
    for text in texts:
        line = [PROGRAM, "post", text, "--to", world.alice.bluesky, "--external-id", text, "--json"]
        ended = subprocess.run(line, env=os.environ | keys, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        ends.append(json.loads(ended.stdout)["status"])
    return ends


def check(world: CutWorld, texts: list[str], ends: list[str], tell: ReportLine, name: str) -> None:
    """Every publish was answered, each is one post at the simulator, and each kind of fault was met."""
    assert (len(ends), set(ends)) == (len(texts), {"published"})
    assert Counter(entry.text for entry in world.server.lab.lab.ledger.posts()) == Counter(texts)
    cuts = Counter(world.cuts.read_text().splitlines())
    assert cuts.total() == TRIES * len(texts)
    assert set(cuts) == FAULTS or len(texts) < len(FAULTS)
    tell(f"{name}: {len(texts)} publishes, {cuts.total()} tries cut by mitmproxy {dict(cuts)}: each is one post")


@pytest.mark.parametrize("publish", [publish_blocking, publish_awaited, publish_by_command])
def test_cut_publishes_of_our_own_clients_are_one_post(
    cut_world: CutWorld, publish: Callable[[CutWorld, list[str]], list[str]], tell: ReportLine
) -> None:
    name = publish.__name__
    texts = [f"{name}/{number}" for number in range(RUNS)]
    check(cut_world, texts, publish(cut_world, texts), tell, name)


def test_cut_publishes_of_openapi_generator_are_one_post(
    cut_world: CutWorld, python_tools: Path, jar: Path, tmp_path: Path, tell: ReportLine
) -> None:
    document, made = tmp_path / "openapi.json", tmp_path / "python"
    document.write_bytes(cut_world.server.api().get("/openapi.json").content)
    generate(jar, document, "python", made, {"packageName": "client"})
    texts = [f"generated {number}" for number in range(RUNS)]
    command = [python_tools / "python", "-c", (DRIVERS / "repeated_publish.py").read_text()]
    printed = run_tool(command, made, **cut_world.environment(texts))
    check(cut_world, texts, printed.split(), tell, "openapi-generator")


def test_cut_publishes_of_openapi_fetch_are_one_post(cut_world: CutWorld, node_tools: Path, tell: ReportLine) -> None:
    shutil.copy(DRIVERS / "repeated_publish.mjs", node_tools)
    texts = [f"fetched {number}" for number in range(RUNS)]
    printed = run_tool(["node", "repeated_publish.mjs"], node_tools, **cut_world.environment(texts))
    check(cut_world, texts, printed.split(), tell, "openapi-fetch")
