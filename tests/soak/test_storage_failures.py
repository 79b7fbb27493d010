"""Storage failures under a real server: full disk, damage, stale logs, second server."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.app_server import format_instant
from tests.support.reporting import TIMED, ReportLine
from tests.support.soak.client_load import ClientLoad
from tests.support.soak.invariants import check_invariants, database_problems
from tests.support.soak.soak_world import (
    ROOT,
    SoakWorld,
    configured_count,
    new_seed,
    pause,
    running_world,
    wait_for,
)

pytestmark = pytest.mark.slow

FLIPS = configured_count("flips", 200)
NOBODY = 65534


def test_a_full_disk_is_told_and_forgotten_without_a_restart(tmp_path: Path) -> None:
    """No file may grow beyond 4 KiB for a while: what the system says to every write of the log."""
    with running_world(tmp_path, each=4) as world:
        child = world.start()
        load = ClientLoad(world, 60, new_seed(), pace=0.1).start()
        pause(1.5)
        before = resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        pause(1.0)
        sent = _sends(world)
        with world.client() as client:
            refused = client.post("/v1/posts", json=_body(world, "full"))
            listed = client.get("/v1/posts")
        assert (refused.status_code, refused.json()["error"]["rule"]) == (503, "storage.unavailable")
        assert int(refused.headers["Retry-After"]) > 0
        assert listed.status_code == 200
        pause(2.0)
        assert _sends(world) == sent  # nothing goes out whose intent cannot be written
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, before)
        began = time.monotonic()
        with world.client() as client:
            assert wait_for(lambda: client.post("/v1/posts", json=_body(world, "free")).is_success, 60)
        assert time.monotonic() - began < 5 or not TIMED
        journal = load.finish()
        world.drain()
        assert world.stop() == 0
        report = check_invariants(world, journal)
    assert report.whole, report.lines()


def _sends(world: SoakWorld) -> int:
    return sum(call["operation"].endswith(("putRecord", "publish", "post")) for call in world.lab.calls())


def _body(world: SoakWorld, text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "targets": [{"accountId": world.accounts["plain"][0]}], **more}


def test_flipped_bits_are_refused_and_nothing_is_published(tmp_path: Path, tell: ReportLine) -> None:
    seed = new_seed()
    chance, outcomes = random.Random(seed), Counter[str]()
    silent: list[str] = []  # what a server said that said no reason
    with running_world(tmp_path) as world:
        _fill(world)
        whole = world.database.read_bytes()
        wanted = _listed(world)
        held = [at for at, byte in enumerate(whole) if byte]  # most of the file is empty space, where nothing is lost
        for number in range(FLIPS):
            damaged = bytearray(whole)
            at, bit = chance.choice(held) if number % 2 else chance.randrange(len(whole)), chance.randrange(8)
            damaged[at] ^= 1 << bit
            outcome, told = _served(world, bytes(damaged), wanted)
            outcomes[outcome] += 1
            if outcome == "refused without a reason":
                silent.append(f"bit {bit} of byte {at}: {told}")
        published = world.lab.ledger()
    tell(f"{FLIPS} flipped bits: seed {seed}, {dict(outcomes)}")
    assert not outcomes["started on a file that integrity_check calls damaged"]
    assert not silent, f"seed {seed}: {silent}"
    assert not outcomes["served, no JSON"]
    assert published == []


def _fill(world: SoakWorld) -> None:
    world.start()
    later = format_instant(int((time.time() + 86400) * 1000))
    with world.client() as client:
        for number in range(60):
            body = _body(world, f"flip {number} " + "x" * 200, scheduledAt=later)
            assert client.post("/v1/posts", json=body).is_success
    assert world.stop() == 0


def _listed(world: SoakWorld) -> list[Any]:
    world.start()
    with world.client() as client:
        found = client.get("/v1/posts?limit=200").json()["data"]
    assert world.stop() == 0
    return list(found)


def _served(world: SoakWorld, content: bytes, wanted: list[Any]) -> tuple[str, str]:
    """What a server does with this file, and what it says before it is ready."""
    for old in world.folder.glob("socialpub.db-*"):
        old.unlink()
    world.database.write_bytes(content)
    sound = _is_sound(world.database)
    world.database.write_bytes(content)
    lines = world.log.read_text().count("\n")
    child = world.start(wait=False)
    if not world.wait_ready():
        assert child.wait(60) == 1
        told = "\n".join(world.log.read_text().split("\n")[lines:])
        why = "socialpub.db" in told or "master.key" in told  # or: sealed with a key that is not there
        return ("refused" if why and "Traceback" not in told else "refused without a reason"), told
    with world.client() as client:
        answer = client.get("/v1/posts?limit=200")
    world.kill()
    if not sound:
        return "started on a file that integrity_check calls damaged", ""
    try:
        same = answer.is_success and answer.json()["data"] == wanted
    except ValueError:
        return "served, no JSON", repr(answer.content[:3000])
    return ("served as it was" if same else "served, content changed"), ""


def _is_sound(database: Path) -> bool:
    try:
        return database_problems(database) == []
    except (sqlite3.DatabaseError, UnicodeDecodeError):  # what is wrong may be said in the damaged bytes themselves
        return False


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00" + bytes(100), b"no database\n" * 500])
def test_a_cut_or_overwritten_file_is_refused_or_is_a_fresh_one(content: bytes, tmp_path: Path) -> None:
    with running_world(tmp_path) as world:
        _fill(world)
        for old in world.folder.glob("socialpub.db-*"):
            old.unlink()
        world.database.write_bytes(content)
        child = world.start(wait=False)
        if content:
            assert child.wait(60) == 1
            assert world.database.read_bytes() == content
            assert "Nothing was changed" in world.log.read_text()
        else:  # an empty file is what SQLite makes first: a new database, whose key file must not be replaced
            world.wait_ready()
        assert world.lab.ledger() == []


def test_a_stale_log_beside_the_file_is_never_a_traceback(tmp_path: Path) -> None:
    with running_world(tmp_path) as world:
        world.start()
        with world.client() as client:
            for number in range(20):
                client.post("/v1/posts", json=_body(world, f"stale {number}"))
        log = world.database.with_name("socialpub.db-wal")
        old = log.read_bytes()
        assert world.stop() == 0
        posted = len(world.lab.ledger())
        log.write_bytes(old)
        world.start(wait=False)
        world.wait_ready()
        world.kill()
        assert len(world.lab.ledger()) == posted
        assert "Traceback" not in world.log.read_text()


def test_of_ten_servers_on_one_file_exactly_one_lives(tmp_path: Path) -> None:
    with running_world(tmp_path) as world:
        config = str(world.folder / "socialpub.toml")
        command = [sys.executable, "-m", "tests.support.soak.command_main", "serve", "--config", config, "--port", "0"]
        told = world.folder / "first.log"
        with told.open("w") as stderr:
            first = subprocess.Popen(command, cwd=ROOT, stderr=stderr)
        others = []
        try:
            lock = world.folder / "socialpub.db.lock"
            assert wait_for(lambda: lock.exists() and lock.stat().st_size, 60)
            assert wait_for(lambda: "serves" in told.read_text(), 60)
            for _ in range(9):
                used = _work_of_children()
                done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
                others.append((done.returncode, _work_of_children() - used, done.stderr))
            assert first.poll() is None
        finally:
            first.send_signal(signal.SIGTERM)
            assert first.wait(60) == 0
    assert [code for code, _, _ in others] == [3] * 9
    assert max(seconds for _, seconds, _ in others) < 2  # of work: a machine that is busy makes it later, not more
    assert all("another socialpub already serves" in said and "Traceback" not in said for _, _, said in others)


def _work_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_server_that_another_has_fenced_off_ends_by_itself(tmp_path: Path) -> None:
    with running_world(tmp_path) as world:
        child = world.start()
        with contextlib.closing(sqlite3.connect(world.database)) as another, another:
            another.execute("UPDATE instance SET epoch = epoch + 1")
        with world.client() as client:
            assert client.post("/v1/posts", json=_body(world, "fenced")).status_code == 503
        assert child.wait(60) == 3
        assert "has taken over" in world.log.read_text()
        assert world.lab.ledger() == []


@pytest.mark.parametrize(
    "hurt, message",
    [
        ("folder", "cannot write beside the database"),
        ("key gone", "the key file is missing"),
        ("key open", "chmod 600"),
        ("key other", "master.key"),
    ],
)
def test_what_is_in_the_way_of_a_start_is_said_before_the_port_opens(hurt: str, message: str, tmp_path: Path) -> None:
    with running_world(tmp_path) as world:
        world.start()
        assert world.stop() == 0
        key, lock = world.folder / "master.key", world.folder / "socialpub.db.lock"
        before = world.database.read_bytes()
        if hurt == "folder":
            lock.unlink()
            lock.mkdir()  # root may write anywhere, but not into a folder as if it were a file
        elif hurt == "key gone":
            key.unlink()
        elif hurt == "key open":
            key.chmod(0o644)
        elif hurt == "key other":
            key.write_text("not a key\n")
        code, _, told = world.command("serve")
        assert code == 1, told
        assert message in told
        assert "Traceback" not in told
        assert world.database.read_bytes() == before
