"""Restored old database: publishing stays paused until `resume --after-restore`."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

import httpx
import pytest

from tests.support.app_server import format_instant
from tests.support.soak.invariants import ClientJournal, check_invariants
from tests.support.soak.soak_world import SoakWorld, pause, running_world, wait_for

pytestmark = pytest.mark.slow

POSTS = 100


def test_a_copy_from_before_a_hundred_publishes_posts_nothing_again(tmp_path: Path) -> None:
    with running_world(tmp_path, each=10) as world:
        world.start()
        due = int(time.time() * 1000) + 8000
        _schedule(world, due)
        copy = _copied(world)
        world.drain()
        assert len(world.lab.ledger()) == POSTS
        assert world.stop() == 0
        _put_back(world, copy)

        world.start()
        pause(2.0)
        assert httpx.get(f"{world.url}/readyz", trust_env=False).json()["publishing"] == "paused"
        assert (len(world.lab.ledger()), world.open_posts()) == (POSTS, POSTS)

        code, told, _ = world.command("resume", "--json")
        assert (code, "--after-restore" in told["error"]["message"]) == (3, True)
        code, told, _ = world.command("resume", "--after-restore", "--skip-overdue", "--json")
        assert (code, told["was"], told["paused"], told["publish"]) == (0, "restored", None, [])
        assert len(told["skip"]) == POSTS
        assert wait_for(lambda: _active(world), 60)
        assert world.open_posts() == 0
        assert len(world.lab.ledger()) == POSTS
        with world.client() as client:
            body = {"text": "after", "targets": [{"accountId": world.accounts["plain"][0]}]}
            assert client.post("/v1/posts", json=body).json()["status"] == "published"
        assert world.stop() == 0
        report = check_invariants(world, ClientJournal())
    assert set(report.broken) == {
        "I3 known not to be there, and it is"
    }  # the file is older than the world: it must say so


def _schedule(world: SoakWorld, due: int) -> None:
    accounts = [account for ids in world.accounts.values() for account in ids]
    with world.client() as client:
        for number in range(POSTS):
            target = {"accountId": accounts[number % len(accounts)]}
            body = {"text": f"restored {number}", "targets": [target], "scheduledAt": format_instant(due + number * 10)}
            assert client.post("/v1/posts", json=body).status_code == 202


def _copied(world: SoakWorld) -> Path:
    copy = world.folder / "copy.db"
    with contextlib.closing(sqlite3.connect(world.database)) as source:
        source.execute("VACUUM INTO ?", (str(copy),))
    assert world.open_posts() == POSTS
    return copy


def _put_back(world: SoakWorld, copy: Path) -> None:
    for name in ("socialpub.db-wal", "socialpub.db-shm"):
        world.database.with_name(name).unlink(missing_ok=True)
    world.database.write_bytes(copy.read_bytes())


def _active(world: SoakWorld) -> bool:
    return bool(httpx.get(f"{world.url}/readyz", trust_env=False).json()["publishing"] == "active")
