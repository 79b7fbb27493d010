"""Processes of a run: the simulator, a bare Sanic server, and socialpub checkouts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks import dataset
from benchmarks.processes import BenchError, BenchmarkProcess, free_ports
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import PORTS

# Of the environment of development, httpx takes more than it takes where only socialpub is installed: its command line.
AS_INSTALLED = (
    "import runpy, sys; sys.modules.update(dict.fromkeys(('rich', 'pygments'))); "
    "runpy.run_module('socialpub', run_name='__main__', alter_sys=True)"
)
ROOT = Path(__file__).parents[1]
ACCOUNTS = 25  # as many as a batch may have targets
SIMULATED = "twitter"  # one call for each post, and no step before it
UNLIMITED = 1_000_000_000  # requests a minute: this is not about the windows


class SimulatorProcess:
    """The bundled simulator as a process of its own. The file `published` has a line for each post that is out."""

    def __init__(self, folder: Path) -> None:
        port, self.published = free_ports(PORTS), folder / "published.jsonl"
        command = ["-m", "socialpub", "simulator", "--port", str(port), "--json", "--ledger", str(self.published)]
        self.process = BenchmarkProcess([sys.executable, *command], ROOT, folder / "simulator.log")
        told = json.loads(self.process.wait_told("{"))  # once all of its ports listen
        self.client = httpx.Client(base_url=told["url"], trust_env=False, timeout=60)
        self.origin = str(told["platforms"][SIMULATED])
        self._people = 0

    def account(self) -> dict[str, Any]:
        """Somebody new there, with tokens."""
        self._people += 1
        made = self.client.post("/lab/accounts", json={"platform": SIMULATED, "handle": f"bench{self._people}"})
        return dict(made.raise_for_status().json())

    def configure(self, **settings: int) -> None:
        self.client.post("/lab/settings", json=settings).raise_for_status()

    def stop(self) -> None:
        self.client.close()
        self.process.stop()


class BareServer:
    """The bare Sanic server."""

    def __init__(self, folder: Path) -> None:
        port = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.process = BenchmarkProcess(
            [sys.executable, "-m", "benchmarks.bare_server", str(port)], ROOT, folder / "bare.log"
        )
        self.process.wait_listening(port)


@dataclass
class BenchmarkAccounts:
    """An organization's key and connected accounts."""

    key: str = ""
    accounts: list[str] = field(default_factory=list)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


@dataclass
class CheckoutServer:
    """socialpub as one checkout has it, on a database of its own; `process` is there while it serves.

    `home`: whose database it begins with; None: an empty one.
    """

    name: str
    checkout: Path
    folder: Path
    simulator: SimulatorProcess
    home: Path | None = None
    port: int = field(default_factory=lambda: free_ports(1))
    people: BenchmarkAccounts = field(default_factory=BenchmarkAccounts)
    crowd: BenchmarkAccounts = field(default_factory=BenchmarkAccounts)
    process: BenchmarkProcess | None = None
    started: float = 0.0  # seconds that the start took
    _resumed: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> Path:
        return self.folder / "socialpub.db"

    @property
    def python(self) -> str:
        return self.python_of(self.checkout)

    @staticmethod
    def python_of(checkout: Path) -> str:
        """The checkout's own, where it has one."""
        own = checkout / ".venv" / "bin" / "python"
        return str(own) if own.exists() else sys.executable

    @property
    def environment(self) -> dict[str, str]:
        """So that the code is the checkout's, and marks of databases stay in the folder.

        Bytecode is kept, as pip keeps it: else each start would compile all of the code, wherever somebody has it so.
        """
        ours = {"PYTHONPATH": str(self.checkout), "XDG_STATE_HOME": str(self.folder / "state")}
        return {**os.environ, **ours, "PYTHONDONTWRITEBYTECODE": ""}

    # --- Furniture ---

    def furnish(self, crowd: int = 0) -> None:
        """Write the settings; copy or make the database; make keys, and accounts that the simulator knows.

        `crowd`: accounts of another organization, for posts that are due at once: those of one account go in turn.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        app = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "api_base": self.simulator.origin}
        tables: dict[str, dict[str, Any]] = {
            "server": {"port": self.port},
            "database": {"url": str(self.database)},
            "security": {"allow_private_networks": True},
            "limits": dict.fromkeys(("posts", "media", "writes", "reads"), UNLIMITED),
            f"platforms.{SIMULATED}": app,
        }
        config = self.folder / "socialpub.toml"
        config.write_text("".join(_toml(name, table) for name, table in tables.items()))
        config.chmod(0o600)
        if self.home:
            dataset.copy_database(self.home, self.folder)
            (self.folder / "media").mkdir(exist_ok=True)  # its rows name files, which no page reads
            wanted = [
                (dataset.ORGANIZATION, dataset.BIG, ACCOUNTS),
                (dataset.NEIGHBOUR, dataset.NEIGHBOURS_PROFILE, crowd),
            ]
        else:
            wanted = [(*self._organization("Bench"), ACCOUNTS), (*self._organization("Crowd"), crowd)]
        self.people, self.crowd = self._settle(*wanted)

    def _organization(self, name: str) -> tuple[str, str]:
        (made,) = self.commands((["org", "create", name], ""))
        (found,) = self.commands((["profile", "list", "--org", made["id"]], ""))
        return made["id"], found[0]["id"]

    def _settle(self, *wanted: tuple[str, str, int]) -> list[BenchmarkAccounts]:
        """A key and so many accounts for each of these organizations and profiles."""
        asked, tokens = [], ("accessToken", "refreshToken", "expiresAt", "extra")
        for organization, profile, count in wanted:
            asked.append((["key", "create", "--org", organization], ""))
            for _ in range(count):
                made, add = self.simulator.account(), ["account", "add", "--profile", profile, "--platform", SIMULATED]
                given = json.dumps({name: made[name] for name in tokens})
                asked.append(([*add, "--platform-account-id", made["platformAccountId"]], given))
        answers = iter(self.commands(*asked))
        return [
            BenchmarkAccounts(next(answers)["key"], [next(answers)["id"] for _ in range(count)]) for *_, count in wanted
        ]

    def commands(self, *asked: tuple[list[str], str]) -> list[Any]:
        """What commands of this checkout answer, each with its arguments and standard input."""
        config = ["--config", str(self.folder / "socialpub.toml")]
        done = subprocess.run(
            [self.python, str(ROOT / "benchmarks" / "administration.py")],
            cwd=self.folder,
            env=self.environment,
            input=json.dumps([[[*arguments, *config], given] for arguments, given in asked]),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BenchError(f"{self.checkout}: {done.stderr[-2000:]}")
        return list(json.loads(done.stdout))

    # --- Serving ---

    def start(self, **environment: str) -> BenchmarkProcess:
        """Serve, and be ready."""
        self.process = BenchmarkProcess(
            [self.python, "-c", AS_INSTALLED, "serve", "--config", str(self.folder / "socialpub.toml")],
            self.folder,
            self.folder / "server.log",
            {**self.environment, **environment},
        )
        self.started = self.process.wait_listening(self.port)
        if self.home and not self._resumed:  # its database is a copy, with which a server publishes only once told so
            self.commands((["resume", "--after-restore"], ""))
            self._resumed = True
        return self.process

    def stop(self) -> None:
        if self.process:
            self.process.stop()
            self.process = None

    @property
    def running(self) -> BenchmarkProcess:
        if self.process is None:
            raise BenchError(f"{self.name} does not run.")
        return self.process

    def get(self, path: str, **query: Any) -> httpx.Response:
        headers = self.people.headers
        answer = httpx.get(self.url + path, params=query, headers=headers, trust_env=False, timeout=60)
        return answer.raise_for_status()

    def post(self, body: dict[str, Any]) -> Any:
        answer = httpx.post(self.url + "/v1/posts", json=body, headers=self.people.headers, trust_env=False, timeout=60)
        return answer.raise_for_status().json()


@dataclass
class BenchmarkSetup:
    """Everything that a run has: where its files are, the servers, how often and how long each load is.

    The first side is the one that is judged; `empty` is the same code on a database of a page.
    """

    folder: Path
    bare: BareServer
    simulator: SimulatorProcess
    sides: list[CheckoutServer]
    rounds: int
    seconds: int
    quick: bool = False
    steady_seconds: int = 300
    empty: CheckoutServer | None = None

    @property
    def first(self) -> CheckoutServer:
        return self.sides[0]


def _toml(name: str, table: dict[str, Any]) -> str:
    return f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())


@contextlib.contextmanager
def running_simulator(folder: Path) -> Iterator[SimulatorProcess]:
    made = SimulatorProcess(folder)
    try:
        yield made
    finally:
        made.stop()


@contextlib.contextmanager
def running_bare_server(folder: Path) -> Iterator[BareServer]:
    made = BareServer(folder)
    try:
        yield made
    finally:
        made.process.stop()


@contextlib.contextmanager
def running_servers(*sides: CheckoutServer) -> Iterator[None]:
    try:
        for side in sides:
            side.start()
        yield
    finally:
        for side in sides:
            side.stop()
