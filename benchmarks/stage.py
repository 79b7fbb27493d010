"""The processes that a run needs: the simulator, a bare Sanic server, and socialpub of one or more checkouts."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.machine import BenchError, Process, free_ports
from socialpub.simulator.server import PORTS

ROOT = Path(__file__).parents[1]
ACCOUNTS = 25  # as many as a batch may have targets
SIMULATED = "bluesky"  # one call for each post, without a step before it
UNLIMITED = 1_000_000_000  # requests a minute: the measurement is not about the windows


class Simulator:
    """The bundled simulator as a process of its own."""

    def __init__(self, folder: Path) -> None:
        port = free_ports(PORTS)
        self.process = Process(
            [sys.executable, "-m", "socialpub", "simulator", "--port", str(port), "--json"],
            ROOT,
            folder / "simulator.log",
        )
        self.process.wait_listening(port + PORTS - 1)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60)
        self.origin = json.loads(self.process.log.read_text().splitlines()[0])["platforms"][SIMULATED]

    def account(self, handle: str) -> dict[str, Any]:
        made = self.client.post("/lab/accounts", json={"platform": SIMULATED, "handle": handle})
        return dict(made.raise_for_status().json())

    def configure(self, **settings: int) -> None:
        self.client.post("/lab/settings", json=settings).raise_for_status()

    def reset(self) -> None:
        """Forget what was published; accounts stay."""
        self.client.post("/lab/reset").raise_for_status()

    def ledger(self, since: int = 0) -> list[dict[str, Any]]:
        return list(self.client.get("/lab/ledger", params={"since": since}).raise_for_status().json())

    def stop(self) -> None:
        self.client.close()
        self.process.stop()


class Bare:
    """The bare Sanic server."""

    def __init__(self, folder: Path) -> None:
        port = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.process = Process([sys.executable, "-m", "benchmarks.bare", str(port)], ROOT, folder / "bare.log")
        self.process.wait_listening(port)

    def stop(self) -> None:
        self.process.stop()


@dataclass
class Side:
    """socialpub as one checkout has it, on a database of its own; `process` is there while it serves."""

    name: str
    checkout: Path
    folder: Path
    simulator: Simulator
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    port: int = field(default_factory=lambda: free_ports(1))
    key: str = ""
    accounts: list[str] = field(default_factory=list)
    process: Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> Path:
        return self.folder / "socialpub.db"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    @property
    def python(self) -> str:
        """The checkout's own, where it has one."""
        own = self.checkout / ".venv" / "bin" / "python"
        return str(own) if own.exists() else sys.executable

    def furnish(self) -> None:
        """Write the settings, and make an organization with a key and connected accounts."""
        self.folder.mkdir(parents=True, exist_ok=True)
        tables: dict[str, dict[str, Any]] = {
            "server": {"port": self.port},
            "database": {"url": str(self.database)},
            "security": {"allow_private_networks": True},
            "limits": dict.fromkeys(("posts", "media", "writes", "reads"), UNLIMITED),
            f"platforms.{SIMULATED}": {"api_base": self.simulator.origin},
        }
        for name, table in self.settings.items():
            tables[name] = tables.get(name, {}) | table
        config = self.folder / "socialpub.toml"
        config.write_text("".join(_toml(name, table) for name, table in tables.items()))
        config.chmod(0o600)
        organization = self.commands([["org", "create", "Bench"], ""])[0]["id"]
        profile = self.commands([["profile", "list", "--org", organization], ""])[0][0]["id"]
        self.people(organization, profile)

    def people(self, organization: str, profile: str) -> None:
        """A key, and accounts that the simulator knows."""
        made = [self.simulator.account(f"bench-{self.port}-{number}.test") for number in range(ACCOUNTS)]
        connect = ["account", "connect", SIMULATED, "--profile", profile, "--handle"]
        key, *accounts = self.commands(
            [["key", "create", "--org", organization], ""],
            *([[*connect, one["handle"]], one["appPassword"]] for one in made),
        )
        self.key, self.accounts = key["key"], [account["id"] for account in accounts]

    def commands(self, *asked: Sequence[Any]) -> list[Any]:
        """What the commands of this checkout answer."""
        config = ["--config", str(self.folder / "socialpub.toml")]
        done = subprocess.run(
            [self.python, str(ROOT / "benchmarks" / "furnish.py")],
            cwd=self.checkout,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(self.checkout)},
            input=json.dumps([[[*arguments, *config], secret] for arguments, secret in asked]),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BenchError(f"{self.checkout}: {done.stderr[-2000:]}")
        return list(json.loads(done.stdout))

    def start(self, **environment: str) -> Process:
        """Serve, and be ready."""
        self.process = Process(
            [self.python, "-m", "socialpub", "serve", "--config", str(self.folder / "socialpub.toml")],
            self.checkout,
            self.folder / "server.log",
            environment,
        )
        self.process.wait_listening(self.port)
        return self.process

    def stop(self) -> None:
        if self.process:
            self.process.stop()
            self.process = None

    @property
    def running(self) -> Process:
        if self.process is None:
            raise BenchError(f"{self.name} does not run.")
        return self.process

    def get(self, path: str, **query: Any) -> Any:
        answer = httpx.get(self.url + path, params=query, headers=self.headers, trust_env=False, timeout=60)
        return answer.raise_for_status()

    def post(self, body: dict[str, Any]) -> Any:
        answer = httpx.post(self.url + "/v1/posts", json=body, headers=self.headers, trust_env=False, timeout=60)
        return answer.raise_for_status().json()


def _toml(name: str, table: dict[str, Any]) -> str:
    return f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())


@contextlib.contextmanager
def simulator(folder: Path) -> Iterator[Simulator]:
    made = Simulator(folder)
    try:
        yield made
    finally:
        made.stop()


@contextlib.contextmanager
def bare(folder: Path) -> Iterator[Bare]:
    made = Bare(folder)
    try:
        yield made
    finally:
        made.stop()


@contextlib.contextmanager
def serving(sides: Sequence[Side]) -> Iterator[None]:
    try:
        for side in sides:
            side.start()
        yield
    finally:
        for side in sides:
            side.stop()
