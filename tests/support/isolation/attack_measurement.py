"""Latency, post delay and server memory of one organization while another attacks."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.support.media_files import picture
from tests.support.soak.soak_world import ROOT, SoakWorld, pause, pressure, running_world, schedule_soon, wait_for

ATTACK_SECONDS = float(os.environ.get("WALLS_SECONDS", "10"))
BEFORE_SECONDS = max(3.0, ATTACK_SECONDS / 2)
AFTER_SECONDS = 2.0
OUT_SECONDS = 60.0  # until all posts are out
WARM_SECONDS = 1.5
COMES_BACK_SECONDS = 75.0  # the server gives back what is free once a minute
GIVE_UP_SECONDS = 30.0  # of one request; it has then failed
HANGING_ACCOUNTS = 150
OWN_ACCOUNTS = 6
MIB = 1 << 20

EVERY = {"publish": 0.4, "upload": 1.0, "list": 0.2}  # seconds between two of a kind
SLOWER = 3  # times what it was before
FLOOR_MS = 50  # below this nothing is slow, on a machine of our own
LATE_MS = 2000
GROWTH_MIB = 150
KEPT_MIB = 64  # what the allocator may keep afterwards


@dataclass(frozen=True)
class ServiceSample:
    kind: str
    began: float
    took_ms: float
    status: int  # 0: no answer


@dataclass
class VictimClient:
    """A client that publishes, uploads and lists all the time, each over a new connection, and has posts due."""

    world: SoakWorld
    name: str
    samples: list[ServiceSample] = field(default_factory=list)
    due: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ends = threading.Event()
        self._pictures = [picture("PNG", (40 + number, 30)) for number in range(40)]
        self._makers: dict[str, Callable[[int], dict[str, Any]]] = {
            "publish": self._publish,
            "upload": self._upload,
            "list": lambda _: {"method": "GET", "url": "/v1/posts?limit=20"},
        }
        self._threads = [threading.Thread(target=self._run, args=(kind,), daemon=True) for kind in self._makers]

    def start(self, seconds: float) -> None:
        """With a post due every second, from three seconds ahead for so long."""
        with self.world.client() as client:
            for number in range(int(seconds)):
                text = f"{self.name} due {number}"
                body = {"text": text, "targets": [self._target(number % 3)]}
                answer, self.due[text] = schedule_soon(client, body, number + 3, number + 8)
                assert answer.status_code == 202, answer.text
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join(2 * GIVE_UP_SECONDS)

    def _run(self, kind: str) -> None:
        number, due = 0, time.monotonic()
        while not self._ends.wait(max(0.0, due - time.monotonic())):
            self.samples.append(self._one(kind, number))
            number, due = number + 1, max(due + EVERY[kind], time.monotonic() - 0.001)

    def _one(self, kind: str, number: int) -> ServiceSample:
        began, status = time.monotonic(), 0
        with contextlib.suppress(httpx.HTTPError), self.world.client(timeout=GIVE_UP_SECONDS) as client:
            status = client.request(**self._makers[kind](number)).status_code
        return ServiceSample(kind, began, (time.monotonic() - began) * 1000, status)

    def _target(self, number: int) -> dict[str, str]:
        return {"accountId": self.world.accounts["bluesky"][number]}

    def _publish(self, number: int) -> dict[str, Any]:
        body = {"text": f"{self.name} now {number}", "targets": [self._target(3 + number % 3)]}
        return {"method": "POST", "url": "/v1/posts", "json": body}

    def _upload(self, number: int) -> dict[str, Any]:
        return {"method": "POST", "url": "/v1/media", "files": {"file": ("a.png", self._pictures[number % 40])}}


class MemorySampler(threading.Thread):
    """The resident memory of a server with its children, several times a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.seen, self._ends = pid, list[tuple[float, float]](), threading.Event()

    def run(self) -> None:
        while not self._ends.wait(0.15):
            self.seen.append((time.monotonic(), self.now()))

    def stop(self) -> None:
        self._ends.set()
        self.join()

    def now(self) -> float:
        return _rss(self.pid) + sum(map(_pss, _children(self.pid)))

    def most(self, begin: float, end: float) -> float:
        return max(mib for at, mib in self.seen if begin <= at <= end)


def _rss(pid: int) -> float:
    return _kib(Path(f"/proc/{pid}/status"), "VmRSS:") / 1024


def _pss(pid: int) -> float:
    """A child's share: what it shares with its parent is counted there."""
    return _kib(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") / 1024


def _kib(file: Path, name: str) -> int:
    with contextlib.suppress(OSError):
        lines = file.read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
    return 0  # it has ended


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, file.read_text().split())
    return found


# --- One row -------------------------------------------------------------------------------------------------------


@dataclass
class AttackResult:
    """What one attack did."""

    attack: str
    sent: int  # by the attackers
    seen: dict[str, int]  # what the attackers were answered, and how often
    before: dict[str, float]  # p99 by kind, in milliseconds
    during: dict[str, float]
    failed: list[ServiceSample]
    late_ms: int
    missing: list[str]
    grown_mib: float
    kept_mib: float
    pressure: float

    def faults(self, *, timed: bool) -> list[str]:
        """What does not hold; without `timed`, of what a busy machine does not change."""
        checks = {
            f"{len(self.failed)} requests failed: {self.failed[:3]}": not self.failed,
            f"posts that did not go out: {self.missing}": not self.missing,
            f"memory grew by {self.grown_mib:.0f} MiB": self.grown_mib <= GROWTH_MIB,
            f"{self.kept_mib:.0f} MiB did not come back": self.kept_mib <= KEPT_MIB,
            "the attackers did not attack": self.sent > 0,
        }
        return [told for told, holds in checks.items() if not holds] + (self._slow() if timed else [])

    def _slow(self) -> list[str]:
        late = [f"a post {self.late_ms} ms late"] if self.late_ms > LATE_MS * self.pressure else []
        return late + [
            f"{kind}: p99 {took:.0f} ms, was {self.before[kind]:.0f} ms (limit {self.limit(kind):.0f} ms)"
            for kind, took in self.during.items()
            if took > self.limit(kind)
        ]

    def limit(self, kind: str) -> float:
        """Of its p99 during the attack."""
        return max(SLOWER * self.before[kind], FLOOR_MS * self.pressure)

    def told(self) -> str:
        """A line of the table."""
        times = " | ".join(f"{self.before[kind]:.0f} → {self.during[kind]:.0f}" for kind in EVERY)
        answers = ", ".join(f"{count} × {name}" for name, count in sorted(self.seen.items()))
        attack = f"{self.sent} sent: {answers or 'no answer'}"
        memory = f"{self.grown_mib:.0f} ({max(0.0, self.kept_mib):.0f} after)"
        held = "**not yet**" if self.faults(timed=True) else "yes"
        return f"| {self.attack} | {attack} | {times} | {self.late_ms} | {memory} | {self.pressure:.1f} | {held} |"


HEAD = (
    "| attack | sent in the time, and answered | publish p99, ms | upload p99, ms | list p99, ms | latest post, ms |"
    " memory + MiB | machine | held |\n|---|---|---|---|---|---|---|---|---|"
)
PROMISES = ROOT / "docs" / "promises.md"


def read_attack_table() -> dict[str, list[str]]:
    """The lines of the table in the promises, by their attacks: the other cells of each."""
    rows = PROMISES.read_text().partition(f"\n{HEAD}\n")[2].partition("\n\n")[0].splitlines()
    cells = ([cell.strip() for cell in row.strip("|").split(" | ")] for row in rows)
    return {attack: others for attack, *others in cells}


def write_attack_row(line: str) -> None:
    """Write a line of the table into the promises, in place of the one about the same attack."""
    attack = line.split(" | ")[0]
    told = PROMISES.read_text().splitlines()
    (at,) = [number for number, there in enumerate(told) if there.split(" | ")[0] == attack]
    PROMISES.write_text("\n".join([*told[:at], line, *told[at + 1 :], ""]))


@dataclass
class AttackSetup:
    """A world of two organizations, in which one attack after another is tried on a server that was just started."""

    world: SoakWorld
    key: str
    accounts: dict[str, list[str]]
    rows: int = 0

    def run(self, attack: str, title: str, *, hangs: bool = False, descriptors: int | None = None) -> AttackResult:
        """`hangs`: the attacker's platform does not answer meanwhile."""
        self.rows += 1
        self._drain()
        busy = _busiest()
        self._allow(descriptors)
        child = self.world.start()
        victim, memory = VictimClient(self.world, f"row {self.rows}"), MemorySampler(child.pid)
        try:
            victim.start(WARM_SECONDS + BEFORE_SECONDS + ATTACK_SECONDS)
            pause(WARM_SECONDS)
            memory.start()
            marks = [time.monotonic()]
            pause(BEFORE_SECONDS)
            marks.append(time.monotonic())
            if hangs:
                self.world.lab.faults({"fault": "delay:600", "platform": "plain", "effect": False})
            attacked = self._attack(attack)
            marks.append(time.monotonic())
            pause(AFTER_SECONDS)
            victim.stop()
            usual = memory.most(marks[0], marks[1])
            wait_for(lambda: memory.now() - usual <= KEPT_MIB * 3 / 4, COMES_BACK_SECONDS, 0.2)
            late = self._late(victim)
            memory.stop()
            kept = memory.now() - usual
            self.world.kill()  # so that it is not its own pressure
            return AttackResult(
                title, *attacked, _p99(victim, marks[0], marks[1]), _p99(victim, marks[1], marks[2]),
                [sample for sample in victim.samples if not 200 <= sample.status < 300],
                max(late.values(), default=0), sorted(set(victim.due) - set(late)),
                memory.most(marks[1], math.inf) - usual, kept, max(busy, _busiest()),
            )  # fmt: skip
        finally:
            self._clean(victim, hangs)

    def _drain(self) -> None:
        """What an attack before has left open comes to its end."""
        if self.world.open_posts():
            self.world.start()
            self.world.drain()
            self.world.kill()

    def _attack(self, attack: str) -> tuple[int, dict[str, int]]:
        asked = {"url": self.world.url, "key": self.key, "accounts": self.accounts, "seconds": ATTACK_SECONDS}
        ended = subprocess.run(
            [sys.executable, "-m", "tests.support.isolation.attackers", attack],
            cwd=ROOT,
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=ATTACK_SECONDS + 240,  # with the making of its bodies
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        told = json.loads(ended.stdout)
        print(json.dumps(told["said"], indent=1))
        return told["sent"], dict(told["seen"])

    def _late(self, victim: VictimClient) -> dict[str, int]:
        """By text, how late each post that is out was."""

        def out() -> dict[str, int]:
            return {
                entry["text"]: entry["at_ms"] - victim.due[entry["text"]]
                for entry in self.world.lab.ledger()
                if entry["text"] in victim.due
            }

        wait_for(lambda: len(out()) == len(victim.due), OUT_SECONDS, 0.3)
        return out()

    def _allow(self, descriptors: int | None) -> None:
        """So many open files for servers that start from now on; else as many as they take."""
        self.world.descriptors = descriptors

    def _clean(self, victim: VictimClient, hangs: bool) -> None:
        self.world.kill()
        victim.stop()
        if hangs:  # what hangs is given up with the server, and goes to nobody's test
            self.world.lab.faults()


def _busiest() -> float:
    """The machine's pressure at its worst in three looks, as the slowest of some requests meets it."""
    return max(pressure() for _ in range(3))


def _p99(victim: VictimClient, begin: float, end: float) -> dict[str, float]:
    """By kind; infinite where none began in this time."""
    return {
        kind: percentile([s.took_ms for s in victim.samples if s.kind == kind and begin <= s.began < end] or [math.inf])
        for kind in EVERY
    }


def percentile(values: list[float], part: float = 0.99) -> float:
    """The percentile by nearest rank: the largest, of less than a hundred."""
    return sorted(values)[math.ceil(part * len(values)) - 1]


@contextlib.contextmanager
def running_setup(folder: Path) -> Iterator[AttackSetup]:
    limits = dict.fromkeys(("posts", "media", "writes", "reads", "failed_logins"), 10_000_000)
    with running_world(folder, OWN_ACCOUNTS, on=("bluesky", "plain", "twitter"), limits=limits) as world:
        world.deadline = None  # a platform that hangs does so for as long as calls may take
        key, accounts = world.another("Mallory", {"plain": HANGING_ACCOUNTS, "twitter": 25})
        yield AttackSetup(world, key, accounts)


ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "ids": ("5 × validate of 25 targets with 10,000 media ids", {}),
    "fields": ("5 × 8 MB of wrong targets, 600,000 unknown fields, a name of 8 MB", {}),
    "cookies": ("no key: 8 × a cookie of 7,000 backslashes", {}),
    "halves": ("no key: 100 half-sent bodies of 8 MiB, 4 × `POST /login` with 8 MB", {}),
    "logins": ("no key: 8 × `POST /login` with 101 fields", {}),
    "images": ("12 × upload of a progressive JPEG of 120 scans", {}),
    "texts": ("8 × validate of 25 texts of 100,000 × `com.`", {}),
    "readers": ("no key: 16 readers of `/docs/reference`", {}),
    "idle": ("no key: 1,100 idle connections at 1,024 descriptors", {"descriptors": 1024}),
    "hanging": (
        "12 × validate of dripping media, 300 immediate posts to a platform that hangs",
        {"hangs": True},
    ),
    "scheduled": (
        "450 scheduled posts of 150 accounts to a platform that hangs",
        {"hangs": True},
    ),
}
