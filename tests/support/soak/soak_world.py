"""Soak environment: simulator and server processes, and functions to start and kill them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from socialpub import platforms
from socialpub.base.config import Settings, load
from socialpub.base.runtime import Runtime, load_vault
from socialpub.domain.access import authentication
from socialpub.domain.access.actor import build_operator
from socialpub.domain.accounts import accounts
from socialpub.domain.context.app_context import close_context, open_context
from socialpub.domain.identity import api_keys
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.api_keys import KeyRequest
from socialpub.domain.schemas.common import parse_instant
from socialpub.domain.schemas.profiles import OrganizationRequest
from socialpub.platforms.contract import AccountIdentity, Tokens
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.store.schema import migration
from tests.support.app_server import format_instant
from tests.support.ports import free_port
from tests.support.soak import extra_platforms
from tests.support.stored_events import SELECT_EVENTS, StoredEvent, decode_events

ROOT = Path(__file__).parents[3]
CLASSES = ("bluesky", "crate", "plain")  # key, container, no key
EIGHT = ("bluesky", "facebook", "instagram", "linkedin", "pinterest", "threads", "tiktok", "twitter")
PUBLIC = ("post", "comment", "draft")  # what the ledger calls that which others see; TikTok's inbox holds drafts
READY_SECONDS = 20.0
CALL_DEADLINE = 1.5  # seconds of one upstream call, so that lost answers do not take half a minute each


def new_seed() -> int:
    """The seed of a run: SOAK_SEED, or a fresh one; every report prints it."""
    return int(os.environ.get("SOAK_SEED") or random.SystemRandom().randrange(2**31))


def configured_count(name: str, default: int) -> int:
    """How often: SOAK_<NAME> overrides, for longer nights."""
    return int(os.environ.get(f"SOAK_{name.upper()}", default))


# --- Processes -----------------------------------------------------------------------------------------------------


class SimulatorProcess:
    """The simulator; its ledger file is the only truth about what was posted."""

    def __init__(self, folder: Path) -> None:
        self.ledger_file = folder / "ledger.jsonl"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.soak.simulator_main", str(self.ledger_file)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        told = json.loads(self._process.stdout.readline())
        self.url, self.origins = told["url"], told["origins"]
        self._client = httpx.Client(base_url=self.url, trust_env=False, timeout=30)

    def post(self, path: str, body: Any) -> Any:
        answer = self._client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def faults(self, *lines: dict[str, Any]) -> None:
        """Replace the script."""
        assert self._client.delete("/lab/faults").is_success
        if lines:
            self.post("/lab/faults", list(lines))

    def script(self) -> list[dict[str, Any]]:
        """The faults in force, with how often each was played."""
        return list(self._client.get("/lab/faults").json())

    def calls(self) -> list[dict[str, Any]]:
        return list(self._client.get("/lab/calls").json())

    def ledger(self) -> list[dict[str, Any]]:
        if not self.ledger_file.exists():
            return []
        entries = [json.loads(line) for line in self.ledger_file.read_text().splitlines()]
        return [entry for entry in entries if entry["kind"] in PUBLIC]

    def close(self) -> None:
        self._client.close()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@dataclass
class ServerProcess:
    """One server process."""

    pid: int
    ended: threading.Event = field(default_factory=threading.Event)
    code: int | None = None

    def signal(self, number: int) -> None:
        if not self.ended.is_set():  # else its number may be somebody else's by now
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, seconds: float) -> int:
        assert self.ended.wait(seconds), f"the server (pid {self.pid}) is still there after {seconds} s"
        assert self.code is not None
        return self.code


class ServerForker:
    """The process that forks servers, so that one starts in a fraction of a second."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.soak.server_main"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "SOCIALPUB_TEST": "1"},
        )
        self._born: queue.Queue[ServerProcess] = queue.Queue()
        self._children: dict[int, ServerProcess] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "code" in told:
                child = self._children.pop(told["pid"])
                child.code = told["code"]
                child.ended.set()
            else:  # a new one, also under the number of one that has ended: a machine has few, and gives them again
                child = self._children[told["pid"]] = ServerProcess(told["pid"])
                self._born.put(child)

    @property
    def pid(self) -> int:
        return self._process.pid

    def fork(self, **asked: Any) -> ServerProcess:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        return self._born.get(timeout=30)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._reader.join(60)
        self._process.stdout.close()


# --- The world -----------------------------------------------------------------------------------------------------


@dataclass
class SoakWorld:
    """Folder, simulator, server, an organization with a key, and connected accounts of each platform.

    `minute`: how many seconds a minute of the connectors' waiting takes. `secrets`: the tokens of the accounts.
    `descriptors`: how many a server may have open; None: as many as this process may.
    """

    folder: Path
    lab: SimulatorProcess
    forker: ServerForker
    platforms: tuple[str, ...] = CLASSES
    minute: float = 60.0
    port: int = field(default_factory=free_port)
    key: str = ""
    accounts: dict[str, list[str]] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    deadline: float | None = CALL_DEADLINE
    descriptors: int | None = None
    child: ServerProcess | None = None

    @property
    def database(self) -> Path:
        return self.folder / "socialpub.db"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def victim(self) -> Path:
        """Where a server that kills itself leaves the name of the platform that it was publishing to."""
        return self.folder / "victim"

    def furnish(self, each: int = 1) -> SoakWorld:
        """A fresh database with `each` accounts of every platform."""
        tables: dict[str, dict[str, Any]] = {
            "server": {"port": self.port},
            "database": {"url": str(self.database)},
            "security": {"allow_private_networks": True},
            "limits": dict.fromkeys(("posts", "media", "writes", "reads"), 1000000),
            "publishing": {"retry_waits": [0.2, 0.4, 0.8], "settle_horizon": 4},
            "scheduling": {"overdue_spacing": 0},
        }
        for name, table in self.settings.items():
            tables[name] = tables.get(name, {}) | table
        app = {"enabled": True, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
        sites = {name: {"api_base": self.lab.origins[name], **app} for name in self.platforms}
        (self.folder / "socialpub.toml").write_text(_toml(tables) + _toml_sites(sites))
        migration.migrate(self.database)
        settings = Settings(**{**tables, "platforms": sites})
        self.key, self.accounts = self._settle(settings, "Soak", dict.fromkeys(self.platforms, each))
        return self

    def another(
        self, name: str, wanted: dict[str, int], others: Iterable[tuple[str, AccountIdentity, Tokens]] = ()
    ) -> tuple[str, dict[str, list[str]]]:
        """One more organization with so many accounts on each platform, while no server runs: its key, and they.

        `others`: accounts that the simulator does not have, which come after those.
        """
        return self._settle(load(self.folder / "socialpub.toml"), name, wanted, others)

    def _settle(
        self,
        settings: Settings,
        name: str,
        wanted: dict[str, int],
        others: Iterable[tuple[str, AccountIdentity, Tokens]] = (),
    ) -> tuple[str, dict[str, list[str]]]:
        service = open_context(Runtime(settings, load_vault(settings)))
        accounts: dict[str, list[str]] = {}
        try:
            organization, profile, key = service.write(lambda tx: _organization(service, tx, name)).result()
            numbers = [(platform, number) for platform, each in wanted.items() for number in range(each)]
            made = ((platform, *self._made(service, platform, f"{name}{n}".lower(), n)) for platform, n in numbers)
            for platform, identity, tokens in itertools.chain(made, others):
                self.secrets |= {tokens.access, tokens.refresh or tokens.access}
                connect = _connecting(service, organization, profile, platform, identity, tokens)
                accounts.setdefault(platform, []).append(service.write(connect).result())
        finally:
            close_context(service)
        return key, accounts

    def _made(self, service: Any, platform: str, name: str, number: int) -> tuple[AccountIdentity, Tokens]:
        if platform == "bluesky":
            handle = f"{name}-{random.SystemRandom().randrange(10**9)}.test"
            made = self.lab.post("/lab/accounts", {"platform": platform, "handle": handle})
            self.secrets.add(made["appPassword"])
            return accounts.login(service, platform, {"handle": made["handle"], "password": made["appPassword"]})
        if platform in extra_platforms.CONNECTORS:
            made = self.lab.post("/lab/accounts", {"platform": platform, "id": f"{self.folder.name}-{name}"})
            return AccountIdentity(made["id"], made["id"]), Tokens(made["accessToken"])
        kind = {"kind": "organization"} if platform == "linkedin" and number % 2 else {}  # members and pages
        made = self.lab.post("/lab/accounts", {"platform": platform, "handle": name, **kind})
        ends = parse_instant(made["expiresAt"]) if made.get("expiresAt") else None
        identity = AccountIdentity(made["platformAccountId"], made["displayName"], made.get("extra", {}))
        return identity, Tokens(made["accessToken"], made.get("refreshToken"), ends)

    # --- Starting and stopping ---

    def start(
        self,
        faults: str = "",
        *,
        wait: bool = True,
        naive: bool = False,
        arguments: tuple[str, ...] = (),
        victims: tuple[str, ...] = (),
    ) -> ServerProcess:
        """A server; `faults` that kill it do so (with `victims`) only while one of these platforms is published to."""
        self.child = self.forker.fork(
            arguments=["serve", "--config", str(self.folder / "socialpub.toml"), *arguments],
            faults=faults,
            naive=naive,
            deadline=self.deadline,
            hurry=self.minute / 60,
            descriptors=self.descriptors,
            victims=victims,
            victim=str(self.victim),
            log=str(self.log),
        )
        if wait:
            assert self.wait_ready(), self.log.read_text()[-3000:]
        return self.child

    def wait_ready(self, seconds: float = READY_SECONDS) -> bool:
        """Whether the port answers in time; False also when the process has ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert self.child is not None
            if self.child.ended.is_set():
                return False
            try:
                httpx.get(f"{self.url}/healthz", trust_env=False, timeout=5)
            except httpx.HTTPError:
                pause(0.01)
            else:
                return True
        return False

    def kill(self) -> None:
        assert self.child is not None
        self.child.signal(signal.SIGKILL)
        self.child.wait(60)

    def stop(self, seconds: float = 30) -> int:
        assert self.child is not None
        self.child.signal(signal.SIGTERM)
        return self.child.wait(seconds)

    def command(self, *arguments: str) -> tuple[int, Any, str]:
        """Run another command beside the server: exit code, its JSON, standard error."""
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.support.soak.command_main",
                *arguments,
                "--config",
                str(self.folder / "socialpub.toml"),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, json.loads(done.stdout) if "--json" in arguments else done.stdout, done.stderr

    def client(self, timeout: float = 70) -> httpx.Client:
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.key}"},
            trust_env=False,
            timeout=timeout,
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    # --- Looking ---

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """What the database file says, whoever has it open."""
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=10)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql, values)]

    def happened(self, **wanted: Any) -> list[StoredEvent]:
        """The events that have these values, in the order of the commits."""
        return decode_events((tuple(row.values()) for row in self.rows(SELECT_EVENTS)), **wanted)

    def open_posts(self) -> int:
        sql = "SELECT count(*) AS n FROM post WHERE status IN ('queued', 'validated', 'publishing')"
        return int(self.rows(sql)[0]["n"])

    def drain(self, seconds: float = 120) -> None:
        """Without faults, wait until every post and every answer has come to its end."""
        self.lab.faults()
        sql = "SELECT count(*) AS n FROM idempotency WHERE status IS NULL"
        assert wait_for(lambda: not self.open_posts() and not self.rows(sql)[0]["n"], seconds), self._stuck()

    def _stuck(self) -> str:
        stuck = self.rows(
            "SELECT p.id, p.platform, p.status, p.scheduled_at, p.next_attempt_at, j.kind, j.visible_at, j.epoch,"
            " i.step, i.sends, i.looks, i.outcome FROM post p LEFT JOIN job j ON j.key = p.id"
            " LEFT JOIN intent i ON i.post = p.number AND i.outcome IS NULL"
            " WHERE p.status IN ('queued', 'validated', 'publishing') LIMIT 5"
        )
        return f"not at their end: {stuck}\n{self.log.read_text()[-2000:]}"


def _organization(service: Any, tx: Any, name: str) -> tuple[str, str, str]:
    who = build_operator(service, "test")
    organization = profiles.create_organization(tx, who, OrganizationRequest(name=name))["id"]
    profile = profiles.list_bodies(authentication.Scope(organization))[0]["id"]
    key = api_keys.create(tx, who.within(organization), KeyRequest(name=name.lower())).body["key"]
    return organization, profile, str(key)


def _connecting(
    service: Any, organization: str, profile: str, platform: str, identity: AccountIdentity, tokens: Tokens
) -> Callable[[Any], str]:
    def connect(tx: Any) -> str:
        return str(accounts.connect(service, tx, organization, profile, platform, identity, tokens)[0]["id"])

    return connect


def _toml(tables: dict[str, dict[str, Any]]) -> str:
    return "".join(
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for name, table in tables.items()
    )


def _toml_sites(sites: dict[str, dict[str, Any]]) -> str:
    return _toml({f"platforms.{name}": table for name, table in sites.items()})


def pressure() -> float:
    """How much longer than alone something takes on this machine now: 1.0 on a quiet one."""
    wall, cpu = time.perf_counter(), time.thread_time()
    while time.thread_time() - cpu < 0.3:
        sum(range(1000))
    return max(1.0, (time.perf_counter() - wall) / (time.thread_time() - cpu))


def pause(seconds: float) -> None:
    """Wait; other processes are what is waited for, and they tell nothing."""
    threading.Event().wait(seconds)


def schedule_soon(client: httpx.Client, body: Any, *leads: float, **headers: str) -> tuple[httpx.Response, int]:
    """Schedule so many seconds ahead; with the next lead where a busy machine was too late for one.

    Returns the response and the due time in milliseconds.
    """
    for seconds in leads:
        due = time.time_ns() // 1_000_000 + int(seconds * 1000)
        answer = client.post("/v1/posts", json=body | {"scheduledAt": format_instant(due)}, headers=headers)
        if answer.status_code != 400:
            break
    return answer, due


def wait_for(ready: Callable[[], Any], seconds: float, step: float = 0.05) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if ready():
            return True
        pause(step)
    return bool(ready())


@contextlib.contextmanager
def running_world(
    folder: Path,
    each: int = 1,
    *,
    on: tuple[str, ...] = CLASSES,
    minute: float = 60.0,
    **settings: dict[str, Any],
) -> Iterator[SoakWorld]:
    """A world without a running server, with `each` accounts `on` these platforms; all it started ends with it."""
    extra_platforms.register()
    assert set(on) <= set(platforms.CONNECTORS)
    lab, forker = SimulatorProcess(folder), ServerForker(folder)
    world = SoakWorld(folder, lab, forker, on, minute, settings=settings)
    try:
        yield world.furnish(each)
    finally:
        if world.child is not None and not world.child.ended.is_set():
            world.kill()
        forker.close()
        lab.close()
        extra_platforms.unregister()
